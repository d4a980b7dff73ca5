/*
 * process_exit.h: the recorder's handlers for the ways in which a process ends or forks: exit,
 * _exit, signals that would kill it, fork, exec.
 *
 * _exit() runs no exit handler, and every worker of Python's multiprocessing ends by it. The import
 * slots of the program and of libpython for it, daemon() and the functions of exec are changed, so
 * that the recorder seals first, in bounded time. A child made by fork or vfork is not delayed.
 *
 * SIGINT, SIGTERM and SIGHUP get a handler only if their disposition is the default one, that is,
 * if the program does not handle them itself. The handler seals the recording (in bounded time),
 * restores the default and raises the signal again, so that the wait status does not change. The
 * first process of a container is not killed by default dispositions, so nothing is installed
 * there. SIGSEGV and similar signals get no handler: what was sealed is on disk, and the rest is in
 * the shared area.
 */
#ifndef PITOT_CAPTURE_PROCESS_EXIT_H
#define PITOT_CAPTURE_PROCESS_EXIT_H

#include <stdbool.h>

/*
 * Must be called whenever sources have been started. Exit handlers run last in, first out, together
 * with the destructors of libraries: only a handler that is registered after libcupti was loaded
 * (with_profiler) runs while libcupti is still usable. Therefore the handlers are registered at the
 * first call, and again at the first call with CUPTI; everything else is done once.
 */
void process_exit_install(bool with_profiler);

/* Registers the exit handlers again, to run before the destructors of a library just loaded. */
void process_exit_register(void);

/* Installs the fork handlers only. Idempotent. */
void process_exit_watch_fork(void);

/* --- implemented by session.c, which is above --- */

/* The process exits: completes all sessions and touches nothing else. */
void session_exit(void);

/*
 * Called in the child of a fork: the session remains the parent's; the child gets its own if a
 * source needs it.
 */
void session_after_fork(void);

#endif
