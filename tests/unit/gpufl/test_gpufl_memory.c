/*
 * Memory of the sink of gpufl's logs: none is allocated for a row, and whichever allocation fails,
 * nothing breaks.
 */
#include "failing_alloc.h"
#include "gpufl/gpufl_folder.h"
#include "gpufl_fixture.h"

static void define(struct sink *s)
{
	text_row(s, 1, "app");
	text_row(s, 2, "step");
	text_row(s, 3, "pitot");
	text_row(s, 4, "gpu_power");
	ROW(s, process, .pid = 42, .executable = 1);
	ROW(s, device, .id = 0, .warp_size = 32);
	ROW(s, nvtx_domain, .id = 3, .name = 3);
	ROW(s, kernel_config, .id = 7, .name = 2);
	ROW(s, counter, .id = 1, .name = 4, .missing = 1u << COLUMN_counter_reading);
	text_row(s, 5, "dram__bytes_read.sum");
	ROW(s, metric, .id = 1, .name = 5);
}

/* A step: a scope, a range in it, a launch, what it launched, a wait, a reading. */
static void step(struct sink *s, uint64_t i)
{
	uint64_t at = 1000 * i, none = 1u << COLUMN_nvtx_range | 1u << COLUMN_nvtx_payload_kind;

	ROW(s, nvtx, .time_ns = at, .kind = nvtx_kind_push, .thread = 5, .domain = 3, .message = 2,
	    .missing = none);
	ROW(s, api_call, .start_ns = at, .end_ns = at + 1, .thread = 5, .correlation = i);
	ROW(s, external_correlation, .kind = 4, .id = i, .correlation = i);
	ROW(s, nvtx, .time_ns = at + 5, .kind = nvtx_kind_pop, .thread = 5, .domain = 3);
	ROW(s, metric_value, .correlation = i, .metric = 1);
	ROW(s, kernel, .start_ns = at, .end_ns = at + 9, .config = 7, .correlation = i,
	    .missing = 1u << COLUMN_kernel_queued_ns);
	ROW(s, kernel, .start_ns = at, .end_ns = at + 9, .config = 7, .correlation = i + 9);
	ROW(s, memcpy, .start_ns = at, .end_ns = at + 9, .correlation = i);
	ROW(s, memset, .start_ns = at, .end_ns = at + 9, .correlation = i);
	ROW(s, synchronization, .start_ns = at, .end_ns = at + 9, .kind = 3, .correlation = i);
	ROW(s, allocation, .time_ns = at, .operation = 1);
	ROW(s, counter_sample, .time_ns = at, .counter = 1, .value = 5);
}

static void steps(struct sink *s, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		step(s, i);
		if (i % 1500 == 1499)
			s->ops->seal(s);
	}
}

static void test_rows_need_no_memory(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ .calls_max = 500 });

	define(s);
	s->ops->seal(s);
	steps(s, 0, 6000);
	failing_alloc_at(1000);
	steps(s, 6000, 12000);
	assert_int_equal(failing_alloc_left, 1000);
	failing_alloc_at(-1);
	assert_int_equal(s->ops->close(s), 0);
}

/* What is lost for want of memory is counted. */
static void test_without_memory(void **state)
{
	unsigned complete = 0;

	FOR_EACH_FAILURE(n)
	{
		struct gpufl_options o = { .compact = n & 1 };
		struct writer_stats stats = { 0 };
		struct error e = { 0 };
		struct sink *s = NULL;

		o.files = (struct gpufl_files_options){ .log_path = *state, .session = SESSION };
		if (gpufl_sink_new(&o, &s, &e) == 0) {
			define(s);
			step(s, 1);
			s->ops->seal(s);
			s->ops->stats(s, &stats);
			complete += !stats.lost_rows && s->ops->close(s) == 0;
			if (stats.lost_rows)
				s->ops->close(s);
		} else {
			assert_int_equal(e.code, -ENOMEM);
		}
		failing_alloc_left = -1;
		gpufl_folder_remove_session(*state, SESSION);
	}
	assert_true(complete >= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_rows_need_no_memory),
		folder_test(test_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
