/*
 * amd_source.c: records HIP through ROCprofiler-SDK: calls from callbacks (amd_calls.h), work from
 * a buffer (amd_work.h). What is stated of the SDK's behaviour is read in its headers and public
 * source, and held by a stand-in: it has not been run on AMD hardware yet.
 */
#include "capture/core/source.h"

#include "base/clock.h"
#include "capture/amd/amd_boottime.h"
#include "capture/amd/amd_calls.h"
#include "capture/amd/amd_counters.h"
#include "capture/amd/amd_devices.h"
#include "capture/amd/amd_kernels.h"
#include "capture/amd/amd_sdk.h"
#include "capture/amd/amd_work.h"
#include "capture/core/capability_notes.h"
#include "capture/core/refusals.h"
#include "format/rows.h"

/* Work is under way if it was launched and has not come; see cuda_source.c. */
#define GRACE_NS (2 * NS_PER_S)
#define LOST_NS (60 * NS_PER_S)

static struct {
	atomic_bool usable; /* the SDK has been asked for this session */
	atomic_bool open; /* a window is open */
	atomic_bool memory; /* allocations are recorded in it */
	/* the collector's */
	bool devices_written;
	uint64_t active_ns, since_ns, begun_ns, work_before;
	struct amd_work_counts reported;
	uint64_t kernels_reported, values_reported;
} self;

static void note_refused(const char *why)
{
	refusal_set(&refusals[REFUSAL_LIBRARY], "%s", why);
	capability_note(feature_rocm, capability_state_unavailable, "trace", "none", "%s", why);
}

static void note_limits(const struct settings *wanted)
{
	capability_note(feature_context, capability_state_unavailable, NULL, NULL,
			"ROCm has no contexts");
	if (!amd_devices_count())
		capability_note(feature_device, capability_state_unavailable, NULL, NULL,
				"ROCprofiler-SDK sees no GPU: `pitot doctor` checks /dev/kfd");
	if (!amd_has_graphs())
		capability_note(feature_graph_node, capability_state_degraded, "nodes", "launches",
				"ROCprofiler-SDK %s does not tell graphs apart, 1.3 does",
				amd_version());
	if (wanted->graphs == SETTING_GRAPHS_LAUNCH)
		capability_note(feature_graph_launch, capability_state_unavailable, "launch",
				"node", "of AMD's GPUs, the nodes of graphs are recorded");
	if (wanted->memory && !amd_has_memory())
		capability_note(feature_allocation, capability_state_unavailable, "allocations",
				"none", "ROCprofiler-SDK %s refuses to record them", amd_version());
}

/* Without a note: the process has not used HIP, or its machine has no ROCm. */
static void extend(const struct source_start *how)
{
	enum amd_state state = amd_state();

	if (!(how->vendors & VENDOR_BIT(amd)) || !settings_trace_gpus(how->wanted) ||
	    state == AMD_ABSENT || atomic_load(&self.usable))
		return;
	if (state == AMD_REFUSED)
		note_refused(amd_refusal());
	else if (state == AMD_ENDED)
		note_refused("ROCprofiler-SDK has ended in this process");
	if (state != AMD_READY)
		return;
	capability_note(feature_rocm, capability_state_on, "trace", "trace",
			"ROCprofiler-SDK %s; not yet run on AMD hardware", amd_version());
	note_limits(how->wanted);
	amd_counters_start(how->wanted);
	if (!amd_calls_watched())
		capability_note(feature_api_call, capability_state_unavailable, "launches", "none",
				"ROCprofiler-SDK names no function of HIP");
	atomic_store(&self.usable, true);
	atomic_store(&self.open, how->open);
	atomic_store(&self.memory, how->wanted->memory);
	if (how->open && !amd_record(true, how->wanted->memory))
		note_refused(amd_refusal());
}

