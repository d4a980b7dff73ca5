#include "replay/replay_run.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define SPIN_NS UINT64_C(60000) /* before a call is due; a sleep may end that late */
#define SLEEP_NS_MAX UINT64_C(50000000) /* then the user may have stopped it */
#define ROTATE_BYTES (UINT64_C(2) << 20)
#define BOUNCE_NS 200u /* between looks at whose turn it is */

struct runner {
	struct replay_machine *m;
	struct replay_result *result;
	uint64_t base_ns; /* when the repeat began */
	_Atomic size_t turn; /* the operation that may begin */
	atomic_bool failed;
	pthread_mutex_t lock; /* of error and result */
	struct error error;
};

/* A thread of the host. */
struct host {
	struct runner *r;
	uint32_t thread;
	uint64_t free_ns; /* when the call before is over */
	uint64_t late_ns;
	uint64_t executed[REPLAY_KIND_COUNT];
	cuda_context context; /* the current one */
};

static bool is_over(const struct runner *r)
{
	return *r->m->settings->stop || atomic_load_explicit(&r->failed, memory_order_relaxed);
}

static void wait_until(const struct runner *r, uint64_t ns)
{
	uint64_t now;

	while ((now = clock_monotonic_ns()) < ns && !is_over(r)) {
		struct timespec t = { 0 };

		if (ns - now <= SPIN_NS)
			continue;
		t.tv_nsec = (long)MIN(ns - now - SPIN_NS, SLEEP_NS_MAX);
		nanosleep(&t, NULL);
	}
}

/* A time of the host at this speed; no time of a recording is waited for longer than 30 years. */
static uint64_t scaled(const struct runner *r, uint64_t ns)
{
	return (uint64_t)fmin((double)ns / r->m->settings->speed, 1e18);
}

/* Waits until the call of an operation is due. */
static void keep_pace(struct host *h, const struct replay_op *op)
{
	const struct runner *r = h->r;
	uint64_t due_ns, now;

	if (r->m->settings->pace == PACE_FREE)
		return;
	due_ns = r->m->settings->pace == PACE_RECORDED
			 ? r->base_ns +
				   scaled(r, op->call_ns - MIN(r->m->plan->start_ns, op->call_ns))
			 : h->free_ns + scaled(r, op->gap_ns);
	wait_until(r, due_ns);
	now = clock_monotonic_ns();
	h->late_ns = MAX(h->late_ns, now - MIN(due_ns, now));
	h->free_ns = due_ns + scaled(r, op->own_ns);
}

static void take_turn(const struct runner *r, size_t index)
{
	while (atomic_load_explicit(&r->turn, memory_order_acquire) != index && !is_over(r))
		sched_yield();
}

static void pass_turn(struct runner *r, size_t index)
{
	atomic_store_explicit(&r->turn, index + 1, memory_order_release);
}

/* --- operations --- */

static int run_kernel(struct replay_machine *m, const struct replay_op *op, struct error *e)
{
	struct replay_stream_state *s = &m->streams[op->stream];
	struct stand_in k;

	stand_in_make(m, s->gpu, &op->work, false, &k);
	k.slot = s->slot;
	k.after = s->after;
	k.after_count = s->after_count;
	k.order = s->kernels++;
	s->after = 0;
	return CUDA(m, launch, k.function, k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1],
		    k.block[2], k.shared_bytes, s->stream, k.parameters, NULL);
}

static size_t next_offset(struct replay_gpu *gpu, size_t bytes)
{
	gpu->offset += ROTATE_BYTES;
	if (gpu->offset + bytes > gpu->pool_bytes)
		gpu->offset = 0;
	return gpu->offset;
}

static int run_copy(struct replay_machine *m, const struct replay_op *op, struct error *e)
{
	struct replay_stream_state *s = &m->streams[op->stream];
	struct replay_gpu *gpu = s->gpu,
			  *peer = &m->gpus[(size_t)(gpu - m->gpus + 1) % m->gpu_count];
	bool pageable = op->work.flags & OP_PAGEABLE;
	void *host = pageable ? m->pageable : m->pinned;
	size_t host_bytes = pageable ? m->pageable_bytes : m->pinned_bytes,
	       bytes = MIN(op->work.bytes, gpu->pool_bytes), at = next_offset(gpu, bytes);

	switch (op->work.copy_kind) {
	case copy_kind_HtoD:
		return CUDA(m, copy_from_host, gpu->pool[0] + at, host, MIN(bytes, host_bytes),
			    s->stream);
	case copy_kind_DtoH:
		return CUDA(m, copy_to_host, host, gpu->pool[0] + at, MIN(bytes, host_bytes),
			    s->stream);
	case copy_kind_HtoH:
		return CUDA(m, copy_async, (cuda_address)(uintptr_t)m->pinned,
			    (cuda_address)(uintptr_t)m->pageable,
			    MIN(bytes, MIN(m->pinned_bytes, m->pageable_bytes)), s->stream);
	case copy_kind_PtoP:
		if (peer != gpu)
			return CUDA(m, copy_peer, peer->pool[1] + at, peer->context,
				    gpu->pool[0] + at, gpu->context,
				    MIN(bytes, peer->pool_bytes - MIN(at, peer->pool_bytes)),
				    s->stream);
		/* fall through */
	default:
		return CUDA(m, copy_async, gpu->pool[1] + at, gpu->pool[0] + at, bytes, s->stream);
	}
}

