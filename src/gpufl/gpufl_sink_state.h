/* gpufl_sink_state.h: state shared by the parts of the gpufl sink. */
#ifndef PITOT_GPUFL_GPUFL_SINK_STATE_H
#define PITOT_GPUFL_GPUFL_SINK_STATE_H

#include "base/arena.h"
#include "base/vec.h"
#include "format/definitions.h"
#include "gpufl/gpufl_log.h"
#include "gpufl/gpufl_sink.h"

#define GPUFL_DEVICES_MAX 64
#define GPUFL_CAPABILITIES_MAX 32
#define GPUFL_THREADS 1024 /* threads with open ranges, per domain */
#define GPUFL_DEPTH_MAX 64 /* of ranges; deeper ones are not written */
#define GPUFL_PENDING_MAX 4096 /* kernels waiting for the row of their launch */
#define GPUFL_MEASURED_MAX 1024 /* launches whose counters wait for their kernel */
#define GPUFL_MARKS_MAX 16u
#define GPUFL_OPEN_MAX 4096 /* open start-end ranges, and tokens in use */

/*
 * Texts that outlive an epoch: scope paths and names of NVTX ranges, JSON-escaped. Label 0 is "".
 */
#define LABEL_GLOBAL 1u /* the path outside of scopes */
#define LABEL_UNKNOWN 2u /* path of a kernel whose launch is unknown */
#define LABEL_BYTES_MAX ((size_t)16 << 20) /* in total; beyond it paths are cut and names are "" */
#define LABEL_LENGTH_MAX 4096u

/* Properties of a call, by its correlation id. */
struct gpufl_call {
	uint32_t path, stack;
	uint32_t thread, external_kind;
	uint64_t start_ns, end_ns; /* since the epoch; 0: unknown */
	uint64_t external_id;
};

/* The most recent calls: when the younger half is full, the older half is dropped. */
struct gpufl_calls {
	struct map index[2]; /* correlation id -> item; [0] is the younger */
	VEC(struct gpufl_call) items[2];
	size_t max; /* of each half */
};

/* A kernel with its configuration on a device. */
struct gpufl_shape {
	uint32_t kernel, dynamic_shared, registers;
	struct bytes_value detail; /* part of kernel_detail from "grid" to the key of user_scope */
};

struct gpufl_range {
	uint64_t start_ns, instance; /* CLOCK_MONOTONIC */
	uint32_t label; /* path of a scope, or name of another range */
	uint32_t name; /* of a scope, in the dictionary */
	uint8_t level;
};

/* Open push-pop ranges of a thread in a domain; the slot is free when there are none. */
struct gpufl_thread_ranges {
	uint32_t thread, domain, depth;
	struct gpufl_range ranges[GPUFL_DEPTH_MAX];
};

/* A range that began on another thread: a start-end range, or a token. */
struct gpufl_open {
	uint64_t range, start_ns;
	uint32_t label, domain;
	bool used;
};

#define GPUFL_KERNEL_COUNTER_ID(member, ...) KERNEL_##member,
enum gpufl_kernel_counter { GPUFL_KERNEL_COUNTERS(GPUFL_KERNEL_COUNTER_ID) KERNEL_COUNTERS };

/* The hardware counters of a launch, which wait for its kernel; NAN: unknown. */
struct gpufl_measured {
	uint64_t correlation, index; /* index: number of launches that were measured before */
	double values[KERNEL_COUNTERS];
};

/* The measured range whose metrics are arriving. */
struct gpufl_measured_range {
	struct row_range_value row; /* the last one */
	double values[KERNEL_COUNTERS]; /* NAN: unknown */
	bool has_values, before_seal; /* before_seal: it arrived before the last seal */
};

/* An end of a window of system metrics. */
struct gpufl_mark {
	const char *type;
	uint32_t name; /* label */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
};

#define GPUFL_METRIC_ID(column, ...) METRIC_##column,
enum gpufl_metric {
	GPUFL_DEVICE_METRICS(GPUFL_METRIC_ID) GPUFL_HOST_METRICS(GPUFL_METRIC_ID) METRICS
};

