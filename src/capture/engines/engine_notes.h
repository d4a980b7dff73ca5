/* engine_notes.h: notes and refusals of the engines, in the capability "engine". Any thread. */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H
#define PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H

#include <stdarg.h>

#include "capture/core/refusals.h"
#include "capture/cuda/hub/hub.h"
#include "capture/cuda/vendor.h"
#include "schema/settings.h"

/*
 * Notes that the engine does not work, or not everywhere, so that only the trace is recorded.
 * `engine` is a literal.
 */
void engine_note_trace(const char *engine, const char *why);
/*
 * Sets the reason why an engine does not work, so that only the trace is recorded: releases the
 * client's hold on the GPU's counters, and notes it. Has no effect if there is a reason already.
 */
void engine_refuse(struct refusal *refusal, const struct hub_client *client, const char *engine,
		   const char *format, ...) PRINTF_LIKE(4, 5);
void engine_refuse_with(struct refusal *refusal, const struct hub_client *client,
			const char *engine, const char *format, va_list args);
/* Notes the reason, if there is one, for another session. */
void engine_note_refusal(const struct refusal *refusal, const char *engine);

/*
 * Notes, if that is so, that the selection of a session left nothing to measure. matched: number of
 * launches with a kernel of the selection.
 */
void engine_note_nothing(const char *engine, const struct settings *s, uint64_t matched);

/* Returns advice for a failed call to CUPTI's profilers. */
const char *engine_advice(CUptiResult result);

#endif
