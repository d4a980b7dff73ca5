/*
 * lake.h: where agents ship to: objects, which are Parquet files with rows, and windows, which are
 * recordings. Written by any number of agents, and once: an object appears under its key when it is
 * whole, and is never changed.
 *
 *	TABLE/date=YYYY-MM-DD/JOB.HOST.FROM-UNTIL.AGENT-BATCH.parquet
 *	window/date=YYYY-MM-DD/JOB.HOST.TIME.RULE.pitot/FILE
 *
 * An object has the rows of one job (JOB "%": of none), so globs select jobs, and statistics do.
 * The date is the only key in folders: engines would make numbers of jobs.
 *
 * A lake is a folder (lake_folder.c) or a bucket (lake_s3.c). Others may write into it: what is
 * listed is untrusted, a folder is opened once, and no link is followed below it.
 */
#ifndef PITOT_AGENT_LAKE_H
#define PITOT_AGENT_LAKE_H

#include "agent/s3.h"

#define LAKE_WINDOWS "window"
#define LAKE_DATE "date="
#define LAKE_WINDOW_SUFFIX ".pitot"
#define LAKE_SCHEMA "schema.parquet" /* an object without rows, which `pitot lake init` makes */
#define LAKE_WHOLE "complete" /* in a bucket: the last file of a window */
#define LAKE_KEY_MAX 512u
#define LAKE_NAME_MAX 64u

struct lake_kind;
struct lake_compact_options; /* lake_compact.h */

struct lake {
	const char *path;
	unsigned mode; /* permissions of objects in a folder */
	const struct lake_kind *kind; /* NULL: it is not open */
	int folder; /* of a folder */
	struct s3 *s3; /* of a bucket; NULL: it is a folder */
	const char *whole; /* the file without which a window is not complete; NULL: none */
};

enum lake_mode {
	LAKE_ONCE, /* an object of that key stays as it is, and that is no failure */
	LAKE_REPLACE,
};

/* Returns 0, or a negative code, which ends the list. */
typedef int lake_visit(void *user, const char *key, uint64_t bytes);

/* Errors of these say what went wrong; that of which file is added by lake.c. */
struct lake_kind {
	const char *scheme; /* with which its paths begin */
	int (*make)(const char *path, struct error *e); /* NULL: the user does */
	int (*open)(struct lake *lake, const struct s3_options *s3, struct error *e);
	void (*release)(struct lake *lake);
	int (*put)(const struct lake *lake, int file, const char *key, enum lake_mode mode,
		   struct error *e);
	int (*put_folder)(const struct lake *lake, int from, const char *key, struct error *e);
	int (*get)(const struct lake *lake, const char *key, int folder, const char *name,
		   struct error *e);
	int (*list)(const struct lake *lake, const char *table, lake_visit *visit, void *user,
		    struct error *e);
	int (*compact)(const struct lake *lake, const struct lake_compact_options *options,
		       struct error *e);
};
extern const struct lake_kind lake_of_folder, lake_of_s3;

/* Makes a folder, unless it exists. Returns 0 or a negative code. */
int lake_make(const char *path, struct error *e) MUST_USE;
/* `mode` is set. `s3` is only for buckets. Returns 0 or a negative code. */
int lake_open(struct lake *lake, const char *path, const struct s3_options *s3,
	      struct error *e) MUST_USE;
void lake_release(struct lake *lake);

/* Copies a file, from its beginning. Returns 0 or a negative code. */
int lake_put(const struct lake *lake, int file, const char *key, enum lake_mode mode,
	     struct error *e) MUST_USE;
/* Replaces what is there. Returns 0 or a negative code. */
int lake_put_text(const struct lake *lake, const char *key, const struct strbuf *text,
		  struct error *e) MUST_USE;
/*
 * Copies a folder of files, so that it is seen when it is whole. Returns 0, also if there is one of
 * that key, or a negative code.
 */
int lake_put_folder(const struct lake *lake, int folder, const char *name, const char *key,
		    struct error *e) MUST_USE;
/* Copies an object into a new file of a folder. Returns 0 or a negative code. */
int lake_get(const struct lake *lake, const char *key, int folder, const char *name,
	     struct error *e) MUST_USE;
/* Visits the keys of a table, "": of all, in no order. Returns 0 or a negative code. */
int lake_list(const struct lake *lake, const char *table, lake_visit *visit, void *user,
	      struct error *e) MUST_USE;

/* Compacts the days that have objects of agents. Returns 0 or a negative code. */
int lake_compact(const struct lake *lake, const struct lake_compact_options *options,
		 struct error *e) MUST_USE;

/* A file in memory, to be put. Returns a descriptor, or -errno. */
int lake_text_file(const struct strbuf *text) MUST_USE;
/* A folder for files that are to be put, in TMPDIR. */
struct lake_temporary {
	char path[3000];
	int folder; /* 0: there is none */
};
int lake_temporary_make(struct lake_temporary *t, struct error *e) MUST_USE;
void lake_temporary_remove(struct lake_temporary *t);

/* Removes a folder of files. Whatever else it has stays. */
void lake_remove_folder(int folder, const char *name);

/*
 * Appends a text to a key: other characters than [A-Za-z0-9_-] as %XX, "%" for "", and at most
 * LAKE_NAME_MAX bytes. A '_' at the beginning is %5F: Spark takes such files for hidden ones.
 */
void lake_add_name(struct strbuf *out, const char *text);
/* Appends "date=YYYY-MM-DD", in UTC. */
void lake_add_date(struct strbuf *out, uint64_t time_ns);
/* Appends a time as 20261129T140530Z. */
void lake_add_time(struct strbuf *out, uint64_t time_ns);

#endif
