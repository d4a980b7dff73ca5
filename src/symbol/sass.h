/*
 * sass.h: the instructions of device code as text, by nvdisasm of a CUDA toolkit, where there is
 * one: a child of its own, with a time limit and a limit on what it prints. What it prints is
 * hostile, as all bytes from outside.
 */
#ifndef PITOT_SYMBOL_SASS_H
#define PITOT_SYMBOL_SASS_H

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"

struct sass_line {
	const char *section; /* without ".text." */
	const char *text; /* "LDG.E R2, desc[UR4][R2.64]" */
	const char *label; /* ".L_x_4" in front of it, or NULL */
	uint64_t offset; /* in the section */
	size_t order; /* in which they were printed */
};

/* Begins as zeros. */
struct sass {
	struct strbuf printed; /* what the texts are in */
	VEC(struct sass_line) lines; /* by section, then offset, which is there once */
};

/*
 * Finds nvdisasm: in PATH, $CUDA_HOME/bin, $CUDA_PATH/bin and /usr/local/cuda/bin. False: there is
 * none.
 */
bool sass_program(struct strbuf *path);
/*
 * Runs it on device code; `symbols`: "3,7", numbers of functions in its symbol table; *s is
 * released in any case. 0; or a negative code with the reason in *e.
 */
int sass_read(struct sass *s, const char *program, const char *cubin, const char *symbols,
	      unsigned limit_s, struct error *e) MUST_USE;
void sass_release(struct sass *s);
/* The lines of a section: the first, and how many. */
const struct sass_line *sass_find(const struct sass *s, const char *section, size_t *count);

#endif
