/*
 * lake.h: the folder into which agents ship: objects, which are Parquet files with rows, and
 * windows, which are recordings. Written by any number of agents, and once: an object appears under
 * its name when it is whole, and is never changed.
 *
 *	TABLE/date=YYYY-MM-DD/JOB.HOST.FROM-UNTIL.AGENT-BATCH.parquet
 *	window/date=YYYY-MM-DD/JOB.HOST.TIME.RULE.pitot/
 *
 * An object has the rows of one job (JOB "_": of none), so globs select jobs, and statistics do.
 * The date is the only key in folders: engines would make numbers of jobs.
 *
 * Others may write into the folder: it is opened once, and no link is followed below it.
 */
#ifndef PITOT_AGENT_LAKE_H
#define PITOT_AGENT_LAKE_H

#include "base/error.h"
#include "base/strbuf.h"

#define LAKE_WINDOWS "window"
#define LAKE_WINDOW_SUFFIX ".pitot"
#define LAKE_SCHEMA "schema.parquet" /* an object without rows, which `pitot lake init` makes */
#define LAKE_KEY_MAX 512u
#define LAKE_NAME_MAX 64u

struct lake {
	const char *path;
	int folder;
	unsigned mode; /* of objects */
};

/* Returns 0 or a negative code. */
int lake_open(struct lake *lake, const char *path, struct error *e) MUST_USE;
void lake_release(struct lake *lake);

/*
 * Opens the folder of a key, up to its last '/'. It is made with the permissions of the lake's
 * folder, so that who may write there may write everywhere.
 */
int lake_enter(const struct lake *lake, const char *key) MUST_USE;
/*
 * Copies a file of a folder into the lake; its key is a path in it. Returns 0, also if the lake has
 * it, or a negative code.
 */
int lake_put(const struct lake *lake, int folder, const char *name, const char *key,
	     struct error *e) MUST_USE;

/* Copies a folder of files in the same way. */
int lake_put_folder(const struct lake *lake, int folder, const char *name, const char *key,
		    struct error *e) MUST_USE;
/* Removes a folder of files. Whatever else it has stays. */
void lake_remove_folder(int folder, const char *name);

/*
 * Appends a text to a key: other characters than [A-Za-z0-9_-] as %XX, "_" for "", and at most
 * LAKE_NAME_MAX bytes.
 */
void lake_add_name(struct strbuf *out, const char *text);
/* Appends "date=YYYY-MM-DD", in UTC. */
void lake_add_date(struct strbuf *out, uint64_t time_ns);
/* Appends a time as 20261129T140530Z. */
void lake_add_time(struct strbuf *out, uint64_t time_ns);

#endif
