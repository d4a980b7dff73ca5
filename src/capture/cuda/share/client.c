#include "capture/cuda/share/client.h"

#include <dlfcn.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "capture/cuda/api_calls.h"
#include "capture/core/pause.h"
#include "capture/core/vendor_thread.h"

#define DOMAINS 8u
#define WORDS (API_CALLBACK_IDS_MAX / 64)
#define KINDS 64u
#define SUBSCRIPTIONS 16u /* retained, for late threads that still read an ended one */
#define CALLS 6u /* nested CUDA calls on one thread: static TLS is scarce */
#define LEAVE_LIMIT_NS NS_PER_S

struct real_cupti real_cupti;

static atomic_uint_fast64_t callbacks[PARTIES][DOMAINS][WORDS];
static atomic_uint_fast64_t kinds[PARTIES];

/* --- callbacks --- */

static bool is_id(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return (unsigned)domain < DOMAINS && id < API_CALLBACK_IDS_MAX;
}

bool party_has_callback(enum party who, CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return is_id(domain, id) &&
	       atomic_load_explicit(&callbacks[who][domain][id / 64], memory_order_relaxed) >>
			       id % 64 &
		       1;
}

static bool is_callback_on(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return party_has_callback(PARTY_RECORDER, domain, id) ||
	       party_has_callback(PARTY_CLIENT, domain, id);
}

static void set_callback(enum party who, bool on, CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	uint64_t bit = UINT64_C(1) << id % 64;

	if (on)
		atomic_fetch_or(&callbacks[who][domain][id / 64], bit);
	else
		atomic_fetch_and(&callbacks[who][domain][id / 64], ~bit);
}

/* Adjusts CUPTI, repeatedly if the other one changes its wish meanwhile. */
static CUptiResult update_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	CUptiResult result;
	bool on;

	do {
		on = is_callback_on(domain, id);
		result = real_cupti.recorder.EnableCallback(on, atomic_load(&real_cupti.subscriber),
							    domain, id);
	} while (is_callback_on(domain, id) != on);
	return result;
}

CUptiResult party_set_callback(enum party who, bool on, CUpti_CallbackDomain domain,
			       CUpti_CallbackId id)
{
	enum party other = who == PARTY_CLIENT ? PARTY_RECORDER : PARTY_CLIENT;
	CUptiResult result;

	if (!is_id(domain, id))
		return CUPTI_ERROR_INVALID_PARAMETER;
	set_callback(who, on, domain, id);
	if (party_has_callback(other, domain, id))
		return CUPTI_SUCCESS;
	result = update_callback(domain, id);
	if (on && result != CUPTI_SUCCESS)
		set_callback(who, false, domain, id);
	return result;
}

bool party_has_any(enum party who, CUpti_CallbackDomain domain)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (atomic_load(&callbacks[who][domain][i]))
			return true;
	return false;
}

/* Callbacks of the domain that the other one wants stay enabled without a gap. */
static CUptiResult clear_domain(enum party who, CUpti_CallbackDomain domain)
{
	enum party other = who == PARTY_CLIENT ? PARTY_RECORDER : PARTY_CLIENT;
	CUptiResult result = CUPTI_SUCCESS;
	bool alone = !party_has_any(other, domain);

	if (alone)
		result = real_cupti.recorder.EnableDomain(0, atomic_load(&real_cupti.subscriber),
							  domain);
	for (CUpti_CallbackId id = 0; id < API_CALLBACK_IDS_MAX; id++) {
		bool was = party_has_callback(who, domain, id);

		set_callback(who, false, domain, id);
		if (alone ? is_callback_on(domain, id)
			  : was && !party_has_callback(other, domain, id))
			update_callback(domain, id);
	}
	return result;
}

CUptiResult party_set_domain(enum party who, bool on, CUpti_CallbackDomain domain)
{
	CUptiResult result;

	if ((unsigned)domain >= DOMAINS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!on)
		return clear_domain(who, domain);
	for (unsigned i = 0; i < WORDS; i++)
		atomic_store(&callbacks[who][domain][i], UINT64_MAX);
	result = real_cupti.recorder.EnableDomain(1, atomic_load(&real_cupti.subscriber), domain);
	if (result != CUPTI_SUCCESS)
		for (unsigned i = 0; i < WORDS; i++)
			atomic_store(&callbacks[who][domain][i], 0);
	return result;
}

