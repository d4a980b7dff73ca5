/*
 * pc_context.h: PC sampling of one CUDA context through CUPTI, in continuous mode: kernels run as
 * ever, and the hardware notes, every so many cycles of a multiprocessor, where a warp is and what
 * it waits for.
 *
 * The order of the calls: cuptiPCSamplingEnable, the names of stall reasons, the configuration;
 * then cuptiPCSamplingGetData again and again, which waits for nothing that the GPU does; at last
 * cuptiPCSamplingDisable. Sampling is enabled in the callback of the context's creation and
 * disabled in that of its destruction, as NVIDIA's own clients do: elsewhere, in a program that
 * ran, one of the two hung the program for good (H100, CUPTI 13.0). What CUPTI has in hand when a
 * module is unloaded, and when sampling is disabled, it leaves in the buffer of the configuration.
 * Start and stop control (cuptiPCSamplingStart, …Stop) is not used: it is for ranges, of which each
 * stop must be flushed.
 *
 * CUPTI counts a sample under its reason, and once more under the reason's twin …_not_issued if the
 * scheduler issued nothing in that cycle. Here it counts once: under the twin, or else under the
 * reason.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_CONTEXT_H
#define PITOT_CAPTURE_ENGINES_PC_CONTEXT_H

#include <stdbool.h>

#include <cupti_pcsampling.h>

#include "base/vec.h"
#include "capture/cuda/vendor.h"
#include "capture/engines/pc_readings.h"

#define PC_PCS 8192u /* in one call */
#define PC_REASONS_MAX 256u
#define PC_ROWS_MAX (256u << 10) /* of one reading: 10 MiB */

struct pc_context {
	CUcontext handle;
	uint32_t id, device;
	uint64_t period_cycles; /* 0: not known */
	size_t reason_count;
	const char *reasons[PC_REASONS_MAX]; /* by CUPTI's index; NULL: none */
	const char *twins[PC_REASONS_MAX]; /* the reason that this one is the not-issued twin of */
	uint32_t indices[PC_REASONS_MAX];
	bool in_window; /* what was sampled since the reading before is wanted */
	uint64_t since_ns; /* of the reading before */
	CUpti_PCSamplingData now, rest; /* of GetData, and what CUPTI leaves */
	void *memory;
	VEC(struct pc_sample) samples;
	uint64_t full; /* times that the hardware's buffer was */
	unsigned failures; /* of GetData, one after the other */
	CUptiResult why;
};

/*
 * Begins sampling every 2^exponent cycles, in the callback of the context's creation. *function:
 * which call failed.
 */
CUptiResult pc_context_start(struct pc_context *c, const struct cupti *cupti, unsigned exponent,
			     const char **function);
/* Hands over what was sampled, or throws it away outside of a window. Returns how much that is. */
uint64_t pc_context_read(struct pc_context *c, const struct cupti *cupti);
/* The same, and ends sampling, in the callback of the context's destruction. */
void pc_context_stop(struct pc_context *c, const struct cupti *cupti);
/* Whether CUPTI has left something that a reading would take. */
bool pc_context_has_rest(const struct pc_context *c);
/* Frees what it has, and forgets it. */
void pc_context_release(struct pc_context *c);

#endif
