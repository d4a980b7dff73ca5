#include "base/quick_clock.h"

#include <fcntl.h>
#include <string.h>

#define OFTEN_NS (30 * NS_PER_US)
#define SAME_TICKS 1024u /* largest distance of two counter readings around one of the clock */
#define WRONG_NS 500
#define MEASURE_NS (20 * NS_PER_MS)
#define TRIES 8
#define SLOWER 4096 /* the rate is lowered by this part, to stay behind the clock */

atomic_uint_fast64_t quick_clock_rate;

/* Reads clock and counter together. Returns false when the thread was interrupted in between. */
static bool read_both(struct quick_clock *c)
{
	uint64_t before = arch_ticks();

	c->ns = clock_monotonic_ns();
	c->ticks = arch_ticks();
	return c->ticks - before < SAME_TICKS;
}

/* The spans are at most OFTEN_NS, so their product with the rate fits 64 bits. */
static bool is_right(const struct quick_clock *from, const struct quick_clock *to, uint64_t rate)
{
	int64_t wrong = (int64_t)(to->ns - from->ns - ((to->ticks - from->ticks) * rate >> 32));

	return wrong < WRONG_NS && wrong > -WRONG_NS;
}

uint64_t quick_clock_read(struct quick_clock *c)
{
	uint64_t rate = atomic_load_explicit(&quick_clock_rate, memory_order_relaxed);
	struct quick_clock now = { .ns = clock_monotonic_ns() };

	if (rate && now.ns - c->ns < OFTEN_NS) {
		if (!read_both(&now))
			now.ticks = 0;
		else if (c->ticks && now.ns - c->ns < OFTEN_NS && !is_right(c, &now, rate))
			atomic_store(&quick_clock_rate, 0);
	}
	*c = now;
	return now.ns;
}

/* Whether the machine's clock is made from the counter: only then do all processors agree on it. */
static bool is_clock_of_machine(void)
{
	static const char source[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	_cleanup_close_ int fd = open(source, O_RDONLY | O_CLOEXEC);
	char text[sizeof(ARCH_CLOCK_SOURCE)];
	ssize_t size = sizeof(text) - 1;

	return size && fd >= 0 && read(fd, text, (size_t)size) == size &&
	       memcmp(text, ARCH_CLOCK_SOURCE, (size_t)size) == 0;
}

void quick_clock_calibrate(void)
{
	static enum { UNKNOWN, USABLE, USELESS } usable;
	static struct quick_clock first;
	struct quick_clock now;
	int tries = 0;

	if (usable == UNKNOWN)
		usable = is_clock_of_machine() ? USABLE : USELESS;
	if (usable == USELESS || atomic_load(&quick_clock_rate) || clock_is_replaced())
		return;
	while (!read_both(&now))
		if (++tries == TRIES)
			return;
	if (!first.ns || now.ticks <= first.ticks || now.ns - first.ns > NS_PER_S) {
		first = now;
	} else if (now.ns - first.ns >= MEASURE_NS) {
		double rate = (double)(now.ns - first.ns) / (double)(now.ticks - first.ticks);

		atomic_store(&quick_clock_rate, (uint64_t)(rate * 0x1p32 * (SLOWER - 1) / SLOWER));
		first.ns = 0;
	}
}
