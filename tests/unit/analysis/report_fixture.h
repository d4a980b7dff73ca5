/* report_fixture.h: a recording made by a test, opened and analyzed. */
#ifndef PITOT_TESTS_REPORT_FIXTURE_H
#define PITOT_TESTS_REPORT_FIXTURE_H

#include <stdio.h>

#include "analysis/busy.h"
#include "analysis/copies.h"
#include "analysis/cost.h"
#include "analysis/cpu_use.h"
#include "analysis/graphs.h"
#include "analysis/idle.h"
#include "analysis/idle_lines.h"
#include "analysis/launches.h"
#include "analysis/memory/memory_use.h"
#include "analysis/report.h"
#include "analysis/sync_calls.h"
#include "analysis/verdict.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

static inline struct trace *open_trace(const char *folder)
{
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };
	struct trace *t;

	if (trace_open(folder, &options, &t, &e) < 0)
		fail_msg("%s", e.text);
	return t;
}

struct analyzed {
	struct trace *trace;
	struct report report;
};

#define EVERYTHING ((struct report_options){ .filter = FILTER_ALL })

static inline void analyze(struct analyzed *a, const char *folder, struct report_options options)
{
	struct trace_options trace_options = { .threads = 1 };
	struct error e = { 0 };

	if (trace_open(folder, &trace_options, &a->trace, &e) < 0 ||
	    report_init(&a->report, a->trace, &options, &e) < 0)
		fail_msg("%s", e.text);
}

static inline void analyzed_release(struct analyzed *a)
{
	report_release(&a->report);
	trace_free(a->trace);
}

/* A process with one H200, from time 0 on. */
static inline struct maker *begin(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, 0, "./app");

	maker_device(m, 0, 0);
	return m;
}

/* A process whose threads launch one kernel. */
struct program {
	struct maker *m;
	uint32_t kernel;
	uint64_t correlation;
};

static inline struct program begin_program(const char *folder, uint32_t pid)
{
	struct program p = { .m = begin(folder, pid) };

	p.kernel = maker_config(p.m, "k", 1, 32);
	return p;
}

/* A launch, and its kernel 100 us later. */
static inline void launch(struct program *p, uint32_t thread, uint64_t at, uint64_t ns)
{
	p->correlation++;
	maker_call(p->m, MAKER_LAUNCH, thread, at, at + 5, p->correlation);
	maker_kernel(p->m, p->kernel, 7, at + 100000, at + 100000 + ns, p->correlation);
}

/* splitmix64 */
static inline uint64_t random_u64(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif
