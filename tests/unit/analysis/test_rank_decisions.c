/*
 * test_rank_decisions.c: the verdict on a job, and its outliers, at the limits of
 * each rule. Jobs that are simulated as a whole are in test_rank_verdict.c.
 */
#include "analysis/rank_verdict.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_tests.h"

#define RANKS 8
#define SPAN UINT64_C(1000000) /* of which JOB_LATE_PERCENT are 50,000 */
#define NONE UINT32_MAX

/* How late ranks were, and their longest delay. */
static const struct sample {
	const char *name;
	uint64_t late[RANKS], hiccup[RANKS];
	uint32_t places[RANKS]; /* of each rank's cause, if it was late */
	uint64_t compared; /* 0: 9, which are too few for hiccups */
	enum job_kind kind;
	uint32_t rank, cause; /* cause: item of the causes, by late_ns; NONE: there is none */
} samples[] = {
	{ "nobody", { 0 }, .kind = JOB_ALIKE, .cause = NONE },
	{ "at the limit", { 0, 50000 }, .kind = JOB_ALIKE, .cause = NONE },
	{ "above it", { 0, 50001 }, .kind = JOB_RANK, .rank = 1 },
	{ "the first", { 60000 }, .kind = JOB_RANK },
	{ "two thirds", { 29000, 0, 61000 }, .kind = JOB_RANK, .rank = 2, .cause = 0 },
	{ "less than that", { 31000, 0, 60000 }, .kind = JOB_TURNS, .cause = NONE },
	{ "of one place", { 31000, 0, 60000 }, .places = { 7, 0, 7 }, .kind = JOB_TURNS },
	{ "mostly of one place",
	  { 31000, 20000, 60000 },
	  .places = { 7, 3, 7 },
	  .kind = JOB_TURNS },
	{ "of two places",
	  { 31000, 20000, 40000 },
	  .places = { 7, 3, 7 },
	  .kind = JOB_TURNS,
	  .cause = 0 },
	{ "hardly of one place",
	  { 30000, 31000, 30000 },
	  .places = { 7, 3, 7 },
	  .kind = JOB_TURNS,
	  .cause = NONE },
	{ "all of it below the limit of each",
	  { 20000, 20000, 20000 },
	  .kind = JOB_TURNS,
	  .cause = NONE },
	{ "hiccups",
	  { 60000 },
	  .hiccup = { 20000 },
	  .compared = 100,
	  .kind = JOB_ALIKE,
	  .cause = NONE },
	{ "hiccups of few collectives",
	  { 60000 },
	  .hiccup = { 20000 },
	  .compared = 9,
	  .kind = JOB_RANK },
	{ "one hiccup",
	  { 60000 },
	  .hiccup = { 20000 },
	  .compared = 10,
	  .kind = JOB_ALIKE,
	  .cause = NONE },
	{ "late without its hiccup",
	  { 80000 },
	  .hiccup = { 20000 },
	  .compared = 100,
	  .kind = JOB_RANK },
	{ "hiccups of four",
	  { 30000, 30000, 30000, 30000 },
	  .hiccup = { 25000, 25000, 25000, 25000 },
	  .compared = 100,
	  .kind = JOB_ALIKE,
	  .cause = NONE },
	/* More than six are none any more. */
	{ "hiccups of eight",
	  { 30000, 30000, 30000, 30000, 30000, 30000, 30000, 30000 },
	  .hiccup = { 25000, 25000, 25000, 25000, 25000, 25000, 25000, 25000 },
	  .compared = 100,
	  .kind = JOB_TURNS,
	  .cause = NONE },
	{ "hiccups are most",
	  { 100000, 100000, 100000, 100000, 100000, 100000, 1, 1 },
	  .hiccup = { 90000, 90000, 90000, 90000, 90000, 90000 },
	  .compared = 100,
	  .kind = JOB_ALIKE,
	  .cause = NONE },
};

