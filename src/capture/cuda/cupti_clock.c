#include "capture/cuda/cupti_clock.h"

#include <string.h>

#include "base/clock.h"

#define PAIRS 64u /* more than a second of them: older records use the oldest */
#define STEP_NS ((int64_t)NS_PER_MS)

static struct {
	struct {
		uint64_t cupti_ns;
		int64_t offset_ns; /* monotonic - cupti */
	} pairs[PAIRS];
	unsigned count; /* valid ones, oldest first */
	unsigned run; /* the first one of the latest run without a step */
	uint64_t steps;
	/*
	 * Between two pairs of the latest run: times from `from` on, `length` ns long. Most times are in the one that the time before
	 * was in.
	 */
	struct piece {
		uint64_t from, length;
		int64_t offset_ns, change_ns; /* at `from`, and over span_ns */
		uint64_t span_ns;
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
	if (self.count && is_step(offset, self.pairs[self.count - 1].offset_ns)) {
		self.steps++;
		self.run = self.count;
	}
	if (self.count == PAIRS) {
		memmove(&self.pairs[0], &self.pairs[1], (PAIRS - 1) * sizeof(self.pairs[0]));
		self.count--;
		self.run -= self.run > 0;
	}
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

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* The run that a time belongs to. One that no run reaches belongs to the run that ends nearest before it. */
static struct run run_of(uint64_t t)
{
	struct run r = { self.run, self.count - 1 }, nearest = r;

	for (;;) {
		uint64_t begin = self.pairs[r.first].cupti_ns, end = self.pairs[r.last].cupti_ns;
		struct run before;

		if (t >= begin && t <= end + (uint64_t)STEP_NS)
			return r;
		if (t > end && t - end < distance(t, self.pairs[nearest.last].cupti_ns))
			nearest = r;
		if (!r.first)
			return t < begin ? r : nearest;
		before = run_that_ends(r.first - 1);
		end = self.pairs[before.last].cupti_ns;
		if (t < begin && distance(t, end) >= begin - t)
			return r;
		if (t < begin && t >= end)
			return before;
		r = before;
	}
}

/* The piece that t is in. Without length where it says nothing of other times. */
static struct piece piece_of(uint64_t t)
{
	struct run run = run_of(t);
	struct piece piece = { .span_ns = 1 };
	unsigned hi = run.last + 1;
	uint64_t until = self.pairs[run.last].cupti_ns + (uint64_t)STEP_NS;

	for (; hi > run.first && self.pairs[hi - 1].cupti_ns > t; hi--)
		until = MIN(until, self.pairs[hi - 1].cupti_ns);
	if (hi == run.first) {
		piece.from = t;
		piece.offset_ns = self.pairs[run.first].offset_ns;
		return piece;
	}
	piece.from = self.pairs[hi - 1].cupti_ns;
	piece.offset_ns = self.pairs[hi - 1].offset_ns;
	if (hi <= run.last) {
		piece.change_ns = self.pairs[hi].offset_ns - piece.offset_ns;
		piece.span_ns = self.pairs[hi].cupti_ns - piece.from;
	}
	/* Times of earlier runs may be those of later ones, too. */
	if (run.last == self.count - 1 && t < until)
		piece.length = until - piece.from;
	return piece;
}

uint64_t cupti_clock_convert(uint64_t t)
{
	struct piece piece;
	uint64_t at;

	if (t == 0 || self.count == 0)
		return t;
	if (t - self.piece.from >= self.piece.length)
		self.piece = piece_of(t);
	piece = self.piece;
	at = t - piece.from;
	return t + (uint64_t)piece.offset_ns +
	       (uint64_t)(int64_t)((double)piece.change_ns * (double)at / (double)piece.span_ns);
}

void cupti_clock_convert_span(uint64_t start, uint64_t end, uint64_t *start_ns, uint64_t *end_ns)
{
	*start_ns = cupti_clock_convert(start);
	*end_ns = cupti_clock_convert(end);
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
