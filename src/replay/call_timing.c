#include "replay/call_timing.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/search.h"
#include "replay/replay_gpu.h"

#define BATCH 64u /* launches, fewer than wait in a stream without blocking the next one */
#define EAGER_BATCHES 32u
#define BATCHES (CALL_TIMING_LAUNCHES / BATCH - EAGER_BATCHES)
#define WARM_UP 8u /* batches, or launches of a graph */
#define GRAPH_LAUNCHES 64u
#define CHAINS 8u
#define MEMORY_BYTES (256u << 10)
#define CACHE_LINE 64u

#define STREAMS 4u
#define DEPTHS 13u /* call stacks of a loop have up to so many more frames */
#define EVENT_EVERY 8u /* launches, as where an operator's result is used on another stream */
#define ALLOCATION_BYTES (UINT64_C(1) << 20)

struct loop {
	struct replay_machine m;
	struct replay_gpu *gpu;
	cuda_function timers;
	cuda_stream streams[STREAMS];
	cuda_event event;
	cuda_graph_exec chain, single; /* graphs of REPLAY_CHAIN_KERNELS, and of one */
	cuda_address slots; /* one of each stream, and one of the default stream */
	volatile unsigned char *memory;
};

/* Nothing is replayed: only the GPUs are opened and their timers measured. */
static const struct replay_plan nothing;
static const volatile sig_atomic_t never;
static const struct replay_settings settings = { .speed = 1, .stop = &never };

static int loop_open(struct loop *l, struct error *e)
{
	size_t bytes = (STREAMS + 1) * sizeof(struct replay_slot);
	int rc = replay_machine_init(&l->m, &nothing, &settings, e);

	l->gpu = l->m.gpus;
	if (rc == 0)
		rc = CUDA(&l->m, module_function, &l->timers, l->gpu->module, "pitot_timers");
	for (unsigned i = 0; i < STREAMS && rc == 0; i++)
		rc = CUDA(&l->m, stream_create, &l->streams[i], CUDA_STREAM_NON_BLOCKING, 0);
	if (rc == 0)
		rc = CUDA(&l->m, event_create, &l->event, CUDA_EVENT_DISABLE_TIMING);
	if (rc == 0)
		rc = replay_chain_make(&l->m, l->gpu, REPLAY_CHAIN_KERNELS, &l->chain, e);
	if (rc == 0)
		rc = replay_chain_make(&l->m, l->gpu, 1, &l->single, e);
	if (rc == 0)
		rc = CUDA(&l->m, allocate, &l->slots, bytes);
	if (rc == 0)
		rc = CUDA(&l->m, set_async, l->slots, 0, bytes, NULL);
	if (rc == 0)
		rc = CUDA(&l->m, context_synchronize);
	l->memory = calloc(1, MEMORY_BYTES);
	return rc == 0 && !l->memory ? error_set(e, -ENOMEM, "out of memory") : rc;
}

static void loop_close(struct loop *l)
{
	const struct cuda_driver *d = &l->m.driver;

	if (l->slots)
		d->free(l->slots);
	if (l->single)
		d->graph_exec_destroy(l->single);
	if (l->chain)
		d->graph_exec_destroy(l->chain);
	if (l->event)
		d->event_destroy(l->event);
	for (unsigned i = 0; i < STREAMS; i++)
		if (l->streams[i])
			d->stream_destroy(l->streams[i]);
	replay_machine_release(&l->m);
	free((void *)(uintptr_t)l->memory);
}

static uint64_t tenth_percentile(uint64_t *ns, size_t count)
{
	qsort(ns, count, sizeof(*ns), order_u64);
	return ns[count / 10];
}

static void touch_memory(struct loop *l)
{
	for (size_t k = 0; k < MEMORY_BYTES; k += CACHE_LINE)
		l->memory[k]++;
}

/* --- launches, and calls that wait --- */

