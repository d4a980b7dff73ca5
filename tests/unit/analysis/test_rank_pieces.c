/*
 * test_rank_pieces.c: a small job of which all is known: each piece of time of its GPUs and hosts,
 * the sums, and that a lack of memory is an error.
 */
#include "analysis/rank_times.h"

#include <errno.h>
#include <string.h>

#include "failing_alloc.h"
#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)
#define RANKS 3
#define STEPS 8
#define STEP_NS (1000 * US)
#define START_NS (1000 * STEP_NS)
#define LATE_NS (300 * US) /* of the last rank */

struct member {
	struct maker *m;
	uint32_t rank, kernel, all_reduce, line, launching;
	uint64_t correlation;
};

static void launch_at(struct member *r, uint32_t config, uint32_t stream, uint64_t call_ns,
		      uint64_t start_ns, uint64_t end_ns)
{
	r->correlation++;
	r->m->stack = config == r->kernel ? r->launching : 0;
	maker_call(r->m, MAKER_LAUNCH, 1, call_ns, call_ns + US, r->correlation);
	maker_kernel(r->m, config, stream, start_ns, end_ns, r->correlation);
}

/* Samples, a kernel, an all-reduce in a range, and a wait for both. */
static void add_step(struct member *r, uint64_t step)
{
	uint64_t now = START_NS + step * STEP_NS, late = r->rank == RANKS - 1 ? LATE_NS : 0;
	uint64_t end = now + 150 * US + LATE_NS + (r->rank + step) % 3 * US;
	char name[32];

	snprintf(name, sizeof(name), "step %d", (int)step);
	maker_nvtx(r->m, nvtx_kind_push, 1, name, now);
	maker_cpu_sample(r->m, 1, now + 4 * US, 3 * US, r->line);
	if (late)
		maker_off_cpu(r->m, 1, now + 5 * US, now + 5 * US + late, off_cpu_state_sleeping,
			      r->line);
	launch_at(r, r->kernel, 7, now + 10 * US + late, now + 20 * US + late,
		  now + 80 * US + late);
	launch_at(r, r->all_reduce, 8, now + 13 * US + late, now + 90 * US + late, end);
	maker_call(r->m, MAKER_DEVICE_SYNCHRONIZE, 1, now + 16 * US + late, end + 5 * US,
		   ++r->correlation);
	maker_nvtx(r->m, nvtx_kind_pop, 1, NULL, end + 10 * US);
}

static void write_rank(const char *folder, uint32_t rank)
{
	struct member r = { .m = maker_begin(folder, 100 + rank, START_NS - STEP_NS, "./train"),
			    .rank = rank };

	maker_device(r.m, rank, START_NS - STEP_NS);
	r.m->device = rank;
	r.kernel = maker_config(r.m, "gemm", 1, 32);
	r.all_reduce = maker_config(r.m, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, 544);
	r.line = maker_stack(r.m, maker_python(r.m, 0, "load", "/home/u/train.py", 9), 1,
			     stack_end_complete);
	r.launching = maker_stack(r.m, maker_python(r.m, 0, "step", "/home/u/train.py", 20), 1,
				  stack_end_complete);
	for (uint64_t step = 0; step < STEPS; step++)
		add_step(&r, step);
	maker_close(r.m, START_NS + (STEPS + 1) * STEP_NS);
}

static void check_whole(const struct rank_times *t)
{
	assert_int_equal(t->kind, JOB_RANK);
	assert_int_equal(t->rank, RANKS - 1);
	assert_int_equal(t->compared, STEPS - 1);
	assert_string_equal(t->texts.items[t->cause->place.text].text, "train.py:9 load");
	assert_int_equal(t->cause->count, STEPS - 1);
	for (uint32_t i = 0; i < RANKS; i++) {
		uint64_t sum = 0;

		for (unsigned state = 0; state < RANK_STATES; state++)
			sum += t->items[i].state_ns[state];
		/* from its first arrival to the end of the last all-reduce */
		assert_int_equal(sum, (STEPS - 1) * STEP_NS + 60 * US +
					      (i == RANKS - 1 ? 0 : LATE_NS) +
					      (i + STEPS - 1) % 3 * US);
		assert_int_equal(t->items[i].state_ns[RANK_WAIT],
				 i == RANKS - 1 ? 0 : STEPS * LATE_NS);
		assert_int_equal(t->items[i].last, i == RANKS - 1 ? STEPS - 1 : 0);
		assert_true(t->measured.items[i].values[MEASURE_STEP] == (double)STEP_NS);
	}
}

/* --- pieces --- */

#define LOAD                                                                                       \
	{                                                                                          \
		PLACE_LINE, "train.py:9 load"                                                      \
	}
#define LAUNCH                                                                                     \
	{                                                                                          \
		PLACE_LINE, "train.py:20 step"                                                     \
	}
#define RANGE                                                                                      \
	{                                                                                          \
		PLACE_RANGE, "step N"                                                              \
	}

/* Until when, in us since the beginning of a step; END: of its all-reduce. */
#define END 10000

struct expected {
	uint32_t until;
	enum rank_state state;
	struct {
		enum place_kind kind;
		const char *text;
	} place;
};

static uint64_t time_of(uint32_t rank, uint64_t step, uint32_t us)
{
	uint64_t now = START_NS + step * STEP_NS;

	return us < END ? now + us * US
			: now + 150 * US + LATE_NS + ((rank + step) % 3 + us - END) * US;
}