struct job {
	struct job_rank ranks[RANKS];
	struct rank_time times[RANKS];
	struct late_cause causes[RANKS];
	struct collectives c;
	struct rank_times t;
};

static void make(struct job *j, size_t count)
{
	*j = (struct job){ .t = { .span_ns = SPAN, .compared = 9, .waits_known = true } };
	for (uint32_t i = 0; i < count; i++)
		j->ranks[i].number = 10 + i;
	j->c.ranks = j->ranks;
	j->c.uncertainty_ns = GPU_CLOCKS_NS;
	j->c.rank_count = j->t.count = count;
	j->t.items = j->times;
	j->t.causes = j->causes;
}

static int by_late(const void *a, const void *b)
{
	const struct late_cause *x = a, *y = b;

	return (x->late_ns < y->late_ns) - (x->late_ns > y->late_ns);
}

static void add_late(struct job *j, uint32_t rank, uint64_t late_ns, uint64_t hiccup_ns,
		     uint32_t place)
{
	struct late_cause cause = { .rank = rank, .late_ns = late_ns };

	if (!late_ns)
		return;
	cause.place.kind = PLACE_LINE;
	cause.place.text = place ? place : 100 + rank;
	j->times[rank].late_ns = late_ns;
	j->times[rank].hiccup_ns[0] = hiccup_ns;
	j->t.late_ns += late_ns;
	j->causes[j->t.cause_count++] = cause;
	qsort(j->causes, j->t.cause_count, sizeof(cause), by_late);
}

static void one_rank_or_several(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *s = &samples[i];
		struct job j;

		make(&j, RANKS);
		for (uint32_t rank = 0; rank < RANKS; rank++)
			add_late(&j, rank, s->late[rank], s->hiccup[rank], s->places[rank]);
		j.t.compared = s->compared ? s->compared : 9;
		rank_verdict_find(&j.c, &j.t);
		if (j.t.kind != s->kind || (s->kind == JOB_RANK && j.t.rank != s->rank))
			fail_msg("%s: %d, rank %u", s->name, j.t.kind, j.t.rank);
		if (s->cause == NONE ? j.t.cause != NULL : j.t.cause != &j.causes[s->cause])
			fail_msg("%s: another cause", s->name);
	}
}

/* Its items follow each other; the largest cause of all of them is named. */
static void a_restarted_rank_is_one_rank(void **state)
{
	struct job j;

	(void)state;
	make(&j, 4);
	j.ranks[2].number = j.ranks[1].number;
	add_late(&j, 0, 10000, 0, 0);
	add_late(&j, 1, 30000, 15000, 0);
	add_late(&j, 2, 40000, 0, 0);
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_RANK);
	assert_int_equal(j.t.rank, 1);
	assert_ptr_equal(j.t.cause, &j.causes[0]);
	assert_int_equal(j.t.cause->rank, 2);
	j.t.compared = 100; /* hiccups do not count */
	j.times[2].hiccup_ns[0] = 20000;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_ALIKE);
	j.ranks[2].number = 99;
	j.times[1].hiccup_ns[0] = j.times[2].hiccup_ns[0] = 0;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_TURNS);
}

static void what_cannot_be_compared(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	add_late(&j, 1, 60000, 0, 0);
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_RANK);
	j.c.uncertainty_ns = UINT64_MAX;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_UNKNOWN);
	j.c.uncertainty_ns = GPU_CLOCKS_NS;
	j.c.mixed = true;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_UNKNOWN);
	j.c.mixed = false;
	j.t.compared = 0;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_UNKNOWN);
}

/* Ten times 5 us are what 5 % of the time may hide; more are a verdict no more. */
static void what_the_clocks_may_hide(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	j.t.compared = 20;
	j.t.uncertain = 20; /* of all ranks, at the same times */
	j.t.items[1].uncertain = 10;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_ALIKE);
	j.t.uncertain = 19;
	j.t.items[1].uncertain = 11;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_UNKNOWN);
	assert_true(rank_times_late_known(&j.t)); /* at the other nine */
	j.t.uncertain = 20;
	rank_verdict_find(&j.c, &j.t);
	assert_false(rank_times_late_known(&j.t));
	j.t.kind = JOB_ALIKE;
	assert_true(rank_times_late_known(&j.t));
	j.t.compared = 0;
	assert_false(rank_times_late_known(&j.t));
}

