/*
 * export_merge.h: the events of a recording in the order in which they started, over all processes and tables.
 *
 * The tables are in order within a process, so this is a merge of cursors in a heap. Rows that the options leave out do
 * not come; rows without their times are left out and counted.
 */
#ifndef PITOT_EXPORT_EXPORT_MERGE_H
#define PITOT_EXPORT_EXPORT_MERGE_H

#include "export/gpu_ranges.h"

/* Of events that start at the same time, those of the smaller kind come first: what encloses before what is enclosed. */
enum event_kind {
	EVENT_LOSS,
	EVENT_NVTX,
	EVENT_CALL,
	EVENT_OVERHEAD,
	EVENT_ALLOCATION,
	EVENT_SYNC,
	EVENT_GPU_RANGE,
	EVENT_KERNEL,
	EVENT_MEMCPY,
	EVENT_MEMSET,
	EVENT_GRAPH,
	EVENT_CUDA_EVENT,
	EVENT_COUNTER,
	EVENT_CPU_SAMPLE, /* these two only where the view has them */
	EVENT_OFF_CPU,
	EVENT_KINDS,
};

struct export_event {
	enum event_kind kind;
	uint32_t process;
	uint64_t row; /* in the table; EVENT_LOSS, EVENT_GPU_RANGE: in the merge's own array */
	uint64_t start_ns, end_ns; /* start <= end */
	bool finished; /* an NVTX range that never ended ends with its process's recording */
};

struct event_cursor;

struct export_merge {
	struct export_view *view;
	struct event_cursor *cursors; /* all */
	uint32_t *heap; /* indexes of those that have rows left, by next start */
	size_t heap_count;
	uint64_t done, total; /* rows */
	uint64_t next_report;
	struct trace_loss *losses; /* by start */
	uint64_t *loss_start_ns, *loss_end_ns;
	struct gpu_ranges gpu_ranges;
	uint64_t *range_start_ns, *range_end_ns;
};

/* EVENT_GPU_RANGE: that of the ranges. */
enum table_id event_table(enum event_kind kind);
/* Work kind of an event: EVENT_KERNEL … EVENT_GRAPH, EVENT_SYNC. */
enum work_kind event_work(enum event_kind kind);

/* Loads the losses. 0 or a negative code. */
int export_merge_init(struct export_merge *m, struct export_view *v, struct error *e) MUST_USE;
void export_merge_release(struct export_merge *m);
/* 1 and the next event, 0 at the end, -ECANCELED. Reports progress. */
int export_merge_next(struct export_merge *m, struct export_event *event);

#endif
