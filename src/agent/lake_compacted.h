/*
 * lake_compacted.h: the file .compacted of a day of a lake: the names of objects whose rows are in
 * larger ones. An agent that was killed before it knew that an object had been shipped ships it
 * again; this file says that it is there.
 *
 *	"PITOTCMP", the generation, and hashes of names, ascending: 64 bits each, little-endian
 */
#ifndef PITOT_AGENT_LAKE_COMPACTED_H
#define PITOT_AGENT_LAKE_COMPACTED_H

#include <stdbool.h>

#include "base/error.h"
#include "base/vec.h"

#define LAKE_COMPACTED ".compacted"

struct lake_compacted {
	uint64_t generation; /* 0: the day was never compacted */
	VEC(uint64_t) names;
};

/* Reads that of a folder, which may have none. Returns 0 or a negative code; release it. */
int lake_compacted_read(int folder, struct lake_compacted *out) MUST_USE;
bool lake_compacted_has(const struct lake_compacted *c, const char *name);
int lake_compacted_add(struct lake_compacted *c, const char *name) MUST_USE;
/* Writes it, and waits until it is on the disk. Returns 0 or a negative code. */
int lake_compacted_write(int folder, struct lake_compacted *c) MUST_USE;
void lake_compacted_release(struct lake_compacted *c);

#endif
