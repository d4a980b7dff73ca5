/*
 * export_view.h: a recording as an exporter wants to see it: its columns loaded, GPUs and process
 * ids told apart, GPU work tied to the calls that launched it, and what the options leave out
 * already decided.
 *
 * Work is what the tables of GPU work and table synchronization hold. Every row of them has a
 * number that is unique in the trace: work_number. Nothing is allocated per row but two u32 arrays,
 * `first_work` and `next_work`.
 */
#ifndef PITOT_EXPORT_EXPORT_VIEW_H
#define PITOT_EXPORT_EXPORT_VIEW_H

#include "analysis/calls.h"
#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "analysis/scope_paths.h"
#include "export/event_names.h"
#include "export/exporter.h"
#include "trace/events.h"
#include "trace/metric_values.h"

/* Kinds of work: the work of GPUs (enum gpu_work), and waits. */
#define WORK_SYNC GPU_WORK_KINDS
#define WORK_KINDS (GPU_WORK_KINDS + 1)

#define NO_WORK UINT32_MAX
#define NO_PROCESS SIZE_MAX

struct export_process {
	uint32_t
		pid; /* differs between processes, and between the images that exec() made of one */
	/* of samples taken from outside: the process that they are of; else itself */
	uint32_t owner;
	uint64_t correlation_base; /* added to correlation ids, they are unique in the trace */
	const char *name; /* "" if unknown: last part of the executable's path */
	char title[64]; /* "python 4242": name and id as the process sees it */
	uint64_t end_ns;
};

struct export_view {
	struct trace *trace;
	const struct export_options *options;
	struct export_result *result;
	struct selection selection;
	struct gpus gpus;
	size_t process_count; /* sessions */
	/* that has work on GPUs; NO_PROCESS: several have, and names of work say whose it is */
	size_t gpu_process;
	struct export_process *processes;
	struct map thread_names; /* process << 32 | thread -> row of table thread, the last */
	struct map context_devices; /* process << 32 | context -> device */
	/* a process has several on one device: their streams can have equal ids */
	bool many_contexts;
	struct event_columns work[WORK_KINDS];
	uint32_t work_base[WORK_KINDS]; /* number of row 0 */

	uint64_t calls;
	const struct api_call_columns *call;
	const struct api_function_columns *function;
	bool with_stacks; /* of calls */
	bool with_samples; /* tables cpu_sample and off_cpu are loaded, and wanted */
	/*
	 * By api_call row the number of the first work it launched; by number the next of its call;
	 * or NO_WORK.
	 */
	uint32_t *first_work, *next_work;

	struct metric_values metrics; /* of launches that were measured */
	struct map external; /* correlation (with its base) -> id that a framework gave the call */
	struct nvtx_names names;
	struct nvtx_ranges ranges; /* with their calls, where there are ranges */
	uint64_t *
		nvtx_end_ns; /* by nvtx row: its end (of a mark: its time), or one of those below */
	struct strbuf scope_text; /* of the path `scope` */
	uint32_t scope;
};

#define NVTX_SKIP UINT64_C(0) /* pop, end: part of the row that began the range */
#define NVTX_OPEN UINT64_MAX /* never ended in the recording */

/*
 * gpu_pids: GPUs have process ids in this format, from 0 on; ids of processes are kept clear of
 * them. The options and the result must live as long as the view. 0 or a negative code.
 */
int export_view_init(struct export_view *v, struct trace *t, const struct export_options *options,
		     struct export_result *result, bool gpu_pids, struct error *e) MUST_USE;
void export_view_release(struct export_view *v);

/* Whether the options want a row of work, and it has its times. */
static inline bool work_is_wanted(const struct export_view *v, const struct event_columns *w,
				  const uint32_t *configs, uint64_t row)
{
	if (!event_is_timed(w, row))
		return false;
	if (!selection_has_time(&v->selection, true, w->start_ns[row]) ||
	    !selection_has_call(&v->selection, w->launches ? w->launches[row] : TRACE_NO_ROW))
		return false;
	return !configs || selection_has_config(&v->selection, configs[row]);
}

static inline uint32_t work_number(const struct export_view *v, const struct event_columns *w,
				   uint64_t row)
{
	return v->work_base[w - v->work] + (uint32_t)row;
}

/* A launch is left out when the kernels that it launched are, because of their names. */
static inline bool call_is_wanted(const struct export_view *v, uint64_t row)
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

/* The call that launched a row of work, if it is written too; else TRACE_NO_ROW. */
static inline uint32_t work_call(const struct export_view *v, const struct event_columns *w,
				 uint64_t row)
{
	uint32_t call = w->launches ? w->launches[row] : TRACE_NO_ROW;

	if (call != TRACE_NO_ROW &&
	    !selection_has_time(&v->selection, true, v->call->start_ns[call]))
		return TRACE_NO_ROW;
	return call;
}

/* Id of the stack of a call, in its process; 0: none. */
static inline uint32_t export_call_stack(const struct export_view *v, uint64_t row)
{
	return v->with_stacks && column_has(v->call->valid.stack, row) ? v->call->stack[row] : 0;
}

/* GPU of a row of work: an index of v->gpus. */
size_t work_gpu(const struct export_view *v, const struct event_columns *w, size_t process,
		uint64_t row);

/* Correlation id of a row of work or a call, unique in the trace. */
static inline uint64_t export_correlation(const struct export_view *v, size_t process,
					  uint64_t correlation)
{
	return v->processes[process].correlation_base + correlation;
}

/* What a row of nvtx that is an event says beside its name's domain and category. */
struct export_range {
	uint32_t text; /* string id, of the scope that it carries on; 0: none */
	uint32_t continues; /* path of the scope that it carries on, or SCOPE_NONE */
	uint64_t runs; /* repeats, and warm-ups << 32; 0: it does not say */
};

/* Whether the row is of Pitot's domain: a scope, or a mark beside them. */
bool export_range(const struct export_view *v, uint32_t process, uint64_t row,
		  struct export_range *range);
/* Text of a path, "" of SCOPE_NONE; valid until the next one is made. */
const char *export_scope(struct export_view *v, uint32_t path, size_t *length);

/* Name of a thread; NULL when it has none. */
const char *export_thread_name(const struct export_view *v, uint32_t process, uint32_t thread,
			       size_t *length);

/* String id of a STRING column, 0 where it is missing. */
uint32_t export_string(const struct export_view *v, enum table_id table, int column, uint64_t row);
/* Its text, "" where it is missing. */
const char *export_text(const struct export_view *v, enum table_id table, int column, uint64_t row,
			size_t *length);

#endif
