/*
 * remote_sleep.h: finds a thread of a process in which a library can be loaded without harm.
 *
 * A call that is made in a thread's place may wait for the locks of the loader, the allocator and
 * the C library. They are released by and by if others hold them, and never if that thread itself
 * does. So the thread must sleep in a system call from which it did not come through any of them:
 *
 *   - its innermost frames are the C library's, of a call that waits for time, descriptors or
 *     children; or of one that waits for another thread (pthread_cond_wait), not for a lock;
 *   - then frames of the program and its libraries, to the thread's start, with the C library's
 *     where the thread began, and nowhere else: not below a call-back of qsort, fork or dlopen;
 *   - none of them in the loader, an allocator or a signal handler, and all of them known.
 *
 * And the system call must continue after the interruption, with what is left of its time limit.
 */
#ifndef PITOT_RECORD_INJECT_REMOTE_REMOTE_SLEEP_H
#define PITOT_RECORD_INJECT_REMOTE_REMOTE_SLEEP_H

#include "base/strbuf.h"
#include "record/inject_remote/remote_image.h"
#include "record/inject_remote/remote_thread.h"

struct remote_sleep; /* reads stacks */

int remote_sleep_new(pid_t pid, struct remote_sleep **out, struct error *e) MUST_USE;
void remote_sleep_free(struct remote_sleep *s);

/*
 * Stops the first thread that will do. Its seccomp filters are the caller's to judge if the main
 * thread has one; otherwise threads that have one are not used. Returns 0, and *call, the name of
 * what it sleeps in; -EAGAIN if none does now, and appends what each of them does to `seen`; or
 * another negative errno, by which the process as a whole is refused.
 */
int remote_sleep_stop(struct remote_sleep *s, const struct remote_image *image,
		      struct remote_thread *thread, const char **call,
		      struct strbuf *seen) MUST_USE;

#endif
