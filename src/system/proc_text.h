/*
 * proc_text.h: parses files of /proc with metrics of the machine and of a process. Accepts any
 * bytes: what cannot be parsed is ignored.
 */
#ifndef PITOT_SYSTEM_PROC_TEXT_H
#define PITOT_SYSTEM_PROC_TEXT_H

#include "system/metrics.h"

/* Units of numbers, and devices to count. */
struct proc_units {
	uint64_t ticks_per_s; /* in /proc/stat; not 0 */
	uint64_t page_bytes;
	/* Names of the disks and network devices to count, each followed by NUL; empty: all. */
	const char *disks, *networks;
	size_t disks_length, networks_length;
};

typedef void proc_emit(void *user, uint32_t id, int64_t value);

/* One parser per file: emits the metrics in the text, each at most once. */
typedef void proc_parser(const char *text, size_t length, const struct proc_units *units,
			 proc_emit *emit, void *user);
proc_parser proc_parse_stat, proc_parse_meminfo, proc_parse_cpu_pressure,
	proc_parse_memory_pressure, proc_parse_io_pressure, proc_parse_diskstats,
	proc_parse_network, proc_parse_statm, proc_parse_io;

#endif
