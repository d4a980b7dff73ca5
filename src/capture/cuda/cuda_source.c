#include "capture/cuda/cuda_source.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "capture/capability_notes.h"
#include "capture/collector.h"
#include "capture/cuda/activity.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/clock_pairs.h"
#include "capture/cuda/correlation.h"
#include "capture/cuda/cupti_clock.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/cuda/kernel_configs.h"
#include "capture/cuda/records.h"
#include "capture/log.h"
#include "capture/vendor_thread.h"
#include "format/rows.h"

#define DEVICE_BUFFER_BYTES (8u << 20) /* for kernels in flight on the GPU; larger: fewer stalls */
#define WATCHDOG_LAUNCHES 1000u /* that many launches without any kernel record are suspicious */

/*
 * Work of which the calls are known and no record yet has come is under way. A graph's last node is not known, and a launch that
 * a stream captured never becomes work: so after GRACE_NS without a call or a record it counts as done if the numbers say so,
 * after SLOW_NS it is looked for once a second, and after LOST_NS no more.
 */
#define GRACE_NS (2 * NS_PER_S)
#define SLOW_NS (10 * NS_PER_S)
#define LOST_NS (60 * NS_PER_S)

#define CLOCK_WAIT_NS (PITOT_SLOWNESS * 20 * NS_PER_MS)

/* What is under way when a window closes gets so much time to end. */
#define TAIL_NS NS_PER_S
#define TAIL_LOOK_NS (10 * NS_PER_MS)

static struct {
	struct settings wanted; /* of the sessions together */
	struct cupti cupti;
	struct driver driver;
	CUpti_SubscriberHandle subscriber;
	atomic_bool usable; /* there is a CUPTI that gives us records */
	bool subscribed, enabled; /* of the vendor thread once that runs */
	bool late; /* CUDA was initialized before */
	atomic_bool open; /* a window is */
	bool clock_noted; /* that CUPTI gives no time; the vendor thread's */
	atomic_uint_fast64_t dropped; /* records, as CUPTI says */
	atomic_uint_fast64_t flushed_ns;
	atomic_uint_fast64_t launched, completed; /* single pieces of work: calls and records */

	/* the collector's */
	bool failed; /* CUPTI broke down, and the recording says so */
	bool devices_written;
	unsigned clock_round; /* of the vendor thread, that decoding waits for; 0: none */
	uint64_t clock_asked_ns;
	uint64_t last_call; /* highest correlation id of a recorded call */
	uint64_t active_ns;
	uint64_t requests_reported, request_ns_reported, refused_reported, dropped_reported;
	struct activity_counts reported;
	uint64_t since_ns;
	uint32_t known[512]; /* functions whose rows the writer has, by a hash of the id */
	uint8_t known_kind[512];
} self;

static const struct {
	CUpti_ActivityKind kind;
	const char *name;
	bool essential;
} kinds[] = {
	{ CUPTI_ACTIVITY_KIND_CONTEXT, "context", false },
	{ CUPTI_ACTIVITY_KIND_STREAM, "stream", false },
	{ CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernel", true },
	{ CUPTI_ACTIVITY_KIND_MEMCPY, "memcpy", false },
	{ CUPTI_ACTIVITY_KIND_MEMCPY2, "memcpy_peer", false },
	{ CUPTI_ACTIVITY_KIND_MEMSET, "memset", false },
	{ CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronization", false },
	{ CUPTI_ACTIVITY_KIND_CUDA_EVENT, "cuda_event", false },
	{ CUPTI_ACTIVITY_KIND_MEMORY2, "allocation", false },
	{ CUPTI_ACTIVITY_KIND_MEMORY_POOL, "memory_pool", false },
	{ CUPTI_ACTIVITY_KIND_GRAPH_TRACE, "graph_launch", false },
	{ CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", false },
	{ CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "external_correlation", false },
};

/*
 * SYNCHRONIZATION and CUDA_EVENT, each alone, make every CUDA call more expensive: +4 ms on a step of eager PyTorch of 20 ms. So
 * they are asked for explicitly; who waited how long is known from the calls anyway.
 */
static bool kind_wanted(CUpti_ActivityKind kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		return self.wanted.sync;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		return self.wanted.memory;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return self.wanted.graphs == SETTING_GRAPHS_LAUNCH;
	default:
		return true;
	}
}

static const char *result_text(CUptiResult result)
{
	const char *text = NULL;

	return self.cupti.GetResultString(result, &text) == CUPTI_SUCCESS && text ? text
										  : "unknown error";
}

/* --- subscription --- */

static void set_attribute(CUpti_ActivityAttribute attribute, const void *value, size_t size)
{
	CUptiResult result =
		self.cupti.ActivitySetAttribute(attribute, &size, (void *)(uintptr_t)value);

	if (result != CUPTI_SUCCESS)
		log_line("cuptiActivitySetAttribute(%d): %s", (int)attribute, result_text(result));
}

/* What has to be said before CUPTI makes its first context. */
static void set_attributes(void)
{
	size_t device_bytes = DEVICE_BUFFER_BYTES;
	uint8_t zeroed = 1;

	if (self.cupti.SetThreadIdType)
		self.cupti.SetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	set_attribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, &device_bytes, sizeof(device_bytes));
	set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &zeroed, sizeof(zeroed));
}

