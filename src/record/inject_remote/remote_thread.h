/*
 * remote_thread.h: makes a thread of another process, asleep in a system call, call functions, and
 * lets it sleep on as if nothing had happened.
 *
 * The thread is seized by ptrace (no SIGSTOP), all other threads of the process run on. Calls are
 * made on a stack of ours, with all signals blocked that can be. At the end registers, vector
 * registers, signal mask and errno are what they were, and the kernel continues the system call by
 * itself, with what is left of its time limit: the program sees no EINTR.
 *
 * Whoever calls these functions must live until remote_thread_leave() has returned: a thread whose
 * tracer dies during a call dies at the end of the call.
 */
#ifndef PITOT_RECORD_INJECT_REMOTE_REMOTE_THREAD_H
#define PITOT_RECORD_INJECT_REMOTE_REMOTE_THREAD_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

#include "base/compiler.h"

#define REMOTE_STACK_BYTES (1u << 20)
#define REMOTE_VECTORS_MAX 16384u /* x86-64's, with AMX, are 11 KiB */

struct remote_thread {
	pid_t pid, tid;
	long call; /* the system call that it sleeps in */
	struct user_regs_struct registers; /* as they were when it stopped */
	bool is_away; /* it has left its system call for calls of ours */
	uint64_t memory; /* in the process: code, texts, stack; 0: none yet */
	uint64_t signals; /* its mask */
	uint8_t vectors[REMOTE_VECTORS_MAX];
	size_t vectors_size;
};

/*
 * Stops a thread. Returns 0; -EAGAIN: it does not sleep in system call `call` any more, or the call
 * would not continue; -ETIMEDOUT: it has not stopped within a second; or another negative errno. It
 * is left as it was after a failure.
 */
int remote_thread_stop(struct remote_thread *t, pid_t pid, pid_t tid, long call) MUST_USE;
/*
 * Makes memory for calls in the process, with a text of at most 4095 bytes in it; *text is its
 * address. Returns 0 or a negative errno.
 */
int remote_thread_prepare(struct remote_thread *t, const char *text, uint64_t *text_at) MUST_USE;
/*
 * Calls a function, and waits until it returns, for ever: a thread in the middle of a call cannot
 * be left. Returns 0; -EFAULT: the function crashed; -ESRCH: the thread has ended.
 */
int remote_thread_call(struct remote_thread *t, uint64_t function, uint64_t first, uint64_t second,
		       uint64_t *result) MUST_USE;
/* Lets the thread sleep on. Returns 0, or a negative errno if it has ended meanwhile. */
int remote_thread_leave(struct remote_thread *t);

bool remote_read(pid_t pid, uint64_t address, void *out, size_t size);
bool remote_write(pid_t pid, uint64_t address, const void *bytes, size_t size);

#endif
