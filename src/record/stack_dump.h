/* stack_dump.h: what the threads of running processes do: their states and call stacks. */
#ifndef PITOT_RECORD_STACK_DUMP_H
#define PITOT_RECORD_STACK_DUMP_H

#include "base/folder.h"
#include "elf/core_file.h"
#include "sampler/thread_stacks.h"
#include "trace/trace.h"

struct stack_dump {
	struct thread_stacks threads;
	struct trace *trace; /* has one row of `unfinished` for each thread; NULL: there is none */
	uint64_t time_ns; /* of these rows */
};

/*
 * Writes a row of `unfinished` for each thread of these processes into a folder, in segments of
 * their own. Threads that are not read within limit_ns have no stack. Returns 0 or a negative code;
 * release *threads in either case.
 */
int stack_dump_write(const pid_t *pids, size_t count, const char *folder,
		     const struct folder_id *id, uint64_t limit_ns, struct thread_stacks *threads,
		     struct error *e) MUST_USE;

/* Whose threads are read: a core file's, or those of running processes. */
struct stack_source {
	const struct core_file *core; /* NULL: none */
	const pid_t *pids;
	size_t count;
};

/*
 * Reads the stacks of all threads into a new recording (output; NULL: none is left), and names
 * them. Returns 0 or a negative code; release *out in either case.
 */
int stack_dump_read(const struct stack_source *source, const char *output, bool force,
		    struct stack_dump *out, struct error *e) MUST_USE;
void stack_dump_release(struct stack_dump *dump);

#endif
