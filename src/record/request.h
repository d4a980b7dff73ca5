/* request.h: the values of the options of `pitot record`. */
#ifndef PITOT_RECORD_REQUEST_H
#define PITOT_RECORD_REQUEST_H

#include "record/spawn.h"
#include "schema/settings.h"

enum record_via { RECORD_VIA_AUTO, RECORD_VIA_EBPF, RECORD_VIA_PERF, RECORD_VIA_TIMER };

/* Names of the methods by value, for the option; NULL at the end. */
extern const char *const record_via_names[];

#define RECORD_CPU_HZ 99

struct record_request {
	const char *output, *name; /* NULL: not given */
	const char *log; /* gpufl[=DIR]; NULL: not given */
	bool recording; /* false: gpufl's logs alone */
	/* socket of Perfetto's service, "1": its usual one; NULL: not traced live */
	const char *perfetto;
	const char *startup_wait; /* data sources; NULL: none */
	bool force, force_injection, symbols;
	struct settings settings; /* of the recorder inside the command */
	uint64_t hz; /* of CPU samples; 0: none */
	int via; /* enum record_via */
	bool off_cpu, gpu_only, cpu_only;
	pid_t pids[SPAWN_ATTACHED_MAX]; /* of processes that already run, each once */
	size_t pid_count; /* 0: a command is started */
	bool hz_given; /* on the command line */
};

#endif
