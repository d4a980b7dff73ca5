/*
 * kineto.h: converts Chrome trace JSON, as torch.profiler (Kineto), Pitot, JAX and Intel's unitrace
 * write it, to a process of a recording. Times become nanoseconds since the epoch, from the decimal
 * text. GPU work is written as it is read; ranges, Python functions and calls wait until the end,
 * 32 bytes each, because a file has them in no order.
 */
#ifndef PITOT_IMPORT_KINETO_KINETO_H
#define PITOT_IMPORT_KINETO_KINETO_H

#include "base/json_pull.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"
#include "import/import_files.h"
#include "stack/stack_tree.h"

/* Members of an event, and of its "args": F(id, name). */
#define KINETO_MEMBERS(F)                                                                          \
	F(PH, "ph")                                                                                \
	F(CAT, "cat")                                                                              \
	F(NAME, "name")                                                                            \
	F(PID, "pid")                                                                              \
	F(TID, "tid")                                                                              \
	F(TS, "ts")                                                                                \
	F(DUR, "dur")                                                                              \
	F(FLOW, "id")
#define KINETO_ARGUMENTS(F)                                                                        \
	F(EXTERNAL, "External id")                                                                 \
	F(CORRELATION, "correlation")                                                              \
	F(DEVICE, "device")                                                                        \
	F(CONTEXT, "context")                                                                      \
	F(STREAM, "stream")                                                                        \
	F(GRID, "grid")                                                                            \
	F(BLOCK, "block")                                                                          \
	F(REGISTERS, "registers per thread")                                                       \
	F(SHARED, "shared memory")                                                                 \
	F(BYTES, "bytes")                                                                          \
	F(GRAPH, "graph id")                                                                       \
	F(GRAPH_NODE, "graph node id")                                                             \
	F(CHANNEL, "channel")                                                                      \
	F(CHANNEL_TYPE, "channel_type")                                                            \
	F(PRIORITY, "priority")                                                                    \
	F(CBID, "cbid")                                                                            \
	F(CID, "cid")                                                                              \
	F(SIZE, "size")                                                                            \
	F(KIND, "kind")                                                                            \
	F(FROM_DEVICE, "fromDevice")                                                               \
	F(IN_DEVICE, "inDevice")                                                                   \
	F(TO_DEVICE, "toDevice")                                                                   \
	F(FROM_CONTEXT, "fromContext")                                                             \
	F(IN_CONTEXT, "inContext")                                                                 \
	F(TO_CONTEXT, "toContext")                                                                 \
	F(WAIT_STREAM, "wait_on_stream")                                                           \
	F(WAIT_EVENT, "wait_on_cuda_event_id")                                                     \
	F(WAIT_RECORD, "wait_on_cuda_event_record_corr_id")                                        \
	F(EVENT, "event_id")                                                                       \
	F(ADDRESS, "Addr")                                                                         \
	F(ALLOCATED_BYTES, "Bytes")                                                                \
	F(TOTAL_ALLOCATED, "Total Allocated")                                                      \
	F(TOTAL_RESERVED, "Total Reserved")                                                        \
	F(DEVICE_TYPE, "Device Type")                                                              \
	F(DEVICE_ID, "Device Id")                                                                  \
	F(CALL_STACK, "Call stack")                                                                \
	F(ARG_NAME, "name")                                                                        \
	F(ARG_ID, "id")                                                                            \
	F(CORRELATION_ID, "correlation_id")                                                        \
	F(KERNEL_DETAILS, "kernel_details")                                                        \
	F(COLLECTIVE, "Collective name")                                                           \
	F(IN_ELEMENTS, "In msg nelems")                                                            \
	F(OUT_ELEMENTS, "Out msg nelems")                                                          \
	F(DATATYPE, "dtype")                                                                       \
	F(GROUP_NAME, "Process Group Name")                                                        \
	F(GROUP_RANKS, "Process Group Ranks")                                                      \
	F(GROUP_SIZE, "Group size")                                                                \
	F(SEQUENCE, "Seq")
#define KINETO_FIELD(id, name) KINETO_##id,
enum kineto_field {
	KINETO_MEMBERS(KINETO_FIELD) KINETO_MEMBERS_END,
	KINETO_BEFORE_ARGUMENTS = KINETO_MEMBERS_END - 1,
	KINETO_ARGUMENTS(KINETO_FIELD) KINETO_FIELDS
};
#define KINETO_OTHERS 64 /* further arguments with a number */

