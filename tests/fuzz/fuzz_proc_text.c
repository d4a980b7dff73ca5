/* layer: system */
/* The first byte chooses a file of /proc, the rest is its text. */
#include "fuzz.h"

#include <stdlib.h>

#include "system/proc_text.h"

static void emit(void *user, uint32_t id, int64_t value)
{
	unsigned *counts = user;

	/* Each once, none negative, all known. */
	if (!metric_find(id) || counts[id]++ || value < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static proc_parser *const parsers[] = {
		proc_parse_stat,         proc_parse_meminfo,
		proc_parse_cpu_pressure, proc_parse_memory_pressure,
		proc_parse_io_pressure,  proc_parse_diskstats,
		proc_parse_network,      proc_parse_statm,
		proc_parse_io,
	};
	const struct proc_units units = {
		.ticks_per_s = 100, .page_bytes = 4096, .disks = "vda", .disks_length = 4
	};
	unsigned counts[METRIC_END] = { 0 };

	if (size)
		parsers[bytes[0] % ARRAY_SIZE(parsers)]((const char *)bytes + 1, size - 1, &units,
							emit, counts);
	return 0;
}
