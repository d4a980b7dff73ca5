/*
 * source_view.h: samples of kernels, and what their instructions did, beside the text of their
 * source and of their instructions, both as far as they can be had: source as it was when it was
 * compiled, instructions by nvdisasm. What is missing says why.
 *
 *	samples of the stalls = sum of the codes
 *	                      = sum of the files' samples + unlined + codeless
 */
#ifndef PITOT_ANALYSIS_SOURCE_VIEW_H
#define PITOT_ANALYSIS_SOURCE_VIEW_H

#include "analysis/stalls.h"
#include "symbol/sass.h"

#define SOURCE_NONE UINT32_MAX

struct source_options {
	const char *root; /* folder with sources; NULL: they are where the compiler found them */
	const char *nvdisasm; /* program; NULL: none, or not wanted */
	unsigned limit_s; /* that it may take for a cubin */
};

struct source_instruction {
	uint64_t offset;
	const char *text, *label; /* NULL: unknown; in front of it */
	const struct stall_place *place; /* NULL: it has no samples */
	uint32_t file, line; /* item of files, or SOURCE_NONE */
};

/* A section of device code, or what was sampled of code that was not kept. */
struct source_code {
	const struct sampled_function *of;
	uint64_t samples;
	struct sass_counts sass;
	VEC(struct source_instruction) items; /* by offset */
	const char *missing; /* why their texts are unknown; NULL: they are not */
};

struct source_file {
	const char *path;
	uint64_t samples;
	struct sass_counts sass;
	VEC(const struct stall_place *) heat; /* its lines with samples, by line */
	struct strbuf text;
	VEC(const char *) lines; /* of the text, without their ends */
	const char *missing; /* why there is no text; NULL: there is */
};

struct source_view {
	const struct trace *trace;
	struct stalls stalls;
	VEC(struct source_code) codes; /* most samples first */
	VEC(struct source_file) files;
	/* What texts belong to. */
	VEC(struct sass) sass;
	struct interner paths, reasons;
};

/* Loads what it needs. 0 or a negative code, and then there is nothing to release. */
int source_view_init(struct source_view *v, struct trace *t, const struct filter *filter,
		     const struct source_options *options, struct error *e) MUST_USE;
void source_view_release(struct source_view *v);
/* What is known of a line, or NULL. */
const struct stall_place *source_heat(const struct source_file *f, uint32_t line);
/* What places are compared by: their samples; where there are none, executed instructions. */
uint64_t source_weight(const struct source_view *v, uint64_t samples,
		       const struct sass_counts *sass);

#endif
