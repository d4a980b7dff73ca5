#include "analysis/rank_times.h"

#include <math.h>
#include <string.h>

#include "analysis/collective_groups.h"
#include "report_fixture.h"
#include "system/metrics.h"

#define US UINT64_C(1000)
#define STEPS 60
#define STEP_NS (1000 * US)
#define START_NS (1000 * STEP_NS)

/* A training: a kernel and an all-reduce a step, on ranks of one or two hosts. */
struct job {
	uint32_t ranks, late;
	uint64_t late_ns; /* in train.py:9, which sleeps */
	int64_t ahead_ns; /* of the second host's clock, which has the upper half of the ranks */
	double drift; /* of that clock */
	uint64_t transfer_ns;
	uint32_t groups; /* communicators, each of equally many ranks; 0: names and order decide */
	uint64_t hangs_ns; /* the late rank does not come to a last all-reduce, up to the end */
	bool pairs; /* a second, short all-reduce follows at once, to which no rank is late */
	bool jumps; /* of that clock, by 2 ms, every other step */
	bool slow_gpu; /* the kernel lasts longer, instead of a sleep */
	bool steps; /* each step is a range, whose optimizer's is inside */
	bool odd_steps; /* the late rank names its steps differently */
	int64_t degrees; /* by which the late rank is hotter than the others */
	const char *runs[4]; /* "0 job": the number of each rank, and its job */
};

struct rank {
	const struct job *job;
	struct maker *m;
	uint32_t kernel, all_reduce, sleeping, launching;
	bool second_host;
};

/* A time by the clock of the rank's host. */
static uint64_t at(const struct rank *r, uint64_t time_ns)
{
	if (!r->second_host)
		return time_ns;
	return time_ns + (uint64_t)r->job->ahead_ns +
	       (uint64_t)(r->job->drift * (double)(time_ns - START_NS)) +
	       (r->job->jumps && time_ns / STEP_NS % 2 ? 2000 * US : 0);
}

static void add_ranges(const struct rank *r, uint32_t rank, uint64_t step)
{
	bool odd = r->job->odd_steps && rank == r->job->late;
	uint64_t now = START_NS + step * STEP_NS;
	char name[64];

	snprintf(name, sizeof(name), "%s %d", odd ? "step" : "iteration", (int)step);
	maker_nvtx(r->m, nvtx_kind_push, 1, name, at(r, now));
	maker_nvtx(r->m, nvtx_kind_push, 1, "inner step", at(r, now + 1));
	maker_nvtx(r->m, nvtx_kind_push, 1, "Optimizer.step", at(r, now + 2));
	for (uint64_t i = 0; i < 3; i++)
		maker_nvtx(r->m, nvtx_kind_pop, 1, NULL, at(r, now + STEP_NS - 10 * US + i));
}