static void transfers_of_most_of_the_time(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	j.times[0].state_ns[RANK_TRANSFER] = 30;
	j.times[1].state_ns[RANK_TRANSFER] = 20;
	j.times[0].state_ns[RANK_COMPUTE] = 40;
	j.times[1].state_ns[RANK_WAIT] = 10;
	assert_int_equal(rank_times_sum(&j.t, RANK_TRANSFER), 50);
	assert_int_equal(rank_times_total(&j.t), 100);
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_ALIKE);
	j.times[1].state_ns[RANK_TRANSFER] = 22;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_COMMUNICATION);
	add_late(&j, 1, 60000, 0, 0);
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_RANK);
}

/* For a collective ranks 0 and 1 wait from 3 and 2 ms on, to which rank 2 does not come. */
static void when_a_rank_has_hung(void **state)
{
	struct collective_part parts[] = { { .start_ns = 9 },
					   { .start_ns = 3000000 },
					   { .start_ns = 2000000, .rank = 1 } };
	struct collective_match matches[] = { { 0 }, { .first = 1, .parts = 2 } };
	struct absent_rank absent[] = { { 1, 1, ABSENT_LOST }, { 1, 2, ABSENT_HUNG } };
	struct job j;

	(void)state;
	make(&j, 3);
	j.c.parts.data = parts;
	j.c.matches.items.data = matches;
	j.c.matches.absent.data = absent;
	j.c.matches.absent.count = 2;
	j.ranks[0].end_ns = 900000000;
	j.ranks[1].end_ns = 1001999999;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_ALIKE); /* less than a second */
	j.ranks[1].end_ns++;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_HUNG);
	assert_int_equal(j.t.rank, 2);
	assert_int_equal(j.t.hung_ns, 1000000000);
	assert_ptr_equal(j.t.hung, &matches[1]);
	j.t.compared = 0;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_HUNG);
	j.t.compared = 9; /* nine in a second: ten times as long is longer */
	j.t.span_ns = 1000000000;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_ALIKE);
	j.t.compared = 10;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_HUNG);
	j.c.mixed = true;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_UNKNOWN);
	j.c.mixed = false;
	absent[1].why = ABSENT_OUTSIDE;
	rank_verdict_find(&j.c, &j.t);
	assert_int_equal(j.t.kind, JOB_ALIKE);
}

static void the_longest_delays(void **state)
{
	static const uint64_t delays[] = { 5, 9, 1, 7, 7, 3, 11 };
	uint64_t longest[3] = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(delays); i++)
		rank_hiccups_add(longest, ARRAY_SIZE(longest), delays[i]);
	assert_int_equal(longest[0], 11);
	assert_int_equal(longest[1], 9);
	assert_int_equal(longest[2], 7);
}

/* --- measures --- */

#define COMPARED 5

static void compare(struct rank_measures *items, enum rank_measure measure, const double *values,
		    struct measured_ranks *out)
{
	*out = (struct measured_ranks){ .items = items, .count = COMPARED };
	for (size_t i = 0; i < COMPARED; i++) {
		items[i] = (struct rank_measures){ .steps_of = 3 };
		for (unsigned m = 0; m < MEASURES; m++)
			items[i].values[m] = NAN;
		items[i].values[measure] = values[i];
	}
	assert_int_equal(rank_measures_compare(out, 1000, 7, 2), 0);
}

/*
 * The last rank differs by 5 % of the compared time, 50; a wait also by what clocks do not show,
 * 14; others by 5 % of the median.
 */
