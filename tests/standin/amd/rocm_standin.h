/*
 * rocm_standin.h: what the stand-ins for HIP and for ROCprofiler-SDK say to each other. In reality
 * the SDK wraps HIP's table of functions; here HIP calls hooks that the SDK fills in. Towards tools
 * both follow the protocol of AMD's public headers and source: nothing here has seen an AMD GPU.
 *
 * STANDIN_ROCM_TRUTH names a file that gets a line of JSON for each kernel, copy and allocation.
 * STANDIN_ROCM_FAULT: what goes wrong: old (version 0.6), status:<function> (which fails), short,
 * longer (records), reversed, no-times, no-streams, drops, no-symbols, hang (flushes), kinds
 * (unknown ones), bare-agents (GPUs of which little is known), no-gpus (as without /dev/kfd),
 * no-graphs (version 1.2.1), no-allocations (that buffer is refused), many-streams (their ids do
 * not fit into Pitot's), late (HIP finds no SDK until a program forces a tool).
 */
#ifndef ROCM_STANDIN_H
#define ROCM_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STANDIN_GPUS 2u
#define STANDIN_AGENT(gpu) (100u + (gpu)) /* agent 99 is the CPU */

struct standin_kernel {
	const char *name; /* with ".kd" */
	uint64_t id;
};

struct standin_dispatch {
	const struct standin_kernel *kernel;
	uint64_t stream;
	unsigned gpu;
	uint32_t private_bytes, group_bytes, workgroup[3], grid[3];
};

/* HIP's operations that the stand-in has, with the numbers of SDK 1.x. */
#define STANDIN_HIP(F)                                                                             \
	F(hipDeviceSynchronize, 66)                                                                \
	F(hipEventRecord, 79)                                                                      \
	F(hipFree, 90)                                                                             \
	F(hipGraphLaunch, 166)                                                                     \
	F(hipHostFree, 194)                                                                        \
	F(hipHostMalloc, 197)                                                                      \
	F(hipLaunchKernel, 214)                                                                    \
	F(hipMalloc, 215)                                                                          \
	F(hipMemcpy, 259)                                                                          \
	F(hipMemcpyAsync, 268)                                                                     \
	F(hipModuleLaunchKernel, 308)                                                              \
	F(hipStreamSynchronize, 346)                                                               \
	F(hipExtModuleLaunchKernel, 388)
#define STANDIN_ROCTX(F)                                                                           \
	F(roctxMarkA, 0)                                                                           \
	F(roctxRangePushA, 1) F(roctxRangePop, 2) F(roctxRangeStartA, 3) F(roctxRangeStop, 4)

struct standin_hooks {
	/* An operation of a kind begins or ends; `payload` as the kind's. */
	void (*call)(uint32_t kind, int32_t operation, uint32_t phase, void *payload);
	void (*dispatch)(const struct standin_dispatch *d);
	void (*copy)(int32_t operation, uint64_t to, uint64_t from, uint64_t bytes);
	/* Memory of an agent has been allocated, or what is at an address released. */
	void (*memory)(int32_t operation, uint64_t agent, uint64_t address, uint64_t bytes);
	void (*loaded)(const struct standin_kernel *kernel);
	void (*wait)(void); /* until all work has ended */
};

/* Whether that goes wrong, and what follows its name and a colon (argument may be NULL). */
static inline bool has_fault(const char *name, const char **argument)
{
	const char *fault = getenv("STANDIN_ROCM_FAULT");
	size_t length = strlen(name);

	if (!fault || strncmp(fault, name, length) != 0 || (fault[length] && fault[length] != ':'))
		return false;
	if (argument)
		*argument = fault[length] ? fault + length + 1 : "";
	return true;
}

/* The status of a function that a test lets fail. */
static inline int standin_status_of(const char *function)
{
	const char *name;

	return has_fault("status", &name) && !strcmp(name, function) ? 5 : 0;
}

#endif
