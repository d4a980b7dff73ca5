/*
 * proc_text.h: texts of /proc that have figures of the machine and of a process. Any bytes can be
 * parsed: what is not understood is left out.
 */
#ifndef PITOT_SYSTEM_PROC_TEXT_H
#define PITOT_SYSTEM_PROC_TEXT_H

#include "system/metrics.h"

/* What the numbers of a text are made of. */
struct proc_units {
	uint64_t ticks_per_s; /* of /proc/stat; not 0 */
	uint64_t page_bytes;
	/* Names of the disks and network devices that count, each followed by a NUL; empty: all. */
	const char *disks, *networks;
	size_t disks_length, networks_length;
};

typedef void proc_emit(void *user, uint32_t id, int64_t value);

/* One for each file: hands on what the text has, each metric at most once. */
typedef void proc_parser(const char *text, size_t length, const struct proc_units *units,
			 proc_emit *emit, void *user);
proc_parser proc_parse_stat, proc_parse_meminfo, proc_parse_cpu_pressure,
	proc_parse_memory_pressure, proc_parse_io_pressure, proc_parse_diskstats,
	proc_parse_network, proc_parse_statm, proc_parse_io;

#endif
