#include "replay/replay_gpu.h"

#include <stdlib.h>
#include <string.h>

#include "system/free_memory.h"

extern const char stand_in_ptx[];

/* Blocks of a stand-in: hostile grids would take years, although they do nothing. */
#define BLOCKS_MAX (UINT64_C(1) << 24)

/* Copies move through a pool of the largest copy and this, so that no cache holds it all. */
#define POOL_EXTRA_BYTES (UINT64_C(64) << 20)

static const struct replay_stream *stream_of(const struct replay_machine *m, uint32_t stream)
{
	return &m->plan->streams.data[stream];
}

static struct replay_gpu *gpu_of(const struct replay_machine *m, uint32_t stream)
{
	return &m->gpus[stream_of(m, stream)->device % m->gpu_count];
}

/* --- stand-ins --- */

/* Duration of a kernel in this replay, without what it needs to begin and end. */
static uint64_t stand_in_ns(const struct replay_machine *m, const struct replay_gpu *gpu,
			    uint64_t ns, bool in_graph)
{
	uint64_t extra_ns = in_graph ? gpu->graph_extra_ns : gpu->extra_ns;

	ns = (uint64_t)((double)ns / m->settings->speed);
	return ns > extra_ns ? ns - extra_ns : 0;
}

static void set_work(const struct replay_machine *m, const struct replay_gpu *gpu,
		     const struct replay_work *work, uint64_t ns, struct stand_in *out)
{
	const struct replay_shape *shape = &m->plan->shapes.data[work->item];
	const struct replay_pace_of_work *pace = gpu->shapes ? &gpu->shapes[work->item] : NULL;
	uint64_t threads = 1, blocks = 1;

	out->function = gpu->work;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t grid = MIN(BLOCKS_MAX / blocks, i ? UINT16_MAX : BLOCKS_MAX),
			 block = MIN((uint64_t)gpu->max_threads / threads, i < 2 ? 1024 : 64);

		out->grid[i] = (uint32_t)MAX(MIN(shape->grid[i], grid), 1);
		out->block[i] = (uint32_t)MAX(MIN(shape->block[i], block), 1);
		blocks *= out->grid[i];
		threads *= out->block[i];
	}
	out->shared_bytes = MIN(shape->shared_bytes, (uint32_t)gpu->max_shared_bytes);
	if (pace && (double)ns > pace->base_ns && pace->step_ns > 0)
		out->amount = (uint64_t)(((double)ns - pace->base_ns) / pace->step_ns);
}

void stand_in_make(const struct replay_machine *m, const struct replay_gpu *gpu,
		   const struct replay_work *work, bool in_graph, struct stand_in *out)
{
	uint64_t ns = stand_in_ns(m, gpu, work->duration_ns, in_graph);

	*out = (struct stand_in){ .function = gpu->deadline,
				  .grid = { 1, 1, 1 },
				  .block = { 32, 1, 1 },
				  .stop = (cuda_address)(uintptr_t)m->stop };
	if (m->settings->stand_in == STAND_IN_WORK) {
		set_work(m, gpu, work, ns, out);
	} else {
		out->amount = ns;
		if (ns && ns < 20 * gpu->timer_step_ns)
			out->cycles = MAX((uint64_t)((double)ns * gpu->cycles_per_ns), 1);
	}
	out->parameters[0] = &out->slot;
	out->parameters[1] = &out->stop;
	out->parameters[2] = &out->amount;
	out->parameters[3] = &out->cycles;
	out->parameters[4] = &out->after;
	out->parameters[5] = &out->order;
	out->parameters[6] = &out->after_count;
}

/* --- what the plan needs --- */

struct needs {
	uint64_t device_bytes, pinned_bytes, pageable_bytes; /* the largest copy or memory set */
};

static void add_need(const struct replay_work *work, struct needs *n)
{
	uint64_t *host = work->flags & OP_PAGEABLE ? &n->pageable_bytes : &n->pinned_bytes;

	if (work->kind != REPLAY_memcpy && work->kind != REPLAY_memset)
		return;
	n->device_bytes = MAX(n->device_bytes, work->bytes);
	if (work->kind == REPLAY_memset)
		return;
	if (work->copy_kind != copy_kind_DtoD && work->copy_kind != copy_kind_PtoP)
		*host = MAX(*host, work->bytes);
	if (work->copy_kind == copy_kind_HtoH) {
		n->pinned_bytes = MAX(n->pinned_bytes, work->bytes);
		n->pageable_bytes = MAX(n->pageable_bytes, work->bytes);
	}
}