/* Readings of the GPU: the temperature twice, the memory, and the clock while it works. */
static void add_readings(const struct rank *r, uint32_t rank)
{
	static const struct {
		uint32_t id;
		const char *name;
		int64_t first, second;
	} readings[] = {
		{ METRIC_gpu_temperature, "gpu_temperature", 40, 50 },
		{ METRIC_gpu_memory_used, "gpu_memory_used", INT64_C(3) << 30, 1 << 30 },
		{ METRIC_gpu_sm_clock, "gpu_sm_clock", 1500, 300 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(readings); i++) {
		struct row_counter counter = { .id = readings[i].id,
					       .name = maker_string(r->m, readings[i].name),
					       .kind = counter_kind_level };
		struct row_counter_sample sample = { .time_ns = at(r, START_NS),
						     .counter = counter.id,
						     .device = rank,
						     .value = readings[i].first };

		ROW_MISSING(&counter, counter, reading);
		writer_append(r->m->writer, TABLE_counter, &counter);
		writer_append(r->m->writer, TABLE_counter_sample, &sample);
		sample.time_ns = at(r, START_NS + STEPS * STEP_NS);
		sample.value = readings[i].second;
		if (!i && rank == r->job->late)
			sample.value += r->job->degrees;
		writer_append(r->m->writer, TABLE_counter_sample, &sample);
	}
}

static void add_step(const struct rank *r, uint32_t rank, uint64_t step)
{
	const struct job *job = r->job;
	uint64_t now = START_NS + step * STEP_NS, late = rank == job->late ? job->late_ns : 0;
	bool waits = !job->groups ||
		     rank / (job->ranks / job->groups) == job->late / (job->ranks / job->groups);
	uint64_t end = now + 130 * US + (waits ? job->late_ns : 0) + job->transfer_ns +
		       (rank + step) % 3 * US;
	uint64_t slow = job->slow_gpu ? late : 0, launch = now + 10 * US + late - slow;
	uint64_t second = job->pairs ? 15 * US : 0;

	if (late > slow)
		maker_off_cpu(r->m, 1, at(r, now + 5 * US), at(r, now + 5 * US + late),
			      off_cpu_state_sleeping, r->sleeping);
	r->m->stack = r->launching;
	for (uint64_t i = 0; i < 3; i++)
		maker_call(r->m, MAKER_LAUNCH, 1, at(r, launch + 2 * i * US),
			   at(r, launch + 2 * i * US + US), 4 * step + i);
	maker_call(r->m, MAKER_DEVICE_SYNCHRONIZE, 1, at(r, launch + 6 * US),
		   at(r, end + second + 5 * US), 4 * step + 3);
	maker_kernel(r->m, r->kernel, 7, at(r, launch + 10 * US), at(r, launch + 110 * US + slow),
		     4 * step);
	maker_kernel(r->m, r->all_reduce, 8, at(r, launch + 120 * US + slow), at(r, end),
		     4 * step + 1);
	if (job->pairs)
		maker_kernel(r->m, r->all_reduce, 8, at(r, end + 5 * US), at(r, end + second),
			     4 * step + 2);
}

/* NCCL's communicator of a rank's group, and the rows of its all-reduces. */
static void add_rows(const struct rank *r, uint32_t rank)
{
	uint32_t size = r->job->ranks / r->job->groups;
	struct row_communicator communicator = { .id = 1,
						 .hash = 77 + rank / size,
						 .ranks = size,
						 .rank = rank % size,
						 .missing = schema_missing(TABLE_communicator) };
	struct row_collective row = { .communicator = 1,
				      .function = collective_function_all_reduce,
				      .thread = 1,
				      .missing = schema_missing(TABLE_collective) };

	ROW_PRESENT(&communicator, communicator, ranks);
	ROW_PRESENT(&communicator, communicator, rank);
	writer_append(r->m->writer, TABLE_communicator, &communicator);
	ROW_PRESENT(&row, collective, communicator);
	ROW_PRESENT(&row, collective, sequence);
	ROW_PRESENT(&row, collective, correlation);
	for (uint64_t step = 0; step < STEPS; step++) {
		row.time_ns = START_NS + step * STEP_NS;
		row.sequence = step;
		row.correlation = 4 * step + 1;
		writer_append(r->m->writer, TABLE_collective, &row);
	}
}

static void write_rank(const char *folder, const struct job *job, uint32_t rank)
{
	struct rank r = { .job = job, .second_host = job->ahead_ns && rank >= job->ranks / 2 };

	r.m = maker_begin(folder, 100 + rank, at(&r, START_NS - STEP_NS), "./train");
	maker_device(r.m, rank, at(&r, START_NS - STEP_NS));
	r.m->device = rank;
	if (job->runs[0]) {
		r.m->process.rank = (uint32_t)(job->runs[rank][0] - '0');
		r.m->process.job = maker_string(r.m, job->runs[rank] + 2);
		ROW_PRESENT(&r.m->process, process, rank);
		ROW_PRESENT(&r.m->process, process, job);
	}
	if (r.second_host)
		r.m->process.boot_id = maker_string(r.m, "other");
	r.kernel = maker_config(r.m, "gemm", 1, 32);
	r.all_reduce = maker_config(r.m, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, 544);
	r.sleeping = maker_stack(r.m, maker_python(r.m, 0, "load", "/home/u/train.py", 9), 1,
				 stack_end_complete);
	r.launching = maker_stack(r.m, maker_python(r.m, 0, "step", "/home/u/train.py", 20), 1,
				  stack_end_complete);
	for (uint64_t step = 0; step < STEPS; step++)
		add_step(&r, rank, step);
	for (uint64_t step = 0; step < STEPS && job->steps; step++)
		add_ranges(&r, rank, step);
	if (job->steps)
		add_readings(&r, rank);
	if (job->groups)
		add_rows(&r, rank);
	if (job->hangs_ns && rank != job->late) {
		maker_call(r.m, MAKER_LAUNCH, 1, START_NS + STEPS * STEP_NS,
			   START_NS + STEPS * STEP_NS + US, 4 * STEPS);
		maker_kernel(r.m, r.all_reduce, 8, 0, 0, 4 * STEPS);
	}
	maker_close(r.m, at(&r, START_NS + (STEPS + 1) * STEP_NS + job->hangs_ns));
}

static void analyze_job(struct analyzed *a, const char *folder, const struct job *job)
{
	for (uint32_t rank = 0; rank < job->ranks; rank++)
		write_rank(folder, job, rank);
	analyze(a, folder, EVERYTHING);
	assert_int_equal(a->report.rank_times->count, job->ranks);
}

/* The first cause is the only one that matters. */
static void check_late(const struct report *r, const struct job *job)
{
	const struct rank_times *t = r->rank_times;

	assert_int_equal(t->kind, JOB_RANK);
	assert_int_equal(t->rank, job->late);
	assert_non_null(t->cause);
	assert_int_equal(t->cause->place.state, job->slow_gpu ? RANK_COMPUTE : RANK_HOST);
	assert_int_equal(t->cause->place.kind, PLACE_LINE);
	assert_string_equal(t->texts.items[t->cause->place.text].text,
			    job->slow_gpu ? "train.py:20 step" : "train.py:9 load");
	assert_int_equal(t->cause->count, STEPS - 1);
	assert_in_range(t->cause->excess_ns / t->cause->count, job->late_ns / 100 * 90,
			job->late_ns / 100 * 110);
	assert_in_range(t->items[job->late].late_ns / (STEPS - 1), job->late_ns / 100 * 90,
			job->late_ns / 100 * 110);
	for (uint32_t rank = 0; rank < t->count; rank++)
		if (rank != job->late)
			assert_in_range(t->items[rank].late_ns, 0, t->late_ns / 100);
}

static void the_late_rank_is_found(void **state)
{
	static const struct job jobs[] = {
		{ 2, 1, 300 * US, .transfer_ns = 50 * US },
		{ 8, 3, 300 * US, .transfer_ns = 50 * US },
		{ 8, 6, 300 * US, .transfer_ns = 50 * US, .slow_gpu = true },
		{ 8, 6, 300 * US, 7000 * US, 20e-6, 50 * US, .pairs = true },
		{ 8, 0, 300 * US, -7000 * (int64_t)US, -100e-6, 50 * US, .pairs = true },
		{ 64, 40, 300 * US, .transfer_ns = 50 * US },
	};

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		char folder[512];
		struct analyzed a;

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		analyze_job(&a, folder, &jobs[i]);
		assert_int_equal(a.report.collectives->whole, jobs[i].pairs ? 2 * STEPS : STEPS);
		assert_int_equal(a.report.collectives->host_count, jobs[i].ahead_ns ? 2 : 1);
		check_late(&a.report, &jobs[i]);
		analyzed_release(&a);
	}
}

