#include "analysis/busy.h"

#include <string.h>

#include "analysis/hotspots.h"
#include "report_fixture.h"

static void a_small_recording_by_hand(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t add = maker_config(m, "add", 4, 128);
	struct analyzed a;
	const struct gpu_busy *b;

	/* us:      1         2         3         4         5         6
	 * 7        #kernel####                             set  kernel
	 * 8             ######kernel####
	 * 9                       ######copy#####                      */
	maker_kernel(m, add, 7, 1000, 2000, 1);
	maker_kernel(m, add, 8, 1500, 3000, 2);
	maker_memcpy(m, copy_kind_HtoD, 64, 9, 2500, 4000, 3);
	maker_memset(m, 64, 7, 5000, 5500, 4);
	maker_kernel(m, add, 7, 5500, 6000, 5);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.busy->count, 1);
	b = &a.report.busy->gpus[0];
	assert_int_equal(b->work[GPU_WORK_kernel].count, 3);
	assert_int_equal(b->work[GPU_WORK_kernel].sum_ns, 3000);
	assert_int_equal(b->work[GPU_WORK_memcpy].sum_ns, 1500);
	assert_int_equal(b->work[GPU_WORK_memset].sum_ns, 500);
	assert_int_equal(b->first_ns, 1000);
	assert_int_equal(b->last_ns, 6000);
	assert_int_equal(b->union_ns, 4000);
	assert_int_equal(b->compute_ns, 2500);
	assert_int_equal(b->copy_ns, 2000);
	assert_int_equal(b->overlap_ns, 500);
	assert_int_equal(b->streams_ns[1], 3000);
	assert_int_equal(b->streams_ns[2], 1000);
	assert_int_equal(b->max_streams, 2);
	analyzed_release(&a);
}

static void work_without_times_is_counted_and_not_summed(void **state)
{
	struct maker *m = begin(*state, 100);
	struct row_kernel row = { .config = maker_config(m, "add", 4, 128),
				  .context = 1,
				  .stream = 7 };
	struct analyzed a;

	maker_kernel(m, row.config, 7, 1000, 2000, 1);
	ROW_MISSING(&row, kernel, start_ns);
	ROW_MISSING(&row, kernel, end_ns);
	writer_append(m->writer, TABLE_kernel, &row);
	row.missing = 0;
	row.start_ns = 3000;
	ROW_MISSING(&row, kernel, end_ns);
	writer_append(m->writer, TABLE_kernel, &row);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.busy->untimed, 2);
	assert_int_equal(a.report.busy->gpus[0].union_ns, 1000);
	assert_int_equal(a.report.busy->gpus[0].work[GPU_WORK_kernel].count, 1);
	assert_int_equal(a.report.hotspots->kernels, 3);
	assert_int_equal(a.report.hotspots->untimed, 2);
	assert_int_equal(a.report.hotspots->total_ns, 1000);
	analyzed_release(&a);
}

static void one_gpu_of_two_processes_is_one_gpu(void **state)
{
	struct analyzed a;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);

		maker_kernel(m, maker_config(m, "add", 4, 128), 7, 1000 * (pid - 99),
			     1000 * (pid - 99) + 1500, 1);
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.busy->count, 1);
	assert_int_equal(a.report.busy->gpus[0].union_ns, 2500);
	/* Stream 7 of one process is not stream 7 of the other. */
	assert_int_equal(a.report.busy->gpus[0].streams_ns[2], 500);
	analyzed_release(&a);
}

static void a_graph_recorded_as_a_whole_is_work(void **state)
{
	struct maker *m = begin(*state, 100);
	struct row_graph_launch row = {
		.start_ns = 1000, .end_ns = 5000, .graph = 3, .context = 1, .stream = 7
	};
	struct analyzed a;

	writer_append(m->writer, TABLE_graph_launch, &row);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.busy->gpus[0].work[GPU_WORK_graph_launch].count, 1);
	assert_int_equal(a.report.busy->gpus[0].compute_ns, 4000);
	assert_int_equal(a.report.graphs->launches, 1);
	assert_int_equal(a.report.graphs->items[0].replay.median_ns, 4000);
	analyzed_release(&a);
}

/*
 * Against a naive model: for each nanosecond and GPU, what is running. Two processes, two GPUs, all
 * kinds of work, lengths of 0, starts at the same time, and a window.
 */
#define SPAN 600
#define GPUS 2
#define STREAMS 4

struct model {
	uint8_t compute[GPUS][SPAN], copies[GPUS][SPAN];
	uint8_t streams[GPUS][2 * STREAMS][SPAN];
};

static void add_work(struct maker *m, struct model *model, uint32_t process, uint64_t *seed)
{
	uint32_t gpu = (uint32_t)(random_u64(seed) % GPUS),
		 stream = (uint32_t)(random_u64(seed) % STREAMS);
	uint64_t start = 1 + random_u64(seed) % (SPAN - 80), end = start + random_u64(seed) % 60,
		 kind = random_u64(seed) % 4;

	m->device = gpu;
	m->context = gpu + 1;
	if (kind == 0)
		maker_memcpy(m, copy_kind_DtoH, 8, stream, start, end, start);
	else if (kind == 1)
		maker_memset(m, 8, stream, start, end, start);
	else
		maker_kernel(m, maker_config(m, "k", 1, 32), stream, start, end, start);
	for (uint64_t t = start; t < end; t++) {
		(kind < 2 ? model->copies : model->compute)[gpu][t]++;
		model->streams[gpu][process * STREAMS + stream][t]++;
	}
}

