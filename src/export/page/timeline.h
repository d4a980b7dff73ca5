/*
 * timeline.h: declarations shared by the parts of the timeline page's exporter.
 *
 * A track is a named line of the page: a stream, a thread, a counter. Its slices are distributed
 * over rows so that the slices of a row do not overlap; the page finds the visible ones by binary
 * search. A row consists of columns of bytes:
 *
 *	gap, duration	ns from the end of the previous slice (of the first one: from the page's
 *			base), and of the slice
 *	class		properties shared by many slices: index into `classes`
 *	correlation	0: none; else 1 + zigzag of the difference to the row's previous one
 *
 * all unsigned LEB128. Rows of counters have the gaps between samples, and doubles. The page
 * contains all columns concatenated, compressed with gzip, as base64; their lengths in bytes are in
 * its JSON:
 *
 *	{"title","host","start_unix_ns","base_ns","duration_ns",
 *	 "window":[from, to],
 *	 "cpu_samples","notes":[],
 *	 "loss_effect":"none","loss":[[process, reason, count, detail, text after the count],…],
 *	 "kinds":[table,…],"groups":[[name, detail],…],
 *	 "tracks":[[group, kind, name, id, [[lane, depth, slices, bytes of each column…],…],
 *	  {"unit","meaning","kind","order","states":[]}],…],
 *	 "collectives":[[track, row, slice, ns that it waited for the last rank, …],…],
 *	 "classes":[[kind, name, {detail},…],…],"nodes":[[parent, frame],…]}
 *
 * The kind of a class is an index into `kinds`. A class with the index of another class in place of
 * its name adds details to that class. CPU samples of a thread are a flame chart: their slices are
 * frames, in lane 1, by depth; lane 0 has the times off the CPU. `order` sorts the counters of a
 * group; `states` names the bits of a counter of kind "bits". A detail "stack" is an index into
 * `nodes`, the frames of stacks, from 1; parent 0: outermost.
 */
#ifndef PITOT_EXPORT_PAGE_TIMELINE_H
#define PITOT_EXPORT_PAGE_TIMELINE_H

#include "base/json.h"
#include "export/collective_links.h"
#include "export/export_merge.h"
#include "export/export_stacks.h"
#include "base/lanes.h"

/* Embedded from src/export/page/ by cmake/PitotEmbed.cmake. */
extern const char timeline_css[], timeline_data_js[], timeline_draw_js[], timeline_panels_js[],
	timeline_input_js[], timeline_served_js[], timeline_whole_js[], page_search_js[],
	page_elements_js[];

/* In the order in which a group shows them; K(NAME, its word in JSON). */
#define TRACK_KINDS(K)                                                                             \
	K(LOSS, "loss")                                                                            \
	K(PATH, "path")                                                                            \
	K(STREAM_RANGES, "ranges")                                                                 \
	K(STREAM, "stream")                                                                        \
	K(EVENTS, "events")                                                                        \
	K(THREAD, "thread")                                                                        \
	K(CPU, "cpu")                                                                              \
	K(RANGES, "ranges")                                                                        \
	K(SYNC, "sync")                                                                            \
	K(MEMORY, "memory")                                                                        \
	K(OVERHEAD, "overhead")                                                                    \
	K(LEVEL, "counter") /* of memory */                                                        \
	K(COUNTER, "counter")
#define TRACK_KIND(name, word) TIMELINE_##name,
enum timeline_track_kind { TRACK_KINDS(TRACK_KIND) };

enum timeline_column { COLUMN_GAP, COLUMN_DURATION, COLUMN_CLASS, COLUMN_CORRELATION, ROW_COLUMNS };

/* Where a kernel of a collective is on the page. */
struct timeline_member {
	uint32_t track, row; /* row: position, plus 1; 0: not on the page */
	uint64_t slice;
};

/*
 * Slices of a row that follow each other, of a timeline that is served: where their bytes begin,
 * and what is shown of them where they are narrower than a pixel.
 */
#define BLOCK_SLICES 64u
struct timeline_block {
	uint64_t start_ns, end_ns; /* of the first and the last slice */
	uint64_t busy_ns; /* sum of durations */
	uint64_t longest_ns;
	uint64_t before_ns, before_correlation; /* what its first slice is stored relative to */
	uint64_t least_correlation, most_correlation; /* 0: none; UINT64_MAX, 0: none has one */
	uint64_t at[4]; /* per column */
	uint32_t count, class; /* class: of the longest one */
};

struct timeline_row {
	uint32_t lane, depth;
	uint64_t count, end_ns, correlation; /* of the last slice */
	struct strbuf columns[ROW_COLUMNS];
	VEC(struct timeline_block) blocks; /* in order of time */
};
_Static_assert(ROW_COLUMNS == 4, "struct timeline_block has a position in each column");

/* A frame of the flame chart of CPU samples whose end is not known yet. */
struct timeline_frame {
	uint32_t node; /* from 1 */
	uint64_t start_ns;
};

