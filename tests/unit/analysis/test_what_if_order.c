/*
 * test_what_if_order.c: transforms that change which work there is, or its order: a recording for
 * each, whose answer is worked out by hand, and properties of all of them.
 */
#include "analysis/what_if.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)
#define BEGIN (100 * US) /* the time 0 of the programs below */
#define BEFORE 3u /* launches before that, which are not simulated */

struct written {
	struct maker *m;
	uint32_t kernel;
	uint64_t correlation;
};

/* Streams 20 and 21 do not wait for the default one. */
static struct written start_program(const char *folder)
{
	struct written p = { .m = begin(folder, 100) };
	struct row_stream apart = { .context = 1, .non_blocking = 1 };

	for (apart.id = 20; apart.id < 22; apart.id++)
		writer_append(p.m->writer, TABLE_stream, &apart);
	p.kernel = maker_config(p.m, "k", 1, 32);
	maker_stream(p.m, 8, 0);
	for (uint64_t us = 10; us < 10 + 20 * BEFORE; us += 20) {
		maker_call(p.m, MAKER_LAUNCH, 1, us * US, (us + 1) * US, ++p.correlation);
		maker_kernel(p.m, p.kernel, 8, (us + 5) * US, (us + 10) * US, p.correlation);
	}
	return p;
}

/* A launching call of 1 us at a time, and its kernel: in us. */
static void run_kernel(struct written *p, uint64_t at, uint32_t stream, uint64_t from, uint64_t to)
{
	maker_call(p->m, MAKER_LAUNCH, 1, BEGIN + at * US, BEGIN + (at + 1) * US, ++p->correlation);
	maker_kernel(p->m, p->kernel, stream, BEGIN + from * US, BEGIN + to * US, p->correlation);
}

enum { ASYNC = 1, PAGEABLE = 2, FROM_DEVICE = 4 };

/* A call from `at` to `until`, and its copy on stream 20. */
static void copy(struct written *p, unsigned how, uint64_t bytes, uint64_t at, uint64_t until,
		 uint64_t from, uint64_t to)
{
	uint8_t host = how & PAGEABLE ? memory_kind_pageable : memory_kind_pinned;
	struct row_memcpy row = {
		.start_ns = BEGIN + from * US,
		.end_ns = BEGIN + to * US,
		.bytes = bytes,
		.kind = how & FROM_DEVICE ? copy_kind_DtoH : copy_kind_HtoD,
		.source_kind = how & FROM_DEVICE ? memory_kind_device : host,
		.destination_kind = how & FROM_DEVICE ? host : memory_kind_device,
		.async = how & ASYNC,
		.correlation = ++p->correlation,
		.context = 1,
		.stream = 20,
		.missing = schema_missing(TABLE_memcpy) & ~(UINT64_C(1) << COLUMN_memcpy_start_ns |
							    UINT64_C(1) << COLUMN_memcpy_end_ns |
							    UINT64_C(1) << COLUMN_memcpy_bytes |
							    UINT64_C(1) << COLUMN_memcpy_async),
	};

	maker_call(p->m, MAKER_MEMCPY, 1, BEGIN + at * US, BEGIN + until * US, p->correlation);
	writer_append(p->m->writer, TABLE_memcpy, &row);
}

static void synchronize(struct written *p, uint32_t stream, uint64_t at, uint64_t until)
{
	maker_stream_call(p->m, MAKER_STREAM_SYNCHRONIZE, 1, BEGIN + at * US, BEGIN + until * US,
			  stream, 0);
}

static void scope(struct written *p, const char *name, uint64_t at)
{
	maker_scope(p->m, name ? nvtx_kind_push : nvtx_kind_pop, 1, name, 0, BEGIN + at * US);
}

/* --- programs: each takes 5 us from a launching call to its work, and 1 us between work --- */

/* Copies that the host has launched long before. */
static void copies_between_kernels(struct written *p)
{
	copy(p, ASYNC, 1 << 20, 0, 1, 5, 105);
	run_kernel(p, 2, 20, 106, 206);
	copy(p, ASYNC, 1 << 20, 4, 5, 207, 307);
	run_kernel(p, 6, 20, 308, 408);
}

