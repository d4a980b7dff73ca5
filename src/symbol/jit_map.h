/* jit_map.h: the map of JIT code that a process wrote for perf, and whether it can be believed. */
#ifndef PITOT_SYMBOL_JIT_MAP_H
#define PITOT_SYMBOL_JIT_MAP_H

#include "symbol/perf_map.h"
#include "symbol/symbolizer.h"

#define JIT_MAP_PATH_MAX 96

/*
 * Opens the map of a process of this machine. Anyone can write into /tmp, and process ids are used
 * again: a map is believed if it is the process's user's, ours or root's, and was written since the
 * process began and before its id was reused. 0, with its path; -ENOENT, -ENOMEM.
 */
int jit_map_open(const struct symbol_process *p, struct perf_map *map,
		 char path[JIT_MAP_PATH_MAX]) MUST_USE;

#endif
