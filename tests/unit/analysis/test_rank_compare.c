/* test_rank_compare.c: which rank was late by how much and why, of intervals made by hand. */
#include "analysis/rank_compare.h"

#include <string.h>

#include "support/cmocka_tests.h"

#define RANKS 3
#define MATCHES 8

/* Places of the program; their states differ. */
enum { PLACE_A = 1, PLACE_B, PLACE_H };

struct job {
	struct collectives c;
	struct rank_times t;
	struct rank_intervals v;
	struct rank_time items[RANKS];
	struct collective_match matches[MATCHES];
	struct collective_part part; /* of all of them */
};

static struct rank_place place_of(uint32_t text)
{
	return (struct rank_place){ .text = text,
				    .kind = PLACE_LINE,
				    .state = text == PLACE_H ? RANK_HOST : RANK_COMPUTE };
}

/* Match 0 is the first one, at 1000. */
static void make(struct job *j, uint32_t parts)
{
	*j = (struct job){ .v = { .host_totals = GROUPS_INIT } };
	j->c.rank_count = j->t.count = RANKS;
	j->c.uncertainty_ns = 5;
	j->part.mutual = true;
	j->c.parts.data = &j->part;
	j->c.matches.items.data = j->matches;
	j->c.matches.items.count = MATCHES;
	for (uint32_t i = 0; i < MATCHES; i++)
		j->matches[i].parts = parts;
	j->t.items = j->items;
	j->v.last_ns = calloc(MATCHES, sizeof(*j->v.last_ns));
	j->v.last_ns[0] = 1000;
}

static void release(struct job *j)
{
	free(j->t.causes);
	vec_release(&j->t.delays);
	vec_release(&j->t.rounds.items);
	rank_intervals_release(&j->v);
}

/* A rank's interval up to a match, with up to two places of its GPU. */
static struct rank_interval *add(struct job *j, uint32_t rank, uint32_t match, uint64_t last_ns,
				 uint64_t early_ns, uint64_t a_ns, uint32_t place, uint64_t ns)
{
	struct rank_interval v = { .order_ns = last_ns,
				   .group = match,
				   .last_ns = last_ns,
				   .match = match,
				   .rank = rank,
				   .arrived_ns = last_ns - early_ns,
				   .early_ns = early_ns,
				   .own_ns = a_ns + ns };

	v.gpu = (struct rank_shares){ a_ns + ns, j->v.shares.count, ns ? 2 : 1 };
	assert_int_equal(vec_push(&j->v.shares, ((struct rank_share){ place_of(PLACE_A), a_ns })),
			 0);
	if (ns)
		assert_int_equal(
			vec_push(&j->v.shares, ((struct rank_share){ place_of(place), ns })), 0);
	j->v.last_ns[match] = last_ns;
	assert_int_equal(vec_push(&j->v.items, v), 0);
	return &j->v.items.data[j->v.items.count - 1];
}

static void check_cause(const struct job *j, size_t i, uint32_t rank, uint32_t place,
			uint64_t late_ns, uint64_t excess_ns, uint64_t count)
{
	const struct late_cause *cause = &j->t.causes[i];

	assert_in_range(i, 0, j->t.cause_count - 1);
	assert_int_equal(cause->rank, rank);
	assert_int_equal(cause->place.text, place);
	assert_int_equal(cause->late_ns, late_ns);
	assert_int_equal(cause->excess_ns, excess_ns);
	assert_int_equal(cause->count, count);
}

static void check_delay(const struct job *j, size_t i, uint32_t rank, uint64_t time_ns, uint64_t ns)
{
	const struct rank_delay *delay = &j->t.delays.data[i];

	assert_in_range(i, 0, j->t.delays.count - 1);
	assert_int_equal(delay->rank, rank);
	assert_int_equal(delay->time_ns, time_ns);
	assert_int_equal(delay->ns, ns);
}

/* Rank 2 needs 100 more than the others, in B. */
static void add_late(struct job *j, uint32_t match, uint64_t last_ns)
{
	add(j, 0, match, last_ns, 100, 50, 0, 0);
	add(j, 1, match, last_ns, 100, 50, 0, 0);
	add(j, 2, match, last_ns, 0, 50, PLACE_B, 100);
}

static void the_late_rank_and_its_excess(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add_late(&j, 1, 1150);
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.compared, 1);
	assert_int_equal(j.t.uncertain, 0);
	assert_int_equal(j.t.span_ns, 150);
	assert_int_equal(j.t.late_ns, 100);
	for (size_t i = 0; i < RANKS; i++) {
		assert_int_equal(j.items[i].collectives, 1);
		assert_int_equal(j.items[i].last, i == 2);
		assert_int_equal(j.items[i].late_ns, i == 2 ? 100 : 0);
	}
	assert_int_equal(j.t.cause_count, 1);
	assert_int_equal(j.t.delays.count, 1);
	check_delay(&j, 0, 2, 1150, 100);
	check_cause(&j, 0, 2, PLACE_B, 100, 100, 1);
	release(&j);
}

