/*
 * process_exit.h: the ways in which a process ends or turns into two: exit, signals that would kill
 * it, fork.
 *
 * SIGINT, SIGTERM and SIGHUP get a handler only where their disposition is the default one, that
 * is, where the program does not care: it seals the recording (bounded time), restores the default
 * and raises the signal again, so that the wait status is the same as without it. The first process
 * of a container has no default that kills: there nothing is installed. Nothing is done about
 * SIGSEGV and its like: what was sealed is on disk.
 */
#ifndef PITOT_CAPTURE_PROCESS_EXIT_H
#define PITOT_CAPTURE_PROCESS_EXIT_H

#include <stdbool.h>

/*
 * Called whenever sources have been started. Exit handlers run last in, first out, together with
 * the destructors of libraries: only one that is registered after libcupti was loaded (with_cupti)
 * still finds it alive. So they are registered at the first call, and again at the first one with
 * CUPTI; the rest is done once.
 */
void process_exit_install(bool with_cupti);

/* A library was loaded that the end of a recording calls: it is to find that one alive, too. */
void process_exit_register(void);

/* The collector has ended: a signal that waited for that is raised. */
void process_exit_finished(void);

/* The part of it that is about fork; once. */
void process_exit_watch_fork(void);

/*
 * Whether main() has ended by pthread_exit() and of the process's threads only the recorder's are
 * left.
 */
bool process_has_ended(void);

#endif
