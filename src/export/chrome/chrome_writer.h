/*
 * chrome_writer.h: declarations shared by the parts of the Chrome JSON exporter.
 *
 * A track is what a viewer draws as one line: a thread of a process, or a stream of a GPU (GPUs are
 * processes in this format, with their number as pid). Slices of one track must nest, and slices of
 * a stream must not even overlap, because arrows would end at the wrong slice. A track with
 * overlapping slices therefore gets further lanes, each with its own thread id.
 */
#ifndef PITOT_EXPORT_CHROME_CHROME_WRITER_H
#define PITOT_EXPORT_CHROME_CHROME_WRITER_H

#include "base/json_text.h"
#include "export/event_records.h"
#include "export/export_merge.h"
#include "export/export_stacks.h"
#include "base/lanes.h"

enum chrome_track_kind {
	CHROME_THREAD,
	CHROME_STREAM, /* id: stream */
	CHROME_SYNC, /* waits for a stream; with NO_STREAM, for the context */
	CHROME_RANGES, /* NVTX ranges around the work of a stream */
	CHROME_EVENTS, /* CUDA events of a stream */
	CHROME_OVERHEAD, /* id: thread */
	CHROME_MEMORY, /* allocations of a process */
};

struct chrome_track {
	struct lanes lanes;
	enum chrome_track_kind kind;
	uint32_t process, context, id;
	uint32_t pid;
	VEC(uint32_t) tids; /* of the lanes named so far */
	/* Constant text. Stream: "device":0, … up to "correlation":, thread: ,"pid":1,"tid": */
	uint8_t arguments[112];
	uint8_t arguments_length;
};

struct chrome_tracks {
	struct map contexts; /* process << 32 | context -> number */
	struct tracks all; /* key: kind << 60 | number or process << 32 | id */
	struct map tids; /* pid << 32 | tid -> 1 for tids in use */
	uint32_t free_tids; /* tids assigned so far to lanes without a tid of their own */
	struct chrome_track *last_thread;
};

/*
 * Constant JSON text of all launches of a kernel configuration on a GPU, or of all calls of a
 * function.
 */
struct chrome_class {
	uint32_t head, head_length; /* {"ph":"X", … up to "tid":, of a call: up to the name */
	/* ,"registers per thread": …, of a call: "cbid":1,"correlation": */
	uint32_t tail, tail_length;
};

struct chrome_stack {
	/* leaf of the stack in "stackFrames"; 0: the recording does not contain the stack */
	uint32_t node;
	/* in chrome_stacks.callers: ,"caller":"step (train.py:12)" */
	uint32_t caller, caller_length;
};

struct chrome_stacks {
	struct export_stacks frames;
	struct map ids; /* process << 32 | stack -> index into items */
	VEC(struct chrome_stack) items;
	struct map nodes; /* parent << 32 | line -> node, from 1 */
	struct map caller_ids; /* frame -> offset << 32 | length */
	struct strbuf tree; /* members of "stackFrames" */
	struct strbuf callers;
};

struct chrome {
	struct export_view view;
	struct export_merge merge;
	struct strbuf out; /* text not yet passed to the file */
	uint64_t base_ns; /* time 0 of the file */
	uint64_t end_ns; /* of the events written so far */
	struct chrome_tracks tracks;
	struct event_records records;
	struct chrome_stacks stacks;
	/* gpu << 32 | configuration, or CALL_CLASS | function -> index into classes */
	struct map class_index;
	VEC(struct chrome_class) classes;
	struct strbuf class_text;
	struct strbuf name; /* scratch buffer */
};

/* Kineto's sort index of its overhead process, whose pid there is -1, which is read as 0. */
#define OVERHEAD_PID 16777226u
#define CALL_CLASS (UINT64_C(1) << 63)
#define SYNC_TID 1000000u /* added to a stream's id, so that waits do not overlap work */
#define NO_STREAM UINT32_MAX

/* --- chrome_tracks.c --- */

void chrome_tracks_release(struct chrome *c);
/* Finds or creates a track; NULL if out of memory. context and gpu matter only for GPU tracks. */
struct chrome_track *chrome_track(struct chrome *c, enum chrome_track_kind kind, uint32_t process,
				  uint32_t context, uint32_t id, size_t gpu);
/*
 * Returns the tid for a slice on a track; names it if it is new. Returns 0, -E2BIG or -ENOMEM (also
 * if track is NULL).
 */
int chrome_track_add(struct chrome *c, struct chrome_track *track, uint64_t start_ns,
		     uint64_t end_ns, uint32_t *tid) MUST_USE;

/* --- chrome_stacks.c --- */

/* Loads the stacks if calls have any. Returns 0 or a negative code. */
int chrome_stacks_init(struct chrome *c, struct error *e) MUST_USE;
void chrome_stacks_release(struct chrome_stacks *s);
/* Sets *stack, valid until the next call, or NULL if the call has none. Returns 0 or -ENOMEM. */
int chrome_stack(struct chrome *c, const struct export_event *event,
		 const struct chrome_stack **stack) MUST_USE;

/* --- chrome_events.c, chrome_work.c --- */

int chrome_event(struct chrome *c, const struct export_event *event) MUST_USE;
export_writer chrome_work, chrome_sync, chrome_gpu_range, chrome_cuda_event;

/* Writes metrics of a kernel or range as members, each after a comma: CUPTI's names are keys. */
void chrome_metrics(struct chrome *c, enum table_id table, uint64_t first, unsigned rows);

/* --- parts of events --- */

static inline void text_time(const struct chrome *c, struct strbuf *s, uint64_t time_ns)
{
	text_us(s, time_ns > c->base_ns ? time_ns - c->base_ns : 0);
}

/* "pid":1,"tid":2,"ts":3.000 */
static inline void text_pid_tid_ts(const struct chrome *c, struct strbuf *s, uint32_t pid,
				   uint32_t tid, uint64_t time_ns)
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
	bool instant; /* drawn at the event's start, independent of the nesting on its track */
	uint32_t tid; /* set by chrome_slice_open */
};

static inline struct chrome_slice chrome_slice(const char *category, const char *name)
{
	return (struct chrome_slice){ .category = category, .name = name, .length = strlen(name) };
}

/*
 * Begins an event on a track, up to its arguments. Returns 0, -E2BIG or -ENOMEM (also if track is
 * NULL).
 */
int chrome_slice_open(struct chrome *c, const struct export_event *event,
		      struct chrome_track *track, struct chrome_slice *slice) MUST_USE;
/* Returns a slice named by the message of an NVTX range or mark. */
struct chrome_slice chrome_message_slice(const struct chrome *c, const char *category,
					 uint32_t process, uint64_t nvtx_row);

/* Returns the class of a key of class_index; `fill` sets a new one. NULL if out of memory. */
const struct chrome_class *chrome_class(struct chrome *c, uint64_t key,
					void fill(struct chrome *, struct chrome_class *,
						  uint64_t));
/* Writes a metadata event; its value is `text` or, if that is NULL, `number`. */
void chrome_metadata(struct chrome *c, const char *name, const char *key, uint32_t pid,
		     uint32_t tid, const char *text, size_t length, uint64_t number);

#endif
