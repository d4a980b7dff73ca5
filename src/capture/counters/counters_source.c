#include "capture/counters/counters_source.h"

#include "capture/counters/counters_shared.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "capture/amd/amd_readings.h"
#include "capture/core/capability_notes.h"
#include "capture/core/vendor_thread.h"
#include "format/rows.h"
#include "pitot/scope.h"
#include "schema/event_words.h"
#include "system/host.h"
#ifndef PITOT_WITHOUT_CUDA
#include "capture/nvml/nvml_gpus.h"
#endif

static struct {
	char directory[4096]; /* of the recording */
	atomic_uint_fast64_t period_ns; /* between readings; 0: no readings */
	atomic_bool all; /* SETTING_SYSTEM_ALL */
	atomic_bool in_windows; /* read only in windows that the program opens */
	atomic_int windows; /* number of open windows */
	atomic_bool all_gpus; /* read every GPU: it is unknown which ones the process uses */
	/* The vendor thread's: */
	uint64_t last_ns;
	bool gpus_off, nvml_off, host_off;
	bool was_open;
	struct host host, process;
	struct counters_lock lock; /* for the machine's counters */
	struct strbuf *why; /* reasons found in this round */
	/* The collector's: */
	uint64_t named[METRIC_END / 64]; /* bit i: counter i has been defined */
	uint64_t seen; /* bit i: GPU i has had a reading */
} self;

/* --- the vendor thread --- */

static void push(void *user, uint32_t id, uint64_t time_ns, int64_t value)
{
	(void)user;
	counters_push(id, COUNTERS_NO_DEVICE, time_ns, value);
}

static void note_absent(void *user, uint32_t id, const char *why)
{
	(void)user;
	metric_add_absent(self.why, "no ", id, why);
}

/* Opens what is not open yet: another process that reads the machine's counters may have ended. */
static void open_host(const struct metric_sink *sink)
{
	if (!self.process.text && host_open(&self.process, HOST_PROCESS, sink) < 0)
		self.host_off = true;
	if (!self.host.text && counters_lock(&self.lock, 1, 0, self.directory, "host") &&
	    host_open(&self.host, HOST_MACHINE, sink) < 0)
		self.host_off = true;
}

static void read_host(uint64_t now_ns)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	const struct metric_sink sink = { .value = push, .absent = note_absent };

	self.why = &why;
	if (!self.host_off)
		open_host(&sink);
	if (self.process.text)
		host_read(&self.process, now_ns, &sink);
	if (self.host.text)
		host_read(&self.host, now_ns, &sink);
	if (why.length)
		capability_note(feature_host_counters, capability_state_degraded, NULL, NULL, "%s",
				strbuf_text(&why));
}

static void read_all(uint64_t now_ns)
{
	bool all = atomic_load(&self.all), all_gpus = atomic_load(&self.all_gpus);

#ifndef PITOT_WITHOUT_CUDA
	if (!self.nvml_off)
		self.nvml_off = !nvml_gpus_read(all ? NVML_ALL : NVML_BASIC, all_gpus,
						self.directory, now_ns);
#else
	self.nvml_off = true;
#endif
	self.gpus_off = !amd_readings_read(all_gpus, self.directory, now_ns) && self.nvml_off;
	if (all)
		read_host(now_ns);
}

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	uint64_t period = atomic_load(&self.period_ns);
	bool open = !atomic_load(&self.in_windows) || atomic_load(&self.windows) > 0;
	bool due = open ? !self.was_open || now - self.last_ns >= period : self.was_open;

	if (!period || (self.gpus_off && !atomic_load(&self.all)))
		return UINT64_MAX;
	self.was_open = open;
	if (!(reasons & (VENDOR_CLOSE | VENDOR_EXIT)) && due) {
		self.last_ns = now;
		read_all(now);
	}
	if (!open)
		return UINT64_MAX;
	return now - self.last_ns < period ? period - (now - self.last_ns) : 0;
}

/* --- the program's threads --- */

static void mark(const char *what, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "%s%s", what, name ? name : "");
	if (name && !text.failed)
		pitot_mark(text.data);
}