static void note_cupti(enum capability_state state, const char *what, const char *why)
{
	capability_note("cupti", state, "trace", state == capability_state_on ? "trace" : "none",
			"%s%s", what, why);
}

static bool subscribe(void)
{
	char other[128];
	CUptiResult result =
		api_calls_subscribe(&self.cupti, &self.subscriber, other, sizeof(other));

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		capability_note("cupti", capability_state_unavailable, "trace", "none",
				"another tool holds CUPTI in this process%s%s; stop it, or record "
				"without it",
				other[0] ? ": " : "", other);
	else if (result != CUPTI_SUCCESS)
		note_cupti(capability_state_unavailable, "cuptiSubscribe: ", result_text(result));
	if (result != CUPTI_SUCCESS)
		return false;
	set_attributes();
	result = self.cupti.ActivityRegisterCallbacks(
		buffers_on_request, (CUpti_BuffersCallbackCompleteFunc)buffers_on_complete);
	if (result != CUPTI_SUCCESS) {
		note_cupti(capability_state_unavailable,
			   "cuptiActivityRegisterCallbacks: ", result_text(result));
		self.cupti.Unsubscribe(self.subscriber);
		return false;
	}
	if (self.wanted.graphs == SETTING_GRAPHS_LAUNCH)
		capability_note("graph_node", capability_state_off, NULL, NULL, "not requested");
	else if (graph_nodes_start(&self.cupti, self.subscriber))
		capability_note("graph_node", capability_state_on, "callbacks", "callbacks", "%s",
				"");
	else
		capability_note("graph_node", capability_state_unavailable, "callbacks", "none",
				"this CUPTI does not report nodes");
	self.subscribed = true;
	return true;
}

static void enable_kinds(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		CUptiResult result;

		if (!kind_wanted(kinds[i].kind)) {
			capability_note(kinds[i].name, capability_state_off, NULL, NULL,
					"not requested");
			continue;
		}
		result = self.cupti.ActivityEnable(kinds[i].kind);
		if (result == CUPTI_SUCCESS)
			capability_note(kinds[i].name, capability_state_on, "activity", "activity",
					"%s", "");
		else
			capability_note(kinds[i].name, capability_state_unavailable, "activity",
					"none", "cuptiActivityEnable: %s%s", result_text(result),
					kinds[i].essential ? "; there will be no kernels" : "");
	}
}

static void watch_calls(void)
{
	const char *requested = self.wanted.api == SETTING_API_ALL ? "all" : "launches";
	struct api_watched watched = api_calls_watch(&self.cupti, self.subscriber, &self.wanted);

	if (!watched.failed && watched.functions)
		capability_note("api_call", capability_state_on, requested, "callbacks", "%s", "");
	else
		capability_note("api_call",
				watched.functions ? capability_state_degraded
						  : capability_state_unavailable,
				requested, watched.functions ? "some callbacks" : "none",
				"cuptiEnableCallback: %s",
				watched.failed ? result_text(watched.why)
					       : "it knows no function to watch");
}

/* Everything that is wanted is on from here. */
static void enable(void)
{
	if (!self.subscribed && !subscribe())
		return;
	enable_kinds();
	watch_calls();
	api_calls_enable(true);
	self.enabled = true;
}

static void flush(uint32_t flag)
{
	vendor_enter("cuptiActivityFlushAll");
	self.cupti.ActivityFlushAll(flag);
	vendor_leave();
	atomic_store(&self.flushed_ns, clock_monotonic_ns());
}

