/*
 * cuda_source.c: records CUDA through CUPTI: GPU work from activity records (activity.h), calls
 * from callbacks (api_calls.h). CUPTI is called on three threads: the one that initializes CUDA
 * (start), the vendor thread (flushes, windows), and the collector's, which only iterates over
 * buffers that CUPTI has handed back.
 */
#include "capture/core/source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "capture/app/app_external.h"
#include "capture/core/capability_notes.h"
#include "capture/core/refusals.h"
#include "capture/cuda/activity.h"
#include "capture/cuda/activity_rows.h"
#include "capture/cuda/activity_kinds.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/attributes.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/call_polls.h"
#include "capture/cuda/clock_pairs.h"
#include "capture/cuda/correlation.h"
#include "capture/cuda/cupti_clock.h"
#include "capture/cuda/cupti_gap.h"
#include "capture/cuda/devices.h"
#include "capture/cuda/graph_nodes.h"
#include "capture/cuda/hub/hub.h"
#include "capture/cuda/kernel_configs.h"
#include "capture/cuda/launch_names.h"
#include "capture/cuda/records.h"
#include "capture/cuda/client/client_proxy.h"
#include "capture/core/vendor_thread.h"
#include "format/rows.h"

#define WATCHDOG_LAUNCHES 1000u /* number of launches that should have had a kernel record */

/*
 * Work is under way if calls launched it and its records have not come yet. This is uncertain: a
 * graph's last node is unknown, and a launch that a stream captured never becomes work. So GRACE_NS
 * after the last call or record, work counts as done if the numbers of launches and records agree;
 * after SLOW_NS the collector flushes only once a second, and after LOST_NS not at all.
 */
#define GRACE_NS (2 * NS_PER_S)
#define SLOW_NS (10 * NS_PER_S)
#define LOST_NS (60 * NS_PER_S)

#define CLOCK_WAIT_NS (PITOT_SLOWNESS * 20 * NS_PER_MS)

/* When a window closes, work under way gets this much time to end. */
#define TAIL_NS NS_PER_S
#define TAIL_POLL_NS (10 * NS_PER_MS)

static pthread_mutex_t requested_lock = PTHREAD_MUTEX_INITIALIZER; /* held only for a copy */

static struct {
	/* of all sessions together; written by the collector under requested_lock */
	struct settings requested;
	struct settings applied; /* the settings that CUPTI has now; the vendor thread's */
	struct cupti cupti;
	struct driver driver;
	CUpti_SubscriberHandle subscriber;
	atomic_bool usable; /* CUPTI was loaded and delivers records */
	atomic_bool subscribed;
	atomic_bool dormant; /* subscribed only for an engine's contexts: everything else is off */
	bool enabled; /* the vendor thread's once that runs */
	atomic_int engine; /* that a session requests, whether its window is open or not */
	atomic_bool closed; /* by VENDOR_CLOSE: later rounds only read the clocks */
	atomic_bool closing; /* that round is in progress, perhaps beside the next session */
	/* Another tool came first; tried again until it is gone. Written by start, too. */
	atomic_bool held_by_other;
	bool late; /* CUDA was initialized before the recorder */
	bool has_past; /* CUDA was in use while we were not subscribed; the vendor thread's */
	atomic_bool open; /* a window is open */
	bool clock_noted; /* that CUPTI returns no time; the vendor thread's */
	atomic_uint_fast64_t dropped; /* records that CUPTI reports as dropped */
	atomic_uint_fast64_t flushed_ns;
	bool watches_nodes; /* the vendor thread's */
	atomic_uint_fast64_t opened_ns, closed_ns; /* of struct activity_window */
	atomic_bool under_way; /* work was launched whose records have not come */

