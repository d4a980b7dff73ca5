#include "perfetto/perfetto_config.h"

#include "base/proto.h"
#include "support/cmocka_tests.h"

static struct perfetto_config config;
static struct strbuf bytes;

static int setup(void **state)
{
	(void)state;
	bytes = (struct strbuf)STRBUF_INIT;
	return raw_init(&bytes) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	strbuf_release(&bytes);
	return 0;
}

static bool decode(void)
{
	return perfetto_config_decode(&config, bytes.data, bytes.length);
}

static void add_name_filter(const char *glob, uint64_t base)
{
	size_t filter = proto_open(&bytes, 3);

	proto_string(&bytes, 1, glob);
	proto_uint(&bytes, 2, base);
	proto_close(&bytes, filter);
}

static void add_range(int skip, int count)
{
	size_t range = proto_open(&bytes, 5);

	if (skip >= 0)
		proto_uint(&bytes, 1, (uint64_t)skip);
	if (count >= 0)
		proto_uint(&bytes, 2, (uint64_t)count);
	proto_close(&bytes, range);
}

/* One of everything, or two. */
static void add_all(void)
{
	size_t part, sampling;

	proto_string(&bytes, 1, "gpu.counters.nv");
	proto_uint(&bytes, 2, 3);
	proto_uint(&bytes, 3, 10000); /* trace_duration_ms, of no interest */
	part = proto_open(&bytes, 108);
	proto_uint(&bytes, 1, 5000000);
	proto_uint(&bytes, 2, 11);
	proto_bytes(&bytes, 2, "\x0c\x80\x01", 3); /* packed: 12, 128 */
	proto_string(&bytes, 6, "sm__throughput.avg");
	proto_string(&bytes, 6, "dram__*");
	sampling = proto_open(&bytes, 5);
	add_name_filter("*gemm*", 1);
	add_name_filter("relu", 2);
	add_range(5, 2);
	add_range(-1, -1);
	proto_string(&bytes, 6, "step*");
	proto_string(&bytes, 6, "forward");
	proto_string(&bytes, 7, "warmup");
	proto_close(&bytes, sampling);
	proto_close(&bytes, part);
	part = proto_open(&bytes, 111);
	proto_uint(&bytes, 2, 50);
	sampling = proto_open(&bytes, 15);
	proto_uint(&bytes, 4, 3);
	proto_uint(&bytes, 2, 250);
	proto_close(&bytes, sampling);
	proto_close(&bytes, part);
	part = proto_open(&bytes, 113);
	proto_string(&bytes, 1, "slow");
	proto_string(&bytes, 2, "*");
	proto_string(&bytes, 2, "cuda");
	proto_close(&bytes, part);
}

static void test_everything(void **state)
{
	(void)state;
	add_all();
	assert_true(decode());
	assert_string_equal(config.source, "gpu.counters.nv");
	assert_int_equal(config.target_buffer, 3);
	assert_true(config.instrumented);
	assert_int_equal(config.counter_period_ns, 5000000);
	assert_int_equal(config.counter_id_count, 3);
	assert_int_equal(config.counter_ids[0], 11);
	assert_int_equal(config.counter_ids[2], 128);
	assert_int_equal(config.counter_names.count, 2);
	assert_string_equal(config.counter_names.items[1], "dram__*");
	assert_int_equal(config.samples_per_s, 250);
	assert_int_equal(config.name_filter_count, 2);
	assert_string_equal(config.name_filters[0].glob, "*gemm*");
	assert_int_equal(config.name_filters[0].base, PERFETTO_DEMANGLED_KERNEL_NAME);
	assert_int_equal(config.name_filters[1].base, PERFETTO_FUNCTION_NAME);
	assert_int_equal(config.range_count, 2);
	assert_int_equal(config.ranges[0].skip, 5);
	assert_int_equal(config.ranges[0].count, 2);
	assert_int_equal(config.ranges[1].skip, 0);
	assert_int_equal(config.ranges[1].count, UINT32_MAX);
	assert_int_equal(config.nvtx_include.count, 2);
	assert_string_equal(config.nvtx_include.items[1], "forward");
	assert_string_equal(config.nvtx_exclude.items[0], "warmup");
	assert_string_equal(config.disabled_categories.items[0], "slow");
	assert_int_equal(config.enabled_categories.count, 2);
	assert_string_equal(config.enabled_categories.items[1], "cuda");
	assert_int_equal(config.ignored_items, 0);
}

static void test_nothing(void **state)
{
	size_t part;

	(void)state;
	assert_true(perfetto_config_decode(&config, NULL, 0));
	assert_string_equal(config.source, "");
	assert_false(config.instrumented);
	part = proto_open(&bytes, 108);
	proto_uint(&bytes, 3, 0);
	proto_close(&bytes, part);
	assert_true(decode());
	assert_false(config.instrumented);
	bytes.data[bytes.length - 1] = 1;
	assert_true(decode());
	assert_true(config.instrumented);
}

static void test_too_many_and_too_long(void **state)
{
	char name[PERFETTO_TEXT_MAX + 1] = "";
	size_t part = proto_open(&bytes, 108), sampling;

	(void)state;
	memset(name, 'n', PERFETTO_TEXT_MAX);
	proto_string(&bytes, 6, name);
	name[PERFETTO_TEXT_MAX - 1] = '\0';
	for (int i = 0; i < PERFETTO_LIST_MAX + 1; i++) {
		proto_string(&bytes, 6, name);
		proto_uint(&bytes, 2, 1);
	}
	sampling = proto_open(&bytes, 5);
	for (int i = 0; i < PERFETTO_LIST_MAX + 1; i++) {
		add_name_filter("k", 77);
		add_range(1, 1);
	}
	proto_close(&bytes, sampling);
	proto_close(&bytes, part);
	assert_true(decode());
	assert_int_equal(config.counter_names.count, PERFETTO_LIST_MAX);
	assert_string_equal(config.counter_names.items[PERFETTO_LIST_MAX - 1], name);
	assert_int_equal(config.counter_id_count, PERFETTO_LIST_MAX);
	assert_int_equal(config.name_filter_count, PERFETTO_LIST_MAX);
	assert_int_equal(config.name_filters[0].base, PERFETTO_FUNCTION_NAME);
	assert_int_equal(config.range_count, PERFETTO_LIST_MAX);
	assert_int_equal(config.ignored_items, 5);
}

/* Cut at each byte, and with each byte changed: refused or not, it ends. */
static void test_broken(void **state)
{
	size_t refused = 0;

	(void)state;
	add_all();
	for (size_t n = 0; n < bytes.length; n++) {
		uint8_t *copy = malloc(n + 1); /* so that a sanitizer sees its end */

		memcpy(copy, bytes.data, n);
		refused += !perfetto_config_decode(&config, copy, n);
		free(copy);
	}
	assert_true(refused > bytes.length * 3 / 4);
	for (size_t n = 0; n < bytes.length; n++) {
		bytes.data[n] = (char)~bytes.data[n];
		(void)!decode();
		bytes.data[n] = (char)~bytes.data[n];
	}
	assert_true(decode());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_everything, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_many_and_too_long, setup, teardown),
		cmocka_unit_test_setup_teardown(test_broken, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