/* Compares pieces, from `first` of the expected ones on, which repeat each step. */
static void check_pieces(const struct interner *texts, const struct rank_piece *pieces,
			 size_t count, uint32_t rank, const struct expected *expected, size_t each,
			 uint64_t from_ns)
{
	for (size_t i = 0; i < count; i++) {
		const struct expected *e = &expected[i % each];
		const struct rank_piece *p = &pieces[i];

		if (p->end_ns != time_of(rank, i / each, e->until) || p->place.state != e->state ||
		    p->place.kind != e->place.kind ||
		    strcmp(texts->items[p->place.text].text, e->place.text))
			fail_msg("rank %u, piece %zu: until %ld us, %d %s", rank, i,
				 (long)(p->end_ns - START_NS - i / each * STEP_NS) / (long)US,
				 p->place.state, texts->items[p->place.text].text);
		if (from_ns)
			assert_int_equal(p->start_ns, from_ns);
		from_ns = from_ns ? p->end_ns : 0;
	}
}

static void find_pieces(struct rank_pieces *p, const struct report *r, uint32_t rank)
{
	struct collective_part parts[STEPS];
	uint64_t last_ns[STEPS];
	size_t count = 0;

	for (size_t i = 0; i < r->collectives->parts.count; i++)
		if (r->collectives->parts.data[i].rank == rank) {
			last_ns[count] = time_of(rank, count, 390);
			parts[count++] = r->collectives->parts.data[i];
		}
	assert_int_equal(count, STEPS);
	assert_int_equal(rank_pieces_find(p, &r->collectives->ranks[rank], parts, last_ns, count),
			 0);
}

static void each_time_has_its_place(void **state)
{
	static const struct expected waiting[] = {
		{ 80, RANK_COMPUTE, LAUNCH },    { 90, RANK_HOST, RANGE },
		{ 390, RANK_WAIT, RANGE },       { END, RANK_TRANSFER, RANGE },
		{ END + 10, RANK_HOST, LOAD },   { 1000, RANK_HOST, LAUNCH },
		{ 1020, RANK_HOST, LOAD },
	}, late[] = {
		{ 380, RANK_COMPUTE, LAUNCH },   { 390, RANK_HOST, RANGE },
		{ END, RANK_TRANSFER, RANGE },   { END + 10, RANK_HOST, LOAD },
		{ 1000, RANK_HOST, LAUNCH },     { 1320, RANK_HOST, LOAD },
	}, host[] = {
		{ 16, RANK_HOST, RANGE },        { END + 10, RANK_HOST, RANGE },
		{ 1000, RANK_HOST, RANGE },      { 1001, RANK_HOST, RANGE },
		{ 1004, RANK_HOST, LOAD },       { 1013, RANK_HOST, RANGE },
	}, late_host[] = {
		{ 316, RANK_HOST, RANGE },       { END + 10, RANK_HOST, RANGE },
		{ 1000, RANK_HOST, RANGE },      { 1001, RANK_HOST, RANGE },
		{ 1004, RANK_HOST, LOAD },       { 1005, RANK_HOST, RANGE },
		{ 1305, RANK_HOST, LOAD },       { 1313, RANK_HOST, RANGE },
	};
	struct rank_pieces p;
	struct interner texts;
	struct analyzed a;

	for (uint32_t rank = 0; rank < RANKS; rank++)
		write_rank(*state, rank);
	analyze(&a, *state, EVERYTHING);
	interner_init(&texts);
	assert_int_equal(rank_pieces_init(&p, &a.report, &texts), 0);
	for (uint32_t rank = 0; rank + 1 < RANKS; rank++) {
		find_pieces(&p, &a.report, rank);
		assert_int_equal(p.pieces.count, ARRAY_SIZE(waiting) * STEPS - 3);
		check_pieces(&texts, p.pieces.data, p.pieces.count, rank, waiting,
			     ARRAY_SIZE(waiting), time_of(rank, 0, 20));
		assert_int_equal(p.host.count, ARRAY_SIZE(host) * (STEPS - 1));
		check_pieces(&texts, p.host.data, p.host.count, rank, host, ARRAY_SIZE(host), 0);
		assert_int_equal(p.host.data[0].start_ns, time_of(rank, 0, 13));
		assert_int_equal(p.host.data[1].start_ns, time_of(rank, 0, END + 5));
	}
	find_pieces(&p, &a.report, RANKS - 1);
	assert_int_equal(p.pieces.count, ARRAY_SIZE(late) * STEPS - 3);
	check_pieces(&texts, p.pieces.data, p.pieces.count, RANKS - 1, late, ARRAY_SIZE(late),
		     time_of(RANKS - 1, 0, 320));
	assert_int_equal(p.host.count, ARRAY_SIZE(late_host) * (STEPS - 1));
	check_pieces(&texts, p.host.data, p.host.count, RANKS - 1, late_host, ARRAY_SIZE(late_host),
		     0);
	rank_pieces_release(&p);
	interner_release(&texts);
	analyzed_release(&a);
}

static void without_memory(void **state)
{
	struct rank_times times;
	struct collectives found;
	struct job_source source;
	struct analyzed a;

	for (uint32_t rank = 0; rank < RANKS; rank++)
		write_rank(*state, rank);
	analyze(&a, *state, EVERYTHING);
	check_whole(a.report.rank_times);
	source = job_source_of(&a.report);
	FOR_EACH_FAILURE(n)
	{
		int rc = rank_times_find(&source, a.report.collectives, &times);

		if (rc != (failing_alloc_failed ? -ENOMEM : 0))
			fail_msg("allocation %ld: %d", n, rc);
		if (!rc)
			check_whole(&times);
		analysis_rank_times.release(&times);
	}
	FOR_EACH_FAILURE(n)
	{
		int rc = collectives_find(&source, &found);

		if (rc != (failing_alloc_failed ? -ENOMEM : 0))
			fail_msg("allocation %ld: %d", n, rc);
		if (!rc)
			assert_int_equal(found.whole, STEPS);
		collectives_free(&found);
	}
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_time_has_its_place),
		folder_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
