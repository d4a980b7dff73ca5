/*
 * frame.h: what one entry of a stack is: a 64-bit number, innermost frame first.
 *
 *	63..60  kind
 *	59..0   native:       a return address; the call is at address - 1
 *	        interrupted:  an address that a signal or a sample interrupted; it is itself what ran
 *	        python:       59..32 number of the code object, 31..0 line (0: not known)
 *
 * Python frames take the place of the interpreter's own. A walk of the native stack yields a native
 * frame for each activation of _PyEval_EvalFrameDefault, which frame_in_ranges() recognises by the
 * ranges of that function (it has a part .cold); whoever walks the interpreter's frames splices them
 * in there, up to the entry shim of that activation (up to CPython 3.10: one Python frame for each).
 */
#ifndef PITOT_STACK_FRAME_H
#define PITOT_STACK_FRAME_H

#include <stdbool.h>

#include "base/compiler.h"

enum frame_kind { FRAME_NATIVE, FRAME_INTERRUPTED, FRAME_PYTHON };

#define FRAME_KIND_SHIFT 60
#define FRAME_ADDRESS_MASK ((UINT64_C(1) << FRAME_KIND_SHIFT) - 1)
#define FRAME_PYTHON_CODE_MAX ((UINT32_C(1) << 28) - 1)

static inline uint64_t frame_of(enum frame_kind kind, uint64_t address)
{
	return (uint64_t)kind << FRAME_KIND_SHIFT | (address & FRAME_ADDRESS_MASK);
}

static inline uint64_t frame_of_python(uint32_t code, uint32_t line)
{
	return frame_of(FRAME_PYTHON, (uint64_t)code << 32 | line);
}

static inline enum frame_kind frame_kind(uint64_t frame)
{
	return (enum frame_kind)(frame >> FRAME_KIND_SHIFT);
}

static inline uint64_t frame_address(uint64_t frame)
{
	return frame & FRAME_ADDRESS_MASK;
}

static inline uint32_t frame_code(uint64_t frame)
{
	return (uint32_t)(frame_address(frame) >> 32);
}

static inline uint32_t frame_line(uint64_t frame)
{
	return (uint32_t)frame;
}

/* The address whose rule, function and line are those of a native frame. */
static inline uint64_t frame_lookup_address(uint64_t frame)
{
	return frame_address(frame) - (frame_kind(frame) == FRAME_NATIVE);
}

/* Addresses of code: [start, end). */
struct code_range {
	uint64_t start, end;
};

static inline bool frame_in_ranges(uint64_t frame, const struct code_range *ranges, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (frame - ranges[i].start < ranges[i].end - ranges[i].start)
			return true;
	return false;
}

#endif
