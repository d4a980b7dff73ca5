/*
 * source_view.h: kernel samples and instruction counts beside the text of the source and of the
 * instructions, as far as available: source as it was when it was compiled, instructions from
 * nvdisasm. If a text is missing, the reason is recorded.
 *
 *	samples of the stalls = sum over the codes
 *	                      = sum over the files + without_line + without_code
 */
#ifndef PITOT_ANALYSIS_SOURCE_VIEW_H
#define PITOT_ANALYSIS_SOURCE_VIEW_H

#include "analysis/stalls.h"
#include "symbol/sass.h"

#define SOURCE_NONE UINT32_MAX

struct source_options {
	const char *root; /* folder with sources; NULL: at the paths that the compiler recorded */
	const char *nvdisasm; /* path of the program; NULL: no instruction texts */
	unsigned limit_s; /* time limit of nvdisasm for one cubin */
};

struct source_instruction {
	uint64_t offset;
	const char *text, *label; /* NULL: unknown; `label` stands before the instruction */
	const struct stall_place *place; /* NULL: no samples */
	uint32_t file, line; /* item of files, or SOURCE_NONE */
};

/* A section of device code, or a sampled function whose code was not kept. */
struct source_code {
	const struct sampled_function *function;
	uint64_t samples;
	struct sass_counts sass;
	VEC(struct source_instruction) items; /* by offset */
	const char *missing; /* why the instruction texts are missing; NULL: they are not */
};

struct source_file {
	const char *path;
	uint64_t samples;
	struct sass_counts sass;
	VEC(const struct stall_place *) heat; /* lines with samples, by line number */
	struct strbuf text;
	VEC(const char *) lines; /* lines of the text, without line ends */
	const char *missing; /* why the text is missing; NULL: it is not */
};

struct source_view {
	const struct trace *trace;
	struct stalls stalls;
	VEC(struct source_code) codes; /* most samples first */
	VEC(struct source_file) files;
	/* Owners of texts. */
	VEC(struct sass) sass;
	struct interner paths, reasons;
};

/* Loads what it needs. 0 or a negative code; after an error, do not release *v. */
int source_view_init(struct source_view *v, struct trace *t, const struct filter *filter,
		     const struct source_options *options, struct error *e) MUST_USE;
void source_view_release(struct source_view *v);
/* Samples and counts of a line, or NULL. */
const struct stall_place *source_heat(const struct source_file *f, uint32_t line);
/* Weight by which places are ranked: samples or, without samples, executed instructions. */
uint64_t source_weight(const struct source_view *v, uint64_t samples,
		       const struct sass_counts *sass);

#endif
