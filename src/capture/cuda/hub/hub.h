/*
 * hub.h: the one subscriber of CUPTI, for all who need something of it. A client of the hub is a
 * struct hub_client and one line in clients.c.
 *
 * What a client wants is stored as its own bits: callbacks by domain and id, kinds of records by
 * kind. CUPTI has the union of all clients' bits, which is computed in hub.c only. There is no
 * lock: who changes a bit then adjusts CUPTI until the union no longer changes.
 *
 * The calls of a program that only the trace wants do not come here (api_calls.c): the launch path
 * reads hub_listeners, and nothing else.
 */
#ifndef PITOT_CAPTURE_CUDA_HUB_HUB_H
#define PITOT_CAPTURE_CUDA_HUB_HUB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "capture/cuda/vendor.h"
#include "schema/schema.h"
#include "schema/settings.h"

#define HUB_DOMAINS 8u
#define HUB_CALLBACK_IDS_MAX 2048u /* more than CUPTI has */
#define HUB_KERNELS CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL /* serialized or not: hub_serialize() */

struct writer;

/* A function of CUDA's API; names are CUPTI's. */
struct hub_function {
	const char *name;
	enum api_kind kind;
	bool is_driver;
	CUpti_CallbackId id;
};

/* A callback of CUPTI at the begin or end of a call. */
struct hub_call {
	const struct hub_function *function;
	CUpti_CallbackDomain domain;
	const CUpti_CallbackData *data;
};

/* What a client wants, and has. Static storage of the client; only hub.c reads and changes it. */
struct hub_wishes {
	atomic_uint_fast64_t callbacks[HUB_DOMAINS][HUB_CALLBACK_IDS_MAX / 64];
	atomic_uint_fast64_t kinds;
	atomic_bool is_attached, is_serial, is_late, has_counters;
};

/* All functions may be NULL. */
struct hub_client {
	const char *name;
	struct hub_wishes *wishes;
	bool is_profiler; /* the program's own: its records are copied, and it hears every call */
	bool takes_counters; /* the program's own profiler cannot have them meanwhile */

	/* Whether a session with this value of SETTING_ENGINE_ needs the client. */
	bool (*is_engine)(int engine);
	/*
	 * Sets the client's wishes. Idempotent. `late`: contexts may exist already. Returns false
	 * if the client refuses; it has noted why. On the subscribing thread or the vendor thread.
	 */
	bool (*attach)(const struct cupti *cupti, int engine, bool late);
	/*
	 * Called before the subscription ends. Returns false if it must stay. Vendor thread.
	 */
	bool (*detach)(void);
	/* Whether the kinds that it wants must stay enabled when no window is open. */
	bool (*keeps_kinds)(void);

	/*
	 * Whether callbacks of this function are wanted; called once per function whenever wishes
	 * change. `s` is NULL while no window is open.
	 */
	bool (*wants_call)(const struct hub_function *f, const struct settings *s);
	/*
	 * Called where a call begins, in the order of clients.c, and where it ends, in reverse. An
	 * end may come whose begin was not seen.
	 */
	void (*enter)(const struct hub_call *call);
	void (*exit)(const struct hub_call *call);
	/* Called for wanted callbacks of the other domains, in the order of clients.c. */
	void (*notify)(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info);

	/*
	 * Enclose cuptiActivityFlushAll on one thread. `hold` returns false if CUPTI must not be
	 * flushed now; `let` is then not called.
	 */
	bool (*hold)(void);
	void (*let)(void);

	/*
	 * Called for each kernel's record that is not a graph's. began_ns 0: the record has no
	 * times, and the client returns whether it knows them. Otherwise it returns whether the
	 * record's end is not the kernel's own. Collector's thread; times are CLOCK_MONOTONIC.
	 */
	bool (*adjust_kernel)(struct writer *w, uint32_t correlation, uint64_t began_ns,
			      uint64_t *start_ns, uint64_t *end_ns);
};

/* In the order of calls; NULL at the end. */
extern const struct hub_client *const hub_clients[];