/* An event; the texts of its fields are in `text`, each with a NUL. */
struct kineto_event {
	struct strbuf text;
	uint64_t has, strings; /* bits: fields that are there, and that were in quotes */
	size_t at[KINETO_FIELDS];
	uint32_t sizes[2][3]; /* grid, block */
	struct {
		size_t key, value;
	} others[KINETO_OTHERS];
	size_t other_count;
	uint64_t start_ns, end_ns;
	bool has_end;
};

enum kineto_kind { KINETO_RANGE, KINETO_PYTHON, KINETO_CALL, KINETO_UNTIMED };
#define KINETO_DEVICES 64u
#define KINETO_ABSOLUTE_NS UINT64_C(100000000000000000) /* earlier times are not since the epoch */
/* Threads, contexts, functions, counters and so on, of each kind; further ones have no room. */
#define KINETO_KINDS_MAX 16000u
#define KINETO_WORK_MAX ((size_t)1 << 25) /* that can wait for its calls */
#define KINETO_NAMES_MAX (1u << 24)
#define KINETO_CATEGORIES_MAX 64u

struct kineto_span {
	uint64_t start_ns, end_ns;
	uint64_t id; /* of a call: correlation id; of a range: External id */
	uint32_t name : 24, category : 6, kind : 2; /* name: in `texts`; of a call: its function */
};

struct kineto_thread {
	uint32_t tid;
	VEC(struct kineto_span) spans;
};

/* A range that has begun. */
struct kineto_begun {
	struct kineto_span span;
	uint64_t before; /* item + 1 of the one that began before it with its key; 0: none */
	uint32_t tid;
	bool has_ended;
};

/* GPU work whose call has not been found. */
struct kineto_work {
	uint64_t correlation, external, start_ns, count;
};

/* What calls tell about their work: AMD's rows of the GPU lack it. */
struct kineto_launch {
	uint32_t sizes[2][3];
	uint64_t bytes;
};

/* What is counted of all files, with its words for one and for many. */
#define KINETO_COUNTS(F)                                                                           \
	F(EVENTS, "event", "events")                                                               \
	F(WORK, "item of GPU work", "items of GPU work")                                           \
	F(JOINED, "joined with its call", "joined with their calls")                               \
	F(PLACED, "placed into its operator", "placed into their operators")                       \
	F(UNLINKED, "without any origin", "without any origin")                                    \
	F(CALLS, "call", "calls")                                                                  \
	F(IN_OPERATORS, "inside of an operator", "inside of operators")                            \
	F(STACKS, "with a stack", "with a stack")                                                  \
	F(FLOWS, "flow", "flows")                                                                  \
	F(DERIVED, "GPU row that repeats other rows", "GPU rows that repeat other rows")           \
	F(DUPLICATES, "exact duplicate", "exact duplicates")                                       \
	F(MARKERS, "name or marker", "names and markers")                                          \
	F(UNKNOWN, "event of an unknown kind", "events of unknown kinds")                          \
	F(UNPAIRED, "end of a range that never began", "ends of ranges that never began")          \
	F(UNTIMED, "event without a usable time", "events without usable times")                   \
	F(DAMAGED, "value that cannot be", "values that cannot be")                                \
	F(SHORTENED, "range ended with the one around it", "ranges ended with those around them")  \
	F(CROSSING, "range that does not nest", "ranges that do not nest")                         \
	F(UNENDED, "range that did not end", "ranges that did not end")                            \
	F(NO_ROOM, "name or range without room", "names and ranges without room")
#define KINETO_COUNT(id, one, many) KINETO_##id##_COUNT,
enum kineto_count { KINETO_COUNTS(KINETO_COUNT) KINETO_COUNTERS };

struct kineto_totals {
	uint64_t counts[KINETO_COUNTERS];
};

/* A file, which becomes a process. */
struct kineto {
	struct import_files *files;
	const struct import_options *options;
	const struct import_format *format;
	bool is_torch;
	char broken[160]; /* why not all of it could be read; "": all was */
	struct import_result *result;
	struct input *input;
	const char *path;
	struct error *error;
	struct json_pull json;
	struct writer *writer;
	struct kineto_event event;
	struct strbuf scratch;
	uint64_t unflushed_bytes; /* of the text */
	bool at_end; /* of the text */

