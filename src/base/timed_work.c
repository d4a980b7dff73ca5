#include "base/timed_work.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/helper_thread.h"

#define STACK_BYTES ((size_t)1 << 20)

struct timed_work {
	void (*run)(void *context), (*release)(void *context);
	void *context;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool has_returned, is_left;
};

static void free_work(struct timed_work *w)
{
	w->release(w->context);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->mutex);
	free(w);
}

static void *run_work(void *started)
{
	struct timed_work *w = started;
	bool is_left;

	w->run(w->context);
	pthread_mutex_lock(&w->mutex);
	w->has_returned = true;
	is_left = w->is_left;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->mutex);
	if (is_left)
		free_work(w);
	return NULL;
}

struct timed_work *timed_work_start(void (*run)(void *context), void (*release)(void *context),
				    void *context)
{
	struct timed_work *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct timed_work){ .run = run,
				  .release = release,
				  .context = context,
				  .mutex = PTHREAD_MUTEX_INITIALIZER,
				  .changed = PTHREAD_COND_INITIALIZER };
	if (helper_thread_start(run_work, w, STACK_BYTES) == 0)
		return w;
	free(w);
	return NULL;
}

bool timed_work_await(struct timed_work *w, uint64_t end_ns)
{
	const struct timespec end = { (time_t)(end_ns / NS_PER_S), (long)(end_ns % NS_PER_S) };
	bool has_returned;
	int rc = 0;

	pthread_mutex_lock(&w->mutex);
	while (!w->has_returned && rc != ETIMEDOUT)
		rc = pthread_cond_clockwait(&w->changed, &w->mutex, CLOCK_MONOTONIC, &end);
	has_returned = w->has_returned;
	pthread_mutex_unlock(&w->mutex);
	return has_returned;
}

void *timed_work_context(const struct timed_work *w)
{
	return w->context;
}

void timed_work_leave(struct timed_work *w)
{
	bool has_returned;

	if (!w)
		return;
	pthread_mutex_lock(&w->mutex);
	has_returned = w->has_returned;
	w->is_left = true;
	pthread_mutex_unlock(&w->mutex);
	if (has_returned)
		free_work(w);
}
