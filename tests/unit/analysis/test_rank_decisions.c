/*
 * test_rank_decisions.c: the verdict on a job, and its outliers, at the limits of
 * each rule. Jobs that are simulated as a whole are in test_rank_verdict.c.
 */
#include "analysis/rank_verdict.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_tests.h"

#define RANKS 8
#define ROUNDS 100
#define ROUND_NS UINT64_C(10000000) /* of which JOB_LATE_PERCENT are JOB_LATE_NS */
#define NONE UINT32_MAX
#define EVERY ROUNDS

/* By how much a rank was late in each of its rounds, which are the first ones, or in turn. */
struct habit {
	uint32_t us, rounds, place;
	bool in_turn; /* in the rounds of its number */
};

#define LATE(by_us, in_rounds, ...)                                                                \
	{                                                                                          \
		.us = (by_us), .rounds = (in_rounds), __VA_ARGS__                                  \
	}

static const struct sample {
	const char *name;
	struct habit habits[RANKS];
	uint32_t rounds; /* 0: ROUNDS */
	enum job_kind kind;
	uint32_t rank, cause; /* cause: item of the causes, by late_ns; NONE: there is none */
} samples[] = {
	{ "nobody", { { 0 } }, .kind = JOB_ALIKE, .cause = NONE },
	{ "at the limit", { { 0 }, LATE(500, EVERY) }, .kind = JOB_ALIKE, .cause = NONE },
	{ "above it", { { 0 }, LATE(501, EVERY) }, .kind = JOB_RANK, .rank = 1 },
	{ "the first", { LATE(600, EVERY) }, .kind = JOB_RANK },
	{ "two thirds",
	  { LATE(290, EVERY), { 0 }, LATE(610, EVERY) },
	  .kind = JOB_RANK,
	  .rank = 2,
	  .cause = 0 },
	{ "less than that",
	  { LATE(310, EVERY), { 0 }, LATE(600, EVERY) },
	  .kind = JOB_TURNS,
	  .cause = NONE },
	{ "of one place",
	  { LATE(310, EVERY, .place = 7), { 0 }, LATE(600, EVERY, .place = 7) },
	  .kind = JOB_TURNS },
	{ "mostly of one place",
	  { LATE(310, EVERY, .place = 7), LATE(200, EVERY, .place = 3),
	    LATE(600, EVERY, .place = 7) },
	  .kind = JOB_TURNS },
	{ "of two places",
	  { LATE(310, EVERY, .place = 7), LATE(200, EVERY, .place = 3),
	    LATE(400, EVERY, .place = 7) },
	  .kind = JOB_TURNS,
	  .cause = 0 },
	{ "hardly of one place",
	  { LATE(300, EVERY, .place = 7), LATE(310, EVERY, .place = 3),
	    LATE(300, EVERY, .place = 7) },
	  .kind = JOB_TURNS,
	  .cause = NONE },
	{ "all of it below the limit of each",
	  { LATE(200, EVERY), LATE(200, EVERY), LATE(200, EVERY) },
	  .kind = JOB_TURNS,
	  .cause = NONE },
	{ "in turn",
	  { LATE(4000, 20, .place = 7, .in_turn = true),
	    LATE(4000, 20, .place = 7, .in_turn = true),
	    LATE(4000, 20, .place = 7, .in_turn = true) },
	  .kind = JOB_TURNS },
	{ "one long delay", { LATE(60000, 1) }, .kind = JOB_ALIKE, .cause = NONE },
	{ "three long delays", { LATE(60000, 3) }, .kind = JOB_ALIKE, .cause = NONE },
	{ "in one of ten", { LATE(20000, 10) }, .kind = JOB_RANK },
	{ "few steps", { LATE(600, 4) }, .rounds = 4, .kind = JOB_RANK },
	{ "one of few steps", { LATE(6000, 1) }, .rounds = 4, .kind = JOB_RANK },
	{ "one of some steps", { LATE(6000, 1) }, .rounds = 5, .kind = JOB_ALIKE, .cause = NONE },
	{ "late always, and another one once",
	  { LATE(1000, EVERY), LATE(30000, 1) },
	  .kind = JOB_RANK },
	{ "mostly, but by one delay", { LATE(80000, 2), LATE(700, EVERY) }, .kind = JOB_TURNS },
	{ "hiccups of four",
	  { LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true) },
	  .kind = JOB_ALIKE,
	  .cause = NONE },
	{ "hiccups of eight",
	  { LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true),
	    LATE(50000, 1, .place = 0, .in_turn = true) },
	  .kind = JOB_TURNS,
	  .cause = NONE },
};

