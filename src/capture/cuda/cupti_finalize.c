#include "capture/cuda/cupti_finalize.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "capture/core/capability_notes.h"
#include "capture/core/collector.h"
#include "capture/core/park.h"
#include "capture/core/refusals.h"
#include "capture/core/vendor_thread.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/hub/callback_guard.h"
#include "capture/cuda/records.h"

#define CALL_NS (PITOT_SLOWNESS * 600 * NS_PER_MS) /* how long a call is waited for */
#define DECODE_NS (PITOT_SLOWNESS * 200 * NS_PER_MS) /* and for the collector */
#define POLL_NS (10 * NS_PER_MS)
#define HOLD_LIMIT_NS (2 * NS_PER_S)
#define LONG_WAIT_NS NS_PER_S /* a thread that waits longer may wait for a GPU that hangs */

#define OWN_CALL "cuDeviceGetCount"

enum state { NONE, WANTED, RUNNING, DONE, FAILED, CANCELLED };

static struct {
	atomic_uint
		state; /* enum state; the futex of the vendor thread and cupti_finalize_hold() */
	atomic_uint held; /* threads between cupti_finalize_hold() and cupti_finalize_let() */
	atomic_uint calls; /* of the program that were heard of */
	/* set before state is WANTED */
	__typeof__(cuptiFinalize) *finalize;
	const char *(*used_by)(void);
	CUptiResult result; /* set before state is FAILED */
} self;

/* The calling thread makes the call that does nothing. */
static __thread bool is_own_call __attribute__((tls_model("initial-exec")));

/* --- where a call ends, on its thread --- */

/* Whether a thread has waited for the GPU for at least min_ns. */
static bool waits_since(uint64_t min_ns)
{
	uint64_t now = clock_monotonic_ns();
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		uint64_t start = atomic_load_explicit(&r->wait.start_ns, memory_order_acquire);

		if (start && start + min_ns <= now && atomic_load(&r->state) == RING_LIVE)
			return true;
	}
	return false;
}

static void set_state(enum state state)
{
	atomic_store(&self.state, state);
	futex_wake(&self.state);
}

/*
 * The program's profiler first counts itself in `held`, then looks at the state; here it is the
 * other way round, so at least one of the two sees the other.
 */
static void finalize(void)
{
	enum state next = WANTED; /* where the next call ends */

	if (atomic_load(&self.held) || self.used_by()) {
		set_state(CANCELLED);
		return;
	}
	buffers_discard(true);
	if (callback_guard_is_empty() && buffers_are_decoded()) {
		self.result = self.finalize();
		next = self.result == CUPTI_SUCCESS ? DONE : FAILED;
	}
	buffers_discard(false);
	set_state(next);
}

static bool has_succeeded(const CUpti_CallbackData *data)
{
	return data->functionReturnValue && *(const uint32_t *)data->functionReturnValue == 0;
}

static void on_exit_of_call(const struct hub_call *call)
{
	unsigned wanted = WANTED;

	if (!is_own_call) {
		struct ring *r = ring_of_thread;

		atomic_fetch_add(&self.calls, 1);
		if (r)
			atomic_store(&r->wait.start_ns, 0);
		if (!api_function_waits(call->function) || waits_since(LONG_WAIT_NS))
			return;
	}
	if (has_succeeded(call->data) &&
	    atomic_compare_exchange_strong(&self.state, &wanted, RUNNING))
		finalize();
}

/* Launches are heard of because a program that makes them has work that may take long. */
static bool wants_call(const struct hub_function *f, const struct settings *s)
{
	(void)s;
	return f->is_driver && f->name &&
	       (api_function_waits(f) || f->kind == api_kind_launch ||
		f->kind == api_kind_graph_launch || strcmp(f->name, OWN_CALL) == 0);
}

static struct hub_wishes wishes;
const struct hub_client finalize_client = {
	.name = "cuptiFinalize",
	.wishes = &wishes,
	.wants_call = wants_call,
	.exit = on_exit_of_call,
};

/* --- the vendor thread --- */

/* Why CUPTI must not be finalized; NULL: it may be. */
static const char *refusal_of(const struct finalize_how *how)
{
	static char text[100];

	if (!how->cupti->Finalize)
		return "this CUPTI has no cuptiFinalize";
	if (how->cupti->version < CUPTI_12_6)
		return "cuptiFinalize of CUDA before 12.6 can crash a program that uses graphs";
	if (how->engine) {
		snprintf(text, sizeof(text), "--engine %s has used its profilers", how->engine);
		return text;
	}
	if (atomic_load(&how->work->is_under_way) && !atomic_load(&how->work->has_captured))
		return "work that was launched while it was recorded has not ended, and "
		       "cuptiFinalize would wait for it";
	return how->used_by();
}

