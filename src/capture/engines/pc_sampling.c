/*
 * pc_sampling.c: contexts and when they are sampled. A context is set up in the callback of its creation, before it has any work, or by
 * the vendor thread: one that is older than the window, or that CUPTI does not let us set up in a callback. The vendor thread reads every
 * READ_NS while kernels run. Whoever calls CUPTI for a context has claimed it: the vendor thread never waits for a claim, and a callback
 * only when its context is about to go, for DESTROY_WAIT_NS.
 *
 * At the end of a window sampling is disabled, which costs its set-up again for the next one; at the exit of the process the samples are
 * read and nothing else is done.
 */
#include "capture/engines/pc_sampling.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "capture/capability_notes.h"
#include "capture/cuda/api_calls.h"
#include "capture/engines/pc_context.h"
#include "capture/engines/pc_cubins.h"
#include "capture/engines/pc_readings.h"
#include "format/rows.h"

#define CONTEXTS_MAX 32u
#define PERIOD_MIN 5u /* exponents; CUPTI's least, */
#define PERIOD_DEFAULT 18u /* and one at which a busy GPU's buffer is not full after READ_NS */
#define READ_NS (100 * NS_PER_MS)
#define READ_IDLE_NS (800 * NS_PER_MS)
#define CLAIM_RETRY_NS (5 * NS_PER_MS)
#define DESTROY_WAIT_NS (200 * NS_PER_MS)
#define LOAD_WAIT_NS (100 * NS_PER_MS) /* of a call that loads, for a reading */
#define HELD_MAX_NS (5 * NS_PER_S) /* readings wait no longer for calls that load */
#define FAILURES_MAX 20u /* of readings, one after the other */
#define CUPTI_12_8 26u /* with its first update PC sampling works beside records of kernels */

enum slot_state {
	SLOT_EMPTY,
	SLOT_KNOWN,
	SLOT_SAMPLED,
	SLOT_REFUSED,
	SLOT_GONE, /* destroyed while it was claimed */
};

static struct slot {
	atomic_bool claimed;
	atomic_uint state;
	_Atomic(CUcontext) handle;
	struct pc_context context; /* of who has claimed it */
} slots[CONTEXTS_MAX];

#define FOR_EACH_SLOT(s) for (struct slot *s = slots; s < slots + CONTEXTS_MAX; s++)

static struct {
	_Atomic(const struct cupti *) cupti; /* NULL: not attached */
	atomic_bool used; /* was attached in this process */
	atomic_bool open; /* a window is, of a session with this engine */
	atomic_bool refused; /* for all contexts and for good */
	atomic_bool exits;
	atomic_bool late; /* contexts may exist that no callback has told of */
	atomic_uint loading, reading; /* calls of the driver, of CUPTI */
	uint64_t
		held_since_ns; /* readings, by calls that load; 0: they are not. The vendor thread's */
	atomic_uint exponent; /* of the period */
	atomic_uint_fast64_t setups, setup_ns, full, beyond;
	uint64_t last_ns, interval_ns; /* the vendor thread's */
	pthread_mutex_t directory_lock;
	char directory[SETTINGS_PATH_MAX];

	/* The collector's: */
	uint64_t readings, since_ns;
	struct map crcs; /* that samples have had in this recording */
	uint64_t setups_reported, setup_ns_reported, full_reported, lost_reported, beyond_reported,
		cubins_reported;
} self = { .directory_lock = PTHREAD_MUTEX_INITIALIZER };

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

/* --- the beginning of sampling --- */

static void note_refused(const char *format, const char *what, const char *why)
{
	if (atomic_exchange(&self.refused, true))
		return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	capability_note("engine", capability_state_degraded, "pc-sampling", "trace", format, what,
			why);
#pragma GCC diagnostic pop
}