static void check_gpu(const struct model *model, int gpu, uint64_t since, uint64_t until,
		      const struct gpu_busy *b, const struct gpu_idle *g, uint64_t window)
{
	struct gpu_busy expected = { 0 };
	uint64_t gaps = 0, causes = 0;

	for (uint64_t t = since; t < MIN(until, (uint64_t)SPAN); t++) {
		unsigned pieces = (unsigned)model->compute[gpu][t] + model->copies[gpu][t],
			 streams = 0;

		for (int s = 0; s < 2 * STREAMS; s++)
			streams += model->streams[gpu][s][t] > 0;
		expected.union_ns += pieces > 0;
		expected.compute_ns += model->compute[gpu][t] > 0;
		expected.copy_ns += model->copies[gpu][t] > 0;
		expected.overlap_ns += model->compute[gpu][t] && model->copies[gpu][t];
		expected.pieces_ns[MIN(pieces, BUSY_LEVELS - 1u)] += pieces > 0;
		expected.streams_ns[MIN(streams, BUSY_LEVELS - 1u)] += pieces > 0;
	}
	assert_int_equal(b->union_ns, expected.union_ns);
	assert_int_equal(b->compute_ns, expected.compute_ns);
	assert_int_equal(b->copy_ns, expected.copy_ns);
	assert_int_equal(b->overlap_ns, expected.overlap_ns);
	assert_memory_equal(b->pieces_ns, expected.pieces_ns, sizeof(expected.pieces_ns));
	assert_memory_equal(b->streams_ns, expected.streams_ns, sizeof(expected.streams_ns));
	if (!b->last_ns)
		return;
	assert_int_equal(g->total_ns, window - expected.union_ns);
	for (int i = 0; i < IDLE_CAUSES; i++)
		causes += g->cause_ns[i];
	for (int i = 0; i < IDLE_SIZES; i++)
		gaps += g->gaps[i].total_ns;
	assert_int_equal(causes, g->total_ns);
	assert_int_equal(gaps + g->cause_ns[IDLE_BEFORE] + g->cause_ns[IDLE_AFTER], g->total_ns);
}

static void add_calls(struct maker *m, uint64_t *seed)
{
	static const enum maker_function functions[] = { MAKER_LAUNCH, MAKER_MEMCPY,
							 MAKER_DEVICE_SYNCHRONIZE, MAKER_MALLOC };

	for (uint32_t thread = 1; thread < 3; thread++)
		for (uint64_t t = 1 + random_u64(seed) % 30; t < SPAN - 40;
		     t += 1 + random_u64(seed) % 40) {
			uint64_t end = t + random_u64(seed) % 30;

			/* Correlations as in add_work: the start of some piece of work. */
			maker_call(m, functions[random_u64(seed) % 4], thread, t, end,
				   1 + random_u64(seed) % SPAN);
			t = end;
		}
}

static void any_recording_agrees_with_a_naive_model(void **state)
{
	uint64_t seed = 7;

	for (int round = 0; round < 120; round++) {
		struct report_options options = EVERYTHING;
		struct model model;
		struct analyzed a;
		char folder[512];
		uint64_t since = 0, until = SPAN;

		memset(&model, 0, sizeof(model));
		snprintf(folder, sizeof(folder), "%s/%d", (const char *)*state, round);
		for (uint32_t process = 0; process < 2; process++) {
			struct maker *m = begin(folder, 100 + process);

			maker_device(m, 1, 0);
			add_calls(m, &seed);
			for (uint64_t n = random_u64(&seed) % (round % 3 ? 12 : 60); n; n--)
				add_work(m, &model, process, &seed);
			maker_call(m, MAKER_MALLOC, 9, 0, 1, 9999);
			maker_call(m, MAKER_MALLOC, 9, SPAN - 1, SPAN, 9999);
			maker_close(m, SPAN);
		}
		if (round % 2) {
			since = 1 + random_u64(&seed) % SPAN / 2;
			until = since + 1 + random_u64(&seed) % SPAN / 2;
			options.filter.since_ns = since;
			options.filter.until_ns = until;
		}
		analyze(&a, folder, options);
		assert_int_equal(a.report.busy->count, GPUS);
		for (int gpu = 0; gpu < GPUS; gpu++)
			check_gpu(&model, gpu, since, until, &a.report.busy->gpus[gpu],
				  &a.report.idle->gpus[gpu], a.report.end_ns - a.report.start_ns);
		analyzed_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_small_recording_by_hand),
		folder_test(work_without_times_is_counted_and_not_summed),
		folder_test(one_gpu_of_two_processes_is_one_gpu),
		folder_test(a_graph_recorded_as_a_whole_is_work),
		folder_test(any_recording_agrees_with_a_naive_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
