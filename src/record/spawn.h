/*
 * spawn.h: the command as a child process, and signals between the terminal, pitot and the child.
 *
 * The child stays in pitot's process group and session, so a terminal's Ctrl-C, Ctrl-\ and Ctrl-Z
 * reach it directly. pitot blocks all signals that concern it and reads them from a signalfd.
 * Signals that another process sent to pitot (kill) are passed on to the child. Signals of the
 * terminal are not, because the child has received them already.
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
	pid_t pid; /* the command */
	int signals; /* signalfd */
	int processes[SPAWN_ATTACHED_MAX]; /* pidfds of attached processes; -1: ended */
	size_t process_count; /* attached processes; 0: there is a command */
	int watched; /* a descriptor whose input ends a wait; 0: none */
	size_t running; /* attached processes that have not ended */
	sigset_t old_mask;
	bool ignored_children; /* SIGCHLD was ignored at start: the command ignores it, too */
	uint64_t start_ns; /* CLOCK_MONOTONIC before the fork */
	uint64_t end_ns; /* time at which its end was noticed; 0 while it runs */
	int status; /* as in a shell; valid once end_ns is set */
	int killed_by; /* the signal that killed it, or 0 */
	uint32_t kept_signals; /* signals to pitot that are not passed on: bits 1 << n */
	uint32_t received; /* those of them that have arrived; the caller clears them */
	int late_signal; /* the last signal to pitot after the command's end, or 0 */
};

/*
 * Called while the child waits for its exec. Appends variables for its environment, each as
 * "NAME=VALUE" and a NUL. Returns 0, or a negative code, and then the command is not started.
 */
typedef int spawn_prepare(void *user, pid_t pid, struct strbuf *environment, struct error *e);

/*
 * Checks that the command exists and can be executed, before anything is prepared for it. Returns
 * 0, -ENOENT (status 127 in a shell) or another negative errno (status 126).
 */
int spawn_check(const char *command, struct error *e) MUST_USE;

/*
 * Starts argv. From now on signals are blocked until spawn_release. On failure nothing runs, and
 * error and result are as of spawn_check.
 */
int spawn_start(struct spawn *s, char **argv, spawn_prepare *prepare, void *user,
		struct error *e) MUST_USE;

/*
 * Follows at most SPAWN_ATTACHED_MAX running processes instead of starting a command; signals are
 * received as with spawn_start. spawn_wait then returns false when all of them have ended or pitot
 * receives a signal that ends it.
 */
int spawn_attach(struct spawn *s, const pid_t *pids, size_t count, struct error *e) MUST_USE;

/*
 * Waits for a signal, at most `timeout_ms`. Passes signals on, and reaps children. Calls `ended`
 * for each reaped process, including orphans of the command (pitot is their reaper). Returns false
 * once the command has ended.
 */
bool spawn_wait(struct spawn *s, int timeout_ms, void (*ended)(void *user, pid_t pid, int status),
		void *user);

/* Restores the signal mask. */
void spawn_release(struct spawn *s);

#endif
