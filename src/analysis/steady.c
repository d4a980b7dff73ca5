#include "analysis/steady.h"

#include <string.h>

#define PAUSE_MIN_NS 100000000

/* Number of the longest gaps that are pauses. */
static size_t count_pauses(const struct gpu_idle *g, uint64_t span_ns)
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

static void exclude_pauses(const struct gpu_idle *g, struct steady *s)
{
	s->pauses = count_pauses(g, s->span_ns);
	for (size_t i = 0; i < s->pauses; i++) {
		s->pause[i] = (struct pace_pause){ g->longest[i].start_ns, g->longest[i].own_ns };
		s->pause_ns += g->longest[i].own_ns;
		for (int part = 0; part < IDLE_PART_MEASURING; part++)
			s->part_ns[part] -= g->longest[i].part_ns[part];
	}
	s->span_ns -= s->pause_ns;
}

void steady_find(const struct gpu_busy *b, const struct gpu_idle *g, struct steady *out)
{
	*out = (struct steady){ .span_ns = b->last_ns - b->first_ns -
					   g->part_ns[IDLE_PART_MEASURING] };
	memcpy(out->part_ns, g->part_ns, sizeof(out->part_ns));
	exclude_pauses(g, out);
	/* Measuring changes the pace: with more than a twentieth of the time, it is unknown. */
	if (out->part_ns[IDLE_PART_MEASURING] > out->span_ns / 20)
		return;
	out->pieces = g->pace.pieces;
	out->start_up = pace_start_up(&g->pace, out->pause, out->pauses);
}
