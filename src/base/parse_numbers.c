/* parse_numbers.c: parses numbers, sizes and durations of command lines. Declared in options.h. */
#include "base/options.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

/*
 * Parses at least one digit at *text and moves *text after the last. Returns 0, or -EINVAL when
 * there is none and on overflow.
 */
static int digits(const char **text, unsigned base, uint64_t *value)
{
	const char *p = *text;
	uint64_t v = 0;

	for (;; p++) {
		unsigned lower = (unsigned char)*p | 0x20, digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned)(*p - '0');
		else if (base == 16 && lower >= 'a' && lower <= 'f')
			digit = lower - 'a' + 10;
		else
			break;
		if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v))
			return -EINVAL;
	}
	if (p == *text)
		return -EINVAL;
	*text = p;
	*value = v;
	return 0;
}

int parse_u64(const char *text, uint64_t *value)
{
	unsigned base = text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10;
	uint64_t v;

	if (base == 16)
		text += 2;
	if (digits(&text, base, &v) < 0 || *text)
		return -EINVAL;
	*value = v;
	return 0;
}

int parse_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "kmgtp";
	uint64_t v;

	if (digits(&text, 10, &v) < 0)
		return -EINVAL;
	for (unsigned i = 0; *text && units[i]; i++) {
		if ((*text | 0x20) != units[i])
			continue;
		if (__builtin_mul_overflow(v, UINT64_C(1) << (10 * (i + 1)), &v))
			return -EINVAL;
		text++;
		break;
	}
	if (*text && strcasecmp(text, "b") != 0 && strcasecmp(text, "ib") != 0)
		return -EINVAL;
	*bytes = v;
	return 0;
}

/* Returns the digits after the decimal point as nanoseconds; finer digits are cut off. */
static uint64_t fraction(const char **text, uint64_t unit_ns)
{
	uint64_t v = 0, scale = 1;

	for (; **text >= '0' && **text <= '9'; ++*text) {
		if (scale >= UINT64_C(1000000000000))
			continue;
		v = 10 * v + (uint64_t)(**text - '0');
		scale *= 10;
	}
	return (uint64_t)((unsigned __int128)v * unit_ns / scale);
}

int parse_duration(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "", NS_PER_S },        { "ns", 1 },       { "us", NS_PER_US },
		      { "ms", NS_PER_MS },     { "s", NS_PER_S }, { "m", 60 * NS_PER_S },
		      { "h", 3600 * NS_PER_S } };
	const char *point;
	uint64_t v;

	if (digits(&text, 10, &v) < 0)
		return -EINVAL;
	point = text;
	if (*text == '.' && !(text[1] >= '0' && text[1] <= '9'))
		return -EINVAL;
	if (*text == '.')
		text += 1 + strspn(text + 1, "0123456789");
	for (unsigned i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(text, units[i].name) != 0)
			continue;
		if (__builtin_mul_overflow(v, units[i].ns, &v))
			return -EINVAL;
		if (*point == '.') {
			point++;
			if (__builtin_add_overflow(v, fraction(&point, units[i].ns), &v))
				return -EINVAL;
		}
		*ns = v;
		return 0;
	}
	return -EINVAL;
}
