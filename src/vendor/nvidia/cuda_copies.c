#include "vendor/nvidia/cuda_copies.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "vendor/nvidia/cuda_driver.h"

#define COPY_BYTES ((size_t)256 << 20)
#define SMALL_BYTES 8u
#define ROUNDS 5
#define SMALL_ROUNDS 200
#define GPUS_MAX 64

struct measured_gpu {
	int device;
	cuda_context context;
	cuda_address memory[2]; /* COPY_BYTES each */
	cuda_stream stream;
	cuda_event start, end;
	int failed; /* a result of CUDA: it cannot be used */
};

struct measuring {
	struct cuda_driver cuda;
	void *host; /* COPY_BYTES */
	struct measured_gpu gpus[GPUS_MAX];
	int count;
};

/* Makes what the copies of a GPU need. Returns a result of CUDA. */
static int prepare(struct measuring *m, int ordinal)
{
	struct measured_gpu *g = &m->gpus[ordinal];
	const struct cuda_driver *f = &m->cuda;

	return f->base.device_get(&g->device, ordinal)	    ?:
	       f->context_retain(&g->context, g->device)	    ?:
	       f->context_set(g->context)		    ?:
	       f->allocate(&g->memory[0], COPY_BYTES)	    ?:
	       f->allocate(&g->memory[1], COPY_BYTES)	    ?:
	       f->stream_create(&g->stream, CUDA_STREAM_NON_BLOCKING, 0) ?:
	       f->event_create(&g->start, 0)		    ?:
	       f->event_create(&g->end, 0);
}

static void release(struct measuring *m)
{
	for (int i = 0; i < m->count; i++) {
		struct measured_gpu *g = &m->gpus[i];

		if (!g->context || m->cuda.context_set(g->context))
			continue;
		for (int k = 0; k < 2; k++)
			if (g->memory[k])
				m->cuda.free(g->memory[k]);
		if (g->start)
			m->cuda.event_destroy(g->start);
		if (g->end)
			m->cuda.event_destroy(g->end);
		if (g->stream)
			m->cuda.stream_destroy(g->stream);
		if (m->host)
			m->cuda.host_free(m->host);
		m->host = NULL;
		m->cuda.context_release(g->device);
	}
}

/* Enqueues a copy in the stream of the GPU that measures it. */
static int copy(struct measuring *m, const struct cuda_copy *c, size_t bytes, cuda_stream stream)
{
	const struct measured_gpu *from = c->from == COPY_HOST ? NULL : &m->gpus[c->from];
	const struct measured_gpu *to = c->to == COPY_HOST ? NULL : &m->gpus[c->to];

	if (!from)
		return m->cuda.copy_from_host(to->memory[0], m->host, bytes, stream);
	if (!to)
		return m->cuda.copy_to_host(m->host, from->memory[0], bytes, stream);
	if (from == to)
		return m->cuda.copy_async(to->memory[1], from->memory[0], bytes, stream);
	return m->cuda.copy_peer(to->memory[1], to->context, from->memory[0], from->context, bytes,
				 stream);
}

/* Times large copies by events and small ones by the host's clock. Returns a result of CUDA. */
static int time_copies(struct measuring *m, struct cuda_copy *c)
{
	const struct measured_gpu *g = &m->gpus[c->from == COPY_HOST ? c->to : c->from];
	float ms, best = 0;
	uint64_t least_ns = UINT64_MAX;
	int result = m->cuda.context_set(g->context);

	for (int i = 0; i < ROUNDS && !result; i++) {
		result = m->cuda.event_record(g->start, g->stream) ?:
			 copy(m, c, COPY_BYTES, g->stream)     ?:
			 m->cuda.event_record(g->end, g->stream)  ?:
			 m->cuda.stream_synchronize(g->stream)    ?:
			 m->cuda.event_elapsed(&ms, g->start, g->end);
		if (!result && ms > 0 && (best <= 0 || ms < best))
			best = ms;
	}
	for (int i = 0; i < SMALL_ROUNDS && !result; i++) {
		uint64_t start_ns = clock_monotonic_ns(), end_ns;

		result =
			copy(m, c, SMALL_BYTES, g->stream) ?: m->cuda.stream_synchronize(g->stream);
		end_ns = clock_monotonic_ns();
		least_ns = MIN(least_ns, end_ns - start_ns);
	}
	if (result || best <= 0)
		return result;
	c->gbs = (double)COPY_BYTES / best / 1e6;
	c->latency_us = (double)least_ns / 1e3;
	return 0;
}

