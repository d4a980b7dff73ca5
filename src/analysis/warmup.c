#include "analysis/warmup.h"

#define PIECES_MIN 64u /* with fewer pieces of work there is no result */

static void halve(struct pace *p)
{
	p->count /= 2;
	p->stride *= 2;
	for (size_t i = 0; i < p->count; i++)
		p->starts_ns[i] = p->starts_ns[2 * i];
}

void pace_add(struct pace *p, uint64_t start_ns)
{
	if (!p->stride)
		p->stride = 1;
	if ((p->pieces & (p->stride - 1)) == 0) {
		if (p->count == PACE_POINTS)
			halve(p);
		if ((p->pieces & (p->stride - 1)) == 0)
			p->starts_ns[p->count++] = start_ns;
	}
	p->pieces++;
}

/* Time from the first point to the i-th, excluding pauses. */
static double time_to(const struct pace *p, const struct pace_pause *pauses, size_t count, size_t i)
{
	double ns = (double)(p->starts_ns[i] - p->starts_ns[0]);

	for (size_t k = 0; k < count; k++)
		if (pauses[k].start_ns < p->starts_ns[i])
			ns -= (double)pauses[k].length_ns;
	return ns;
}

struct start_up pace_start_up(const struct pace *p, const struct pace_pause *pauses, size_t count)
{
	size_t last = p->count ? p->count - 1 : 0, half = last / 2, best = 0;
	double whole, step, most = 0;

	if (p->pieces < PIECES_MIN)
		return (struct start_up){ 0 };
	whole = time_to(p, pauses, count, last);
	step = (whole - time_to(p, pauses, count, half)) / (double)(last - half);
	for (size_t i = 1; i <= half; i++) {
		double excess = time_to(p, pauses, count, i) - 2 * step * (double)i;

		if (excess > most) {
			most = excess;
			best = i;
		}
	}
	if (most < PACE_MIN_NS || most < whole / 2)
		return (struct start_up){ 0 };
	return (struct start_up){ .pieces = best * p->stride,
				  .length_ns = (uint64_t)time_to(p, pauses, count, best),
				  .end_ns = p->starts_ns[best] };
}
