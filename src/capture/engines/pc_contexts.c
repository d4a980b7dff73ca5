#include "capture/engines/pc_contexts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "capture/core/capability_notes.h"
#include "capture/engines/socket_lock.h"
#include "capture/cuda/devices.h"
#include "capture/engines/calls_inside.h"
#include "capture/engines/pc_context.h"
#include "capture/core/own_work.h"
#include "capture/core/pause.h"

#define CONTEXTS_MAX 32u
#define DESTROY_WAIT_NS (200 * NS_PER_MS)
#define LOAD_WAIT_NS (100 * NS_PER_MS) /* longest wait of a call that loads code for a reading */
#define HELD_MAX_NS (5 * NS_PER_S) /* longest delay of readings by calls that load code */
#define FAILURES_MAX 20u /* of readings, in succession */

enum slot_state {
	SLOT_EMPTY,
	SLOT_SAMPLED,
	SLOT_FAILED, /* sampled, but no longer read */
	SLOT_GONE, /* destroyed or not sampled: release() empties the slot */
};

static struct slot {
	atomic_bool claimed;
	atomic_uint state;
	_Atomic(CUcontext) handle;
	struct pc_context context; /* only for the thread that has claimed the slot */
	uint64_t setup_ns;
} slots[CONTEXTS_MAX];

#define FOR_EACH_SLOT(s) for (struct slot *s = slots; s < slots + CONTEXTS_MAX; s++)

static atomic_uint reading; /* readings in progress */
static uint64_t held_since_ns; /* start of a delay of readings; 0: none. Reading thread */
static atomic_uint_fast64_t full, beyond;

static bool claim(struct slot *s)
{
	return !atomic_exchange(&s->claimed, true);
}

static void release(struct slot *s)
{
	if (atomic_load(&s->state) == SLOT_GONE) {
		pc_context_release(&s->context);
		atomic_store(&s->handle, NULL);
		atomic_store(&s->state, SLOT_EMPTY);
	}
	atomic_store(&s->claimed, false);
}

static struct slot *find(CUcontext handle)
{
	FOR_EACH_SLOT (s)
		if (atomic_load(&s->handle) == handle && atomic_load(&s->state) != SLOT_EMPTY)
			return s;
	return NULL;
}

static struct slot *claim_empty(void)
{
	FOR_EACH_SLOT (s) {
		if (!claim(s))
			continue;
		if (atomic_load(&s->state) == SLOT_EMPTY)
			return s;
		release(s);
	}
	return NULL;
}

/* --- one process a GPU --- */

static struct {
	pthread_mutex_t lock;
	struct own_fd names[DEVICES_MAX]; /* by ordinal */
	CUresult (*get)(CUdevice *device, int ordinal);
	CUresult (*get_id)(CUuuid *id, CUdevice device);
} gpus = { .lock = PTHREAD_MUTEX_INITIALIZER };

void pc_contexts_find_driver(void)
{
	*(void **)&gpus.get = driver_function("cuDeviceGet");
	*(void **)&gpus.get_id = driver_function("cuDeviceGetUuid_v2");
}

/* Returns false if the GPU cannot be identified. */
static bool name_gpu(uint32_t ordinal, char name[64])
{
	CUdevice device;
	CUuuid id;
	int n;

	if (!gpus.get || !gpus.get_id || gpus.get(&device, (int)ordinal) != CUDA_SUCCESS ||
	    gpus.get_id(&id, device) != CUDA_SUCCESS)
		return false;
	n = snprintf(name, 64, "pitot-pc-sampling-");
	for (size_t i = 0; i < sizeof(id.bytes); i++)
		n += snprintf(name + n, 64 - (size_t)n, "%02x", (unsigned char)id.bytes[i]);
	return true;
}

