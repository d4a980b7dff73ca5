#include "capture/cuda/hub/hub.h"

#define WORDS (HUB_CALLBACK_IDS_MAX / 64)
#define KINDS 64u
#define KIND_BIT(kind) (UINT64_C(1) << CUPTI_ACTIVITY_KIND_##kind)

static struct cupti cupti; /* kept in the child of a fork, where the profiler may still call */
static _Atomic(CUpti_SubscriberHandle) handle;
static atomic_int attached_engine; /* SETTING_ENGINE_…, the last one */
static atomic_uint_fast64_t left_out;
atomic_uint hub_listeners;
_Atomic(hub_adjust *) hub_adjuster;
__thread bool hub_is_own_call __attribute__((tls_model("initial-exec")));

static size_t client_count(void)
{
	size_t count = 0;

	FOR_EACH_HUB_CLIENT(c)
	count++;
	return count;
}

/* --- callbacks --- */

static bool is_id(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return (unsigned)domain < HUB_DOMAINS && id < HUB_CALLBACK_IDS_MAX;
}

bool hub_wants(const struct hub_client *c, CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return is_id(domain, id) &&
	       atomic_load_explicit(&c->wishes->callbacks[domain][id / 64], memory_order_relaxed) >>
			       id % 64 &
		       1;
}

static bool is_callback_on(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	FOR_EACH_HUB_CLIENT(c)
	if (atomic_load(&c->wishes->callbacks[domain][id / 64]) >> id % 64 & 1)
		return true;
	return false;
}

/* Returns whether the wish has changed. */
static bool set_callback(const struct hub_client *c, bool on, CUpti_CallbackDomain domain,
			 CUpti_CallbackId id)
{
	atomic_uint_fast64_t *word = &c->wishes->callbacks[domain][id / 64];
	uint64_t bit = UINT64_C(1) << id % 64;
	uint64_t before = on ? atomic_fetch_or(word, bit) : atomic_fetch_and(word, ~bit);

	return !(before & bit) == on;
}

/* Adjusts CUPTI, repeatedly if another client changes its wish meanwhile. */
static CUptiResult update_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	CUptiResult result;
	bool on;

	do {
		on = is_callback_on(domain, id);
		result = cupti.EnableCallback(on, atomic_load(&handle), domain, id);
	} while (is_callback_on(domain, id) != on);
	return result;
}

/* Also adjusts CUPTI if another client seems to want the same: its wish may be ending just now. */
CUptiResult hub_set_callback(const struct hub_client *c, bool on, CUpti_CallbackDomain domain,
			     CUpti_CallbackId id)
{
	CUptiResult result;

	if (!is_id(domain, id))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!set_callback(c, on, domain, id))
		return CUPTI_SUCCESS;
	result = update_callback(domain, id);
	if (on && result != CUPTI_SUCCESS)
		set_callback(c, false, domain, id);
	return result;
}

bool hub_wants_any(const struct hub_client *c, CUpti_CallbackDomain domain)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (atomic_load(&c->wishes->callbacks[domain][i]))
			return true;
	return false;
}

static bool is_wanted_by_others(const struct hub_client *than, CUpti_CallbackDomain domain)
{
	FOR_EACH_HUB_CLIENT(c)
	if (c != than && hub_wants_any(c, domain))
		return true;
	return false;
}

/* Callbacks of the domain that others want stay enabled without a gap. */
static CUptiResult clear_domain(const struct hub_client *c, CUpti_CallbackDomain domain)
{
	CUptiResult result = CUPTI_SUCCESS;
	bool alone = !is_wanted_by_others(c, domain);

	if (alone)
		result = cupti.EnableDomain(0, atomic_load(&handle), domain);
	for (CUpti_CallbackId id = 0; id < HUB_CALLBACK_IDS_MAX; id++) {
		bool was = hub_wants(c, domain, id);

		set_callback(c, false, domain, id);
		if ((alone || was) && is_callback_on(domain, id) == alone)
			update_callback(domain, id);
	}
	return result;
}

