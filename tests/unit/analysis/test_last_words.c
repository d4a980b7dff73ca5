/* What had not ended when a process died or hung, and what only was not delivered. */
#include "analysis/last_words.h"

#include <sys/stat.h>

#include "report_fixture.h"

#define LAUNCHED 1000u /* the work under test: by a call from here to 1010, on stream 7 */
#define SECOND UINT64_C(1000000000)
#define DIED_NS 9000u

static struct maker *begin_process(const char *folder, uint32_t pid, bool dies)
{
	struct maker *m = begin(folder, pid);

	if (dies)
		maker_capability(m, feature_last_moments, capability_state_on, "read");
	return m;
}

static void add_unfinished(struct maker *m, struct row_unfinished row)
{
	bool is_call = row.kind == unfinished_kind_call;

	ROW_MISSING_IF(&row, unfinished, start_ns, !is_call);
	ROW_MISSING_IF(&row, unfinished, function, !is_call);
	ROW_MISSING_IF(&row, unfinished, thread, !is_call);
	ROW_MISSING(&row, unfinished, stack);
	ROW_MISSING_IF(&row, unfinished, config, row.kind != unfinished_kind_kernel);
	ROW_MISSING_IF(&row, unfinished, device, is_call);
	ROW_MISSING_IF(&row, unfinished, context, is_call);
	ROW_MISSING_IF(&row, unfinished, stream, is_call);
	ROW_MISSING_IF(&row, unfinished, copy_kind, row.kind != unfinished_kind_memcpy);
	ROW_MISSING_IF(&row, unfinished, name, !row.name);
	writer_append(m->writer, TABLE_unfinished, &row);
}

/* A launch whose kernel has no end. */
static void launch_open(struct maker *m, uint64_t start_ns, uint64_t correlation, uint32_t stream,
			uint64_t seen_ns)
{
	maker_call(m, MAKER_LAUNCH, 5, start_ns, start_ns + 10, correlation);
	add_unfinished(m, (struct row_unfinished){ .time_ns = seen_ns,
						   .kind = unfinished_kind_kernel,
						   .correlation = correlation,
						   .config = maker_config(m, "k", 1, 32),
						   .context = 1,
						   .stream = stream });
}

/* What happened beside the launch; and whether it proves that its kernel had ended. */
struct proof {
	const char *what;
	bool ended;
	void (*add)(struct maker *m);
};

static void add_nothing(struct maker *m)
{
	(void)m;
}

static void add_stream_wait(struct maker *m)
{
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 6, 2000, 2100, 7, 0);
}

static void add_failed_wait(struct maker *m)
{
	m->result = 719;
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 6, 2000, 2100, 7, 0);
}

static void add_earlier_wait(struct maker *m)
{
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 6, 900, 1500, 7, 0);
}

static void add_wait_of_another(struct maker *m)
{
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 6, 2000, 2100, 8, 0);
}

static void add_unknown_wait(struct maker *m)
{
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 6, 2000, 2100, 0, 0);
}

static void add_context_wait(struct maker *m)
{
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 6, 2000, 2100, 90);
}

static void add_wait_of_another_context(struct maker *m)
{
	m->context = 2;
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 6, 2000, 2100, 90);
}

static void add_event_behind(struct maker *m)
{
	maker_stream_call(m, MAKER_EVENT_RECORD, 5, 1500, 1510, 7, 0xe);
	maker_stream_call(m, MAKER_EVENT_SYNCHRONIZE, 5, 2000, 2100, 0, 0xe);
}

static void add_event_before(struct maker *m)
{
	maker_stream_call(m, MAKER_EVENT_RECORD, 5, 500, 510, 7, 0xe);
	maker_stream_call(m, MAKER_EVENT_SYNCHRONIZE, 5, 2000, 2100, 0, 0xe);
}

