/*
 * cubin.h: reads device code as NVIDIA's tools produce it and the driver loads it: an ELF file with
 * one section per kernel, which also contains the device functions that only this kernel calls.
 * Lines are known for code compiled with -lineinfo or -G, and for Triton's kernels.
 *
 * Every byte may be hostile, as in elf_file.h. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_CUBIN_H
#define PITOT_SYMBOL_CUBIN_H

#include "symbol/lines.h"

struct cubin;

/* A function in a code section. */
struct cubin_function {
	uint32_t section;
	uint64_t start; /* offset in the section */
};

/* Takes ownership of the file, also on failure. Returns 0; E_FORMAT: no device code; -ENOMEM. */
int cubin_open(struct elf_file *f, struct cubin **out, struct error *e) MUST_USE;
void cubin_free(struct cubin *c);

/* Finds the function with this (mangled) name. Returns false if there is none. */
bool cubin_find_function(const struct cubin *c, const char *name, struct cubin_function *out);
/* Returns the mangled name of the kernel whose section has the function, or "". Owned by `c`. */
const char *cubin_kernel(const struct cubin *c, const struct cubin_function *f);
/* The size of the function's section, and the number of a function's symbol in it (0: none). */
uint64_t cubin_code_size(const struct cubin *c, const struct cubin_function *f);
uint32_t cubin_symbol(const struct cubin *c, const struct cubin_function *f);
/* Modification time (Unix time) and size of a source file at its compilation; 0: unknown. */
void cubin_source(struct cubin *c, const char *path, uint64_t *time_s, uint64_t *size_bytes);
/*
 * Finds the source frames of an instruction: its function first, then the inlined functions,
 * innermost last. Texts are owned by the cubin. Returns the number of frames (0: unknown), or
 * -ENOMEM.
 */
int cubin_find_frames(struct cubin *c, const struct cubin_function *f, uint64_t offset,
		      struct source_frame frames[SOURCE_FRAMES_MAX]);

#endif
