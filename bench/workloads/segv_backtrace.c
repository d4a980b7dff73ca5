/*
 * A library to preload: prints the stack of a program that a signal kills to standard error, then
 * lets it die as it would have.
 */
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void on_signal(int signal, siginfo_t *info, void *context)
{
	void *frames[64];
	char text[64];
	int length =
		snprintf(text, sizeof(text), "signal %d at address %p\n", signal, info->si_addr);

	(void)context;
	if (write(2, text, (size_t)length) == length)
		backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
	raise(signal);
}

__attribute__((constructor)) static void watch(void)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | (int)SA_RESETHAND };
	void *frame;

	backtrace(&frame, 1); /* loads the library that backtrace() needs */
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGABRT, &action, NULL);
}
