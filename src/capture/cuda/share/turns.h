/*
 * turns.h: --own-profiler yield: whose turn CUPTI is, the recorder's or that of the program's
 * client. The client has it for itself from when it comes (a subscription, a kind of records,
 * callbacks of calls) until it has had nothing of that on for QUIET_NS, also while it keeps an idle
 * subscription. The time between is a gap in the recording.
 *
 * The vendor thread alone moves CUPTI from the one to the other, never inside a callback of CUPTI,
 * and waits for nobody. It moves nothing to the recorder while a call of the client is under way. A
 * call of the client waits, at most LIMIT_NS, while CUPTI moves: either sees the other, as each
 * says what it does before it looks. A client that has waited for too long is served by the
 * recorder (share.h).
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
 * As the first declaration of a function that the client calls and that changes what it has of
 * CUPTI.
 */
#define TURNS_CALL                                                                                 \
	__attribute__((cleanup(turns_end_call), unused)) bool is_counted_ = turns_begin_call()
bool turns_begin_call(void);
void turns_end_call(const bool *is_counted);

/*
 * Waits a moment for other threads of the recorder. false: for longer than the limit, or it has
 * ended.
 */
bool turns_look_again(uint64_t begun_ns, uint64_t limit_ns);

/*
 * The client comes. Returns when the recorder has left (is_recorders(): it has not), or LIMIT_NS
 * have passed.
 */
void turns_come(bool (*is_recorders)(void));

/* Callbacks that only tell of contexts and of CUPTI itself are no work of a profiler. */
bool turns_is_work(CUpti_CallbackDomain domain);

/* --- the recorder --- */

/*
 * Whether the recorder has to be away. `comes`: else it comes. Until turns_settle() calls of the
 * client wait if CUPTI may move. Vendor thread, or the one that starts.
 */
bool turns_are_clients(bool comes);
void turns_settle(void);

/* How soon the client's turn may be over; UINT64_MAX: the client says so. */
uint64_t turns_wait_ns(void);

/*
 * The recorder is away since then while it should record; 0: it is not. Vendor thread, or the one
 * that starts.
 */
void turns_gap(uint64_t since_ns);

/*
 * Rows of the gaps; of one that is not over, of a good part of it at a time. Collector's thread.
 */
void turns_write(struct writer *w);
/* All that is left. Appends what they are all together; false: there were none. */
bool turns_end(struct writer *w, struct strbuf *text);

void turns_after_fork(void);

#endif