static bool has_shape(const struct replay_machine *m, const struct replay_gpu *gpu,
		      const struct replay_work *work)
{
	const struct replay_shape *shape = &m->plan->shapes.data[work->item];
	struct stand_in s;

	stand_in_make(m, gpu, work, false, &s);
	return !memcmp(s.grid, shape->grid, sizeof(s.grid)) &&
	       !memcmp(s.block, shape->block, sizeof(s.block)) &&
	       s.shared_bytes == shape->shared_bytes;
}

/* Counts what this machine cannot do as it was recorded. */
static void count_work(struct replay_machine *m, const struct replay_work *work, uint32_t stream,
		       bool in_graph, uint64_t times)
{
	const struct replay_gpu *gpu = gpu_of(m, stream);
	uint64_t *substituted = m->substituted;

	if (stream_of(m, stream)->device >= m->gpu_count)
		substituted[SUBSTITUTION_devices] += times;
	if (work->kind == REPLAY_kernel) {
		if (!stand_in_ns(m, gpu, work->duration_ns, in_graph))
			substituted[SUBSTITUTION_floor] += times;
		if (m->settings->stand_in == STAND_IN_WORK && !has_shape(m, gpu, work))
			substituted[SUBSTITUTION_shapes] += times;
	} else if (work->kind == REPLAY_memcpy || work->kind == REPLAY_memset) {
		if (work->bytes > gpu->pool_bytes)
			substituted[SUBSTITUTION_large_copies] += times;
		if (work->copy_kind == copy_kind_PtoP && (m->gpu_count < 2 || in_graph))
			substituted[SUBSTITUTION_peers] += times;
	}
}

static void count_all(struct replay_machine *m)
{
	const struct replay_plan *p = m->plan;

	for (size_t i = 0; i < p->ops.count; i++)
		count_work(m, &p->ops.data[i].work, p->ops.data[i].stream, false, 1);
	for (size_t g = 0; g < p->graphs.count; g++)
		for (uint32_t n = 0; n < p->graphs.data[g].node_count; n++)
			count_work(m, &p->nodes.data[p->graphs.data[g].first_node + n].work,
				   p->graphs.data[g].stream, true, p->graphs.data[g].launches);
}

/* --- memory --- */

static int allocate_host(struct replay_machine *m, const struct needs *n, struct error *e)
{
	uint64_t most = m->settings->memory_bytes ?: MIN(free_memory(""), UINT64_C(64) << 30) / 4;
	int rc;

	m->pinned_bytes = MIN(n->pinned_bytes, most);
	m->pageable_bytes = MIN(n->pageable_bytes, most);
	m->pageable = malloc(m->pageable_bytes + 1);
	if (!m->pageable)
		return error_set(e, -ENOMEM, "out of memory for copies: see --memory");
	memset(m->pageable, 1, m->pageable_bytes); /* or all of it would be the one page of zeros */
	rc = CUDA(m, host_allocate, (void **)&m->stop, sizeof(*m->stop), CUDA_HOST_PORTABLE_MAPPED);
	if (rc == 0)
		*m->stop = 0;
	if (rc == 0)
		rc = CUDA(m, host_allocate, &m->pinned, m->pinned_bytes + 1,
			  CUDA_HOST_PORTABLE_MAPPED);
	return rc;
}

static int allocate(struct replay_machine *m, struct replay_gpu *gpu, const struct needs *n,
		    struct error *e)
{
	size_t available = 0, total, bytes;
	int rc = CUDA(m, memory_info, &available, &total);

	gpu->slot_count = CALIBRATION_SLOTS + m->plan->streams.count + m->plan->nodes.count;
	bytes = gpu->slot_count * sizeof(struct replay_slot);
	gpu->pool_bytes = MIN(n->device_bytes + POOL_EXTRA_BYTES,
			      (m->settings->memory_bytes ?: available / 2) / 2);
	if (rc == 0)
		rc = CUDA(m, allocate, &gpu->slots, bytes);
	if (rc == 0)
		rc = CUDA(m, set_async, gpu->slots, 0, bytes, NULL);
	for (unsigned i = 0; i < 2 && rc == 0 && n->device_bytes; i++)
		rc = CUDA(m, allocate, &gpu->pool[i], gpu->pool_bytes + 1);
	return rc;
}

