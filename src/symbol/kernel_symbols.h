/* kernel_symbols.h: functions of the running kernel and its modules, from /proc/kallsyms. */
#ifndef PITOT_SYMBOL_KERNEL_SYMBOLS_H
#define PITOT_SYMBOL_KERNEL_SYMBOLS_H

#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"

struct kernel_function {
	uint64_t start;
	const char *name;
	const char *module; /* NULL: the kernel itself */
};

struct kernel_symbols {
	VEC(struct kernel_function) functions; /* by start, one for each */
	char *text;
};

/* Reads a file like /proc/kallsyms. -EACCES when it hides the addresses (kernel.kptr_restrict). */
int kernel_symbols_open(struct kernel_symbols *k, const char *path, struct error *e) MUST_USE;
/* The same for a text, of which it takes a copy. */
int kernel_symbols_parse(struct kernel_symbols *k, const char *text, size_t length) MUST_USE;
void kernel_symbols_release(struct kernel_symbols *k);
/*
 * The function that starts last before an address; its end is not known. NULL: none, or no address
 * of the kernel.
 */
const struct kernel_function *kernel_symbols_find(const struct kernel_symbols *k, uint64_t address);

#endif
