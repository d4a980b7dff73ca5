/*
 * read.h: the public C API of libpitotread.so, which reads recordings. The Python package `pitot`
 * is built on it.
 *
 *	struct pitot_recording *r;
 *	struct pitot_read_error error;
 *	struct ArrowArrayStream stream;
 *	struct pitot_read_query query = { .size = sizeof(query), .table = "kernel" };
 *	if (pitot_read_open("train.pitot", &r, &error) < 0 ||
 *	    pitot_read_table(r, &query, &stream, &error) < 0)
 *		puts(error.text);
 *
 * Tables are returned through the Arrow C stream interface, which every Arrow library imports.
 * Numeric columns are not copied: their memory lives until the last array that uses it is released,
 * also after pitot_read_close.
 *
 * Functions return 0 on success. On failure they return a negative errno or one of enum
 * pitot_read_code, and describe it in *error, which may be NULL. They may be called from any
 * thread; calls for the same recording wait for each other while columns are decoded. No function
 * prints or exits. Option structs begin with their size, and grow only at the end.
 */
#ifndef PITOT_READ_H
#define PITOT_READ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PITOT_READ_API __attribute__((visibility("default")))

/* Arrow's C data and C stream interfaces: arrow.apache.org/docs/format/CDataInterface.html. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *schema);
	void *private_data;
};

struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *array);
	void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *stream, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *stream);
	void (*release)(struct ArrowArrayStream *stream);
	void *private_data;
};
#endif

enum pitot_read_code {
	PITOT_READ_FORMAT = -2001,	/* not a recording, or damaged */
	PITOT_READ_VERSION = -2002,	/* written by a newer version of Pitot */
	PITOT_READ_UNSUPPORTED = -2003,	/* not supported by this build or machine */
	PITOT_READ_USAGE = -2004,	/* unknown table, column or value of an option */
	PITOT_READ_LIMIT = -2005,	/* too large for this machine or for the format */
};

struct pitot_read_error {
	int code;
	char text[1024];	/* one line, as the command line prints it */
};

/* Returns "major.minor.patch" of the library. Static storage. */
PITOT_READ_API const char *pitot_read_version(void);

struct pitot_recording;

/* Opens a recording (its directory, or one segment). Decodes nothing yet. */
PITOT_READ_API int pitot_read_open(const char *path, struct pitot_recording **out,
				   struct pitot_read_error *error);
/* Arrays of the recording stay valid. NULL is allowed. */
PITOT_READ_API void pitot_read_close(struct pitot_recording *r);

/*
 * Opens a recording again that may have grown. In `*out`, table `table`, which must have times,
 * contains only rows that were not on disk when `before` was opened; all other tables are complete.
 * The caller closes both.
 */
PITOT_READ_API int pitot_read_follow(const struct pitot_recording *before, const char *table,
				     struct pitot_recording **out, struct pitot_read_error *error);

/* Times are nanoseconds of the recorded machine's CLOCK_MONOTONIC. */
struct pitot_read_span {
	uint64_t start_ns, end_ns;	/* start and end of the recording */
	int64_t unix_offset_ns;		/* time + unix_offset_ns is nanoseconds since 1970, UTC */
};
PITOT_READ_API void pitot_read_span(const struct pitot_recording *r, struct pitot_read_span *out);

struct pitot_read_info {
	const char *name, *meaning;	/* static storage */
	uint64_t rows;
};
/* Describes the index-th table of the schema, from 0. Returns 1, or 0 after the last table. */
PITOT_READ_API int pitot_read_info(struct pitot_recording *r, size_t index,
				   struct pitot_read_info *out, struct pitot_read_error *error);

/*
 * Selects rows and columns of a table. Columns are named as for `pitot view --columns`; these exist
 * in addition:
 *
 *	config.row	row number in table kernel_config of the row that config refers to; null if
 *			that row is lost
 *	scope		path of the innermost scope, for calls, GPU work (by its call) and samples
 *	stack.frames	list of names, the outermost frame first, for rows with a column stack, and
 *			for GPU work by its launch
 *	full_name	demangled name of a kernel with all parameters; `name` is short
 *	mangled_name	mangled name of a kernel
 */
struct pitot_read_query {
	size_t size;
	const char *table;
	/* NULL-terminated; NULL: all of the table, and pid, duration_ns, *.row */
	const char *const *columns;
	/* as for `pitot view --where`; rows must meet all; NULL-terminated; NULL: none */
	const char *const *conditions;
	/* since <= time < until, from the start of the recording; until 0: no end */
	uint64_t since_ns, until_ns;
};

/*
 * Reads the selected rows as a stream of one batch. Integers and times are numbers; enums and texts
 * are dictionary-encoded. Fields have the metadata `unit` and `meaning`. A missing value is null.
 * Bytes of texts that are not UTF-8 become U+FFFD.
 */
PITOT_READ_API int pitot_read_table(struct pitot_recording *r, const struct pitot_read_query *query,
				    struct ArrowArrayStream *out, struct pitot_read_error *error);
/* Returns only the schema, and decodes nothing. */
PITOT_READ_API int pitot_read_schema(struct pitot_recording *r,
				     const struct pitot_read_query *query, struct ArrowSchema *out,
				     struct pitot_read_error *error);

