/*
 * sass.h: disassembles device code with nvdisasm of a CUDA toolkit, if one is installed. It runs in
 * a child process, with limits on time and output; its output is treated as hostile, like all bytes
 * from outside.
 */
#ifndef PITOT_SYMBOL_SASS_H
#define PITOT_SYMBOL_SASS_H

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"

struct sass_line {
	const char *section; /* name, without ".text." */
	const char *text; /* "LDG.E R2, desc[UR4][R2.64]" */
	const char *label; /* label before it, such as ".L_x_4", or NULL */
	uint64_t offset; /* offset in the section */
	size_t order; /* position in the output */
};

/* Initialize with zeros. */
struct sass {
	struct strbuf printed; /* the output; texts point into it */
	VEC(struct sass_line) lines; /* sorted by section, then offset; one per offset */
};

/* Finds nvdisasm in PATH, or in bin of $CUDA_HOME, $CUDA_PATH or /usr/local/cuda. */
bool sass_program(struct strbuf *path);
/*
 * Disassembles functions of device code. `symbols` lists their numbers in the symbol table: "3,7".
 * *s must be released in any case. Returns 0; or a negative code with the reason in *e.
 */
int sass_read(struct sass *s, const char *program, const char *cubin, const char *symbols,
	      unsigned limit_s, struct error *e) MUST_USE;
void sass_release(struct sass *s);
/* Returns the first line of a section, and the number of its lines. */
const struct sass_line *sass_find(const struct sass *s, const char *section, size_t *count);

#endif