static void fill_domain(const struct hub_client *c, CUpti_CallbackDomain domain, uint64_t word)
{
	for (unsigned i = 0; i < WORDS; i++)
		atomic_store(&c->wishes->callbacks[domain][i], word);
}

CUptiResult hub_set_domain(const struct hub_client *c, bool on, CUpti_CallbackDomain domain)
{
	CUptiResult result;

	if ((unsigned)domain >= HUB_DOMAINS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!on)
		return clear_domain(c, domain);
	fill_domain(c, domain, UINT64_MAX);
	result = cupti.EnableDomain(1, atomic_load(&handle), domain);
	if (result != CUPTI_SUCCESS)
		fill_domain(c, domain, 0);
	return result;
}

void hub_repeat_callbacks(const struct hub_client *c)
{

	for (CUpti_CallbackDomain domain = 0; domain < HUB_DOMAINS; domain++) {
		if (hub_wants(c, domain, HUB_CALLBACK_IDS_MAX - 1)) {
			cupti.EnableDomain(1, atomic_load(&handle), domain);
			continue;
		}
		for (CUpti_CallbackId id = 0; id < HUB_CALLBACK_IDS_MAX; id++)
			if (hub_wants(c, domain, id))
				cupti.EnableCallback(1, atomic_load(&handle), domain, id);
	}
}

/* --- kinds of records --- */

uint64_t hub_kinds(const struct hub_client *c)
{
	return atomic_load(&c->wishes->kinds);
}

uint64_t hub_recorded_kinds(void)
{
	uint64_t all = 0;

	FOR_EACH_HUB_CLIENT(c)
	if (!c->is_profiler)
		all |= hub_kinds(c);
	return all;
}

static bool must_serialize(void)
{
	FOR_EACH_HUB_CLIENT(c)
	if (atomic_load(&c->wishes->is_serial))
		return true;
	return false;
}

bool hub_is_serialized(void)
{
	return must_serialize() && hub_recorded_kinds() & KIND_BIT(CONCURRENT_KERNEL);
}

/*
 * The kinds that CUPTI must have, if client `of` (NULL: none) had the wishes `kinds`. While kernels
 * are serialized, the program's own profiler gets records of serialized kernels as if they were
 * concurrent ones (client_records.h).
 */
static uint64_t wanted_kinds_with(const struct hub_client *of, uint64_t kinds)
{
	uint64_t all = 0, recorded = 0;

	FOR_EACH_HUB_CLIENT(c)
	{
		uint64_t some = c == of ? kinds : hub_kinds(c);

		all |= some;
		recorded |= c->is_profiler ? 0 : some;
	}
	return must_serialize() && recorded & KIND_BIT(CONCURRENT_KERNEL)
		       ? (all | KIND_BIT(KERNEL)) & ~KIND_BIT(CONCURRENT_KERNEL)
		       : all;
}

static uint64_t wanted_kinds(void)
{
	return wanted_kinds_with(NULL, 0);
}

/* Adjusts CUPTI, repeatedly if another client changes its wish meanwhile. */
static CUptiResult update_kind(unsigned kind)
{
	CUptiResult result;
	bool on;

	do {
		on = wanted_kinds() >> kind & 1;
		result = (on ? cupti.ActivityEnable
			     : cupti.ActivityDisable)((CUpti_ActivityKind)kind);
	} while ((wanted_kinds() >> kind & 1) != on);
	return result;
}

/* Disables before it enables, because some kinds exclude each other. */
static CUptiResult follow_kinds(uint64_t before)
{
	uint64_t now = wanted_kinds();
	CUptiResult result = CUPTI_SUCCESS, last;

	for (unsigned i = 0; i < 2 * KINDS; i++) {
		if (!((i < KINDS ? before & ~now : now & ~before) >> i % KINDS & 1))
			continue;
		last = update_kind(i % KINDS);
		if (last != CUPTI_SUCCESS)
			result = last;
	}
	return result;
}

