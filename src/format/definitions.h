/*
 * definitions.h: the definitions (texts, configurations, functions, threads …) that a sink was
 * given in the current epoch (sink.h). Only for tables whose first column is the key, a u32.
 */
#ifndef PITOT_FORMAT_DEFINITIONS_H
#define PITOT_FORMAT_DEFINITIONS_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "schema/schema.h"

#define DENSE_KEYS 65536u
#define DENSE_START 1024u

/*
 * Most ids are small: rows with those keys are found without hashing. Row numbers of the last of
 * many processes are not, so the array grows to keys that are at most some times its length.
 */
struct definition_rows {
	VEC(void *) dense; /* by key, less than DENSE_KEYS; NULL: not here */
	struct map others;
};

struct definitions {
	uint64_t tables; /* tables to store, as bits 1 << TABLE_…; texts always are */
	struct definition_rows rows[TABLE_END];
	struct arena arena;
	uint64_t lost; /* rows lost for lack of memory */
};

/* Stores a copy of a row, replacing one with its key. Returns whether its table is stored. */
bool definitions_add(struct definitions *d, enum table_id table, const void *row);
/* Returns struct row_<table>, valid until the next epoch, or NULL when the key is unknown. */
const void *definitions_row(const struct definitions *d, enum table_id table, uint32_t key);
/* Returns a text, NUL-terminated; "" when the id is unknown. */
struct bytes_value definitions_text(const struct definitions *d, uint32_t id);
/* Must be called at the beginning of an epoch. */
void definitions_clear(struct definitions *d);
void definitions_release(struct definitions *d);

#endif
