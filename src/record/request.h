/* request.h: what `pitot record` was asked for: the values of its options. */
#ifndef PITOT_RECORD_REQUEST_H
#define PITOT_RECORD_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"

enum record_graphs { RECORD_GRAPHS_AUTO, RECORD_GRAPHS_NODE, RECORD_GRAPHS_LAUNCH };
enum record_api { RECORD_API_LAUNCHES, RECORD_API_ALL };
enum record_stacks { RECORD_STACKS_ALL, RECORD_STACKS_NATIVE, RECORD_STACKS_PYTHON, RECORD_STACKS_NONE };
enum record_via { RECORD_VIA_AUTO, RECORD_VIA_EBPF, RECORD_VIA_PERF, RECORD_VIA_TIMER };

/* Their names by value, as an option and PITOT_OPTIONS have them; NULL at the end. */
extern const char *const record_graphs_names[], *const record_api_names[], *const record_stacks_names[],
	*const record_via_names[];

#define RECORD_CPU_HZ 99

typedef bool record_FLAG;
typedef int record_ENUM; /* as options_parse wants it */
typedef uint64_t record_SIZE, record_DURATION;

struct record_request {
	const char *output, *name; /* NULL: not given */
	bool force, force_injection, symbols;
#define SETTING(member, type, ...) record_##type member;
#include "record/recorder_settings.def"
#undef SETTING
	uint64_t hz; /* of CPU samples; 0: none */
	int via; /* enum record_via */
	bool off_cpu, gpu_only, cpu_only;
	uint64_t pid; /* of a process that already runs, if given.pid */
	struct {
#define SETTING(member, ...) bool member;
#include "record/recorder_settings.def"
#undef SETTING
		bool hz, pid;
	} given; /* on the command line */
};

#endif
