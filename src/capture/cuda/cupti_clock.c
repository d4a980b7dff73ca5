#include "capture/cuda/cupti_clock.h"

#include <string.h>

#include "base/clock.h"

#define PAIRS 64u /* more than one second's: older records use the oldest */
#define STEP_NS ((int64_t)NS_PER_MS)

static struct {
	struct {
		uint64_t cupti_ns;
		int64_t offset_ns; /* monotonic - cupti */
	} pairs[PAIRS];
	unsigned count; /* valid ones, oldest first */
	uint64_t steps;
	/*
	 * The last piece used: the interval between two pairs of the latest run, or beyond an end
	 * of the only run. It begins at `from` and is `length` ns long. Most times lie in the same
	 * piece as the time before.
	 */
	struct piece {
		uint64_t from, length;
		int64_t offset_ns; /* at `from` */
		double change_ns, span_ns; /* of the offset over span_ns */
	} piece;
} self;

void cupti_clock_reset(void)
{
	memset(&self, 0, sizeof(self));
}

static bool is_step(int64_t a, int64_t b)
{
	return a - b > STEP_NS || b - a > STEP_NS;
}

void cupti_clock_add(uint64_t cupti_ns, uint64_t monotonic_ns)
{
	int64_t offset = (int64_t)(monotonic_ns - cupti_ns);

	self.piece.length = 0;
	if (self.count && is_step(offset, self.pairs[self.count - 1].offset_ns))
		self.steps++;
	if (self.count == PAIRS)
		memmove(&self.pairs[0], &self.pairs[1], --self.count * sizeof(self.pairs[0]));
	self.pairs[self.count].cupti_ns = cupti_ns;
	self.pairs[self.count++].offset_ns = offset;
}

struct run {
	unsigned first, last; /* pairs */
};

static struct run run_that_ends(unsigned last)
{
	struct run r = { last, last };

	while (r.first &&
	       !is_step(self.pairs[r.first].offset_ns, self.pairs[r.first - 1].offset_ns))
		r.first--;
	return r;
}

/* Returns the distance of a time from the nearest pair of a run; 0: the run reaches it. */
static uint64_t distance_to(const struct run *r, uint64_t t)
{
	uint64_t begin = self.pairs[r->first].cupti_ns, end = self.pairs[r->last].cupti_ns;

	if (t < begin)
		return begin - t;
	return t > end + (uint64_t)STEP_NS ? t - end : 0;
}

/* Returns the run that a time belongs to: the nearest, and of equally near runs the latest. */
static struct run run_of(uint64_t t)
{
	struct run r = run_that_ends(self.count - 1), nearest = r;

	while (r.first && distance_to(&nearest, t)) {
		r = run_that_ends(r.first - 1);
		if (distance_to(&r, t) < distance_to(&nearest, t))
			nearest = r;
	}
	return nearest;
}

/* Returns the piece that t is in. Its length is 0 if it must not be used for other times. */
static struct piece piece_of(uint64_t t)
{
	struct run run = run_of(t);
	struct piece piece = { .span_ns = 1 };
	bool is_only = run.first == 0 && run.last == self.count - 1;
	unsigned hi = run.last + 1;
	uint64_t until = is_only ? UINT64_MAX : self.pairs[run.last].cupti_ns + (uint64_t)STEP_NS;

	for (; hi > run.first && self.pairs[hi - 1].cupti_ns > t; hi--)
		until = MIN(until, self.pairs[hi - 1].cupti_ns);
	if (hi == run.first) {
		piece.from = is_only ? 0 : t;
		piece.offset_ns = self.pairs[run.first].offset_ns;
		piece.length = is_only ? until : 0;
		return piece;
	}
	piece.from = self.pairs[hi - 1].cupti_ns;
	piece.offset_ns = self.pairs[hi - 1].offset_ns;
	if (hi <= run.last) {
		piece.change_ns = (double)(self.pairs[hi].offset_ns - piece.offset_ns);
		piece.span_ns = (double)(self.pairs[hi].cupti_ns - piece.from);
	}
	/* Times in the range of an earlier run may belong to a later one. */
	if (run.last == self.count - 1 && t < until)
		piece.length = until - piece.from;
	return piece;
}

static inline uint64_t convert(uint64_t t)
{
	const struct piece *piece = &self.piece;

	if (t == 0 || self.count == 0)
		return t;
	if (unlikely(t - piece->from >= piece->length))
		self.piece = piece_of(t);
	return t + (uint64_t)piece->offset_ns +
	       (uint64_t)(int64_t)(piece->change_ns * (double)(int64_t)(t - piece->from) /
				   piece->span_ns);
}

uint64_t cupti_clock_convert(uint64_t t)
{
	return convert(t);
}

void cupti_clock_convert_span(uint64_t start, uint64_t end, uint64_t *start_ns, uint64_t *end_ns)
{
	*start_ns = convert(start);
	*end_ns = convert(end);
	if (start && end >= start &&
	    is_step((int64_t)(*end_ns - *start_ns), (int64_t)(end - start)))
		*start_ns = *end_ns - (end - start);
}

uint64_t cupti_clock_last(void)
{
	return self.count ? self.pairs[self.count - 1].cupti_ns : 0;
}

uint64_t cupti_clock_steps(void)
{
	uint64_t n = self.steps;

	self.steps = 0;
	return n;
}