static bool is_under_way(void)
{
	return atomic_load(&self.launched) > atomic_load(&self.completed);
}

/* What was launched in the window and still runs is waited for, a moment. */
static void flush_tail(void)
{
	uint64_t begun = clock_machine_ns();
	struct timespec t = { .tv_nsec = TAIL_LOOK_NS };

	for (flush(0); is_under_way() && clock_machine_ns() - begun < TAIL_NS; flush(0)) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		collector_moved();
	}
}

/* The window has closed: nothing of ours stays in the program's calls, and CUPTI is free for others. */
static void leave_program(void)
{
	api_calls_enable(false);
	flush_tail();
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		vendor_enter("cuptiActivityDisable");
		if (kind_wanted(kinds[i].kind))
			self.cupti.ActivityDisable(kinds[i].kind);
		vendor_leave();
	}
	flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	vendor_enter("cuptiUnsubscribe");
	self.cupti.Unsubscribe(self.subscriber);
	vendor_leave();
	self.enabled = self.subscribed = false;
}

/* --- start --- */

static void load(const struct source_start *start)
{
	struct error e = { 0 };
	int count;

	if (driver_load(&self.driver, &e) < 0 ||
	    cupti_load(&self.cupti, secure_getenv("PITOT_CUPTI"), &e) < 0) {
		note_cupti(capability_state_unavailable, e.text, "");
		return;
	}
	if (!buffers_start()) {
		note_cupti(capability_state_unavailable, "no memory for activity buffers", "");
		return;
	}
	self.late = start->late && self.driver.DeviceGetCount(&count) == CUDA_SUCCESS;
	if (!subscribe())
		return;
	capability_note(
		"cupti", capability_state_on, "trace", "trace", "version %u from %s%s",
		self.cupti.version, self.cupti.path,
		self.cupti.version < CUPTI_13_1
			? ""
			: "; fields of its records that are newer than this Pitot are left out");
	clock_pairs_read(&self.cupti); /* nothing of the command is older than the first pair */
	if (start->open)
		enable();
	atomic_store(&self.open, start->open);
	atomic_store(&self.usable, true);
}

static void start(const struct source_start *how)
{
	if (!how->with_cuda || !how->wanted->cuda || atomic_load(&self.usable))
		return;
	self.wanted = *how->wanted;
	self.since_ns = clock_monotonic_ns();
	load(how);
}

static void begin(struct writer *w, const struct source_start *how)
{
	activity_reset();
	correlation_latest = 0;
	memset(&self.reported, 0, sizeof(self.reported));
	memset(self.known, 0, sizeof(self.known));
	self.devices_written = self.failed = false;
	self.last_call = 0;
	atomic_store(&self.launched, 0);
	atomic_store(&self.completed, 0);
	if (self.late)
		rows_loss(w, loss_reason_late_start, 1, how->start_ns, clock_monotonic_ns(),
			  "CUDA was initialized before: contexts, streams, modules and graphs of "
			  "that time are not known");
}

/* --- the vendor thread --- */

static void read_clock(void)
{
	bool known;

	vendor_enter("cuptiGetTimestamp");
	known = clock_pairs_read(&self.cupti);
	vendor_leave();
	if (known || self.clock_noted)
		return;
	self.clock_noted = true;
	capability_note(
		"clock", capability_state_degraded, "CUPTI's clock", "CLOCK_REALTIME",
		"cuptiGetTimestamp gives no time: when GPU work began, relative to the calls, "
		"is less certain");
}

static void read_drops(void)
{
	size_t dropped = 0;

	vendor_enter("cuptiActivityGetNumDroppedRecords");
	if (self.cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_SUCCESS)
		atomic_fetch_add(&self.dropped, dropped);
	vendor_leave();
}

static void read_devices(void)
{
	vendor_enter("cuDeviceGetCount");
	devices_read(&self.driver);
	vendor_leave();
}