/* The call that waited had begun before the event was recorded again. */
static void add_event_recorded_again(struct maker *m)
{
	maker_stream_call(m, MAKER_EVENT_RECORD, 5, 500, 510, 7, 0xe);
	maker_stream_call(m, MAKER_EVENT_SYNCHRONIZE, 6, 600, 1700, 0, 0xe);
	maker_stream_call(m, MAKER_EVENT_RECORD, 5, 1500, 1510, 7, 0xe);
}

static void add_work_on(struct maker *m, uint64_t launched_ns, uint32_t stream)
{
	maker_call(m, MAKER_LAUNCH, 5, launched_ns, launched_ns + 10, 50);
	maker_kernel(m, maker_config(m, "later", 1, 32), stream, 3000, 3100, 50);
}

static void add_later_work(struct maker *m)
{
	add_work_on(m, 1500, 7);
}

static void add_earlier_work(struct maker *m)
{
	add_work_on(m, 500, 7);
}

static void add_work_of_another(struct maker *m)
{
	add_work_on(m, 1500, 8);
}

static const struct proof proofs[] = {
	{ "nothing", false, add_nothing },
	{ "a wait for the stream", true, add_stream_wait },
	{ "a wait that failed", false, add_failed_wait },
	{ "a wait that began before", false, add_earlier_wait },
	{ "a wait for another stream", false, add_wait_of_another },
	{ "a wait for an unknown stream", true, add_unknown_wait },
	{ "a wait for the context", true, add_context_wait },
	{ "a wait for another context", false, add_wait_of_another_context },
	{ "an event behind it", true, add_event_behind },
	{ "an event before it", false, add_event_before },
	{ "an event recorded again", false, add_event_recorded_again },
	{ "later work that ended", true, add_later_work },
	{ "earlier work that ended", false, add_earlier_work },
	{ "later work on another stream", false, add_work_of_another },
};

static void test_what_proves_an_end(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(proofs); i++) {
		char folder[4096];
		struct analyzed a;
		const struct last_words *l;
		struct maker *m;

		snprintf(folder, sizeof(folder), "%s/%zu", (char *)*state, i);
		mkdir(folder, 0700);
		m = begin_process(folder, 100, true);
		launch_open(m, LAUNCHED, 1, 7, DIED_NS);
		proofs[i].add(m);
		maker_close(m, DIED_NS);
		analyze(&a, folder, EVERYTHING);
		l = a.report.last_words;
		assert_int_equal(l->processes.count, 1);
		if (l->works.count == proofs[i].ended ||
		    l->processes.data[0].undelivered != proofs[i].ended)
			fail_msg("%s: %zu without an end", proofs[i].what, l->works.count);
		if (l->works.count)
			assert_int_equal(l->works.data[0].launched_ns, LAUNCHED);
		analyzed_release(&a);
	}
}

/* The first of each stream, and how much is behind it. */
static void test_the_first_of_each_stream(void **state)
{
	struct maker *m = begin_process(*state, 100, true);
	struct analyzed a;
	const struct last_words *l;

	for (uint64_t i = 0; i < 10; i++)
		launch_open(m, LAUNCHED + 20 * (i ^ 1), 1 + (i ^ 1), 7 + (i & 1), DIED_NS);
	maker_close(m, DIED_NS);
	analyze(&a, *state, EVERYTHING);
	l = a.report.last_words;
	assert_int_equal(l->works.count, 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(l->works.data[i].correlation, 1 + i);
		assert_int_equal(l->works.data[i].behind, 4);
	}
	analyzed_release(&a);
}

