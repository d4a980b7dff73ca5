/* engine_notes.h: what the engines say of themselves, in the capability "engine". Any thread. */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H
#define PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H

#include "capture/cuda/vendor.h"

/*
 * The engine does not do what it should, or not everywhere: there is the trace. `engine` is a
 * literal.
 */
void engine_note_trace(const char *engine, const char *why);
/* The same for good: it has none of the GPU's counters. */
void engine_note_refusal(const char *engine, const char *why);

/* What to do about a result of CUPTI's profilers. */
const char *engine_advice(CUptiResult result);

#endif