/* Names in records are CUPTI's memory. */
static bool await_decoding(void)
{
	uint64_t begun = clock_machine_ns();

	while (!buffers_are_decoded()) {
		if (clock_machine_ns() - begun >= DECODE_NS)
			return false;
		collector_wake();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = NS_PER_MS },
				NULL);
	}
	return true;
}

/* Waits while the state is that one, and counts progress if it is known that this ends. */
static void await(enum state state, uint64_t limit_ns, bool is_progress)
{
	uint64_t begun = clock_machine_ns();

	while (atomic_load(&self.state) == state && clock_machine_ns() - begun < limit_ns) {
		futex_wait(&self.state, state, POLL_NS);
		if (is_progress)
			collector_count_progress();
	}
}

/* No call of the program has come: whether the vendor thread may make one. NULL: yes. */
static const char *refusal_of_own_call(const struct finalize_how *how)
{
	if (waits_since(0))
		return "a thread waits for the GPU, and cuptiFinalize might wait for ever";
	if (atomic_load(&self.calls))
		return "of the program's calls that wait for the GPU none has returned in time";
	if (!atomic_load(&how->work->has_ended) || atomic_load(&how->work->is_under_way))
		return "it is not known whether the GPU has ended its work";
	return NULL;
}

static const char *make_own_call(const struct finalize_how *how)
{
	const char *why = refusal_of_own_call(how);
	int count;

	if (why)
		return why;
	is_own_call = true;
	vendor_enter("cuptiFinalize");
	how->driver->DeviceGetCount(&count);
	vendor_leave();
	is_own_call = false;
	return "the driver does not tell CUPTI of calls";
}

/* Returns why it was not done, or NULL. */
static const char *run(const struct finalize_how *how)
{
	const char *why = NULL;
	unsigned wanted = WANTED;

	await(WANTED, CALL_NS, true);
	if (atomic_load(&self.state) == WANTED)
		why = make_own_call(how);
	atomic_compare_exchange_strong(&self.state, &wanted, CANCELLED);
	vendor_enter("cuptiFinalize");
	await(RUNNING, UINT64_MAX, false);
	vendor_leave();
	switch (atomic_load(&self.state)) {
	case DONE:
		return NULL;
	case FAILED:
		return cupti_result_text(how->cupti, self.result);
	default:
		return why ? why : "the program's own profiler began to use it";
	}
}

static const char *try(const struct finalize_how *how)
{
	const char *why = refusal_of(how);

	if (why)
		return why;
	if (!await_decoding())
		return "its records could not be read in time";
	self.finalize = how->cupti->Finalize;
	self.used_by = how->used_by;
	atomic_store(&self.calls, 0);
	callback_guard_close();
	vendor_enter("cuptiEnableCallback");
	hub_attach_client(&finalize_client);
	api_calls_watch(NULL);
	vendor_leave();
	atomic_store(&self.state, WANTED); /* from now on this thread is not inside CUPTI */
	why = run(how);
	callback_guard_open();
	set_state(NONE);
	return why;
}

bool cupti_finalize(const struct finalize_how *how)
{
	const char *why = try(how);

	if (!why) {
		buffers_reclaim();
		api_calls_finalized();
		capability_note(feature_leaving, capability_state_on, "cuptiFinalize",
				"cuptiFinalize", "%s", "");
		return true;
	}
	refusal_set(&refusals[REFUSAL_LEAVING], "%s", why);
	capability_note(feature_leaving, capability_state_degraded, "cuptiFinalize",
			"cuptiUnsubscribe",
			"CUPTI stays in the process, and calls of CUDA take longer: %s", why);
	return false;
}

/* --- the program's own profiler --- */

void cupti_finalize_hold(void)
{
	unsigned wanted = WANTED;

	atomic_fetch_add(&self.held, 1);
	if (!atomic_compare_exchange_strong(&self.state, &wanted, CANCELLED))
		await(RUNNING, HOLD_LIMIT_NS, false);
	else
		futex_wake(&self.state);
}

void cupti_finalize_let(void)
{
	atomic_fetch_sub(&self.held, 1);
}

void cupti_finalize_after_fork(void)
{
	atomic_store(&self.state, NONE);
	atomic_store(&self.held, 0);
	callback_guard_open();
}
