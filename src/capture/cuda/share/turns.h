/*
 * turns.h: --own-profiler yield: whether the recorder or the program's client has CUPTI. The client
 * has it for itself from when it comes (by a subscription, a kind of records, callbacks of calls)
 * until it has had none of these enabled for QUIET_NS, even if it keeps an idle subscription. The
 * time between is a gap in the recording.
 *
 * Only the vendor thread moves CUPTI from one to the other, never inside a callback of CUPTI and
 * without waiting for anybody. It does not move CUPTI to the recorder during a call of the client.
 * A call of the client waits, at most LIMIT_NS, while CUPTI moves. Each announces itself before it
 * checks for the other, so at least one of them notices. A client that has waited for too long is
 * served by the recorder (share.h).
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_TURNS_H
#define PITOT_CAPTURE_CUDA_SHARE_TURNS_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "capture/cuda/vendor.h"
#include "format/writer.h"

void turns_set_yield(bool on);
bool turns_yield(void);
const char *turns_mode(void); /* the setting's name: "share", "yield" */

/* --- the client's calls --- */

/*
 * Must be the first declaration of each function that the client calls and that changes what it
 * wants from CUPTI.
 */
#define TURNS_CALL                                                                                 \
	__attribute__((cleanup(turns_end_call), unused)) bool is_counted_ = turns_begin_call()
bool turns_begin_call(void);
void turns_end_call(const bool *is_counted);

/*
 * Pauses briefly for other threads of the recorder. Returns false if the limit is exceeded, or if
 * the recorder has ended.
 */
bool turns_pause(uint64_t begun_ns, uint64_t limit_ns);

/*
 * The client comes: returns when the recorder has left (is_recorders() returns false then), or
 * after LIMIT_NS.
 */
void turns_request(bool (*is_recorders)(void));

/* Callbacks about contexts and CUPTI itself only do not count as a profiler's work. */
bool turns_is_work(CUpti_CallbackDomain domain);

/* --- the recorder --- */

/*
 * Whether the recorder must leave CUPTI to the client. `recorder_comes`: the recorder would come
 * otherwise. If CUPTI may move, calls of the client wait until turns_settle(). Vendor thread, or
 * the thread that starts the recorder.
 */
bool turns_are_clients(bool recorder_comes);
void turns_settle(void);

/* Returns how soon the client's turn may end; UINT64_MAX: a call of the client will end it. */
uint64_t turns_wait_ns(void);

/*
 * Notes that the recorder, although it should record, has been away since then; 0: it is not away.
 * Vendor thread, or the thread that starts the recorder.
 */
void turns_gap(uint64_t since_ns);

/* Writes rows of the gaps; those of an open gap in parts. Collector's thread. */
void turns_write(struct writer *w);
/* Writes the rest, and appends a summary of all gaps; returns false if there were none. */
bool turns_end(struct writer *w, struct strbuf *text);

void turns_after_fork(void);

#endif