static void begin(struct writer *w, const struct source_start *how)
{
	struct amd_work_counts c = amd_work_counts();

	(void)w;
	(void)how;
	amd_calls_begin();
	amd_work_begin();
	amd_counters_begin();
	self.devices_written = false;
	self.active_ns = 0;
	self.since_ns = clock_monotonic_ns();
	/* The SDK's threads may have counted these before this thread began. */
	c.unknown = self.reported.unknown;
	c.dropped = self.reported.dropped;
	self.reported = c;
	self.work_before = c.work;
	self.begun_ns = clock_monotonic_ns();
	amd_boottime_read();
}

static void window(const struct settings *settings, struct writer *w)
{
	(void)w;
	atomic_store(&self.open, settings && settings_trace_gpus(settings));
	atomic_store(&self.memory, settings && settings->memory);
}

static uint64_t collect(struct writer *w, uint64_t now_ns)
{
	(void)now_ns;
	if (!atomic_load(&self.usable))
		return 0;
	amd_boottime_read();
	if (!self.devices_written)
		amd_devices_write(w);
	self.devices_written = true;
	return 0;
}

static uint64_t vendor(unsigned reasons, uint64_t now_ns)
{
	bool closes = reasons & VENDOR_CLOSE;

	(void)now_ns;
	if (!atomic_load(&self.usable))
		return UINT64_MAX;
	if (!(reasons & VENDOR_EXIT))
		amd_record(atomic_load(&self.open) && !closes, atomic_load(&self.memory));
	if (reasons & (VENDOR_FLUSH | VENDOR_CLOSE | VENDOR_EXIT))
		amd_flush();
	if (closes)
		atomic_store(&self.usable, false);
	return UINT64_MAX;
}

static bool unfinished(uint64_t now_ns)
{
	uint64_t quiet = now_ns - self.active_ns;

	if (!atomic_load(&self.usable) || !self.active_ns)
		return false;
	return quiet < GRACE_NS || (amd_calls_launched() > self.reported.work && quiet < LOST_NS);
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now_ns)
{
	struct amd_work_counts c = amd_work_counts();

	(void)since_ns;
#define LOSS(reason, member, detail)                                                               \
	rows_loss(w, loss_reason_##reason, c.member - self.reported.member, self.since_ns, now_ns, \
		  detail)
	LOSS(no_time, no_time, "ROCprofiler-SDK's records");
	LOSS(reversed_time, reversed_time, "ROCprofiler-SDK's records");
	LOSS(unknown_record, unknown, "ROCprofiler-SDK's records");
	LOSS(gpu_records_dropped, dropped, "ROCprofiler-SDK's records");
#undef LOSS
	rows_loss_more(w, loss_reason_no_memory, amd_kernels_refused(), &self.kernels_reported,
		       self.since_ns, now_ns, "names of kernels");
	rows_loss_more(w, loss_reason_unknown_record, amd_counters_unknown(), &self.values_reported,
		       self.since_ns, now_ns, "values of counters");
	if (c.no_stream > self.reported.no_stream && !self.reported.no_stream)
		rows_capability(w, feature_stream, capability_state_degraded, "streams", "queues",
				"some work names no stream: it is shown by its hardware queue");
	self.reported = c;
	self.since_ns = now_ns;
}

static uint64_t on_call(struct writer *w, const struct ring *r, uint64_t position)
{
	self.active_ns = clock_monotonic_ns();
	return amd_calls_event(w, r, position);
}

/* Launches that a stream captured into a graph have no work of their own. */
static void stopped(struct writer *w)
{
	uint64_t now = clock_monotonic_ns();

	periodic(w, 0, now);
	if (self.reported.work == self.work_before)
		rows_loss(w, loss_reason_missing_kernels, amd_calls_launched(), self.begun_ns, now,
			  "work was launched, but ROCprofiler-SDK delivered none");
}

static void after_fork(void)
{
	atomic_store(&self.usable, false);
	amd_end();
}

const struct source amd_source = {
	.name = "amd",
	.start = extend,
	.extend = extend,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.unfinished = unfinished,
	.vendor = vendor,
	.stopped = stopped,
	.after_fork = after_fork,
	.handlers = { { RING_HIP_CALL, on_call },
		      { RING_HIP_WORK, amd_work_event },
		      { RING_HIP_VALUE, amd_counters_event } },
	.handler_count = 3,
};