	uint64_t session;
	uint64_t base_ns; /* of time stamps, since the epoch */
	bool has_base; /* or needs none */
	uint64_t first_ns, last_ns, spans_ns[2]; /* of the events; of the profiler's window */
	int64_t rank, ranks; /* -1: unknown */
	uint32_t pid, driver_version;
	char name[128], host[128];
	struct row_device gpus[KINETO_DEVICES]; /* name: in `texts` */
	uint64_t known_gpus; /* bits */

	struct interner texts; /* of names and Python frames */
	uint32_t categories[KINETO_CATEGORIES_MAX], category_count; /* texts */
	struct map threads; /* tid -> index */
	VEC(struct kineto_thread) all_threads;
	uint64_t span_count, thread_names;
	struct map functions; /* text of a name -> id in api_function */
	struct map function_ids; /* those that are taken */
	struct map call_stacks; /* External id -> text of "Call stack" */
	struct map launches; /* correlation id -> index */
	VEC(struct kineto_launch) all_launches;
	struct map work; /* correlation id -> index + 1; removed when its call is found */
	VEC(struct kineto_work) all_work;
	struct map collectives; /* correlation id -> index of one that waits for its call */
	VEC(struct row_collective) all_collectives;
	struct map groups; /* hash of a process group -> id in communicator */
	struct map sequences; /* hashes of group, function and number of collectives */
	struct map seen; /* hashes of GPU work */
	struct map begun; /* key of a range -> item + 1 of the last one that has begun */
	VEC(struct kineto_begun) all_begun;
	uint64_t used_gpus; /* bits */
	struct map contexts, counters, metrics, event_records;
	struct map gpu_pids,
		gpu_rows; /* processes and threads that are GPUs', of JAX and unitrace */
	struct stack_tree stacks;

	uint64_t rows[TABLE_END]; /* written, by table */
	uint64_t counts[KINETO_COUNTERS];
	bool lacks_context, lacks_device, has_sizes;
};

/* Reads the file, up to where it is broken. */
typedef int kineto_reader(struct kineto *k);
/* Makes a process of a file. Returns -ENODATA if there is nothing, or another negative code. */
int kineto_session(struct import_files *files, struct input *in, const char *path,
		   kineto_reader *read, struct error *e) MUST_USE;
/* An importer's run() by such a format: reads its files and notes what became of them. */
int kineto_read_all(const struct import_format *format, struct import_source *source,
		    const struct import_options *options, const char *directory,
		    struct import_result *result, struct error *e);
/*
 * Defines <name>_sniff() and <name>_run(): `title` and `part` are members of struct import_format,
 * `sniff_head` sniffs an input, and `reader` reads a file.
 */
#define KINETO_IMPORTER(name, title, part, sniff_head, reader)                                     \
	static int read_session(struct import_files *files, struct input *in, const char *path,    \
				struct error *e)                                                   \
	{                                                                                          \
		return kineto_session(files, in, path, reader, e);                                 \
	}                                                                                          \
	static const struct import_format format = { title, part, sniff_head, read_session };      \
	int name##_sniff(const struct import_source *source)                                       \
	{                                                                                          \
		return import_files_sniff(&format, source);                                        \
	}                                                                                          \
	int name##_run(struct import_source *source, const struct import_options *options,         \
		       const char *directory, struct import_result *result, struct error *e)       \
	{                                                                                          \
		return kineto_read_all(&format, source, options, directory, result, e);            \
	}
/* Reads the text of the file, for parsers (json_pull, xml_pull). */
ssize_t kineto_read_text(void *kineto, void *bytes, size_t size);
/*
 * Hands the result of reading a text on, with its error. What is broken has been read up to there:
 * the rest is a loss, and the result is 0.
 */
int kineto_end_text(struct kineto *k, int rc, const struct error *why);
/* Writes what the writer has. */
int kineto_flush(struct kineto *k) MUST_USE;