static uint64_t vendor(unsigned reasons, uint64_t now_ns)
{
	bool exits = reasons & VENDOR_EXIT,
	     open = !(reasons & VENDOR_CLOSE) && atomic_load(&self.open);

	(void)now_ns;
	if (!reasons || !atomic_load(&self.usable) || api_calls_fatal())
		return UINT64_MAX;
	if (open && !self.enabled && !exits)
		enable();
	if (!open && self.enabled && !exits) {
		leave_program();
	} else if (self.enabled && reasons != VENDOR_CLOCK) {
		flush(exits ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
		read_drops();
	}
	if ((reasons & VENDOR_CLOSE) && self.subscribed) {
		self.cupti.Unsubscribe(self.subscriber);
		self.subscribed = false;
	}
	read_clock(); /* after the records that were handed over */
	read_devices();
	return UINT64_MAX;
}

/* --- the collector's thread --- */

static void window(const struct settings *wanted, struct writer *w)
{
	(void)w;
	if (wanted && !self.enabled)
		self.wanted = *wanted;
	if (atomic_exchange(&self.open, wanted != NULL) != (wanted != NULL))
		vendor_thread_ask(VENDOR_FLUSH);
}

/* After a fatal error nothing more comes, and no function of CUPTI may be called. True when there was one. */
static bool has_failed(struct writer *w)
{
	char text[256];

	if (!api_calls_fatal())
		return false;
	if (self.failed)
		return true;
	self.failed = true;
	snprintf(text, sizeof(text), "CUPTI broke down while recording%s%s",
		 api_calls_fatal_text()[0] ? ": " : "", api_calls_fatal_text());
	rows_capability(w, "cupti", capability_state_unavailable, "trace", "none", text);
	rows_loss(w, loss_reason_cupti_failed, 1, self.since_ns, clock_monotonic_ns(),
		  api_calls_fatal_text());
	return true;
}

/*
 * Times are converted with the pairs of clocks around them, so one is read after the records in hand; a clock that was set shows in
 * it. A vendor thread that hangs is not waited for.
 */
static bool is_clock_read(struct writer *w)
{
	uint64_t completed = buffers_completed_ns(), now = clock_machine_ns();

	if (clock_pairs_drain(w) >= completed) {
		self.clock_round = 0;
		return true;
	}
	if (!self.clock_round) {
		self.clock_round = vendor_thread_ask(VENDOR_CLOCK);
		self.clock_asked_ns = now;
	}
	if (!vendor_thread_done(self.clock_round) && now - self.clock_asked_ns < CLOCK_WAIT_NS)
		return false;
	self.clock_round = 0;
	clock_pairs_drain(w);
	return true;
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	struct full_buffer full;
	uint64_t before = activity_counts()->records, records;

	if (!atomic_load(&self.usable) || has_failed(w))
		return 0;
	if (!self.devices_written)
		self.devices_written = devices_write(w);
	if (!is_clock_read(w))
		return 1;
	while (buffers_take_full(&full)) {
		if (api_calls_take_module_unloaded())
			kernel_configs_forget();
		activity_decode(&self.cupti, w, full.bytes, full.valid);
		buffers_give_back(&full);
	}
	records = activity_counts()->records - before;
	atomic_store(&self.completed, activity_counts()->launched);
	activity_until(atomic_load(&self.open) ? UINT64_MAX : self.last_call);
	if (records)
		self.active_ns = now;
	return records;
}

/* Differences of the counters since the last call become loss rows. */
static void write_losses(struct writer *w, uint64_t now)
{
	const struct activity_counts *c = activity_counts();
	struct buffer_counts b;

	rows_loss(w, loss_reason_no_time, c->no_time - self.reported.no_time, self.since_ns, now,
		  "activity records");
	rows_loss(w, loss_reason_reversed_time, c->reversed_time - self.reported.reversed_time,
		  self.since_ns, now, "activity records");
	rows_loss(w, loss_reason_incomplete_record, c->incomplete - self.reported.incomplete,
		  self.since_ns, now, "activity records");
	rows_loss(w, loss_reason_unknown_record, c->unknown - self.reported.unknown, self.since_ns,
		  now, "activity records");
	rows_loss(w, loss_reason_unreadable_buffer, c->unreadable - self.reported.unreadable,
		  self.since_ns, now, "activity records");
	self.reported = *c;
	rows_loss(w, loss_reason_clock_step, cupti_clock_steps(), self.since_ns, now,
		  "CUPTI's clock");
	buffers_counts(&b);
	rows_loss_more(w, loss_reason_no_buffer, b.refused, &self.refused_reported, self.since_ns,
		       now, "requests of CUPTI for a buffer");
	rows_loss_more(w, loss_reason_cupti_dropped, atomic_load(&self.dropped),
		       &self.dropped_reported, self.since_ns, now, "activity records");
	rows_cost(w, cost_kind_buffer_request, self.since_ns, now,
		  b.requests - self.requests_reported, b.request_ns - self.request_ns_reported);
	self.requests_reported = b.requests;
	self.request_ns_reported = b.request_ns;
	self.since_ns = now;
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	(void)since_ns;
	if (atomic_load(&self.usable) && !has_failed(w))
		write_losses(w, now);
}

static bool unfinished(uint64_t now)
{
	uint64_t quiet = now - self.active_ns;

	if (!atomic_load(&self.usable) || !atomic_load(&self.open) || !self.active_ns)
		return false;
	if (quiet < GRACE_NS)
		return true;
	if (!is_under_way() || quiet > LOST_NS)
		return false;
	return quiet < SLOW_NS || now - atomic_load(&self.flushed_ns) >= NS_PER_S;
}

/* Says once which function an id is. Returns its kind. */
static enum api_kind write_function(struct writer *w, uint32_t function)
{
	unsigned slot = (function * 2654435761u) >> 23 /* 512 slots */;
	struct row_api_function row = { .id = function };
	enum api_kind kind;
	const char *name;

	if (self.known[slot] == function) {
		writer_api_function(w, function, NULL);
		return self.known_kind[slot];
	}
	name = api_function_name(function, &kind);
	row.name = rows_text(w, name ? name : "?");
	row.kind = (uint8_t)kind;
	self.known[slot] = function;
	self.known_kind[slot] = (uint8_t)kind;
	writer_api_function(w, function, &row);
	return kind;
}

static void count_launch(enum api_kind kind, int32_t result)
{
	bool single = kind == api_kind_launch || (kind == api_kind_graph_launch &&
						  self.wanted.graphs == SETTING_GRAPHS_LAUNCH);

	if (single && !result)
		atomic_fetch_add_explicit(&self.launched, 1, memory_order_relaxed);
}

static uint64_t on_api_call(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	bool has_result = event->flags != 0;
	struct row_api_call row = {
		.start_ns = event->a,
		.end_ns = event->b,
		.function = event->d,
		.thread = r->tid,
		.correlation = correlation_widen(event->c),
		.result = has_result ? (int32_t)ring_slot(r, position + 1)->a : 0,
		.stack = event->e,
	};

	count_launch(write_function(w, event->d), row.result);
	self.active_ns = MAX(self.active_ns, event->b);
	self.last_call = MAX(self.last_call, row.correlation);
	if (!has_result)
		ROW_MISSING(&row, api_call, result);
	if (!event->e)
		ROW_MISSING(&row, api_call, stack);
	ROW_MISSING(&row, api_call, scope);
	writer_append(w, TABLE_api_call, &row);
	return has_result ? 2 : 1;
}

/* Launches seen and not one kernel record: CUPTI gives nothing without saying so. */
static void watch_for_silence(struct writer *w)
{
	uint64_t launched = atomic_load(&self.launched);

	if (launched >= WATCHDOG_LAUNCHES && activity_counts()->kernels == 0)
		rows_loss(w, loss_reason_missing_kernels, launched, self.wanted.start_ns,
			  clock_monotonic_ns(),
			  "kernel launches were seen, but CUPTI gave no kernel records");
}

/* Calls from here on are not recorded; what CUPTI has is. */
static void stop(struct writer *w)
{
	(void)w;
	api_calls_enable(false);
}

static void stopped(struct writer *w)
{
	if (!atomic_load(&self.usable) || has_failed(w))
		return;
	watch_for_silence(w);
	write_losses(w, clock_monotonic_ns());
	if (!self.subscribed)
		atomic_store(&self.usable, false); /* the next session subscribes anew */
}

static void after_fork(void)
{
	memset(&self, 0, sizeof(self));
	api_calls_enable(false);
	buffers_after_fork();
	activity_reset();
	clock_pairs_reset();
	devices_reset();
}

const struct source cuda_source = {
	.name = "cuda",
	.start = start,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.unfinished = unfinished,
	.vendor = vendor,
	.stop = stop,
	.stopped = stopped,
	.after_fork = after_fork,
	.handlers = { { RING_API_CALL, on_api_call }, { RING_GRAPH_NODE, graph_nodes_event } },
	.handler_count = 2,
};
