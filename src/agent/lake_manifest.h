/*
 * lake_manifest.h: which objects of a bucket stand for others.
 *
 * Object storage cannot replace several objects at one moment, but it makes one object appear at
 * one. So `pitot lake compact` of a bucket adds objects (lake_merge.h) that nobody reads yet, then
 * a manifest, from which on they are read instead of those that they replace, and later removes
 * these. A manifest is an object of the table FLEET_compacted, and is never changed or removed:
 *
 *	compacted/TABLE/YYYY-MM-DD.GENERATION.parquet
 *	compacted/TABLE/schema.parquet		without rows, of `pitot lake init`
 *
 * An object is to be read if the highest state that manifests give it is 1, or if they do not name
 * it, and it was not made by compaction. The views of lake_ddl.c do that.
 *
 * Generations of a table and day are 1, 2, 3 …. A manifest is written with the condition that there
 * is none of its generation, by whoever has read all before it: of two that compact at once, one
 * has to give up, and what it has added is never read.
 */
#ifndef PITOT_AGENT_LAKE_MANIFEST_H
#define PITOT_AGENT_LAKE_MANIFEST_H

#include "agent/fleet_tables.h"
#include "agent/lake.h"

#define LAKE_MANIFESTS "compacted"

/* What the manifests of a table and day say. */
struct lake_manifest {
	struct fleet_rows rows;
	uint32_t *states; /* of texts of the rows */
	uint32_t generation; /* the newest; 0: there is none */
};

/* The numbers are those of manifests. */
enum lake_object_state {
	LAKE_OBJECT_PENDING, /* was made, and no manifest names it: none yet, or none ever will */
	LAKE_OBJECT_LIVE, /* is to be read */
	LAKE_OBJECT_REPLACED,
};

/* `date` is YYYY-MM-DD. */
void lake_manifest_add_key(struct strbuf *out, enum fleet_table table, const char *date,
			   uint32_t generation);
/* Reads a name below compacted/TABLE. False: it is none. */
bool lake_manifest_parse(const char *name, char date[16], uint32_t *generation);

/* Reads those up to a generation. Returns 0 or a negative code; release in any case. */
int lake_manifest_read(const struct lake *lake, enum fleet_table table, const char *date,
		       uint32_t generation, struct lake_manifest *out, struct error *e) MUST_USE;
void lake_manifest_release(struct lake_manifest *m);
enum lake_object_state lake_manifest_state(const struct lake_manifest *m, const char *name);

#endif