/* Lets a GPU access another one's memory. What fails is no failure of the copy. */
static bool enable_access(struct measuring *m, const struct cuda_copy *c)
{
	const struct measured_gpu *from = &m->gpus[c->from], *to = &m->gpus[c->to];
	int can = 0;

	if (m->cuda.can_access(&can, from->device, to->device) || !can ||
	    m->cuda.context_set(from->context))
		return false;
	m->cuda.enable_peer(to->context, 0); /* fails if it is enabled already */
	return true;
}

static void explain(const struct measuring *m, int result, struct cuda_copy *c)
{
	const char *text = NULL;

	m->cuda.base.get_error_string(result, &text);
	snprintf(c->why, sizeof(c->why), "%s (error %d)", text ? text : "unknown", result);
}

static int measure(struct measuring *m, struct cuda_copies *out, int from, int to)
{
	struct cuda_copy c = { .from = from, .to = to };
	int result = from == COPY_HOST ? 0 : m->gpus[from].failed;

	if (!result && to != COPY_HOST)
		result = m->gpus[to].failed;
	if (!result && from != COPY_HOST && to != COPY_HOST && from != to)
		c.direct = enable_access(m, &c);
	if (!result)
		result = time_copies(m, &c);
	if (result)
		explain(m, result, &c);
	return vec_push(&out->list, c);
}

static int measure_all(struct measuring *m, struct cuda_copies *out)
{
	int rc = 0;

	for (int i = 0; i < m->count && rc >= 0; i++) {
		rc = measure(m, out, COPY_HOST, i);
		if (rc >= 0)
			rc = measure(m, out, i, COPY_HOST);
		for (int k = 0; k < m->count && rc >= 0; k++)
			rc = measure(m, out, i, k);
	}
	return rc;
}

/* Pins memory of the host for all contexts. Without it no GPU is measured. */
static void allocate_host(struct measuring *m)
{
	int result = 0, i = 0;

	while (i < m->count && m->gpus[i].failed)
		i++;
	if (i < m->count)
		result = m->cuda.context_set(m->gpus[i].context)
				 ?: m->cuda.host_allocate(&m->host, COPY_BYTES, CUDA_HOST_PORTABLE);
	for (; i < m->count && result; i++)
		m->gpus[i].failed = m->gpus[i].failed ?: result;
}

int cuda_copies_measure(struct cuda_copies *out, struct error *e)
{
	struct measuring m = { .host = NULL };
	int rc = cuda_driver_load_copies(&m.cuda, e);

	*out = (struct cuda_copies){ .gpus = 0 };
	if (rc == 0)
		rc = libcuda_init(&m.cuda.base, e);
	if (rc < 0)
		return rc;
	m.count = out->gpus = MIN(libcuda_device_count(&m.cuda.base), GPUS_MAX);
	if (!m.count)
		return error_set(e, E_UNSUPPORTED, "the driver shows no GPU");
	for (int i = 0; i < m.count; i++) {
		m.gpus[i].failed = prepare(&m, i);
		if (m.cuda.base.device_pci(out->pci[i], sizeof(out->pci[i]), m.gpus[i].device))
			out->pci[i][0] = '\0';
	}
	allocate_host(&m);
	rc = measure_all(&m, out);
	release(&m);
	return rc < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}