struct timeline_track {
	struct lanes lanes;
	uint32_t number; /* position in the page */
	enum timeline_track_kind kind;
	uint32_t group; /* a GPU, or after all GPUs a process */
	uint32_t process, context;
	uint32_t id; /* stream, thread, or row of table counter */
	VEC(struct timeline_row) rows;
	size_t last_row; /* of the slice that was added last */
	VEC(struct timeline_frame) open; /* of the last CPU sample, outermost first */
	uint64_t sampled_ns; /* time of the last CPU sample */
};

/* A node of the stacks: a frame below its callers. */
struct timeline_node {
	uint32_t parent, frame, line;
	uint32_t depth; /* 0: outermost */
	uint32_t shown; /* innermost node on the way to this one that a flame chart shows */
	int64_t class; /* of the frame's slices; -1: none yet */
};

/* A row of table stack_node on the way to the outermost frame. */
struct timeline_climb {
	uint64_t key; /* row, whether a Python frame is further in, and the stack's end */
	uint32_t expansion;
	bool hidden; /* code of the interpreter */
};

struct timeline {
	struct export_view view;
	struct export_merge merge;
	bool is_served; /* rows have blocks */
	uint64_t instance; /* of what is served: parts of another one do not fit the page */
	struct strbuf out; /* text not yet passed to the file */
	struct strbuf text, name; /* scratch buffers */
	uint64_t base_ns, end_ns; /* of the exported events */
	uint64_t span_end_ns; /* of the recording */
	struct map contexts; /* process << 32 | context -> number */
	struct tracks tracks; /* key: kind << 60 | owner << 32 | id */
	struct interner classes, nodes; /* JSON of each */
	struct map kernels, calls; /* configuration -> class; function << 32 | node -> class */
	struct map row_nodes; /* key of struct timeline_climb -> node */
	VEC(struct timeline_node) node_list; /* in the order of `nodes` */
	VEC(struct timeline_climb) climb; /* scratch */
	struct export_stacks stacks;
	struct collective_links links;
	struct timeline_member *members; /* parallel to links.items */
};

/* --- timeline_page.c --- */

/* Prepares *t, which is zeroed, and adds all events. Returns 0 or a negative code. */
int timeline_init(struct timeline *t, struct trace *trace, const struct export_options *options,
		  struct export_result *result, struct error *e) MUST_USE;
void timeline_release(struct timeline *t);
/* Appends the page; one that is served asks for its slices itself. Returns 0 or -ENOMEM. */
int timeline_render(struct timeline *t) MUST_USE;
/* Returns which slice of its row a member is; UINT64_MAX: it is not shown. */
typedef uint64_t timeline_place(void *user, const struct timeline_member *m);
/* Appends "collectives"; see the head of this file. `place` NULL: all are shown. */
void timeline_add_collectives(const struct timeline *t, timeline_place *place, void *user,
			      struct json *j);

/* --- timeline_rows.c --- */

/* Finds or creates a track; NULL if out of memory. context and gpu matter only for GPU tracks. */
struct timeline_track *timeline_track(struct timeline *t, enum timeline_track_kind kind,
				      uint32_t process, uint32_t context, uint32_t id, size_t gpu);
/*
 * Adds a slice; correlation 0: none. Returns 0, -E2BIG if too many slices overlap, or -ENOMEM (also
 * if track is NULL).
 */
int timeline_slice(struct timeline *t, struct timeline_track *track,
		   const struct export_event *event, int64_t class, uint64_t correlation) MUST_USE;
/* Adds a slice to a given row. Returns 0, -E2BIG if it ends before the row, or -ENOMEM. */
int timeline_put(struct timeline *t, struct timeline_track *track, uint32_t lane, size_t depth,
		 uint64_t start_ns, uint64_t end_ns, int64_t class) MUST_USE;
/* Adds a counter sample. Returns 0 or -ENOMEM. */
int timeline_reading(struct timeline *t, struct timeline_track *track, uint64_t time_ns,
		     double value) MUST_USE;
void timeline_rows_release(struct timeline *t);

/* Appends a name such as "stream 7 context 1 (python 4711)". */
void timeline_track_name(const struct timeline *t, const struct timeline_track *track,
			 struct strbuf *out);
const char *timeline_track_word(enum timeline_track_kind kind);

/* --- timeline_stacks.c --- */

/* Returns the node of the innermost frame of a call's stack; 0: none; or -ENOMEM. */
int64_t timeline_call_node(struct timeline *t, const struct export_event *event);
/* Add a CPU sample or a time off the CPU. Return like timeline_slice. */
int timeline_cpu_sample(void *exporter, const struct export_event *event);
int timeline_off_cpu(void *exporter, const struct export_event *event);
/* Ends the frames that the last samples left open. Returns 0 or -ENOMEM. */
int timeline_samples_finish(struct timeline *t) MUST_USE;

/* --- timeline_events.c --- */

/* Classes are JSON, built in t->text: [kind, name, {. */
struct json timeline_class(struct timeline *t, enum event_kind kind, const char *name,
			   size_t length);
/* Closes the class and returns its number, or -ENOMEM. */
int64_t timeline_class_end(struct timeline *t, struct json *j);

/* Returns 0 or -ENOMEM. */
int timeline_event(struct timeline *t, const struct export_event *event) MUST_USE;

#endif
