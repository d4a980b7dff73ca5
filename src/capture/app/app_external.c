#include "capture/app/app_external.h"

#include "capture/nvtx/nvtx_event.h"
#include "pitot/pitot.h"

atomic_bool app_external_on;

/* Tells the collector the innermost id of a kind; NULL: there is none. */
static bool put(struct ring *r, uint32_t kind, const struct ring_external *innermost)
{
	struct ring_event event = { .kind = RING_EXTERNAL,
				    .c = kind,
				    .a = innermost ? innermost->id : 0,
				    .flags = innermost != NULL };

	return ring_push(r, &event, 1);
}

static const struct ring_external *innermost(const struct ring *r, uint32_t kind)
{
	for (uint32_t i = r->external_count; i > 0; i--)
		if (r->external[i - 1].kind == kind)
			return &r->external[i - 1];
	return NULL;
}

static int push(struct ring *r, uint32_t kind, uint64_t id)
{
	struct ring_external *top = &r->external[r->external_count];

	if (r->external_count == RING_EXTERNALS)
		return 0;
	*top = (struct ring_external){ kind, id };
	if (!put(r, kind, top))
		return 0;
	r->external_count++;
	return 1;
}

static int pop(struct ring *r, uint32_t kind, uint64_t *id)
{
	const struct ring_external *top = innermost(r, kind);

	if (!top)
		return 0;
	*id = top->id;
	for (uint32_t i = (uint32_t)(top - r->external) + 1; i < r->external_count; i++)
		r->external[i - 1] = r->external[i];
	r->external_count--;
	put(r, kind, innermost(r, kind));
	return 1;
}

/* Not inlined, like try_pop(): a call while nothing is recorded then saves no registers. */
static NOINLINE int try_push(uint32_t kind, uint64_t id)
{
	struct ring *r;
	int pushed;

	if (kind >= RING_EXTERNAL_KINDS || !nvtx_enter())
		return 0;
	r = ring_get();
	pushed = r ? push(r, kind, id) : 0;
	nvtx_leave();
	return pushed;
}

static NOINLINE int try_pop(struct ring *r, uint32_t kind, uint64_t *id)
{
	uint64_t unused;
	int popped;

	if (!nvtx_enter())
		return 0;
	popped = pop(r, kind, id ? id : &unused);
	nvtx_leave();
	return popped;
}

int pitot_external_push(uint32_t kind, uint64_t id)
{
	return atomic_load_explicit(&app_external_on, memory_order_relaxed) ? try_push(kind, id)
									    : 0;
}

int pitot_external_pop(uint32_t kind, uint64_t *id)
{
	return ring_of_thread ? try_pop(ring_of_thread, kind, id) : 0;
}

/* --- the collector's thread --- */

/* After a thread has lost events its open ids are unknown, until the next event. */
static bool is_current(const struct ring *r)
{
	return r->externals_open.lost == atomic_load_explicit(&r->lost, memory_order_relaxed);
}

uint64_t app_external_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	/* belongs to the collector's side of the ring */
	struct ring_externals *open = (void *)(uintptr_t)&r->externals_open;

	(void)w;
	if (!is_current(r))
		open->kinds = 0;
	open->lost = atomic_load_explicit(&r->lost, memory_order_relaxed);
	open->ids[event->c] = event->a;
	open->kinds = (open->kinds & ~(1u << event->c)) | (uint32_t)event->flags << event->c;
	return 1;
}

void app_external_write(struct writer *w, const struct ring *r, uint64_t correlation)
{
	if (!is_current(r))
		return;
	for (uint32_t kind = 0; kind < RING_EXTERNAL_KINDS; kind++)
		if (r->externals_open.kinds >> kind & 1)
			writer_append(w, TABLE_external_correlation,
				      &(struct row_external_correlation){
					      .kind = kind,
					      .id = r->externals_open.ids[kind],
					      .correlation = correlation,
				      });
}
