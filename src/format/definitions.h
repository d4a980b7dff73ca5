/*
 * definitions.h: what a sink was told that later rows refer to: the texts, configurations,
 * functions, threads … of an epoch (sink.h). Of tables whose first column is their key, a u32.
 */
#ifndef PITOT_FORMAT_DEFINITIONS_H
#define PITOT_FORMAT_DEFINITIONS_H

#include "base/arena.h"
#include "base/map.h"
#include "schema/schema.h"

struct definitions {
	uint64_t tables; /* which are kept, as bits 1 << TABLE_…; texts always are */
	struct map rows[TABLE_END];
	struct arena arena;
	uint64_t lost; /* rows that there was no memory for */
};

/* Keeps a copy of a row; the last one of a key counts. Returns whether its table is one of them. */
bool definitions_take(struct definitions *d, enum table_id table, const void *row);
/* struct row_<table>, until the next epoch; NULL: it is not known. */
const void *definitions_row(const struct definitions *d, enum table_id table, uint32_t key);
/* "" for one that is not known; ends with a NUL. */
struct bytes_value definitions_text(const struct definitions *d, uint32_t id);
/* At the beginning of an epoch. */
void definitions_forget(struct definitions *d);
void definitions_release(struct definitions *d);

#endif
