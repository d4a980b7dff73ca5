#include "record/start_time.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/options.h"

#define DAY_S 86400

/* Parses a time of the day to the next such local time. False: it is none. */
static bool parse_clock(const char *text, time_t now, time_t *at)
{
	static const char *const formats[] = { "%H:%M:%S", "%H:%M" };
	struct tm tm;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const char *end;

		if (!localtime_r(&now, &tm))
			return false;
		tm.tm_sec = 0;
		end = strptime(text, formats[i], &tm);
		if (!end || *end)
			continue;
		tm.tm_isdst = -1;
		*at = mktime(&tm);
		if (*at <= now) {
			tm.tm_mday++;
			tm.tm_isdst = -1;
			*at = mktime(&tm);
		}
		return true;
	}
	return false;
}

static bool parse_date(const char *text, time_t *at)
{
	struct tm tm = { .tm_isdst = -1 };
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!end || (*end && strcmp(end, "Z") != 0))
		return false;
	*at = *end ? timegm(&tm) : mktime(&tm);
	return true;
}

int start_time_parse(const char *text, uint64_t now_ns, uint64_t *at_ns, struct error *e)
{
	uint64_t period_ns;
	time_t at;

	if (*text == '/') {
		if (parse_duration(text + 1, &period_ns) < 0 || !period_ns ||
		    period_ns > DAY_S * NS_PER_S)
			return error_set(e, E_USAGE, "'%s' is no period up to a day, such as /10s",
					 text);
		*at_ns = (now_ns / period_ns + 1) * period_ns;
		return 0;
	}
	if (!parse_clock(text, (time_t)(now_ns / NS_PER_S), &at) && !parse_date(text, &at))
		return error_set(e, E_USAGE,
				 "'%s' is no time: /10s, 12:30, 12:30:15, 2026-01-31T12:30:15 or "
				 "2026-01-31T12:30:15Z",
				 text);
	if (at <= 0 || (uint64_t)at > UINT64_MAX / NS_PER_S / 2 ||
	    (uint64_t)at * NS_PER_S <= now_ns)
		return error_set(e, E_USAGE, "'%s' is over", text);
	*at_ns = (uint64_t)at * NS_PER_S;
	return 0;
}
