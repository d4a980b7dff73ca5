#include "capture/engines/engine_refusal.h"

#include <stdio.h>

#include "capture/engines/engine_notes.h"

void engine_refuse_with(struct engine_refusal *refusal, const struct hub_client *client,
			const char *engine, const char *format, va_list args)
{
	if (atomic_exchange(&refusal->begun, true))
		return;
	vsnprintf(refusal->text, sizeof(refusal->text), format, args);
	hub_release_counters(client);
	engine_note_trace(engine, refusal->text);
	atomic_store(&refusal->complete, true);
}

void engine_refuse(struct engine_refusal *refusal, const struct hub_client *client,
		   const char *engine, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	engine_refuse_with(refusal, client, engine, format, args);
	va_end(args);
}

void engine_refusal_note(const struct engine_refusal *refusal, const char *engine)
{
	if (engine_refusal_text(refusal))
		engine_note_trace(engine, refusal->text);
}
