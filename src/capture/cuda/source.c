#include "capture/cuda/source.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "capture/collector.h"
#include "capture/cuda/activity.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/cupti_clock.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/cuda/kernel_configs.h"
#include "capture/cuda/records.h"
#include "capture/stack_capture.h"
#include "capture/log.h"
#include "capture/ring.h"
#include "format/rows.h"

#define DEVICE_BUFFER_BYTES (8u << 20) /* for kernels in flight on the GPU; larger: fewer stalls */
#define FLUSH_NS (250 * NS_PER_MS) /* records lie in CUPTI's buffers no longer than this */
#define CLOCK_ROW_NS NS_PER_S
#define WATCHDOG_LAUNCHES 1000u /* that many launches without any kernel record are suspicious */

/* What starting found out; the collector makes rows of it. */
struct note {
	const char *name, *asked, *got;
	enum capability_state state;
	char reason[320];
};

static struct {
	struct settings settings;
	struct cupti cupti;
	struct driver driver;
	CUpti_SubscriberHandle subscriber;
	struct note notes[32];
	atomic_uint note_count;
	unsigned notes_written;
	bool usable; /* subscribed */
	bool on; /* kinds are enabled */
	bool failed; /* CUPTI broke down, and the recording says so */
	bool clock_noted; /* and that CUPTI gives no time */
	int devices; /* whose rows are written */
	uint64_t launches; /* rows of kind launch that returned success */
	uint64_t last_flush_ns, last_clock_row_ns;
	uint64_t requests_reported, request_ns_reported, refused_reported;
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
 * SYNCHRONIZATION and CUDA_EVENT, each alone, make every CUDA call dearer: +4 ms on a step of eager PyTorch of 20 ms. So
 * they are asked for explicitly; who waited how long is known from the calls anyway.
 */
static bool kind_wanted(CUpti_ActivityKind kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		return self.settings.synchronization;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		return self.settings.memory;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return !self.settings.graph_nodes;
	default:
		return true;
	}
}

static void note(const char *name, enum capability_state state, const char *asked, const char *got,
		 const char *format, ...) PRINTF_LIKE(5, 6);
static void note(const char *name, enum capability_state state, const char *asked, const char *got,
		 const char *format, ...)
{
	unsigned n = atomic_load(&self.note_count);
	va_list args;

	if (n >= ARRAY_SIZE(self.notes))
		return;
	self.notes[n] = (struct note){ .name = name, .asked = asked, .got = got, .state = state };
	va_start(args, format);
	vsnprintf(self.notes[n].reason, sizeof(self.notes[n].reason), format, args);
	va_end(args);
	log_line("%s: %s", name, self.notes[n].reason);
	atomic_store(&self.note_count, n + 1);
}

static const char *result_text(CUptiResult result)
{
	const char *text = NULL;

	return self.cupti.GetResultString(result, &text) == CUPTI_SUCCESS && text ? text
										  : "unknown error";
}

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

static void enable_kinds(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		CUptiResult result;

		if (!kind_wanted(kinds[i].kind)) {
			note(kinds[i].name, capability_state_off, NULL, NULL, "not asked for");
			continue;
		}
		result = self.cupti.ActivityEnable(kinds[i].kind);
		if (result == CUPTI_SUCCESS)
			note(kinds[i].name, capability_state_on, "activity", "activity", "%s", "");
		else
			note(kinds[i].name, capability_state_unavailable, "activity", "none",
			     "cuptiActivityEnable: %s%s", result_text(result),
			     kinds[i].essential ? "; there will be no kernels" : "");
	}
	api_calls_enable(true);
	self.on = true;
}

static void disable_kinds(void)
{
	api_calls_enable(false);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		collector_in_vendor(true);
		if (kind_wanted(kinds[i].kind))
			self.cupti.ActivityDisable(kinds[i].kind);
	}
	collector_in_vendor(false);
	self.on = false;
}

static void flush(uint32_t flag)
{
	collector_in_vendor(true);
	self.cupti.ActivityFlushAll(flag);
	collector_in_vendor(false);
}

static void note_calls(void)
{
	const char *asked = self.settings.all_api_calls ? "all" : "launches";
	CUptiResult why;
	unsigned failed, watched = api_calls_watched(&failed, &why);

	if (!failed && watched)
		note("api_call", capability_state_on, asked, "callbacks", "%s", "");
	else
		note("api_call", watched ? capability_state_degraded : capability_state_unavailable,
		     asked, watched ? "some callbacks" : "none", "cuptiEnableCallback: %s",
		     failed ? result_text(why) : "it knows no function to watch");
}

