
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "sampler/process_memory.h"

#define MAPS_BYTES_MAX ((size_t)64 << 20)

static bool read_line(const char *line, struct target_mapping *m)
{
	char rights[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n",
		   &m->start, &m->end, rights, &m->file_offset, &m->inode, &path) < 5 ||
	    !path || rights[2] != 'x')
		return false;
	m->path = line + path;
	return strcmp(m->path, "[vsyscall]") != 0;
}

int proc_maps_read(pid_t pid, proc_map_visit *visit, void *context)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[64];
	int r = 0;

	if (pid == CORE_PROCESS)
		return process_memory_core_maps(visit, context);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	if (io_read_file(path, MAPS_BYTES_MAX, &text) < 0 || !text.length)
		return 0;
	for (char *line = text.data, *next; line && r == 0; line = next) {
		struct target_mapping m = { .path = "" };

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (read_line(line, &m))
			r = visit(context, &m);
	}
	return r;
}
