/* request.h: the values of the options of `pitot record`. */
#ifndef PITOT_RECORD_REQUEST_H
#define PITOT_RECORD_REQUEST_H

#include "record/spawn.h"
#include "rules/rule_list.h"
#include "sampler/cpu_sampler.h"
#include "schema/settings.h"

#define RECORD_CPU_HZ 99

/* Steps of each process that are recorded, and nothing else. */
struct requested_steps {
	uint64_t first; /* number of the first one, from 1 */
	size_t count; /* 0: all of the run is recorded */
	const char *name; /* of the ranges that are steps; NULL: those that are named like steps */
	bool by_collectives; /* from one collective of NCCL to the next, instead of ranges */
};

struct record_request {
	const char *output, *name; /* NULL: not given */
	const char *ring; /* --ring; NULL: not given */
	struct rule_list rules; /* that make dumps of the ring */
	uint64_t before_ns, after_ns; /* that these dumps have of a rule's moment */
	uint64_t dumps_bytes; /* of all these dumps; older ones are removed */
	const char *on_trigger; /* command after such a dump; NULL: none */
	const char *notify; /* URL of a server that is told of it; NULL: none */
	const char *log; /* gpufl[=DIR]; NULL: not given */
	bool recording; /* false: only gpufl's logs */
	/* socket of Perfetto's service, "1": the usual one; NULL: not traced live */
	const char *perfetto;
	const char *startup_wait; /* data sources; NULL: none */
	bool gpu_coredump; /* core files of GPUs */
	bool force, force_injection, symbols;
	struct settings settings; /* for the recorder inside the command */
	uint64_t hz; /* CPU samples per second; 0: none */
	int method; /* of CPU sampling: enum cpu_method */
	bool off_cpu, gpu_only, cpu_only;
	bool allocator; /* --memory=torch */
	bool gpu; /* --gpu: running processes must record their GPU work */
	bool inject; /* --inject: those that are not prepared get the recorder loaded */
	pid_t pids[SPAWN_ATTACHED_MAX]; /* running processes, each once */
	size_t pid_count; /* 0: a command is started */
	bool hz_given; /* hz is from the command line */
	struct requested_steps steps; /* --steps; their count 0: not given */
	uint64_t start_at_ns; /* CLOCK_REALTIME at which recording begins; 0: see the delay */
};

#endif