static bool subscribe(void)
{
	char other[128];
	CUptiResult result = api_calls_start(&self.cupti, &self.settings, &self.subscriber, other,
					     sizeof(other));

	if (result == CUPTI_SUCCESS)
		return true;
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		note("cupti", capability_state_unavailable, "trace", "none",
		     "another tool holds CUPTI in this process%s%s; stop it, or record without it",
		     other[0] ? ": " : "", other);
	else
		note("cupti", capability_state_unavailable, "trace", "none", "cuptiSubscribe: %s",
		     result_text(result));
	return false;
}

bool cuda_source_start(const struct settings *settings)
{
	struct error e = { 0 };
	CUptiResult result;

	self.settings = *settings;
	self.since_ns = clock_monotonic_ns();
	if (driver_load(&self.driver, &e) < 0 ||
	    cupti_load(&self.cupti, getenv("PITOT_CUPTI"), &e) < 0) {
		note("cupti", capability_state_unavailable, "trace", "none", "%s", e.text);
		return false;
	}
	if (!buffers_start()) {
		note("cupti", capability_state_unavailable, "trace", "none",
		     "no memory for activity buffers");
		return false;
	}
	stack_capture_start(settings);
	if (!subscribe())
		return false;
	set_attributes();
	result = self.cupti.ActivityRegisterCallbacks(
		buffers_on_request, (CUpti_BuffersCallbackCompleteFunc)buffers_on_complete);
	if (result != CUPTI_SUCCESS) {
		note("cupti", capability_state_unavailable, "trace", "none",
		     "cuptiActivityRegisterCallbacks: %s", result_text(result));
		return false;
	}
	note("cupti", capability_state_on, "trace", "trace", "version %u from %s",
	     self.cupti.version, self.cupti.path);
	note_calls();
	cupti_clock_read(&self.cupti); /* nothing of the command is older than the first pair */
	if (!settings->graph_nodes)
		note("graph_node", capability_state_off, NULL, NULL, "not asked for");
	else if (graph_nodes_start(&self.cupti, self.subscriber))
		note("graph_node", capability_state_on, "callbacks", "callbacks", "%s", "");
	else
		note("graph_node", capability_state_unavailable, "callbacks", "none",
		     "this CUPTI says nothing of nodes");
	self.usable = true;
	if (settings_window(settings, clock_monotonic_ns(), NULL))
		enable_kinds();
	return true;
}

void cuda_source_window(bool on, struct writer *w)
{
	if (!self.usable || on == self.on)
		return;
	if (on) {
		enable_kinds();
		return;
	}
	disable_kinds();
	flush(0);
	cuda_source_collect(w);
}

static void write_notes(struct writer *w)
{
	unsigned n = atomic_load(&self.note_count);

	for (; self.notes_written < n; self.notes_written++) {
		const struct note *x = &self.notes[self.notes_written];

		rows_capability(w, x->name, x->state, x->asked, x->got,
				x->reason[0] ? x->reason : NULL);
	}
}

/* After a fatal error nothing more comes, and no function of CUPTI may be called. True when there was one. */
static bool has_failed(struct writer *w)
{
	char text[256];
	uint64_t now;

	if (!api_calls_fatal())
		return false;
	if (self.failed)
		return true;
	self.failed = true;
	now = clock_monotonic_ns();
	snprintf(text, sizeof(text), "CUPTI broke down while recording%s%s",
		 api_calls_fatal_text()[0] ? ": " : "", api_calls_fatal_text());
	rows_capability(w, "cupti", capability_state_unavailable, "trace", "none", text);
	rows_loss(w, loss_reason_cupti_failed, 1, self.since_ns, now, api_calls_fatal_text());
	return true;
}

static void read_clock(struct writer *w)
{
	bool known;

	collector_in_vendor(true);
	known = cupti_clock_read(&self.cupti);
	collector_in_vendor(false);
	if (known || self.clock_noted)
		return;
	self.clock_noted = true;
	rows_capability(
		w, "clock", capability_state_degraded, "CUPTI's clock", "CLOCK_REALTIME",
		"cuptiGetTimestamp gives no time: how GPU work lies to the calls is less certain");
}

