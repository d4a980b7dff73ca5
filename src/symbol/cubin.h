/*
 * cubin.h: device code as NVIDIA's tools make it and the driver loads it: an ELF file with a
 * section for each kernel, which also has the device functions that only that kernel calls. Lines
 * are known of code that was compiled with -lineinfo or -G, and of Triton's kernels.
 *
 * Every byte may be hostile, as in elf_file.h. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_CUBIN_H
#define PITOT_SYMBOL_CUBIN_H

#include "symbol/lines.h"

struct cubin;

/* A function, in a section of code. */
struct cubin_function {
	uint32_t section;
	uint64_t start; /* in the section */
};

/* Takes the file over, also on failure. 0; E_FORMAT for what is no device code; -ENOMEM. */
int cubin_open(struct elf_file *f, struct cubin **out, struct error *e) MUST_USE;
void cubin_free(struct cubin *c);

/* The function with this (mangled) name. False: there is none. */
bool cubin_find_function(const struct cubin *c, const char *name, struct cubin_function *out);
/* The kernel whose section the function is in: mangled, belongs to the cubin. "": unknown. */
const char *cubin_kernel(const struct cubin *c, const struct cubin_function *f);
/* Its section: bytes, and the number of a symbol for a function in it (0: there is none). */
uint64_t cubin_code_size(const struct cubin *c, const struct cubin_function *f);
uint32_t cubin_symbol(const struct cubin *c, const struct cubin_function *f);
/*
 * When a source file was changed last before the compilation (Unix time) and its size; 0: unknown.
 */
void cubin_source(struct cubin *c, const char *path, uint64_t *time_s, uint64_t *size_bytes);
/*
 * What is known of an instruction: the function first, then those inlined, innermost last; texts
 * belong to the cubin. Returns the number of frames (0: nothing is known), or -ENOMEM.
 */
int cubin_find_place(struct cubin *c, const struct cubin_function *f, uint64_t offset,
		     struct source_frame frames[SOURCE_FRAMES_MAX]);

#endif
