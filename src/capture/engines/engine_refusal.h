/*
 * engine_refusal.h: why an engine does not work, so that only the trace is recorded. The first
 * reason stays, for later sessions too, until it is cleared. Any thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_REFUSAL_H
#define PITOT_CAPTURE_ENGINES_ENGINE_REFUSAL_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "capture/cuda/hub/hub.h"

struct engine_refusal {
	atomic_bool begun, complete; /* set before and after `text` is written */
	char text[400];
};

/*
 * Sets the reason, releases the client's hold on the GPU's counters, and notes it in the
 * capability "engine". Has no effect if there is a reason already.
 */
void engine_refuse_with(struct engine_refusal *refusal, const struct hub_client *client,
			const char *engine, const char *format, va_list args);
void engine_refuse(struct engine_refusal *refusal, const struct hub_client *client,
		   const char *engine, const char *format, ...) PRINTF_LIKE(4, 5);

/* Returns the reason; NULL: there is none. */
static inline const char *engine_refusal_text(const struct engine_refusal *refusal)
{
	return atomic_load(&refusal->complete) ? refusal->text : NULL;
}

/* Notes the reason, if there is one, for a session that begins. */
void engine_refusal_note(const struct engine_refusal *refusal, const char *engine);

static inline void engine_refusal_clear(struct engine_refusal *refusal)
{
	atomic_store(&refusal->begun, false);
	atomic_store(&refusal->complete, false);
}

#endif
