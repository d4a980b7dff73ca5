#include "capture/cuda/client/client_clock.h"

#include <string.h>

#include "base/clock.h"

/* Two clocks of nanoseconds differ by less, and no counter of cycles comes so close to them. */
#define SAME_RATE 0.001
#define STEP_NS ((double)NS_PER_MS)

/* Signed, because the clocks' origins are arbitrary: only differences are meaningful. */
static double ticks(uint64_t from, uint64_t to)
{
	return (double)(int64_t)(to - from);
}

static double rate_of(const struct client_clock *c)
{
	double rate = c->rate != 0 ? c->rate : 1;

	return rate > 1 - SAME_RATE && rate < 1 + SAME_RATE ? 1 : rate;
}

static uint64_t interpolate(const struct client_clock *c, uint64_t time)
{
	double rate = rate_of(c);
	unsigned i = c->count - 1;

	while (i > 0 && c->pairs[i].cupti > time)
		i--;
	if (i + 1 < c->count && time >= c->pairs[i].cupti)
		rate = ticks(c->pairs[i].client, c->pairs[i + 1].client) /
		       ticks(c->pairs[i].cupti, c->pairs[i + 1].cupti);
	return c->pairs[i].client + (uint64_t)(int64_t)(ticks(c->pairs[i].cupti, time) * rate);
}

static bool is_step(const struct client_clock *c, uint64_t cupti, uint64_t client)
{
	double off = ticks(interpolate(c, cupti), client), allowed = STEP_NS * rate_of(c);

	/* The rate of two pairs that lie close together is as inaccurate as they are. */
	allowed += ticks(c->pairs[c->count - 1].cupti, cupti) * rate_of(c) / 100;
	return c->rate != 0 && (off > allowed || off < -allowed);
}

void client_clock_add(struct client_clock *c, uint64_t cupti, uint64_t client)
{
	double later = c->count ? ticks(c->pairs[c->count - 1].cupti, cupti) : 1;

	if (!cupti || (later <= 0 && later > -STEP_NS))
		return;
	if (c->count && (later <= 0 || is_step(c, cupti, client)))
		c->count = 0;
	if (c->count == CLIENT_CLOCK_PAIRS) /* keep the first one: the rate counts from there */
		memmove(&c->pairs[1], &c->pairs[2], (--c->count - 1) * sizeof(c->pairs[0]));
	c->pairs[c->count].cupti = cupti;
	c->pairs[c->count++].client = client;
	if (c->count > 1)
		c->rate = ticks(c->pairs[0].client, client) / ticks(c->pairs[0].cupti, cupti);
}

uint64_t client_clock_convert(const struct client_clock *c, uint64_t first, uint64_t time)
{
	double rate = rate_of(c);
	uint64_t at = interpolate(c, first);

	if (rate == 1)
		return at + (time - first);
	return at + (uint64_t)(int64_t)(ticks(first, time) * rate);
}
