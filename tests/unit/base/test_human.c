#include "base/human.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define EXPECT(call, expected)                                                                     \
	do {                                                                                       \
		struct strbuf out = STRBUF_INIT;                                                   \
		call;                                                                              \
		assert_string_equal(strbuf_text(&out), expected);                                  \
		strbuf_release(&out);                                                              \
	} while (0)

static void durations(void **state)
{
	(void)state;
	EXPECT(human_duration(&out, 0), "0 ns");
	EXPECT(human_duration(&out, 999), "999 ns");
	EXPECT(human_duration(&out, 1000), "1.00 us");
	EXPECT(human_duration(&out, 1234567), "1.23 ms");
	EXPECT(human_duration(&out, 9994), "9.99 us");
	EXPECT(human_duration(&out, 9995), "10.0 us");
	EXPECT(human_duration(&out, 99949), "99.9 us");
	EXPECT(human_duration(&out, 99950), "100 us");
	EXPECT(human_duration(&out, 999499), "999 us");
	EXPECT(human_duration(&out, 999500), "1.00 ms");
	EXPECT(human_duration(&out, UINT64_C(61500000000)), "61.5 s");
	EXPECT(human_duration(&out, UINT64_C(1234500000000)), "1235 s");
	EXPECT(human_duration(&out, UINT64_MAX), "18446744074 s");
}

static void sizes(void **state)
{
	(void)state;
	EXPECT(human_bytes(&out, 0), "0 B");
	EXPECT(human_bytes(&out, 1023), "1023 B");
	EXPECT(human_bytes(&out, 1024), "1.0 KiB");
	EXPECT(human_bytes(&out, 1288490189), "1.2 GiB");
	EXPECT(human_bytes(&out, (1 << 20) - 1), "1.0 MiB");
	EXPECT(human_bytes(&out, 1023 * 1024), "1023.0 KiB");
	EXPECT(human_bytes(&out, UINT64_MAX), "16384.0 PiB");
}

static void counts(void **state)
{
	(void)state;
	EXPECT(human_count(&out, 0), "0");
	EXPECT(human_count(&out, 999), "999");
	EXPECT(human_count(&out, 1000), "1,000");
	EXPECT(human_count(&out, 1002000), "1,002,000");
	EXPECT(human_count(&out, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void percents(void **state)
{
	(void)state;
	EXPECT(human_percent(&out, 123, 1000), "12.3%");
	EXPECT(human_percent(&out, 0, 7), "0.0%");
	EXPECT(human_percent(&out, 2, 3), "66.7%");
	EXPECT(human_percent(&out, 7, 7), "100.0%");
	EXPECT(human_percent(&out, UINT64_MAX, UINT64_MAX), "100.0%");
	EXPECT(human_percent(&out, 3, 2), "150.0%");
	EXPECT(human_percent(&out, 0, 0), "-");
}

static void rates(void **state)
{
	(void)state;
	EXPECT(human_rate(&out, 12300, 1000), "12.3 GB/s");
	EXPECT(human_rate(&out, 999, 1000000000), "999 B/s");
	EXPECT(human_rate(&out, 1, 1), "1.0 GB/s");
	EXPECT(human_rate(&out, 0, 5), "0 B/s");
	EXPECT(human_rate(&out, 5, 0), "-");
	EXPECT(human_si(&out, 0, "FLOP/s"), "0 FLOP/s");
	EXPECT(human_si(&out, 999.4, "Hz"), "999 Hz");
	EXPECT(human_si(&out, 999.5, "Hz"), "1.00 kHz");
	EXPECT(human_si(&out, 9.996e9, "B/s"), "10.0 GB/s");
	EXPECT(human_si(&out, 99.94e12, "B/s"), "99.9 TB/s");
	EXPECT(human_si(&out, 99.96e12, "B/s"), "100 TB/s");
	EXPECT(human_si(&out, 2e21, "B/s"), "2000 EB/s");
	EXPECT(human_rate(&out, UINT64_MAX, 1), "18446.7 PB/s");
}

static void reals(void **state)
{
	(void)state;
	EXPECT(human_real(&out, 0), "0");
	EXPECT(human_real(&out, 0.5), "0.5");
	EXPECT(human_real(&out, 12.345), "12.35");
	EXPECT(human_real(&out, -0.00012346), "-0.0001235");
	EXPECT(human_real(&out, 999.94), "999.9");
	EXPECT(human_real(&out, 1000.4), "1,000");
	EXPECT(human_real(&out, -1234567.6), "-1,234,568");
	EXPECT(human_real(&out, 1e19), "1e+19");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations), cmocka_unit_test(sizes), cmocka_unit_test(counts),
		cmocka_unit_test(percents),  cmocka_unit_test(rates), cmocka_unit_test(reals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