/* The host waits for each copy, and its call returns 3 us later. */
static void blocking_copies(struct written *p)
{
	copy(p, 0, 1 << 20, 0, 108, 5, 105);
	run_kernel(p, 109, 20, 114, 214);
	copy(p, 0, 1 << 20, 111, 318, 215, 315);
	run_kernel(p, 319, 20, 324, 424);
}

/* What is copied back was made by the kernel before; the next one needs none of it. */
static void copies_back(struct written *p)
{
	run_kernel(p, 0, 20, 5, 105);
	copy(p, ASYNC | FROM_DEVICE, 1 << 20, 2, 3, 106, 206);
	run_kernel(p, 4, 20, 207, 307);
	copy(p, ASYNC | FROM_DEVICE, 1 << 20, 6, 7, 308, 408);
	synchronize(p, 20, 8, 413);
}

static void two_streams(struct written *p)
{
	run_kernel(p, 0, 20, 5, 105);
	run_kernel(p, 2, 21, 7, 107);
	synchronize(p, 20, 4, 110);
}

static void two_chains(struct written *p)
{
	run_kernel(p, 0, 20, 5, 105);
	scope(p, "b", 1);
	run_kernel(p, 2, 20, 106, 206);
	scope(p, NULL, 3);
	run_kernel(p, 4, 20, 207, 307);
	scope(p, "b", 5);
	run_kernel(p, 6, 20, 308, 408);
	scope(p, NULL, 7);
	synchronize(p, 20, 8, 413);
}

/* Short kernels, each 10 us; the fourth one after a call about something else. */
static void short_kernels(struct written *p)
{
	for (uint64_t i = 0; i < 6; i++) {
		if (i == 3)
			maker_stream_call(p->m, MAKER_EVENT_RECORD, 1, BEGIN + 27 * US,
					  BEGIN + 28 * US, 20, 0xe);
		run_kernel(p, 10 * i, 20, 10 * i + 5, 10 * i + 7);
	}
}

/* 1 MiB takes 40 us from pinned memory, and 100 us, from pageable memory. */
static void pageable_copy(struct written *p)
{
	copy(p, ASYNC, 1 << 20, 0, 1, 5, 45);
	copy(p, ASYNC | PAGEABLE, 1 << 20, 50, 158, 55, 155);
	run_kernel(p, 160, 20, 165, 175);
}

static void synchronous_pageable_copy(struct written *p)
{
	copy(p, ASYNC, 1 << 20, 0, 1, 5, 45);
	copy(p, PAGEABLE, 1 << 20, 50, 158, 55, 155);
	run_kernel(p, 160, 20, 165, 175);
}

/* Four times as many bytes, at the same rate. */
static void larger_pageable_copy(struct written *p)
{
	copy(p, ASYNC, 1 << 20, 0, 1, 5, 45);
	copy(p, ASYNC | PAGEABLE, 1 << 22, 50, 458, 55, 455);
	run_kernel(p, 460, 20, 465, 475);
}

/* 9 us before each call: twice a line of Python makes it, then one of C. */
static void python(struct written *p)
{
	uint32_t line = maker_stack(p->m, maker_python(p->m, 0, "step", "/x.py", 7), 1,
				    stack_end_complete),
		 other = maker_stack(p->m, maker_python(p->m, 0, "other", "/y.py", 8), 1,
				     stack_end_complete);

	for (uint64_t i = 0; i < 4; i++) {
		p->m->stack = i == 3 ? 0 : i == 2 ? other : line;
		run_kernel(p, 10 * i, 20, 10 * i + 5, 10 * i + 7);
	}
	p->m->stack = 0;
}

typedef void write_program(struct written *p);

