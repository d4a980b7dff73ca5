/* source_ops.h: operations of a source, called as the collector calls them. */
#ifndef PITOT_TESTS_SOURCE_OPS_H
#define PITOT_TESTS_SOURCE_OPS_H

#include "capture/core/capability_notes.h"
#include "capture/core/source.h"

static inline void source_window(const struct source *source, bool open, struct writer *w)
{
	const struct settings wanted = SETTINGS_INIT;

	source->window(open ? &wanted : NULL, w);
}

/* Makes rows of the events of one source; other events are dropped. Returns how many it had. */
static inline uint64_t source_drain(const struct source *source, struct writer *w)
{
	uint64_t events = 0;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		while (ring_available(r)) {
			uint64_t position = atomic_load(&r->tail), slots = 1;

			for (unsigned h = 0; h < source->handler_count; h++)
				if (source->handlers[h].kind == ring_slot(r, position)->kind) {
					slots = source->handlers[h].handle(w, r, position);
					events++;
				}
			if (slots < 1 || slots > ring_available(r))
				abort();
			ring_consume(r, slots);
		}
		if (atomic_load(&r->state) == RING_DEAD && !atomic_load(&r->added_words))
			ring_recycle(r);
	}
	return events;
}

#endif
