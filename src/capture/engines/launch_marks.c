#include "capture/engines/launch_marks.h"

#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "capture/cuda/correlation.h"

#define MARKS_MAX ((size_t)1 << 14) /* of each kind */

static struct {
	pthread_mutex_t lock; /* held briefly */
	struct map maps[LAUNCH_MARKS];
} marks = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool launch_marks_add(enum launch_mark kind, uint32_t correlation, uint64_t time_ns)
{
	struct map *map = &marks.maps[kind];
	bool added;

	pthread_mutex_lock(&marks.lock);
	added = map->count < MARKS_MAX && map_put(map, correlation, time_ns) == 0;
	pthread_mutex_unlock(&marks.lock);
	return added;
}

bool launch_marks_take(enum launch_mark kind, uint32_t correlation, uint64_t began_ns,
		       uint64_t *time_ns)
{
	bool found;

	pthread_mutex_lock(&marks.lock);
	found = map_remove(&marks.maps[kind], correlation, time_ns);
	pthread_mutex_unlock(&marks.lock);
	return found &&
	       correlation_widen(correlation, *time_ns) == correlation_widen(correlation, began_ns);
}

void launch_marks_clear(void)
{
	pthread_mutex_lock(&marks.lock);
	for (size_t i = 0; i < LAUNCH_MARKS; i++)
		map_clear(&marks.maps[i]);
	pthread_mutex_unlock(&marks.lock);
}

/* Another thread may have been changing the maps, so the child leaks them. */
void launch_marks_after_fork(void)
{
	memset(&marks, 0, sizeof(marks));
	pthread_mutex_init(&marks.lock, NULL);
}
