/*
 * api_calls.h: which CUDA functions are watched, and the callback on the launch path.
 *
 * Launches are taken on the driver's side only: complete and cheapest, as measured. Copies, sets and synchronizations are
 * watched on both sides; a driver call made inside a watched runtime call has the same correlation id and is left out.
 * Functions are found by name at run time, so no list of callback ids goes stale.
 */
#ifndef PITOT_CAPTURE_CUDA_API_CALLS_H
#define PITOT_CAPTURE_CUDA_API_CALLS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "capture/settings.h"
#include "schema/schema.h"

enum { API_DRIVER = 1, API_RUNTIME = 2 };

/* Subscribes and enables the callbacks that the settings ask for. 0, or a CUptiResult. */
CUptiResult api_calls_start(const struct cupti *cupti, const struct settings *settings, CUpti_SubscriberHandle *subscriber,
			    char *other_tool, size_t other_tool_room);

/* How many functions are watched; *failed: could not be, *why: the last of those errors. */
unsigned api_calls_watched(unsigned *failed, CUptiResult *why);

/* Whether callbacks write events. Any thread. */
void api_calls_enable(bool on);

/* Name (NULL if unknown) and kind of a function id (api << 16 | callback id). Collector thread. */
const char *api_function_name(const struct cupti *cupti, uint32_t function, enum api_kind *kind);

/* Set by callbacks, read and cleared by the collector. */
bool api_calls_take_module_unloaded(void);
bool api_calls_fatal(void);
/* What CUPTI said then; "" for nothing. */
const char *api_calls_fatal_text(void);

#endif
