#include "capture/engines/launch_times.h"

#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "capture/cuda/correlation.h"

#define TIMES_MAX 8192u /* of each kind: about a second of launches that are measured */

struct launch_time_map {
	struct map times; /* by correlation id */
	uint32_t newest[TIMES_MAX]; /* ids, taken ones too; a ring */
	size_t added;
};

static struct {
	pthread_mutex_t lock; /* held briefly */
	struct launch_time_map of[LAUNCH_TIMES];
} self = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool launch_times_add(enum launch_time kind, uint32_t correlation, uint64_t time_ns)
{
	struct launch_time_map *m = &self.of[kind];
	uint32_t *oldest;
	uint64_t any;
	bool added;

	pthread_mutex_lock(&self.lock);
	oldest = &m->newest[m->added % TIMES_MAX];
	if (m->added >= TIMES_MAX)
		map_remove(&m->times, *oldest, &any);
	added = map_put(&m->times, correlation, time_ns) == 0;
	if (added) {
		*oldest = correlation;
		m->added++;
	}
	pthread_mutex_unlock(&self.lock);
	return added;
}

bool launch_times_take(enum launch_time kind, uint32_t correlation, uint64_t began_ns,
		       uint64_t *time_ns)
{
	bool found;

	pthread_mutex_lock(&self.lock);
	found = map_remove(&self.of[kind].times, correlation, time_ns);
	pthread_mutex_unlock(&self.lock);
	return found &&
	       correlation_widen(correlation, *time_ns) == correlation_widen(correlation, began_ns);
}

void launch_times_clear(void)
{
	pthread_mutex_lock(&self.lock);
	for (size_t i = 0; i < LAUNCH_TIMES; i++)
		map_clear(&self.of[i].times);
	pthread_mutex_unlock(&self.lock);
}

/* Another thread may have been changing the maps, so the child leaks them. */
void launch_times_after_fork(void)
{
	memset(&self, 0, sizeof(self));
	pthread_mutex_init(&self.lock, NULL);
}