static bool claim_gpu(uint32_t ordinal)
{
	char name[64];
	bool ours = true;

	if (ordinal >= DEVICES_MAX || !name_gpu(ordinal, name))
		return true;
	pthread_mutex_lock(&gpus.lock);
	if (!own_fd_valid(&gpus.names[ordinal]))
		ours = socket_lock_take(&gpus.names[ordinal], name);
	pthread_mutex_unlock(&gpus.lock);
	return ours;
}

void pc_contexts_leave_gpus(void)
{
	pthread_mutex_lock(&gpus.lock);
	for (size_t i = 0; i < DEVICES_MAX; i++)
		own_fd_close(&gpus.names[i]);
	pthread_mutex_unlock(&gpus.lock);
}

/* --- contexts --- */

/* The slot must be claimed. */
static void note(const struct slot *s)
{
	const struct pc_context *c = &s->context;

	capability_note(feature_engine, capability_state_on, "pc-sampling", "pc-sampling",
			"context %u of device %u: %zu stall reasons, every %llu cycles; set up in "
			"%.3f s",
			c->id, c->device, c->reason_count, (unsigned long long)c->period_cycles,
			(double)s->setup_ns / 1e9);
}

static CUptiResult start(struct slot *s, const struct cupti *cupti, unsigned exponent,
			 const char **function)
{
	uint64_t begun = clock_monotonic_ns();
	CUptiResult result = pc_context_start(&s->context, cupti, exponent, function);

	if (result != CUPTI_SUCCESS)
		return result;
	s->setup_ns = clock_monotonic_ns() - begun;
	own_work_add(cost_kind_setup, begun, 1);
	note(s);
	return result;
}

CUptiResult pc_contexts_add(const struct cupti *cupti, CUcontext handle, unsigned exponent,
			    bool in_window, const char **function)
{
	struct slot *s;
	CUptiResult result;
	uint32_t device = 0;

	*function = NULL;
	if (!handle || find(handle))
		return CUPTI_SUCCESS;
	cupti->GetDeviceId(handle, &device);
	if (!claim_gpu(device))
		return CUPTI_ERROR_HARDWARE_BUSY;
	s = claim_empty();
	if (!s) {
		atomic_fetch_add(&beyond, 1);
		return CUPTI_SUCCESS;
	}
	s->context.handle = handle;
	s->context.in_window = in_window;
	if (cupti->GetContextId)
		cupti->GetContextId(handle, &s->context.id);
	s->context.device = device;
	result = start(s, cupti, exponent, function);
	atomic_store(&s->handle, handle);
	atomic_store(&s->state, result == CUPTI_SUCCESS ? SLOT_SAMPLED : SLOT_GONE);
	release(s);
	return result;
}

static bool wait_for_claim(struct slot *s)
{
	for (uint64_t ns = 0; ns < DESTROY_WAIT_NS; ns += NS_PER_MS) {
		if (claim(s))
			return true;
		pause_ns(NS_PER_MS);
	}
	return false;
}

static void count_full(struct slot *s)
{
	atomic_fetch_add(&full, s->context.full);
	s->context.full = 0;
}

void pc_contexts_remove(const struct cupti *cupti, CUcontext handle)
{
	struct slot *s = find(handle);

	if (!s)
		return;
	if (!wait_for_claim(s)) {
		atomic_store(&s->state, SLOT_GONE);
		return;
	}
	pc_context_stop(&s->context, cupti);
	count_full(s);
	atomic_store(&s->state, SLOT_GONE);
	release(s);
}

/*
 * PCs of a module are valid only while it is loaded, so they are read before it is unloaded. If
 * another thread has claimed the slot, its reading includes them.
 */
void pc_contexts_follow_module(const struct cupti *cupti, CUcontext handle, bool unloads)
{
	struct slot *s = find(handle);

	if (s && claim(s)) {
		if (atomic_load(&s->state) == SLOT_SAMPLED &&
		    (unloads || pc_context_has_rest(&s->context)))
			pc_context_read(&s->context, cupti);
		release(s);
	}
}