static void window_changed(int from, int to)
{
	if (atomic_load(&self.in_windows) && (from > 0) != (to > 0))
		vendor_thread_request(VENDOR_COUNTERS);
}

__attribute__((visibility("default"))) void pitot_system_start(const char *name)
{
	int before = atomic_fetch_add(&self.windows, 1);

	mark(SYSTEM_MARK_START, name);
	window_changed(before, before + 1);
}

__attribute__((visibility("default"))) void pitot_system_stop(const char *name)
{
	int before = atomic_load(&self.windows);

	while (before > 0 && !atomic_compare_exchange_weak(&self.windows, &before, before - 1))
		;
	mark(SYSTEM_MARK_STOP, name);
	window_changed(before, MAX(before - 1, 0));
}

/* --- the collector's thread --- */

static void window(const struct settings *settings, struct writer *w)
{
	(void)w;
	if (settings)
		memcpy(self.directory,
		       *settings->directory ? settings->directory : settings->log_path,
		       sizeof(self.directory));
	atomic_store(&self.all, settings && settings->system == SETTING_SYSTEM_ALL);
	atomic_store(&self.all_gpus,
		     settings && settings->cuda && settings->engine == SETTING_ENGINE_MONITOR);
	atomic_store(&self.in_windows, settings && !settings->counters_always);
	atomic_store(&self.period_ns, settings ? settings->counters_ns : 0);
}

static void begin(struct writer *w, const struct source_start *start)
{
	(void)w;
	(void)start;
	memset(self.named, 0, sizeof(self.named));
	self.seen = 0;
}

_Static_assert((int)METRIC_LEVEL == counter_kind_level && (int)METRIC_SUM == counter_kind_sum &&
		       (int)METRIC_BITS == counter_kind_bits &&
		       (int)METRIC_EVENT == counter_kind_event,
	       "kinds of metrics are recorded as they are");

static void write_counter(struct writer *w, uint32_t id)
{
	const struct metric *m = metric_find(id);
	char room[METRIC_NAME_MAX];
	struct row_counter row = {
		.id = id,
		.name = rows_text(w, metric_name(id, room)),
		.unit = rows_text(w, m->unit),
		.decimals = m->decimals,
		.description = rows_text(w, m->description),
		.kind = (uint8_t)m->kind,
	};

	ROW_MISSING(&row, counter, reading);
	writer_append(w, TABLE_counter, &row);
	self.named[id / 64] |= UINT64_C(1) << id % 64;
}

/* Called before the GPU's first reading is written. */
static void write_gpu(struct writer *w, uint32_t device)
{
	if (device >= 64 || self.seen >> device & 1)
		return;
	self.seen |= UINT64_C(1) << device;
	amd_readings_write(w, device);
#ifndef PITOT_WITHOUT_CUDA
	nvml_gpus_write(w, device);
#endif
}

static uint64_t on_counter(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	struct row_counter_sample row = { .time_ns = event->a,
					  .value = (int64_t)event->b,
					  .counter = event->c,
					  .device = event->d };

	if (!metric_find(event->c))
		return 1;
	if (!(self.named[event->c / 64] >> event->c % 64 & 1))
		write_counter(w, event->c);
	write_gpu(w, event->d);
	ROW_MISSING_IF(&row, counter_sample, device, event->d == COUNTERS_NO_DEVICE);
	ROW_MISSING(&row, counter_sample, thread);
	writer_append(w, TABLE_counter_sample, &row);
	return 1;
}

static void after_fork(void)
{
	host_after_fork(&self.host);
	host_after_fork(&self.process);
	counters_unlock(&self.lock, 1);
	memset(&self, 0, sizeof(self));
	amd_readings_after_fork();
#ifndef PITOT_WITHOUT_CUDA
	nvml_gpus_after_fork();
#endif
}

const struct source counters_source = {
	.name = "counters",
	.begin = begin,
	.window = window,
	.vendor = vendor,
	.after_fork = after_fork,
	.handlers = { { RING_COUNTER, on_counter } },
	.handler_count = 1,
};