/* Times in us from the first call to the last end. */
static const struct {
	write_program *write;
	const char *change;
	uint64_t before, after;
} known[] = {
	/* copies at 5 and 106; kernels at 106 and 207 */
	{ copies_between_kernels, "overlap copies", 408, 307 },
	/* calls at 0, 4, 6, 10; copies at 5 and 106; kernels at 106 and 207 */
	{ blocking_copies, "overlap copies", 424, 307 },
	/* kernels at 5 and 106; copies at 106 and 207; the return 5 us later */
	{ copies_back, "overlap copies", 413, 312 },
	/* the second kernel from 106 to 206; the return 5 us later */
	{ two_streams, "streams merge", 110, 211 },
	/* kernels from 5, 7, 106 and 108 on; the return waits for both */
	{ two_chains, "streams split b", 413, 213 },
	/* work of a scope alone: nothing is left to be split */
	{ two_chains, "streams merge", 413, 413 },
	/* calls at 0, 10 (the third), 17 (an event's), 20, 30; kernels at 5, 7, 15, 25, 27, 35 */
	{ short_kernels, "fuse 2", 57, 37 },
	/* calls at 0, 7 (about an event) and 10; kernels at 5, 7, 9, 15, 17 and 19 */
	{ short_kernels, "fuse 3", 57, 21 },
	{ short_kernels, "fuse:k 3 x0.5", 57, 18 },
	/* what the host needs stays: calls at 0, 9, 18, 24 (an event's), 27, 36 and 45 */
	{ short_kernels, "kernel:k remove", 57, 45 },
	{ pageable_copy, "copies pinned", 175, 106 },
	{ synchronous_pageable_copy, "copies pinned", 175, 115 },
	{ larger_pageable_copy, "copies pinned", 475, 226 },
	/* calls at 0, 1, 2 and 12 */
	{ python, "python x0", 37, 19 },
	{ python, "python:*y.py* x0", 37, 28 },
	{ two_streams, "batch x2", 110, 210 },
};

struct guess {
	struct analyzed a;
	struct what_if w;
	struct what_if_rule rule;
};

static void open_guess(struct guess *g, const char *folder)
{
	struct report_options options = { .filter = FILTER_ALL, .steps = true };

	options.filter.since_ns = BEGIN;
	const uint64_t no_cost = 0;
	struct error e = { 0 };

	*g = (struct guess){ 0 };
	analyze(&g->a, folder, options);
	if (what_if_init(&g->w, &g->a.report, &no_cost, NULL, &e) < 0)
		fail_msg("%s", e.text);
	assert_null(g->w.loop);
	assert_int_equal(g->w.identity_ns, 0);
	assert_int_equal(g->w.first_task, 2 * BEFORE);
}

static int set_rule(struct guess *g, const char *text, struct error *e)
{
	int code = what_if_parse(&g->rule, text, e);

	return code < 0 ? code : what_if_match(&g->w, &g->rule, e);
}

static void guess_release(struct guess *g)
{
	what_if_rule_release(&g->rule);
	what_if_release(&g->w);
	analyzed_release(&g->a);
}

static void make(write_program *write, const char *folder)
{
	struct written p = start_program(folder);

	write(&p);
	maker_close(p.m, BEGIN + 1000 * US);
}

static void right_answers(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct error e = { 0 };
		struct guess g;
		char folder[256];

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		make(known[i].write, folder);
		open_guess(&g, folder);
		assert_int_equal(g.w.recorded.step_ns, known[i].before * US);
		if (set_rule(&g, known[i].change, &e) < 0 || what_if_check(&g.rule, 1, &e) < 0)
			fail_msg("%zu: %s", i, e.text);
		assert_int_equal(what_if_predict(&g.w, &g.rule, 1), 0);
		if (g.w.predicted.step_ns != known[i].after * US)
			fail_msg("%zu: %s: %u instead of %u ns", i, known[i].change,
				 (unsigned)g.w.predicted.step_ns, (unsigned)(known[i].after * US));
		guess_release(&g);
	}
}

