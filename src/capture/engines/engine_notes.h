/* engine_notes.h: notes of the engines in the capability "engine". Any thread. */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H
#define PITOT_CAPTURE_ENGINES_ENGINE_NOTES_H

#include "capture/cuda/vendor.h"

/*
 * Notes that the engine does not work, or not everywhere, so that only the trace is recorded.
 * `engine` is a literal.
 */
void engine_note_trace(const char *engine, const char *why);
/* Notes a refusal likewise, and gives up the engine's ownership of the GPU's counters. */
void engine_note_refusal(const char *engine, const char *why);

/* Returns advice for a failed call to CUPTI's profilers. */
const char *engine_advice(CUptiResult result);

#endif
