/*
 * api_calls.h: selects the CUDA functions to watch; has the callback on the launch path.
 *
 * Launches are watched on the driver's side only, which is complete and, as measured, cheapest.
 * Copies, sets and synchronizations are watched on both sides; a driver call inside a watched
 * runtime call has the same correlation id and is left out. Functions are found by name at run
 * time, so there is no list of callback ids that could become outdated.
 */
#ifndef PITOT_CAPTURE_CUDA_API_CALLS_H
#define PITOT_CAPTURE_CUDA_API_CALLS_H

#include <stdbool.h>

#include "capture/cuda/hub/hub.h"
#include "format/writer.h"

enum { API_DRIVER = 1, API_RUNTIME = 2 };

/* The client of the hub that is the recording itself. */
extern const struct hub_client trace_client;

/*
 * Subscribes to CUPTI's own notifications; api_calls_watch() adds functions. Returns 0, or a
 * CUptiResult and in other_tool the name of the tool that is in the way.
 */
CUptiResult api_calls_subscribe(const struct cupti *cupti, CUpti_SubscriberHandle *subscriber,
				char *other_tool, size_t other_tool_room);

struct api_watched {
	unsigned functions, failed;
	CUptiResult why; /* of the last failure */
};

/*
 * Enables the callbacks of the functions that the settings request and that the hub's attached
 * clients want; NULL: no window is open. Returns what was enabled for the trace.
 */
struct api_watched api_calls_watch(const struct settings *requested);

/* Whether callbacks write events. Any thread. */
void api_calls_enable(bool on);
bool api_calls_are_enabled(void);

#define API_CALLBACK_IDS_MAX HUB_CALLBACK_IDS_MAX

/*
 * A function id (api << 16 | callback id) as an index below API_FUNCTIONS_MAX; callback ids beyond
 * the limit share an index.
 */
#define API_FUNCTIONS_MAX ((API_RUNTIME + 1) * API_CALLBACK_IDS_MAX)
static inline unsigned api_function_index(uint32_t function)
{
	return (function >> 16) * API_CALLBACK_IDS_MAX +
	       MIN(function & 0xffff, API_CALLBACK_IDS_MAX - 1);
}

/* Returns a function's name (NULL if unknown; static storage) and its kind. */
const char *api_function_name(uint32_t function, enum api_kind *kind);

/*
 * Writes the row of a function id, once per recording, that is, since api_functions_begin().
 * Returns the function's kind. Collector's thread.
 */
enum api_kind api_function_write(struct writer *w, uint32_t function);
void api_functions_begin(void);

/* Bit i: a context was created on device i in this subscription. */
uint64_t api_calls_devices(void);
/* Set by callbacks; the collector reads both and clears the first. */
bool api_calls_take_module_unloaded(void);
bool api_calls_fatal(void);
/* When it happened, in CLOCK_MONOTONIC, and CUPTI's text of it; 0 and "" if there was none. */
uint64_t api_calls_fatal_ns(void);
const char *api_calls_fatal_text(void);

#endif