static int launch_kernel(struct loop *l, unsigned stream, uint64_t ns, struct error *e)
{
	cuda_address slot = l->slots + stream * sizeof(struct replay_slot);
	uint64_t stop = (cuda_address)(uintptr_t)l->m.stop, none = 0;
	uint32_t order = ORDER_OF_NODE, after_count = 0;
	void *parameters[] = { &slot, &stop, &ns, &none, &none, &order, &after_count };

	return CUDA(&l->m, launch, l->gpu->deadline, 1, 1, 1, 1, 1, 1, 0,
		    stream < STREAMS ? l->streams[stream] : NULL, parameters, NULL);
}

static int time_batch(struct loop *l, uint64_t *launch_ns, uint64_t *synchronize_ns,
		      struct error *e)
{
	uint64_t start_ns = clock_monotonic_ns();
	int rc = 0;

	for (unsigned i = 0; i < BATCH && rc == 0; i++) {
		touch_memory(l);
		rc = launch_kernel(l, STREAMS, 0, e);
	}
	*launch_ns = (clock_monotonic_ns() - start_ns) / BATCH;
	if (rc == 0)
		rc = CUDA(&l->m, stream_synchronize, NULL);
	start_ns = clock_monotonic_ns();
	if (rc == 0)
		rc = CUDA(&l->m, stream_synchronize, NULL);
	*synchronize_ns = clock_monotonic_ns() - start_ns;
	return rc;
}

static int time_calls(struct loop *l, struct calibration *out, struct error *e)
{
	uint64_t launch_ns[BATCHES], synchronize_ns[BATCHES];
	int rc = 0;

	for (unsigned i = 0; i < WARM_UP && rc == 0; i++)
		rc = time_batch(l, launch_ns, synchronize_ns, e);
	for (unsigned i = 0; i < BATCHES && rc == 0; i++)
		rc = time_batch(l, &launch_ns[i], &synchronize_ns[i], e);
	if (rc < 0)
		return rc;
	out->launch_ns = tenth_percentile(launch_ns, BATCHES);
	out->synchronize_ns = tenth_percentile(synchronize_ns, BATCHES);
	return 0;
}

/* --- graphs --- */

static int time_graph(struct loop *l, cuda_graph_exec graph, uint64_t *ns, struct error *e)
{
	uint64_t start_ns;
	int rc;

	touch_memory(l);
	start_ns = clock_monotonic_ns();
	rc = CUDA(&l->m, graph_launch, graph, NULL);
	*ns = clock_monotonic_ns() - start_ns;
	return rc == 0 ? CUDA(&l->m, context_synchronize) : rc;
}

static int time_graphs(struct loop *l, struct calibration *out, struct error *e)
{
	uint64_t single_ns[GRAPH_LAUNCHES], chain_ns[GRAPH_LAUNCHES];
	int rc = 0;

	for (unsigned i = 0; i < WARM_UP + GRAPH_LAUNCHES && rc == 0; i++) {
		unsigned at = i < WARM_UP ? 0 : i - WARM_UP;

		rc = time_graph(l, l->single, &single_ns[at], e);
		if (rc == 0)
			rc = time_graph(l, l->chain, &chain_ns[at], e);
	}
	if (rc < 0)
		return rc;
	out->graph_launch_ns = tenth_percentile(single_ns, GRAPH_LAUNCHES);
	chain_ns[0] = tenth_percentile(chain_ns, GRAPH_LAUNCHES);
	out->node_call_ns =
		(chain_ns[0] - MIN(out->graph_launch_ns, chain_ns[0])) / (REPLAY_CHAIN_KERNELS - 1);
	return 0;
}

static int time_chains(struct loop *l, struct calibration *out, struct error *e)
{
	uint64_t node_ns[CHAINS], kernel_ns[CHAINS];
	int rc = 0;

	for (unsigned i = 0; i < CHAINS && rc == 0; i++) {
		rc = replay_chain_measure(&l->m, l->gpu, l->chain, &node_ns[i], e);
		if (rc == 0)
			rc = replay_chain_measure(&l->m, l->gpu, NULL, &kernel_ns[i], e);
	}
	if (rc < 0)
		return rc;
	out->node_gap_ns = tenth_percentile(node_ns, CHAINS);
	out->replay_floor_ns = tenth_percentile(kernel_ns, CHAINS);
	out->timer_step_ns = l->gpu->timer_step_ns;
	return 0;
}