	/* the collector's */
	bool failed; /* CUPTI failed, and the recording reports it */
	bool devices_written, late_written;
	bool call_failed; /* one of those that are recorded */
	unsigned clock_round; /* round of the vendor thread that decoding waits for; 0: none */
	uint64_t clock_requested_ns;
	/* lowest and highest correlation id of recorded calls; 0: none */
	uint64_t first_call, last_call;
	uint64_t active_ns;
	uint64_t kernel_calls, graph_calls; /* successful launches of kernels and of graphs */
	uint64_t requests_reported, request_ns_reported, refused_reported, dropped_reported;
	struct activity_counts reported;
	uint64_t since_ns;
} self;

/* --- subscription --- */

static void note_no_cupti(const char *what, const char *why)
{
	refusal_set(&refusals[REFUSAL_LIBRARY], "%s%s", what, why);
	capability_note(feature_cupti, capability_state_unavailable, "trace", "none", "%s%s", what,
			why);
}

static void watch_nodes(void)
{
	bool watches = self.applied.graphs != SETTING_GRAPHS_LAUNCH ||
		       activity_kinds_launch_records_refused();

	if (self.watches_nodes || !watches)
		return;
	self.watches_nodes = true;
	if (graph_nodes_start(&trace_client, &self.cupti))
		capability_note(feature_graph_node, capability_state_on, "callbacks", "callbacks",
				"%s", "");
	else
		capability_note(feature_graph_node, capability_state_unavailable, "callbacks",
				"none", "this CUPTI does not report nodes");
}

/*
 * Attaches the clients of the engine that a session requests beside the trace; they get callbacks
 * from now on. Idempotent. Must be called on the subscribing thread or on the vendor thread.
 */
static void attach_engine(bool late)
{
	if (hub_attach(atomic_load(&self.engine), late))
		api_calls_watch(self.enabled ? &self.applied : NULL);
}

static void note_held(const char *other)
{
	char why[200];

	if (self.held_by_other)
		return;
	self.held_by_other = self.applied.own_profiler != SETTING_OWN_PROFILER_KEEP;
	snprintf(why, sizeof(why), "%s%s; stop it, or record without it", other[0] ? ": " : "",
		 other);
	note_no_cupti("another tool holds CUPTI in this process", why);
}

static void note_cupti(void)
{
	capability_note(
		feature_cupti, capability_state_on, "trace", "trace", "version %u from %s%s",
		self.cupti.version, self.cupti.path,
		self.cupti.version < CUPTI_13_1
			? ""
			: "; fields of its records that are newer than this Pitot are left out");
}

static bool subscribe(void)
{
	char other[128];
	CUptiResult result = self.dormant ? CUPTI_SUCCESS
					  : api_calls_subscribe(&self.cupti, &self.subscriber,
								other, sizeof(other));

	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		note_held(other);
	else if (result != CUPTI_SUCCESS)
		note_no_cupti("cuptiSubscribe: ", cupti_result_text(&self.cupti, result));
	if (result != CUPTI_SUCCESS)
		return false;
	attributes_set(&self.cupti);
	result = self.cupti.ActivityRegisterCallbacks(
		buffers_on_request, (CUpti_BuffersCallbackCompleteFunc)buffers_on_complete);
	if (result != CUPTI_SUCCESS) {
		note_no_cupti("cuptiActivityRegisterCallbacks: ",
			      cupti_result_text(&self.cupti, result));
		if (!self.dormant)
			self.cupti.Unsubscribe(self.subscriber);
		return false;
	}
	activity_share(self.cupti.version);
	self.subscribed = true;
	self.dormant = self.held_by_other = false;
	self.watches_nodes = false;
	graph_nodes_watch_graphs(&trace_client);
	if (self.late)
		graph_nodes_graphs_unseen();
	if (self.applied.graphs == SETTING_GRAPHS_LAUNCH)
		capability_note(feature_graph_node, capability_state_off, NULL, NULL,
				"not requested");
	watch_nodes();
	attach_engine(self.has_past);
	return true;
}

static void apply_kinds(void)
{
	activity_kinds_apply(&self.cupti, &self.applied, self.has_past);
	watch_nodes();
}

