/*
 * client_records.h: the client's activity records: copies of those that CUPTI wrote for both of us,
 * in the client's own buffers.
 *
 * The collector copies what the client has enabled into a store of at most COPIES_BYTES_MAX; beyond
 * that the oldest are dropped and count as the client's. Its code is never called there: buffers
 * are requested, filled and completed on its own threads, in its flushes and in the callbacks of
 * its calls, as CUPTI itself does. No lock is held meanwhile.
 *
 * A kernel that ran by itself, since the recorder has CUPTI run them one after the other, is to a
 * client that has not asked for that as any other: its record's kind is changed.
 *
 * Which records are the client's: work whose call began while the kind was enabled, by correlation
 * ids; others by their time.
 *
 * With a timestamp callback its copies are in the time of that: converted with pairs of both
 * clocks, read when it is registered and before each delivery. Where both tick alike durations stay
 * as they are; a counter of cycles, which Kineto has, needs a factor.
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_CLIENT_RECORDS_H
#define PITOT_CAPTURE_CUDA_SHARE_CLIENT_RECORDS_H

#include "capture/cuda/vendor.h"

#define COPIES_BYTES_MAX ((size_t)64 << 20)
#define COPIES_KINDS 64u /* CUPTI's kinds are below */

/* What copies need of the real CUPTI. */
struct copies_cupti {
	__typeof__(cuptiGetTimestamp) *timestamp;
	__typeof__(cuptiActivityGetNextRecord) *next_record;
	uint32_t version;
};
void copies_start(const struct copies_cupti *cupti);

/* The client's callbacks; NULL: none. Any thread. */
void copies_register(CUpti_BuffersCallbackRequestFunc request,
		     CUpti_BuffersCallbackCompleteFunc complete);
bool copies_registered(void);
CUpti_BuffersCallbackRequestFunc copies_request(void);
CUpti_BuffersCallbackCompleteFunc copies_complete(void);
void copies_register_clock(CUpti_TimestampCallbackFunc clock);
CUpti_TimestampCallbackFunc copies_clock(void);

/*
 * The client enables a kind, before CUPTI does, or has disabled it. Unless launches are watched
 * nothing is known of calls, and work is the client's by its time. Any thread.
 */
void copies_enable(uint32_t kind, bool are_watched);
void copies_disable(uint32_t kind);

/*
 * A call of the program begins, while the client has anything enabled. On its thread, outside of
 * the client's callback.
 */
void copies_call(uint32_t correlation);

/* Copies what is the client's of a full buffer. Collector's thread. */
void copies_add(uint8_t *bytes, size_t valid);

enum copies_delivery {
	COPIES_FULL, /* full buffers */
	COPIES_FLUSH, /* also the one that has records */
	COPIES_LAST, /* also an empty one */
};

/*
 * Hands over all copies. On a thread of the program; returns when the client has them, or is inside
 * of one of its callbacks.
 */
void copies_deliver(enum copies_delivery what);

/*
 * Whether the calling thread is inside a callback for buffers or times: nothing can be delivered
 * there.
 */
bool copies_is_inside(void);

/* Steps through one of the client's buffers. */
CUptiResult copies_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record);

/* Records that the client has lost since the last call; and some that CUPTI has lost for both. */
size_t copies_dropped(void);
void copies_add_dropped(size_t records);

struct copies_counts {
	uint64_t kernels, records, dropped;
};
/* Since the last call. */
struct copies_counts copies_take_counts(void);

/* The client has gone. */
void copies_reset(void);
void copies_after_fork(void);

#endif