/* --- graphs --- */

static int add_kernel_node(struct replay_machine *m, const struct replay_graph *g,
			   const struct replay_node *node, cuda_graph graph,
			   const cuda_graph_node *on, size_t on_count, cuda_graph_node *out,
			   struct error *e)
{
	const struct replay_gpu *gpu = gpu_of(m, g->stream);
	cuda_address slots =
		gpu->slots + (CALIBRATION_SLOTS + m->plan->streams.count + g->first_node) *
				     sizeof(struct replay_slot);
	const struct replay_node *nodes = m->plan->nodes.data + g->first_node;
	const uint32_t *edges = m->plan->edges.data;
	struct stand_in s;
	struct cuda_kernel_node k;

	stand_in_make(m, gpu, &node->work, true, &s);
	s.slot = slots + (size_t)(node - nodes) * sizeof(struct replay_slot);
	s.order = ORDER_OF_NODE;
	for (uint32_t i = node->first_edge; i < node[1].first_edge && !s.after; i++)
		if (nodes[edges[i]].work.kind == REPLAY_kernel)
			s.after = slots + edges[i] * sizeof(struct replay_slot);
	k = (struct cuda_kernel_node){ .function = s.function,
				       .grid = { s.grid[0], s.grid[1], s.grid[2] },
				       .block = { s.block[0], s.block[1], s.block[2] },
				       .shared_bytes = s.shared_bytes,
				       .parameters = s.parameters };
	return CUDA(m, graph_kernel, out, graph, on, on_count, &k);
}

static struct cuda_copy_end copy_end(const struct replay_machine *m, const struct replay_gpu *gpu,
				     bool host, unsigned pool)
{
	return (struct cuda_copy_end){ .memory_type = CUDA_MEMORY_UNIFIED,
				       .device = host ? (cuda_address)(uintptr_t)m->pinned
						      : gpu->pool[pool] };
}

static int add_copy_node(struct replay_machine *m, const struct replay_gpu *gpu,
			 const struct replay_work *work, cuda_graph graph,
			 const cuda_graph_node *on, size_t on_count, cuda_graph_node *out,
			 struct error *e)
{
	bool from_host = work->copy_kind == copy_kind_HtoD || work->copy_kind == copy_kind_HtoH,
	     to_host = work->copy_kind == copy_kind_DtoH;
	size_t most =
		from_host || to_host ? MIN(m->pinned_bytes, gpu->pool_bytes) : gpu->pool_bytes;
	struct cuda_copy_node c = { .source = copy_end(m, gpu, from_host, 0),
				    .destination = copy_end(m, gpu, to_host, 1),
				    .width_bytes = MAX(MIN(work->bytes, most), 1),
				    .height = 1,
				    .depth = 1 };

	return CUDA(m, graph_copy, out, graph, on, on_count, &c, gpu->context);
}

static int add_memset_node(struct replay_machine *m, const struct replay_gpu *gpu,
			   const struct replay_work *work, cuda_graph graph,
			   const cuda_graph_node *on, size_t on_count, cuda_graph_node *out,
			   struct error *e)
{
	struct cuda_memset_node s = { .destination = gpu->pool[0],
				      .value = work->value,
				      .element_bytes = 1,
				      .width = MAX(MIN(work->bytes, gpu->pool_bytes), 1),
				      .height = 1 };

	return CUDA(m, graph_memset, out, graph, on, on_count, &s, gpu->context);
}

static int add_nodes(struct replay_machine *m, const struct replay_graph *g, cuda_graph graph,
		     struct error *e)
{
	const struct replay_node *nodes = m->plan->nodes.data + g->first_node;
	const struct replay_gpu *gpu = gpu_of(m, g->stream);
	_cleanup_free_ cuda_graph_node *made = calloc(g->node_count + 1, sizeof(*made));
	_cleanup_free_ cuda_graph_node *on = calloc(
		nodes[g->node_count].first_edge - nodes->first_edge + UINT64_C(1), sizeof(*on));
	int rc = made && on ? 0 : error_set(e, -ENOMEM, "out of memory");

