#include "analysis/copies.h"

#include "analysis/sync_calls.h"
#include "report_fixture.h"

static void copies_are_grouped_by_kinds(void **state)
{
	struct maker *m = begin(*state, 100);
	struct row_memcpy untimed = { .bytes = 1000,
				      .kind = copy_kind_HtoD,
				      .source_kind = memory_kind_pinned,
				      .destination_kind = memory_kind_device,
				      .context = 1,
				      .stream = 7 };
	struct analyzed a;
	const struct copies *c;

	maker_memcpy(m, copy_kind_HtoD, 4000, 7, 1000, 2000, 1);
	maker_memcpy(m, copy_kind_HtoD, 8000, 7, 2000, 5000, 2);
	maker_memcpy(m, copy_kind_DtoH, 300, 7, 6000, 6100, 3);
	maker_memset(m, 64, 7, 7000, 7050, 4);
	ROW_MISSING(&untimed, memcpy, start_ns);
	ROW_MISSING(&untimed, memcpy, end_ns);
	writer_append(m->writer, TABLE_memcpy, &untimed);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	c = a.report.copies;
	assert_int_equal(c->count, 3);
	assert_int_equal(c->items[0].kind, copy_kind_HtoD);
	assert_int_equal(c->items[0].source, memory_kind_pinned);
	assert_int_equal(c->items[0].destination, memory_kind_device);
	assert_int_equal(c->items[0].count, 3);
	assert_int_equal(c->items[0].bytes, 13000);
	assert_int_equal(c->items[0].async, 2);
	/* The bandwidth leaves out the copy of which the time is not known. */
	assert_int_equal(c->items[0].timed, 2);
	assert_int_equal(c->items[0].timed_bytes, 12000);
	assert_int_equal(c->items[0].total_ns, 4000);
	assert_int_equal(c->items[1].kind, copy_kind_DtoH);
	assert_true(c->items[2].set);
	assert_int_equal(c->items[2].bytes, 64);
	assert_int_equal(c->items[1].count, 1);
	assert_int_equal(c->items[0].total_ns + c->items[1].total_ns,
			 a.report.busy->gpus[0].work[GPU_WORK_memcpy].sum_ns);
	analyzed_release(&a);
}

static void waiting_calls_are_grouped_by_call_and_thread(void **state)
{
	struct maker *m = begin(*state, 100);
	struct analyzed a;
	const struct syncs *s;
	size_t length;

	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, 1000, 1500, 1);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, 2000, 2100, 2);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 11, 2000, 2050, 3);
	maker_call(m, MAKER_MEMCPY, 10, 3000, 3070, 4);
	maker_call(m, MAKER_LAUNCH, 10, 4000, 4900, 5);
	maker_synchronization(m, synchronization_kind_stream, 7, 1100, 1400, 1);
	maker_synchronization(m, synchronization_kind_context, 7, 2000, 2010, 2);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	s = a.report.syncs;
	assert_int_equal(s->count, 3);
	assert_int_equal(s->items[0].count, 2);
	assert_int_equal(s->items[0].total_ns, 600);
	assert_int_equal(s->items[0].max_ns, 500);
	assert_int_equal(s->items[0].thread, 10);
	assert_non_null(calls_function_name(a.trace, s->items[0].function, &length));
	assert_int_equal(length, sizeof("cudaStreamSynchronize") - 1);
	assert_int_equal(s->items[1].kind, api_kind_memcpy);
	assert_int_equal(s->items[2].thread, 11);
	assert_int_equal(s->sync_count, 3);
	assert_int_equal(s->total_ns, 720);
	assert_int_equal(s->kinds[synchronization_kind_stream].total_ns, 300);
	assert_int_equal(s->kinds[synchronization_kind_context].count, 1);
	analyzed_release(&a);
}

/* Each process has its own rows of api_function; a line of the program is one in all of them. */
static void waits_of_a_line_are_added_up_over_processes(void **state)
{
	struct analyzed a;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);

		m->stack = maker_stack(m, maker_python(m, 0, "step", "/home/u/x.py", 10), 1,
				       stack_end_complete);
		maker_call(m, MAKER_STREAM_SYNCHRONIZE, pid, 1000, 1500, 1);
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.waits->count, 1);
	assert_int_equal(a.report.waits->items[0].count, 2);
	assert_int_equal(a.report.waits->items[0].total_ns, 1000);
	assert_int_equal(a.report.syncs->count, 2);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(copies_are_grouped_by_kinds),
		folder_test(waiting_calls_are_grouped_by_call_and_thread),
		folder_test(waits_of_a_line_are_added_up_over_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
