/*
 * The report when memory runs out at any place, and when a recording holds what no recorder writes.
 */
#include "analysis/report.h"

#include "analysis/hotspots.h"
#include "failing_alloc.h"
#include "analysis/scope_times.h"
#include "report_fixture.h"

static void make(const char *folder)
{
	struct maker *m = begin(folder, 100);
	uint32_t k = maker_config(m, "k", 1, 32), node;
	struct row_allocation allocation = {
		.time_ns = 500, .operation = memory_operation_allocation, .address = 1, .bytes = 8
	};

	maker_symbol(m, 0x1010, 0, "main", "/usr/bin/app", "/src/main.c", 5, 0x1000);
	node = maker_native(m, 0, 0x1010);
	m->stack = maker_stack(m, maker_python(m, node, "step", "x.py", 3), 2, stack_end_complete);
	maker_capability(m, feature_cpu, capability_state_on, "why");
	for (uint64_t i = 1; i <= 30; i++) {
		maker_cpu_sample(m, 10 + i % 3, 1000 * i + 5, 10, i % 5 ? m->stack : 0);
		maker_off_cpu(m, 10, 1000 * i + 820, 1000 * i + 900, off_cpu_state_sleeping,
			      m->stack);
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
	struct report_options options = {
		.by = HOTSPOT_CONFIG,
		.callers_of = 3,
		.captures = true,
		.scope_tree = true,
		.memory = true,
		.threads = 1,
	};
	bool done = false;

	options.filter = (struct filter)FILTER_ALL;
	options.filter.scope = "range";
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
			if (done) { /* every third call is by the thread that has ranges */
				assert_int_equal(r.hotspots->kernels, 10);
				assert_int_equal(r.hotspots->items[0].caller_count, 1);
				assert_int_equal(r.cpu_use->samples, 30);
				assert_int_equal(r.scope_times->items[0].kernels, 10);
				assert_true(r.idle_lines->source == IDLE_SOURCE_SAMPLES);
			}
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
			struct row_allocation allocation;
			struct row_nvtx nvtx;
			struct row_cpu_sample sample;
			struct row_off_cpu pause;
			struct row_stack stack;
			struct row_stack_node node;

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
						      .correlation = v[5],
						      .stack = (uint32_t)v[6] % 64 };
			copy = (struct row_memcpy){ .start_ns = v[0],
						    .end_ns = v[1],
						    .bytes = v[2],
						    .kind = (uint8_t)v[3],
						    .device = (uint32_t)v[4] };
			allocation = (struct row_allocation){ .missing = v[3] & 0xfff,
							      .time_ns = v[0],
							      .operation = (uint8_t)v[1] % 4,
							      .kind = (uint8_t)v[2] % 16,
							      .address = v[3] % 16,
							      .bytes = v[4],
							      .device = (uint32_t)v[5] % 3,
							      .pool_address = v[6] % 4,
							      .pool_bytes = v[7] };
			nvtx = (struct row_nvtx){ .time_ns = v[5],
						  .kind = (uint8_t)v[6] % 6,
						  .thread = (uint32_t)v[7] % 3,
						  .domain = (uint32_t)v[0] % 3,
						  .range = v[1] % 4,
						  .level = (uint8_t)v[2] % 4 };
			writer_append(m->writer, TABLE_kernel, &kernel);
			writer_append(m->writer, TABLE_api_call, &call);
			writer_append(m->writer, TABLE_memcpy, &copy);
			sample = (struct row_cpu_sample){ .time_ns = v[0],
							  .thread = (uint32_t)v[4] % 3,
							  .weight_ns = v[2],
							  .stack = (uint32_t)v[3] % 64 };
			pause = (struct row_off_cpu){ .start_ns = v[1],
						      .end_ns = v[2],
						      .thread = (uint32_t)v[4] % 3,
						      .state = (uint8_t)v[5],
						      .stack = (uint32_t)v[6] % 64 };
			stack = (struct row_stack){ .id = (uint32_t)v[6] % 64,
						    .node = (uint32_t)v[7] % 64,
						    .end = (uint8_t)v[1] };
			node = (struct row_stack_node){ .id = (uint32_t)v[6] % 64,
							.parent = (uint32_t)v[7] % 64,
							.kind = (uint8_t)v[0] % 5,
							.address = v[3],
							.line = (uint32_t)v[2] };
			writer_append(m->writer, TABLE_allocation, &allocation);
			writer_append(m->writer, TABLE_nvtx, &nvtx);
			writer_append(m->writer, TABLE_cpu_sample, &sample);
			writer_append(m->writer, TABLE_off_cpu, &pause);
			writer_append(m->writer, TABLE_stack, &stack);
			writer_append(m->writer, TABLE_stack_node, &node);
		}
		maker_close(m, 90000);
		analyze(&a, folder,
			(struct report_options){ .filter = FILTER_ALL,
						 .by = (enum hotspot_by)(round % HOTSPOT_KINDS),
						 .memory = round % 2,
						 .callers_of = (uint64_t)round % 3 });
		assert_int_equal(a.report.hotspots->kernels, 200);
		for (size_t gpu = 0; gpu < a.report.idle->count; gpu++) {
			const struct gpu_idle *g = &a.report.idle->gpus[gpu];
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