struct gpufl_readings {
	uint64_t time_ns; /* CLOCK_MONOTONIC, of readings not yet written; 0: none */
	uint64_t values[METRICS]; /* the last ones, in the format's units */
};

struct gpufl_sink {
	struct sink sink;
	struct gpufl_options options;
	struct gpufl_log log;
	char log_path[4096];
	char address[64]; /* "": unknown */
	struct row_process process; /* with texts of this epoch */
	bool has_process;
	struct strbuf app; /* capability `app_name`, else the executable's name */
	struct strbuf identity; /* "pid":42,"app":"…","session_id":"…" */
	struct strbuf scratch, label;
	struct strbuf detail_head; /* part of kernel_detail up to corr_id */
	int64_t epoch_offset_ns;
	uint32_t offset_width_ns;
	uint64_t created_ns; /* by clock_machine_ns() */
	uint64_t first_ns, last_ns; /* of the rows, CLOCK_MONOTONIC */
	uint64_t next_id; /* of kernels and scopes */

	/* Definitions of this epoch: */
	struct definitions definitions; /* texts and configurations */
	struct arena arena;
	struct map shapes; /* device << 32 | config -> struct gpufl_shape */
	struct map sampled; /* id of a function's name -> label of its demangled name */
	struct map functions; /* id -> enum gpufl sync_type << 8 | api_kind */
	uint32_t scope_domain; /* id of the domain of scopes; 0: unknown */
	uint32_t domains[32]; /* label of each domain's name, by id */

	struct map details; /* compact: hash of a launch's details -> corr_id */
	struct map stacks; /* stack id -> label of its frames */
	struct gpufl_calls calls;
	VEC(struct row_kernel) pending;
	size_t pending_before_seal; /* how many of them arrived before the last seal */
	struct interner labels;
	struct gpufl_thread_ranges *threads; /* GPUFL_THREADS items */
	struct gpufl_open *open; /* GPUFL_OPEN_MAX items */

	struct row_device devices[GPUFL_DEVICES_MAX];
	bool has_device[GPUFL_DEVICES_MAX], start_is_due;
	unsigned device_count;
	struct gpufl_readings readings[GPUFL_DEVICES_MAX], host;
	uint64_t cpu_ns, cpu_busy; /* the last reading */
	uint64_t cpu_x100; /* CPU use in 1/100 %, if has_cpu */
	bool has_cpu;
	unsigned processors;
	struct map counters; /* id -> how to read it: gpufl_metrics.c */
	struct map pm_counters; /* hardware counters over time, likewise: gpufl_engines.c */
	uint64_t pm_index, pm_ns; /* of the previous sample */
	struct row_pc_reading reading; /* the last one */
	VEC(struct gpufl_measured) measured;
	uint64_t measured_count; /* so far, also of those that no longer wait */
	struct gpufl_measured_range range;
	struct {
		uint64_t name; /* hash */
		struct strbuf json;
	} capabilities[GPUFL_CAPABILITIES_MAX];
	unsigned capability_count;
	const char *requested_engine, *selected_engine; /* gpufl's names; NULL: unknown */
	bool measures_ranges; /* what engine range-profiler measures; else kernels */
	struct gpufl_mark marks[GPUFL_MARKS_MAX]; /* wait for the first CPU utilization */
	unsigned mark_count;
};

/* Converts CLOCK_MONOTONIC to time since the epoch. */
static inline uint64_t gpufl_time(const struct gpufl_sink *s, uint64_t monotonic_ns)
{
	return monotonic_ns + (uint64_t)s->epoch_offset_ns;
}

/* Returns the text of a string id; "" if it is unknown. */
struct bytes_value gpufl_text(const struct gpufl_sink *s, uint32_t id);
/* Appends ,"key":"text". */
void gpufl_key_text(struct strbuf *out, const char *key, struct bytes_value text);
/*
 * Returns the label of an unescaped text, below `path` if that is not 0. If there is no room,
 * returns the path, or "".
 */
uint32_t gpufl_label(struct gpufl_sink *s, uint32_t path, struct bytes_value text);