/* In a process that lives, only what is old counts. */
static void test_a_process_that_lives(void **state)
{
	struct maker *m = begin_process(*state, 100, false);
	struct row_unfinished call = { .time_ns = 5 * SECOND,
				       .kind = unfinished_kind_call,
				       .start_ns = 3 * SECOND,
				       .correlation = 70,
				       .function = MAKER_STREAM_SYNCHRONIZE,
				       .thread = 5 };
	struct analyzed a;
	const struct last_words *l;

	add_unfinished(m, (struct row_unfinished){ .time_ns = 5 * SECOND,
						   .kind = unfinished_kind_memset,
						   .correlation = 10,
						   .context = 1,
						   .stream = 10 });
	launch_open(m, 2 * SECOND, 11, 7, 5 * SECOND);
	launch_open(m, 9 * SECOND / 2, 12, 8, 5 * SECOND);
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 5, 2900, 2910, 9, 0); /* its row */
	add_unfinished(m, call);
	call.start_ns = 9 * SECOND / 2;
	call.thread = 6;
	add_unfinished(m, call);
	/* Launches that are not there: the other was dropped long ago, this one is to come. */
	add_unfinished(m, (struct row_unfinished){ .time_ns = 5 * SECOND,
						   .kind = unfinished_kind_memset,
						   .correlation = 99,
						   .context = 1,
						   .stream = 11 });
	maker_close(m, 5 * SECOND);
	analyze(&a, *state, EVERYTHING);
	l = a.report.last_words;
	assert_int_equal(l->works.count, 2);
	assert_int_equal(l->works.data[0].stream, 10);
	assert_int_equal(l->works.data[0].launched_ns, 0);
	assert_int_equal(l->works.data[1].stream, 7);
	assert_int_equal(l->waits.count, 1);
	assert_int_equal(l->waits.data[0].thread, 5);
	analyzed_release(&a);
}

static void add_collective(struct maker *m, uint32_t rank, uint64_t sequence, uint64_t correlation)
{
	struct row_communicator communicator = { .id = 1, .hash = 77, .ranks = 4, .rank = rank };
	struct row_collective row = { .time_ns = LAUNCHED,
				      .communicator = 1,
				      .function = collective_function_all_reduce,
				      .sequence = sequence,
				      .correlation = correlation,
				      .thread = 5 };

	ROW_MISSING(&communicator, communicator, name);
	ROW_MISSING(&communicator, communicator, nodes);
	writer_append(m->writer, TABLE_communicator, &communicator);
	ROW_MISSING(&row, collective, count);
	ROW_MISSING(&row, collective, datatype);
	ROW_MISSING(&row, collective, bytes);
	ROW_MISSING(&row, collective, root);
	ROW_MISSING(&row, collective, peer);
	ROW_MISSING(&row, collective, algorithm);
	ROW_MISSING(&row, collective, protocol);
	ROW_MISSING(&row, collective, channels);
	ROW_MISSING(&row, collective, captured);
	ROW_MISSING(&row, collective, graph_node);
	writer_append(m->writer, TABLE_collective, &row);
}

/* --- launches of which CUPTI has no record --- */

static void add_capture(struct maker *m)
{
	maker_call(m, MAKER_BEGIN_CAPTURE, 6, 900, 910, 70);
	maker_call(m, MAKER_END_CAPTURE, 6, 1200, 1210, 71);
}

static void add_recorded_later(struct maker *m)
{
	maker_call(m, MAKER_LAUNCH, 5, 1500, 1510, 72);
	maker_kernel(m, maker_config(m, "k", 1, 32), 7, 3000, 3100, 72);
}

static void add_recorded_on_another_thread(struct maker *m)
{
	maker_call(m, MAKER_LAUNCH, 6, 1500, 1510, 72);
	maker_kernel(m, maker_config(m, "k", 1, 32), 7, 3000, 3100, 72);
}

static void add_dropped(struct maker *m)
{
	maker_loss(m, loss_reason_gpu_records_dropped, 3, 0, DIED_NS, "records");
}

