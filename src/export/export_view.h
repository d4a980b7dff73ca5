/*
 * export_view.h: a recording prepared for exporters. The columns are loaded, GPUs and process ids
 * are unique, GPU work is linked to the calls that launched it, and the options' filters are
 * applied.
 *
 * "Work" is the rows of the tables of GPU work and of table synchronization. Each such row has a
 * number that is unique in the trace (work_number). The only per-row allocations are two u32
 * arrays, `first_work` and `next_work`.
 */
#ifndef PITOT_EXPORT_EXPORT_VIEW_H
#define PITOT_EXPORT_EXPORT_VIEW_H

#include "analysis/calls.h"
#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "analysis/nvtx_ranges.h"
#include "export/event_names.h"
#include "export/exporter.h"
#include "trace/events.h"
#include "trace/metric_values.h"

/* Kinds of work: GPU work (enum gpu_work), then waits. */
#define WORK_SYNC GPU_WORK_KINDS
#define WORK_KINDS (GPU_WORK_KINDS + 1)

#define NO_WORK UINT32_MAX
#define NO_PROCESS SIZE_MAX

struct export_process {
	/* unique in the export, also between the images that exec() replaced in one process */
	uint32_t pid;
	/* index of the sampled process for samples taken from outside; otherwise its own index */
	uint32_t owner;
	uint64_t correlation_base; /* added to correlation ids to make them unique in the trace */
	/* its own name for itself, else the last part of the executable's path; "" if unknown */
	const char *name;
	/* "rank 3: python": the name behind the rank, if it has one */
	char label[64];
	/* "rank 3: python 4242": and the process id that the process itself sees */
	char title[76];
	uint64_t end_ns;
};

struct export_view {
	struct trace *trace;
	const struct export_options *options;
	struct export_result *result;
	struct selection selection;
	struct gpus gpus;
	size_t process_count; /* of sessions */
	/* the only process with GPU work; NO_PROCESS: several, so names of work include theirs */
	size_t gpu_process;
	struct export_process *processes;
	struct map thread_names; /* process << 32 | thread -> last row of table thread */
	struct map context_devices; /* process << 32 | context -> device */
	/* some process has several contexts on one device, whose stream ids can be equal */
	bool many_contexts;
	struct event_columns work[WORK_KINDS];
	uint32_t work_base[WORK_KINDS]; /* number of each table's row 0 */

	uint64_t calls;
	const struct api_call_columns *call;
	const struct api_function_columns *function;
	bool with_stacks; /* calls have stacks */
	bool with_samples; /* tables cpu_sample and off_cpu are loaded and exported */
	/*
	 * first_work[api_call row] is the number of the first work that the call launched;
	 * next_work[number] is the next one of the same call. NO_WORK ends the list.
	 */
	uint32_t *first_work, *next_work;

	struct metric_values metrics; /* of launches measured by an engine */
	/* slice of a measured range -> first row of range_value << 16 | number of rows */
	struct map range_slices;
	const uint32_t *range_launches; /* per row of range_value: row of api_call */
	struct map external; /* correlation (with its base) -> id that a framework gave the call */
	struct nvtx_names names;
	struct nvtx_ranges ranges; /* include their calls if the recording has ranges */
	/* per nvtx row: end of the range, time of the mark, or one of the values below */
	uint64_t *nvtx_end_ns;
	/*
	 * Per row of allocation: bytes of its kind that its process has on its device, after it;
	 * NO_LEVEL: it does not change them.
	 */
	uint64_t *memory_levels;
	struct strbuf scope_text; /* cached text of path `scope` */
	uint32_t scope;
};

#define NO_LEVEL UINT64_MAX
#define NVTX_SKIP UINT64_C(0) /* pop or end: belongs to the row that began the range */
#define NVTX_OPEN UINT64_MAX /* no end in the recording */

/*
 * gpu_pids: this format also gives GPUs process ids, from 0 up; ids of processes are moved out of
 * that range. The options and the result must outlive the view. Returns 0 or a negative code.
 */
int export_view_init(struct export_view *v, struct trace *t, const struct export_options *options,
		     struct export_result *result, bool gpu_pids, struct error *e) MUST_USE;
void export_view_release(struct export_view *v);

/*
 * Loads CPU samples and times off the CPU unless the options leave them out. Returns 0 or a
 * negative code.
 */