void pc_contexts_module_call(bool begins, uint32_t correlation)
{
	if (!begins) {
		calls_end(CALLS_LOADING, correlation);
		return;
	}
	calls_begin(CALLS_LOADING, correlation);
	for (uint64_t ns = 0; ns < LOAD_WAIT_NS && atomic_load(&reading); ns += NS_PER_MS / 10)
		pause_ns(NS_PER_MS / 10);
}

/* Returns whether CUPTI may be read now; then threads that begin to load code wait. */
static bool begin_reading(bool at_once)
{
	uint64_t now = clock_monotonic_ns();

	atomic_fetch_add(&reading, 1);
	if (!calls_of_others(CALLS_LOADING)) {
		held_since_ns = 0;
		return true;
	}
	if (!held_since_ns)
		held_since_ns = now;
	if (now - held_since_ns >= HELD_MAX_NS)
		calls_forget(CALLS_LOADING); /* as if their ends were not seen */
	if (at_once || now - held_since_ns >= HELD_MAX_NS)
		return true;
	atomic_fetch_sub(&reading, 1);
	return false;
}

/* `last`: of readings. Their failure is said then, even if it was the first one. */
static void give_up_reading(struct slot *s, const struct cupti *cupti, bool last)
{
	if (s->context.failures < (last ? 1 : FAILURES_MAX))
		return;
	capability_note(
		feature_engine, capability_state_degraded, "pc-sampling", "trace",
		"cuptiPCSamplingGetData: %s, %u times: no samples of context %u any more; "
		"if another profiler samples this GPU, launches and kernels may be missing, too",
		cupti_result_text(cupti, s->context.why), s->context.failures, s->context.id);
	atomic_store(&s->state, SLOT_FAILED);
}

/* The slot must be claimed. */
static uint64_t follow(struct slot *s, const struct cupti *cupti, bool in_window,
		       enum pc_read which)
{
	uint64_t sampled = 0;

	if (atomic_load(&s->state) == SLOT_SAMPLED &&
	    (which != PC_READ_WINDOWS || s->context.in_window != in_window)) {
		sampled = pc_context_read(&s->context, cupti);
		count_full(s);
		give_up_reading(s, cupti, which == PC_READ_NOW);
	}
	s->context.in_window = in_window;
	return sampled;
}

bool pc_contexts_read(const struct cupti *cupti, bool in_window, enum pc_read which,
		      uint64_t *sampled)
{
	bool complete = true;

	*sampled = 0;
	if (!begin_reading(which == PC_READ_NOW))
		return false;
	FOR_EACH_SLOT (s) {
		if (atomic_load(&s->state) == SLOT_EMPTY)
			continue;
		if (!claim(s)) {
			complete = false;
			continue;
		}
		*sampled += follow(s, cupti, in_window, which);
		release(s);
	}
	atomic_fetch_sub(&reading, 1);
	return complete;
}

bool pc_contexts_exist(void)
{
	FOR_EACH_SLOT (s)
		if (atomic_load(&s->claimed) || atomic_load(&s->state) != SLOT_EMPTY)
			return true;
	return false;
}

void pc_contexts_note(void)
{
	FOR_EACH_SLOT (s) {
		if (!claim(s))
			continue;
		if (atomic_load(&s->state) == SLOT_SAMPLED)
			note(s);
		release(s);
	}
}

struct pc_counts pc_contexts_counts(void)
{
	return (struct pc_counts){ atomic_load(&full), atomic_load(&beyond) };
}

void pc_contexts_after_fork(void)
{
	pthread_mutex_init(&gpus.lock, NULL);
	pc_contexts_leave_gpus();
	memset(slots, 0, sizeof(slots));
	calls_forget(CALLS_LOADING);
	atomic_store(&reading, 0);
	held_since_ns = 0;
	atomic_store(&full, 0);
	atomic_store(&beyond, 0);
}
