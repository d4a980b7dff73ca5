/*
 * client.h: what the recorder and the client want from CUPTI, and the client's subscription.
 *
 * There is no lock: each of the two sets its own bits and then adjusts CUPTI to the union of both,
 * until that no longer changes.
 */
#ifndef PITOT_CAPTURE_CUDA_SHARE_CLIENT_H
#define PITOT_CAPTURE_CUDA_SHARE_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "capture/cuda/vendor.h"

/*
 * Functions of CUPTI that both call, and functions that only the client calls; their replacements
 * are named own_…. Functions that this CUPTI lacks are not offered to the client either.
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
 * Functions that take the GPU's counters or patch code, which only one client at a time can do.
 * Each has one argument; headers of an older CUDA lack some.
 */
#define COUNTER_FUNCTIONS(F)                                                                       \
	F(EventGroupEnable) F(EventGroupSetEnable) F(ProfilerBeginSession) F(RangeProfilerEnable)  \
	F(PCSamplingEnable) F(PmSamplingEnable) F(SassMetricsSetConfig) F(SassMetricsEnable)

/* Functions of the recorder's table that are replaced; the replacements are named recorder_…. */
#define RECORDERS_FUNCTIONS(F)                                                                     \
	F(Subscribe) F(Subscribe_v2) F(Unsubscribe) F(EnableCallback) F(EnableDomain)              \
	F(ActivityRegisterCallbacks) F(ActivityEnable) F(ActivityEnableAndDump)                    \
	F(ActivityDisable) F(ActivityGetNumDroppedRecords)

/* The functions of CUPTI itself. */
struct real_cupti {
	struct cupti recorder;
#define F(name) __typeof__(cupti##name) *name;
	CLIENTS_FUNCTIONS(F)
#undef F
#define F(name) CUptiResult(CUPTIAPI *name)(void *);
	COUNTER_FUNCTIONS(F) F(ProfilerDeInitialize)
#undef F
	/* the recorder's, or the client's while the recorder has none */
	_Atomic(CUpti_SubscriberHandle) subscriber;
};
extern struct real_cupti real_cupti;

enum party { PARTY_RECORDER, PARTY_CLIENT, PARTIES };

/* Set and query what one of the two has enabled; setting it adjusts CUPTI. */
CUptiResult party_set_callback(enum party who, bool on, CUpti_CallbackDomain domain,
			       CUpti_CallbackId id);
CUptiResult party_set_domain(enum party who, bool on, CUpti_CallbackDomain domain);
CUptiResult party_set_kind(enum party who, bool on, CUpti_ActivityKind kind);
bool party_has_callback(enum party who, CUpti_CallbackDomain domain, CUpti_CallbackId id);
bool party_has_any(enum party who, CUpti_CallbackDomain domain);
/* As bits by kind. */
uint64_t party_kinds(enum party who);
bool party_has_anything(enum party who);
void party_forget(enum party who);

/* Enable in CUPTI what the client wants, after a new subscription. */
void client_repeat_callbacks(CUpti_SubscriberHandle subscriber);
void client_repeat_kinds(bool on);

/* The client's subscription; there is one at a time. */
struct subscription {
	_Atomic(CUpti_CallbackFunc) callback; /* a late thread may read the next one's */
	_Atomic(void *) user;
	/* the handle while it is subscribed at CUPTI itself; otherwise NULL */
	_Atomic(CUpti_SubscriberHandle) real;
};
struct subscription *client_subscription(void); /* NULL: none */
/* Creates the subscription; NULL: there is one already. */
struct subscription *client_subscribe(CUpti_CallbackFunc callback, void *user);
/* After its return no other thread calls the callback, except one that has been in it for long. */
void client_unsubscribe(struct subscription *s);

/* Calls the client's callback. */
void client_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info);
/* Whether the calling thread is in the client's callback. */
bool client_is_inside(void);

/*
 * Keeps the library of the client's function loaded, even if the client does not unsubscribe before
 * dlclose(). The vendor thread does so, in client_keep_all_loaded: the calling thread may hold
 * locks of the client that a thread inside the loader waits for.
 */
void client_keep_loaded(void *function);
void client_keep_all_loaded(void);

void client_after_fork(void);

#endif