static const struct {
	const char *what;
	uint64_t open, undelivered, uncertain;
	bool is_complete;
	void (*add)(struct maker *m);
} beside[] = {
	{ "nothing", 2, 0, 0, true, add_nothing },
	{ "a wait for the context", 0, 2, 0, true, add_context_wait },
	{ "a wait for some stream", 0, 0, 2, true, add_wait_of_another },
	{ "a wait for an unknown stream", 0, 2, 0, true, add_unknown_wait },
	{ "a wait for another context", 0, 0, 2, true, add_wait_of_another_context },
	{ "a wait that failed", 2, 0, 0, true, add_failed_wait },
	{ "a wait that began before", 2, 0, 0, true, add_earlier_wait },
	{ "a capture", 0, 0, 0, true, add_capture },
	{ "a later launch with a record", 0, 0, 0, true, add_recorded_later },
	{ "one of another thread", 2, 0, 0, true, add_recorded_on_another_thread },
	{ "records that were dropped", 0, 0, 0, false, add_dropped },
};

static void test_launches_without_a_record(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
		char folder[4096];
		struct analyzed a;
		const struct last_process *p;
		struct maker *m;

		snprintf(folder, sizeof(folder), "%s/%zu", (char *)*state, i);
		mkdir(folder, 0700);
		m = begin_process(folder, 100, true);
		add_work_on(m, 500, 7);
		maker_call(m, MAKER_LAUNCH, 5, LAUNCHED, LAUNCHED + 10, 60);
		m->result = 1; /* it launched nothing */
		maker_call(m, MAKER_LAUNCH, 5, LAUNCHED + 50, LAUNCHED + 60, 61);
		m->result = 0;
		maker_call(m, MAKER_LAUNCH, 5, LAUNCHED + 100, LAUNCHED + 110, 62);
		beside[i].add(m);
		maker_close(m, DIED_NS);
		maker_record(folder, 100, 1, 1, DIED_NS, "./app", 137);
		analyze(&a, folder, EVERYTHING);
		assert_int_equal(a.report.last_words->processes.count, 1);
		p = &a.report.last_words->processes.data[0];
		if (p->open != beside[i].open || p->undelivered != beside[i].undelivered ||
		    p->uncertain != beside[i].uncertain || p->is_complete != beside[i].is_complete)
			fail_msg("%s: %llu open, %llu undelivered", beside[i].what,
				 (unsigned long long)p->open, (unsigned long long)p->undelivered);
		if (p->open)
			assert_int_equal(p->open_ns, LAUNCHED);
		assert_int_equal(p->works, 0);
		analyzed_release(&a);
	}
}

/* --- records that could not be read --- */

static void add_launched(struct maker *m, uint64_t correlation, bool unread)
{
	const char *name = correlation == 60 ? "first" : "second";

	add_unfinished(m, (struct row_unfinished){ .time_ns = 5 * SECOND,
						   .kind = unread ? unfinished_kind_unread_launch
								  : unfinished_kind_launch,
						   .correlation = correlation,
						   .name = maker_string(m, name) });
}

static void add_open_wait(struct maker *m, uint64_t start_ns, uint64_t seen_ns)
{
	maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 6, 600, 610, 9, 0); /* its row */
	add_unfinished(m, (struct row_unfinished){ .time_ns = seen_ns,
						   .kind = unfinished_kind_call,
						   .start_ns = start_ns,
						   .correlation = 80,
						   .function = MAKER_STREAM_SYNCHRONIZE,
						   .thread = 6 });
}

static void add_wait_for_them(struct maker *m)
{
	add_open_wait(m, 2000, 5 * SECOND);
}

static void add_wait_for_the_first(struct maker *m)
{
	add_open_wait(m, LAUNCHED + 20, 5 * SECOND);
}

static void add_young_wait(struct maker *m)
{
	add_open_wait(m, 2000, SECOND);
}

static void add_old_wait(struct maker *m)
{
	add_open_wait(m, 900, 5 * SECOND);
}

static void add_wait_beside_a_copy(struct maker *m)
{
	add_wait_for_them(m);
	maker_call(m, MAKER_MEMCPY, 5, 1500, 1510, 81);
}

static void add_wait_beside_other_work(struct maker *m)
{
	add_wait_for_them(m);
	launch_open(m, 700, 82, 8, 5 * SECOND);
}

