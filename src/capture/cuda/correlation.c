#include "capture/cuda/correlation.h"

#include "base/clock.h"
#include "capture/core/shared_area.h"

#define HALVES 64u /* that are remembered: 17 days of eager training */
#define LATE_IDS (1u << 24)
#define SLACK_NS NS_PER_S

atomic_uint correlation_half = CORRELATION_NONE;

static atomic_uint_fast64_t entered_ns[HALVES]; /* when calls entered each half, by its number */

void correlation_cross(uint32_t id, uint64_t now_ns)
{
	unsigned half = atomic_load(&correlation_half), next = half + 1;

	if (half == CORRELATION_NONE)
		next = id >> 31;
	else if (!id || (half & 1) == id >> 31 || (id | 1u << 31) > UINT32_MAX - LATE_IDS)
		return;
	atomic_store(&entered_ns[next % HALVES], now_ns);
	atomic_compare_exchange_strong(&correlation_half, &half, next);
	atomic_store(&shared_area_head->correlation_half, atomic_load(&correlation_half));
}

static uint64_t entered(unsigned h)
{
	return atomic_load_explicit(&entered_ns[h % HALVES], memory_order_relaxed);
}

uint64_t correlation_widen(uint32_t id, uint64_t time_ns)
{
	unsigned latest = atomic_load(&correlation_half), h = latest;

	if (likely((latest | id >> 31) == 0) || id == 0 || latest == CORRELATION_NONE)
		return id;
	while (h > 0 && latest - h < HALVES - 1 && entered(h) > time_ns)
		h--;
	if ((h & 1) != id >> 31) {
		uint64_t since = time_ns - MIN(time_ns, entered(h));

		if (h == 0 || (h < latest && entered(h + 1) - time_ns < MIN(SLACK_NS, since / 8)))
			h++;
		else
			h--;
	}
	return (uint64_t)(h / 2) << 32 | id;
}

void correlation_reset(void)
{
	atomic_store(&correlation_half, CORRELATION_NONE);
}