#define FOR_EACH_HUB_CLIENT(c)                                                                     \
	for (const struct hub_client *const *at_ = hub_clients, *c; (c = *at_); at_++)

/* --- the subscription --- */

/* Sets the functions of CUPTI, once for the life of the process. Called before anything below. */
void hub_use(const struct cupti *cupti);
/* Sets the handle for later changes. Nothing is enabled for a handle that is new. */
void hub_subscribed(CUpti_SubscriberHandle subscriber);
/* CUPTI was unsubscribed: forgets all wishes except those of the program's own profiler. */
void hub_unsubscribed(void);

/*
 * Attaches the clients that an engine needs. Returns whether one of them was not attached before:
 * then the functions that they want must be enabled (api_calls_watch).
 */
bool hub_attach(int engine, bool late);
bool hub_is_attached(const struct hub_client *c);
/* Returns false if some client must keep the subscription. */
bool hub_detach(void);
/* The window has closed: disables kinds that no client must keep. */
void hub_close_window(void);

/* Enclose cuptiActivityFlushAll; false: CUPTI must not be flushed now. */
bool hub_hold(void);
void hub_let(void);

/* --- wishes --- */

/* A wish that CUPTI refuses is not kept. */
CUptiResult hub_set_callback(const struct hub_client *c, bool on, CUpti_CallbackDomain domain,
			     CUpti_CallbackId id);
CUptiResult hub_set_domain(const struct hub_client *c, bool on, CUpti_CallbackDomain domain);
CUptiResult hub_set_kind(const struct hub_client *c, bool on, CUpti_ActivityKind kind);
bool hub_wants(const struct hub_client *c, CUpti_CallbackDomain domain, CUpti_CallbackId id);
bool hub_wants_any(const struct hub_client *c, CUpti_CallbackDomain domain);
bool hub_wants_anything(const struct hub_client *c);
/* As bits by kind. */
uint64_t hub_kinds(const struct hub_client *c);
/* Kinds that clients other than the program's own profiler want. */
uint64_t hub_recorded_kinds(void);
/* Enables the client's callbacks for a new subscription. */
void hub_repeat_callbacks(const struct hub_client *c);

/*
 * The client wants HUB_KERNELS, and serialized until the subscription ends: CUPTI records them as
 * CUPTI_ACTIVITY_KIND_KERNEL, also for the others. If CUPTI refuses that, nothing has changed.
 */
CUptiResult hub_serialize(const struct hub_client *c, bool late);
bool hub_is_serialized(void);
/* Whether contexts may have existed before, in which CUPTI then counts nothing. */
bool hub_is_serialized_late(void);

/*
 * Kinds, as bits, of which the present records are the program's own profiler's alone, so that the
 * recording excludes them.
 */
uint64_t hub_left_out(void);
void hub_leave_out(uint64_t kinds, bool on);

/* --- the GPU's counters --- */

void hub_release_counters(const struct hub_client *c);
/* Returns the name of the engine that has them; NULL: none has. Any thread. */
const char *hub_counters_engine(void);

/* --- callbacks --- */

/* Clients other than the trace whose `enter` and `exit` are called, as bits. */
extern atomic_uint hub_listeners;
void hub_listen(const struct hub_client *c, bool on);

/* Set around calls to CUDA that a client itself makes on this thread: nobody hears of them. */
extern __thread bool hub_is_own_call __attribute__((tls_model("initial-exec")));

void hub_call(const struct hub_call *call);
void hub_notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info);

typedef bool hub_adjust(struct writer *w, uint32_t correlation, uint64_t began_ns,
			uint64_t *start_ns, uint64_t *end_ns);
extern _Atomic(hub_adjust *) hub_adjuster; /* NULL: no client has been attached that adjusts */
static inline bool hub_adjust_kernel(struct writer *w, uint32_t correlation, uint64_t began_ns,
				     uint64_t *start_ns, uint64_t *end_ns)
{
	hub_adjust *adjust = atomic_load_explicit(&hub_adjuster, memory_order_relaxed);

	return unlikely(adjust) && adjust(w, correlation, began_ns, start_ns, end_ns);
}

void hub_after_fork(void);

#endif