struct job {
	struct job_rank ranks[RANKS];
	struct rank_time times[RANKS];
	struct late_cause causes[RANKS];
	struct rank_round rounds[ROUNDS];
	struct rank_delay delays[RANKS * ROUNDS];
	struct collectives c;
	struct rank_times t;
};

static void make_rounds(struct job *j, uint32_t rounds, uint64_t round_ns)
{
	j->t.span_ns = rounds * round_ns;
	j->t.rounds.items.data = j->rounds;
	j->t.rounds.items.count = rounds;
	j->t.rounds.kind = ROUND_STEP;
	for (uint32_t i = 0; i < rounds; i++)
		j->rounds[i] = (struct rank_round){ (i + 1) * round_ns, round_ns };
}

static void make(struct job *j, size_t count)
{
	*j = (struct job){ .t = { .compared = 9, .waits_known = true } };
	for (uint32_t i = 0; i < count; i++)
		j->ranks[i].number = 10 + i;
	j->c.ranks = j->ranks;
	j->c.uncertainty_ns = GPU_CLOCKS_NS;
	j->c.rank_count = j->t.count = count;
	j->t.items = j->times;
	j->t.causes = j->causes;
	j->t.delays.data = j->delays;
	make_rounds(j, ROUNDS, ROUND_NS);
}

static int by_late(const void *a, const void *b)
{
	const struct late_cause *x = a, *y = b;

	return (x->late_ns < y->late_ns) - (x->late_ns > y->late_ns);
}

static void add_late(struct job *j, uint32_t rank, struct habit habit)
{
	struct late_cause cause = { .rank = rank };

	if (!habit.us)
		return;
	for (uint32_t i = 0; i < habit.rounds; i++) {
		uint32_t round = habit.in_turn ? i * RANKS % ROUNDS + rank : i;

		j->delays[j->t.delays.count++] =
			(struct rank_delay){ j->rounds[round].end_ns, habit.us * 1000, rank };
		cause.late_ns += habit.us * 1000;
	}
	cause.place.kind = PLACE_LINE;
	cause.place.text = habit.place ? habit.place : 100 + rank;
	j->times[rank].late_ns = cause.late_ns;
	j->t.late_ns += cause.late_ns;
	j->causes[j->t.cause_count++] = cause;
	qsort(j->causes, j->t.cause_count, sizeof(cause), by_late);
}

static enum job_kind decide(struct job *j)
{
	assert_int_equal(rank_verdict_find(&j->c, &j->t), 0);
	return j->t.kind;
}

static void one_rank_or_several(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *s = &samples[i];
		struct job j;

		make(&j, RANKS);
		if (s->rounds)
			make_rounds(&j, s->rounds, ROUND_NS);
		for (uint32_t rank = 0; rank < RANKS; rank++)
			add_late(&j, rank, s->habits[rank]);
		decide(&j);
		if (j.t.kind != s->kind || (s->kind == JOB_RANK && j.t.rank != s->rank))
			fail_msg("%s: %d, rank %u", s->name, j.t.kind, j.t.rank);
		if (s->cause == NONE ? j.t.cause != NULL : j.t.cause != &j.causes[s->cause])
			fail_msg("%s: another cause", s->name);
	}
}