static void watch_calls(void)
{
	const char *requested = self.applied.api == SETTING_API_ALL ? "all" : "launches";
	struct api_watched watched = api_calls_watch(&self.applied);

	if (!watched.failed && watched.functions)
		capability_note(feature_api_call, capability_state_on, requested, "callbacks", "%s",
				"");
	else if (watched.failed || !self.enabled)
		capability_note(feature_api_call,
				watched.functions ? capability_state_degraded
						  : capability_state_unavailable,
				requested, watched.functions ? "some callbacks" : "none",
				"cuptiEnableCallback: %s",
				watched.failed ? cupti_result_text(&self.cupti, watched.why)
					       : "it knows no function to watch");
}

/* Enables everything that the sessions request. */
static void enable(void)
{
	if ((!self.subscribed || self.dormant) && !subscribe())
		return;
	activity_kinds_note_unwanted(&self.applied);
	/* An engine's kernels may be recorded already. */
	atomic_store(&self.opened_ns, hub_recorded_kinds() ? clock_monotonic_ns() : 0);
	atomic_store(&self.closed_ns, UINT64_MAX);
	apply_kinds();
	watch_calls();
	api_calls_enable(true);
	self.enabled = true;
}

/* Follows the sessions' current settings. */
static void apply_requested(void)
{
	bool changed;

	pthread_mutex_lock(&requested_lock);
	changed = memcmp(&self.applied, &self.requested, sizeof(self.requested)) != 0;
	self.applied = self.requested;
	pthread_mutex_unlock(&requested_lock);
	if (!self.enabled) {
		enable();
		return;
	}
	apply_kinds();
	if (changed)
		watch_calls();
}

/* Returns false if CUPTI must not be flushed now. */
static bool flush(uint32_t flag)
{
	if (!hub_hold())
		return false;
	vendor_enter("cuptiActivityFlushAll");
	self.cupti.ActivityFlushAll(flag);
	vendor_leave();
	hub_let();
	atomic_store(&self.flushed_ns, clock_monotonic_ns());
	return true;
}

/* Waits briefly for work that was launched in the window and is still running. */
static void flush_tail(void)
{
	uint64_t begun = clock_machine_ns();
	struct timespec t = { .tv_nsec = TAIL_POLL_NS };

	for (flush(0); atomic_load(&self.under_way) && clock_machine_ns() - begun < TAIL_NS;
	     flush(0)) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		collector_count_progress();
	}
}

/* What stays on is not on the launch path: contexts, modules, and calls that load modules. */
static void become_dormant(void)
{
	if (self.dormant)
		return;
	vendor_enter("cuptiEnableCallback");
	api_calls_watch(NULL);
	graph_nodes_stop(&trace_client);
	attributes_zeroed(&self.cupti, 0);
	vendor_leave();
	self.dormant = true;
}

/* Stays subscribed while an engine has contexts: it is unknown if CUPTI tolerates leaving then. */
static void unsubscribe(void)
{
	if (hub_detach()) {
		activity_kinds_disable();
		vendor_enter("cuptiUnsubscribe");
		hub_close_window();
		attributes_zeroed(&self.cupti, 0);
		self.cupti.Unsubscribe(self.subscriber);
		hub_unsubscribed();
		vendor_leave();
		self.subscribed = self.dormant = false;
	} else {
		become_dormant();
	}
	self.has_past = true;
	graph_nodes_graphs_unseen(); /* graphs made from now on will not be seen */
}

static void read_clock(void)
{
	bool known;

	if (client_proxy_clock_is_clients())
		return;
	vendor_enter("cuptiGetTimestamp");
	known = clock_pairs_read(&self.cupti);
	vendor_leave();
	if (known || self.clock_noted)
		return;
	self.clock_noted = true;
	capability_note(
		feature_clock, capability_state_degraded, "CUPTI's clock", "CLOCK_REALTIME",
		"cuptiGetTimestamp returns no time: the start of GPU work relative to the calls "
		"is less accurate");
}

/*
 * The window has closed: removes everything of ours from the program's calls, and frees CUPTI for
 * other tools.
 */