uint64_t cuda_source_collect(struct writer *w)
{
	struct full_buffer full;
	uint64_t before = activity_counts()->records;

	write_notes(w);
	if (!self.usable || has_failed(w))
		return 0;
	if (api_calls_take_module_unloaded())
		kernel_configs_forget();
	if (!buffers_take_full(&full))
		return 0;
	read_clock(w);
	if (!self.devices) {
		collector_in_vendor(true);
		self.devices = devices_write(&self.driver, w);
		collector_in_vendor(false);
	}
	do {
		activity_decode(&self.cupti, w, full.bytes, full.valid);
		buffers_give_back(&full);
	} while (buffers_take_full(&full));
	return activity_counts()->records - before;
}

/* Differences of the counters since the last call become loss rows. */
static void write_losses(struct writer *w, uint64_t now)
{
	const struct activity_counts *c = activity_counts();
	struct buffer_counts b;
	size_t dropped = 0;

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
	collector_in_vendor(true);
	if (self.cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped) != CUPTI_SUCCESS)
		dropped = 0;
	collector_in_vendor(false);
	rows_loss(w, loss_reason_cupti_dropped, dropped, self.since_ns, now, "activity records");
	rows_cost(w, cost_kind_buffer_request, self.since_ns, now,
		  b.requests - self.requests_reported, b.request_ns - self.request_ns_reported);
	self.requests_reported = b.requests;
	self.request_ns_reported = b.request_ns;
	self.since_ns = now;
}

void cuda_source_periodic(struct writer *w, uint64_t now)
{
	if (!self.usable || has_failed(w))
		return;
	if (self.on && now - self.last_flush_ns >= FLUSH_NS) {
		flush(0);
		cuda_source_collect(w);
		self.last_flush_ns = now;
	}
	write_losses(w, now);
	read_clock(w);
	if (now - self.last_clock_row_ns >= CLOCK_ROW_NS) {
		uint64_t t = 0;
		bool ok;

		collector_in_vendor(true);
		ok = self.cupti.GetTimestamp(&t) == CUPTI_SUCCESS;
		collector_in_vendor(false);
		rows_clock(w, ok ? t : 0);
		self.last_clock_row_ns = now;
	}
}

const char *const *cuda_source_gpus(unsigned *count)
{
	*count = (unsigned)self.devices;
	return devices_pci();
}

/* Says once which function an id is; the launches among them are counted. */
static void write_function(struct writer *w, uint32_t function)
{
	unsigned slot = (function * 2654435761u) >> 23 /* 512 slots */;
	struct row_api_function row = { .id = function };
	enum api_kind kind;
	const char *name;

	if (self.known[slot] != function) {
		collector_in_vendor(true);
		name = api_function_name(&self.cupti, function, &kind);
		collector_in_vendor(false);
		row.name = rows_text(w, name ? name : "?");
		row.kind = (uint8_t)kind;
		self.known[slot] = function;
		self.known_kind[slot] = (uint8_t)kind;
		writer_api_function(w, function, &row);
	} else {
		writer_api_function(w, function, NULL);
	}
	self.launches += self.known_kind[slot] == api_kind_launch;
}

void cuda_source_api_call(struct writer *w, uint32_t tid, const struct ring_event *event,
			  int32_t result, bool has_result)
{
	struct row_api_call row = {
		.start_ns = event->a,
		.end_ns = event->b,
		.function = event->d,
		.thread = tid,
		.correlation = event->c,
		.result = result,
		.stack = event->e,
	};

	write_function(w, event->d);
	if (!has_result)
		ROW_MISSING(&row, api_call, result);
	if (!event->e)
		ROW_MISSING(&row, api_call, stack);
	ROW_MISSING(&row, api_call, scope);
	writer_append(w, TABLE_api_call, &row);
}

/* Launches seen and not one kernel record: a session of CUPTI that gives nothing without saying so. */
static void watch_for_silence(struct writer *w)
{
	if (self.launches >= WATCHDOG_LAUNCHES && activity_counts()->kernels == 0)
		rows_loss(w, loss_reason_missing_kernels, self.launches, self.settings.start_ns,
			  clock_monotonic_ns(),
			  "kernel launches were seen, but CUPTI gave no kernel records");
}

void cuda_source_stop(struct writer *w)
{
	write_notes(w);
	if (!self.usable || has_failed(w))
		return;
	if (self.on)
		disable_kinds();
	flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	cuda_source_collect(w);
	watch_for_silence(w);
	write_losses(w, clock_monotonic_ns());
	collector_in_vendor(true);
	self.cupti.Unsubscribe(self.subscriber);
	collector_in_vendor(false);
	self.usable = false;
}

void cuda_source_after_fork(void)
{
	memset(&self, 0, sizeof(self));
	api_calls_enable(false);
	buffers_after_fork();
	activity_reset();
	cupti_clock_reset();
}