	for (uint32_t i = 0; i < g->node_count && rc == 0; i++) {
		const struct replay_node *node = &nodes[i];
		size_t count = node[1].first_edge - node->first_edge;

		for (size_t k = 0; k < count; k++)
			on[k] = made[m->plan->edges.data[node->first_edge + k]];
		if (node->work.kind == REPLAY_kernel)
			rc = add_kernel_node(m, g, node, graph, on, count, &made[i], e);
		else if (node->work.kind == REPLAY_memcpy)
			rc = add_copy_node(m, gpu, &node->work, graph, on, count, &made[i], e);
		else
			rc = add_memset_node(m, gpu, &node->work, graph, on, count, &made[i], e);
	}
	return rc;
}

static int make_graph(struct replay_machine *m, size_t index, struct error *e)
{
	const struct replay_graph *g = &m->plan->graphs.data[index];
	cuda_graph graph = NULL;
	int rc = CUDA(m, context_set, gpu_of(m, g->stream)->context);

	if (rc == 0)
		rc = CUDA(m, graph_create, &graph, 0);
	if (rc == 0)
		rc = add_nodes(m, g, graph, e);
	if (rc == 0)
		rc = CUDA(m, graph_instantiate, &m->graphs[index], graph, 0);
	if (graph)
		m->driver.graph_destroy(graph);
	return rc;
}

/* --- streams and GPUs --- */

static int make_stream(struct replay_machine *m, uint32_t index, struct error *e)
{
	const struct replay_stream *stream = stream_of(m, index);
	struct replay_stream_state *s = &m->streams[index];
	int priority = stream->priority, rc;

	s->gpu = gpu_of(m, index);
	s->slot = s->gpu->slots + (CALIBRATION_SLOTS + (size_t)index) * sizeof(struct replay_slot);
	rc = CUDA(m, context_set, s->gpu->context);
	if (stream->is_default || rc < 0)
		return rc;
	priority = MIN(MAX(priority, s->gpu->greatest_priority), s->gpu->least_priority);
	m->substituted[SUBSTITUTION_priorities] += priority != stream->priority;
	return CUDA(m, stream_create, &s->stream,
		    stream->is_blocking ? 0 : CUDA_STREAM_NON_BLOCKING, priority);
}

static int make_events(struct replay_machine *m, struct error *e)
{
	int rc = 0;

	/* The device of an event is that of its stream; each is recorded on one only. */
	for (size_t i = 0; i < m->plan->ops.count && rc == 0; i++) {
		const struct replay_op *op = &m->plan->ops.data[i];

		if (op->work.kind != REPLAY_event_record || m->events[op->work.item].event)
			continue;
		rc = CUDA(m, context_set, gpu_of(m, op->stream)->context);
		if (rc == 0)
			rc = CUDA(m, event_create, &m->events[op->work.item].event,
				  CUDA_EVENT_DISABLE_TIMING);
	}
	return rc;
}

static int open_gpu(struct replay_machine *m, struct replay_gpu *gpu, const struct needs *n,
		    struct error *e)
{
	const struct libcuda *base = &m->driver.base;
	int rc = libcuda_check(&m->driver.base, "cuDeviceGet",
			       base->device_get(&gpu->device, (int)(gpu - m->gpus)), e);

	if (rc == 0)
		rc = CUDA(m, context_retain, &gpu->context, gpu->device);
	if (rc == 0)
		rc = CUDA(m, context_set, gpu->context);
	if (rc == 0)
		rc = CUDA(m, module_load, &gpu->module, stand_in_ptx);
	if (rc == 0)
		rc = CUDA(m, module_function, &gpu->deadline, gpu->module, "pitot_deadline");
	if (rc == 0)
		rc = CUDA(m, module_function, &gpu->work, gpu->module, "pitot_work");
	if (rc == 0)
		rc = CUDA(m, priority_range, &gpu->least_priority, &gpu->greatest_priority);
	if (base->device_attribute(&gpu->max_threads, CUDA_MAX_THREADS_PER_BLOCK, gpu->device))
		gpu->max_threads = 1024;
	if (base->device_attribute(&gpu->max_shared_bytes, CUDA_MAX_SHARED_BYTES_OPTIN,
				   gpu->device))
		gpu->max_shared_bytes = 48 << 10;
	if (rc == 0 && m->settings->stand_in == STAND_IN_WORK)
		rc = CUDA(m, function_set, gpu->work, CUDA_MAX_DYNAMIC_SHARED_BYTES,
			  gpu->max_shared_bytes);
	if (rc == 0 && gpu == m->gpus)
		rc = allocate_host(m, n, e);
	if (rc == 0)
		rc = allocate(m, gpu, n, e);
	return rc == 0 ? replay_gpu_calibrate(m, gpu, e) : rc;
}

