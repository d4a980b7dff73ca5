/*
 * replay_gpu.h: what a replay needs on the GPUs, made before the time that counts: contexts,
 * stand-ins, streams, events, graphs, and memory for copies, which all copies share.
 *
 * The stand-ins' own times leave out what a kernel needs to begin and end. That is measured before
 * each replay: kernels one after the other begin as far apart as in the recording if each ends this
 * much earlier (`extra_ns`). Graphs are not uploaded: as in programs, their first launch does that.
 */
#ifndef PITOT_REPLAY_REPLAY_GPU_H
#define PITOT_REPLAY_REPLAY_GPU_H

#include <signal.h>
#include <stdbool.h>

#include "vendor/nvidia/cuda_driver.h"
#include "replay/replay_plan.h"

enum replay_pace { PACE_GAPS, PACE_RECORDED, PACE_FREE };
enum replay_stand_in { STAND_IN_DEADLINE, STAND_IN_WORK };

struct replay_settings {
	enum replay_pace pace;
	enum replay_stand_in stand_in;
	double speed; /* times of host and kernels are divided by it */
	uint64_t repeat;
	uint64_t memory_bytes; /* of a GPU, and of the host, for copies; 0: half of what is free */
	const volatile sig_atomic_t *stop; /* ends the replay when it is not 0 */
};

/* In device memory; stand_in.ptx describes it. */
struct replay_slot {
	uint64_t busy_ns;
	uint32_t ended, violations;
	uint64_t first_ns, last_ns;
	uint64_t started_ns;
	uint32_t blocks, unused[5];
};
_Static_assert(sizeof(struct replay_slot) == 64, "must match stand_in.ptx");

/* What a shape's work takes: linear in its steps. */
struct replay_pace_of_work {
	double base_ns, step_ns;
};

#define CALIBRATION_SLOTS 2u /* then one of each stream, and of each node */

struct replay_gpu {
	int device;
	cuda_context context;
	cuda_module module;
	cuda_function deadline, work;
	cuda_address slots, pool[2];
	size_t slot_count, pool_bytes, offset;
	int least_priority, greatest_priority, max_threads, max_shared_bytes;
	uint64_t timer_step_ns, extra_ns, graph_extra_ns;
	double cycles_per_ns;
	struct replay_pace_of_work *shapes; /* STAND_IN_WORK: by plan.shapes */
};

struct replay_event {
	cuda_event event;
	cuda_address slot; /* of the stream that recorded it last */
	uint32_t kernels; /* that it had launched */
};

struct replay_stream_state {
	cuda_stream stream;
	struct replay_gpu *gpu;
	cuda_address slot;
	uint32_t kernels; /* launched on it, outside of graphs */
	cuda_address after; /* what its next kernel waits for; 0: nothing */
	uint32_t after_count;
};

/* Calls the driver; sets *e, which must be there, if that fails. */
#define CUDA(m, function, ...)                                                                     \
	libcuda_check(&(m)->driver.base, #function, (m)->driver.function(__VA_ARGS__), e)

struct replay_machine {
	struct cuda_driver driver;
	const struct replay_plan *plan;
	const struct replay_settings *settings;
	struct replay_gpu *gpus;
	size_t gpu_count;
	struct replay_stream_state *streams;
	struct replay_event *events;
	cuda_graph_exec *graphs;
	void *pinned, *pageable;
	size_t pinned_bytes, pageable_bytes;
	uint32_t *stop; /* read by kernels */
	uint64_t substituted[SUBSTITUTION_COUNT]; /* of the plan, and of this machine */
};

/*
 * E_UNSUPPORTED: no driver, no GPU, or a call of the driver failed. replay_machine_release in any
 * case.
 */
int replay_machine_init(struct replay_machine *m, const struct replay_plan *plan,
			const struct replay_settings *settings, struct error *e) MUST_USE;
void replay_machine_release(struct replay_machine *m);

/* The parameters of a stand-in, as the driver wants them. */
struct stand_in {
	cuda_function function;
	uint32_t grid[3], block[3], shared_bytes;
	cuda_address slot, stop, after;
	uint64_t amount, cycles;
	uint32_t order, after_count;
	void *parameters[7];
};
#define ORDER_OF_NODE UINT32_MAX
/* Fills all but slot, after, order and after_count; `work` is a kernel. */
void stand_in_make(const struct replay_machine *m, const struct replay_gpu *gpu,
		   const struct replay_work *work, bool in_graph, struct stand_in *out);

/* replay_timers.c: measures timers, what kernels need to begin and end, and work by shape. */
int replay_gpu_calibrate(struct replay_machine *m, struct replay_gpu *gpu,
			 struct error *e) MUST_USE;

#define REPLAY_CHAIN_KERNELS 128u
/* Makes a graph of at most so many short kernels, each after the one before. */
int replay_chain_make(struct replay_machine *m, struct replay_gpu *gpu, uint32_t count,
		      cuda_graph_exec *out, struct error *e) MUST_USE;
/*
 * Launches REPLAY_CHAIN_KERNELS, as that graph or, with NULL, one by one. Sets the time from the
 * end of one to the start of the next, by the GPU's timer: what a kernel needs to begin and end.
 */
int replay_chain_measure(struct replay_machine *m, struct replay_gpu *gpu, cuda_graph_exec chain,
			 uint64_t *apart_ns, struct error *e) MUST_USE;

#endif
