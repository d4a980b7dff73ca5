/*
 * thread_stacks.h: the call stack of each thread of running processes, once.
 *
 * A thread that sleeps in a system call is read while it sleeps, from the stack pointer and the
 * program counter that /proc shows, and read again if it has moved meanwhile. A thread is stopped,
 * for a fraction of a millisecond, only if it runs, or if its stack cannot be unwound without its
 * other registers and its system call continues by itself afterwards (epoll_wait, sockets with a
 * time limit and the drivers' ioctl would return EINTR to the program).
 */
#ifndef PITOT_SAMPLER_THREAD_STACKS_H
#define PITOT_SAMPLER_THREAD_STACKS_H

#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"
#include "schema/schema.h"

struct core_file;
struct targets;

struct thread_stack {
	pid_t pid, tid;
	char name[16];
	enum thread_state state;
	const char *call; /* system call that it sleeps in; NULL: none, or not a known one */
	uint64_t stopped_ns; /* how long it was stopped; 0: it was not */
	int error; /* why it has no stack; 0: it has one */
};

struct thread_stacks {
	VEC(struct thread_stack) all; /* by process */
	struct error python; /* why Python frames are missing; code 0: they are not */
};

/*
 * Adds a row of `unfinished` to *t for each thread of the processes: its state and its stack, at
 * time_ns. Threads that are not read before end_ns (CLOCK_MONOTONIC) have no stack. Processes that
 * end meanwhile are left out. Returns 0 or -ENOMEM; release *out in either case.
 */
int thread_stacks_read(struct targets *t, const pid_t *pids, size_t count, uint64_t time_ns,
		       uint64_t end_ns, struct thread_stacks *out) MUST_USE;
/* The same for the threads of a core file, which process_memory.h uses. */
int thread_stacks_read_core(struct targets *t, const struct core_file *core, uint64_t time_ns,
			    struct thread_stacks *out) MUST_USE;
void thread_stacks_release(struct thread_stacks *stacks);

#endif