struct delay {
	uint64_t ns;
	const volatile sig_atomic_t *stop;
};

static void host_function(void *user)
{
	const struct delay *delay = user;
	uint64_t end_ns = clock_monotonic_ns() + delay->ns;

	while (clock_monotonic_ns() < end_ns && !*delay->stop)
		sched_yield();
	free(user);
}

static int run_host_function(struct runner *r, const struct replay_op *op, struct error *e)
{
	struct delay *delay = malloc(sizeof(*delay));
	int rc;

	if (!delay)
		return error_set(e, -ENOMEM, "out of memory");
	*delay = (struct delay){ scaled(r, op->work.duration_ns), r->m->settings->stop };
	rc = CUDA(r->m, launch_host, r->m->streams[op->stream].stream, host_function, delay);
	if (rc < 0)
		free(delay);
	return rc;
}

static void record(struct replay_machine *m, const struct replay_op *op)
{
	struct replay_event *event = &m->events[op->work.item];

	event->slot = m->streams[op->stream].slot;
	event->kernels = m->streams[op->stream].kernels;
}

static int run_op(struct runner *r, const struct replay_op *op, struct error *e)
{
	struct replay_machine *m = r->m;
	struct replay_stream_state *s = &m->streams[op->stream];
	const struct replay_work *work = &op->work;
	size_t bytes;

	switch ((enum replay_kind)work->kind) {
	case REPLAY_kernel:
		return run_kernel(m, op, e);
	case REPLAY_memcpy:
		return run_copy(m, op, e);
	case REPLAY_memset:
		bytes = MIN(work->bytes, s->gpu->pool_bytes);
		return CUDA(m, set_async, s->gpu->pool[0] + next_offset(s->gpu, bytes), work->value,
			    bytes, s->stream);
	case REPLAY_graph:
		return CUDA(m, graph_launch, m->graphs[work->item], s->stream);
	case REPLAY_host_function:
		return run_host_function(r, op, e);
	case REPLAY_event_record:
		record(m, op);
		return CUDA(m, event_record, m->events[work->item].event, s->stream);
	case REPLAY_event_wait:
		s->after = m->events[work->item].slot;
		s->after_count = m->events[work->item].kernels;
		return CUDA(m, stream_wait, s->stream, m->events[work->item].event, 0);
	default:
		return 0; /* it waits: see synchronize */
	}
}

static int synchronize(struct replay_machine *m, const struct replay_op *op, struct error *e)
{
	switch ((enum replay_kind)op->work.kind) {
	case REPLAY_event_synchronize:
		return CUDA(m, event_synchronize, m->events[op->work.item].event);
	case REPLAY_device_synchronize:
		return CUDA(m, context_synchronize);
	default:
		return CUDA(m, stream_synchronize, m->streams[op->stream].stream);
	}
}

/* --- threads --- */

static int execute(struct host *h, size_t index, struct error *e)
{
	struct replay_machine *m = h->r->m;
	const struct replay_op *op = &m->plan->ops.data[index];
	cuda_context context = m->streams[op->stream].gpu->context;
	int rc = 0;

	if (op->work.flags & OP_FIRST)
		keep_pace(h, op);
	take_turn(h->r, index);
	if (is_over(h->r))
		return 0;
	if (context != h->context)
		rc = CUDA(m, context_set, context);
	h->context = context;
	if (rc == 0)
		rc = run_op(h->r, op, e);
	pass_turn(h->r, index);
	if (rc == 0 && op->work.flags & OP_WAITS)
		rc = synchronize(m, op, e);
	if (op->work.flags & (OP_WAITS | OP_QUEUED))
		h->free_ns = MAX(h->free_ns, clock_monotonic_ns());
	h->executed[op->work.kind] += rc == 0;
	return rc;
}

