/*
 * export_merge.h: iterates over the events of a recording by start time, across all processes and
 * tables.
 *
 * Each table is sorted within a process, so this is a heap merge of one cursor per process and
 * table. It skips rows that the options exclude; rows without a start or end time are skipped and
 * counted.
 */
#ifndef PITOT_EXPORT_EXPORT_MERGE_H
#define PITOT_EXPORT_EXPORT_MERGE_H

#include "base/vec.h"
#include "export/export_path.h"
#include "export/export_view.h"

/*
 * A scope or NVTX range as the GPU saw it. For each pushed range and each stream with work that was
 * launched inside the range (at any depth, on any thread that continues it), this is the time from
 * the start of the first such work to the end of the last.
 */
struct gpu_range {
	uint64_t start_ns, end_ns;
	uint32_t range; /* index into nvtx_ranges */
	uint32_t nvtx_row; /* row of table nvtx that pushed the range */
	uint32_t process, context, stream, device;
};

struct gpu_ranges {
	/* sorted by start; an enclosing range precedes the ranges inside it */
	VEC(struct gpu_range) items;
};

/* Returns 0 or -ENOMEM. */
int gpu_ranges_init(struct gpu_ranges *g, const struct export_view *v) MUST_USE;
void gpu_ranges_release(struct gpu_ranges *g);

/*
 * Events that start at the same time are sorted by kind, so that an enclosing event precedes the
 * events inside it.
 */
enum event_kind {
	EVENT_LOSS,
	EVENT_PATH, /* a piece of the critical path, if the options want it */
	EVENT_RANGE_VALUES, /* of a measured range that no other event shows */
	EVENT_NVTX,
	EVENT_CALL,
	EVENT_OVERHEAD,
	EVENT_ALLOCATION,
	EVENT_SYNC,
	EVENT_GPU_RANGE,
	EVENT_WORK, /* one value per enum gpu_work, in the same order */
	EVENT_KERNEL = EVENT_WORK + GPU_WORK_kernel,
	EVENT_MEMCPY = EVENT_WORK + GPU_WORK_memcpy,
	EVENT_MEMSET = EVENT_WORK + GPU_WORK_memset,
	EVENT_GRAPH = EVENT_WORK + GPU_WORK_graph_launch,
	EVENT_CUDA_EVENT = EVENT_WORK + GPU_WORK_KINDS,
	EVENT_COUNTER,
	EVENT_CPU_SAMPLE, /* this kind and the next need export_view.with_samples */
	EVENT_OFF_CPU,
	EVENT_KINDS,
};

struct export_event {
	enum event_kind kind;
	uint32_t process;
	/* of the event's table; losses, the path, GPU ranges: index into the merge's array */
	uint64_t row;
	uint64_t start_ns, end_ns; /* start_ns <= end_ns */
	/* false: an NVTX range without an end; end_ns is the end of its process's recording */
	bool finished;
	uint32_t gpu; /* GPU work, EVENT_SYNC, EVENT_CUDA_EVENT: index of the view's gpus */
};

struct event_cursor;

struct export_merge {
	struct export_view *view;
	struct event_cursor *cursors; /* including exhausted ones */
	uint32_t *heap; /* indexes of cursors that have rows left, ordered by next start */
	size_t heap_count;
	uint64_t done, total; /* in rows */
	uint64_t next_report;
	struct trace_loss *losses; /* sorted by start */
	struct export_path path; /* empty unless the options want it */
	uint64_t *loss_ns, *range_ns, *path_ns; /* starts, then ends */
	struct gpu_ranges gpu_ranges;
};

/*
 * Appends the name of GPU work other than a kernel with a known name: a copy is named by its memory
 * kinds, work of any other table by its label column.
 */
void event_name(struct strbuf *out, const struct trace *t, const struct export_event *event);

/* Returns the table of an event kind; for EVENT_GPU_RANGE the table of NVTX ranges. */
enum table_id event_table(enum event_kind kind);
/* Returns the columns of a kind that is GPU work or EVENT_SYNC. */
static inline const struct event_columns *event_work(const struct export_view *v,
						     enum event_kind kind)
{
	return &v->work[kind == EVENT_SYNC ? WORK_SYNC : kind - EVENT_WORK];
}

/* Also loads the losses. Returns 0 or a negative code. */
int export_merge_init(struct export_merge *m, struct export_view *v, struct error *e) MUST_USE;
void export_merge_release(struct export_merge *m);
/*
 * Writes one event in an exporter's format. Returns 0; EXPORT_UNCOUNTED if the event has no
 * counterpart of its own in the format; -E2BIG if too many events overlap; or -ENOMEM.
 */
typedef int export_writer(void *exporter, const struct export_event *event);
#define EXPORT_UNCOUNTED 1
/* Calls the writer of the event's kind, if any, and counts the event. Returns 0 or -ENOMEM. */
int export_event_write(struct export_view *v, export_writer *const writers[EVENT_KINDS],
		       void *exporter, const struct export_event *event) MUST_USE;

/*
 * Call after the last event with the result of export_merge_next. Returns 0, -ENODATA if no event
 * but losses was written, or r if it is negative.
 */
int export_merge_end(const struct export_merge *m, int r, struct error *e);

/* Returns 1 and the next event, 0 at the end, or -ECANCELED. Reports progress. */
int export_merge_next(struct export_merge *m, struct export_event *event);

#endif