/* --- kinds of records --- */

uint64_t party_kinds(enum party who)
{
	return atomic_load(&kinds[who]);
}

/*
 * While the recorder has records of serialized kernels, the client gets those instead of concurrent
 * ones (client_records.h).
 */
static bool is_replaced(CUpti_ActivityKind kind)
{
	return kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
	       party_kinds(PARTY_RECORDER) >> CUPTI_ACTIVITY_KIND_KERNEL & 1;
}

static bool is_kind_on(CUpti_ActivityKind kind)
{
	return !is_replaced(kind) &&
	       (atomic_load(&kinds[PARTY_RECORDER]) | atomic_load(&kinds[PARTY_CLIENT])) >> kind &
		       1;
}

/* Adjusts CUPTI, repeatedly if the other one changes its wish meanwhile. */
static CUptiResult update_kind(CUpti_ActivityKind kind)
{
	CUptiResult result;
	bool to;

	do {
		to = is_kind_on(kind);
		result = (to ? real_cupti.recorder.ActivityEnable
			     : real_cupti.recorder.ActivityDisable)(kind);
	} while (is_kind_on(kind) != to);
	return result;
}

static void update_replaced(CUpti_ActivityKind kind)
{
	if (kind == CUPTI_ACTIVITY_KIND_KERNEL &&
	    party_kinds(PARTY_CLIENT) >> CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL & 1)
		update_kind(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

CUptiResult party_set_kind(enum party who, bool on, CUpti_ActivityKind kind)
{
	enum party other = who == PARTY_CLIENT ? PARTY_RECORDER : PARTY_CLIENT;
	uint64_t bit = (unsigned)kind < KINDS ? UINT64_C(1) << kind : 0;
	CUptiResult result;

	if (!bit)
		return CUPTI_ERROR_INVALID_KIND;
	if (on)
		atomic_fetch_or(&kinds[who], bit);
	else
		atomic_fetch_and(&kinds[who], ~bit);
	if (on)
		update_replaced(kind);
	result = atomic_load(&kinds[other]) & bit || is_replaced(kind) ? CUPTI_SUCCESS
								       : update_kind(kind);
	if (on && result != CUPTI_SUCCESS)
		atomic_fetch_and(&kinds[who], ~bit);
	if (!on || result != CUPTI_SUCCESS)
		update_replaced(kind);
	return result;
}

bool party_has_anything(enum party who)
{
	bool any = party_kinds(who) != 0;

	for (unsigned domain = 0; domain < DOMAINS && !any; domain++)
		any = party_has_any(who, (CUpti_CallbackDomain)domain);
	return any;
}

void party_forget(enum party who)
{
	for (unsigned domain = 0; domain < DOMAINS; domain++)
		for (unsigned i = 0; i < WORDS; i++)
			atomic_store(&callbacks[who][domain][i], 0);
	atomic_store(&kinds[who], 0);
}

void client_repeat_callbacks(CUpti_SubscriberHandle subscriber)
{
	for (unsigned domain = 0; domain < DOMAINS; domain++) {
		if (party_has_callback(PARTY_CLIENT, (CUpti_CallbackDomain)domain,
				       API_CALLBACK_IDS_MAX - 1)) {
			real_cupti.recorder.EnableDomain(1, subscriber,
							 (CUpti_CallbackDomain)domain);
			continue;
		}
		for (CUpti_CallbackId id = 0; id < API_CALLBACK_IDS_MAX; id++)
			if (party_has_callback(PARTY_CLIENT, (CUpti_CallbackDomain)domain, id))
				real_cupti.recorder.EnableCallback(
					1, subscriber, (CUpti_CallbackDomain)domain, id);
	}
}

void client_repeat_kinds(bool on)
{
	for (unsigned kind = 0; kind < KINDS; kind++)
		if (party_kinds(PARTY_CLIENT) >> kind & 1)
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

	if (!party_has_callback(PARTY_CLIENT, domain, id))
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