static void *run_host(void *user)
{
	struct host *h = user;
	struct runner *r = h->r;
	const struct replay_plan *p = r->m->plan;
	struct error e = { 0 };
	int rc = 0;

	for (size_t i = 0; i < p->ops.count && rc == 0 && !is_over(r); i++)
		if (p->ops.data[i].thread == h->thread)
			rc = execute(h, i, &e);
	pthread_mutex_lock(&r->lock);
	if (rc < 0 && !atomic_exchange(&r->failed, true))
		r->error = e;
	r->result->late_ns = MAX(r->result->late_ns, h->late_ns);
	for (unsigned i = 0; i < REPLAY_KIND_COUNT; i++)
		r->result->executed[i] += h->executed[i];
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void synchronize_all(struct runner *r)
{
	struct replay_machine *m = r->m;
	struct error *e = &r->error;

	if (*m->settings->stop)
		*(volatile uint32_t *)m->stop = 1;
	for (size_t i = 0; i < m->gpu_count && !r->failed; i++)
		if (CUDA(m, context_set, m->gpus[i].context) < 0 ||
		    CUDA(m, context_synchronize) < 0)
			r->failed = true;
}

/* Runs the plan once. */
static int run_once(struct runner *r, pthread_t *threads, struct host *hosts)
{
	uint32_t count = r->m->plan->threads, started = 1;

	r->turn = 0;
	r->base_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < count; i++)
		hosts[i] = (struct host){ .r = r, .thread = i, .free_ns = r->base_ns };
	while (started < count &&
	       !pthread_create(&threads[started], NULL, run_host, &hosts[started]))
		started++;
	if (started < count) {
		error_set(&r->error, -EAGAIN,
			  "cannot start a thread for each of the recorded ones");
		r->failed = true;
	}
	run_host(&hosts[0]);
	for (uint32_t i = 1; i < started; i++)
		pthread_join(threads[i], NULL);
	synchronize_all(r);
	if (r->failed)
		return r->error.code;
	r->result->stopped = *r->m->settings->stop;
	return r->result->stopped
		       ? 0
		       : vec_push(&r->result->makespans_ns, clock_monotonic_ns() - r->base_ns);
}

/* --- results --- */

static int read_gpu(struct replay_machine *m, const struct replay_gpu *gpu,
		    struct replay_result *out, struct error *e)
{
	const struct replay_plan *p = m->plan;
	_cleanup_free_ struct replay_slot *slots = calloc(gpu->slot_count, sizeof(*slots));
	const struct replay_slot *s = slots + CALIBRATION_SLOTS;
	int rc =
		slots ? CUDA(m, context_set, gpu->context) : error_set(e, -ENOMEM, "out of memory");

	if (rc == 0)
		rc = CUDA(m, copy_to_host, slots, gpu->slots, gpu->slot_count * sizeof(*slots),
			  NULL);
	if (rc == 0)
		rc = CUDA(m, context_synchronize);
	for (size_t i = 0; i < p->streams.count && rc == 0; i++, s++) {
		out->streams[i].kernels += s->ended;
		out->streams[i].kernel_ns += s->busy_ns + s->ended * gpu->extra_ns;
		out->order_violations += s->violations;
	}
	for (size_t g = 0; g < p->graphs.count && rc == 0; g++)
		for (uint32_t n = 0; n < p->graphs.data[g].node_count; n++, s++) {
			struct replay_stream_result *stream =
				&out->streams[p->graphs.data[g].stream];

			stream->kernels += s->ended;
			stream->kernel_ns += s->busy_ns + s->ended * gpu->graph_extra_ns;
			out->order_violations += s->violations;
		}
	return rc;
}

static int read_all(struct replay_machine *m, struct replay_result *out, struct error *e)
{
	uint64_t repeats = MAX(out->makespans_ns.count, 1);
	int rc = 0;

	for (size_t i = 0; i < m->gpu_count && rc == 0; i++)
		rc = read_gpu(m, &m->gpus[i], out, e);
	for (size_t i = 0; i < m->plan->streams.count; i++) {
		out->streams[i].kernels /= repeats;
		out->streams[i].kernel_ns /= repeats;
	}
	memcpy(out->substituted, m->substituted, sizeof(out->substituted));
	out->timer_step_ns = m->gpus[0].timer_step_ns;
	out->extra_ns = m->gpus[0].extra_ns;
	out->gpus = (uint32_t)m->gpu_count;
	return rc;
}

static int run_all(struct replay_machine *m, struct replay_result *out, struct error *e)
{
	struct runner r = { .m = m, .result = out, .lock = PTHREAD_MUTEX_INITIALIZER };
	_cleanup_free_ pthread_t *threads = calloc(m->plan->threads + 1, sizeof(*threads));
	_cleanup_free_ struct host *hosts = calloc(m->plan->threads + 1, sizeof(*hosts));
	int rc = threads && hosts ? 0 : error_set(e, -ENOMEM, "out of memory");

	for (uint64_t i = 0; i < m->settings->repeat && rc == 0 && !out->stopped; i++) {
		rc = run_once(&r, threads, hosts);
		if (rc < 0)
			*e = r.error;
	}
	return rc == 0 ? read_all(m, out, e) : rc;
}

int replay_run(const struct replay_plan *plan, const struct replay_settings *settings,
	       struct replay_result *out, struct error *e)
{
	struct replay_machine m;
	int rc;

	*out = (struct replay_result){ .streams = calloc(plan->streams.count + 1,
							 sizeof(*out->streams)) };
	if (!out->streams)
		return error_set(e, -ENOMEM, "out of memory");
	rc = replay_machine_init(&m, plan, settings, e);
	if (rc == 0)
		rc = run_all(&m, out, e);
	replay_machine_release(&m);
	return rc;
}

void replay_result_release(struct replay_result *r)
{
	vec_release(&r->makespans_ns);
	free(r->streams);
}
