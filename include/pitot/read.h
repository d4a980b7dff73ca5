/*
 * read.h: the public C API of libpitotread.so, which reads recordings. Python's package `pitot` is
 * made of it.
 *
 *	struct pitot_recording *r;
 *	struct pitot_read_error error;
 *	struct ArrowArrayStream stream;
 *	struct pitot_read_query query = { .size = sizeof(query), .table = "kernel" };
 *	if (pitot_read_open("train.pitot", &r, &error) < 0 ||
 *	    pitot_read_table(r, &query, &stream, &error) < 0)
 *		puts(error.text);
 *
 * Tables are handed over in the Arrow C stream interface, which every Arrow library imports. What
 * lies in the recording as an array of numbers is not copied: it lives until the last array of it
 * is released, also after pitot_read_close.
 *
 * Functions return 0, or a negative code and its text in *error, which may be NULL: a negative
 * errno, or one of enum pitot_read_code. They may be called from any thread; calls for one
 * recording wait for each other while columns are decoded. Nothing prints or exits. Option structs
 * begin with their size, and only ever grow at the end.
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
	PITOT_READ_UNSUPPORTED = -2003,	/* this build or machine cannot do it */
	PITOT_READ_USAGE = -2004,	/* no such table, column, value of an option */
	PITOT_READ_LIMIT = -2005,	/* too large for this machine or for the format */
};

struct pitot_read_error {
	int code;
	char text[1024];	/* one line, as the command line prints it */
};

/* "major.minor.patch" of the library. Static storage. */
PITOT_READ_API const char *pitot_read_version(void);

struct pitot_recording;

/* Opens a recording: its directory, or one segment. Decodes nothing yet. */
PITOT_READ_API int pitot_read_open(const char *path, struct pitot_recording **out,
				   struct pitot_read_error *error);
/* Arrays that came from it stay. NULL is allowed. */
PITOT_READ_API void pitot_read_close(struct pitot_recording *r);

/*
 * Opens a recording that may have grown once more: `*out` has of table `table`, which has times,
 * only what was not on disk when `before` was opened, and of all others everything. Both are to be
 * closed.
 */
PITOT_READ_API int pitot_read_follow(const struct pitot_recording *before, const char *table,
				     struct pitot_recording **out, struct pitot_read_error *error);

/* Times are nanoseconds of the recorded machine's CLOCK_MONOTONIC. */
struct pitot_read_span {
	uint64_t start_ns, end_ns;	/* of the recording */
	int64_t unix_offset_ns;		/* time + unix_offset_ns is nanoseconds since 1970, UTC */
};
PITOT_READ_API void pitot_read_span(const struct pitot_recording *r, struct pitot_read_span *out);

struct pitot_read_info {
	const char *name, *meaning;	/* static storage */
	uint64_t rows;
};
/* The index-th table of the schema, from 0. Returns 1, 0 after the last one, or a negative code. */
PITOT_READ_API int pitot_read_info(struct pitot_recording *r, size_t index,
				   struct pitot_read_info *out, struct pitot_read_error *error);

/*
 * Rows and columns of a table. Columns are named as for `pitot view --columns`, and beside these:
 *
 *	config.row	number of the row that config refers to, in order of table kernel_config;
 *			null: it is lost
 *	scope		of calls, what they cause and what threads do: path of the innermost scope
 *			around it
 *	stack.frames	of rows with a column stack, and of GPU work by its launch: a list of names,
 *			the outermost frame first
 *	full_name	of kernels: with all parameters, as it is written; `name` is short
 *	mangled_name	of kernels: as the compiler made it
 */
struct pitot_read_query {
	size_t size;
	const char *table;
	/* ends with NULL; NULL: all of the table, and pid, duration_ns, *.row */
	const char *const *columns;
	/* of `pitot view --where`; all must hold; ends with NULL; NULL: none */
	const char *const *conditions;
	/* from the start of the recording: since <= time < until; until 0: no end */
	uint64_t since_ns, until_ns;
};

/*
 * The stream has one batch. Integers and times are numbers, enums and texts dictionaries. Fields
 * have `unit` and `meaning` as metadata. A value that is missing is null. Bytes of texts that are
 * not UTF-8 are U+FFFD.
 */
PITOT_READ_API int pitot_read_table(struct pitot_recording *r, const struct pitot_read_query *query,
				    struct ArrowArrayStream *out, struct pitot_read_error *error);
/* Only its schema: nothing is decoded. */
PITOT_READ_API int pitot_read_schema(struct pitot_recording *r,
				     const struct pitot_read_query *query, struct ArrowSchema *out,
				     struct pitot_read_error *error);

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

/* What `pitot report --json` prints. *json is to be freed with free(). Reads the recording anew. */
PITOT_READ_API int pitot_read_report(const struct pitot_recording *r,
				     const struct pitot_read_report *options, char **json,
				     struct pitot_read_error *error);

struct pitot_read_export {
	size_t size;
	/* as `pitot export --format`; NULL: by the name of the file */
	const char *format;
	uint64_t since_ns, until_ns;	/* as in struct pitot_read_query */
	const char *kernel;		/* glob; NULL: all */
	int overwrite;			/* replace a file that exists */
};

/*
 * What `pitot export -o path` writes. Returns the number of events in *events. Reads the recording
 * anew.
 */
PITOT_READ_API int pitot_read_export(const struct pitot_recording *r, const char *path,
				     const struct pitot_read_export *options, uint64_t *events,
				     struct pitot_read_error *error);

#ifdef __cplusplus
}
#endif

#endif
