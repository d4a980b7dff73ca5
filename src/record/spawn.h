/*
 * spawn.h: the command as a child process, and the signals between it, us and the terminal.
 *
 * The child stays in our process group and session, so a terminal's Ctrl-C, Ctrl-\ and Ctrl-Z reach
 * it without us. All signals that end or concern us are blocked and read from a signalfd; what
 * another process sent to us (kill) is passed on to the child, what came from the terminal is not,
 * because the child has it already.
 */
#ifndef PITOT_RECORD_SPAWN_H
#define PITOT_RECORD_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

#define SPAWN_ATTACHED_MAX 64

struct spawn {
	pid_t pid; /* of the command */
	int signals; /* signalfd */
	int processes[SPAWN_ATTACHED_MAX]; /* pidfds of attached processes; -1: ended */
	size_t process_count; /* 0: there is a command */
	size_t running; /* attached processes that have not ended */
	sigset_t old_mask;
	bool ignored_children; /* SIGCHLD was ignored at our start: the command ignores it, too */
	uint64_t start_ns; /* CLOCK_MONOTONIC before the fork */
	uint64_t end_ns; /* when its end was seen; 0 while it runs */
	int status; /* as a shell shows it; valid once end_ns is set */
	int killed_by; /* the signal that killed it, or 0 */
	int late_signal; /* the last one that came to us after its end, or 0 */
};

/*
 * Called while the child waits for its exec: appends variables for its environment, "NAME=VALUE"
 * with a NUL after each. 0, or a negative code, and then the command is not started.
 */
typedef int spawn_prepare(void *user, pid_t pid, struct strbuf *environment, struct error *e);

/*
 * Checks that the command exists and can be executed, before anything is prepared for it. 0;
 * -ENOENT (status 127 for a shell) or another negative errno (status 126).
 */
int spawn_check(const char *command, struct error *e) MUST_USE;

/*
 * Starts argv. From here on signals are blocked until spawn_release. On failure nothing runs, the
 * error says why, and the result is as of spawn_check.
 */
int spawn_start(struct spawn *s, char **argv, spawn_prepare *prepare, void *user,
		struct error *e) MUST_USE;

/*
 * Follows at most SPAWN_ATTACHED_MAX running processes instead of starting a command; signals are
 * received as with spawn_start. spawn_wait returns false when all of them have ended or a signal
 * asks us to end.
 */
int spawn_attach(struct spawn *s, const pid_t *pids, size_t count, struct error *e) MUST_USE;

/*
 * Waits for a signal or the end of `timeout_ms`, passes signals on, reaps what ended. Each process
 * that was reaped is reported through `ended`, orphans of the command included (we are their
 * reaper). Returns false once the command has ended.
 */
bool spawn_wait(struct spawn *s, int timeout_ms, void (*ended)(void *user, pid_t pid, int status),
		void *user);

/* Restores the signal mask. */
void spawn_release(struct spawn *s);

#endif
