/* Texts of /proc: what they say, cut at every byte, and what they may say that no system says. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "system/proc_text.h"

static int64_t values[METRIC_END];
static unsigned counts[METRIC_END];

static void emit(void *user, uint32_t id, int64_t value)
{
	(void)user;
	assert_non_null(metric_find(id));
	values[id] = value;
	counts[id]++;
	assert_int_equal(counts[id], 1);
}

static const struct proc_units units = {
	.ticks_per_s = 250,
	.page_bytes = 4096,
	.disks = "vda\0nvme1n1",
	.disks_length = 12,
	.networks = "eth0",
	.networks_length = 5,
};

static void parse_with(proc_parser *parser, const char *text, size_t length,
		       const struct proc_units *u)
{
	char *copy = malloc(length); /* so that a byte too far is found */

	assert_non_null(copy);
	memcpy(copy, text, length);
	memset(values, 0, sizeof(values));
	memset(counts, 0, sizeof(counts));
	parser(copy, length, u, emit, NULL);
	free(copy);
}

static void parse(proc_parser *parser, const char *text)
{
	parse_with(parser, text, strlen(text), &units);
}

#define SAYS(id, value)                                                                            \
	do {                                                                                       \
		assert_int_equal(counts[METRIC_##id], 1);                                          \
		assert_int_equal(values[METRIC_##id], value);                                      \
	} while (0)
#define SILENT(id) assert_int_equal(counts[METRIC_##id], 0)

static const char stat_text[] = "cpu  10 20 30 1000 50 1 2 500 3 4\n"
				"cpu0 5 10 15 500 25 0 1 250 0 0\n"
				"cpu3 5 10 15 500 25 1 1 250 0 0\n"
				"intr 123456 0 0 9\n"
				"ctxt 987654\n"
				"btime 1700000000\n";

static void processors(void **state)
{
	(void)state;
	parse(proc_parse_stat, stat_text);
	/* Steal and guest do not count: 63 ticks of 1/250 s are 0.25 s. */
	SAYS(host_cpu_busy, 25);
	SAYS(host_cpu_io_wait, 20);
	SAYS(host_context_switches, 987654);
	assert_int_equal(values[METRIC_CORE_FIRST], 12);
	assert_int_equal(values[METRIC_CORE_FIRST + 3], 12);
	assert_int_equal(counts[METRIC_CORE_FIRST + 3], 1);
	assert_int_equal(counts[METRIC_CORE_FIRST + 1], 0);
}

static void odd_processors(void **state)
{
	(void)state;
	parse(proc_parse_stat, "cpu 1 2 3\ncpu99999999999999999999 1 2 3 4 5 6 7\n"
			       "cpu511 25 0 0 0 0 0 0\ncpu512 25 0 0 0 0 0 0\n"
			       "cpu2 25 0 0 0 0 0 0\ncpux 1 1 1 1 1 1 1\nctxt -1\n");
	SILENT(host_cpu_busy);
	SILENT(host_context_switches);
	assert_int_equal(values[METRIC_CORE_FIRST + 511], 10);
	assert_int_equal(counts[METRIC_CORE_FIRST + 2], 0); /* not in order */
	parse(proc_parse_stat, "cpu 18446744073709551615 1 1 1 18446744073709551615 1 1\n"
			       "cpu 1 1 1 1 1 1 1\nctxt 5\nctxt 6\n");
	SAYS(host_cpu_busy, INT64_MAX / 250);
	SAYS(host_context_switches, 5);
	parse(proc_parse_stat, "cpu 18446744073709551616 1 1 1 1 1 1\n");
	SILENT(host_cpu_busy);
}

static void memory(void **state)
{
	(void)state;
	parse(proc_parse_meminfo,
	      "MemTotal:       1000 kB\nMemFree: 10 kB\nMemAvailable:    400 kB\n"
	      "SwapTotal: 100 kB\nSwapFree: 70 kB\n");
	SAYS(host_memory_used, 600 * 1024);
	SAYS(host_memory_available, 400 * 1024);
	SAYS(host_swap_used, 30 * 1024);
	parse(proc_parse_meminfo, "MemTotal: 10 kB\nMemAvailable: 20 kB\nSwapTotal: 5 kB\n");
	SILENT(host_memory_used);
	SILENT(host_swap_used);
	SAYS(host_memory_available, 20 * 1024);
	parse(proc_parse_meminfo, "SwapTotal: 5 kB\nSwapFree: 7 kB\n");
	SILENT(host_swap_used);
}

static void pressure(void **state)
{
	(void)state;
	parse(proc_parse_memory_pressure, "some avg10=0.00 avg60=1.20 avg300=0.00 total=123\n"
					  "full avg10=0.00 avg60=0.00 avg300=0.00 total=45\n");
	SAYS(host_memory_pressure, 123);
	SAYS(host_memory_pressure_full, 45);
	parse(proc_parse_io_pressure, "some total=7\nfull total=x\nfull total=8\nsome total=9\n");
	SAYS(host_io_pressure, 7);
	SILENT(host_io_pressure_full);
	parse(proc_parse_cpu_pressure, "full avg10=0 total=2\nsome avg10=0 total=1\n");
	SAYS(host_cpu_pressure, 1);
	parse(proc_parse_cpu_pressure, "some avg10=0.00 total=\n");
	SILENT(host_cpu_pressure);
}

static const char disks_text[] = "   7       0 loop0 9 9 9 9 9 9 9 9 0 0 0\n"
				 " 254       0 vda 10 11 100 13 14 15 200 17 0 18 19\n"
				 " 254       1 vda1 10 11 100 13 14 15 200 17 0 18 19\n"
				 " 259       0 nvme1n1 1 0 3 0 1 0 4 0 0 0 0\n";
static const char network_text[] =
	"Inter-|   Receive                            |  Transmit\n"
	" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
	"    lo: 500 1 0 0 0 0 0 0 500 1 0 0 0 0 0 0\n"
	"  eth0:1000 2 0 0 0 0 0 0 3000 4 0 0 0 0 0 0\n"
	"docker0: 70 2 0 0 0 0 0 0 80 4 0 0 0 0 0 0\n";

static void disks_and_networks(void **state)
{
	struct proc_units all = units;

	(void)state;
	parse(proc_parse_diskstats, disks_text);
	SAYS(host_disk_read, 103 * 512);
	SAYS(host_disk_written, 204 * 512);
	parse(proc_parse_network, network_text);
	SAYS(host_network_received, 1000);
	SAYS(host_network_sent, 3000);
	all.disks_length = all.networks_length = 0;
	parse_with(proc_parse_network, network_text, strlen(network_text), &all);
	SAYS(host_network_received, 1070);
	SAYS(host_network_sent, 3080);
	parse(proc_parse_diskstats, "254 0 vdb 10 11 100 13 14 15 200 17\n");
	SILENT(host_disk_read);
}

static void the_process(void **state)
{
	(void)state;
	parse(proc_parse_statm, "1000 30 20 1 0 400 0\n");
	SAYS(process_memory, 30 * 4096);
	parse(proc_parse_statm, "1000\n30\n");
	SILENT(process_memory);
	parse(proc_parse_io, "rchar: 9\nwchar: 9\nread_bytes: 4096\nwrite_bytes: 8192\n"
			     "cancelled_write_bytes: 1\nread_bytes: 1\n");
	SAYS(process_disk_read, 4096);
	SAYS(process_disk_written, 8192);
}

static void cut_at_every_byte(void **state)
{
	static const struct {
		proc_parser *parser;
		const char *text;
	} all[] = {
		{ proc_parse_stat, stat_text },
		{ proc_parse_diskstats, disks_text },
		{ proc_parse_network, network_text },
		{ proc_parse_meminfo, "MemTotal: 10 kB\nMemAvailable: 5 kB\nSwapTotal: 5 kB\n" },
		{ proc_parse_io_pressure, "some avg10=0.00 total=12\nfull avg10=0.00 total=3\n" },
		{ proc_parse_statm, "1000 30 20 1 0 400 0\n" },
		{ proc_parse_io, "read_bytes: 4096\nwrite_bytes: 8192\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (size_t length = 0; length <= strlen(all[i].text); length++)
			parse_with(all[i].parser, all[i].text, length, &units);
}

static void names(void **state)
{
	char room[METRIC_NAME_MAX];

	(void)state;
	assert_null(metric_find(0));
	assert_null(metric_find(METRIC_GPU_END));
	assert_null(metric_find(METRIC_HOST_END));
	assert_null(metric_find(METRIC_END));
	assert_string_equal(metric_name(METRIC_GPU_FIRST, room), "gpu_utilization");
	assert_int_equal(METRIC_gpu_energy, 8); /* as recordings have had it from the start */
	assert_string_equal(metric_name(METRIC_gpu_xid, room), "gpu_xid");
	assert_string_equal(metric_name(METRIC_process_disk_written, room), "process_disk_written");
	assert_string_equal(metric_name(METRIC_END - 1, room), "host_core_511_busy");
}

static void what_is_absent(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	metric_add_absent(&s, "GPU 1 has no ", METRIC_gpu_power, "not supported");
	metric_add_absent(&s, "GPU 1 has no ", METRIC_gpu_energy, "not supported");
	metric_add_absent(&s, "GPU 1 has no ", METRIC_gpu_xid, "no permission");
	metric_add_absent(&s, "GPU 12 has no ", METRIC_gpu_power, "no permission");
	metric_add_absent(&s, "no ", METRIC_CORE_FIRST + 3, "gone");
	assert_string_equal(strbuf_text(&s), "GPU 1 has no gpu_power, gpu_energy: not supported; "
					     "GPU 1 has no gpu_xid: no permission; "
					     "GPU 12 has no gpu_power: no permission; "
					     "no host_core_3_busy: gone");
	strbuf_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processors),
		cmocka_unit_test(odd_processors),
		cmocka_unit_test(memory),
		cmocka_unit_test(pressure),
		cmocka_unit_test(disks_and_networks),
		cmocka_unit_test(the_process),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(names),
		cmocka_unit_test(what_is_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