static void refuse(const struct cupti *cupti, CUptiResult result, const char *function)
{
	const char *why = cupti_result_text(cupti, result);

	switch ((int)result) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		note_refused("%s: %s: sampling needs the rights of an administrator; record as "
			     "root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0 "
			     "(a line 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' in "
			     "/etc/modprobe.d, then a reboot)",
			     function, why);
		break;
	case CUPTI_ERROR_HARDWARE_BUSY:
	case CUPTI_ERROR_INVALID_OPERATION:
		note_refused("%s: %s: another profiler has the GPU's counters; stop it, or record "
			     "without sampling",
			     function, why);
		break;
	case CUPTI_ERROR_OUT_OF_MEMORY:
		note_refused("%s: %s: no memory for samples, on the GPU or here", function, why);
		break;
	default:
		note_refused("%s: %s: this GPU, driver or CUPTI does not sample", function, why);
	}
}

static void note_start(const struct pc_context *c, uint64_t ns)
{
	atomic_fetch_add(&self.setups, 1);
	atomic_fetch_add(&self.setup_ns, ns);
	capability_note("engine", capability_state_on, "pc-sampling", "pc-sampling",
			"context %u of device %u: %zu stall reasons, every %llu cycles; set up in "
			"%.3f s",
			c->id, c->device, c->reason_count, (unsigned long long)c->period_cycles,
			(double)ns / 1e9);
}

/* Of a claimed slot whose context is known. */
static void begin_sampling(struct slot *s, const struct cupti *cupti, bool in_callback)
{
	uint64_t begun = clock_monotonic_ns();
	const char *function;
	CUptiResult result =
		pc_context_start(&s->context, cupti, atomic_load(&self.exponent), &function);

	if (result == CUPTI_SUCCESS) {
		note_start(&s->context, clock_monotonic_ns() - begun);
		atomic_store(&s->state, SLOT_SAMPLED);
	} else if (!in_callback || result != CUPTI_ERROR_INVALID_OPERATION) {
		refuse(cupti, result, function);
		atomic_store(&s->state, SLOT_REFUSED);
	}
}

static bool is_wanted(void)
{
	return atomic_load(&self.open) && !atomic_load(&self.refused) &&
	       !atomic_load(&self.exits) && !api_calls_fatal();
}

static struct slot *find(CUcontext handle)
{
	FOR_EACH_SLOT (s)
		if (atomic_load(&s->handle) == handle && atomic_load(&s->state) != SLOT_EMPTY)
			return s;
	return NULL;
}

static void add_context(const struct cupti *cupti, CUcontext handle, bool in_callback)
{
	if (!handle || find(handle))
		return;
	FOR_EACH_SLOT (s) {
		if (!claim(s))
			continue;
		if (atomic_load(&s->state) != SLOT_EMPTY) {
			release(s);
			continue;
		}
		s->context.handle = handle;
		if (cupti->GetContextId)
			cupti->GetContextId(handle, &s->context.id);
		cupti->GetDeviceId(handle, &s->context.device);
		atomic_store(&s->handle, handle);
		atomic_store(&s->state, SLOT_KNOWN);
		if (is_wanted())
			begin_sampling(s, cupti, in_callback);
		release(s);
		return;
	}
	atomic_fetch_add(&self.beyond, 1);
}

/* --- callbacks --- */

static bool wait_for_claim(struct slot *s)
{
	struct timespec t = { .tv_nsec = NS_PER_MS };

	for (uint64_t ns = 0; ns < DESTROY_WAIT_NS; ns += NS_PER_MS) {
		if (claim(s))
			return true;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return false;
}

static void count_full(struct slot *s)
{
	atomic_fetch_add(&self.full, s->context.full);
	s->context.full = 0;
}

static void remove_context(const struct cupti *cupti, CUcontext handle)
{
	struct slot *s = find(handle);

	if (!s)
		return;
	if (!wait_for_claim(s)) {
		atomic_store(&s->state, SLOT_GONE);
		return;
	}
	if (atomic_load(&s->state) == SLOT_SAMPLED)
		pc_context_stop(&s->context, cupti);
	count_full(s);
	atomic_store(&s->state, SLOT_GONE);
	release(s);
}

/* PCs of a module mean something as long as it is loaded. A reading that is under way has them, too. */
static void flush_module(const struct cupti *cupti, CUcontext handle, bool unloads)
{
	struct slot *s = find(handle);

	if (s && claim(s)) {
		if (atomic_load(&s->state) == SLOT_SAMPLED &&
		    (unloads || pc_context_has_rest(&s->context)))
			pc_context_read(&s->context, cupti);
		release(s);
	}
	if (unloads)
		pc_context_names_changed();
}

void pc_sampling_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	const struct cupti *cupti = atomic_load_explicit(&self.cupti, memory_order_acquire);
	const CUpti_ModuleResourceData *module;

	if (!cupti || !data || atomic_load(&self.exits))
		return;
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
		add_context(cupti, data->context, true);
		break;
	case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
		remove_context(cupti, data->context);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_LOADED:
		module = data->resourceDescriptor;
		if (module)
			pc_cubins_add(module->pCubin, module->cubinSize);
		flush_module(cupti, data->context, false);
		break;
	case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
		flush_module(cupti, data->context, true);
		break;
	default:
		break;
	}
}