static void add_wait_beside_an_earlier_launch(struct maker *m)
{
	add_wait_for_them(m);
	maker_call(m, MAKER_LAUNCH, 5, 300, 310, 83);
}

enum { IS_READ = 1, IS_UNREAD };

static const struct {
	const char *what;
	unsigned first, second; /* 0: nothing is known of the launch's record */
	bool no_loss;
	void (*add)(struct maker *m);
	uint64_t open, unread;
	bool is_one_open;
	const char *name;
} unread[] = {
	{ "neither is there", IS_READ, IS_READ, false, add_nothing, 2, 0, false, "first" },
	{ "the first may be", IS_UNREAD, IS_READ, false, add_nothing, 1, 1, false, "second" },
	{ "the second may be", IS_READ, IS_UNREAD, false, add_nothing, 1, 1, false, "first" },
	{ "both may be", IS_UNREAD, IS_UNREAD, false, add_nothing, 0, 2, false, "first" },
	{ "in a living process", IS_UNREAD, IS_READ, true, add_nothing, 1, 1, false, "second" },
	{ "unknown", 0, 0, false, add_nothing, 0, 2, false, NULL },
	{ "no loss", 0, 0, true, add_nothing, 2, 0, false, NULL },
	{ "a wait", 0, 0, false, add_wait_for_them, 0, 2, true, NULL },
	{ "a wait for both", IS_UNREAD, IS_UNREAD, false, add_wait_for_them, 0, 2, true, "first" },
	{ "a wait for the first", 0, 0, false, add_wait_for_the_first, 0, 2, true, NULL },
	{ "a wait for open ones", IS_READ, 0, false, add_wait_for_them, 1, 1, false, "first" },
	{ "a young wait", 0, 0, false, add_young_wait, 0, 2, false, NULL },
	{ "an old wait", 0, 0, false, add_old_wait, 0, 2, false, NULL },
	{ "a copy", 0, 0, false, add_wait_beside_a_copy, 0, 2, false, NULL },
	{ "other work", 0, 0, false, add_wait_beside_other_work, 0, 2, false, NULL },
	{ "an old launch", 0, 0, false, add_wait_beside_an_earlier_launch, 0, 2, false, NULL },
};

/* Which of them had no end is said as far as it is certain. */
static void test_records_that_cannot_be_read(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(unread); i++) {
		char folder[4096];
		struct analyzed a;
		const struct last_process *p;
		struct maker *m;
		const char *name;

		snprintf(folder, sizeof(folder), "%s/%zu", (char *)*state, i);
		mkdir(folder, 0700);
		m = begin_process(folder, 100, true);
		add_work_on(m, 500, 7);
		maker_call(m, MAKER_LAUNCH, 5, LAUNCHED, LAUNCHED + 10, 60);
		maker_call(m, MAKER_LAUNCH, 5, LAUNCHED + 100, LAUNCHED + 110, 62);
		if (!unread[i].no_loss)
			maker_loss(m, loss_reason_unread_records, 1, 0, DIED_NS, "a buffer");
		if (unread[i].first)
			add_launched(m, 60, unread[i].first == IS_UNREAD);
		if (unread[i].second)
			add_launched(m, 62, unread[i].second == IS_UNREAD);
		unread[i].add(m);
		maker_close(m, 5 * SECOND);
		maker_record(folder, 100, 1, 1, 5 * SECOND, "./app", 137);
		analyze(&a, folder, EVERYTHING);
		assert_int_equal(a.report.last_words->processes.count, 1);
		p = &a.report.last_words->processes.data[0];
		if (p->open != unread[i].open || p->unread != unread[i].unread ||
		    p->is_one_open != unread[i].is_one_open)
			fail_msg("%s: %llu open, %llu unread, %d", unread[i].what,
				 (unsigned long long)p->open, (unsigned long long)p->unread,
				 p->is_one_open);
		assert_int_equal(p->is_complete, unread[i].no_loss);
		name = p->open_name == TRACE_NO_ROW ? NULL
						    : trace_string(a.report.trace, p->open_name);
		assert_int_equal(!name, !unread[i].name);
		if (name)
			assert_string_equal(name, unread[i].name);
		analyzed_release(&a);
	}
}

