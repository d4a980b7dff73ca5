/* engine_notes.h: notes of the engines in the capability "engine". Any thread. */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H
#define PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H

#include "capture/cuda/vendor.h"
#include "schema/settings.h"

/*
 * Notes that the engine does not work, or not everywhere, so that only the trace is recorded.
 * `engine` is a literal.
 */
void engine_note_trace(const char *engine, const char *why);
/*
 * Notes, if that is so, that the selection of a session left nothing to measure. matched: number of
 * launches with a kernel of the selection.
 */
void engine_note_nothing(const char *engine, const struct settings *s, uint64_t matched);

/* Returns advice for a failed call to CUPTI's profilers. */
const char *engine_advice(CUptiResult result);

#endif
