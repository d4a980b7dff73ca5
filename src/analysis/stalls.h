/*
 * stalls.h: PC samples of GPU warps: where the warps were and what they waited for, by kernel, line
 * and instruction.
 *
 * Samples belong to kernels, not to launches. A sample belongs to the kernel whose section of
 * device code contains it, so functions that only one kernel calls belong to that kernel. A
 * function with its own section (-rdc=true), or whose device code was not kept, is a separate row.
 *
 * Invariants:
 *
 *	total of the readings = samples + excluded + dropped + other + unaccounted
 *	samples = sum of the kernels = sum of the reasons = sum of the instructions
 *		= sum of the lines + without_line + without_code
 *
 * `not_issued` is always included in `samples` (stall_reasons.h). A reading belongs to a window if
 * it starts in it.
 */
#ifndef PITOT_ANALYSIS_STALLS_H
#define PITOT_ANALYSIS_STALLS_H

#include "analysis/filter.h"
#include "analysis/sass_counts.h"
#include "analysis/stall_reasons.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbol/cubin.h"

#define STALL_FRAMES_MAX 16u /* frames of an instruction: the innermost are kept */

struct stall_count {
	uint32_t place; /* stall_place.number */
	uint32_t reason; /* number of the reason */
	struct stall_reason what;
	uint64_t samples, not_issued;
};

/* Keys by which instructions are grouped. */
enum stall_key {
	STALL_WHOLE,
	STALL_KERNEL,
	STALL_LINE, /* line within a kernel; this and the next only if the line is known */
	STALL_SOURCE, /* line over all kernels */
	STALL_KEYS,
};

/* A kernel, a line of a kernel, or an instruction. */
struct stall_place {
	uint32_t number; /* in order of first occurrence */
	const char *kernel_name; /* mangled */
	const char *file; /* NULL: unknown, or not a line */
	uint32_t line;
	uint64_t samples, not_issued;
	struct sass_counts sass;
	const struct stall_count *reasons; /* most samples first */
	size_t reason_count;
	const struct stall_place *hottest; /* of kernels: line with most samples; NULL: unknown */
	/* Of instructions only. */
	const struct sampled_function *function;
	uint64_t keys[STALL_KEYS];
	uint64_t offset; /* in the section, or in the sampled function */
	const struct source_frame *frames; /* outermost first: the function itself */
	size_t frame_count;
};

/* A function that samples name, in its device code. A section may contain several. */
struct sampled_function {
	const char *name; /* of the section, which is the kernel's, or of the function itself */
	uint64_t crc;
	struct cubin *cubin; /* NULL: the code was not kept */
	struct cubin_function section; /* section that contains the function */
	bool is_found, is_selected;
	uint32_t process, device; /* with STALLS_BY_DEVICE; else UINT32_MAX */
	uint64_t start; /* offset in the section */
	uint64_t code; /* identifies the base of its offsets: the section, else the function */
};

struct kept_cubin {
	struct cubin *cubin;
	uint64_t row; /* of table cubin */
};

struct stall_places {
	struct stall_place *items; /* most samples first, then most executed instructions */
	size_t count;
	struct stall_count *counts; /* memory of the places' `reasons` */
};

struct stalls {
	uint64_t rows; /* of samples in the recording, selected or not */
	uint64_t readings, total, dropped, other; /* selected readings and their sums */
	uint64_t period_cycles; /* 0: unknown, or readings differ */
	uint64_t samples, not_issued;
	uint64_t excluded; /* samples of kernels that the filter excludes */
	uint64_t unaccounted; /* samples in `total` that no other figure contains */
	const struct stall_count *reasons; /* most samples first */
	size_t reason_count;
	struct stall_places whole, kernels; /* whole: at most one place, the sum of all */
	struct stall_places lines, instructions;
	struct stall_places source; /* lines over all kernels */
	uint64_t without_line; /* samples in device code without line information */
	uint64_t without_code; /* samples in device code that was not kept */
	uint64_t launches; /* known launches with instruction counts; 0: unknown */
	struct sass_counts sass; /* sum over all launches */

	/* Owners of texts and frames. */
	struct interner texts, reason_names;
	struct arena memory;
	VEC(struct kept_cubin) cubins;
};

enum {
	STALLS_BY_DEVICE = 1, /* distinguish instructions by process and device */
	/* add instruction counts; also needs the tables metric and sass_value */
	STALLS_SASS = 2,
};
/* Tables cubin, pc_reading, pc_sample must be loaded. 0 or -ENOMEM; release *s in either case. */
int stalls_init(struct stalls *s, const struct selection *selection, unsigned what) MUST_USE;
void stalls_release(void *stalls);

/* Appends the path of a row of table cubin; false: it was not kept, or out of memory. */
bool stalls_cubin_path(const struct trace *t, uint64_t row, struct strbuf *out);
/* Appends "87.5% waiting for …, 6.9% …": waits first, at most `max` reasons of at least 1 %. */
void stalls_describe(const struct stall_place *p, size_t max, struct strbuf *out);
/* The most frequent reason of a place that is a wait; NULL: there is none. */
const struct stall_count *stalls_first_wait(const struct stall_place *p);

#endif
