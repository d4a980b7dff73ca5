/*
 * caller.c: replays the first launch of a tape (PITOT_STANDIN_TAPE) on any thread that calls
 * launch(), for programs with their own call stacks, such as an interpreter.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "base/clock.h"
#include "standin_cupti.h"

extern const struct standin_player standin_player;

static struct {
	size_t index;
	struct tape_event enter, exit;
	atomic_uint launches;
} self;

static bool is_launch(size_t index, unsigned site, struct tape_event *event)
{
	const struct tape_record *r = &standin_tape()->records.data[index];
	const char *function;

	if (r->type != TAPE_CALLBACK || !tape_get_event(r, event) ||
	    event->domain != CUPTI_CB_DOMAIN_DRIVER_API || event->site != site)
		return false;
	function = tape_text_of(standin_tape(), event->function);
	return function && strcmp(function, "cuLaunchKernel") == 0;
}

static void find_launch(void)
{
	size_t i = 0;

	if (cuInit(0) != CUDA_SUCCESS)
		abort(); /* there is no tape */
	while (!is_launch(i, CUPTI_API_ENTER, &self.enter))
		i++;
	self.index = i;
	while (!is_launch(i, CUPTI_API_EXIT, &self.exit))
		i++;
}

EXPORT void launch(void);
EXPORT void launch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct place place = { .first = true };

	pthread_once(&once, find_launch);
	place.index = self.index;
	place.time_shift = clock_monotonic_ns() - standin_tape()->records.data[self.index].time;
	place.id_shift = atomic_fetch_add(&self.launches, 1);
	standin_at(&place);
	standin_player.event(&self.enter);
	standin_player.event(&self.exit);
}
