/*
 * client_records.h: the client's activity records: copies, in the client's own buffers, of records
 * that CUPTI wrote for both.
 *
 * The collector copies what the client has enabled into a store of at most COPIES_BYTES_MAX; beyond
 * that the oldest copies are dropped, which the client sees as dropped records. The collector never
 * calls the client's code: buffers are requested, filled and completed on the client's own threads,
 * in its flushes and in the callbacks of its calls, as CUPTI itself does. No lock is held then.
 *
 * If the recorder makes CUPTI serialize kernels, a client that has not requested that gets their
 * records as those of concurrent kernels: the kind in the record is changed.
 *
 * A record is the client's if its call began while the kind was enabled, by correlation id; records
 * that are not GPU work are assigned by their time.
 *
 * If the client has a timestamp callback, its copies are in the time of that clock, converted with
 * pairs of both clocks that are read when it is registered and before each delivery. If both clocks
 * tick alike durations do not change; a counter of cycles, as Kineto's, needs a factor.
 */
#ifndef PITOT_CAPTURE_CUDA_CLIENT_CLIENT_RECORDS_H
#define PITOT_CAPTURE_CUDA_CLIENT_CLIENT_RECORDS_H

#include "capture/cuda/vendor.h"

#define COPIES_BYTES_MAX ((size_t)64 << 20)
#define COPIES_KINDS 64u /* CUPTI's kinds are smaller */

/* Functions of the real CUPTI that copies need. */
struct copies_cupti {
	__typeof__(cuptiGetTimestamp) *timestamp;
	__typeof__(cuptiActivityGetNextRecord) *next_record;
	uint32_t version;
};
void copies_start(const struct copies_cupti *cupti);

/* The client's callbacks; NULL: not registered. Any thread. */
void copies_register(CUpti_BuffersCallbackRequestFunc request,
		     CUpti_BuffersCallbackCompleteFunc complete);
bool copies_registered(void);
CUpti_BuffersCallbackRequestFunc copies_request(void);
CUpti_BuffersCallbackCompleteFunc copies_complete(void);
void copies_register_clock(CUpti_TimestampCallbackFunc clock);
CUpti_TimestampCallbackFunc copies_clock(void);

/*
 * The client enables a kind (called before CUPTI does) or has disabled it. If launches are not
 * watched, no calls are known, and work too is assigned by its time. Any thread.
 */
void copies_enable(uint32_t kind, bool are_watched);
void copies_disable(uint32_t kind);

/*
 * Must be called when a call of the program begins while the client has anything enabled. On its
 * thread, outside the client's callback.
 */
void copies_begin_call(uint32_t correlation);

/* Copies the client's records from a full buffer. Collector's thread. */
void copies_add(uint8_t *bytes, size_t valid);

enum copies_delivery {
	COPIES_FULL, /* full buffers */
	COPIES_FLUSH, /* also a buffer that has some records */
	COPIES_LAST, /* also an empty buffer */
};

/*
 * Delivers all copies. Must be called on a thread of the program; returns when the client has them,
 * or immediately inside one of its callbacks.
 */
void copies_deliver(enum copies_delivery what);

/*
 * Whether the calling thread is in a callback for buffers or times, where delivery is impossible.
 */
bool copies_is_inside(void);

/* Iterates over one of the client's buffers. */
CUptiResult copies_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record);

/* Records that the client has lost since the last call; adds records that CUPTI lost for both. */
size_t copies_dropped(void);
void copies_add_dropped(size_t records);

struct copies_counts {
	uint64_t kernels, records, dropped;
};
/* Returns the counts since the last call. */
struct copies_counts copies_take_counts(void);

/* The client has finished: forgets everything of it. */
void copies_reset(void);
void copies_after_fork(void);

#endif