void hub_leave_out(uint64_t some, bool on)
{
	if (on)
		atomic_fetch_or(&left_out, some);
	else
		atomic_fetch_and(&left_out, ~some);
}

uint64_t hub_left_out(void)
{
	return atomic_load_explicit(&left_out, memory_order_relaxed);
}

static bool is_profilers(uint64_t bit)
{
	FOR_EACH_HUB_CLIENT(c)
	if (c->is_profiler && hub_kinds(c) & bit)
		return true;
	return false;
}

CUptiResult hub_set_kind(const struct hub_client *c, bool on, CUpti_ActivityKind kind)
{
	uint64_t bit = (unsigned)kind < KINDS ? UINT64_C(1) << kind : 0;
	uint64_t before = wanted_kinds(), had;
	CUptiResult result;

	if (!bit)
		return CUPTI_ERROR_INVALID_KIND;
	had = on ? atomic_fetch_or(&c->wishes->kinds, bit)
		 : atomic_fetch_and(&c->wishes->kinds, ~bit);
	/*
	 * CUPTI may refuse to enable again what is enabled. What others want is enabled if they
	 * wanted it before and still do: a wish that is ending just now does not count.
	 */
	if (on)
		before &= wanted_kinds_with(c, had);
	if (!on && !c->is_profiler && is_profilers(bit) && !(hub_recorded_kinds() & bit))
		hub_leave_out(bit, true);
	result = follow_kinds(before);
	if (on && result != CUPTI_SUCCESS) {
		before = wanted_kinds();
		atomic_fetch_and(&c->wishes->kinds, ~bit);
		follow_kinds(before & ~bit);
	} else if (on && !c->is_profiler) {
		hub_leave_out(bit, false);
	}
	return result;
}

CUptiResult hub_serialize(const struct hub_client *c, bool late)
{
	uint64_t before = wanted_kinds(), had = hub_kinds(c);
	CUptiResult result;

	atomic_store(&c->wishes->is_late, late);
	atomic_store(&c->wishes->is_serial, true);
	atomic_fetch_or(&c->wishes->kinds, KIND_BIT(CONCURRENT_KERNEL));
	result = follow_kinds(before);
	if (result == CUPTI_SUCCESS) {
		hub_leave_out(KIND_BIT(CONCURRENT_KERNEL), false);
		return result;
	}
	before = wanted_kinds();
	atomic_store(&c->wishes->is_serial, false);
	atomic_store(&c->wishes->kinds, had);
	follow_kinds(before & ~KIND_BIT(KERNEL));
	return result;
}

bool hub_is_serialized_late(void)
{
	FOR_EACH_HUB_CLIENT(c)
	if (atomic_load(&c->wishes->is_serial) && atomic_load(&c->wishes->is_late))
		return true;
	return false;
}

bool hub_wants_anything(const struct hub_client *c)
{
	bool any = hub_kinds(c) != 0;

	for (unsigned domain = 0; domain < HUB_DOMAINS && !any; domain++)
		any = hub_wants_any(c, (CUpti_CallbackDomain)domain);
	return any;
}

static void forget(const struct hub_client *c)
{
	for (unsigned domain = 0; domain < HUB_DOMAINS; domain++)
		fill_domain(c, (CUpti_CallbackDomain)domain, 0);
	atomic_store(&c->wishes->kinds, 0);
	atomic_store(&c->wishes->is_serial, false);
}

/* --- the subscription --- */

void hub_use(const struct cupti *functions)
{
	if (!cupti.EnableCallback)
		cupti = *functions;
}

void hub_subscribed(CUpti_SubscriberHandle subscriber)
{
	atomic_store(&handle, subscriber);
}

