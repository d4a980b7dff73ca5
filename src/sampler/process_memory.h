/*
 * process_memory.h: the memory of a process, which runs or of which a core file is left. In place
 * of a process id, CORE_PROCESS stands for the core file.
 */
#ifndef PITOT_SAMPLER_PROCESS_MEMORY_H
#define PITOT_SAMPLER_PROCESS_MEMORY_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "elf/core_file.h"

#define CORE_PROCESS ((pid_t)-2) /* no process has it, nor has a folder in /proc */

struct target_mapping {
	uint64_t start, end, file_offset;
	uint64_t inode; /* 0: unknown, or no file */
	const char *path; /* "[vdso]", "//anon", a file */
};

/* Called for each executable mapping, in ascending order, until it returns a value other than 0. */
typedef int proc_map_visit(void *context, const struct target_mapping *mapping);

/* Returns what `visit` returned last; 0 also when the process is gone. */
int proc_maps_read(pid_t pid, proc_map_visit *visit, void *context);

/* Makes CORE_PROCESS this core file, which must outlive its use; NULL: none any more. */
void process_memory_use_core(const struct core_file *core);
/* As process_vm_readv(): reads ranges of the process, in order, until one is not readable. */
ssize_t process_memory_read(pid_t pid, const struct iovec *local, size_t local_count,
			    const struct iovec *remote, size_t remote_count);
/*
 * As proc_maps_read(), of the core file, in any order. Files that are not those that were mapped
 * are left out.
 */
int process_memory_core_maps(proc_map_visit *visit, void *context);

#endif