void pc_sampling_module_call(bool begins)
{
	struct timespec t = { .tv_nsec = NS_PER_MS / 10 };

	if (!begins) {
		atomic_fetch_sub(&self.loading, 1);
		return;
	}
	atomic_fetch_add(&self.loading, 1);
	for (uint64_t ns = 0; ns < LOAD_WAIT_NS && atomic_load(&self.reading); ns += NS_PER_MS / 10)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
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

void pc_sampling_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber, bool late)
{
	static const CUpti_CallbackId wanted[] = { CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
						   CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
						   CUPTI_CBID_RESOURCE_MODULE_LOADED,
						   CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING };
	const char *missing = missing_function(cupti);

	if (atomic_load(&self.cupti) || atomic_load(&self.refused))
		return;
	if (missing) {
		note_refused("this CUPTI lacks %s%s: sampling needs CUDA 12.8 Update 1 or later",
			     missing, "");
		return;
	}
	if (cupti->version < CUPTI_12_8) {
		note_refused("CUPTI of '%s'%s cannot sample beside records of kernels: that needs "
			     "CUDA 12.8 Update 1 or later",
			     cupti->path, "");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		cupti->EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, wanted[i]);
	atomic_store(&self.late, late);
	atomic_store(&self.used, true);
	atomic_store_explicit(&self.cupti, cupti, memory_order_release);
}

void pc_sampling_detach(void)
{
	if (!atomic_exchange(&self.cupti, NULL))
		return;
	FOR_EACH_SLOT (s) {
		if (!claim(s))
			continue;
		atomic_store(&s->state, SLOT_GONE);
		release(s);
	}
}

/* --- the vendor thread --- */

/* Primary contexts that are older than the subscription. Others of that time are not sampled. */
static void find_older_contexts(const struct cupti *cupti)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	CUresult (*count_of)(int *), (*state_of)(CUdevice, unsigned *, int *),
		(*retain)(CUcontext *, CUdevice), (*let_go)(CUdevice);
	int count = 0, active;
	unsigned flags;
	CUcontext context;

	if (!driver)
		return;
	*(void **)&count_of = dlsym(driver, "cuDeviceGetCount");
	*(void **)&state_of = dlsym(driver, "cuDevicePrimaryCtxGetState");
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&let_go = dlsym(driver, "cuDevicePrimaryCtxRelease_v2");
	if (!count_of || !state_of || !retain || !let_go || count_of(&count) != CUDA_SUCCESS)
		return;
	/* A device's handle is its number. */
	for (CUdevice device = 0; device < count; device++) {
		if (state_of(device, &flags, &active) != CUDA_SUCCESS || !active ||
		    retain(&context, device) != CUDA_SUCCESS)
			continue;
		add_context(cupti, context, false);
		let_go(device);
	}
}

static void give_up_reading(struct slot *s, const struct cupti *cupti)
{
	if (s->context.failures != FAILURES_MAX)
		return;
	capability_note("engine", capability_state_degraded, "pc-sampling", "trace",
			"cuptiPCSamplingGetData: %s, %u times: no samples of context %u any more",
			cupti_result_text(cupti, s->context.why), FAILURES_MAX, s->context.id);
	pc_context_stop(&s->context, cupti);
	atomic_store(&s->state, SLOT_REFUSED);
}