/* --- like an eager framework --- */

/* Kernels of several names, sizes, arguments and streams, in turn. */
static int launch_operator(struct loop *l, unsigned i, struct error *e)
{
	unsigned stream = i % STREAMS;
	cuda_address slot = l->slots + stream * sizeof(struct replay_slot);
	uint64_t stop = (cuda_address)(uintptr_t)l->m.stop, steps = i % 32, none = 0;
	uint32_t order = ORDER_OF_NODE, after_count = 0;
	void *work[] = { &slot, &stop, &steps, &none, &none, &order, &after_count };
	void *timers[] = { &slot, &none };

	switch (i % 3) {
	case 0:
		return launch_kernel(l, stream, 100 * (i % 8), e);
	case 1:
		return CUDA(&l->m, launch, l->gpu->work, 1 + i % 5, 1, 1, 32u << i % 3, 1, 1, 0,
			    l->streams[stream], work, NULL);
	default:
		return CUDA(&l->m, launch, l->timers, 1, 1, 1, 1, 1, 1, 0, l->streams[stream],
			    timers, NULL);
	}
}

/* Launches below so many more frames; writes to memory afterwards, so that they are kept. */
static __attribute__((noinline)) int descend(struct loop *l, unsigned i, unsigned depth,
					     struct error *e)
{
	int rc = depth ? descend(l, i, depth - 1, e) : launch_operator(l, i, e);

	l->memory[depth]++;
	return rc;
}

static int time_operators(struct loop *l, uint64_t *ns, struct error *e)
{
	uint64_t start_ns = clock_monotonic_ns();
	int rc = 0;

	for (unsigned i = 0; i < BATCH && rc == 0; i++) {
		touch_memory(l);
		rc = descend(l, i, i % DEPTHS, e);
		if (rc == 0 && i % EVENT_EVERY == EVENT_EVERY - 1)
			rc = CUDA(&l->m, event_record, l->event, l->streams[i % STREAMS]);
		if (rc == 0 && i % EVENT_EVERY == EVENT_EVERY - 1)
			rc = CUDA(&l->m, stream_wait, l->streams[(i + 1) % STREAMS], l->event, 0);
	}
	*ns = (clock_monotonic_ns() - start_ns) / BATCH;
	return rc;
}

/* Between two batches memory is allocated and freed, which is not measured: that varies most. */
static int time_eager(struct loop *l, struct calibration *out, struct error *e)
{
	uint64_t ns[EAGER_BATCHES];
	int rc = 0;

	for (unsigned i = 0; i < WARM_UP + EAGER_BATCHES && rc == 0; i++) {
		cuda_address memory;

		rc = CUDA(&l->m, allocate, &memory, ALLOCATION_BYTES * (1 + i % 4));
		if (rc < 0)
			break;
		rc = time_operators(l, &ns[i < WARM_UP ? 0 : i - WARM_UP], e);
		if (rc == 0)
			rc = CUDA(&l->m, context_synchronize);
		l->m.driver.free(memory);
	}
	if (rc == 0)
		out->eager_ns = tenth_percentile(ns, EAGER_BATCHES);
	return rc;
}

/* --- all --- */

int call_timing_measure(struct calibration *out, struct error *e)
{
	struct loop l = { .gpu = NULL };
	const struct libcuda *base = &l.m.driver.base;
	int version = 0, rc = loop_open(&l, e);

	if (rc == 0) /* first: the chain's slots are then as they were made */
		rc = time_chains(&l, out, e);
	if (rc == 0)
		rc = time_calls(&l, out, e);
	if (rc == 0)
		rc = time_graphs(&l, out, e);
	if (rc == 0)
		rc = time_eager(&l, out, e);
	if (rc == 0)
		rc = libcuda_check(base, "cuDeviceGetName",
				   base->device_name(out->gpu, sizeof(out->gpu), l.gpu->device), e);
	if (rc == 0)
		rc = libcuda_check(base, "cuDriverGetVersion", base->driver_version(&version), e);
	out->driver_version = (uint64_t)version;
	loop_close(&l);
	return rc;
}
