#include "analysis/rank_times.h"

#include <string.h>

#include "report_fixture.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(the_late_rank_is_found),
		folder_test(clocks_limit_what_is_late),
		folder_test(hosts_whose_clocks_cannot_be_aligned),
		folder_test(a_rank_delays_its_group),
		folder_test(hanging_takes_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
