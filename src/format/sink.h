/*
 * sink.h: who takes the rows of a writer: a recording on disk, gpufl's logs, Perfetto's service,
 * later a ring in memory.
 *
 * The writer interns what rows refer to and keeps what gives them meaning; a sink needs no tables
 * of ids of its own. It is handed each definition (a text, a kernel configuration, a stack, the
 * process, its threads, modules, devices …) before the first row that refers to it, as rows of
 * those tables.
 *
 * An epoch is how long that holds. At its beginning a sink forgets all definitions; what is still
 * needed is defined again. Ids of strings and configurations are never given again, also not in a
 * later epoch. The writer begins an epoch when its tables are full, when a sink is attached to
 * others, and when a sink wants one, because it begins a file that is to be read alone, or has lost
 * rows. It does so between a flush and the first row after that, never in between.
 *
 * All operations are called by the writer's thread.
 */
#ifndef PITOT_FORMAT_SINK_H
#define PITOT_FORMAT_SINK_H

#include <stdbool.h>

#include "schema/schema.h"

struct sink;
struct writer_stats;

struct sink_ops {
	const char *name;
	/*
	 * A new epoch begins. A sink that is attached before the first row is not told of its first
	 * epoch.
	 */
	void (*epoch)(struct sink *s);
	/* Takes a row (struct row_<table>), which is the caller's, also its BYTES. */
	void (*append)(struct sink *s, enum table_id table, const void *row);
	/*
	 * Keeps what was appended: 0; 1: it is under way; or a negative errno: some of it is lost.
	 */
	int (*seal)(struct sink *s);
	/* After a seal. Frees. 0 or a negative errno: something is lost. */
	int (*close)(struct sink *s);
	/*
	 * Frees without keeping anything, and waits for nobody; in the child of a fork frees
	 * nothing, either.
	 */
	void (*abandon)(struct sink *s);
	/* Adds what it kept and lost; NULL: nothing to add. */
	void (*stats)(struct sink *s, struct writer_stats *stats);
};

/* The first member of every sink. */
struct sink {
	const struct sink_ops *ops;
	/*
	 * Only rows whose time (the table's time column) is in [from_ns, until_ns), or missing;
	 * definitions always. Set before writer_attach. until_ns 0: rows of any time.
	 */
	uint64_t from_ns, until_ns;
	bool wants_epoch; /* set by the sink; the writer begins one after the next flush */
	struct sink *next; /* the writer's */
};

#endif
