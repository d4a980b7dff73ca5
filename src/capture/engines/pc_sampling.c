/*
 * pc_sampling.c: decides which contexts are sampled and when they are read. A context is sampled
 * from its creation to its destruction if it is created while a session with this engine exists,
 * even before its window opens. The vendor thread reads the contexts every READ_NS while kernels
 * run, also outside windows, so that the GPU's buffer is not full when a window opens. At process
 * exit it only reads the samples.
 */
#include "capture/engines/pc_sampling.h"

#include <stdatomic.h>
#include <string.h>

#include "base/starts_with.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/records.h"
#include "capture/engines/engine_notes.h"
#include "capture/engines/pc_contexts.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_readings.h"
#include "capture/engines/pc_rows.h"
#include "format/rows.h"

#define PERIOD_MIN 5u /* exponent of the period in cycles: CUPTI's minimum */
#define PERIOD_DEFAULT 18u /* a busy GPU does not fill its buffer within READ_NS */
#define READ_NS (100 * NS_PER_MS)
#define READ_IDLE_NS (800 * NS_PER_MS)
#define RETRY_NS (5 * NS_PER_MS)

#define ENGINE "pc-sampling"

static struct {
	_Atomic(const struct cupti *) cupti; /* NULL: not attached */
	atomic_uint inside; /* callbacks in progress */
	atomic_bool used; /* was attached in this process */
	atomic_bool wanted; /* a session with this engine exists, its window open or not */
	atomic_bool open; /* a window of a session with this engine is open */
	struct refusal refusal; /* permanent: no new context is sampled */
	atomic_bool older; /* contexts may exist that are not sampled */
	atomic_bool exits;
	atomic_uint exponent; /* of the period */
	uint64_t last_ns, interval_ns; /* owned by the vendor thread */

	/* Owned by the collector: */
	uint64_t since_ns;
	struct pc_counts reported;
	uint64_t lost_reported, cubins_reported;
} self;

static void note_older(void)
{
	engine_note_trace(ENGINE,
			  "contexts that existed before are not sampled: start the session before "
			  "CUDA is initialized");
}

/* --- callbacks --- */

static bool is_wanted(void)
{
	return atomic_load(&self.wanted) && !refusal_text(&self.refusal) && !api_calls_fatal();
}

static void add_context(const struct cupti *cupti, CUcontext handle)
{
	const char *function;
	CUptiResult result;

	if (!is_wanted()) {
		atomic_store(&self.older, true);
		return;
	}
	result = pc_contexts_add(cupti, handle, atomic_load(&self.exponent),
				 atomic_load(&self.open), &function);
	if (result != CUPTI_SUCCESS && !function)
		engine_note_trace(ENGINE,
				  "another process samples this GPU, and CUPTI serves one at a "
				  "time: launches and kernels are recorded, without samples");
	else if (result != CUPTI_SUCCESS)
		engine_refuse(&self.refusal, &pc_sampling_client, ENGINE, "%s: %s: %s", function,
			      cupti_result_text(cupti, result), engine_advice(result));
}

static void follow_callback(const struct cupti *cupti, CUpti_CallbackId cbid,
			    const CUpti_ResourceData *data)
{
	const CUpti_ModuleResourceData *module;

	switch (cbid) {
	case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
		add_context(cupti, data->context);
		break;
	case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
		pc_contexts_remove(cupti, data->context);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_LOADED:
		module = data->resourceDescriptor;
		if (module)
			pc_cubins_add(module->pCubin, module->cubinSize);
		pc_contexts_follow_module(cupti, data->context, false);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		pc_contexts_follow_module(cupti, data->context, true);
		break;
	default:
		break;
	}
}

static void notify(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void *info)
{
	const CUpti_ResourceData *data = info;
	const struct cupti *cupti;

	(void)domain;
	atomic_fetch_add(&self.inside, 1);
	cupti = atomic_load(&self.cupti);
	if (cupti && data && !atomic_load(&self.exits) && !api_calls_fatal())
		follow_callback(cupti, cbid, data);
	atomic_fetch_sub(&self.inside, 1);
}

