#include "analysis/steady.h"

#define PAUSE_MIN_NS 100000000

/* Number of the longest gaps that are pauses. */
static size_t count_pauses(const struct work_gaps *g, uint64_t span_ns)
{
	for (size_t i = 0; i < IDLE_LONGEST - 1; i++) {
		uint64_t length = g->longest[i].own_ns;

		if (length < PAUSE_MIN_NS || length < span_ns / 5)
			return 0;
		if (length / 3 >= g->longest[i + 1].own_ns)
			return i + 1;
		span_ns -= length;
	}
	return 0;
}

void steady_find(const struct work_gaps *g, uint64_t span_ns, uint64_t measuring_ns,
		 struct steady *out)
{
	*out = (struct steady){ .pauses = count_pauses(g, span_ns) };
	for (size_t i = 0; i < out->pauses; i++) {
		out->pause[i] = (struct pace_pause){ g->longest[i].start_ns, g->longest[i].own_ns };
		out->pause_ns += g->longest[i].own_ns;
	}
	/* Measuring changes the pace: with more than a twentieth of the time, it is unknown. */
	if (measuring_ns > (span_ns - out->pause_ns) / 20)
		return;
	out->pieces = g->pace.pieces;
	out->start_up = pace_start_up(&g->pace, out->pause, out->pauses);
}

void steady_find_gpu(const struct gpu_busy *b, const struct gpu_idle *g, struct steady *out)
{
	uint64_t measuring_ns = g->cause_ns[IDLE_MEASURING];

	steady_find(&g->between, b->last_ns - b->first_ns - measuring_ns, measuring_ns, out);
}
