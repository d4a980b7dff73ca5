/*
 * monitor.h: the state of `pitot monitor`: the latest readings of all GPUs and of the host, and
 * optionally their recording. Single-threaded. Prints nothing.
 */
#ifndef PITOT_RECORD_MONITOR_H
#define PITOT_RECORD_MONITOR_H

#include "base/error.h"
#include "format/recording_json.h"
#include "system/host.h"
#include "system/gpu_readers.h"

#define MONITOR_PROCESSES_MAX 16u /* per GPU; further ones are only counted */
#define MONITOR_CORES (METRIC_END - METRIC_CORE_FIRST)

/* The last two values of a metric. */
struct monitor_reading {
	uint64_t time_ns, before_ns; /* CLOCK_MONOTONIC; 0: no value */
	int64_t value, before;
};

struct monitor_process {
	uint32_t pid;
	uint64_t used_bytes; /* UINT64_MAX: unknown */
	char name[16]; /* from the operating system, arbitrary bytes; "": unknown */
};

struct monitor_gpu {
	struct gpu_device device;
	struct gpu_description is;
	struct monitor_reading readings[METRIC_GPU_END]; /* by id */
	struct pace process_pace;
	struct monitor_process processes[MONITOR_PROCESSES_MAX];
	unsigned process_count;
};

struct monitor {
	struct monitor_gpu *gpus;
	unsigned gpu_count;
	struct strbuf no_gpus; /* why there are no GPUs; "": there are some */
	struct host host;
	struct monitor_reading host_readings[METRIC_HOST_END]; /* by id */
	struct monitor_reading cores[MONITOR_CORES];
	struct strbuf missing; /* unavailable metrics, as text of metric_add_absent */
	/* The recording; writer NULL: none. */
	struct writer *writer;
	char *directory; /* absolute */
	struct recording_identity identity;
	uint64_t named[METRIC_END / 64]; /* bit i: the row of counter i is written */
	uint64_t flushed_ns, accounted_ns, cpu_ns, readings;
	uint64_t round_ns; /* start of the last round */
	int error; /* the writer's first error */
};

#define MONITOR_INIT { .no_gpus = STRBUF_INIT, .missing = STRBUF_INIT }

/* Finds the GPUs and opens the host's files. Returns 0 or -ENOMEM. */
int monitor_open(struct monitor *m, struct error *e) MUST_USE;
/*
 * Starts to record into a new folder (see recording_dir_create). Returns 0 or a negative code.
 */
int monitor_record(struct monitor *m, const char *output, bool force, char **command,
		   struct error *e) MUST_USE;
/* Reads all metrics once. */
void monitor_read(struct monitor *m);
/* Ends the recording. Returns 0, or a negative code if the recording is incomplete. */
int monitor_finish(struct monitor *m, struct error *e) MUST_USE;
/* Writes the GPUs and their last readings into a recording that is not the monitor's. */
void monitor_write_gpus(struct monitor *m, struct writer *w);
void monitor_release(struct monitor *m);

/* Computes the growth of a sum per second, in the metric's decimals; false: unknown (so far). */
bool monitor_rate(const struct monitor_reading *r, int64_t *per_s);

#endif
