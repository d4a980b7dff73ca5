/*
 * call_handles.h: the streams and events that CUDA calls are about, from their parameters.
 *
 * A call that records an event, waits for one, synchronizes with or queries a stream, appends a
 * host function or a memory operation to one, or captures one has handles among its first
 * parameters, which are 64-bit words. CUPTI translates a stream's handle into its id while the call
 * still has the stream; events have no ids without CUPTI's own records.
 */
#ifndef PITOT_CAPTURE_CUDA_CALL_HANDLES_H
#define PITOT_CAPTURE_CUDA_CALL_HANDLES_H

#include "capture/cuda/activity_rows.h"
#include "capture/cuda/vendor.h"
#include "format/writer.h"

/* How to read the parameters of a function of this name (CUPTI's, without "cu" or "cuda"). */
struct call_handles {
	bool has_any, has_stream, has_event;
	bool event_first; /* the event is the first parameter, the stream the second */
	bool is_per_thread; /* a stream of 0 is the thread's own default stream */
	enum synchronization_kind waits_for; /* unknown: nothing */
};
struct call_handles call_handles_of(const char *name);

/* Fills a slot from the exit of a successful call. Any thread. */
void call_handles_read(const struct call_handles *h, const struct cupti *cupti,
		       const CUpti_CallbackData *data, struct ring_event *slot);

#endif
