/*
 * perf_map.h: names of code that a JIT compiler made, from the map that it writes for perf:
 * /tmp/perf-PID.map, lines of start and size in hexadecimal, and the name. Where lines overlap,
 * later ones are right: memory is used again.
 */
#ifndef PITOT_SYMBOL_PERF_MAP_H
#define PITOT_SYMBOL_PERF_MAP_H

#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"

#define PERF_MAP_MAX ((size_t)512 << 20) /* bytes that are read of a map */

struct jit_function {
	uint64_t start, end;
	const char *name;
};

struct perf_map {
	VEC(struct jit_function) functions; /* that do not overlap, by address */
	char *text;
};

/* Reads a map; lines that are none are left out. 0, -errno, E_LIMIT. */
int perf_map_open(struct perf_map *m, const char *path, struct error *e) MUST_USE;
/* The same for a text, of which it takes a copy. */
int perf_map_parse(struct perf_map *m, const char *text, size_t length) MUST_USE;
void perf_map_release(struct perf_map *m);
const struct jit_function *perf_map_find(const struct perf_map *m, uint64_t address);

#endif
