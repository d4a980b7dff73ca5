/*
 * pc_context.h: PC sampling of one CUDA context through CUPTI, in continuous mode: kernels run
 * unchanged, and every 2^exponent cycles each multiprocessor samples the PC and the stall reason of
 * a warp.
 *
 * The order of the calls: cuptiPCSamplingEnable, the names of stall reasons, the configuration;
 * then cuptiPCSamplingGetData repeatedly, which does not wait for the GPU; finally
 * cuptiPCSamplingDisable. Sampling is enabled in the callback of the context's creation and
 * disabled in the callback of its destruction, as NVIDIA's own clients do: called from elsewhere in
 * a running program, one of the two hung the program (H100, CUPTI 13.0). When a module is unloaded
 * and when sampling is disabled, CUPTI leaves its remaining samples in the configured buffer. Start
 * and stop control (cuptiPCSamplingStart, …Stop) is not used: it is meant for ranges, and requires
 * a flush after each stop.
 *
 * CUPTI counts a sample under its stall reason, and again under that reason's twin …_not_issued if
 * the scheduler issued nothing in that cycle. Pitot counts each sample once: under the twin if
 * CUPTI did, otherwise under the reason.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_CONTEXT_H
#define PITOT_CAPTURE_ENGINES_PC_CONTEXT_H

#include <stdbool.h>

#include <cupti_pcsampling.h>

#include "base/vec.h"
#include "capture/cuda/vendor.h"
#include "capture/engines/pc_readings.h"

#define PC_PCS 8192u /* per call of GetData */
#define PC_REASONS_MAX 256u
#define PC_ROWS_MAX (256u << 10) /* per reading: 10 MiB */

struct pc_context {
	CUcontext handle;
	uint32_t id, device;
	uint64_t period_cycles; /* 0: unknown */
	size_t reason_count;
	const char *reasons[PC_REASONS_MAX]; /* by CUPTI's index; NULL: unused index */
	const char *twins[PC_REASONS_MAX]; /* by not-issued twin: its reason; NULL: not a twin */
	uint32_t indices[PC_REASONS_MAX];
	bool in_window; /* whether samples since the last reading are recorded */
	uint64_t since_ns; /* time of the last reading */
	CUpti_PCSamplingData now, rest; /* filled by GetData; the configured buffer */
	void *memory; /* the arrays of both */
	VEC(struct pc_sample) samples;
	uint64_t full; /* times that the GPU's buffer was full in a window */
	unsigned failures; /* of GetData, in succession */
	CUptiResult why; /* of the last failure */
};

/*
 * Starts sampling every 2^exponent cycles. Must be called in the callback of the context's
 * creation. On failure *function is the CUPTI function that failed.
 */
CUptiResult pc_context_start(struct pc_context *c, const struct cupti *cupti, unsigned exponent,
			     const char **function);
/* Queues all samples since the last reading; outside windows discards them. 0: there were none. */
uint64_t pc_context_read(struct pc_context *c, const struct cupti *cupti);
/* Reads a last time and ends sampling. Must be called in the context's destruction callback. */
void pc_context_stop(struct pc_context *c, const struct cupti *cupti);
/* Whether CUPTI has left samples in the configured buffer. */
bool pc_context_has_rest(const struct pc_context *c);
/* Frees the buffers and clears *c. */
void pc_context_release(struct pc_context *c);

#endif
