/*
 * launch_list.h: the launches of a process whose work has not ended, in the order of time.
 */
#ifndef PITOT_RULES_LAUNCH_LIST_H
#define PITOT_RULES_LAUNCH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"

#define LAUNCHES_MAX ((size_t)1 << 20) /* outstanding ones; beyond it all are forgotten */

struct launch {
	uint64_t correlation, time_ns;
	bool is_done;
};

/* All zeros: empty. */
struct launch_list {
	VEC(struct launch) all; /* those from `first` on that are not done are outstanding */
	size_t first;
	uint64_t dropped; /* launches that were at the front of the array */
	struct map place_of; /* correlation id -> index + dropped */
	/* since when all work that was launched before the oldest outstanding launch has ended */
	uint64_t front_ns;
};

/* The oldest outstanding launch, or NULL. */
const struct launch *launch_list_oldest(const struct launch_list *l);
/* Number of outstanding launches. */
size_t launch_list_count(const struct launch_list *l);
/* Without memory the launch is not outstanding. */
void launch_list_add(struct launch_list *l, uint64_t correlation, uint64_t time_ns);
/* States that its work ended at that time. */
void launch_list_end(struct launch_list *l, uint64_t correlation, uint64_t time_ns);
void launch_list_forget(struct launch_list *l);
void launch_list_release(struct launch_list *l);

#endif
