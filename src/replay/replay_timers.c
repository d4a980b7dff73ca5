#include <stdlib.h>

#include "replay/replay_gpu.h"

#define TIMER_NS UINT64_C(20000000) /* also brings the clocks of an idle GPU up */
#define BLOCKER_NS UINT64_C(4000000) /* of a kernel during which the others are launched */
#define CHAIN REPLAY_CHAIN_KERNELS
#define CHAIN_NS UINT64_C(5000)
/* What a kernel needs at least: where the recording's kernels are further apart, they wait. */
#define EXTRA_NS_MIN UINT64_C(500)
#define STEPS_LOW UINT64_C(256)
#define STEPS_HIGH UINT64_C(4096)
#define SHAPES_MAX 4096u /* measured; others take what the last one takes */

static int read_slot(struct replay_machine *m, const struct replay_gpu *gpu,
		     struct replay_slot *slot, struct error *e)
{
	int rc = CUDA(m, context_synchronize);

	if (rc == 0)
		rc = CUDA(m, copy_to_host, slot, gpu->slots, sizeof(*slot), NULL);
	if (rc == 0)
		rc = CUDA(m, context_synchronize);
	if (rc == 0)
		rc = CUDA(m, set_async, gpu->slots, 0, sizeof(*slot), NULL);
	return rc;
}

static int measure_timers(struct replay_machine *m, struct replay_gpu *gpu, struct error *e)
{
	cuda_address out = gpu->slots;
	uint64_t ns = TIMER_NS;
	void *parameters[] = { &out, &ns };
	cuda_function timers;
	struct replay_slot slot;
	uint64_t step_ns, gone_ns, cycles;
	int rc = CUDA(m, module_function, &timers, gpu->module, "pitot_timers");

	for (unsigned i = 0; i < 2 && rc == 0; i++)
		rc = CUDA(m, launch, timers, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
	if (rc == 0)
		rc = read_slot(m, gpu, &slot, e);
	if (rc < 0)
		return rc;
	step_ns = slot.busy_ns;
	gone_ns = slot.ended | (uint64_t)slot.violations << 32;
	cycles = slot.first_ns;
	gpu->timer_step_ns = step_ns;
	gpu->cycles_per_ns = gone_ns ? (double)cycles / (double)gone_ns : 1;
	return 0;
}

static int launch(struct replay_machine *m, struct stand_in *s, struct error *e)
{
	return CUDA(m, launch, s->function, s->grid[0], s->grid[1], s->grid[2], s->block[0],
		    s->block[1], s->block[2], s->shared_bytes, NULL, s->parameters, NULL);
}

static void make_deadline(struct replay_machine *m, struct replay_gpu *gpu, uint64_t ns,
			  uint32_t order, struct stand_in *s)
{
	stand_in_make(m, gpu, &(struct replay_work){ .duration_ns = 0 }, false, s);
	s->function = gpu->deadline;
	s->amount = ns;
	s->slot = gpu->slots;
	s->order = order;
}

/* A kernel behind which the next ones are launched before they can begin. */
static int launch_blocker(struct replay_machine *m, struct replay_gpu *gpu, struct error *e)
{
	struct stand_in s;

	make_deadline(m, gpu, BLOCKER_NS, 0, &s);
	s.slot += sizeof(struct replay_slot);
	return launch(m, &s, e);
}

static int launch_chain(struct replay_machine *m, struct replay_gpu *gpu, struct error *e)
{
	int rc = 0;

	for (uint32_t i = 0; i < CHAIN && rc == 0; i++) {
		struct stand_in s;

		make_deadline(m, gpu, CHAIN_NS, i, &s);
		rc = launch(m, &s, e);
	}
	return rc;
}

static int add_chain(struct replay_machine *m, struct replay_gpu *gpu, cuda_graph graph,
		     uint32_t count, struct error *e)
{
	cuda_graph_node nodes[CHAIN];
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		struct cuda_kernel_node k = { .function = gpu->deadline,
					      .grid = { 1, 1, 1 },
					      .block = { 32, 1, 1 } };
		struct stand_in s;

		make_deadline(m, gpu, CHAIN_NS, i, &s);
		k.parameters = s.parameters;
		rc = CUDA(m, graph_kernel, &nodes[i], graph, i ? &nodes[i - 1] : NULL, i ? 1 : 0,
			  &k);
	}
	return rc;
}

int replay_chain_make(struct replay_machine *m, struct replay_gpu *gpu, uint32_t count,
		      cuda_graph_exec *out, struct error *e)
{
	cuda_graph graph = NULL;
	int rc = CUDA(m, graph_create, &graph, 0);

	if (rc == 0)
		rc = add_chain(m, gpu, graph, MIN(count, CHAIN), e);
	if (rc == 0)
		rc = CUDA(m, graph_instantiate, out, graph, 0);
	if (graph)
		m->driver.graph_destroy(graph);
	return rc;
}

