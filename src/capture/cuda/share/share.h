/*
 * share.h: --own-profiler: the program's own client of CUPTI (torch.profiler's Kineto,
 * Triton's Proton, …) works beside the recorder, though CUPTI has one subscriber, which is the
 * recorder.
 *
 * Calls of other libraries into CUPTI come here (slots.h). CUPTI has switched on what either of the
 * two wants. The client's callback is called within the recorder's, its records are copied from the
 * recorder's buffers (client_records.h). Its timestamp callback, its attributes and its
 * cuptiFinalize end here; whatever is not routed, such as external correlation ids, goes to CUPTI
 * as ever.
 *
 * The recorder's own calls go through its table of functions (struct cupti), in which share_wrap()
 * puts functions of this module for those that both have. While the recorder is not subscribed,
 * functions of the client are CUPTI's: what it has is handed over to CUPTI when the recorder
 * leaves, and taken back when it returns.
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_SHARE_H
#define PITOT_CAPTURE_CUDA_SHARE_SHARE_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "format/writer.h"
#include "schema/settings.h"

/*
 * Before the recorder subscribes, for all sessions from then on. Without effect where this CUPTI
 * cannot be shared. yield: the client has CUPTI for itself (turns.h). keep: the recorder has; the
 * client is only seen to subscribe.
 */
void share_wrap(struct cupti *cupti, const struct settings *wanted);

/*
 * From here on an engine of this name, a literal, has the GPU's counters: what would take them is
 * refused to the client. NULL: none has. Any thread.
 */
void share_hold_counters(const char *engine);
/* That engine has them no more. */
void share_let_counters(const char *engine);

/* A callback of CUPTI that the recorder does not want is the client's alone. Any thread. */
bool share_is_recorders(CUpti_CallbackDomain domain, CUpti_CallbackId id);

/* Calls the client's callback if it wants this one. On the launch path, while there is a client. */
void share_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info);

/*
 * Activity records that only the client wants are left out of the recording: a bit for each kind.
 */
uint64_t share_left_out(void);

/* Copies the client's records. Collector's thread. */
void share_copy(uint8_t *bytes, size_t valid);

/* Finds libraries that have come. Vendor thread. */
void share_follow(void);

/* What CUPTI says of time is the client's clock. */
bool share_clock_is_clients(void);

/*
 * The row of `capability` that says what happened, of what was requested. Collector's thread, at
 * the end.
 */
void share_end(struct writer *w, const char *requested);

void share_after_fork(void);

#endif
