/*
 * client.h: what the recorder and the client want of CUPTI, and the client's subscription.
 *
 * Without a lock: each sets its own bits and then has CUPTI follow both, until that is what both
 * want.
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_CLIENT_H
#define PITOT_CAPTURE_CUDA_SHARE_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "capture/cuda/vendor.h"

/*
 * Functions of CUPTI that both call, and those that only the client calls: ours are named own_….
 * What this CUPTI lacks the client does not find either.
 */
#define SHARED_FUNCTIONS(F)                                                                        \
	F(Subscribe) F(Subscribe_v2) F(Unsubscribe) F(EnableCallback) F(EnableDomain)              \
	F(GetTimestamp) F(SetThreadIdType) F(ActivityRegisterCallbacks) F(ActivityEnable)          \
	F(ActivityEnableAndDump) F(ActivityDisable) F(ActivityFlushAll) F(ActivityGetNextRecord)   \
	F(ActivityGetNumDroppedRecords) F(ActivitySetAttribute)

#define CLIENTS_FUNCTIONS(F)                                                                       \
	F(EnableAllDomains) F(GetCallbackState) F(ActivityRegisterTimestampCallback)               \
	F(ActivityEnableContext) F(ActivityDisableContext) F(ActivityEnableHWTrace)                \
	F(ActivityFlush) F(ActivityFlushPeriod) F(ActivityGetAttribute) F(GetThreadIdType)         \
	F(GetLastError) F(Finalize)

/*
 * What takes the GPU's counters, or patches code: of one at a time. Each has one argument, and
 * headers of an older CUDA lack some.
 */
#define COUNTER_FUNCTIONS(F)                                                                       \
	F(EventGroupEnable) F(EventGroupSetEnable) F(ProfilerBeginSession) F(RangeProfilerEnable)  \
	F(PCSamplingEnable) F(PmSamplingEnable) F(SassMetricsSetConfig) F(SassMetricsEnable)

/* Of the recorder's table those that are replaced: ours are named recorder_…. */
#define RECORDERS_FUNCTIONS(F)                                                                     \
	F(Subscribe) F(Subscribe_v2) F(Unsubscribe) F(EnableCallback) F(EnableDomain)              \
	F(ActivityRegisterCallbacks) F(ActivityEnable) F(ActivityEnableAndDump)                    \
	F(ActivityDisable) F(ActivityGetNumDroppedRecords)

/* CUPTI's own. */
struct real_cupti {
	struct cupti recorder;
#define F(name) __typeof__(cupti##name) *name;
	CLIENTS_FUNCTIONS(F)
#undef F
#define F(name) CUptiResult(CUPTIAPI *name)(void *);
	COUNTER_FUNCTIONS(F) F(ProfilerDeInitialize)
#undef F
	/* The recorder's, or the client's while the recorder has none. */
	_Atomic(CUpti_SubscriberHandle) subscriber;
};
extern struct real_cupti real_cupti;

enum want { WANT_RECORDER, WANT_CLIENT, WANTS };

CUptiResult want_callback(enum want who, bool on, CUpti_CallbackDomain domain, CUpti_CallbackId id);
CUptiResult want_domain(enum want who, bool on, CUpti_CallbackDomain domain);
CUptiResult want_kind(enum want who, bool on, CUpti_ActivityKind kind);
bool wants_callback(enum want who, CUpti_CallbackDomain domain, CUpti_CallbackId id);
bool wants_any(enum want who, CUpti_CallbackDomain domain);
/* Bits by kind. */
uint64_t wants_kinds(enum want who);
bool wants_anything(enum want who);
void wants_forget(enum want who);

/* Has CUPTI do what the client wants, after another subscription. */
void wants_repeat_callbacks(CUpti_SubscriberHandle subscriber);
void wants_repeat_kinds(bool on);

/* Of a client there is one at a time. NULL: none. */
struct subscription {
	_Atomic(CUpti_CallbackFunc) callback; /* threads that are late may read what comes next */
	_Atomic(void *) user;
	/* while it is subscribed at CUPTI itself; else NULL */
	_Atomic(CUpti_SubscriberHandle) real;
};
struct subscription *client_subscription(void);
/* Claims the place; NULL: it is taken. */
struct subscription *client_subscribe(CUpti_CallbackFunc callback, void *user);
/* From its return on the callback is called by no other thread, unless that is in it for long. */
void client_unsubscribe(struct subscription *s);

/* Calls the client's callback. */
void client_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info);
/* Whether the calling thread is in it. */
bool client_is_inside(void);

/*
 * Its functions stay where they are, also when it forgets to unsubscribe before dlclose(). All are
 * kept by the vendor thread: here the client may have locks that a thread in the loader waits for.
 */
void client_keep_loaded(void *function);
void client_keep_all_loaded(void);

void client_after_fork(void);

#endif
