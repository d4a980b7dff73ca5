/*
 * chrome_writer.h: what the parts of the Chrome JSON exporter share.
 *
 * A row is what a viewer draws as one line: a thread of a process, a stream of a GPU (GPUs are
 * processes here, with their number as pid). Intervals of one row must nest, and intervals of a
 * stream must not even overlap, as arrows would end at the wrong one; so a row that needs it has
 * further lanes, with thread ids of their own.
 */
#ifndef PITOT_EXPORT_CHROME_CHROME_WRITER_H
#define PITOT_EXPORT_CHROME_CHROME_WRITER_H

#include "base/json_text.h"
#include "export/event_records.h"
#include "export/export_merge.h"
#include "export/export_stacks.h"
#include "export/lanes.h"

enum row_kind {
	ROW_THREAD,
	ROW_STREAM, /* id: stream */
	ROW_SYNC, /* waits for a stream, or, NO_STREAM, for the context */
	ROW_RANGES, /* NVTX ranges around the work of a stream */
	ROW_EVENTS, /* CUDA events of a stream */
	ROW_OVERHEAD, /* id: thread */
	ROW_MEMORY, /* allocations of a process */
};

struct chrome_row {
	enum row_kind kind;
	uint32_t process, context, id;
	uint32_t pid;
	struct lanes lanes;
	VEC(uint32_t) tids; /* of the lanes that have been named */
	/* Of a stream: "device":0, … up to "correlation":, of a thread: ,"pid":1,"tid": */
	uint8_t arguments[112];
	uint8_t arguments_length;
};

struct chrome_rows {
	struct map contexts; /* process << 32 | context -> number */
	struct map index; /* kind << 60 | number or process << 32 | id -> position */
	VEC(struct chrome_row *) items;
	struct map tids; /* pid << 32 | tid that are taken */
	uint32_t free_tids; /* given to rows that cannot have their own */
	struct chrome_row *last_thread;
};

/*
 * What all executions of a configuration on a GPU, or all calls of a function, have in common, as
 * text.
 */
struct chrome_class {
	uint32_t head, head_length; /* {"ph":"X", … up to "tid":, of a call: up to the name */
	uint32_t tail,
		tail_length; /* ,"registers per thread": …, of a call: "cbid":1,"correlation": */
};

struct chrome_stack {
	uint32_t node; /* where it ends in the tree; 0: it is not in the recording */
	uint32_t caller, caller_length; /* of callers: ,"caller":"step (train.py:12)" */
};

struct chrome_stacks {
	struct export_stacks frames;
	struct map ids; /* process << 32 | stack -> position in items */
	VEC(struct chrome_stack) items;
	struct map nodes; /* parent << 32 | line -> node, from 1 */
	struct map caller_ids; /* frame -> offset << 32 | length */
	struct strbuf tree; /* members of "stackFrames" */
	struct strbuf callers;
};

struct chrome {
	struct export_view view;
	struct export_merge merge;
	struct strbuf out; /* text that is not yet handed to the file */
	uint64_t base_ns; /* what times are relative to */
	uint64_t end_ns; /* of what has been written */
	struct chrome_rows rows;
	struct event_records records;
	struct chrome_stacks stacks;
	struct map
		class_index; /* gpu << 32 | configuration, or CALL_CLASS | function -> position */
	VEC(struct chrome_class) classes;
	struct strbuf class_text;
	struct strbuf name; /* being made */
};

/* Kineto's sort index of that process; its pid there is -1, which is read as 0. */
#define OVERHEAD_PID 16777226u
#define CALL_CLASS (UINT64_C(1) << 63)
#define SYNC_TID 1000000u /* added to a stream's id, so that waits do not overlap with work */
#define NO_STREAM UINT32_MAX

/* --- chrome_rows.c --- */

void chrome_rows_release(struct chrome *c);
/*
 * A row, made when it is new; NULL without memory. context and gpu count for streams, waits and
 * events.
 */
struct chrome_row *chrome_row(struct chrome *c, enum row_kind kind, uint32_t process,
			      uint32_t context, uint32_t id, size_t gpu);
/*
 * The tid for an interval in a row, named when it is new. 0, -E2BIG or -ENOMEM, also where row is
 * NULL.
 */
int chrome_row_place(struct chrome *c, struct chrome_row *row, uint64_t start_ns, uint64_t end_ns,
		     uint32_t *tid) MUST_USE;

/* --- chrome_stacks.c --- */

/* Loads stacks, where calls have them. 0 or a negative code. */
int chrome_stacks_init(struct chrome *c, struct error *e) MUST_USE;
void chrome_stacks_release(struct chrome_stacks *s);
/* Stack of a call, NULL when it has none; valid until the next call. 0 or -ENOMEM. */
int chrome_stack(struct chrome *c, const struct export_event *event,
		 const struct chrome_stack **stack) MUST_USE;

/* --- chrome_events.c, chrome_work.c --- */

int chrome_event(struct chrome *c, const struct export_event *event) MUST_USE;
export_writer chrome_work, chrome_sync, chrome_gpu_range, chrome_cuda_event;

/* --- pieces of events --- */

static inline void text_time(const struct chrome *c, struct strbuf *s, uint64_t time_ns)
{
	text_us(s, time_ns > c->base_ns ? time_ns - c->base_ns : 0);
}

/* "pid":1,"tid":2,"ts":3.000 */
static inline void text_place(const struct chrome *c, struct strbuf *s, uint32_t pid, uint32_t tid,
			      uint64_t time_ns)
{
	TEXT(s, "\"pid\":");
	text_u64(s, pid);
	TEXT(s, ",\"tid\":");
	text_u64(s, tid);
	TEXT(s, ",\"ts\":");
	text_time(c, s, time_ns);
}

static inline void text_duration(struct strbuf *s, const struct export_event *event)
{
	TEXT(s, ",\"dur\":");
	text_us(s, event->end_ns - event->start_ns);
}

struct chrome_slice {
	const char *category, *name;
	size_t length; /* of the name */
	bool instant; /* at the event's start, beside what is nested on its row */
	uint32_t tid; /* set by chrome_slice_open */
};

static inline struct chrome_slice chrome_slice(const char *category, const char *name)
{
	return (struct chrome_slice){ .category = category, .name = name, .length = strlen(name) };
}

/* Opens an event on a row, up to its arguments. 0, -E2BIG or -ENOMEM, also where row is NULL. */
int chrome_slice_open(struct chrome *c, const struct export_event *event, struct chrome_row *row,
		      struct chrome_slice *slice) MUST_USE;
/* A slice that is called after the message of an NVTX range or mark. */
struct chrome_slice chrome_message_slice(const struct chrome *c, const char *category,
					 uint32_t process, uint64_t nvtx_row);

/* What a key of class_index stands for, filled by `fill` when it is new. NULL without memory. */
const struct chrome_class *chrome_class(struct chrome *c, uint64_t key,
					void fill(struct chrome *, struct chrome_class *,
						  uint64_t));
/* A metadata event; the value is a text, or, if that is NULL, a number. */
void chrome_metadata(struct chrome *c, const char *name, const char *key, uint32_t pid,
		     uint32_t tid, const char *text, size_t length, uint64_t number);

#endif
