/*
 * frame.h: one entry of a stack, a 64-bit number. The innermost frame of a stack comes first.
 *
 *	bit 63 clear, bit 62 clear	native: a return address; the call is at address - 1
 *	bit 63 clear, bit 62 set	interrupted: bits 61..0 are the address of the instruction
 *					that a signal or sample interrupted
 *	bit 63 set			python: number of the code object << 32 | instruction, made
 *					by python_code.h
 *	bits 63, 62 clear, bit 61 set	kernel: an address in the operating system's kernel, whose
 *					three highest bits are set; as in a native frame, the code
 *					is at address - 1
 *
 * Python frames replace the interpreter's own. A walk of the native stack yields a native frame for
 * each activation of _PyEval_EvalFrameDefault. frame_in_ranges() recognises these by the ranges of
 * that function (it has a part .cold), and the Python frames are spliced in there
 * (python_splice.h).
 */
#ifndef PITOT_STACK_FRAME_H
#define PITOT_STACK_FRAME_H

#include <stdbool.h>

#include "base/compiler.h"

#define FRAME_PYTHON (UINT64_C(1) << 63)
#define FRAME_INTERRUPTED (UINT64_C(1) << 62)
#define FRAME_KERNEL (UINT64_C(1) << 61)
#define FRAME_ADDRESS_MASK (FRAME_INTERRUPTED - 1)

/* Returns the address of a native or interrupted frame. */
static inline uint64_t frame_address(uint64_t frame)
{
	return frame & FRAME_ADDRESS_MASK;
}

/* Returns the address for looking up rule, function and line of a native or interrupted frame. */
static inline uint64_t frame_lookup_address(uint64_t frame)
{
	return frame_address(frame) - !(frame & FRAME_INTERRUPTED);
}

static inline uint64_t frame_of_kernel(uint64_t address)
{
	return (address & (FRAME_KERNEL - 1)) | FRAME_KERNEL;
}

static inline bool frame_is_kernel(uint64_t frame)
{
	return frame >> 61 == 1;
}

static inline uint64_t frame_kernel_address(uint64_t frame)
{
	return frame | FRAME_PYTHON | FRAME_INTERRUPTED;
}

/* Code addresses [start, end). */
struct code_range {
	uint64_t start, end;
};

static inline bool frame_in_ranges(uint64_t frame, const struct code_range *ranges, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (frame_lookup_address(frame) - ranges[i].start < ranges[i].end - ranges[i].start)
			return true;
	return false;
}

#endif
