#include "analysis/capabilities.h"

#include <string.h>

static const char *text_of(const struct trace *t, int column, uint64_t row)
{
	bool missing;
	uint64_t id = trace_value(t, TABLE_capability, column, row, &missing);

	return missing ? "" : trace_string(t, (uint32_t)id);
}

int capability_find(struct trace *t, const char *name, struct capability_note *out, struct error *e)
{
	int r = trace_load(t, TABLE_capability, 0, e);
	const uint64_t *times = trace_u64(t, TABLE_capability, COLUMN_capability_time_ns);
	const uint8_t *states = trace_u8(t, TABLE_capability, COLUMN_capability_state);
	uint64_t latest = 0;

	*out = (struct capability_note){ .asked = "", .got = "", .reason = "" };
	for (uint64_t row = 0; r >= 0 && row < trace_rows(t, TABLE_capability); row++) {
		if (strcmp(text_of(t, COLUMN_capability_name, row), name) != 0 ||
		    times[row] < latest)
			continue;
		latest = times[row];
		*out = (struct capability_note){
			.known = true,
			.state = (enum capability_state)states[row],
			.asked = text_of(t, COLUMN_capability_asked, row),
			.got = text_of(t, COLUMN_capability_got, row),
			.reason = text_of(t, COLUMN_capability_reason, row),
		};
	}
	return r < 0 ? r : 0;
}
