#include "record/start_time.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "support/cmocka_tests.h"

#define NOON UINT64_C(1767268800) /* 2026-01-01T12:00:00Z, in UTC-5 at 7:00 */

static const struct sample {
	const char *text;
	uint64_t at_s; /* from NOON + 0.5 s; 0: refused */
} samples[] = {
	{ "/10s", NOON + 10 },
	{ "/1s", NOON + 1 },
	{ "/1m", NOON + 60 },
	{ "/7s", (NOON / 7 + 1) * 7 },
	{ "/0s", 0 },
	{ "/", 0 },
	{ "/2d", 0 },
	{ "/10x", 0 },
	{ "07:30", NOON + 1800 },
	{ "07:00:01", NOON + 1 },
	{ "07:00:00", NOON + 86400 }, /* half a second ago: tomorrow */
	{ "06:59", NOON + 86340 },
	{ "7:30:61x", 0 },
	{ "25:00", 0 },
	{ "2026-01-01T12:00:05Z", NOON + 5 },
	{ "2026-01-01T07:00:05", NOON + 5 },
	{ "2026-02-01T12:00:00Z", NOON + 31 * 86400 },
	{ "2026-01-01T12:00:00Z", 0 }, /* over */
	{ "1900-01-01T12:00:00Z", 0 },
	{ "2026-01-01", 0 },
	{ "", 0 },
	{ "soon", 0 },
};

static void times_are_parsed(void **state)
{
	(void)state;
	setenv("TZ", "XYZ5", 1);
	tzset();
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *s = &samples[i];
		struct error e = { 0 };
		uint64_t at_ns = 0;
		int rc = start_time_parse(s->text, NOON * NS_PER_S + NS_PER_S / 2, &at_ns, &e);

		if (rc != (s->at_s ? 0 : E_USAGE) || at_ns != s->at_s * NS_PER_S)
			fail_msg("%s: %d, %lld s from noon", s->text, rc,
				 (long long)(at_ns / NS_PER_S - NOON));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
