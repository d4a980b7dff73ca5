#include "capture/process_exit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "capture/collector.h"
#include "capture/session.h"

/* Less than people notice after Ctrl-C. The interrupted thread may hold a lock that the collector needs. */
#define SIGNAL_LIMIT_NS (300 * NS_PER_MS)

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

static void on_signal(int number)
{
	int saved = errno;
	struct sigaction act = { .sa_handler = SIG_DFL };
	sigset_t set;

	if (collector_running())
		collector_stop(SIGNAL_LIMIT_NS);
	sigaction(number, &act, NULL);
	raise(number);
	sigemptyset(&set);
	sigaddset(&set, number);
	errno = saved;
	pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* dies here */
}

static void install_signals(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction act;

		if (sigaction(signals[i], NULL, &act) == 0 && !(act.sa_flags & SA_SIGINFO) &&
		    act.sa_handler == SIG_DFL) {
			act = (struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_RESTART };
			sigaction(signals[i], &act, NULL);
		}
	}
}

void leave_watch_fork(void)
{
	static bool done;

	if (!done)
		pthread_atfork(NULL, NULL, session_after_fork);
	done = true;
}

void leave_install(void)
{
	static bool done;

	atexit(session_stop);
	at_quick_exit(session_stop);
	leave_watch_fork();
	if (!done)
		install_signals();
	done = true;
}
