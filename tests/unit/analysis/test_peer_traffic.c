#include "analysis/peer_traffic.h"

#include "report_fixture.h"

#define RANKS 4
#define HASH 77

static void add_row(struct maker *m, enum collective_function function, uint32_t peer,
		    uint64_t bytes, bool captured)
{
	struct row_collective row = { .time_ns = 2000,
				      .communicator = 1,
				      .function = (uint8_t)function,
				      .bytes = bytes,
				      .peer = peer,
				      .thread = 1,
				      .captured = captured,
				      .missing = schema_missing(TABLE_collective) };

	ROW_PRESENT(&row, collective, communicator);
	ROW_PRESENT(&row, collective, captured);
	if (bytes)
		ROW_PRESENT(&row, collective, bytes);
	if (function == collective_function_send || function == collective_function_recv)
		ROW_PRESENT(&row, collective, peer);
	writer_append(m->writer, TABLE_collective, &row);
}

/* A rank of a communicator in which ranks have the reverse order. */
static struct maker *begin_rank(const char *folder, uint32_t rank)
{
	struct maker *m = maker_begin(folder, 100 + rank, 0, "./train");
	struct row_communicator row = { .id = 1,
					.hash = HASH,
					.ranks = RANKS + 1,
					.rank = RANKS - 1 - rank,
					.missing = schema_missing(TABLE_communicator) };

	maker_device(m, rank, 0);
	m->device = rank;
	maker_kernel(m, maker_config(m, "ncclDevKernel_SendRecv", 1, 32), 7, 3000, 4000, 1);
	ROW_PRESENT(&row, communicator, ranks);
	ROW_PRESENT(&row, communicator, rank);
	writer_append(m->writer, TABLE_communicator, &row);
	return m;
}

static void a_ring_is_found_in_what_its_ranks_sent(void **state)
{
	const struct peer_traffic *p;
	struct analyzed a;

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		struct maker *m = begin_rank(*state, rank);
		uint32_t own = RANKS - 1 - rank, next = (own + 1) % RANKS;

		add_row(m, collective_function_send, next, 100, false);
		add_row(m, collective_function_send, next, 10 + rank, false);
		add_row(m, collective_function_recv, (own + RANKS - 1) % RANKS, 100, false);
		add_row(m, collective_function_send, own, 1000, false); /* to itself */
		add_row(m, collective_function_all_reduce, 0, 8, false);
		if (rank == 2) {
			add_row(m, collective_function_send, next, 100, true);
			add_row(m, collective_function_send, next, 0, false);
			add_row(m, collective_function_send, RANKS, 100, false);
		}
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	p = a.report.peer_traffic;
	assert_int_equal(p->pattern, PEERS_RING);
	assert_int_equal(p->groups, 1);
	assert_int_equal(p->count, RANKS);
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_int_equal(p->items[i].from, i);
		assert_int_equal(p->items[i].to, (i + RANKS - 1) % RANKS);
		assert_int_equal(p->items[i].bytes, 110 + i);
		assert_int_equal(p->items[i].count, 2);
	}
	assert_int_equal(p->bytes, 446);
	assert_int_equal(p->unknown, 3);
	assert_int_equal(p->collectives, RANKS);
	analyzed_release(&a);
}

/* Communicators do not tell which of the GPUs of a process they are about. */
static void a_process_with_several_gpus_is_not_guessed(void **state)
{
	struct analyzed a;

	for (uint32_t rank = 0; rank < 2; rank++) {
		struct maker *m = begin_rank(*state, rank);

		add_row(m, collective_function_send, RANKS - 2 + rank, 100, false);
		if (rank) {
			maker_device(m, 5, 0);
			m->device = 5;
			maker_kernel(m, maker_config(m, "ncclDevKernel_SendRecv", 1, 32), 7, 3000,
				     4000, 2);
		}
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.peer_traffic->count, 0);
	assert_int_equal(a.report.peer_traffic->unknown, 2);
	assert_int_equal(a.report.peer_traffic->pattern, PEERS_NONE);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_ring_is_found_in_what_its_ranks_sent),
		folder_test(a_process_with_several_gpus_is_not_guessed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
