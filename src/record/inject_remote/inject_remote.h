/*
 * inject_remote.h: loads libpitot.so into a running process that was not prepared, and prepares it:
 * then it is recorded like any other (attach_client.h). A CPython that has an interface for that
 * does it itself (remote_python.h), else it is done through a thread that sleeps (remote_sleep.h).
 *
 * A process of our own does that, which lives until the thread sleeps on, whatever becomes of its
 * parent: a thread is never left in the middle of a call.
 */
#ifndef PITOT_RECORD_INJECT_REMOTE_INJECT_REMOTE_H
#define PITOT_RECORD_INJECT_REMOTE_INJECT_REMOTE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* The thread through which a process was prepared, or could be. */
struct inject_thread {
	pid_t tid;
	char name[16];
	unsigned python; /* minor version of the CPython that did it, or could; 0: none */
	char call[24]; /* otherwise: system call in which it slept */
};

/*
 * Loads the library and calls its pitot_idle(). With `only_check` it only finds out how: a thread
 * that would be used is stopped for a millisecond; with a CPython, `tid` is 0. Returns 0, or a
 * negative code; *e says why not, and what to do.
 */
int inject_remote(pid_t pid, const char *library, bool only_check, struct inject_thread *out,
		  struct error *e) MUST_USE;

/*
 * Prepares those of the processes and their descendants that use CUDA and are not prepared yet.
 * Calls `prepared` for each. Returns 0, or a negative code if not a single one of them all is
 * prepared in the end; *e says why the first one is not.
 */
typedef void inject_visit(void *user, pid_t pid, const struct inject_thread *thread);
int inject_unprepared(const pid_t *pids, size_t count, inject_visit *prepared, void *user,
		      struct error *e) MUST_USE;

#endif
