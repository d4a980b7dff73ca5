/*
 * The report when memory runs out at any place, and when a recording holds what no recorder writes.
 */
#include "analysis/report.h"

#include "failing_alloc.h"
#include "report_fixture.h"

static void make(const char *folder)
{
	struct maker *m = begin(folder, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct row_allocation allocation = {
		.time_ns = 500, .operation = memory_operation_allocation, .address = 1, .bytes = 8
	};

	for (uint64_t i = 1; i <= 30; i++) {
		maker_nvtx(m, nvtx_kind_push, 10, "range", 1000 * i);
		maker_call(m, MAKER_LAUNCH, 10 + i % 3, 1000 * i + 10, 1000 * i + 20, i);
		maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, 1000 * i + 30, 1000 * i + 900, 100 + i);
		maker_graph_kernel(m, k, 7 + i % 3, 1000 * i + 50, 1000 * i + 800, i, i % 4, 1);
		maker_memcpy(m, copy_kind_HtoD, 8, 7, 1000 * i + 400, 1000 * i + 500, 200 + i);
	}
	writer_append(m->writer, TABLE_allocation, &allocation);
	maker_loss(m, loss_reason_ring_full, 1, 0, 1, "x");
	maker_close(m, 90000);
}

static void memory_may_run_out_anywhere(void **state)
{
	struct report_options options = { .by = HOTSPOT_NVTX, .threads = 1 };
	bool done = false;

	options.filter = (struct filter)FILTER_ALL;
	options.filter.nvtx = "range";
	options.filter.kernel = "k";
	make(*state);
	FOR_EACH_FAILURE(n)
	{
		struct trace_options trace_options = { .threads = 1 };
		struct error e = { 0 };
		struct trace *t = NULL;
		struct report r;
		int code = trace_open(*state, &trace_options, &t, &e);

		if (code >= 0)
			code = report_init(&r, t, &options, &e);
		if (code >= 0) {
			done = !failing_alloc_failed;
			if (done) /* every third call is by the thread that has ranges */
				assert_int_equal(r.hotspots.kernels, 10);
			report_release(&r);
		} else {
			assert_true(failing_alloc_failed);
			assert_true(e.text[0]);
		}
		trace_free(t);
	}
	assert_true(done);
}

/* Ids, enums and times of every size and in any order. */
static void hostile_rows_do_no_harm(void **state)
{
	uint64_t seed = 11;

	for (int round = 0; round < 30; round++) {
		char folder[512];
		struct maker *m;
		struct analyzed a;

		snprintf(folder, sizeof(folder), "%s/%d", (const char *)*state, round);
		m = begin(folder, 100);
		maker_device(m, 0, 1);
		for (int i = 0; i < 200; i++) {
			uint64_t v[8];
			struct row_kernel kernel;
			struct row_api_call call;
			struct row_memcpy copy;
			struct row_nvtx nvtx;

			for (size_t n = 0; n < ARRAY_SIZE(v); n++)
				v[n] = random_u64(&seed) >> random_u64(&seed) % 64;
			kernel = (struct row_kernel){ .missing = v[0] & 3,
						      .start_ns = v[0],
						      .end_ns = v[1],
						      .config = (uint32_t)v[2],
						      .correlation = v[3],
						      .device = (uint32_t)v[4],
						      .stream = (uint32_t)v[6],
						      .graph = (uint32_t)v[7] };
			call = (struct row_api_call){ .start_ns = v[1],
						      .end_ns = v[2],
						      .function = (uint32_t)v[3],
						      .thread = (uint32_t)v[4] % 3,
						      .correlation = v[5] };
			copy = (struct row_memcpy){ .start_ns = v[0],
						    .end_ns = v[1],
						    .bytes = v[2],
						    .kind = (uint8_t)v[3],
						    .device = (uint32_t)v[4] };
			nvtx = (struct row_nvtx){ .time_ns = v[5],
						  .kind = (uint8_t)v[6] % 6,
						  .thread = (uint32_t)v[7] % 3,
						  .domain = (uint32_t)v[0] % 3,
						  .range = v[1] % 4 };
			writer_append(m->writer, TABLE_kernel, &kernel);
			writer_append(m->writer, TABLE_api_call, &call);
			writer_append(m->writer, TABLE_memcpy, &copy);
			writer_append(m->writer, TABLE_nvtx, &nvtx);
		}
		maker_close(m, 90000);
		analyze(&a, folder,
			(struct report_options){ .filter = FILTER_ALL,
						 .by = (enum hotspot_by)(round % HOTSPOT_KINDS) });
		assert_int_equal(a.report.hotspots.kernels, 200);
		for (size_t gpu = 0; gpu < a.report.idle.count; gpu++) {
			const struct gpu_idle *g = &a.report.idle.gpus[gpu];
			uint64_t causes = 0;

			for (int i = 0; i < IDLE_CAUSES; i++)
				causes += g->cause_ns[i];
			assert_int_equal(causes, g->total_ns);
		}
		analyzed_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(memory_may_run_out_anywhere),
		folder_test(hostile_rows_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
