#include "trace/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct parallel_run {
	parallel_work *work;
	void *user;
	size_t count;
	atomic_size_t next;
	atomic_int result;
};

struct parallel_worker {
	struct parallel_run *run;
	unsigned index;
	pthread_t thread;
};

static void *run_items(void *argument)
{
	struct parallel_worker *worker = argument;
	struct parallel_run *run = worker->run;

	while (atomic_load_explicit(&run->result, memory_order_relaxed) == 0) {
		size_t item = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
		int expected = 0, result;

		if (item >= run->count)
			break;
		result = run->work(run->user, worker->index, item);
		if (result < 0)
			atomic_compare_exchange_strong(&run->result, &expected, result);
	}
	return NULL;
}

int parallel_for(unsigned threads, size_t count, parallel_work *work, void *user)
{
	struct parallel_run run = { .work = work, .user = user, .count = count };
	struct parallel_worker workers[PARALLEL_MAX];
	unsigned started = 1;

	threads = MIN(MIN(threads, PARALLEL_MAX), (unsigned)MIN(count, PARALLEL_MAX));
	workers[0] = (struct parallel_worker){ .run = &run, .index = 0 };
	for (; started < threads; started++) {
		struct parallel_worker *worker = &workers[started];

		*worker = (struct parallel_worker){ .run = &run, .index = started };
		if (pthread_create(&worker->thread, NULL, run_items, worker) != 0)
			break;
	}
	run_items(&workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	return atomic_load(&run.result);
}

unsigned parallel_processors(void)
{
	cpu_set_t set;
	int count = 1;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		count = CPU_COUNT(&set);
	return MIN((unsigned)MAX(count, 1), PARALLEL_MAX);
}
