/*
 * roofline.h: performance of kernels relative to the roofs of their GPU, and arithmetic intensity
 * at each level of memory.
 *
 * A roof is a metric's .peak_sustained (per cycle) times the measured cycles per second; there are
 * no tables of chips. Attainable is min(peak, intensity * bandwidth), so the share of attainable is
 * the greater of the shares of the two roofs.
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
	/* type: the kernel used none of the measured types; limit: unknown */
	ROOF_NONE = ROOFS_END,
	ROOF_TYPES = ROOF_FP64, /* the first type; levels come before it */
};

const char *roof_name(unsigned roof);

/* Sums over all launches of a kernel. Unknown figures are NAN. */
struct roofline_point {
	uint32_t kernel, number; /* as in struct counters */
	uint8_t type, level, limit; /* enum roof; limit: the nearer roof */
	double flops, bandwidth; /* operations and bytes per second */
	double intensity; /* operations per byte; INFINITY: no bytes */
	double peak_flops, peak_bandwidth;
	double attainable, percent; /* FLOP/s; share of the nearer roof */
};

struct roofline {
	struct roofline_point *items; /* by number, type, level */
	size_t count;
	uint32_t measured; /* bits: roofs whose operations or bytes are known for all kernels */
	uint32_t unlimited; /* bits: roofs that a kernel used but whose peak is unknown */
};

struct counted_kernel;
struct counter_of_kernel;
struct trace;

/*
 * Computes the roofline of kernels with their items. Uses only metrics that all measured launches
 * of a kernel have. 0 or -ENOMEM.
 */
int roofline_make(const struct trace *t, const struct counted_kernel *kernels, size_t count,
		  const struct counter_of_kernel *items, struct roofline *out);

#endif