/* Between hosts, 60 us are less than what long transfers leave uncertain; on one host they count */
static void clocks_limit_what_is_late(void **state)
{
	static const struct job jobs[] = {
		{ 4, 3, 60 * US, 3000 * US, .transfer_ns = 200 * US },
		{ 4, 3, 60 * US, .transfer_ns = 200 * US },
	};

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		char folder[512];
		struct analyzed a;

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		analyze_job(&a, folder, &jobs[i]);
		assert_int_equal(a.report.rank_times->uncertain,
				 i ? 0 : a.report.rank_times->compared);
		assert_int_equal(a.report.rank_times->kind, i ? JOB_RANK : JOB_UNKNOWN);
		assert_true(a.report.rank_times->waits_known);
		assert_int_equal(rank_times_late_known(a.report.rank_times), i);
		if (!i)
			assert_in_range(a.report.collectives->uncertainty_ns, 60 * US, 300 * US);
		analyzed_release(&a);
	}
}

/* The second host's clock jumps back and forth, so that no line is within all bounds. */
static void hosts_whose_clocks_cannot_be_aligned(void **state)
{
	static const struct job job = { 4, 3, 300 * US, 3000 * US, 0, 50 * US, .jumps = true };
	struct analyzed a;

	analyze_job(&a, *state, &job);
	assert_true(a.report.collectives->uncertainty_ns == UINT64_MAX);
	assert_int_equal(a.report.rank_times->kind, JOB_UNKNOWN);
	assert_int_equal(a.report.rank_times->compared, STEPS - 1);
	assert_false(a.report.rank_times->waits_known);
	assert_false(rank_times_late_known(a.report.rank_times));
	for (size_t i = 0; i < job.ranks; i++) {
		const double *values = a.report.rank_times->measured.items[i].values;

		assert_true(isnan(values[MEASURE_WAIT]) && values[MEASURE_EXPOSED] > 0);
	}
	analyzed_release(&a);
}

