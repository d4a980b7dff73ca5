/*
 * stalls.h: where warps were when the GPU's samplers looked at them, and what they waited for: by
 * kernel, by line and by instruction.
 *
 * Samples are of kernels, not of launches. A sample is of the kernel whose section of device code
 * it is in: so the functions that only one kernel calls belong to that kernel. A function with a
 * section of its own (-rdc=true), or whose device code was not kept, is a row of its own.
 *
 * What is counted, and adds up:
 *
 *	total of the readings = samples + unwanted + dropped + other + unaccounted
 *	samples = sum of the kernels = sum of the reasons = sum of the instructions
 *		= sum of the lines + unlined + codeless
 *
 * not_issued is a part of samples everywhere (stall_reasons.h). A reading belongs to a window when
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

#define STALL_FRAMES_MAX 16u /* of an instruction: the innermost are kept */

struct stall_count {
	uint32_t place; /* number of its place */
	uint32_t reason; /* number of its reason */
	struct stall_reason what;
	uint64_t samples, not_issued;
};

/* What instructions are added up by. */
enum stall_key {
	STALL_WHOLE,
	STALL_KERNEL,
	STALL_LINE, /* of a kernel; the rest only where the line is known */
	STALL_SOURCE, /* of all kernels */
	STALL_KEYS,
};

/* A kernel, a line of a kernel, or an instruction. */
struct stall_place {
	uint32_t number; /* in the order in which they were met */
	const char *kernel_name; /* as the compiler made it */
	const char *file; /* NULL: unknown, or of no line */
	uint32_t line;
	uint64_t samples, not_issued;
	struct sass_counts sass;
	const struct stall_count *reasons; /* most samples first */
	size_t reason_count;
	const struct stall_place
		*hottest; /* of kernels: the line with most samples; NULL: none is known */
	/* Of instructions. */
	const struct sampled_function *of;
	uint64_t keys[STALL_KEYS];
	uint64_t offset; /* in its section, or in what was sampled */
	const struct source_frame *frames; /* the function first, innermost last */
	size_t frame_count;
};

/* What was sampled, in its device code. Samples of a section can be of several of them. */
struct sampled_function {
	const char *name; /* of the section: the kernel's; or of what was sampled */
	uint64_t crc;
	struct cubin *cubin; /* NULL: its code was not kept */
	struct cubin_function section; /* that it is in, from its start on */
	bool is_found, is_wanted;
	uint32_t process, device; /* if asked for; UINT32_MAX: unknown */
	uint64_t start; /* in the section */
	uint64_t
		code; /* number of what its offsets are in: the section, else the function itself */
};

struct kept_cubin {
	struct cubin *cubin;
	uint64_t row; /* of table cubin */
};

struct stall_places {
	struct stall_place *items; /* most samples first, then most executed instructions */
	size_t count;
	struct stall_count *counts; /* what `reasons` point to */
};

struct stalls {
	uint64_t rows; /* of samples in the recording, wanted or not */
	uint64_t readings, total, dropped, other; /* of those that are wanted */
	uint64_t period_cycles; /* 0: unknown, or not the same in all readings */
	uint64_t samples, not_issued;
	uint64_t unwanted; /* samples of kernels that the filter left out */
	uint64_t unaccounted; /* samples that the readings have beyond all others */
	const struct stall_count *reasons; /* most first */
	size_t reason_count;
	struct stall_places whole, kernels; /* whole: at most one place, of everything */
	struct stall_places lines, instructions;
	struct stall_places source; /* lines of all kernels together */
	uint64_t unlined; /* samples of device code without lines */
	uint64_t codeless; /* samples of device code that was not kept */
	uint64_t launches; /* of which instructions were counted */
	struct sass_counts sass; /* of all of them */

	/* What texts and frames belong to. */
	struct interner texts, reason_names;
	struct arena memory;
	VEC(struct kept_cubin) cubins;
};

enum {
	STALLS_BY_DEVICE = 1, /* instructions of different processes and devices are different */
	/* also what was counted of instructions: needs the tables metric and sass_value, too */
	STALLS_SASS = 2,
};
/* Needs the tables cubin, pc_reading and pc_sample. 0 or -ENOMEM; to be released in both cases. */
int stalls_init(struct stalls *s, const struct selection *selection, unsigned what) MUST_USE;
void stalls_release(struct stalls *s);

/*
 * Where the device code of a row of table cubin is; false: it was not kept, or there is no memory.
 */
bool stalls_cubin_path(const struct trace *t, uint64_t row, struct strbuf *out);
/*
 * Appends "87.5% waiting for …, 6.9% …": the first wait first, in all `max` reasons with a percent
 * at least.
 */
void stalls_describe(const struct stall_place *p, size_t max, struct strbuf *out);
/* The first reason of a place that is a wait; NULL: there is none. */
const struct stall_count *stalls_first_wait(const struct stall_place *p);

#endif
