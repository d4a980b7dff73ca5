/* layer: symbol */
/* Any bytes as a core file of a GPU. The corpus is made by tests/fuzz/seeds_gpu_core. */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/gpu_code.h"

#define LOOKED_UP 20u

static void check_place(const struct gpu_core *core, const struct gpu_core_place *p)
{
	struct gpu_code code = GPU_CODE_INIT;

	if (p->grid != GPU_CORE_NO_GRID && p->grid >= core->grids.count)
		abort();
	if (core->has_exception != (p->exception != 0) || (p->has_threads && !p->threads))
		abort();
	if (gpu_code_find(core, p->pc, &code) < 0)
		abort();
	if (code.line && !code.file.length)
		abort();
	gpu_code_release(&code);
	if (p->grid != GPU_CORE_NO_GRID &&
	    gpu_code_find(core, core->grids.data[p->grid].entry, &code) < 0)
		abort();
	gpu_code_release(&code);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("core", MFD_CLOEXEC);
	struct gpu_core core;
	uint64_t before = UINT64_MAX;

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	if (gpu_core_open(fd, &core, NULL) == 0) {
		for (size_t i = 0; i < core.places.count; i++) {
			if (core.places.data[i].threads > before)
				abort();
			before = core.places.data[i].threads;
			if (i < LOOKED_UP)
				check_place(&core, &core.places.data[i]);
		}
		for (size_t i = 0; i < core.images.count; i++)
			if (core.images.data[i].offset > size ||
			    core.images.data[i].size > size - core.images.data[i].offset)
				abort();
	}
	gpu_core_release(&core);
	close(fd);
	return 0;
}
