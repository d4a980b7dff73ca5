#include "capture/amd/amd_boottime.h"

#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

#define SUSPENDS_MAX 8u /* that are remembered for records that come late */
#define NOISE_NS NS_PER_MS /* of two readings; a suspend takes longer */

/* The latest last; each holds from `since_ns` on, in CLOCK_BOOTTIME. */
static struct {
	uint64_t since_ns, offset_ns;
} offsets[SUSPENDS_MAX];
static unsigned count;

void amd_boottime_add(uint64_t monotonic_ns, uint64_t boottime_ns)
{
	uint64_t offset = boottime_ns - monotonic_ns;

	if (count && offset - offsets[count - 1].offset_ns + NOISE_NS < 2 * NOISE_NS)
		return;
	if (count == SUSPENDS_MAX)
		memmove(offsets, offsets + 1, --count * sizeof(*offsets));
	offsets[count].since_ns = count ? boottime_ns : 0;
	offsets[count++].offset_ns = offset;
}

void amd_boottime_read(void)
{
	uint64_t monotonic = clock_monotonic_ns();

	amd_boottime_add(monotonic, clock_read_ns(CLOCK_BOOTTIME));
}

uint64_t amd_boottime_convert(uint64_t boottime_ns)
{
	unsigned i = count;

	while (i > 1 && boottime_ns < offsets[i - 1].since_ns)
		i--;
	return i ? boottime_ns - MIN(boottime_ns, offsets[i - 1].offset_ns) : 0;
}