/* Of a claimed slot. Returns how much was sampled. */
static uint64_t follow(struct slot *s, const struct cupti *cupti, bool open, bool read)
{
	unsigned state = atomic_load(&s->state);
	uint64_t sampled = 0;

	if (state == SLOT_KNOWN && open && is_wanted()) {
		begin_sampling(s, cupti, false);
	} else if (state == SLOT_SAMPLED && !open) {
		sampled = pc_context_stop(&s->context, cupti);
		atomic_store(&s->state, SLOT_KNOWN);
	} else if (state == SLOT_SAMPLED && read) {
		sampled = pc_context_read(&s->context, cupti);
		give_up_reading(s, cupti);
	}
	count_full(s);
	return sampled;
}

/* Whether CUPTI may be read: nobody loads code, and who wants to waits. */
static bool begin_reading(uint64_t now, bool at_once)
{
	atomic_fetch_add(&self.reading, 1);
	if (!atomic_load(&self.loading)) {
		self.held_since_ns = 0;
		return true;
	}
	if (!self.held_since_ns)
		self.held_since_ns = now;
	if (at_once || now - self.held_since_ns >= HELD_MAX_NS)
		return true;
	atomic_fetch_sub(&self.reading, 1);
	return false;
}

static void store_cubins(void)
{
	char directory[SETTINGS_PATH_MAX];

	pthread_mutex_lock(&self.directory_lock);
	memcpy(directory, self.directory, sizeof(directory));
	pthread_mutex_unlock(&self.directory_lock);
	if (directory[0])
		pc_cubins_store(directory);
}

/* Every context that nobody else is busy with. *busy: not all were. Returns how much was sampled. */
static uint64_t follow_all(const struct cupti *cupti, bool open, bool read, bool *busy)
{
	uint64_t sampled = 0;

	FOR_EACH_SLOT (s) {
		if (atomic_load(&s->state) == SLOT_EMPTY)
			continue;
		if (!claim(s)) {
			*busy = true;
			continue;
		}
		sampled += follow(s, cupti, open, read);
		release(s);
	}
	atomic_fetch_sub(&self.reading, 1);
	return sampled;
}

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	bool exits = reasons & VENDOR_EXIT, busy = false, read;
	bool open = exits || (atomic_load(&self.open) && !(reasons & VENDOR_CLOSE));
	uint64_t sampled;

	if (!cupti || api_calls_fatal())
		return UINT64_MAX;
	if (exits)
		atomic_store(&self.exits, true);
	pc_cubins_identify(cupti);
	if (open && !exits && atomic_exchange(&self.late, false))
		find_older_contexts(cupti);
	if (!begin_reading(now, exits || !open))
		return CLAIM_RETRY_NS;
	read = exits || now - self.last_ns >= self.interval_ns;
	sampled = follow_all(cupti, open, read, &busy);
	if (read) {
		self.last_ns = now;
		self.interval_ns =
			sampled ? READ_NS : MIN(2 * self.interval_ns + READ_NS, READ_IDLE_NS);
	}
	store_cubins();
	if (busy)
		return CLAIM_RETRY_NS;
	return open ? self.interval_ns - MIN(self.interval_ns, now - self.last_ns) : UINT64_MAX;
}

/* --- the collector's thread --- */

static void begin(struct writer *w, const struct source_start *start)
{
	(void)w;
	(void)start;
	self.readings = 0;
	self.since_ns = clock_monotonic_ns();
	map_clear(&self.crcs);
	pc_cubins_begin();
}

static void window(const struct settings *wanted, struct writer *w)
{
	bool open = wanted && settings_use_cupti(wanted) &&
		    wanted->engine == SETTING_ENGINE_PC_SAMPLING;

	(void)w;
	if (open) {
		pthread_mutex_lock(&self.directory_lock);
		memcpy(self.directory, wanted->directory, sizeof(self.directory));
		pthread_mutex_unlock(&self.directory_lock);
		atomic_store(&self.exponent, wanted->pc_period
						     ? MAX((unsigned)wanted->pc_period, PERIOD_MIN)
						     : PERIOD_DEFAULT);
	}
	atomic_store(&self.open, open);
}

