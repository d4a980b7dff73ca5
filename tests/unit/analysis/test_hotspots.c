#include "analysis/hotspots.h"

#include <string.h>

#include "report_fixture.h"

static uint32_t config_with(struct maker *m, const char *name, uint32_t grid, uint32_t registers)
{
	struct row_kernel_config row = { .name = maker_string(m, name),
					 .grid_x = grid,
					 .grid_y = 1,
					 .grid_z = 1,
					 .block_x = 64,
					 .block_y = 1,
					 .block_z = 1,
					 .registers = registers };

	return writer_kernel_config(m->writer, &row);
}

static void kernels_are_grouped_by_name(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t small = config_with(m, "add", 1, 16), large = config_with(m, "add", 8, 16),
		 other = maker_config(m, "mul", 2, 32);
	struct analyzed a;
	const struct hotspots *h;

	for (uint64_t i = 1; i <= 10; i++)
		maker_kernel(m, i <= 7 ? large : small, 7, 1000 * i, 1000 * i + 10 * i, i);
	maker_kernel(m, other, 7, 20000, 20800, 11);
	maker_close(m, 90000);
	analyze(&a, *state, EVERYTHING);
	h = a.report.hotspots;
	assert_int_equal(h->count, 2);
	assert_int_equal(h->kernels, 11);
	assert_int_equal(h->total_ns, 550 + 800);
	assert_string_equal(trace_string(a.trace, h->items[0].key), "mul");
	assert_string_equal(trace_string(a.trace, h->items[1].key), "add");
	assert_int_equal(h->items[1].time.count, 10);
	assert_int_equal(h->items[1].time.total_ns, 550);
	assert_int_equal(h->items[1].time.median_ns, 50);
	assert_int_equal(h->items[1].time.p99_ns, 100);
	assert_int_equal(h->items[1].time.min_ns, 10);
	assert_int_equal(h->items[1].time.max_ns, 100);
	assert_int_equal(h->items[1].config_count, 7);
	assert_int_equal(trace_value(a.trace, TABLE_kernel_config, COLUMN_kernel_config_grid_x,
				     h->items[1].config, NULL),
			 8);
	analyzed_release(&a);
}

/* The first one: the same recording gives the same report. */
static void of_configurations_as_common_the_first_is_shown(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t configs[] = { config_with(m, "add", 3, 16), config_with(m, "add", 5, 16),
			       config_with(m, "add", 9, 16) };
	struct analyzed a;

	for (uint64_t i = 0; i < 6; i++)
		maker_kernel(m, configs[2 - i % 3], 7, 1000 * i + 1000, 1000 * i + 1010, i + 1);
	maker_close(m, 90000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.hotspots->items[0].config_count, 2);
	assert_int_equal(trace_value(a.trace, TABLE_kernel_config, COLUMN_kernel_config_grid_x,
				     a.report.hotspots->items[0].config, NULL),
			 3);
	analyzed_release(&a);
}

static void equal_names_of_two_processes_are_one_group(void **state)
{
	struct analyzed a;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);

		maker_string(m, pid == 100 ? "x" : "y");
		maker_kernel(m, maker_config(m, "add", 4, 128), 7, 1000, 1500, 1);
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.hotspots->count, 1);
	assert_int_equal(a.report.hotspots->items[0].time.count, 2);
	analyzed_release(&a);
	analyze(&a, *state, (struct report_options){ .filter = FILTER_ALL, .by = HOTSPOT_STREAM });
	assert_int_equal(a.report.hotspots->count, 2);
	analyzed_release(&a);
}

/*
 * Kernels in two processes, on streams, by threads, in ranges, some of them in no group that has a
 * name.
 */
static void make_variety(const char *folder)
{
	uint64_t seed = 3;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(folder, pid);
		uint32_t configs[3] = { maker_config(m, "a", 1, 32), maker_config(m, "b", 1, 32),
					maker_config(m, "a", 2, 32) };

		for (uint64_t i = 1; i < 200; i++) {
			uint64_t start = 1000 * i + random_u64(&seed) % 500,
				 end = start + random_u64(&seed) % 900;
			uint32_t thread = 10 + (uint32_t)(random_u64(&seed) % 3);

			if (i % 10 == 1)
				maker_nvtx(m, nvtx_kind_push, 10, i % 20 == 1 ? "outer" : "inner",
					   1000 * i - 900);
			if (i % 20 == 19)
				maker_nvtx(m, nvtx_kind_pop, 10, NULL, 1000 * i - 850);
			if (i % 5)
				maker_call(m, MAKER_LAUNCH, thread, 1000 * i - 800, 1000 * i - 700,
					   i);
			maker_kernel(m, configs[random_u64(&seed) % 3], (uint32_t)(7 + i % 4),
				     start, end, i);
		}
		maker_close(m, 300000);
	}
}

