/*
 * perf_map.h: names of JIT-compiled code, from the map that the compiler writes for perf:
 * /tmp/perf-PID.map, with lines of start and size in hexadecimal, and the name. Where lines
 * overlap, the later one is right, because memory is reused.
 */
#ifndef PITOT_SYMBOL_PERF_MAP_H
#define PITOT_SYMBOL_PERF_MAP_H

#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"

#define PERF_MAP_MAX ((size_t)512 << 20) /* maximum size of a map */

struct jit_function {
	uint64_t start, end;
	const char *name;
};

struct perf_map {
	VEC(struct jit_function) functions; /* sorted by address, without overlaps */
	char *text;
};

/* Parses a map from a text, which is copied, ignoring malformed lines. Returns 0 or -ENOMEM. */
int perf_map_parse(struct perf_map *m, const char *text, size_t length) MUST_USE;
void perf_map_release(struct perf_map *m);
const struct jit_function *perf_map_find(const struct perf_map *m, uint64_t address);

#endif