static void end_client(const struct hub_client *c)
{
	forget(c);
	hub_listen(c, false);
	atomic_store(&c->wishes->is_attached, false);
	atomic_store(&c->wishes->has_counters, false);
}

void hub_unsubscribed(void)
{
	FOR_EACH_HUB_CLIENT(c)
	if (!c->is_profiler)
		end_client(c);
}

void hub_listen(const struct hub_client *client, bool on)
{
	unsigned bit = 1;

	FOR_EACH_HUB_CLIENT(c)
	{
		if (c == client)
			break;
		bit <<= 1;
	}
	if (on)
		atomic_fetch_or(&hub_listeners, bit);
	else
		atomic_fetch_and(&hub_listeners, ~bit);
}

static bool attach(const struct hub_client *c, int engine, bool late)
{
	bool is_new = !atomic_exchange(&c->wishes->is_attached, true);

	if (is_new && (c->enter || c->exit))
		hub_listen(c, true);
	if (is_new && c->adjust_kernel)
		atomic_store(&hub_adjuster, c->adjust_kernel);
	if (is_new && c->takes_counters)
		atomic_store(&c->wishes->has_counters, true);
	if (c->attach && !c->attach(&cupti, engine, late))
		hub_release_counters(c);
	return is_new;
}

/* In reverse: an engine that serializes kernels comes before one that samples their contexts. */
bool hub_attach(int engine, bool late)
{
	bool any = false;

	atomic_store(&attached_engine, engine);
	for (size_t i = client_count(); i-- > 0;)
		if (hub_clients[i]->is_engine && hub_clients[i]->is_engine(engine))
			any |= attach(hub_clients[i], engine, late);
	return any;
}

bool hub_is_attached(const struct hub_client *c)
{
	return atomic_load(&c->wishes->is_attached);
}

bool hub_detach(void)
{
	FOR_EACH_HUB_CLIENT(c)
	if (c->detach && !c->detach())
		return false;
	return true;
}

void hub_close_window(void)
{
	FOR_EACH_HUB_CLIENT(c)
	for (unsigned kind = 0; kind < KINDS && c->attach; kind++)
		if (hub_kinds(c) >> kind & 1 && !(c->keeps_kinds && c->keeps_kinds()))
			hub_set_kind(c, false, (CUpti_ActivityKind)kind);
}

bool hub_hold(void)
{
	for (size_t i = 0; hub_clients[i]; i++) {
		if (!hub_clients[i]->hold || hub_clients[i]->hold())
			continue;
		while (i-- > 0)
			if (hub_clients[i]->let)
				hub_clients[i]->let();
		return false;
	}
	return true;
}

void hub_let(void)
{
	FOR_EACH_HUB_CLIENT(c)
	if (c->let)
		c->let();
}

/* --- the GPU's counters --- */

void hub_release_counters(const struct hub_client *c)
{
	atomic_store(&c->wishes->has_counters, false);
}

const char *hub_counters_engine(void)
{
	FOR_EACH_HUB_CLIENT(c)
	if (atomic_load(&c->wishes->has_counters))
		return setting_engine_names[atomic_load(&attached_engine)];
	return NULL;
}

/* --- dispatch --- */

void hub_call(const struct hub_call *call)
{
	bool ends = call->data->callbackSite == CUPTI_API_EXIT;
	size_t count = client_count();

	if (hub_is_own_call)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct hub_client *c = hub_clients[ends ? count - 1 - i : i];

		if ((ends ? c->exit : c->enter) &&
		    (c->is_profiler || hub_wants(c, call->domain, call->function->id)))
			(ends ? c->exit : c->enter)(call);
	}
}

void hub_notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	if (hub_is_own_call)
		return;
	FOR_EACH_HUB_CLIENT(c)
	if (c->notify && hub_wants(c, domain, id))
		c->notify(domain, id, info);
}

void hub_after_fork(void)
{
	FOR_EACH_HUB_CLIENT(c)
	end_client(c);
	atomic_store(&left_out, 0);
}
