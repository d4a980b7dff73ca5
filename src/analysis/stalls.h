/*
 * stalls.h: where warps were when the GPU's samplers looked at them, and what they waited for: by kernel, by line and by
 * instruction.
 *
 * Samples are of kernels, not of launches. A sample is of the kernel whose section of device code it is in: so the functions that only
 * one kernel calls belong to that kernel. A function with a section of its own (-rdc=true), or whose device code was not kept, is a
 * row of its own.
 *
 * What is counted, and adds up:
 *
 *	total of the readings = samples + unwanted + dropped + other + unaccounted
 *	samples = sum of the kernels = sum of the reasons = sum of the instructions = sum of the lines + unlined + codeless
 *
 * not_issued is a part of samples everywhere (stall_reasons.h). A reading belongs to a window when it starts in it.
 */
#ifndef PITOT_ANALYSIS_STALLS_H
#define PITOT_ANALYSIS_STALLS_H

#include "analysis/stall_reasons.h"
#include "base/map.h"
#include "symbol/cubin.h"

#define STALL_FRAMES_MAX 16u /* of an instruction: the innermost are kept */

struct stall_count {
	uint32_t place; /* number of its place */
	uint32_t reason; /* number of its reason */
	const struct stall_reason *what;
	uint64_t samples, not_issued;
};

/* A kernel, a line of a kernel, or an instruction. */
struct stall_place {
	uint32_t number, kernel; /* in the order in which they were met; of its kernel */
	const char *kernel_name; /* as the compiler made it */
	const char *
		function; /* of instructions: whose section the offset is in, or that was sampled */
	const char *file; /* NULL: unknown, or of no line */
	uint32_t line;
	uint64_t crc, offset;
	uint64_t samples, not_issued;
	const struct stall_count *reasons; /* most samples first */
	size_t reason_count;
	const struct source_frame *frames; /* the function first, innermost last */
	size_t frame_count;
};

struct stall_places {
	struct stall_place *items; /* most samples first */
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
	struct stall_count *reasons; /* most first */
	size_t reason_count;
	struct stall_places kernels;
	/* Only if they are asked for. */
	struct stall_places lines, instructions;
	uint64_t unlined; /* samples of device code without lines */
	uint64_t codeless; /* samples of device code that was not kept */

	/* What texts belong to. */
	struct interner kernel_names, reason_names, files;
	struct stall_reason *known; /* by number of reason */
	struct source_frame *frames;
	struct cubin **cubins;
	size_t cubin_count;
};

/* The first reason of a place that is a wait; NULL: there is none. */
const struct stall_count *stalls_first_wait(const struct stall_place *p);

#endif
