/*
 * export_merge.h: the events of a recording in the order in which they started, over all processes
 * and tables.
 *
 * The tables are in order within a process, so this is a merge of cursors in a heap. Rows that the
 * options leave out do not come; rows without their times are left out and counted.
 */
#ifndef PITOT_EXPORT_EXPORT_MERGE_H
#define PITOT_EXPORT_EXPORT_MERGE_H

#include "base/vec.h"
#include "export/export_view.h"

/*
 * Scopes and NVTX ranges as the GPU saw them: for each pushed range and each stream with work that
 * was launched inside it (at any depth, on any thread that carries it on), the time from the start
 * of the first such work to the end of the last.
 */
struct gpu_range {
	uint64_t start_ns, end_ns;
	uint32_t range; /* of nvtx_ranges */
	uint32_t nvtx_row; /* that pushed it */
	uint32_t process, context, stream, device;
};

struct gpu_ranges {
	VEC(struct gpu_range) items; /* by start; what encloses before what is enclosed */
};

int gpu_ranges_init(struct gpu_ranges *g, const struct export_view *v) MUST_USE; /* 0 or -ENOMEM */
void gpu_ranges_release(struct gpu_ranges *g);

/*
 * Events that start at the same time come in the order of their kinds: what encloses before what is
 * enclosed.
 */
enum event_kind {
	EVENT_LOSS,
	EVENT_NVTX,
	EVENT_CALL,
	EVENT_OVERHEAD,
	EVENT_ALLOCATION,
	EVENT_SYNC,
	EVENT_GPU_RANGE,
	EVENT_WORK, /* one for each enum gpu_work, in that order */
	EVENT_KERNEL = EVENT_WORK + GPU_WORK_kernel,
	EVENT_MEMCPY = EVENT_WORK + GPU_WORK_memcpy,
	EVENT_MEMSET = EVENT_WORK + GPU_WORK_memset,
	EVENT_GRAPH = EVENT_WORK + GPU_WORK_graph_launch,
	EVENT_CUDA_EVENT = EVENT_WORK + GPU_WORK_KINDS,
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
	uint32_t *heap; /* indexes of cursors that have rows left, by next start */
	size_t heap_count;
	uint64_t done, total; /* rows */
	uint64_t next_report;
	struct trace_loss *losses; /* by start */
	uint64_t *loss_start_ns, *loss_end_ns;
	struct gpu_ranges gpu_ranges;
	uint64_t *range_start_ns, *range_end_ns;
};

/* Table of a kind of event; of EVENT_GPU_RANGE the table of ranges. */
enum table_id event_table(enum event_kind kind);
/* The columns of an event's row: of work on a GPU, or EVENT_SYNC. */
static inline const struct event_columns *event_work(const struct export_view *v,
						     enum event_kind kind)
{
	return &v->work[kind == EVENT_SYNC ? WORK_SYNC : kind - EVENT_WORK];
}

/* Loads the losses. 0 or a negative code. */
int export_merge_init(struct export_merge *m, struct export_view *v, struct error *e) MUST_USE;
void export_merge_release(struct export_merge *m);
/*
 * What an exporter has for an event. 0; EXPORT_UNCOUNTED where it is no event of its own there;
 * -E2BIG where too many events overlap; -ENOMEM.
 */
typedef int export_writer(void *exporter, const struct export_event *event);
#define EXPORT_UNCOUNTED 1
/* Calls the writer for the event's kind, if there is one, and counts what it did. 0 or -ENOMEM. */
int export_event_write(struct export_view *v, export_writer *const writers[EVENT_KINDS],
		       void *exporter, const struct export_event *event) MUST_USE;

/*
 * After the last event, with what export_merge_next returned: 0, -ENODATA where not one was
 * written, or that negative code.
 */
int export_merge_end(const struct export_merge *m, int r, struct error *e);

/* 1 and the next event, 0 at the end, -ECANCELED. Reports progress. */
int export_merge_next(struct export_merge *m, struct export_event *event);

#endif
