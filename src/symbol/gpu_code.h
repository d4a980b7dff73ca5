/*
 * gpu_code.h: names and source lines of addresses in core files of GPUs (elf/gpu_core.h), by the
 * images of device code in them. Lines are known for code compiled with -lineinfo or -G, and for
 * Triton's kernels.
 *
 * Unlike in cubins (cubin.h), code has the addresses at which the GPU executes it, and line tables
 * are relocated to these. Every byte may be hostile.
 */
#ifndef PITOT_SYMBOL_GPU_CODE_H
#define PITOT_SYMBOL_GPU_CODE_H

#include "base/strbuf.h"
#include "elf/gpu_core.h"

struct gpu_code {
	struct strbuf kernel, function; /* mangled; "": unknown */
	uint64_t offset; /* of the address in the function */
	struct strbuf file; /* "": unknown */
	uint32_t line; /* 0: unknown */
};

#define GPU_CODE_INIT                                                                              \
	{                                                                                          \
		.kernel = STRBUF_INIT, .function = STRBUF_INIT, .file = STRBUF_INIT                \
	}

/* Finds what is known of an address. Returns 1, 0 if no image has code there, or -ENOMEM. */
int gpu_code_find(const struct gpu_core *core, uint64_t address, struct gpu_code *out) MUST_USE;
void gpu_code_release(struct gpu_code *code);

#endif