static void the_least_difference_that_counts(void **state)
{
	static const struct {
		enum rank_measure measure;
		double median, least;
	} limits[] = {
		{ MEASURE_STEP, 200, 10 },      { MEASURE_BUSY, 200, 50 },
		{ MEASURE_WAIT, 200, 64 },      { MEASURE_EXPOSED, 200, 50 },
		{ MEASURE_MEMORY, 4000, 200 },  { MEASURE_CLOCK, 2000, 100 },
		{ MEASURE_TEMPERATURE, 40, 2 },
	};

	(void)state;
	for (size_t i = 0; i < 4 * ARRAY_SIZE(limits); i++) {
		double median = limits[i / 4].median, least = limits[i / 4].least;
		double by = (i & 1 ? 1.01 : 0.99) * (i & 2 ? -least : least);
		double values[COMPARED] = { median, median, median, median, median + by };
		struct rank_measures items[COMPARED];
		struct measured_ranks m;

		compare(items, limits[i / 4].measure, values, &m);
		if (m.outlier_count != (i & 1))
			fail_msg("%zu: %zu outliers", i, m.outlier_count);
		if (i & 1) {
			assert_int_equal(m.outliers[0].rank, COMPARED - 1);
			assert_int_equal(m.outliers[0].measure, limits[i / 4].measure);
			assert_true(m.outliers[0].value == median + by);
			assert_true(m.outliers[0].median == median);
			assert_true(fabs(m.outliers[0].score - (i & 2 ? -3.535 : 3.535)) < 0.001);
		}
		assert_true(items[0].heat[limits[i / 4].measure] == 0);
		assert_true(fabs(items[4].heat[limits[i / 4].measure] - by / least / 2) < 0.001);
		assert_true(isnan(items[4].heat[(limits[i / 4].measure + 1) % MEASURES]));
		free(m.outliers);
	}
}

static void outliers_by_their_distance(void **state)
{
	static const double values[COMPARED] = { 40, 400, 40, 10, 40 };
	struct rank_measures items[COMPARED];
	struct measured_ranks m;

	(void)state;
	compare(items, MEASURE_TEMPERATURE, values, &m);
	assert_int_equal(m.outlier_count, 2);
	assert_int_equal(m.outliers[0].rank, 1);
	assert_int_equal(m.outliers[1].rank, 3);
	assert_true(items[1].heat[MEASURE_TEMPERATURE] == 1);
	assert_true(items[3].heat[MEASURE_TEMPERATURE] == -1);
	free(m.outliers);
}

static void steps_of_other_names(void **state)
{
	static const double values[COMPARED] = { 40, 40, 40, 40, 400 };
	struct rank_measures items[COMPARED];
	struct measured_ranks m;

	(void)state;
	compare(items, MEASURE_STEP, values, &m);
	assert_int_equal(m.outlier_count, 1);
	free(m.outliers);
	m = (struct measured_ranks){ .items = items, .count = COMPARED };
	items[COMPARED - 1].steps_of = 4;
	assert_int_equal(rank_measures_compare(&m, 1000, 7, 2), 0);
	assert_int_equal(m.outlier_count, 0);
	assert_true(isnan(items[0].values[MEASURE_STEP]));
	free(m.outliers);
	compare(items, MEASURE_STEP, values, &m);
	free(m.outliers);
	m = (struct measured_ranks){ .items = items, .count = COMPARED };
	items[0].steps_of = 4;
	assert_int_equal(rank_measures_compare(&m, 1000, 7, 2), 0);
	assert_true(isnan(items[COMPARED - 1].values[MEASURE_STEP]));
	free(m.outliers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_rank_or_several),
		cmocka_unit_test(a_restarted_rank_is_one_rank),
		cmocka_unit_test(what_cannot_be_compared),
		cmocka_unit_test(what_the_clocks_may_hide),
		cmocka_unit_test(transfers_of_most_of_the_time),
		cmocka_unit_test(when_a_rank_has_hung),
		cmocka_unit_test(the_longest_delays),
		cmocka_unit_test(the_least_difference_that_counts),
		cmocka_unit_test(outliers_by_their_distance),
		cmocka_unit_test(steps_of_other_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