/* Others lost only 60; and in A the rank was longer, too: causes share the delay. */
static void others_lost_less_than_the_excess(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add(&j, 0, 1, 1200, 50, 40, 0, 0);
	add(&j, 1, 1, 1200, 70, 60, 0, 0);
	add(&j, 2, 1, 1200, 0, 80, PLACE_B, 90); /* 30 and 90 longer than 50 and 0 */
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.late_ns, 60);
	assert_int_equal(j.t.cause_count, 2);
	check_cause(&j, 0, 2, PLACE_B, 45, 90, 1);
	check_cause(&j, 1, 2, PLACE_A, 15, 30, 0);
	release(&j);
}

/* Only rank 0, the root of a reduce, waits. */
static void one_of_the_others_waits(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	j.part.mutual = false;
	add(&j, 0, 1, 1150, 90, 50, 0, 0);
	add(&j, 1, 1, 1150, 0, 50, 0, 0)->arrived_ns = 1060;
	add(&j, 2, 1, 1150, 0, 50, PLACE_B, 100);
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.items[2].late_ns, 90);
	assert_int_equal(j.items[1].late_ns, 0);
	assert_int_equal(j.items[2].last, 1);
	assert_int_equal(j.items[1].last, 0);
	release(&j);
}

static void differences_within_the_uncertainty(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add_late(&j, 1, 1150);
	j.c.uncertainty_ns = 100;
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.compared, 1);
	assert_int_equal(j.t.uncertain, 1);
	for (size_t i = 0; i < RANKS; i++)
		assert_int_equal(j.items[i].uncertain, i < j.matches[1].parts);
	assert_int_equal(j.t.late_ns, 0);
	assert_int_equal(j.items[2].last, 0);
	release(&j);
	make(&j, 3);
	add_late(&j, 1, 1150);
	j.c.uncertainty_ns = 99;
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.late_ns, 100);
	release(&j);
	/* Whoever came within it may be the last one: then the one with most time of its own. */
	make(&j, 3);
	add(&j, 0, 1, 1150, 0, 50, 0, 0);
	add(&j, 1, 1, 1150, 50, 50, 0, 0);
	add(&j, 2, 1, 1150, 5, 50, PLACE_B, 60);
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.items[2].late_ns, 25); /* half of what the others came earlier */
	assert_int_equal(j.items[0].last, 1);
	release(&j);
}

/* What a rank delayed part of the others by does not count again for all of them. */
static void a_delay_counts_once(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	j.matches[1].parts = 2;
	add(&j, 1, 1, 1150, 100, 50, 0, 0);
	add(&j, 2, 1, 1150, 0, 50, PLACE_B, 100);
	add(&j, 0, 2, 1180, 120, 60, 0, 0);
	add(&j, 1, 2, 1180, 120, 60, 0, 0);
	add(&j, 2, 2, 1180, 0, 60, PLACE_B, 120);
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.compared, 2);
	assert_int_equal(j.items[2].late_ns, 120);
	check_delay(&j, 0, 2, 1150, 100);
	check_delay(&j, 1, 2, 1180, 20);
	check_cause(&j, 0, 2, PLACE_B, 120, 120, 1);
	release(&j);
}

/* In the same time one rank delays one of its groups, and another rank delays the other one. */
static void delays_are_at_most_the_time(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	for (uint32_t rank = 1; rank < RANKS; rank++) {
		add(&j, 0, rank, 1150, 100, 50, 0, 0);
		add(&j, rank, rank, 1150, 0, 50, PLACE_B, 100);
	}
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.items[1].late_ns, 100);
	assert_int_equal(j.items[2].late_ns, 100);
	assert_int_equal(j.t.span_ns, 150);
	assert_int_equal(j.t.late_ns, 150);
	release(&j);
}

static void delays_of_several_collectives(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add_late(&j, 1, 1150);
	for (uint32_t match = 2; match < 4; match++) {
		size_t first = j.v.items.count;

		add_late(&j, match, 1150 + (match - 1) * 200);
		for (size_t i = first; i < j.v.items.count; i++)
			j.v.items.data[i].previous = match - 1;
	}
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.compared, 3);
	assert_int_equal(j.t.span_ns, 550);
	assert_int_equal(j.items[2].late_ns, 300);
	assert_int_equal(j.items[2].last, 3);
	check_cause(&j, 0, 2, PLACE_B, 300, 300, 3);
	release(&j);
}

