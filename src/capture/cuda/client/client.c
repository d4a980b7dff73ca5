#include "capture/cuda/client/client.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "capture/core/pause.h"
#include "capture/core/vendor_thread.h"

#define KINDS 64u
#define SUBSCRIPTIONS 16u /* retained, for late threads that still read an ended one */
#define CALLS 6u /* nested CUDA calls on one thread: static TLS is scarce */
#define LEAVE_LIMIT_NS NS_PER_S

struct real_cupti real_cupti;

void client_repeat_kinds(bool on)
{
	for (unsigned kind = 0; kind < KINDS; kind++)
		if (hub_kinds(&profiler_client) >> kind & 1)
			(on ? real_cupti.recorder.ActivityEnable
			    : real_cupti.recorder.ActivityDisable)((CUpti_ActivityKind)kind);
}

/* --- the subscription --- */

/* Functions of the client whose libraries must stay loaded; NULL: none. */
static _Atomic(void *) to_keep[8];
static struct subscription places[SUBSCRIPTIONS];
static atomic_uint next_place;
static _Atomic(struct subscription *) subscription;
/* Number of threads between their read of `subscription` and their return from its callback. */
static atomic_uint callers;

static __thread unsigned inside __attribute__((tls_model("initial-exec")));

/* The client's correlation data for the calls that this thread is in. */
static __thread struct {
	const uint64_t *recorders; /* the recorder's word: the same in both callbacks of a call */
	uint64_t word;
} calls[CALLS] __attribute__((tls_model("initial-exec")));
static __thread unsigned depth __attribute__((tls_model("initial-exec")));

struct subscription *client_subscription(void)
{
	return atomic_load(&subscription);
}

struct subscription *client_subscribe(CUpti_CallbackFunc callback, void *user)
{
	struct subscription *none = NULL,
			    *s = &places[atomic_fetch_add(&next_place, 1) % SUBSCRIPTIONS];

	if (client_subscription())
		return NULL;
	atomic_store(&s->callback, callback);
	atomic_store(&s->user, user);
	atomic_store(&s->real, NULL);
	return atomic_compare_exchange_strong(&subscription, &none, s) ? s : NULL;
}

void client_unsubscribe(struct subscription *s)
{
	uint64_t begun = clock_machine_ns();

	if (!atomic_compare_exchange_strong(&subscription, &s, NULL) || inside)
		return;
	while (atomic_load(&callers) && clock_machine_ns() - begun < LEAVE_LIMIT_NS)
		pause_ns(50 * NS_PER_US);
}

bool client_is_inside(void)
{
	return inside > 0;
}

static uint64_t *enter_call(const uint64_t *recorders)
{
	if (depth == CALLS)
		depth = 0; /* those calls never ended */
	calls[depth].recorders = recorders;
	calls[depth].word = 0;
	return &calls[depth++].word;
}

/* Returns 0 for a call whose beginning the client has not seen. */
static uint64_t leave_call(const uint64_t *recorders)
{
	for (unsigned at = depth; at-- > 0;)
		if (calls[at].recorders == recorders) {
			depth = at;
			return calls[at].word;
		}
	return 0;
}

static void call_with_word(const struct subscription *s, CUpti_CallbackDomain domain,
			   CUpti_CallbackId id, const CUpti_CallbackData *info)
{
	CUpti_CallbackData copy = *info;
	uint64_t word;

	if (copy.callbackSite == CUPTI_API_ENTER) {
		copy.correlationData = enter_call(info->correlationData);
	} else {
		word = leave_call(info->correlationData);
		copy.correlationData = &word;
	}
	atomic_load (&s->callback)(atomic_load(&s->user), domain, id, &copy);
}

void client_call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	struct subscription *s;

	if (!hub_wants(&profiler_client, domain, id))
		return;
	atomic_fetch_add(&callers, 1);
	s = client_subscription();
	if (s && atomic_load(&s->callback)) {
		inside++;
		if (domain == CUPTI_CB_DOMAIN_DRIVER_API || domain == CUPTI_CB_DOMAIN_RUNTIME_API)
			call_with_word(s, domain, id, info);
		else
			atomic_load (&s->callback)(atomic_load(&s->user), domain, id, info);
		inside--;
	}
	atomic_fetch_sub(&callers, 1);
}

void client_keep_loaded(void *function)
{
	static atomic_uint next;

	atomic_store(&to_keep[atomic_fetch_add(&next, 1) % ARRAY_SIZE(to_keep)], function);
	vendor_thread_request(VENDOR_FLUSH);
}

void client_keep_all_loaded(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(to_keep); i++) {
		void *function =
			atomic_load(&to_keep[i]) ? atomic_exchange(&to_keep[i], NULL) : NULL;
		Dl_info info;

		if (function && dladdr(function, &info) && info.dli_fname)
			dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	}
}

void client_after_fork(void)
{
	atomic_store(&callers, inside); /* the forking thread may be in the callback */
	depth = 0;
}