/* Then it is unknown whether any of it has ended. */
static void test_a_process_without_records(void **state)
{
	struct maker *m = begin_process(*state, 100, true);
	struct analyzed a;

	maker_call(m, MAKER_LAUNCH, 5, LAUNCHED, LAUNCHED + 10, 60);
	maker_close(m, DIED_NS);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.last_words->processes.count, 0); /* it was not killed */
	analyzed_release(&a);
	maker_record(*state, 100, 1, 1, DIED_NS, "./app", 137);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.last_words->processes.count, 1);
	assert_int_equal(a.report.last_words->processes.data[0].open, 0);
	assert_false(a.report.last_words->processes.data[0].has_records);
	analyzed_release(&a);
}

/* A kernel that hangs, as CUPTI 13.0 has it: a call waits, and nothing else has no end. */
static void test_a_process_that_hangs(void **state)
{
	for (unsigned is_old = 0; is_old < 2; is_old++) {
		char folder[4096];
		struct analyzed a;
		const struct last_words *l;
		struct maker *m;

		snprintf(folder, sizeof(folder), "%s/%u", (char *)*state, is_old);
		mkdir(folder, 0700);
		m = begin_process(folder, 100, false);
		add_work_on(m, 500, 7);
		maker_call(m, MAKER_LAUNCH, 5, 1 * SECOND, SECOND + 10, 60);
		maker_stream_call(m, MAKER_STREAM_SYNCHRONIZE, 5, 600, 610, 9, 0); /* its row */
		add_unfinished(m, (struct row_unfinished){ .time_ns = (is_old ? 5 : 2) * SECOND - 1,
							   .kind = unfinished_kind_call,
							   .start_ns = SECOND + 20,
							   .correlation = 70,
							   .function = MAKER_STREAM_SYNCHRONIZE,
							   .thread = 5 });
		maker_close(m, 5 * SECOND);
		analyze(&a, folder, EVERYTHING);
		l = a.report.last_words;
		assert_int_equal(l->processes.count, is_old);
		if (is_old) {
			assert_int_equal(l->processes.data[0].open, 1);
			assert_int_equal(l->processes.data[0].open_ns, SECOND);
			assert_int_equal(l->processes.data[0].waits, 1);
		}
		analyzed_release(&a);
	}
}

/* Of four ranks one waits, one is behind, one may have called it, and one was not recorded. */
static void test_ranks_that_did_not_call(void **state)
{
	struct analyzed a;
	const struct last_words *l;

	for (uint32_t rank = 0; rank < 3; rank++) {
		struct maker *m = begin_process(*state, 100 + rank, true);

		if (rank == 0)
			launch_open(m, LAUNCHED, 1, 7, DIED_NS);
		add_collective(m, rank, rank == 0 ? 17 : 16, 1);
		if (rank == 2)
			maker_loss(m, loss_reason_unread_collective, 3, 0, DIED_NS, "events");
		maker_close(m, DIED_NS);
	}
	analyze(&a, *state, EVERYTHING);
	l = a.report.last_words;
	assert_int_equal(l->works.count, 1);
	assert_int_not_equal(l->works.data[0].collective, TRACE_NO_ROW);
	assert_int_equal(l->works.data[0].late_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(l->late.data[i].rank, i + 1);
		assert_int_equal(l->late.data[i].process == TRACE_NO_ROW, i > 0);
	}
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_what_proves_an_end),
		folder_test(test_the_first_of_each_stream),
		folder_test(test_a_process_that_lives),
		folder_test(test_launches_without_a_record),
		folder_test(test_records_that_cannot_be_read),
		folder_test(test_a_process_without_records),
		folder_test(test_a_process_that_hangs),
		folder_test(test_ranks_that_did_not_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