/* Only the ranks of its group wait for a rank. */
static void a_rank_delays_its_group(void **state)
{
	static const struct job job = { 8, 6, 300 * US, .transfer_ns = 50 * US, .groups = 2 };
	struct analyzed a;

	analyze_job(&a, *state, &job);
	assert_false(a.report.collectives->inferred);
	assert_int_equal(a.report.collectives->whole, 2 * STEPS);
	check_late(&a.report, &job);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(a.report.rank_times->items[i].state_ns[RANK_WAIT] >
					 100 * STEPS * US,
				 i != 6 && i >= 4);
	analyzed_release(&a);
}

/* Who is only late when the recording ends has not hung. */
static void hanging_takes_a_while(void **state)
{
	static const struct job jobs[] = {
		{ 4, 2, .transfer_ns = 50 * US, .hangs_ns = 2000000 * US },
		{ 4, 2, .transfer_ns = 50 * US, .hangs_ns = 20 * US },
	};

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		const struct rank_times *t;
		char folder[512];
		struct analyzed a;

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		analyze_job(&a, folder, &jobs[i]);
		t = a.report.rank_times;
		assert_int_equal(t->kind, i ? JOB_ALIKE : JOB_HUNG);
		if (!i) {
			assert_int_equal(t->rank, jobs[i].late);
			assert_int_equal(t->hung->parts, 3);
			assert_int_equal(t->hung_ns, jobs[i].hangs_ns + STEP_NS - US);
		}
		analyzed_release(&a);
	}
}

