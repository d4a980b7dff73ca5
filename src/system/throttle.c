#include "system/throttle.h"

static const struct {
	const char *name;
	bool limit;
} reasons[THROTTLE_REASONS] = {
	{ "idle", false },
	{ "application clocks", false },
	{ "power limit", true },
	{ "hardware slowdown", true },
	{ "sync boost", true },
	{ "thermal slowdown", true },
	{ "hardware thermal slowdown", true },
	{ "power brake", true },
	{ "display clocks", false },
};

const char *throttle_reason(unsigned bit)
{
	return bit < THROTTLE_REASONS ? reasons[bit].name : NULL;
}

bool throttle_is_a_limit(unsigned bit)
{
	return bit < THROTTLE_REASONS && reasons[bit].limit;
}

void throttle_text(uint64_t bits, struct strbuf *out)
{
	const char *separator = "";

	for (unsigned bit = 0; bit < THROTTLE_REASONS; bit++) {
		if (!(bits >> bit & 1) || !reasons[bit].limit)
			continue;
		strbuf_addf(out, "%s%s", separator, reasons[bit].name);
		separator = ", ";
	}
}
