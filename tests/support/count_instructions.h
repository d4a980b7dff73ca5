/*
 * count_instructions.h: measures a function's work without a clock: counts its instructions, one by
 * one, in a child process. Suitable for up to some hundred thousand.
 */
#ifndef PITOT_TESTS_COUNT_INSTRUCTIONS_H
#define PITOT_TESTS_COUNT_INSTRUCTIONS_H

#include <signal.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void count_nothing(void *user)
{
	(void)user;
}

/* Includes what the child needs to stop and to end: some ten thousand with sanitizers. */
static inline uint64_t count_child(void (*function)(void *user), void *user)
{
	uint64_t count = 0;
	pid_t child;
	int status;

#ifdef __SANITIZE_THREAD__
	return 0;
#endif
	child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(1);
		raise(SIGSTOP);
		function(user);
		_exit(0);
	}
	if (child < 0)
		return 0;
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		count++;
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) < 0)
			kill(child, SIGKILL);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? count : 0;
}

/* Returns 0 when the child cannot be traced, and with ThreadSanitizer, which is too slow. */
static inline uint64_t count_instructions(void (*function)(void *user), void *user)
{
	uint64_t all = count_child(function, user), around = count_child(count_nothing, NULL);

	return all > around && around ? all - around : 0;
}

#endif