/* Contexts may be created before the collector tells of the window. */
static void start(const struct source_start *how)
{
	if (how->with_cuda && how->open)
		window(how->wanted, NULL);
}

static void write_reading(struct writer *w, const struct pc_reading *r)
{
	const struct row_pc_reading row = { .id = ++self.readings,
					    .start_ns = r->start_ns,
					    .end_ns = r->end_ns,
					    .device = r->device,
					    .context = r->context,
					    .period_cycles = r->period_cycles,
					    .total = r->total,
					    .dropped = r->dropped,
					    .other = r->other };

	writer_append(w, TABLE_pc_reading, &row);
	for (size_t i = 0; i < r->count; i++) {
		const struct pc_sample *s = &r->samples[i];
		const struct row_pc_sample sample = { .reading = row.id,
						      .crc = s->crc,
						      .function = rows_text(w, s->function),
						      .offset = s->offset,
						      .reason = rows_text(w, s->reason),
						      .samples = s->samples };

		writer_append(w, TABLE_pc_sample, &sample);
		if (map_add(&self.crcs, s->crc) == 1)
			pc_cubins_need(s->crc);
	}
}

static void write_cubin(struct writer *w, const struct pc_cubin *c)
{
	struct row_cubin row = { .crc = c->crc, .size_bytes = c->size };
	char file[64];

	snprintf(file, sizeof(file), PC_CUBIN_FILE, (unsigned long long)c->crc);
	row.file = rows_text(w, c->has_file ? file : NULL);
	ROW_MISSING_IF(&row, cubin, file, !c->has_file);
	ROW_MISSING_IF(&row, cubin, size_bytes, !c->size);
	writer_append(w, TABLE_cubin, &row);
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	struct pc_reading *r;
	struct pc_cubin cubin;
	uint64_t rows = 0;

	(void)now;
	if (!atomic_load_explicit(&self.used, memory_order_relaxed))
		return 0;
	for (; (r = pc_readings_take()); rows += 1 + r->count, free(r))
		write_reading(w, r);
	for (; pc_cubins_take(&cubin); rows++)
		write_cubin(w, &cubin);
	return rows;
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	uint64_t setups = atomic_load(&self.setups), ns = atomic_load(&self.setup_ns);

	(void)since_ns;
	rows_cost(w, cost_kind_setup, self.since_ns, now, setups - self.setups_reported,
		  ns - self.setup_ns_reported);
	self.setups_reported = setups;
	self.setup_ns_reported = ns;
	rows_loss_more(w, loss_reason_cupti_dropped, atomic_load(&self.full), &self.full_reported,
		       self.since_ns, now,
		       "times that the GPU's buffer of PC samples was full and gave none: a larger "
		       "--pc-period (without it: 18) helps");
	rows_loss_more(w, loss_reason_no_memory, pc_readings_lost(), &self.lost_reported,
		       self.since_ns, now, "PC samples, whose place is not known");
	rows_loss_more(w, loss_reason_no_memory, pc_cubins_lost(), &self.cubins_reported,
		       self.since_ns, now, "modules whose device code is not kept");
	rows_loss_more(w, loss_reason_no_memory, atomic_load(&self.beyond), &self.beyond_reported,
		       self.since_ns, now, "contexts beyond the limit, which are not sampled");
	self.since_ns = now;
}

/* What the last reading showed is needed, too. */
static void stopped(struct writer *w)
{
	collect(w, 0);
	store_cubins();
	collect(w, 0);
}

static void after_fork(void)
{
	memset(slots, 0, sizeof(slots));
	memset(&self, 0, sizeof(self));
	pthread_mutex_init(&self.directory_lock, NULL);
	pc_readings_after_fork();
	pc_cubins_after_fork();
	pc_context_after_fork();
}

const struct source pc_sampling_source = {
	.name = "pc-sampling",
	.start = start,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.vendor = vendor,
	.stopped = stopped,
	.after_fork = after_fork,
};