static int open_all(struct replay_machine *m, struct error *e)
{
	const struct replay_plan *p = m->plan;
	struct needs n = { 0 };
	int rc = 0;

	for (size_t i = 0; i < p->ops.count; i++)
		add_need(&p->ops.data[i].work, &n);
	for (size_t i = 0; i < p->nodes.count; i++)
		add_need(&p->nodes.data[i].work, &n);
	for (size_t i = 0; i < m->gpu_count && rc == 0; i++)
		rc = open_gpu(m, &m->gpus[i], &n, e);
	for (uint32_t i = 0; i < p->streams.count && rc == 0; i++)
		rc = make_stream(m, i, e);
	if (rc == 0)
		rc = make_events(m, e);
	for (size_t i = 0; i < p->graphs.count && rc == 0; i++)
		rc = make_graph(m, i, e);
	for (size_t i = 0; i < m->gpu_count && rc == 0; i++) {
		rc = CUDA(m, context_set, m->gpus[i].context);
		if (rc == 0)
			rc = CUDA(m, context_synchronize);
	}
	if (rc == 0)
		count_all(m);
	return rc;
}

int replay_machine_init(struct replay_machine *m, const struct replay_plan *plan,
			const struct replay_settings *settings, struct error *e)
{
	int rc;

	*m = (struct replay_machine){ .plan = plan, .settings = settings };
	memcpy(m->substituted, plan->substituted, sizeof(m->substituted));
	/* The driver would write the compiled stand-ins into a cache of the user. */
	setenv("CUDA_CACHE_DISABLE", "1", 0);
	rc = cuda_driver_open(&m->driver, e);
	if (rc < 0)
		return rc;
	m->gpu_count = MIN((size_t)libcuda_device_count(&m->driver.base), MAX(plan->devices, 1));
	m->gpus = calloc(m->gpu_count, sizeof(*m->gpus));
	m->streams = calloc(plan->streams.count + 1, sizeof(*m->streams));
	m->events = calloc(plan->events + UINT64_C(1), sizeof(*m->events));
	m->graphs = calloc(plan->graphs.count + 1, sizeof(*m->graphs));
	if (!m->gpus || !m->streams || !m->events || !m->graphs)
		return error_set(e, -ENOMEM, "out of memory");
	return open_all(m, e);
}

static void release_gpu(struct replay_machine *m, struct replay_gpu *gpu)
{
	const struct cuda_driver *d = &m->driver;

	if (!gpu->context)
		return;
	d->context_set(gpu->context);
	for (size_t i = 0; i < m->plan->streams.count && m->streams; i++)
		if (m->streams[i].gpu == gpu && m->streams[i].stream)
			d->stream_destroy(m->streams[i].stream);
	if (gpu->slots)
		d->free(gpu->slots);
	for (unsigned i = 0; i < 2; i++)
		if (gpu->pool[i])
			d->free(gpu->pool[i]);
	free(gpu->shapes);
}

void replay_machine_release(struct replay_machine *m)
{
	const struct cuda_driver *d = &m->driver;

	for (size_t i = 0; m->graphs && i < m->plan->graphs.count; i++)
		if (m->graphs[i])
			d->graph_exec_destroy(m->graphs[i]);
	for (size_t i = 0; m->events && i < m->plan->events; i++)
		if (m->events[i].event)
			d->event_destroy(m->events[i].event);
	for (size_t i = 0; m->gpus && i < m->gpu_count; i++)
		release_gpu(m, &m->gpus[i]);
	if (m->pinned)
		d->host_free(m->pinned);
	if (m->stop)
		d->host_free(m->stop);
	for (size_t i = 0; m->gpus && i < m->gpu_count; i++)
		if (m->gpus[i].context)
			d->context_release(m->gpus[i].device);
	free(m->pageable);
	free(m->gpus);
	free(m->streams);
	free(m->events);
	free(m->graphs);
}