static void detach_from_program(void)
{
	api_calls_enable(false);
	atomic_store(&self.closed_ns, clock_monotonic_ns());
	flush_tail();
	activity_kinds_disable();
	vendor_enter("cuptiActivityDisable");
	hub_close_window();
	vendor_leave();
	flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	read_clock(); /* before CUPTI is another tool's */
	unsubscribe();
	self.enabled = false;
}

/* --- start --- */

static void load(const struct source_start *start)
{
	struct error e = { 0 };
	int count;

	/* Loaded only once, because a late round of the vendor thread may be using the tables. */
	if (!self.cupti.path && (driver_load(&self.driver, &e) < 0 ||
				 cupti_load(&self.cupti, secure_getenv("PITOT_CUPTI"), &e) < 0)) {
		self.cupti.path = NULL;
		note_no_cupti(e.text, "");
		return;
	}
	hub_use(&self.cupti);
	client_proxy_wrap(&self.cupti, start->wanted);
	if (!buffers_start()) {
		note_no_cupti("no memory for activity buffers", "");
		return;
	}
	atomic_store(&self.closed, false);
	self.late = start->late && self.driver.DeviceGetCount(&count) == CUDA_SUCCESS;
	self.has_past |= self.late;
	self.held_by_other = false;
	if (!subscribe() && !self.held_by_other)
		return;
	if (!self.held_by_other)
		note_cupti();
	read_clock(); /* so that no event of the command is older than the first pair */
	if (start->open && self.subscribed)
		enable();
	cupti_gap(start->open && !self.subscribed ? self.since_ns : 0);
	atomic_store(&self.open, start->open);
	atomic_store(&self.usable, true);
}

/* Excludes CUPTI's requests between sessions from this session's counts. */
static void skip_requests(void)
{
	struct buffer_counts b;

	buffers_counts(&b);
	self.refused_reported = b.refused;
	self.requests_reported = b.requests;
	self.request_ns_reported = b.request_ns;
}

static void extend(const struct source_start *how)
{
	if (!(how->vendors & VENDOR_BIT(nvidia)) || !settings_trace_gpus(how->wanted))
		return;
	atomic_store(&self.engine, how->wanted->engine);
	if (atomic_load(&self.usable) && api_calls_fatal())
		note_no_cupti("CUPTI broke down while recording", "");
	if (atomic_load(&self.usable))
		return;
	pthread_mutex_lock(&requested_lock);
	self.requested = self.applied = *how->wanted;
	pthread_mutex_unlock(&requested_lock);
	self.since_ns = clock_monotonic_ns();
	atomic_store(&self.closed_ns, 0);
	skip_requests();
	load(how);
}

/* Lets the next session start afresh, if this one has released CUPTI. */
static void release(void)
{
	if (!atomic_load(&self.closing) && (!self.subscribed || self.dormant))
		atomic_store(&self.usable, false);
}

static void start(const struct source_start *how)
{
	release(); /* if the session before was late */
	if ((how->vendors & VENDOR_BIT(nvidia)) && settings_trace_gpus(how->wanted) &&
	    atomic_load(&self.usable))
		note_no_cupti("the previous recording has not left CUPTI yet",
			      "; record again when its hanging call has ended");
	else
		extend(how);
}

static void begin(struct writer *w, const struct source_start *how)
{
	(void)w;
	(void)how;
	activity_reset();
	memset(&self.reported, 0, sizeof(self.reported));
	api_functions_begin();
	self.devices_written = self.late_written = self.failed = self.call_failed = false;
	self.first_call = self.last_call = self.kernel_calls = self.graph_calls = 0;
	atomic_store(&self.under_way, false);
}

/* --- the vendor thread --- */

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

/*
 * Makes CUPTI do what is requested, unless another client has it. Returns whether it has detached
 * from the program.
 */
static bool update_cupti(bool open, bool exits)
{
	bool was_held = self.held_by_other, detaches = self.enabled && !open && !exits;

	if (open && !exits)
		apply_requested();
	if (was_held && !self.held_by_other)
		note_cupti();
	if (detaches)
		detach_from_program();
	if (!exits)
		cupti_gap(open && self.held_by_other ? clock_monotonic_ns() : 0);
	return detaches;
}