void gpufl_add_label(const struct gpufl_sink *s, struct strbuf *out, uint32_t label);
/* Begins a line with process, application and session; the caller adds the rest. */
struct strbuf *gpufl_identified_line(struct gpufl_sink *s, enum gpufl_channel channel,
				     const char *type);

/* Returns a kernel's demangled name, valid until the next use of s->scratch. */
struct bytes_value gpufl_kernel_name(struct gpufl_sink *s, struct bytes_value mangled);

/*
 * Writes the record of a mark at the ends of a window of system metrics, as soon as the machine's
 * CPU utilization is known; ignores other marks.
 */
void gpufl_system_mark(struct gpufl_sink *s, const struct row_nvtx *n);
void gpufl_marks_write(struct gpufl_sink *s);

/* Returns the properties of a call, or NULL if nothing is known. */
const struct gpufl_call *gpufl_call_find(const struct gpufl_sink *s, uint64_t correlation);

/* Append rows of these tables: */
void gpufl_kernel(struct gpufl_sink *s, const struct row_kernel *row);
/*
 * At a seal: writes the kernels whose launch has arrived, and all that have waited for a whole
 * seal, or (all) every kernel.
 */
void gpufl_kernels_flush(struct gpufl_sink *s, bool all);
void gpufl_memcpy(struct gpufl_sink *s, const struct row_memcpy *row);
void gpufl_memset(struct gpufl_sink *s, const struct row_memset *row);
void gpufl_synchronization(struct gpufl_sink *s, const struct row_synchronization *row);
void gpufl_allocation(struct gpufl_sink *s, const struct row_allocation *row);
void gpufl_graph_launch(struct gpufl_sink *s, const struct row_graph_launch *row);
void gpufl_api_call(struct gpufl_sink *s, const struct row_api_call *row);
void gpufl_api_function(struct gpufl_sink *s, const struct row_api_function *row);
void gpufl_external(struct gpufl_sink *s, const struct row_external_correlation *row);
void gpufl_nvtx(struct gpufl_sink *s, const struct row_nvtx *row);
void gpufl_nvtx_domain(struct gpufl_sink *s, const struct row_nvtx_domain *row);
void gpufl_counter(struct gpufl_sink *s, const struct row_counter *row);
void gpufl_counter_sample(struct gpufl_sink *s, const struct row_counter_sample *row);
void gpufl_pc_reading(struct gpufl_sink *s, const struct row_pc_reading *row);
void gpufl_pc_sample(struct gpufl_sink *s, const struct row_pc_sample *row);
void gpufl_sass_value(struct gpufl_sink *s, const struct row_sass_value *row);
void gpufl_metric_value(struct gpufl_sink *s, const struct row_metric_value *row);
void gpufl_range_value(struct gpufl_sink *s, const struct row_range_value *row);
/* At a seal: writes the range that has waited for a whole seal, or (all) any. */
void gpufl_ranges_flush(struct gpufl_sink *s, bool all);
/* Writes the hardware counters of a kernel, if it was measured. */
void gpufl_kernel_counters(struct gpufl_sink *s, const struct row_kernel *k);
/* Return whether the counter is a hardware counter over time; if so, process the row. */
bool gpufl_pm_counter(struct gpufl_sink *s, const struct row_counter *row, bool real);
bool gpufl_pm_sample(struct gpufl_sink *s, const struct row_counter_sample *row);
void gpufl_process(struct gpufl_sink *s, const struct row_process *row);
void gpufl_device(struct gpufl_sink *s, const struct row_device *row);
void gpufl_thread(struct gpufl_sink *s, const struct row_thread *row);
void gpufl_capability(struct gpufl_sink *s, const struct row_capability *row);
void gpufl_loss(struct gpufl_sink *s, const struct row_loss *row);

/* Returns the label of the path of the thread's innermost scope. */
uint32_t gpufl_scope_path(const struct gpufl_sink *s, uint32_t thread);
/* Writes readings that no batch contains yet. */
void gpufl_metrics_flush(struct gpufl_sink *s);
/* Writes job_start; called again when there are more devices. */
void gpufl_begin(struct gpufl_sink *s);
/* Writes capture_capabilities and shutdown. */
void gpufl_end(struct gpufl_sink *s);

#endif