static void every_grouping_sums_to_all_kernels(void **state)
{
	uint64_t total = 0;

	make_variety(*state);
	for (int by = 0; by < HOTSPOT_KINDS; by++) {
		struct analyzed a;
		uint64_t sum = 0, count = 0;

		analyze(&a, *state,
			(struct report_options){ .filter = FILTER_ALL, .by = (enum hotspot_by)by });
		for (size_t i = 0; i < a.report.hotspots->count; i++) {
			const struct hotspot *h = &a.report.hotspots->items[i];

			sum += h->time.total_ns;
			count += h->time.count + h->untimed;
			assert_true(h->time.min_ns <= h->time.median_ns &&
				    h->time.median_ns <= h->time.p99_ns &&
				    h->time.p99_ns <= h->time.max_ns);
		}
		if (!total) {
			const uint64_t *starts =
				trace_u64(a.trace, TABLE_kernel, COLUMN_kernel_start_ns);
			const uint64_t *ends =
				trace_u64(a.trace, TABLE_kernel, COLUMN_kernel_end_ns);

			for (uint64_t row = 0; row < trace_rows(a.trace, TABLE_kernel); row++)
				total += ends[row] - starts[row];
		}
		assert_int_equal(count, 398);
		assert_int_equal(sum, total);
		assert_int_equal(sum, a.report.hotspots->total_ns);
		assert_int_equal(sum, a.report.busy->gpus[0].work[GPU_WORK_kernel].sum_ns);
		analyzed_release(&a);
	}
}

static const struct hotspot *group(const struct analyzed *a, const char *text)
{
	for (size_t i = 0; i < a->report.hotspots->count; i++) {
		const struct hotspot *h = &a->report.hotspots->items[i];

		if (text ? h->key != HOTSPOT_NO_KEY && !strcmp(trace_string(a->trace, h->key), text)
			 : h->key == HOTSPOT_NO_KEY)
			return h;
	}
	return NULL;
}

static void ranges_and_threads_come_from_the_launch(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;

	maker_nvtx(m, nvtx_kind_push, 10, "step", 1000);
	maker_nvtx(m, nvtx_kind_push, 10, "forward", 1100);
	maker_call(m, MAKER_LAUNCH, 10, 1200, 1300, 1);
	maker_call(m, MAKER_LAUNCH, 11, 1200, 1300, 2); /* another thread */
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, 1400);
	maker_call(m, MAKER_LAUNCH, 10, 1500, 1600, 3);
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, 1700);
	maker_call(m, MAKER_LAUNCH, 10, 1800, 1900, 4);
	/* They run after the ranges have ended. */
	for (uint64_t i = 1; i <= 5; i++)
		maker_kernel(m, k, 7, 10000 * i, 10000 * i + (UINT64_C(1) << i), i);
	maker_close(m, 90000);
	analyze(&a, *state, (struct report_options){ .filter = FILTER_ALL, .by = HOTSPOT_SCOPE });
	assert_int_equal(a.report.hotspots->count, 3);
	assert_int_equal(group(&a, "forward")->time.total_ns, 2);
	assert_int_equal(group(&a, "step")->time.total_ns, 8);
	assert_int_equal(group(&a, NULL)->time.total_ns, 4 + 16 + 32);
	analyzed_release(&a);
	analyze(&a, *state, (struct report_options){ .filter = FILTER_ALL, .by = HOTSPOT_THREAD });
	assert_int_equal(a.report.hotspots->count, 3);
	assert_int_equal(group(&a, NULL)->time.total_ns, 32);
	analyzed_release(&a);
}

static uint64_t kernels_with(const char *folder, struct filter filter)
{
	struct analyzed a;
	uint64_t kernels;

	analyze(&a, folder, (struct report_options){ .filter = filter });
	kernels = a.report.hotspots->kernels;
	analyzed_release(&a);
	return kernels;
}

static void filters_choose_rows(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t gemm = maker_config(m, "_Z11sgemm_128x8Pf", 1, 32),
		 add = maker_config(m, "add", 1, 32);
	struct filter all = FILTER_ALL, f;

	maker_nvtx(m, nvtx_kind_push, 10, "step 1", 100);
	maker_nvtx(m, nvtx_kind_push, 10, "inner", 200);
	maker_call(m, MAKER_LAUNCH, 10, 300, 400, 1);
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, 500);
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, 600);
	maker_call(m, MAKER_LAUNCH, 10, 700, 800, 2);
	maker_kernel(m, gemm, 7, 1000, 2000, 1);
	maker_kernel(m, add, 8, 2000, 3000, 2);
	maker_kernel(m, add, 8, 3000, 4000, 3);
	maker_close(m, 9000);
	m = begin(*state, 200);
	maker_kernel(m, maker_config(m, "add", 1, 32), 7, 1000, 1100, 1);
	maker_close(m, 9000);

	assert_int_equal(kernels_with(*state, all), 4);
	f = all, f.pid = 100;
	assert_int_equal(kernels_with(*state, f), 3);
	f = all, f.stream = 8;
	assert_int_equal(kernels_with(*state, f), 2);
	f = all, f.device = 1;
	assert_int_equal(kernels_with(*state, f), 0);
	f = all, f.since_ns = 2000, f.until_ns = 3000;
	assert_int_equal(kernels_with(*state, f), 1);
	f = all, f.kernel = "sgemm_*";
	assert_int_equal(kernels_with(*state, f), 1);
	f = all, f.kernel = "gemm";
	assert_int_equal(kernels_with(*state, f), 1);
	f = all, f.kernel = "_Z11*";
	assert_int_equal(kernels_with(*state, f), 1);
	f = all, f.kernel = "a?d";
	assert_int_equal(kernels_with(*state, f), 3);
	f = all, f.scope = "step ?";
	assert_int_equal(kernels_with(*state, f), 1);
	f = all, f.scope = "step ?", f.kernel = "add";
	assert_int_equal(kernels_with(*state, f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(kernels_are_grouped_by_name),
		folder_test(of_configurations_as_common_the_first_is_shown),
		folder_test(equal_names_of_two_processes_are_one_group),
		folder_test(every_grouping_sums_to_all_kernels),
		folder_test(ranges_and_threads_come_from_the_launch),
		folder_test(filters_choose_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