/* Rounds of 2 ms: 5 % of them are less than balanced ranks differ by, 25 % are not. */
static void delays_that_are_too_short_to_matter(void **state)
{
	static const struct {
		uint64_t round_ns;
		uint32_t us;
		enum job_kind kind;
	} cases[] = {
		{ 2000000, 300, JOB_ALIKE },   { 2000000, 499, JOB_ALIKE },
		{ 2000000, 500, JOB_RANK },    { 2400000, 500, JOB_RANK },
		{ 400000, 100, JOB_RANK },     { 400000, 99, JOB_ALIKE },
		{ 100000000, 5001, JOB_RANK }, { 100000000, 4999, JOB_ALIKE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;

		make(&j, 2);
		make_rounds(&j, ROUNDS, cases[i].round_ns);
		add_late(&j, 1, (struct habit)LATE(cases[i].us, EVERY));
		j.t.rounds.kind = ROUND_COLLECTIVE; /* it is not known in what: 5 % count */
		assert_int_equal(decide(&j), cases[i].us == 4999 ? JOB_ALIKE : JOB_RANK);
		j.t.rounds.kind = i % 2 ? ROUND_STEP : ROUND_REPETITION;
		if (decide(&j) != cases[i].kind)
			fail_msg("%zu: %d", i, j.t.kind);
		assert_int_equal(j.t.latest, 1);
		assert_in_range(rank_times_round_ns(&j.t, j.t.evidence.own.value),
				cases[i].us * 1000 - 1, cases[i].us * 1000 + 1);
	}
}

static void rounds_in_which_a_rank_was_late(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add_late(&j, 1, (struct habit)LATE(600, 70));
	add_late(&j, 2, (struct habit)LATE(700, 30));
	assert_int_equal(decide(&j), JOB_TURNS);
	assert_int_equal(j.t.latest, 1);
	assert_int_equal(j.t.late_rounds, 70);
	assert_true(fabs(j.t.evidence.own.value - 0.042) < 1e-9);
	assert_true(fabs(j.t.evidence.all.value - 0.063) < 1e-9);
	assert_true(fabs(j.t.evidence.part.value - 2.0 / 3) < 1e-9);
}

/* Groups of ranks can be late at the same time; times of a damaged recording are arbitrary. */
static void delays_beyond_all_times(void **state)
{
	struct rank_measures steps[2] = { { .steps_of = 3 }, { .steps_of = 3 } };
	struct measured_ranks m = { .items = steps, .count = 2 };
	struct job j;

	(void)state;
	make(&j, 2);
	make_rounds(&j, 1, UINT64_MAX);
	assert_int_equal(rank_times_round_ns(&j.t, 7), UINT64_C(1000000000000000000));
	steps[0].values[MEASURE_STEP] = steps[1].values[MEASURE_STEP] = (double)UINT64_MAX;
	assert_int_equal(rank_measures_step_ns(&m), UINT64_C(1000000000000000000));
	steps[0].values[MEASURE_STEP] = 100;
	steps[1].values[MEASURE_STEP] = 300;
	assert_int_equal(rank_measures_step_ns(&m), 200);
	steps[1].steps_of = 4;
	assert_int_equal(rank_measures_step_ns(&m), 0);
	steps[0].steps_of = steps[1].steps_of = UINT32_MAX;
	assert_int_equal(rank_measures_step_ns(&m), 0);
	m.count = 0;
	assert_int_equal(rank_measures_step_ns(&m), 0);
}

/* Its items follow each other; the largest cause of all of them is named. */
static void a_restarted_rank_is_one_rank(void **state)
{
	struct job j;

	(void)state;
	make(&j, 4);
	j.ranks[2].number = j.ranks[1].number;
	add_late(&j, 0, (struct habit)LATE(100, EVERY));
	add_late(&j, 1, (struct habit)LATE(300, EVERY));
	add_late(&j, 2, (struct habit)LATE(400, EVERY));
	assert_int_equal(decide(&j), JOB_RANK);
	assert_int_equal(j.t.rank, 1);
	assert_int_equal(j.t.late_rounds, ROUNDS);
	assert_ptr_equal(j.t.cause, &j.causes[0]);
	assert_int_equal(j.t.cause->rank, 2);
	j.ranks[2].number = 99;
	assert_int_equal(decide(&j), JOB_TURNS);
	assert_int_equal(j.t.latest, 2);
}

static void what_cannot_be_compared(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	add_late(&j, 1, (struct habit)LATE(600, EVERY));
	assert_int_equal(decide(&j), JOB_RANK);
	j.c.uncertainty_ns = UINT64_MAX;
	assert_int_equal(decide(&j), JOB_UNKNOWN);
	j.c.uncertainty_ns = GPU_CLOCKS_NS;
	j.c.mixed = true;
	assert_int_equal(decide(&j), JOB_UNKNOWN);
	j.c.mixed = false;
	j.t.compared = 0;
	assert_int_equal(decide(&j), JOB_UNKNOWN);
}

/* Ten times 5 us are what 5 % of 1 ms may hide; more are a verdict no more. */
static void what_the_clocks_may_hide(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	make_rounds(&j, 1, 1000000);
	j.t.compared = 20;
	j.t.uncertain = 20; /* of all ranks, at the same times */
	j.t.items[1].uncertain = 10;
	assert_int_equal(decide(&j), JOB_ALIKE);
	j.t.uncertain = 19;
	j.t.items[1].uncertain = 11;
	assert_int_equal(decide(&j), JOB_UNKNOWN);
	assert_true(rank_times_late_known(&j.t)); /* at the other nine */
	j.t.uncertain = 20;
	decide(&j);
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
	assert_int_equal(decide(&j), JOB_ALIKE);
	j.times[1].state_ns[RANK_TRANSFER] = 22;
	assert_int_equal(decide(&j), JOB_COMMUNICATION);
	add_late(&j, 1, (struct habit)LATE(600, EVERY));
	assert_int_equal(decide(&j), JOB_RANK);
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
	make_rounds(&j, 1, 1000000);
	j.c.parts.data = parts;
	j.c.matches.items.data = matches;
	j.c.matches.absent.data = absent;
	j.c.matches.absent.count = 2;
	j.ranks[0].end_ns = 900000000;
	j.ranks[1].end_ns = 1001999999;
	assert_int_equal(decide(&j), JOB_ALIKE); /* less than a second */
	j.ranks[1].end_ns++;
	assert_int_equal(decide(&j), JOB_HUNG);
	assert_int_equal(j.t.rank, 2);
	assert_int_equal(j.t.hung_ns, 1000000000);
	assert_ptr_equal(j.t.hung, &matches[1]);
	j.t.compared = 0;
	assert_int_equal(decide(&j), JOB_HUNG);
	j.t.compared = 9; /* nine in a second: ten times as long is longer */
	j.t.span_ns = 1000000000;
	assert_int_equal(decide(&j), JOB_ALIKE);
	j.t.compared = 10;
	assert_int_equal(decide(&j), JOB_HUNG);
	j.c.mixed = true;
	assert_int_equal(decide(&j), JOB_UNKNOWN);
	j.c.mixed = false;
	absent[1].why = ABSENT_OUTSIDE;
	assert_int_equal(decide(&j), JOB_ALIKE);
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
		cmocka_unit_test(delays_that_are_too_short_to_matter),
		cmocka_unit_test(rounds_in_which_a_rank_was_late),
		cmocka_unit_test(delays_beyond_all_times),
		cmocka_unit_test(a_restarted_rank_is_one_rank),
		cmocka_unit_test(what_cannot_be_compared),
		cmocka_unit_test(what_the_clocks_may_hide),
		cmocka_unit_test(transfers_of_most_of_the_time),
		cmocka_unit_test(when_a_rank_has_hung),
		cmocka_unit_test(the_least_difference_that_counts),
		cmocka_unit_test(outliers_by_their_distance),
		cmocka_unit_test(steps_of_other_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
