/* kernel_symbols.h: functions of the running Linux kernel and its modules, from /proc/kallsyms. */
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
	VEC(struct kernel_function) functions; /* sorted by start, one per start */
	char *text;
};

/* Reads a file like /proc/kallsyms. -EACCES if it hides the addresses (kernel.kptr_restrict). */
int kernel_symbols_open(struct kernel_symbols *k, const char *path, struct error *e) MUST_USE;
/* Parses the same from a text, which is copied. */
int kernel_symbols_parse(struct kernel_symbols *k, const char *text, size_t length) MUST_USE;
void kernel_symbols_release(struct kernel_symbols *k);
/*
 * Returns the last function that starts at or before an address; its end is unknown. NULL: none, or
 * no address of the operating system's kernel.
 */
const struct kernel_function *kernel_symbols_find(const struct kernel_symbols *k, uint64_t address);

#endif