static void run_round(unsigned reasons)
{
	bool exits = reasons & VENDOR_EXIT, detached;

	detached = update_cupti(atomic_load(&self.open) && !atomic_load(&self.closed), exits);
	if (self.subscribed && !self.dormant && !exits) {
		attach_engine(self.has_past || api_calls_devices());
		if (self.enabled)
			apply_kinds(); /* the engine may have changed how kernels are recorded */
	}
	if (self.enabled && reasons != VENDOR_CLOCK &&
	    flush(exits ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0))
		read_drops();
	if ((reasons & VENDOR_CLOSE) && self.subscribed && !detached)
		unsubscribe();
	read_clock(); /* after the records that were handed over */
	read_devices();
}

static uint64_t vendor(unsigned reasons, uint64_t now_ns)
{
	bool closes = reasons & VENDOR_CLOSE;

	(void)now_ns;
	client_proxy_update();
	if (!reasons && self.held_by_other)
		reasons = VENDOR_FLUSH; /* to notice when it is free */
	if (!reasons || !atomic_load(&self.usable) || api_calls_fatal())
		return UINT64_MAX;
	if (closes) {
		atomic_store(&self.closing, true);
		atomic_store(&self.closed, true);
	} else if (reasons == VENDOR_FLUSH && atomic_load(&self.closed)) {
		return UINT64_MAX; /* the program's own profiler was late with its flush */
	}
	run_round(reasons);
	if (closes)
		atomic_store(&self.closing, false);
	return UINT64_MAX;
}

/* --- the collector's thread --- */

static void window(const struct settings *settings, struct writer *w)
{
	(void)w;
	if (settings) {
		if (!atomic_load(&self.open))
			self.first_call = 0;
		pthread_mutex_lock(&requested_lock);
		self.requested = *settings;
		pthread_mutex_unlock(&requested_lock);
	}
	atomic_store(&self.open, settings && settings_trace_gpus(settings));
}

/*
 * After a fatal error no more records come, and no function of CUPTI may be called. Returns whether
 * there was one.
 */
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
	rows_capability(w, feature_cupti, capability_state_unavailable, "trace", "none", text);
	rows_loss(w, loss_reason_gpu_runtime_failed, 1, api_calls_fatal_ns(), clock_monotonic_ns(),
		  api_calls_fatal_text());
	return true;
}

/*
 * Times are converted with the clock pairs around them, so a pair must be read after the records
 * were completed; it also reveals a clock that was set. A hanging vendor thread is not waited for.
 */
static bool is_clock_read(struct writer *w)
{
	uint64_t completed = buffers_completed_ns(), now = clock_machine_ns();

	if (clock_pairs_drain(w) >= completed) {
		self.clock_round = 0;
		return true;
	}
	if (!self.clock_round) {
		self.clock_round = vendor_thread_request(VENDOR_CLOCK);
		self.clock_requested_ns = now;
	}
	if (!vendor_thread_done(self.clock_round) && now - self.clock_requested_ns < CLOCK_WAIT_NS)
		return false;
	self.clock_round = 0;
	clock_pairs_drain(w);
	return true;
}

/* For graphs recorded by nodes, the last node is unknown, so only launch records count. */
static void find_work_under_way(void)
{
	const struct activity_counts *c = activity_counts();
	bool graphs = activity_kinds_launch_records() && self.graph_calls > c->graph_launches;

	atomic_store_explicit(&self.under_way, self.kernel_calls > c->launched || graphs,
			      memory_order_relaxed);
}

/* CUDA may have been initialized after the recording began. */
static void write_late(struct writer *w, uint64_t now)
{
	if (self.late && !self.late_written)
		rows_loss(w, loss_reason_late_start, 1, self.since_ns, now,
			  "CUDA was initialized before the recording: earlier modules and graphs "
			  "are unknown");
	self.late_written = true;
}

