#include "agent/window_copy.h"

#include <stdio.h>

#include "record/segment_cut.h"

/* In containers, several processes of a machine have one id. */
static unsigned count_of_pid(const struct sources *s, size_t before, uint32_t pid)
{
	unsigned count = 0;

	for (size_t i = 0; i < before; i++)
		count += s->all.data[i]->pid == pid;
	return count;
}

static int copy_source(const struct sources *sources, size_t at,
		       const struct copy_interval *interval, int folder)
{
	struct source *source = sources->all.data[at];
	unsigned others = count_of_pid(sources, at, source->pid);
	uint32_t number = 0;
	int rc = 0;

	for (size_t i = 0; i < source->segments.count && rc >= 0; i++) {
		struct source_segment *s = &source->segments.data[i];
		char name[80], other[24] = "";

		if (s->fd < 0)
			continue;
		(void)!segment_refresh(&s->segment, NULL);
		if (others)
			snprintf(other, sizeof(other), "-%u", others);
		snprintf(name, sizeof(name), "%u%s.%u" SEGMENT_SUFFIX, source->pid, other, number);
		rc = segment_copy_interval(&s->segment, interval, folder, name, number);
		number += rc > 0;
	}
	return rc < 0 ? rc : (int)number;
}

int window_copy(struct sources *sources, window_chooses *chooses, const void *user, int folder)
{
	int rc = 0, count = 0;

	for (size_t i = 0; i < sources->all.count && rc >= 0; i++) {
		struct copy_interval interval;

		if (!chooses(user, sources->all.data[i], &interval.from_ns, &interval.until_ns))
			continue;
		rc = copy_source(sources, i, &interval, folder);
		count += rc > 0 ? rc : 0;
	}
	return rc < 0 ? rc : count;
}
