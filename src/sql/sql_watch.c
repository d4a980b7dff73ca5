#include "sql/sql_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "sql/duckdb/duck_engine.h"

#define WATCH_NS (20 * NS_PER_MS)
#define GRACE_NS NS_PER_S /* that a call has to end in, once it has to stop */
#define BESIDE_BYTES (UINT64_C(512) << 20) /* for what --memory-limit does not mean */

struct sql_watch {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started, ending;
	unsigned statements; /* that are prepared */
	_Atomic uint64_t base_bytes; /* of this process, without those of statements */
};

/* Memory of this process that no file has; 0: unknown. */
static uint64_t own_bytes(void)
{
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	unsigned long long resident, shared;
	char text[128] = "", *at = text;
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	strtoull(at, &at, 10);
	resident = strtoull(at, &at, 10);
	shared = strtoull(at, NULL, 10);
	return resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Only SQLite counts all of its memory. */
static bool is_large(const struct sql *s)
{
	uint64_t limit = s->options.memory_bytes, own, excluded;

	if (!s->duck || !limit)
		return false;
	own = own_bytes();
	if (s->loading)
		s->watch->base_bytes = MAX(s->watch->base_bytes, own);
	excluded = s->watch->base_bytes + BESIDE_BYTES;
	return own > excluded && own - excluded > limit;
}

struct overdue {
	uint64_t call, since_ns;
};

/* Ends a call that has to stop, with the program if it must be. */
static void stop_call(struct sql *s, struct overdue *o)
{
	uint64_t call = s->calls, now_ns = clock_monotonic_ns();
	struct error why = { 0 };

	if (call % 2 == 0)
		return;
	if (is_large(s))
		s->large = true;
	if (!sql_stopped(s))
		return;
	if (s->duck)
		duck_interrupt(s->duck);
	if (o->call != call || s->loading)
		*o = (struct overdue){ call, now_ns };
	if (s->options.runaway && now_ns - o->since_ns > (s->large ? GRACE_NS / 10 : GRACE_NS) &&
	    s->calls == call) {
		sql_stop_error(s, &why);
		s->options.runaway(s->options.user, &why);
	}
}

static void *watch(void *user)
{
	struct sql *s = user;
	struct sql_watch *w = s->watch;
	struct overdue overdue = { 0 };
	struct timespec until;
	uint64_t until_ns;

	pthread_mutex_lock(&w->lock);
	while (!w->ending) {
		if (!w->statements) {
			pthread_cond_wait(&w->changed, &w->lock);
			continue;
		}
		stop_call(s, &overdue);
		until_ns = clock_monotonic_ns() + WATCH_NS;
		until = (struct timespec){ (time_t)(until_ns / NS_PER_S),
					   (long)(until_ns % NS_PER_S) };
		pthread_cond_timedwait(&w->changed, &w->lock, &until);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

int sql_watch_start(struct sql *s, struct error *e)
{
	struct sql_watch *w;
	pthread_condattr_t clock;
	sigset_t all, before;
	int rc;

	if (!s->options.runaway && s->options.engine != SQL_DUCKDB)
		return 0;
	s->watch = w = calloc(1, sizeof(*w));
	if (!w)
		return error_set(e, -ENOMEM, "out of memory");
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &clock);
	pthread_condattr_destroy(&clock);
	/* Signals are for the thread that asks. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, watch, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	w->started = rc == 0;
	return rc ? error_set(e, -rc, "cannot start a thread: %s", error_code_text(-rc)) : 0;
}

void sql_watch_stop(struct sql *s)
{
	struct sql_watch *w = s->watch;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
	if (w->started)
		pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
	s->watch = NULL;
}

static void count_statements(struct sql *s, int more)
{
	struct sql_watch *w = s->watch;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->statements += (unsigned)more;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void sql_watch_begin(struct sql *s)
{
	if (s->duck)
		s->watch->base_bytes = own_bytes();
	count_statements(s, 1);
}

void sql_watch_end(struct sql *s)
{
	count_statements(s, -1);
}
