#include "base/human.h"

#include "base/clock.h"

/* round(value * scale / unit), half up; scale is at most 100. */
static unsigned __int128 scaled(uint64_t value, unsigned scale, uint64_t unit)
{
	return ((unsigned __int128)value * scale * 2 + unit) / ((unsigned __int128)unit * 2);
}

void human_duration(struct strbuf *out, uint64_t ns)
{
	static const char *const names[] = { "ns", "us", "ms", "s" };
	uint64_t unit = 1;

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++, unit *= 1000) {
		for (unsigned decimals = i ? 2 : 0, scale = i ? 100 : 1; scale;
		     decimals--, scale /= 10) {
			bool last = i == ARRAY_SIZE(names) - 1 && !decimals;
			uint64_t v = (uint64_t)scaled(ns, scale, unit);

			if (v >= 1000 && !last)
				continue;
			strbuf_addu(out, v / scale);
			if (decimals)
				strbuf_addf(out, ".%0*u", (int)decimals, (unsigned)(v % scale));
			strbuf_addf(out, " %s", names[i]);
			return;
		}
	}
}

/*
 * Appends the value with one decimal, in the first unit in which it is below `step`. In units[0] it
 * is a whole number.
 */
static void with_unit(struct strbuf *out, uint64_t value, unsigned step, const char *const *names,
		      unsigned count)
{
	unsigned __int128 tenths = (unsigned __int128)value * 10;
	uint64_t unit = 1;
	unsigned i = 0;

	while (i < count - 1 && tenths >= step * 10) {
		unit *= step;
		i++;
		tenths = scaled(value, 10, unit);
	}
	strbuf_addu(out, (uint64_t)(tenths / 10));
	if (i)
		strbuf_addf(out, ".%u", (unsigned)(tenths % 10));
	strbuf_addf(out, " %s", names[i]);
}

void human_bytes(struct strbuf *out, uint64_t bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };

	with_unit(out, bytes, 1024, names, ARRAY_SIZE(names));
}

void human_count(struct strbuf *out, uint64_t n)
{
	char text[27]; /* 20 digits and 6 commas, filled from the end */
	size_t i = sizeof(text);
	unsigned digits = 0;

	do {
		if (digits && digits % 3 == 0)
			text[--i] = ',';
		text[--i] = (char)('0' + n % 10);
		n /= 10;
		digits++;
	} while (n);
	strbuf_add(out, text + i, sizeof(text) - i);
}

void human_percent(struct strbuf *out, uint64_t part, uint64_t whole)
{
	unsigned __int128 tenths;

	if (!whole) {
		strbuf_addc(out, '-');
		return;
	}
	tenths = ((unsigned __int128)part * 2000 + whole) / ((unsigned __int128)whole * 2);
	strbuf_addu(out, (uint64_t)(tenths / 10));
	strbuf_addf(out, ".%u%%", (unsigned)(tenths % 10));
}

void human_real(struct strbuf *out, double value)
{
	bool negative = value < 0;
	double size = negative ? -value : value;

	if (size >= 1000 && size < 9e18) {
		strbuf_adds(out, negative ? "-" : "");
		human_count(out, (uint64_t)(size + 0.5));
	} else {
		strbuf_addf(out, "%.4g", value);
	}
}

void human_si(struct strbuf *out, double value, const char *unit)
{
	static const char *const names[] = { "", "k", "M", "G", "T", "P", "E" };
	unsigned i = 0;

	for (; i < ARRAY_SIZE(names) - 1 && value >= 999.5; i++)
		value /= 1000;
	strbuf_addf(out, "%.*f %s%s",
		    !i || value >= 99.95 ? 0
		    : value >= 9.995     ? 1
					 : 2,
		    value, names[i], unit);
}

void human_rate(struct strbuf *out, uint64_t bytes, uint64_t ns)
{
	static const char *const names[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s" };
	unsigned __int128 rate;

	if (!ns) {
		strbuf_addc(out, '-');
		return;
	}
	rate = (unsigned __int128)bytes * NS_PER_S / ns;
	with_unit(out, rate > UINT64_MAX ? UINT64_MAX : (uint64_t)rate, 1000, names,
		  ARRAY_SIZE(names));
}