static uint64_t collect(struct writer *w, uint64_t now)
{
	struct activity_decoded decoded;
	struct full_buffer full;
	uint64_t before = activity_counts()->records, records;

	if (!atomic_load(&self.usable) || has_failed(w))
		return 0;
	find_work_under_way();
	write_late(w, now);
	cupti_gap_write(w);
	if (!self.devices_written)
		self.devices_written = devices_write(w);
	if (!is_clock_read(w))
		return 1;
	activity_set_window(&(struct activity_window){ atomic_load(&self.opened_ns),
						       atomic_load(&self.closed_ns),
						       self.first_call, self.last_call });
	while (buffers_take_full(&full)) {
		if (api_calls_take_module_unloaded())
			kernel_configs_forget();
		client_proxy_copy(full.bytes, full.valid);
		decoded = activity_decode(&self.cupti, w, full.bytes, full.valid, full.slot);
		buffers_give_back(&full, decoded.records, decoded.work_ns);
	}
	records = activity_counts()->records - before;
	find_work_under_way();
	if (records)
		self.active_ns = now;
	return records;
}

/* Writes loss rows for what the counters have gained since the last call. */
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
		       now, "CUPTI's requests for a buffer");
	rows_loss_more(w, loss_reason_gpu_records_dropped, atomic_load(&self.dropped),
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
	if (!atomic_load(&self.under_way) || quiet > LOST_NS)
		return false;
	return quiet < SLOW_NS || now - atomic_load(&self.flushed_ns) >= NS_PER_S;
}

static void count_launch(enum api_kind kind, int32_t result)
{
	if (result)
		return;
	self.kernel_calls += kind == api_kind_launch;
	self.graph_calls += kind == api_kind_graph_launch;
}

static uint64_t on_api_call(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	struct row_api_call row =
		api_call_row(event, event->flags ? ring_slot(r, position + 1) : NULL, r->tid,
			     correlation_widen(event->c, event->a));

	count_launch(api_function_write(w, event->d), row.result);
	self.call_failed |= row.result && row.result != CALL_NOT_READY;
	self.active_ns = MAX(self.active_ns, event->b);
	self.last_call = MAX(self.last_call, row.correlation);
	if (!self.first_call || row.correlation < self.first_call)
		self.first_call = row.correlation;
	writer_append(w, TABLE_api_call, &row);
	if (unlikely(r->externals_open.kinds))
		app_external_write(w, r, row.correlation);
	return event->flags ? 2 : 1;
}

/*
 * Reports launches without a single kernel record: CUPTI can stop delivering without an error.
 * Launches that were captured into graphs have no record of their own.
 */
static void watch_for_silence(struct writer *w)
{
	const struct activity_counts *c = activity_counts();

	if (self.kernel_calls >= WATCHDOG_LAUNCHES && c->kernels + c->graph_launches == 0)
		rows_loss(w, loss_reason_missing_kernels, self.kernel_calls,
			  self.requested.start_ns, clock_monotonic_ns(),
			  "kernels were launched, but CUPTI delivered no kernel records");
}

/* Calls are no longer recorded from here on; records that CUPTI has still are. */
static void stop(struct writer *w)
{
	(void)w;
	api_calls_enable(false);
}

static void stopped(struct writer *w)
{
	if (self.call_failed)
		launch_names_write(w);
	if (!atomic_load(&self.usable) || has_failed(w))
		return;
	watch_for_silence(w);
	write_losses(w, clock_monotonic_ns());
	client_proxy_end(w, setting_own_profiler_names[self.requested.own_profiler]);
	release();
}

static void after_fork(void)
{
	memset(&self, 0, sizeof(self));
	pthread_mutex_init(&requested_lock, NULL);
	api_calls_enable(false);
	activity_kinds_reset();
	buffers_after_fork();
	correlation_reset();
	kernel_configs_after_fork();
	launch_names_after_fork();
	activity_reset();
	clock_pairs_reset();
	devices_reset();
	hub_after_fork();
	client_proxy_after_fork();
}

const struct source cuda_source = {
	.name = "cuda",
	.start = start,
	.extend = extend,
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
