#include "rules/launch_list.h"

#include <string.h>

#define DROPPED_MIN 4096u /* fewer are not worth a move of the array */

const struct launch *launch_list_oldest(const struct launch_list *l)
{
	return l->first < l->all.count ? &l->all.data[l->first] : NULL;
}

size_t launch_list_count(const struct launch_list *l)
{
	return l->place_of.count;
}

static void drop_done(struct launch_list *l, uint64_t time_ns)
{
	size_t first = l->first;

	while (l->first < l->all.count && l->all.data[l->first].is_done)
		l->first++;
	if (l->first != first)
		l->front_ns = MAX(l->front_ns, time_ns);
	if (l->first < DROPPED_MIN || l->first * 2 < l->all.count)
		return;
	l->all.count -= l->first;
	memmove(l->all.data, l->all.data + l->first, l->all.count * sizeof(l->all.data[0]));
	l->dropped += l->first;
	l->first = 0;
}

void launch_list_forget(struct launch_list *l)
{
	l->dropped += l->all.count;
	l->all.count = l->first = 0;
	map_clear(&l->place_of);
}

void launch_list_add(struct launch_list *l, uint64_t correlation, uint64_t time_ns)
{
	struct launch launch = { correlation, time_ns, false };

	if (l->all.count - l->first >= LAUNCHES_MAX)
		launch_list_forget(l);
	if (map_put(&l->place_of, correlation, l->dropped + l->all.count) == 0 &&
	    vec_push(&l->all, launch) < 0)
		(void)!map_remove(&l->place_of, correlation, &(uint64_t){ 0 });
}

void launch_list_end(struct launch_list *l, uint64_t correlation, uint64_t time_ns)
{
	uint64_t place;

	if (map_remove(&l->place_of, correlation, &place) && place >= l->dropped + l->first)
		l->all.data[place - l->dropped].is_done = true;
	drop_done(l, time_ns);
}

void launch_list_release(struct launch_list *l)
{
	vec_release(&l->all);
	map_release(&l->place_of);
}
