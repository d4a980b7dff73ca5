/* Samples that wait for what was read of their threads: when that is believed, and when not. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "base/clock.h"
#include "sampler/perf/perf_held.h"

#define PID 7
#define TID 8
#define SAMPLE_NS (1000 * NS_PER_MS)
#define OUT_NS (SAMPLE_NS + 20 * NS_PER_US)
#define BEGIN_NS (SAMPLE_NS + 25 * NS_PER_US)
#define END_NS (SAMPLE_NS + 60 * NS_PER_US)
#define IN_NS (SAMPLE_NS + 70 * NS_PER_US)

struct said {
	struct perf_held_list list;
	unsigned emitted, believed;
	pid_t last_tid;
};

static void emit(void *context, const struct perf_held *held, const struct perf_reading *reading)
{
	struct said *s = context;

	s->emitted++;
	s->believed += reading != NULL;
	s->last_tid = held->tid;
	assert_true(!reading || (reading->tid == held->tid && reading->count == 3));
}

static int setup(void **state)
{
	struct said *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->list.emit = emit;
	s->list.context = s;
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct said *s = *state;

	perf_held_release(&s->list);
	free(s);
	return 0;
}

static void add_sample(struct said *s, pid_t pid, pid_t tid, uint64_t time_ns)
{
	struct perf_sample *sample = calloc(1, sizeof(*sample));

	assert_non_null(sample);
	sample->pid = pid;
	sample->tid = tid;
	sample->time_ns = time_ns;
	assert_non_null(perf_held_add(&s->list, sample));
	free(sample);
}

static struct perf_reading *add_reading(struct said *s, pid_t tid)
{
	struct perf_reading *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	*r = (struct perf_reading){ .pid = PID,
				    .tid = tid,
				    .sample_ns = SAMPLE_NS,
				    .begin_ns = BEGIN_NS,
				    .end_ns = END_NS,
				    .is_same_stack = true,
				    .count = 3 };
	assert_int_equal(vec_push(&s->list.readings.all, r), 0);
	return r;
}

static void switch_out(struct said *s, pid_t tid, uint64_t time_ns, bool is_preempted)
{
	const struct perf_sideband n = {
		.tid = tid, .time_ns = time_ns, .is_out = true, .is_preempted = is_preempted
	};

	perf_held_switch(&s->list, &n);
}

static void switch_in(struct said *s, pid_t tid, uint64_t time_ns)
{
	const struct perf_sideband n = { .tid = tid, .time_ns = time_ns };

	perf_held_switch(&s->list, &n);
}

static void expect(const struct said *s, unsigned emitted, unsigned believed)
{
	assert_int_equal(s->emitted, emitted);
	assert_int_equal(s->believed, believed);
}

static void a_thread_that_stood_still(void **state)
{
	struct said *s = *state;

	add_sample(s, PID, TID, SAMPLE_NS);
	add_reading(s, TID);
	switch_out(s, TID, OUT_NS, true);
	switch_out(s, TID + 1, OUT_NS, true);
	/* Events of which a thread has two write two records. */
	switch_out(s, TID, OUT_NS + 1, true);
	expect(s, 0, 0);
	switch_in(s, TID, IN_NS);
	expect(s, 1, 1);
	switch_in(s, TID, IN_NS + 1);
	expect(s, 1, 1);
	assert_int_equal(s->list.readings.all.count, 0);
}

/* Each a way in which a thread has run between its sample and the reading, or may have. */
enum fault {
	RAN_ON,
	RAN_TO_WAIT,
	READ_BEFORE,
	RAN_MEANWHILE,
	OTHER_STACK,
	NO_SWITCH,
	NOT_READ,
	OTHER_SAMPLE,
	OTHER_PROCESS,
	RECORDS_LOST,
	ENDED,
	NEXT_SAMPLE,
	FAULTS,
};

static void break_it(struct said *s, enum fault fault, struct perf_reading *r)
{
	switch (fault) {
	case READ_BEFORE:
		r->begin_ns = OUT_NS - 1;
		break;
	case RAN_MEANWHILE:
		r->end_ns = IN_NS + 1;
		break;
	case OTHER_STACK:
		r->is_same_stack = false;
		break;
	case OTHER_SAMPLE:
		r->sample_ns--;
		break;
	case OTHER_PROCESS:
		r->pid++;
		break;
	case RECORDS_LOST:
		perf_held_on_loss(&s->list);
		break;
	default:
		break;
	}
}

static void a_thread_that_did_not(void **state)
{
	struct said *s = *state;

	for (unsigned i = 0; i < FAULTS; i++) {
		uint64_t out_ns = OUT_NS, later_ns = PERF_HELD_SWITCH_NS;

		add_sample(s, PID, TID, SAMPLE_NS);
		if (i != NOT_READ)
			break_it(s, i, add_reading(s, TID));
		if (i == RAN_ON)
			out_ns = SAMPLE_NS + later_ns + 1;
		if (i != NO_SWITCH)
			switch_out(s, TID, out_ns, i != RAN_TO_WAIT);
		if (i == ENDED)
			perf_held_end(&s->list, TID);
		if (i == NEXT_SAMPLE) {
			add_sample(s, PID, TID, SAMPLE_NS + NS_PER_MS);
			expect(s, i + 1, 0);
		}
		switch_in(s, TID, IN_NS);
		expect(s, i + 1 + (i == NEXT_SAMPLE), 0);
		perf_held_forget(&s->list, SAMPLE_NS + 1);
		assert_int_equal(s->list.readings.all.count, 0);
	}
}

static void several_threads(void **state)
{
	struct said *s = *state;

	for (pid_t tid = 1; tid <= 50; tid++) {
		add_sample(s, tid > 40 ? PID + 1 : PID, tid, SAMPLE_NS);
		add_reading(s, tid);
		switch_out(s, tid, OUT_NS, true);
	}
	for (pid_t tid = 1; tid <= 30; tid += 2) {
		switch_in(s, tid, IN_NS);
		assert_int_equal(s->last_tid, tid);
	}
	expect(s, 15, 15);
	perf_held_end_process(&s->list, PID);
	expect(s, 40, 15);
	perf_held_end_process(&s->list, 0);
	expect(s, 50, 15);
	switch_in(s, 2, IN_NS);
	expect(s, 50, 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_thread_that_stood_still, setup, teardown),
		cmocka_unit_test_setup_teardown(a_thread_that_did_not, setup, teardown),
		cmocka_unit_test_setup_teardown(several_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
