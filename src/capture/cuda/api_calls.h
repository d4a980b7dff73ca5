/*
 * api_calls.h: which CUDA functions are watched, and the callback on the launch path.
 *
 * Launches are taken on the driver's side only: complete and cheapest, as measured. Copies, sets
 * and synchronizations are watched on both sides; a driver call made inside a watched runtime call
 * has the same correlation id and is left out. Functions are found by name at run time, so no list
 * of callback ids goes stale.
 */
#ifndef PITOT_CAPTURE_CUDA_API_CALLS_H
#define PITOT_CAPTURE_CUDA_API_CALLS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "schema/schema.h"
#include "format/writer.h"
#include "schema/settings.h"

enum { API_DRIVER = 1, API_RUNTIME = 2 };

/*
 * Subscribes to what CUPTI says of itself; api_calls_watch() adds functions. 0, or a CUptiResult
 * and who is in the way.
 */
CUptiResult api_calls_subscribe(const struct cupti *cupti, CUpti_SubscriberHandle *subscriber,
				char *other_tool, size_t other_tool_room);

/*
 * From now on, as long as this subscription lasts, `engine` (SETTING_ENGINE_) is told of calls:
 * pc-sampling of those that load modules, which api_calls_watch() always watches then,
 * range-profiler of launches. true: that is new.
 */
bool api_calls_tell(int engine);

struct api_watched {
	unsigned functions, failed;
	CUptiResult why;	/* of the last that failed */
};

/*
 * Enables the callbacks of the functions that are wanted; NULL: of those alone that load modules,
 * if any.
 */
struct api_watched api_calls_watch(const struct cupti *cupti, CUpti_SubscriberHandle subscriber,
				   const struct settings *wanted);

/* Whether callbacks write events. Any thread. */
void api_calls_enable(bool on);

/*
 * Whether the program has a client of CUPTI beside us (share/share.h): its callback is called
 * within ours, and callbacks that only it wants are none of ours. Any thread.
 */
void api_calls_with_client(bool there);

#define API_CALLBACK_IDS_MAX 2048u /* more than CUPTI has; names end earlier */

/*
 * A function id (api << 16 | callback id) as an index below API_FUNCTIONS_MAX; those without a name
 * share one.
 */
#define API_FUNCTIONS_MAX ((API_RUNTIME + 1) * API_CALLBACK_IDS_MAX)
static inline unsigned api_function_index(uint32_t function)
{
	return (function >> 16) * API_CALLBACK_IDS_MAX +
	       MIN(function & 0xffff, API_CALLBACK_IDS_MAX - 1);
}

/* Name (NULL if unknown; static storage) and kind of a function id. */
const char *api_function_name(uint32_t function, enum api_kind *kind);

/*
 * Writes once for a recording, from api_functions_begin() on, which function an id is. Returns its
 * kind. Collector's thread.
 */
enum api_kind api_function_write(struct writer *w, uint32_t function);
void api_functions_begin(void);

/* Bit i: a context was created on device i in this subscription. */
uint64_t api_calls_devices(void);
/* Set by callbacks, read and cleared by the collector. */
bool api_calls_take_module_unloaded(void);
bool api_calls_fatal(void);
/* What CUPTI said then; "" for nothing. */
const char *api_calls_fatal_text(void);

#endif
