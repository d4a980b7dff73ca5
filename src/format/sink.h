/*
 * sink.h: a consumer of a writer's rows: a recording on disk, gpufl's logs, Perfetto's service.
 *
 * The writer interns and stores definitions, so a sink needs no id tables. Definitions (a text, a
 * kernel configuration, a stack, the process, its threads, modules, devices …) are passed to the
 * sink as rows of their tables, before the first row that refers to them.
 *
 * They are valid for an epoch. At its beginning a sink forgets all definitions; those still needed
 * are defined again. Ids of strings and configurations are never reused, not even in a later epoch.
 * The writer begins an epoch when its tables are full, when a sink is attached to others, and when
 * a sink wants one, because it begins a file that must be readable alone, or has lost rows. An
 * epoch begins after a flush, before the next row.
 *
 * All operations are called on the writer's thread, except that a detached sink may be closed on
 * another one.
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
	 * A new epoch begins. Not called for the first epoch of a sink that is attached before any
	 * row.
	 */
	void (*epoch)(struct sink *s);
	/* Appends a row (struct row_<table>). The caller owns the row and its BYTES. */
	void (*append)(struct sink *s, enum table_id table, const void *row);
	/*
	 * Stores all appended rows. Returns 0; 1: in progress; or a negative errno: some are lost.
	 */
	int (*seal)(struct sink *s);
	/*
	 * Returns the negative errno with which the sink has ended by itself, although its seals
	 * return 0; 0: it goes on. NULL: no sink of this kind does that.
	 */
	int (*failure)(const struct sink *s);
	/*
	 * Frees the sink, after a seal; waits for the disk. Returns 0, or a negative errno when
	 * rows are lost.
	 */
	int (*close)(struct sink *s);
	/*
	 * Frees the sink without storing anything and without waiting. In the child of a fork
	 * memory is not freed.
	 */
	void (*abandon)(struct sink *s);
	/* Adds the sink's counts. May be NULL. */
	void (*stats)(struct sink *s, struct writer_stats *stats);
};

/* The first member of every sink. */
struct sink {
	const struct sink_ops *ops;
	/*
	 * Passes only rows whose time (the table's time column) is missing or in [from_ns,
	 * until_ns), and all definitions. Set before writer_attach(). until_ns 0: no limits.
	 */
	uint64_t from_ns, until_ns;
	bool wants_epoch; /* set by the sink; the writer begins an epoch after the next flush */
	int *result; /* if set, the writer adds the first error of the sink's last seal and close */
	struct sink *next; /* used by the writer */
};

#endif
