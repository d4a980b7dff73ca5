/*
 * settings.h: what a session was asked to record, from the environment that `pitot record` prepares.
 *
 *	PITOT_RECORDING	absolute path of the recording's directory; without it nothing is recorded
 *	PITOT_OPTIONS	"key=value;key=value"; unknown keys are ignored, so that versions can be mixed
 *	PITOT_LOG	file for messages, or "stderr"; silent without it
 */
#ifndef PITOT_CAPTURE_SETTINGS_H
#define PITOT_CAPTURE_SETTINGS_H

#include <stdbool.h>

#include "base/compiler.h"

struct settings {
	char directory[4096];
	bool graph_nodes;		/* graphs=node|launch: a record per node, or one per launch */
	bool synchronization;		/* sync=0|1: CUPTI's records of synchronizations and events (dear) */
	bool memory;			/* memory=0|1 */
	bool native_stacks, python_stacks; /* stacks=none|native|python|all: of every recorded call */
	uint64_t counters_ns;		/* time between readings of NVML's counters; 0: none */
	bool all_api_calls;		/* api=launches|all */
	uint32_t cpu_hz;		/* cpu=HZ: CPU samples by a timer inside the process; 0: none */
	uint64_t perf_namespace;	/* perf=N: perf events sample, too, in the pid namespace with inode N; 0: none do */
	bool preload;			/* preload=0|1|once: the library starts recording when it is loaded */
	bool preload_once;		/* once: if LD_PRELOAD loaded it; what the process starts is left alone */
	bool cuda;			/* cuda=0|1: whether CUPTI is used */
	uint64_t start_ns;		/* CLOCK_MONOTONIC that delay and duration count from */
	uint64_t delay_ns;		/* nothing is recorded before start + delay */
	uint64_t duration_ns;		/* nothing after start + delay + duration; 0: no end */
	uint64_t max_bytes;		/* ceiling of this process's segments; 0: none */
	uint64_t segment_bytes;		/* a new segment after so many; 0: the writer's choice */
	uint64_t stacks_max;		/* distinct call stacks that are kept; 0: STACKS_MAX */
};

/* Reads the environment. false when no recording is asked for. Allocates nothing. */
bool settings_read(struct settings *s);

/* Whether the window of delay and duration is open at a moment; *over (may be NULL): and will not open again. */
bool settings_window(const struct settings *s, uint64_t now_ns, bool *over);

/* Parses a PITOT_OPTIONS text over what is in *s. */
void settings_parse(struct settings *s, const char *text);

#endif
