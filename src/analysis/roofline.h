/*
 * roofline.h: how fast kernels computed, against what their GPU could do: arithmetic intensity at
 * each level of memory, and the roofs.
 *
 * A roof is a metric's .peak_sustained (of a cycle) times the measured cycles per second; nothing
 * is known of a chip but what was measured. Attainable is min(peak, intensity * bandwidth), so that
 * the share of it is the greater one of the shares of both roofs.
 */
#ifndef PITOT_ANALYSIS_ROOFLINE_H
#define PITOT_ANALYSIS_ROOFLINE_H

#include <stddef.h>
#include <stdint.h>

/* Levels of memory, and types of numbers. */
#define ROOFS(R)                                                                                   \
	R(DRAM, "DRAM")                                                                            \
	R(L2, "L2")                                                                                \
	R(L1, "L1")                                                                                \
	R(FP64, "FP64")                                                                            \
	R(FP32, "FP32")                                                                            \
	R(FP16, "FP16")                                                                            \
	R(TENSOR_FP64, "tensor FP64")                                                              \
	R(TENSOR_TF32, "tensor TF32")                                                              \
	R(TENSOR_BF16, "tensor BF16")                                                              \
	R(TENSOR_FP16, "tensor FP16")                                                              \
	R(TENSOR_FP16_FP16, "tensor FP16 to FP16")                                                 \
	R(TENSOR_FP16_FP32, "tensor FP16 to FP32")                                                 \
	R(TENSOR_FP8, "tensor FP8")

enum roof {
#define R(name, label) ROOF_##name,
	ROOFS(R)
#undef R
		ROOFS_END,
	/* the type where none that was measured was used; an unknown limit */
	ROOF_NONE = ROOFS_END,
	ROOF_TYPES = ROOF_FP64, /* the first; levels are before it */
};

const char *roof_name(unsigned roof);

/* Of all launches of a kernel. Figures that are not known are NAN. */
struct roofline_point {
	uint32_t kernel, number; /* as in struct counters */
	uint8_t type, level, limit; /* enum roof; limit: the nearer roof */
	double flops, bandwidth, intensity; /* in a second; INFINITY: no bytes */
	double peak_flops, peak_bandwidth;
	double attainable, percent; /* FLOP/s; share of the nearer roof */
};

struct roofline {
	struct roofline_point *items; /* by number, type, level */
	size_t count;
	uint32_t measured; /* bits: roofs of which the work or bytes of all kernels are known */
	uint32_t unlimited; /* bits: those with work of a kernel, but without a known peak */
};

struct counters;
struct trace;

/*
 * Of counters that are complete but for this; a metric counts that all measured launches of a
 * kernel have. 0 or -ENOMEM.
 */
int roofline_make(const struct trace *t, const struct counters *c, struct roofline *out);

#endif
