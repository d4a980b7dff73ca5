#include "capture/cuda/call_polls.h"

/* Where the handle's work is noted as unfinished; NULL: nowhere. */
static uint64_t *find_handle(struct ring_poll *p, uint64_t handle)
{
	for (unsigned i = 0; i < RING_POLLED; i++)
		if (p->handles[i] == handle + 1)
			return &p->handles[i];
	return NULL;
}

uint64_t call_poll(struct ring *r, uint64_t handle, bool done, uint64_t start_ns, uint64_t end_ns)
{
	struct ring_poll *p = &r->poll;
	uint64_t calls = atomic_load_explicit(&r->calls, memory_order_relaxed), since_ns,
		 *noted = find_handle(p, handle);
	bool goes_on = p->since_ns && calls == p->calls && start_ns <= p->end_ns + CALL_POLL_NS;

	since_ns = goes_on ? p->since_ns : start_ns;
	p->since_ns = done ? 0 : since_ns;
	p->calls = calls + 1; /* of this one, which is counted later */
	p->end_ns = end_ns;
	if (!done && !noted)
		p->handles[p->next++ % RING_POLLED] = handle + 1;
	if (!done || !noted)
		return 0;
	*noted = 0;
	return goes_on ? since_ns : 0;
}