int replay_chain_measure(struct replay_machine *m, struct replay_gpu *gpu, cuda_graph_exec chain,
			 uint64_t *apart_ns, struct error *e)
{
	struct replay_slot slot;
	uint64_t whole_ns;
	int rc = launch_blocker(m, gpu, e);

	if (rc == 0)
		rc = chain ? CUDA(m, graph_launch, chain, NULL) : launch_chain(m, gpu, e);
	if (rc == 0)
		rc = read_slot(m, gpu, &slot, e);
	if (rc < 0)
		return rc;
	whole_ns = slot.last_ns - slot.first_ns;
	*apart_ns = (whole_ns - MIN(slot.busy_ns, whole_ns)) / (CHAIN - 1);
	return 0;
}

static int measure_extra(struct replay_machine *m, struct replay_gpu *gpu, cuda_graph_exec chain,
			 uint64_t latency_ns, uint64_t *out, struct error *e)
{
	uint64_t apart_ns;
	int rc = replay_chain_measure(m, gpu, chain, &apart_ns, e);

	if (rc < 0)
		return rc;
	*out = MAX(apart_ns - MIN(latency_ns ?: apart_ns, apart_ns), EXTRA_NS_MIN);
	*out = MIN(*out, apart_ns);
	return 0;
}

/* Nodes of a graph are less far apart. */
static int measure_graph_extra(struct replay_machine *m, struct replay_gpu *gpu, uint64_t *out,
			       struct error *e)
{
	cuda_graph_exec chain = NULL;
	int rc = replay_chain_make(m, gpu, CHAIN, &chain, e);

	if (rc == 0)
		rc = measure_extra(m, gpu, chain, m->plan->graph_latency_ns, out, e);
	if (chain)
		m->driver.graph_exec_destroy(chain);
	return rc;
}

/* --- work --- */

static int time_steps(struct replay_machine *m, struct replay_gpu *gpu, uint32_t shape,
		      uint64_t steps, double *ns, struct error *e)
{
	struct replay_work work = { .kind = REPLAY_kernel, .item = shape };
	struct replay_slot slot;
	struct stand_in s;
	int rc;

	stand_in_make(m, gpu, &work, false, &s);
	s.slot = gpu->slots;
	s.amount = steps;
	rc = launch(m, &s, e);
	if (rc == 0)
		rc = read_slot(m, gpu, &slot, e);
	if (rc == 0)
		*ns = (double)slot.busy_ns;
	return rc;
}

static int measure_work(struct replay_machine *m, struct replay_gpu *gpu, struct error *e)
{
	size_t count = m->plan->shapes.count;
	double low, high;
	int rc = 0;

	gpu->shapes = calloc(count + 1, sizeof(*gpu->shapes));
	if (!gpu->shapes)
		return error_set(e, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < count && rc == 0 && !*m->settings->stop; i++) {
		if (i >= SHAPES_MAX) {
			gpu->shapes[i] = gpu->shapes[i - 1];
			continue;
		}
		rc = time_steps(m, gpu, i, STEPS_LOW, &low, e);
		if (rc == 0)
			rc = time_steps(m, gpu, i, STEPS_LOW, &low, e); /* the first one is cold */
		if (rc == 0)
			rc = time_steps(m, gpu, i, STEPS_HIGH, &high, e);
		if (rc < 0)
			break;
		gpu->shapes[i].step_ns = (high - low) / (double)(STEPS_HIGH - STEPS_LOW);
		gpu->shapes[i].base_ns = low - gpu->shapes[i].step_ns * (double)STEPS_LOW;
	}
	return rc;
}

int replay_gpu_calibrate(struct replay_machine *m, struct replay_gpu *gpu, struct error *e)
{
	uint64_t extra_ns = 0, graph_extra_ns = 0;
	int rc = measure_timers(m, gpu, e);

	for (unsigned i = 0; i < 2 && rc == 0; i++) /* the first one loads what is called */
		rc = measure_extra(m, gpu, NULL, m->plan->latency_ns, &extra_ns, e);
	if (rc == 0 && m->plan->graphs.count)
		rc = measure_graph_extra(m, gpu, &graph_extra_ns, e);
	if (rc == 0 && m->settings->stand_in == STAND_IN_WORK)
		rc = measure_work(m, gpu, e);
	gpu->extra_ns = extra_ns;
	gpu->graph_extra_ns = graph_extra_ns;
	return rc;
}
