#include "capture/engines/range_schedule.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/clock.h"

#define ABSENT_NS (5 * NS_PER_S)

struct range {
	uint64_t key, last_ns;
	uint64_t seen, measured;
	bool rests; /* its next occurrence is left out */
};

static struct {
	struct range ranges[RANGE_SCHEDULE_MAX];
	size_t count;
	struct range *current; /* NULL: no measurement is underway */
	uint64_t skip, most;
	atomic_uint_fast64_t refused;
} schedule;

void range_schedule_set(const struct settings *wanted)
{
	schedule.count = 0;
	schedule.current = NULL;
	schedule.skip = wanted->kernel_skip;
	schedule.most = wanted->kernel_count ? wanted->kernel_count : UINT64_MAX;
}

static struct range *find(uint64_t key)
{
	struct range *r = schedule.ranges;

	for (; r < schedule.ranges + schedule.count; r++)
		if (r->key == key)
			return r;
	if (schedule.count == RANGE_SCHEDULE_MAX) {
		atomic_fetch_add(&schedule.refused, 1);
		return NULL;
	}
	schedule.count++;
	*r = (struct range){ .key = key };
	return r;
}

static bool is_candidate(const struct range *r)
{
	return r->seen > schedule.skip && r->measured < schedule.most;
}

/* Whether another range that still occurs was measured less often. */
static bool has_to_wait(const struct range *r, uint64_t now_ns)
{
	for (const struct range *o = schedule.ranges; o < schedule.ranges + schedule.count; o++)
		if (is_candidate(o) && o->measured < r->measured && now_ns - o->last_ns < ABSENT_NS)
			return true;
	return false;
}

bool range_schedule_begin(uint64_t key, bool nests, uint64_t now_ns)
{
	struct range *r = find(key);

	if (schedule.current && now_ns - schedule.current->last_ns >= ABSENT_NS)
		schedule.current = NULL;
	if (!r)
		return false;
	r->seen++;
	r->last_ns = now_ns;
	if (!is_candidate(r) || (nests && r->rests)) {
		r->rests = false;
		return false;
	}
	if (!schedule.current && !has_to_wait(r, now_ns))
		schedule.current = r;
	return schedule.current == r;
}

void range_schedule_end(bool measured)
{
	struct range *r = schedule.current;

	if (r && measured) {
		r->measured++;
		r->rests = (r->measured & (r->measured - 1)) == 0;
	}
	schedule.current = NULL;
}

uint64_t range_schedule_refused(void)
{
	return atomic_exchange(&schedule.refused, 0);
}