/* Ranks of two runs are not compared: neither the same rank twice at once, nor of two jobs. */
static void runs_are_not_mixed(void **state)
{
	static const struct {
		const char *runs[4];
		bool mixed;
		size_t repeated;
	} samples[] = {
		{ { "0 a", "1 a", "2 a", "3 a" }, false, 0 },
		{ { "0 a#1", "1 a#1", "2 a#2", "3 a" }, false, 0 },
		{ { "0 a", "1 a", "2 b", "3 b" }, true, 0 },
		{ { "0 a", "1 ", "2 a", "3 " }, false, 0 },
		{ { "0 a", "1 ", "2 b", "3 " }, true, 0 },
		{ { "0 ", "1 ", "2 ", "3 " }, false, 0 },
		{ { "0 a", "1 a", "0 a", "1 a" }, true, 3 },
		{ { "0 ", "1 ", "1 ", "2 " }, true, 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		struct job job = { 4, 3, 300 * US, .transfer_ns = 50 * US };
		struct analyzed a;
		char folder[512];

		memcpy(job.runs, samples[i].runs, sizeof(job.runs));
		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		analyze_job(&a, folder, &job);
		if (a.report.collectives->mixed != samples[i].mixed ||
		    a.report.collectives->repeated != samples[i].repeated)
			fail_msg("sample %zu: repeated %zu", i, a.report.collectives->repeated);
		assert_int_equal(a.report.rank_times->kind,
				 samples[i].mixed ? JOB_UNKNOWN : JOB_RANK);
		assert_int_equal(a.report.rank_times->measured.outlier_count == 0,
				 samples[i].mixed);
		assert_int_equal(a.report.rank_times->compared, samples[i].mixed ? 0 : STEPS - 1);
		assert_int_equal(a.report.rank_times->waits_known, !samples[i].mixed);
		assert_int_equal(isnan(a.report.rank_times->measured.items[0].values[MEASURE_BUSY]),
				 samples[i].mixed);
		assert_int_equal(a.report.collective_groups->items[0].compared,
				 samples[i].mixed ? 0 : STEPS);
		analyzed_release(&a);
	}
}

static bool has_outlier(const struct rank_times *t, enum rank_measure measure)
{
	for (size_t i = 0; i < t->measured.outlier_count; i++)
		if (t->measured.outliers[i].measure == measure)
			return true;
	return false;
}

/* The late rank waits for nobody, and may be hotter: only it is an outlier, and only in that. */
static void outliers_are_what_differs(void **state)
{
	static const struct {
		struct job job;
		size_t outliers; /* number of measures */
	} jobs[] = {
		{ { 8, 3, 300 * US, .transfer_ns = 50 * US, .steps = true, .degrees = 20 }, 3 },
		{ { 8, 3, 300 * US, .transfer_ns = 50 * US, .steps = true, .degrees = 2 }, 2 },
		{ { 8, 3, 20 * US, .transfer_ns = 50 * US, .steps = true }, 0 },
		{ { 8, 3, 300 * US, .transfer_ns = 50 * US, .odd_steps = true, .steps = true }, 2 },
		{ { 3, 1, 300 * US, .transfer_ns = 50 * US, .steps = true, .degrees = 20 }, 0 },
		/* The clocks of these hosts are aligned within what the ranks wait for. */
		{ { 8, 3, 60 * US, 3000 * US, .transfer_ns = 200 * US, .steps = true }, 1 },
		{ { 8, 3, 300 * US, 3000 * US, 0, 50 * US, .jumps = true, .steps = true }, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		const struct rank_times *t;
		const double *values;
		char folder[512];
		struct analyzed a;

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		analyze_job(&a, folder, &jobs[i].job);
		t = a.report.rank_times;
		if (t->measured.outlier_count != jobs[i].outliers)
			fail_msg("job %zu: %zu outliers", i, t->measured.outlier_count);
		for (size_t o = 0; o < t->measured.outlier_count; o++)
			assert_int_equal(t->measured.outliers[o].rank, jobs[i].job.late);
		assert_int_equal(has_outlier(t, MEASURE_TEMPERATURE),
				 t->count > 3 && jobs[i].job.degrees == 20);
		values = t->measured.items[0].values;
		if (jobs[i].job.odd_steps)
			assert_true(isnan(values[MEASURE_STEP]));
		else
			assert_in_range((uint64_t)values[MEASURE_STEP], STEP_NS * 99 / 100,
					STEP_NS * 101 / 100 * (jobs[i].job.jumps ? 2 : 1));
		assert_true(isnan(values[MEASURE_WAIT]) == jobs[i].job.jumps);
		assert_true(values[MEASURE_MEMORY] == (double)(INT64_C(3) << 30));
		assert_true(values[MEASURE_TEMPERATURE] == 50 && values[MEASURE_CLOCK] == 1500);
		analyzed_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_late_rank_is_found),
		folder_test(clocks_limit_what_is_late),
		folder_test(hosts_whose_clocks_cannot_be_aligned),
		folder_test(a_rank_delays_its_group),
		folder_test(hanging_takes_a_while),
		folder_test(outliers_are_what_differs),
		folder_test(runs_are_not_mixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
