/*
 * perf_map.h: names of JIT-compiled code, from the map that the compiler writes for perf:
 * /tmp/perf-PID.map, with lines of start and size in hexadecimal, and the name. Where lines
 * overlap, the later one is right, because memory is reused.
 */
#ifndef PITOT_SYMBOL_PERF_MAP_H
#define PITOT_SYMBOL_PERF_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"

/* Anybody can write a map of any size, so what is read of one takes at most 160 MiB. */
#define PERF_MAP_BYTES ((uint64_t)512 << 20) /* of the file that are read */
#define PERF_MAP_NAME_BYTES ((size_t)64 << 20)
#define PERF_MAP_FUNCTIONS ((size_t)1 << 20)

struct jit_function {
	uint64_t start, end;
	const char *name;
};

struct perf_map {
	VEC(struct jit_function) functions; /* sorted by address, without overlaps */
	struct arena names;
	bool is_cut; /* a limit was reached: the functions after it are missing */
};

/* Reads a map from a file, ignoring lines that are malformed or too long. 0 or a negative code. */
int perf_map_read(struct perf_map *m, int fd) MUST_USE;
void perf_map_release(struct perf_map *m);
const struct jit_function *perf_map_find(const struct perf_map *m, uint64_t address);

#endif
