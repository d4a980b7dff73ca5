/*
 * leave.h: the ways in which a process ends or turns into two: exit, signals that would kill it, fork.
 *
 * SIGINT, SIGTERM and SIGHUP get a handler only where their disposition is the default one, that is, where the program
 * does not care: it seals the recording (bounded time), restores the default and raises the signal again, so that the
 * wait status is the same as without it. Nothing is done about SIGSEGV and its like: what was sealed is on disk.
 */
#ifndef PITOT_CAPTURE_PROCESS_EXIT_H
#define PITOT_CAPTURE_PROCESS_EXIT_H

/*
 * Called whenever a source has been started. Exit handlers run last in, first out, together with the destructors of
 * libraries: only one that is registered after libcupti was loaded still finds it alive. The rest is done once.
 */
void leave_install(void);

/* The part of it that is about fork; once. */
void leave_watch_fork(void);

#endif