static const struct {
	write_program *write;
	const char *text, *error;
} wrong[] = {
	{ two_streams, "copies pinned", "'copies pinned' changes nothing of what is simulated" },
	{ pageable_copy, "copies fast", "'copies fast' is no transform: copies pinned" },
	{ pageable_copy, "copies pinned now",
	  "'copies pinned now' is no transform: copies pinned" },
	{ pageable_copy, "copies:HtoD pinned", "'copies:HtoD pinned': copies takes no name" },
	{ two_streams, "overlap copies", "'overlap copies' changes nothing of what is simulated" },
	{ two_streams, "overlap", "'overlap' is no transform: overlap copies" },
	{ two_streams, "streams",
	  "'streams' is no transform: streams merge, or streams split SCOPE" },
	{ two_streams, "streams split",
	  "'streams split' is no transform: streams merge, or streams split SCOPE" },
	{ two_streams, "stream merge",
	  "unknown transform 'stream merge', did you mean 'streams'?" },
	{ two_chains, "streams split c", "'streams split c' changes nothing of what is simulated" },
	{ short_kernels, "fuse", "'fuse' does not say how many kernels become one: fuse[:GLOB] N" },
	{ short_kernels, "fuse 1", "'fuse 1' does not say how many kernels become one" },
	{ short_kernels, "fuse 2 0.5", "'fuse 2 0.5' does not say how many kernels become one" },
	{ short_kernels, "fuse:other 2", "'fuse:other 2' changes nothing of what is simulated" },
	{ copies_between_kernels, "fuse 2", "'fuse 2' changes nothing of what is simulated" },
	{ two_streams, "batch =2us", "'batch =2us': a batch is some times as large: batch xN" },
	{ two_streams, "python x0.5",
	  "'python x0.5' changes nothing of what is simulated: it has no calls that lines of "
	  "Python "
	  "make" },
};

static void errors(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct error e = { 0 };
		struct guess g;
		char folder[256];

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		make(wrong[i].write, folder);
		open_guess(&g, folder);
		assert_int_equal(set_rule(&g, wrong[i].text, &e), E_USAGE);
		if (strncmp(e.text, wrong[i].error, strlen(wrong[i].error)) != 0)
			fail_msg("%s", e.text);
		guess_release(&g);
	}
}

/* Eight times as many bytes as any copy of pinned memory, or the other direction. */
static void an_unknown_rate_is_refused(void **state)
{
	static const struct {
		unsigned how;
		uint64_t bytes;
		const char *said;
	} cases[] = {
		{ ASYNC | PAGEABLE, 1 << 23, "no HtoD copy of about 8.0 MiB with pinned memory" },
		{ ASYNC | PAGEABLE, 1 << 17, "no HtoD copy of about 128.0 KiB with pinned memory" },
		{ ASYNC | PAGEABLE | FROM_DEVICE, 1 << 20,
		  "no DtoH copy of about 1.0 MiB with pinned memory, so its rate is unknown: name "
		  "it, "
		  "as in 'copy:DtoH x0.5'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct written p;
		struct error e = { 0 };
		struct guess g;
		char folder[256];

		snprintf(folder, sizeof(folder), "%s/%zu", (const char *)*state, i);
		assert_int_equal(mkdir(folder, 0700), 0);
		p = start_program(folder);
		copy(&p, ASYNC, 1 << 20, 0, 1, 5, 45);
		copy(&p, cases[i].how, cases[i].bytes, 50, 158, 55, 155);
		maker_close(p.m, BEGIN + 1000 * US);
		open_guess(&g, folder);
		assert_int_equal(set_rule(&g, "copies pinned", &e), E_USAGE);
		if (!strstr(e.text, cases[i].said))
			fail_msg("%s", e.text);
		guess_release(&g);
	}
}

/* Two kernels of each of two runs, and of each the second one's call and the 9 us before it. */
static void what_is_changed_is_counted(void **state)
{
	struct error e = { 0 };
	struct guess g;

	make(short_kernels, *state);
	open_guess(&g, *state);
	assert_int_equal(set_rule(&g, "fuse 2", &e), 0);
	assert_int_equal(g.rule.matched, 4 + 2);
	assert_int_equal(g.rule.cost_ns, (4 * 2 + 2 * (1 + 9)) * US);
	guess_release(&g);
}

static void one_order_at_a_time(void **state)
{
	struct what_if_rule rules[2];
	struct error e = { 0 };

	(void)state;
	assert_int_equal(what_if_parse(&rules[0], "streams merge", &e), 0);
	assert_int_equal(what_if_parse(&rules[1], "fuse 2", &e), 0);
	assert_int_equal(what_if_check(rules, 1, &e), 0);
	assert_int_equal(what_if_check(rules, 2, &e), E_USAGE);
	assert_string_equal(e.text,
			    "'streams merge' and 'fuse 2' both change the order of work, which is "
			    "simulated one at a time");
	what_if_rule_release(&rules[0]);
	what_if_rule_release(&rules[1]);
}

/* --- properties --- */

/* Kernels and copies on two streams, some of which wait for each other, as they would run. */
static void write_random(struct written *p, unsigned seed)
{
	uint64_t now = 0, ready[2] = { 0, 0 }, waits[2] = { 0, 0 };
	uint32_t random = seed * 2654435761u + 1;

	for (unsigned i = 0; i < 40; i++) {
		unsigned at, how;
		uint64_t from, ns;

		random = random * 1664525u + 1013904223u;
		at = random >> 24 & 1;
		how = random >> 20 & 7;
		ns = 2 + (random >> 8 & 63);
		now += 1 + (random >> 16 & 15);
		if (how == 7) { /* stream `at` waits for the other one */
			maker_stream_call(p->m, MAKER_EVENT_RECORD, 1, BEGIN + now * US,
					  BEGIN + (now + 1) * US, 21 - at, 0xe);
			maker_stream_call(p->m, MAKER_STREAM_WAIT, 1, BEGIN + (now + 2) * US,
					  BEGIN + (now + 3) * US, 20 + at, 0xe);
			waits[at] = ready[!at];
			now += 4;
			continue;
		}
		if (how == 6) {
			uint64_t until = MAX(now + 1, ready[at] + 4);

			synchronize(p, 20 + at, now, until);
			now = until;
			continue;
		}
		if (how == 5)
			scope(p, "b", now);
		from = MAX(now + 5, MAX(ready[at], waits[at]) + 1);
		if (how > 3 || at)
			run_kernel(p, now + 1, 20 + at, from + 1, from + 1 + ns);
		else
			copy(p, ASYNC | (how & 1 ? FROM_DEVICE : 0), 1 << 20, now + 1, now + 2,
			     from + 1, from + 1 + ns);
		ready[at] = from + 1 + ns;
		now += 2;
		if (how == 5)
			scope(p, NULL, now);
	}
}

static uint64_t work_ns(const struct what_if *w, bool simulated)
{
	uint64_t ns = 0;

	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		const struct task *task = &w->report->causes.tasks.data[i];
		const struct simulated *t = &w->times[i - w->first_task];

		if (task_is_work(task))
			ns += simulated ? (uint64_t)(t->end_ns - t->start_ns)
					: task->end_ns - task->start_ns;
	}
	return ns;
}

