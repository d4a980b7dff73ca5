/* client.h: the program's own client of CUPTI and its subscription. */
#ifndef PITOT_CAPTURE_CUDA_CLIENT_CLIENT_H
#define PITOT_CAPTURE_CUDA_CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "capture/cuda/hub/hub.h"

/*
 * Functions of CUPTI that both call, and functions that only the client calls; their replacements
 * are named own_…. Functions that this CUPTI lacks are not offered to the client either.
 */
#define SHARED_FUNCTIONS(F)                                                                        \
	F(Subscribe)                                                                               \
	F(Subscribe_v2) F(Unsubscribe) F(EnableCallback) F(EnableDomain) F(GetTimestamp)           \
		F(SetThreadIdType) F(ActivityRegisterCallbacks) F(ActivityEnable)                  \
			F(ActivityEnableAndDump) F(ActivityDisable) F(ActivityFlushAll)            \
				F(ActivityGetNextRecord) F(ActivityGetNumDroppedRecords)           \
					F(ActivitySetAttribute)

#define CLIENTS_FUNCTIONS(F)                                                                       \
	F(EnableAllDomains)                                                                        \
	F(GetCallbackState) F(ActivityRegisterTimestampCallback) F(ActivityEnableContext)          \
		F(ActivityDisableContext) F(ActivityEnableHWTrace) F(ActivityFlush)                \
			F(ActivityFlushPeriod) F(ActivityGetAttribute) F(GetThreadIdType)          \
				F(GetLastError) F(Finalize)

/*
 * Functions that take the GPU's counters or patch code, which only one client at a time can do.
 * Each has one argument; headers of an older CUDA lack some.
 */
#define COUNTER_FUNCTIONS(F)                                                                       \
	F(EventGroupEnable)                                                                        \
	F(EventGroupSetEnable) F(ProfilerBeginSession) F(RangeProfilerEnable) F(PCSamplingEnable)  \
		F(PmSamplingEnable) F(SassMetricsSetConfig) F(SassMetricsEnable)

/* Functions of the recorder's table that are replaced; the replacements are named recorder_…. */
#define RECORDERS_FUNCTIONS(F)                                                                     \
	F(Subscribe)                                                                               \
	F(Subscribe_v2) F(Unsubscribe) F(ActivityRegisterCallbacks)                                \
		F(ActivityGetNumDroppedRecords)

/* The functions of CUPTI itself. */
struct real_cupti {
	struct cupti recorder;
#define F(name) __typeof__(cupti##name) *name;
	CLIENTS_FUNCTIONS(F)
#undef F
#define F(name) CUptiResult(CUPTIAPI *name)(void *);
	COUNTER_FUNCTIONS(F) F(ProfilerDeInitialize)
#undef F
};
extern struct real_cupti real_cupti;

/* The client of the hub that is the program's own profiler. */
extern const struct hub_client profiler_client;

/* Enables or disables the kinds that the client wants, when CUPTI has a new subscriber. */
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
