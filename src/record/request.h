/* request.h: what `pitot record` was asked for: the values of its options. */
#ifndef PITOT_RECORD_REQUEST_H
#define PITOT_RECORD_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

struct record_request {
	const char *output, *name; /* NULL: not given */
	bool force, force_injection;
	uint64_t delay_ns, duration_ns, max_bytes; /* 0: none */
	int graphs; /* 0 node, 1 launch */
	int api; /* 0 launches, 1 all */
	int stacks; /* enum record_stacks */
	bool sync, memory, symbols;
	uint64_t counters_ns;
	uint64_t hz; /* of CPU samples; 0: none */
	int via; /* enum record_via */
	bool off_cpu, gpu_only, cpu_only, cpu_given, duration_given;
	uint64_t pid; /* of a process that runs already, if pid_given */
	bool pid_given;
};

#endif
