#include "capture/engines/launch_marks.h"

#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "capture/cuda/correlation.h"

#define MARKS_MAX 8192u /* of each kind: about a second of launches that are measured */

struct marks {
	struct map times; /* by correlation id */
	uint32_t newest[MARKS_MAX]; /* ids, taken ones too; a ring */
	size_t added;
};

static struct {
	pthread_mutex_t lock; /* held briefly */
	struct marks of[LAUNCH_MARKS];
} marks = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool launch_marks_add(enum launch_mark kind, uint32_t correlation, uint64_t time_ns)
{
	struct marks *m = &marks.of[kind];
	uint32_t *oldest;
	uint64_t any;
	bool added;

	pthread_mutex_lock(&marks.lock);
	oldest = &m->newest[m->added % MARKS_MAX];
	if (m->added >= MARKS_MAX)
		map_remove(&m->times, *oldest, &any);
	added = map_put(&m->times, correlation, time_ns) == 0;
	if (added) {
		*oldest = correlation;
		m->added++;
	}
	pthread_mutex_unlock(&marks.lock);
	return added;
}

bool launch_marks_take(enum launch_mark kind, uint32_t correlation, uint64_t began_ns,
		       uint64_t *time_ns)
{
	bool found;

	pthread_mutex_lock(&marks.lock);
	found = map_remove(&marks.of[kind].times, correlation, time_ns);
	pthread_mutex_unlock(&marks.lock);
	return found &&
	       correlation_widen(correlation, *time_ns) == correlation_widen(correlation, began_ns);
}

void launch_marks_clear(void)
{
	pthread_mutex_lock(&marks.lock);
	for (size_t i = 0; i < LAUNCH_MARKS; i++)
		map_clear(&marks.of[i].times);
	pthread_mutex_unlock(&marks.lock);
}

/* Another thread may have been changing the maps, so the child leaks them. */
void launch_marks_after_fork(void)
{
	memset(&marks, 0, sizeof(marks));
	pthread_mutex_init(&marks.lock, NULL);
}