int export_view_load_samples(struct export_view *v, struct error *e) MUST_USE;

/* Whether a row of work has both times and passes the filters. */
static inline bool work_is_selected(const struct export_view *v, const struct event_columns *w,
				    uint64_t row)
{
	if (!event_is_timed(w, row))
		return false;
	if (!selection_has_time(&v->selection, true, w->start_ns[row]) ||
	    !selection_has_call(&v->selection, w->launches ? w->launches[row] : TRACE_NO_ROW))
		return false;
	return !v->selection.configs || w->table != TABLE_kernel ||
	       selection_has_config(&v->selection, kernel_columns(v->trace)->config[row]);
}

static inline uint32_t work_number(const struct export_view *v, const struct event_columns *w,
				   uint64_t row)
{
	return v->work_base[w - v->work] + (uint32_t)row;
}

/* A launch is excluded if the name filter excludes all kernels that it launched. */
static inline bool call_is_selected(const struct export_view *v, uint64_t row)
{
	uint32_t function = v->call->function[row];
	uint8_t kind;

	if (!selection_has_time(&v->selection, true, v->call->start_ns[row]) ||
	    !selection_has_call(&v->selection, (uint32_t)row))
		return false;
	if (!v->selection.configs || function == TRACE_NO_ROW)
		return true;
	kind = v->function->kind[function];
	return (kind != api_kind_launch && kind != api_kind_graph_launch) ||
	       v->first_work[row] != NO_WORK;
}

/* Returns the call that launched a row of work, or TRACE_NO_ROW if that call is not exported. */
static inline uint32_t work_call(const struct export_view *v, const struct event_columns *w,
				 uint64_t row)
{
	uint32_t call = w->launches ? w->launches[row] : TRACE_NO_ROW;

	if (call != TRACE_NO_ROW &&
	    !selection_has_time(&v->selection, true, v->call->start_ns[call]))
		return TRACE_NO_ROW;
	return call;
}

/* Appends "memory: device, GPU 0": what a row of allocation changes the level of. */
void export_memory_name(const struct export_view *v, uint32_t process, uint64_t row,
			struct strbuf *out);

/* Finds the slices of measured ranges. Returns 0 or -ENOMEM. */
int range_values_init(struct export_view *v) MUST_USE;
/*
 * Returns the number of rows of range_value, from *first on, that are shown by a row of nvtx or of
 * api_call; or, if neither of them has the range, by the range's first row of range_value itself.
 */
unsigned range_values_of(const struct export_view *v, enum table_id table, uint64_t row,
			 uint64_t *first);

/* Returns the id, in its process, of the call's stack; 0 if it has none. */
static inline uint32_t export_call_stack(const struct export_view *v, uint64_t row)
{
	return v->with_stacks && column_has(v->call->valid.stack, row) ? v->call->stack[row] : 0;
}

/* Returns the GPU of a row of work, as an index of v->gpus. */
size_t work_gpu(const struct export_view *v, const struct event_columns *w, size_t process,
		uint64_t row);

/* Makes the correlation id of a row of work or a call unique in the trace. */
static inline uint64_t export_correlation(const struct export_view *v, size_t process,
					  uint64_t correlation)
{
	return v->processes[process].correlation_base + correlation;
}

/* Properties of a row of table nvtx beyond its name, domain and category. */
struct export_range {
	uint32_t text; /* string id; of a continued scope, the scope's text; 0: none */
	uint32_t continues; /* path of the scope that the range continues, or SCOPE_NONE */
	uint64_t runs; /* repeats | warm-ups << 32; 0: not given */
};

/* Returns whether the row belongs to Pitot's domain: a scope or a mark. */
bool export_range(const struct export_view *v, uint32_t process, uint64_t row,
		  struct export_range *range);
/* Returns the text of a path ("" for SCOPE_NONE), valid until the next call. */
const char *export_scope(struct export_view *v, uint32_t path, size_t *length);

/* Appends "thread 17 (worker)". */
void export_thread_title(const struct export_view *v, uint32_t process, uint32_t thread,
			 struct strbuf *out);

/* Returns the text of a STRING column; "" if the value is missing. */
const char *export_text(const struct export_view *v, enum table_id table, int column, uint64_t row,
			size_t *length);

#endif