static void collectives_that_are_not_compared(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add_late(&j, 1, 1150);
	j.v.items.data[1].previous = 5; /* from elsewhere */
	add(&j, 0, 2, 1300, 100, 50, 0, 0); /* without rank 1 */
	add(&j, 2, 2, 1300, 0, 50, PLACE_B, 100);
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.compared, 0);
	assert_int_equal(j.t.late_ns, 0);
	assert_int_equal(j.t.span_ns, 0);
	assert_int_equal(j.items[0].collectives, 0);
	assert_int_equal(j.v.items.count, 0);
	release(&j);
}

/* More places than are compared: the rest has no part in the delay. */
static void many_places(void **state)
{
	const uint32_t places = 300;
	struct rank_interval *v;
	struct job j;

	(void)state;
	make(&j, 3);
	add(&j, 0, 1, 1450, 300, 50, 0, 0);
	add(&j, 1, 1, 1450, 300, 50, 0, 0);
	v = add(&j, 2, 1, 1450, 0, 50, 0, 0);
	v->own_ns += places;
	v->gpu.ns += places;
	v->gpu.count += places;
	for (uint32_t i = 0; i < places; i++)
		assert_int_equal(vec_push(&j.v.shares,
					  ((struct rank_share){ place_of(PLACE_H + 1 + i), 1 })),
				 0);
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.cause_count, 255); /* and A, in which it is as fast as the others */
	assert_int_equal(j.items[2].late_ns, 255);
	release(&j);
}

/* Two stages: the second one needs 10 more for each of four sends. */
static void stages_are_compared_in_total(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	for (uint32_t match = 1; match <= 4; match++) {
		struct rank_interval *v;

		v = add(&j, 0, match, 1000 + 200 * match, 15, 100, 0, 0);
		v->previous = match - 1;
		v->pair = true;
		v->order_ns = UINT64_MAX;
		v->group = 7;
		v = add(&j, 1, match, 1000 + 200 * match, 0, 90, PLACE_B, 20);
		v->previous = match - 1;
		v->pair = true;
		v->order_ns = UINT64_MAX;
		v->group = 7;
	}
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.t.compared, 4);
	assert_int_equal(j.items[1].late_ns, 40);
	assert_int_equal(j.items[0].late_ns, 0);
	assert_int_equal(j.t.delays.count, 4);
	for (size_t i = 0; i < 4; i++)
		check_delay(&j, i, 1, 1200 + 200 * i, 10);
	check_cause(&j, 0, 1, PLACE_B, 40, 80, 4);
	release(&j);
}

/* The hosts of the others limit their pace: how long they were where the late rank was counts. */
static void hosts_are_compared(uint64_t total_ns, uint64_t host_ns, uint64_t late_ns)
{
	struct job j;

	make(&j, 3);
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		struct rank_interval *v = add(&j, rank, 1, 1150, rank == 2 ? 0 : 100, 50,
					      rank == 2 ? PLACE_H : 0, rank == 2 ? 110 : 0);
		struct host_total *total = groups_at(
			&j.v.host_totals, rank_place_key(rank, place_of(PLACE_H)), .ns = 0);

		v->own_ns += rank == 2 ? 0 : 10;
		assert_non_null(total);
		total->ns = rank == 2 ? total_ns : 200;
		v->host = (struct rank_shares){ host_ns, j.v.shares.count, 1 };
		assert_int_equal(
			vec_push(&j.v.shares, ((struct rank_share){ place_of(PLACE_H), host_ns })),
			0);
	}
	assert_int_equal(rank_intervals_compare(&j.v, &j.c, &j.t), 0);
	assert_int_equal(j.items[2].late_ns, late_ns);
	release(&j);
}

static void a_place_of_hosts_must_be_their_own(void **state)
{
	(void)state;
	hosts_are_compared(300, 0, 100);
	hosts_are_compared(299, 0, 0);
	hosts_are_compared(300, 40, 70); /* of 110 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_late_rank_and_its_excess),
		cmocka_unit_test(others_lost_less_than_the_excess),
		cmocka_unit_test(one_of_the_others_waits),
		cmocka_unit_test(differences_within_the_uncertainty),
		cmocka_unit_test(a_delay_counts_once),
		cmocka_unit_test(delays_are_at_most_the_time),
		cmocka_unit_test(delays_of_several_collectives),
		cmocka_unit_test(collectives_that_are_not_compared),
		cmocka_unit_test(many_places),
		cmocka_unit_test(stages_are_compared_in_total),
		cmocka_unit_test(a_place_of_hosts_must_be_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
