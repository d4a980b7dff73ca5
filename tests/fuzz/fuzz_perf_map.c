/* layer: symbol */
/* Any text as a map of JIT code. */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const struct jit_function *before = NULL;
	int fd = memfd_create("map", MFD_CLOEXEC), rc;
	struct perf_map m;

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	rc = perf_map_read(&m, fd);
	close(fd);
	if (rc < 0)
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
