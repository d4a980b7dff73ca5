/* layer: elf */
/* Any bytes as a core file. The corpus is made by tests/fuzz/seeds_core. */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/core_file.h"

static void ask(const struct core_file *core, uint64_t address)
{
	uint8_t bytes[300];
	size_t size = core_file_read(core, address, bytes, sizeof(bytes));
	const struct core_mapping *m = core_file_mapping(core, address);

	if (size > sizeof(bytes))
		abort();
	/* The first byte that is missing is missing, too, when it is asked for. */
	if (size < sizeof(bytes) && address + size >= address &&
	    core_file_read(core, address + size, bytes, 1))
		abort();
	if (m && (address < m->start || address >= m->end || strlen(m->path) > core->size))
		abort();
	if (core_file_omitted(core, address) && size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("core", MFD_CLOEXEC);
	struct core_file core;

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		abort();
	if (core_file_open(fd, &core, NULL) == 0) {
		if (!core.threads.count || core.name[sizeof(core.name) - 1] ||
		    core.command[sizeof(core.command) - 1])
			abort();
		for (size_t i = 0; i < core.loads.count && i < 200; i++) {
			const struct core_load *load = &core.loads.data[i];

			if (load->end <= load->start ||
			    (i && load->start < core.loads.data[i - 1].end))
				abort();
			ask(&core, load->start);
			ask(&core, load->start + load->file_size - 1);
			ask(&core, load->end);
		}
		for (size_t i = 0; i < core.mappings.count && i < 200; i++) {
			ask(&core, core.mappings.data[i].start);
			ask(&core, core.mappings.data[i].end - 1);
		}
		ask(&core, 0);
		ask(&core, UINT64_MAX);
	}
	core_file_release(&core);
	close(fd);
	return 0;
}
