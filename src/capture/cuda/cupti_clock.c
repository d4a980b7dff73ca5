#include "capture/cuda/cupti_clock.h"

#include <string.h>

#include "base/clock.h"
#include "capture/cuda/vendor.h"

#define PAIRS 64u /* more than a second of them: older records use the oldest */
#define STEP_NS ((int64_t)NS_PER_MS)

static struct {
	struct {
		uint64_t cupti_ns;
		int64_t offset_ns; /* monotonic - cupti */
	} pairs[PAIRS];
	unsigned count; /* valid ones, oldest first */
	uint64_t steps;
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

	if (self.count && is_step(offset, self.pairs[self.count - 1].offset_ns))
		self.steps++;
	if (self.count == PAIRS) {
		memmove(&self.pairs[0], &self.pairs[1], (PAIRS - 1) * sizeof(self.pairs[0]));
		self.count--;
	}
	self.pairs[self.count].cupti_ns = cupti_ns;
	self.pairs[self.count++].offset_ns = offset;
}

bool cupti_clock_read(const struct cupti *cupti)
{
	uint64_t best_width = UINT64_MAX, best_cupti = 0, best_monotonic = 0;

	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_monotonic_ns(), now = 0, after;

		if (cupti->GetTimestamp(&now) != CUPTI_SUCCESS || now == 0)
			return false;
		after = clock_monotonic_ns();
		if (after - before < best_width) {
			best_width = after - before;
			best_cupti = now;
			best_monotonic = before + best_width / 2;
		}
	}
	cupti_clock_add(best_cupti, best_monotonic);
	return true;
}

uint64_t cupti_clock_convert(uint64_t t)
{
	unsigned hi = self.count;
	int64_t a, b;
	uint64_t span;

	if (t == 0 || self.count == 0)
		return t;
	while (hi > 0 && self.pairs[hi - 1].cupti_ns > t)
		hi--;
	if (hi == 0)
		return t + (uint64_t)self.pairs[0].offset_ns;
	if (hi == self.count)
		return t + (uint64_t)self.pairs[self.count - 1].offset_ns;
	a = self.pairs[hi - 1].offset_ns;
	b = self.pairs[hi].offset_ns;
	span = self.pairs[hi].cupti_ns - self.pairs[hi - 1].cupti_ns;
	if (a == b || span == 0)
		return t + (uint64_t)b;
	if (is_step(a, b))
		return t + (uint64_t)(t - self.pairs[hi - 1].cupti_ns < span / 2 ? a : b);
	return t +
	       (uint64_t)(a + (int64_t)((double)(b - a) *
					(double)(t - self.pairs[hi - 1].cupti_ns) / (double)span));
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
