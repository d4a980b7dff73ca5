/*
 * remote_python.h: makes a CPython from 3.14 on load the recorder, by its interface for remote
 * debugging (PEP 768), as sys.remote_exec() does: the path of a script is written into the state of
 * a thread, which runs it when it next executes Python code. No thread is stopped, and no call is
 * made in the place of one.
 *
 * CPython publishes where to write. It needs the rights that ptrace needs, and a program that was
 * started with PYTHON_DISABLE_REMOTE_DEBUG or -X disable-remote-debug is left alone.
 */
#ifndef PITOT_RECORD_INJECT_REMOTE_REMOTE_PYTHON_H
#define PITOT_RECORD_INJECT_REMOTE_REMOTE_PYTHON_H

#include <sys/types.h>

#include "base/error.h"

struct remote_python {
	pid_t pid;
	unsigned minor; /* of its version */
	uint64_t runtime; /* address of its _PyRuntime */
	uint64_t version; /* PY_VERSION_HEX */
	uint64_t interpreter; /* the main one's state */
	/* offsets in the state of an interpreter and of a thread */
	uint64_t main_thread, first_thread, next_thread, thread_id;
	uint64_t breaker, pending, script, script_size;
};

/*
 * Returns 1, and *out; 0: the process has no CPython with such an interface; or a negative code,
 * and *e says why it has one that may not be used.
 */
int remote_python_find(pid_t pid, struct remote_python *out, struct error *e) MUST_USE;
/*
 * Loads the library, which the process sees at that path, within some five seconds, and calls its
 * pitot_idle(). Returns 0, *idle, what that returned, and *tid, the thread that ran the script; or
 * a negative code.
 */
int remote_python_load(const struct remote_python *p, const char *library, int *idle, pid_t *tid,
		       struct error *e) MUST_USE;

#endif
