#include "capture/engines/range_turns.h"

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
	struct range ranges[RANGE_TURNS_MAX];
	size_t count;
	struct range *current; /* NULL: no measurement is underway */
	uint64_t skip, most;
	atomic_uint_fast64_t refused;
} turns;

void range_turns_set(const struct settings *wanted)
{
	turns.count = 0;
	turns.current = NULL;
	turns.skip = wanted->kernel_skip;
	turns.most = wanted->kernel_count ? wanted->kernel_count : UINT64_MAX;
}

static struct range *find(uint64_t key)
{
	struct range *r = turns.ranges;

	for (; r < turns.ranges + turns.count; r++)
		if (r->key == key)
			return r;
	if (turns.count == RANGE_TURNS_MAX) {
		atomic_fetch_add(&turns.refused, 1);
		return NULL;
	}
	turns.count++;
	*r = (struct range){ .key = key };
	return r;
}

static bool is_candidate(const struct range *r)
{
	return r->seen > turns.skip && r->measured < turns.most;
}

/* Whether another range that still occurs was measured less often. */
static bool has_to_wait(const struct range *r, uint64_t now_ns)
{
	for (const struct range *o = turns.ranges; o < turns.ranges + turns.count; o++)
		if (is_candidate(o) && o->measured < r->measured && now_ns - o->last_ns < ABSENT_NS)
			return true;
	return false;
}

bool range_turns_begin(uint64_t key, bool nests, uint64_t now_ns)
{
	struct range *r = find(key);

	if (turns.current && now_ns - turns.current->last_ns >= ABSENT_NS)
		turns.current = NULL;
	if (!r)
		return false;
	r->seen++;
	r->last_ns = now_ns;
	if (!is_candidate(r) || (nests && r->rests)) {
		r->rests = false;
		return false;
	}
	if (!turns.current && !has_to_wait(r, now_ns))
		turns.current = r;
	return turns.current == r;
}

void range_turns_end(bool measured)
{
	struct range *r = turns.current;

	if (r && measured) {
		r->measured++;
		r->rests = (r->measured & (r->measured - 1)) == 0;
	}
	turns.current = NULL;
}

uint64_t range_turns_refused(void)
{
	return atomic_exchange(&turns.refused, 0);
}