/* Reads the event whose object has been opened. Returns 0 or a negative code. */
int kineto_read_event(struct kineto *k) MUST_USE;
const char *kineto_field_name(enum kineto_field field);
/* The text of a field, "" if it is not there. */
const char *kineto_text(const struct kineto *k, enum kineto_field field);
/* Whether the field is an integer that fits; false, and counted, if it is something else. */
bool kineto_u64(struct kineto *k, enum kineto_field field, uint64_t *value);
bool kineto_u32(struct kineto *k, enum kineto_field field, uint32_t *value);
static inline bool kineto_has(const struct kineto *k, enum kineto_field field)
{
	return k->event.has >> field & 1;
}
/* A column, and the field that has its value. */
struct kineto_argument {
	uint8_t field, column;
	bool or_0; /* 0 stands for a missing value */
};
#define KINETO_ARGUMENT(table, column, field, or_0)                                                \
	{                                                                                          \
		KINETO_##field, COLUMN_##table##_##column, or_0                                    \
	}
/* Sets the row to the values that the event has; all others are missing. */
void kineto_fill(struct kineto *k, enum table_id table, const struct kineto_argument *arguments,
		 size_t count, void *row);
/* Microseconds as decimal text, in nanoseconds, rounded. */
bool kineto_time(const char *text, int64_t *ns);

/* Converts the event that has been read. */
void kineto_add_event(struct kineto *k);
void kineto_append(struct kineto *k, enum table_id table, const void *row);
/* Returns the number of a text, from 1; 0 if there is no room. */
uint32_t kineto_intern(struct kineto *k, const char *text, size_t length);
void kineto_add_span(struct kineto *k, uint32_t tid, const struct kineto_span *span);
/*
 * Begins and ends a range of a thread by two events with a common key, of which the last one that
 * began ends first. Returns 0 or -ENOMEM.
 */
int kineto_begin_range(struct kineto *k, uint64_t key, uint32_t tid,
		       const struct kineto_span *span) MUST_USE;
void kineto_end_range(struct kineto *k, uint64_t key, uint64_t end_ns);
/* Ends those that have no end with the file. */
void kineto_end_ranges(struct kineto *k);
/* Whether the event has a start and, if `span`, an end; counts it if not. */
bool kineto_has_times(struct kineto *k, bool span);
/* Marks a value of a row of which all values are missing as present, if the condition holds. */
#define PRESENT(row, table, column, condition)                                                     \
	((row)->missing &= ~((uint64_t)((condition) != 0) << COLUMN_##table##_##column))

/* A Unix time as that of the recording. */
static inline uint64_t kineto_own_time(const struct kineto *k, uint64_t unix_ns)
{
	const struct import_target *into = k->options->into;

	return into ? unix_ns - MIN(into->unix_offset_ns, unix_ns) : unix_ns;
}

/* Extends the time of the process. */
static inline void kineto_extend(struct kineto *k, uint64_t start_ns, uint64_t end_ns)
{
	k->first_ns = k->first_ns ? MIN(k->first_ns, start_ns) : start_ns;
	k->last_ns = MAX(k->last_ns, end_ns);
}

/* Defines the function of a name; api: 1 driver, 2 runtime; number: 0 if it has none. */
void kineto_add_function(struct kineto *k, uint32_t name, unsigned api, uint32_t number);
/* Remembers GPU work, to be joined with its call, or with the operator of its External id. */
void kineto_await_call(struct kineto *k, uint64_t correlation, uint64_t external,
		       uint64_t start_ns);
/* "regs:32 static_shared:0 dynamic_shared:0 grid:1,1,1 block:128,1,1 occ_pct:100" of JAX */
void kineto_read_details(const char *text, struct row_kernel_config *c);
uint64_t kineto_correlation(struct kineto *k);
/* Adds the event to a table of GPU work; table 0: to that which its name tells. */
void kineto_add_work(struct kineto *k, unsigned table);
/* Keeps the collective that a kernel carries, until its call tells when it was enqueued. */
void kineto_keep_collective(struct kineto *k, uint64_t correlation);
/* Writes the collective of a call, if there is one. */
void kineto_write_collective(struct kineto *k, uint64_t correlation, uint64_t time_ns,
			     uint32_t thread);
void kineto_add_synchronization(struct kineto *k, unsigned unused);
void kineto_add_cuda_event(struct kineto *k, unsigned unused);

/* Writes what has waited: ranges, calls with their stacks. Returns 0 or a negative code. */
int kineto_write_threads(struct kineto *k) MUST_USE;
/* Counts an event, or what is said about it. */
static inline void kineto_count(struct kineto *k, enum kineto_count what)
{
	k->counts[what]++;
}

/* The stack_describe function. */
void kineto_python_frame(void *kineto, struct writer *w, uint64_t frame,
			 struct row_stack_node *row);

#endif