/*
 * CUPTI's function tables change while code is loaded or unloaded, so no samples are read
 * meanwhile. Code that a launch loads lazily is not announced.
 */
static bool wants_call(const struct hub_function *f, const struct settings *s)
{
	static const char *const prefixes[] = { "cuModuleLoad", "cuModuleUnload", "cuLibraryLoad",
						"cuLibraryUnload" };
	bool wanted = false;

	(void)s;
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		wanted |= f->is_driver && starts_with(f->name, prefixes[i]);
	return wanted;
}

static void enter(const struct hub_call *call)
{
	pc_contexts_module_call(true, call->data->correlationId);
}

static void leave(const struct hub_call *call)
{
	pc_contexts_module_call(false, call->data->correlationId);
}

/* --- attaching --- */

static const char *missing_function(const struct cupti *cupti)
{
#define F(name, need)                                                                              \
	if (!cupti->name)                                                                          \
		return "cupti" #name;
	PC_SAMPLING_FUNCTIONS(F)
#undef F
	return NULL;
}

/*
 * cuptiActivityEnable refuses kernel records while contexts are sampled (NOT_COMPATIBLE; 13.0).
 * Therefore they are enabled before the first context is sampled.
 */
static bool attach(const struct cupti *cupti, int engine, bool late)
{
	static const CUpti_CallbackId wanted[] = { CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
						   CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
						   CUPTI_CBID_RESOURCE_MODULE_LOADED,
						   CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING };
	const char *missing = missing_function(cupti);

	(void)engine;
	if (atomic_load(&self.cupti) || refusal_text(&self.refusal))
		return !refusal_text(&self.refusal);
	if (missing) {
		engine_refuse(&self.refusal, &pc_sampling_client, ENGINE,
			      "this CUPTI lacks %s: sampling needs CUDA 12.8 Update 1 or later",
			      missing);
		return false;
	}
	if (cupti->version < CUPTI_12_8) {
		engine_refuse(
			&self.refusal, &pc_sampling_client, ENGINE,
			"CUPTI of '%s' cannot sample beside records of kernels: that needs CUDA "
			"12.8 Update 1 or later",
			cupti->path);
		return false;
	}
	pc_contexts_find_driver();
	hub_set_kind(&pc_sampling_client, true, HUB_KERNELS);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		hub_set_callback(&pc_sampling_client, true, CUPTI_CB_DOMAIN_RESOURCE, wanted[i]);
	atomic_store(&self.older, late);
	if (late)
		note_older();
	atomic_store(&self.used, true);
	atomic_store(&self.cupti, cupti);
	return true;
}

/* After `vendor`. The subscription must stay while contexts are sampled. */
static bool detach(void)
{
	const struct cupti *cupti = atomic_load(&self.cupti);

	if (!cupti)
		return true;
	if (pc_contexts_exist())
		return false;
	atomic_store(&self.cupti, NULL);
	/* A callback may have added a context in the meantime. */
	if (!atomic_load(&self.inside) && !pc_contexts_exist()) {
		pc_contexts_leave_gpus();
		return true;
	}
	atomic_store(&self.cupti, cupti);
	return false;
}

static struct hub_wishes wishes;
const struct hub_client pc_sampling_client = {
	.name = ENGINE,
	.wishes = &wishes,
	.takes_counters = true,
	.is_engine = pc_sampling_is,
	.attach = attach,
	.detach = detach,
	.keeps_kinds = pc_contexts_exist,
	.wants_call = wants_call,
	.enter = enter,
	.exit = leave,
	.notify = notify,
};

/* --- the vendor thread --- */

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	bool exits = reasons & VENDOR_EXIT, closes = reasons & VENDOR_CLOSE, complete;
	bool due = now - self.last_ns >= self.interval_ns;
	uint64_t sampled;

	if (!cupti || api_calls_fatal())
		return UINT64_MAX;
	if (exits)
		atomic_store(&self.exits, true);
	if (closes)
		atomic_store(&self.open, false); /* also in later rounds */
	pc_cubins_identify(cupti);
	complete = pc_contexts_read(cupti, atomic_load(&self.open),
				    exits || closes ? PC_READ_NOW
				    : due           ? PC_READ_ALL
						    : PC_READ_WINDOWS,
				    &sampled);
	if (due && complete) {
		self.last_ns = now;
		self.interval_ns =
			sampled ? READ_NS : MIN(2 * self.interval_ns + READ_NS, READ_IDLE_NS);
	}
	pc_cubins_store();
	if (!complete)
		return RETRY_NS;
	return self.interval_ns - MIN(self.interval_ns, now - self.last_ns);
}

