/* layer: symbol */
/* Any text as a map of JIT code. */
#include "fuzz.h"

#include <stdlib.h>

#include "symbol/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const struct jit_function *before = NULL;
	struct perf_map m;

	if (perf_map_parse(&m, (const char *)bytes, size) < 0)
		return 0;
	for (size_t i = 0; i < m.functions.count; i++) {
		const struct jit_function *f = &m.functions.data[i];

		if (f->start >= f->end || !*f->name || (before && before->end > f->start) ||
		    perf_map_find(&m, f->start) != f || perf_map_find(&m, f->end - 1) != f ||
		    perf_map_find(&m, f->end) == f)
			abort();
		before = f;
	}
	perf_map_find(&m, 0);
	perf_map_find(&m, UINT64_MAX);
	perf_map_release(&m);
	return 0;
}