/*
 * What only takes edges away never makes the end later, what only adds some never earlier, and none
 * of them changes how much work there is.
 */
static void properties(void **state)
{
	static const struct {
		const char *text;
		bool shortens;
	} rules[] = { { "overlap copies", true },
		      { "streams split b", true },
		      { "fuse 4", true },
		      { "streams merge", false } };
	unsigned changed[ARRAY_SIZE(rules)] = { 0 };

	for (unsigned seed = 0; seed < 24; seed++) {
		struct written p;
		struct guess g;
		char folder[256];

		snprintf(folder, sizeof(folder), "%s/%u", (const char *)*state, seed);
		assert_int_equal(mkdir(folder, 0700), 0);
		p = start_program(folder);
		write_random(&p, seed);
		maker_close(p.m, BEGIN + 10000 * US);
		for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
			struct error e = { 0 };
			uint64_t before, after;

			open_guess(&g, folder);
			if (set_rule(&g, rules[i].text, &e) == 0) {
				assert_int_equal(what_if_predict(&g.w, &g.rule, 1), 0);
				before = g.w.recorded.step_ns;
				after = g.w.predicted.step_ns;
				if (rules[i].shortens ? after > before : after < before)
					fail_msg("%u: %s: %u to %u", seed, rules[i].text,
						 (unsigned)before, (unsigned)after);
				assert_int_equal(work_ns(&g.w, true), work_ns(&g.w, false));
				changed[i] += after != before;
			}
			guess_release(&g);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		assert_true(changed[i] > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(right_answers),
		folder_test(errors),
		folder_test(an_unknown_rate_is_refused),
		folder_test(properties),
		folder_test(what_is_changed_is_counted),
		cmocka_unit_test(one_order_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