struct pitot_read_limits {
	size_t size;
	uint64_t timeout_ns;	/* 0: none; one function of SQL that computes on is not stopped */
	/*
	 * Of its rows, and of what SQLite needs for all statements of the process; 0: no limit. If
	 * statements of several recordings run at once, the last one's limit is that of SQLite.
	 */
	uint64_t memory_bytes;
};

/*
 * Runs a statement of SQL, as `pitot sql` does (docs/sql.md), and returns its rows as a stream of
 * one batch: columns of 64-bit integers, of doubles, or of texts. If out is NULL, the statement is
 * only checked. Columns that it uses are decoded once for all statements. If limits is NULL, there
 * is no timeout, and 4 GiB of memory. Beyond them it returns -ETIMEDOUT or -ENOMEM.
 */
PITOT_READ_API int pitot_read_sql(struct pitot_recording *r, const char *statement,
				  const struct pitot_read_limits *limits,
				  struct ArrowArrayStream *out, struct pitot_read_error *error);

struct pitot_read_report {
	size_t size;
	uint64_t since_ns, until_ns;	/* as in struct pitot_read_query */
	int64_t pid, device, stream;	/* -1: all */
	const char *kernel, *scope;	/* globs; NULL: all */
	const char *by;			/* as `pitot report --by`; NULL: kernel */
	int scopes;			/* as `pitot report --scopes` */
	int stalls;			/* as `pitot report --stalls` */
};
#define PITOT_READ_REPORT_INIT                                                                     \
	{ sizeof(struct pitot_read_report), 0, 0, -1, -1, -1, NULL, NULL, NULL, 0, 0 }

/* Returns the output of `pitot report --json`; free(*json). Reads the recording anew. */
PITOT_READ_API int pitot_read_report(const struct pitot_recording *r,
				     const struct pitot_read_report *options, char **json,
				     struct pitot_read_error *error);

struct pitot_read_export {
	size_t size;
	/* as `pitot export --format`; NULL: by the file name */
	const char *format;
	uint64_t since_ns, until_ns;	/* as in struct pitot_read_query */
	const char *kernel;		/* glob; NULL: all */
	int overwrite;			/* replace a file that exists */
};

/*
 * Writes a file as `pitot export -o path` does, and stores the number of events in *events. Reads
 * the recording anew.
 */
PITOT_READ_API int pitot_read_export(const struct pitot_recording *r, const char *path,
				     const struct pitot_read_export *options, uint64_t *events,
				     struct pitot_read_error *error);

/*
 * Files of TraceSmith (SBT 0.1), event by event, as they are. What `pitot import` makes of them is
 * a recording; `pitot export` writes one's events.
 */
enum {
	PITOT_SBT_DURATION = 1,
	PITOT_SBT_KERNEL = 2,
	PITOT_SBT_MEMORY = 4,
	PITOT_SBT_STACK = 8,		/* the thread, and frames */
	PITOT_SBT_FRAMES_MAX = 1024,	/* the innermost ones that are read */
};

struct pitot_sbt_text {
	const char *bytes;	/* any bytes, without a NUL; they live as long as the call */
	size_t length;
};

struct pitot_sbt_frame {
	uint64_t address, line;
	struct pitot_sbt_text function, file;
};

struct pitot_sbt_event {
	uint32_t type;		/* number of TraceSmith's EventType, up to 255 */
	uint32_t has;		/* bits: which of the following are there */
	uint64_t time_ns, duration_ns, correlation;
	uint32_t device, stream, thread;
	struct pitot_sbt_text name;
	uint32_t kernel[8];	/* grid, block, bytes of shared memory, registers */
	uint64_t memory[3];	/* source, destination, bytes */
	const struct pitot_sbt_frame *frames;	/* the innermost one first */
	size_t frame_count;
};

struct pitot_sbt_info {
	struct pitot_sbt_text application, command, host;
	uint64_t start_ns, end_ns, pid;
	const char *broken;	/* why not all of it could be read; "": all was; not written */
};

/* Gets an event that was read. Returns 0, or a negative code that ends the reading. */
typedef int pitot_sbt_add(void *user, const struct pitot_sbt_event *event);
/* Gets what is known about the file, after the last event. */
typedef void pitot_sbt_about(void *user, const struct pitot_sbt_info *info);
/* Stores the next event. Returns 1, 0 after the last one, or a negative code. */
typedef int pitot_sbt_next(void *user, struct pitot_sbt_event *event);

/* Reads a file of at most 2 GiB; one that was cut or never completed, as far as it goes. */
PITOT_READ_API int pitot_sbt_read(const char *path, pitot_sbt_add *add, pitot_sbt_about *about,
				  void *user, struct pitot_read_error *error);
/* Writes a file, which replaces one that exists when it is complete. Events: in order of time. */
PITOT_READ_API int pitot_sbt_write(const char *path, const struct pitot_sbt_info *info,
				   pitot_sbt_next *next, void *user,
				   struct pitot_read_error *error);

#ifdef __cplusplus
}
#endif

#endif
