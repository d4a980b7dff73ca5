/* causes_fixture.h: the graph of a recording that a test made, and its tasks by their work. */
#ifndef PITOT_TESTS_CAUSES_FIXTURE_H
#define PITOT_TESTS_CAUSES_FIXTURE_H

#include "causes/causes.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"
#include "trace/columns.h"

struct built {
	struct trace *trace;
	struct causes causes;
};

static inline void build(struct built *b, const char *folder)
{
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };

	if (trace_open(folder, &options, &b->trace, &e) < 0 || causes_load(b->trace, &e) < 0 ||
	    trace_load(b->trace, TABLE_kernel, COLUMN_BITS(kernel, correlation), &e) < 0 ||
	    trace_load(b->trace, TABLE_memcpy, COLUMN_BITS(memcpy, correlation), &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(causes_build(&b->causes, b->trace), 0);
}

static inline void built_release(struct built *b)
{
	causes_release(&b->causes);
	trace_free(b->trace);
}

/* The n-th task of kernels and copies with this correlation id. */
static inline uint32_t work_of(const struct built *b, uint64_t correlation, unsigned n)
{
	for (uint32_t i = 0; i < causes_task_count(&b->causes); i++) {
		const struct task *task = &b->causes.tasks.data[i];
		uint64_t id = task->kind == GPU_WORK_kernel
				      ? kernel_columns(b->trace)->correlation[task->row]
			      : task->kind == GPU_WORK_memcpy
				      ? memcpy_columns(b->trace)->correlation[task->row]
				      : 0;

		if (id == correlation && !n--)
			return i;
	}
	fail_msg("no work with correlation id %u", (unsigned)correlation);
	return TASK_NONE;
}

static inline uint32_t call_at(const struct built *b, uint64_t start_ns)
{
	for (uint32_t i = 0; i < causes_task_count(&b->causes); i++)
		if (b->causes.tasks.data[i].kind == TASK_CALL &&
		    b->causes.tasks.data[i].start_ns == start_ns)
			return i;
	fail_msg("no call at %u ns", (unsigned)start_ns);
	return TASK_NONE;
}

#endif
