#include "analysis/commands.h"

#include <string.h>

#include "report_fixture.h"

static void expect_name(const char *command, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	command_name(command, &text);
	assert_string_equal(strbuf_text(&text), name);
}

static void commands_are_programs_and_scripts(void **state)
{
	(void)state;
	expect_name("/usr/lib/gcc/cc1 -quiet a.c", "cc1");
	expect_name("make", "make");
	expect_name("/usr/bin/python3.12 -u -X dev /x/train.py --lr 1", "python3.12 train.py");
	expect_name("python -W ignore -m torch.distributed.run x.py",
		    "python -m torch.distributed.run");
	expect_name("python3 -c print(1)", "python3 -c");
	expect_name("python3", "python3");
	expect_name("python3 -u", "python3");
	expect_name("", "");
}

static void sampled(const char *folder, uint32_t pid, const char *command, uint64_t start_ns,
		    uint64_t end_ns, uint32_t threads, uint64_t samples)
{
	struct maker *m = maker_begin_sampler(folder, pid, start_ns, command);

	for (uint32_t thread = 0; thread < threads; thread++)
		for (uint64_t i = 0; i < samples; i++)
			maker_cpu_sample(m, pid + thread, start_ns + i * 1000, 1000, 0);
	maker_close(m, end_ns);
}

static const struct command_use *find(const struct analyzed *a, const char *name)
{
	const struct commands *c = a->report.commands;

	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(strbuf_text(&c->items[i].name), name))
			return &c->items[i];
	fail_msg("no command %s", name);
	return NULL;
}

static void each_command_has_a_verdict(void **state)
{
	const struct command_use *c;
	struct analyzed a;
	uint64_t sum = 0;

	sampled(*state, 100, "sh -c x", 0, 100000, 1, 1);
	/* Two of one program, one after the other and each in one thread. */
	sampled(*state, 110, "cc1 a.c", 0, 50000, 1, 40);
	sampled(*state, 120, "/usr/bin/cc1 b.c", 50000, 100000, 1, 30);
	/* Two threads of one process. */
	sampled(*state, 130, "simulate", 0, 50000, 2, 45);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.commands->count, 3);
	c = find(&a, "cc1");
	assert_int_equal(c->processes, 2);
	assert_int_equal(c->load.elapsed_ns, 100000);
	assert_int_equal(c->load.total_ns, 70000);
	assert_int_equal(c->load.busiest_ns, 70000);
	assert_int_equal(c->load.verdict, CPU_SINGLE_THREADED);
	assert_int_equal(find(&a, "sh")->load.verdict, CPU_WAITING);
	c = find(&a, "simulate");
	assert_int_equal(c->load.busiest_ns, 45000);
	assert_int_equal(c->load.verdict, CPU_WORKING);
	for (size_t i = 0; i < a.report.commands->count; i++) {
		const struct command_use *items = a.report.commands->items;

		sum += items[i].load.total_ns;
		assert_true(!i || items[i - 1].load.total_ns >= items[i].load.total_ns);
	}
	assert_int_equal(sum, a.report.commands->whole.total_ns);
	assert_int_equal(a.report.commands->whole.total_ns, a.report.cpu_use->total_ns);
	assert_int_equal(a.report.commands->whole.elapsed_ns, 100000);
	assert_int_equal(a.report.commands->whole.verdict, CPU_WORKING);
	analyzed_release(&a);
}

static void queued(struct maker *m, uint32_t pid, uint64_t start_ns, uint64_t end_ns,
		   uint64_t wait_ns, uint64_t throttled_ns)
{
	struct row_run_queue row = { .start_ns = start_ns,
				     .end_ns = end_ns,
				     .pid = pid,
				     .wait_ns = wait_ns,
				     .throttled_ns = throttled_ns };

	ROW_MISSING_IF(&row, run_queue, throttled_ns, !pid);
	writer_append(m->writer, TABLE_run_queue, &row);
}

