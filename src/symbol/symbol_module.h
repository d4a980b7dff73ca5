/* symbol_module.h: a process whose addresses are resolved, and its modules. */
#ifndef PITOT_SYMBOL_SYMBOL_MODULE_H
#define PITOT_SYMBOL_SYMBOL_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file mapped executable: a row of table `module`. */
struct symbol_module {
	const char *path;
	const char *build_id; /* hexadecimal; "": none */
	uint64_t start, end; /* addresses */
	uint64_t load_bias; /* address minus ELF address */
	uint64_t loaded_ns; /* CLOCK_MONOTONIC */
	int64_t loaded_unix_ns; /* CLOCK_REALTIME; 0: unknown */
};

struct symbol_process {
	uint32_t pid;
	const char *directory; /* base of relative paths; "": unknown */
	/* It ran on this machine since the last boot: /proc/PID and the JIT map may be its own. */
	bool is_here;
	/* CLOCK_REALTIME of its start; 0: unknown. An older JIT map belongs to another process. */
	int64_t start_unix_ns;
	const struct symbol_module *modules; /* copied, with their texts */
	size_t module_count;
};

#endif
