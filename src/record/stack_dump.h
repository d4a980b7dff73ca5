/* stack_dump.h: the call stacks of running processes, with names (`pitot dump --stacks`). */
#ifndef PITOT_RECORD_STACK_DUMP_H
#define PITOT_RECORD_STACK_DUMP_H

#include "sampler/thread_stacks.h"
#include "trace/trace.h"

struct stack_dump {
	struct thread_stacks threads;
	struct trace *trace; /* has one cpu_sample for each thread with a stack; NULL: none has */
	uint64_t time_ns; /* of these samples */
};

/*
 * Reads the stacks of all threads of these processes, and names them. Returns 0 or a negative code;
 * release *out in either case.
 */
int stack_dump_read(const pid_t *pids, size_t count, struct stack_dump *out,
		    struct error *e) MUST_USE;
void stack_dump_release(struct stack_dump *dump);

#endif