/* Both run for a fifth of the time; one waited for something else. */
static void waiting_for_a_processor_is_told_apart(void **state)
{
	struct maker *m = maker_begin(*state, 1, 0, "pitot");
	const struct cpu_load *l;
	struct analyzed a;

	queued(m, 110, 0, 50000, 30000, 20000);
	queued(m, 110, 50000, 100000, 30000, 10000);
	queued(m, 120, 0, 50000, 1000, 0);
	queued(m, 0, 0, 50000, 7000, 0);
	maker_close(m, 100000);
	sampled(*state, 110, "cc1 a.c", 0, 100000, 1, 20);
	sampled(*state, 120, "sleep 1", 0, 100000, 1, 20);
	analyze(&a, *state, EVERYTHING);
	l = &find(&a, "cc1")->load;
	assert_int_equal(l->verdict, CPU_STARVED);
	assert_int_equal(l->ready_ns, 60000);
	assert_int_equal(l->throttled_ns, 30000);
	assert_int_equal(find(&a, "sleep")->load.verdict, CPU_WAITING);
	l = &a.report.commands->whole;
	assert_int_equal(l->verdict, CPU_STARVED);
	assert_int_equal(l->ready_ns, 61000);
	assert_int_equal(l->throttled_ns, 30000);
	assert_int_equal(l->stolen_ns, 7000);
	analyzed_release(&a);
}

/* Times off the CPU are exact, and replace what run queues say. */
static void times_off_the_cpu_say_for_what_it_waited(void **state)
{
	struct maker *m = maker_begin(*state, 1, 0, "pitot");
	const struct cpu_load *l;
	struct analyzed a;

	queued(m, 110, 0, 100000, 80000, 0);
	maker_close(m, 100000);
	m = maker_begin_sampler(*state, 110, 0, "cc1 a.c");
	for (uint64_t i = 0; i < 20; i++)
		maker_cpu_sample(m, 110, i * 1000, 1000, 0);
	maker_off_cpu(m, 110, 20000, 30000, off_cpu_state_runnable, 0);
	maker_off_cpu(m, 110, 30000, 95000, off_cpu_state_sleeping, 0);
	maker_off_cpu(m, 110, 95000, 100000, off_cpu_state_uninterruptible, 0);
	maker_off_cpu(m, 111, 0, 100000, off_cpu_state_sleeping, 0);
	maker_close(m, 100000);
	analyze(&a, *state, EVERYTHING);
	l = &a.report.commands->whole;
	assert_int_equal(l->verdict, CPU_WAITING);
	assert_int_equal(l->ready_ns, 10000);
	assert_int_equal(l->off_ns[off_cpu_state_runnable], 10000);
	assert_int_equal(l->off_ns[off_cpu_state_sleeping], 65000);
	assert_int_equal(l->off_ns[off_cpu_state_uninterruptible], 5000);
	assert_int_equal(find(&a, "cc1")->load.ready_ns, 10000);
	analyzed_release(&a);
}

/* `sh -c "exec cc1"`: one process, two programs, of which each has its own part of the time. */
static void a_program_ends_where_the_next_begins(void **state)
{
	struct analyzed a;

	sampled(*state, 100, "sh -c x", 0, 100000, 1, 20);
	sampled(*state, 100, "cc1 a.c", 30000, 100000, 1, 60);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(find(&a, "sh")->load.elapsed_ns, 30000);
	assert_int_equal(find(&a, "cc1")->load.elapsed_ns, 70000);
	analyzed_release(&a);
}

/* Of a window only what is in it, at both ends. */
static void windows_cut_processes(void **state)
{
	struct report_options options = EVERYTHING;
	struct analyzed a;

	sampled(*state, 100, "cc1 a.c", 0, 100000, 1, 100);
	options.filter.since_ns = 20000;
	options.filter.until_ns = 50000;
	analyze(&a, *state, options);
	assert_int_equal(find(&a, "cc1")->load.elapsed_ns, 30000);
	assert_int_equal(find(&a, "cc1")->load.total_ns, 30000);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(waiting_for_a_processor_is_told_apart),
		folder_test(times_off_the_cpu_say_for_what_it_waited),
		cmocka_unit_test(commands_are_programs_and_scripts),
		folder_test(each_command_has_a_verdict),
		folder_test(a_program_ends_where_the_next_begins),
		folder_test(windows_cut_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