/* --- the sessions --- */

static bool is_engine_of(const struct settings *wanted)
{
	return settings_trace_gpus(wanted) && pc_sampling_is(wanted->engine);
}

static void window(const struct settings *wanted, struct writer *w)
{
	bool open = wanted && is_engine_of(wanted);

	(void)w;
	if (open)
		pc_cubins_use(wanted);
	atomic_store(&self.open, open);
}

/* Notes for a new session what earlier sessions have found out. */
static void note_known(void)
{
	engine_note_refusal(&self.refusal, ENGINE);
	if (!atomic_load(&self.cupti) || api_calls_fatal())
		return;
	pc_contexts_note();
	if (atomic_load(&self.older))
		note_older();
}

/*
 * Sets `wanted` before the session's window opens: contexts may be created before the collector
 * calls window().
 */
static void extend(const struct source_start *how)
{
	unsigned period = (unsigned)how->wanted->pc_period;

	if (!(how->vendors & VENDOR_BIT(nvidia)) || !is_engine_of(how->wanted))
		return;
	atomic_store(&self.exponent, period ? MAX(period, PERIOD_MIN) : PERIOD_DEFAULT);
	atomic_store(&self.wanted, true);
	note_known();
}

/* If the window opens immediately, discards the samples that precede it. */
static void start(const struct source_start *how)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	bool is_open = (how->vendors & VENDOR_BIT(nvidia)) && how->open;
	uint64_t sampled;

	extend(how);
	if (is_open)
		window(how->wanted, NULL);
	if (is_open && atomic_load(&self.wanted) && cupti && !api_calls_fatal())
		pc_contexts_read(cupti, true, PC_READ_WINDOWS, &sampled);
}

static void begin(struct writer *w, const struct source_start *how)
{
	(void)w;
	(void)how;
	self.since_ns = clock_monotonic_ns();
	pc_rows_begin();
	pc_cubins_begin();
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	(void)now;
	return atomic_load_explicit(&self.used, memory_order_relaxed) ? pc_rows_write(w) : 0;
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	struct pc_counts counts = pc_contexts_counts();

	(void)since_ns;
	rows_loss_more(w, loss_reason_gpu_records_dropped, counts.full, &self.reported.full,
		       self.since_ns, now,
		       "readings lost because the GPU's PC sample buffer was full: a larger "
		       "--pc-period (default 18) helps");
	rows_loss_more(w, loss_reason_no_memory, pc_readings_lost(), &self.lost_reported,
		       self.since_ns, now, "PC samples, whose place is not known");
	rows_loss_more(w, loss_reason_no_memory, pc_cubins_lost(), &self.cubins_reported,
		       self.since_ns, now, "modules whose device code is not kept");
	rows_loss_more(w, loss_reason_no_memory, counts.beyond, &self.reported.beyond,
		       self.since_ns, now, "contexts beyond the limit, which are not sampled");
	self.since_ns = now;
}

/* Rows of the last readings may need further modules: these are stored, then get their rows. */
static void stopped(struct writer *w)
{
	atomic_store(&self.wanted, false);
	atomic_store(&self.open, false);
	collect(w, 0);
	pc_cubins_store();
	collect(w, 0);
}

static void after_fork(void)
{
	memset(&self, 0, sizeof(self));
	pc_contexts_after_fork();
	pc_readings_after_fork();
	pc_cubins_after_fork();
	pc_rows_after_fork();
}

const struct source pc_sampling_source = {
	.name = ENGINE,
	.start = start,
	.extend = extend,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.vendor = vendor,
	.stopped = stopped,
	.after_fork = after_fork,
};
