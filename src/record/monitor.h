/*
 * monitor.h: what `pitot monitor` knows of a machine: the latest readings of all its GPUs and of
 * the host, and a recording of them where one is wanted. One thread. Prints nothing.
 */
#ifndef PITOT_RECORD_MONITOR_H
#define PITOT_RECORD_MONITOR_H

#include "base/error.h"
#include "format/recording_json.h"
#include "system/host.h"
#include "system/nvml.h"

#define MONITOR_PROCESSES_MAX 16u /* of a GPU; further ones are counted only */
#define MONITOR_CORES (METRIC_END - METRIC_CORE_FIRST)

/* The last two values of a metric. */
struct monitor_reading {
	uint64_t time_ns, before_ns; /* CLOCK_MONOTONIC; 0: there is none */
	int64_t value, before;
};

struct monitor_process {
	uint32_t pid;
	uint64_t used_bytes; /* UINT64_MAX: not known */
	char name[16]; /* as the operating system has it, any bytes; "": not known */
};

struct monitor_gpu {
	struct nvml_device device;
	struct nvml_description is;
	struct monitor_reading readings[METRIC_NVML_END]; /* by id */
	struct pace process_pace;
	struct monitor_process processes[MONITOR_PROCESSES_MAX];
	unsigned process_count;
};

struct monitor {
	struct monitor_gpu *gpus;
	unsigned gpu_count;
	struct strbuf no_gpus; /* why there are none; "" where there are */
	struct host host;
	struct monitor_reading host_readings[METRIC_HOST_END]; /* by id */
	struct monitor_reading cores[MONITOR_CORES];
	struct strbuf missing; /* metrics that do not come, as metric_add_absent says it */
	/* Of the recording; writer NULL: there is none. */
	struct writer *writer;
	char *directory; /* absolute */
	struct recording_identity identity;
	uint64_t named[METRIC_END / 64]; /* bit i: counter i has its row */
	uint64_t flushed_ns, accounted_ns, cpu_ns, readings;
	uint64_t round_ns; /* when the last round began */
	int error; /* of the writer, the first */
};

#define MONITOR_INIT { .no_gpus = STRBUF_INIT, .missing = STRBUF_INIT }

/* Finds the GPUs and opens the host's files. 0 or -ENOMEM. */
int monitor_open(struct monitor *m, struct error *e) MUST_USE;
/*
 * Records from now on into a new folder, of which recording_dir_create says more. 0 or a negative
 * code.
 */
int monitor_record(struct monitor *m, const char *output, bool force, char **command,
		   struct error *e) MUST_USE;
/* One round. */
void monitor_read(struct monitor *m);
/* Ends the recording. 0 or a negative code: it is not complete. */
int monitor_finish(struct monitor *m, struct error *e) MUST_USE;
void monitor_release(struct monitor *m);

/* By how much a sum grew in a second, in the metric's own decimals. false: not known (yet). */
bool monitor_rate(const struct monitor_reading *r, int64_t *per_s);

#endif
