/*
 * pm_sampling.c: while a window is open, each device on which the process has a context samples its
 * counters by itself, and the vendor thread reads the samples. A device is set up when its first
 * context is created or when a window opens, and freed when the window closes, because CUPTI locks
 * the device's clocks meanwhile.
 *
 * The order of the calls: cuptiPmSamplingEnable, …SetConfig, …GetCounterDataSize and …Start; then,
 * whenever an eighth of an image may be full, …CounterDataImageInitialize, …DecodeData,
 * …GetCounterDataInfo and for each sample …CounterDataGetSampleInfo; finally …Stop, the last
 * reading, and …Disable. The configuration must stay in place until then, because CUPTI keeps
 * reading it. At process exit the samples are read and nothing else is done.
 *
 * Samples, like kernels, have CUPTI's timestamps. A row has its sample's start, and its value holds
 * until the next sample. The first sample after a start is skipped, because it began before the
 * start. Lost samples show as a gap in the timestamps: a full GPU buffer drops the newest samples,
 * and after an error the device is set up again.
 */
#include "capture/engines/pm_sampling.h"

#include "capture/engines/engine_notes.h"

#define ENGINE "pm-sampling"

#ifdef PITOT_HAS_PROFILER_HOST

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/core/capability_notes.h"
#include "capture/cuda/api_calls.h"
#include "capture/cuda/clock_pairs.h"
#include "capture/cuda/cupti_clock.h"
#include "capture/cuda/devices.h"
#include "capture/engines/engine_metrics.h"
#include "capture/core/log.h"
#include "capture/core/own_work.h"
#include "capture/core/vendor_thread.h"
#include "format/rows.h"
#include "system/metrics.h"

#define INTERVAL_MIN_NS (20 * NS_PER_US)
#define INTERVAL_MAX_NS NS_PER_MS
#define READ_MAX_NS (100 * NS_PER_MS)
#define IMAGE_SAMPLES 1024u
#define READ_SAMPLES (IMAGE_SAMPLES / 8) /* CUPTI drops samples that do not fit an image */
#define IMAGE_MAX (256u << 20)
#define IMAGES_MAX 32u /* per reading */
#define HARDWARE_BYTES (64u << 20) /* size of the GPU's buffer */
#define FAILURES_MAX 3u /* in succession */
#define DECIMALS 3u
#define SCALE 1e3
#define VALUE_MAX 9e15 /* SCALE times this fits an int64_t */
#define METRICS (ENGINE_METRICS_MAX * SAMPLED_METRICS_MAX)

struct sampled_device {
	CUpti_PmSampling_Object *object; /* NULL: not set up */
	const struct engine_metrics *metrics;
	uint8_t *image;
	size_t image_bytes;
	uint64_t last_end_ns; /* of the last sample in this window, CUPTI's clock; 0: none */
	bool first_passed; /* the first sample since the start has been skipped */
	unsigned failures;
	bool refused; /* permanently */
	const char *failed; /* the CUPTI function that failed last */
};

static struct {
	_Atomic(const struct cupti *) cupti; /* NULL: not attached */
	atomic_bool wanted; /* a session with this engine exists */
	atomic_bool open; /* a window of a session with this engine is open */
	struct refusal refusal; /* of a device, permanently, or because CUPTI is too old */
	char requested[OPTION_TEXT_MAX]; /* metrics; set before a window opens */
	uint64_t interval_ns; /* between samples; set before a window opens */

	/* Owned by the vendor thread: */
	struct sampled_device devices[DEVICES_MAX];
	struct engine_metrics metrics[ENGINE_METRICS_MAX];
	atomic_uint_fast64_t lost; /* samples, since the last rows */

	/* Owned by the collector: */
	uint32_t counters[METRICS]; /* ids by metric in this recording; 0: none yet */
	struct map names; /* numbers of counters, by hash of their name */
	uint64_t since_ns;
} self;

/* --- a device, on the vendor thread --- */

#define CALL(d, cupti, name, p) ((d)->failed = "cupti" #name, (cupti)->name(p))

static CUptiResult set_config(struct sampled_device *d, const struct cupti *cupti)
{
	CUpti_PmSampling_SetConfig_Params p = PARAMETERS(
		PmSampling_SetConfig, .pPmSamplingObject = d->object,
		.configSize = d->metrics->set.config_bytes, .pConfig = d->metrics->set.config,
		.hardwareBufferSize = HARDWARE_BYTES, .samplingInterval = self.interval_ns,
		.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
	CUptiResult result = CALL(d, cupti, PmSamplingSetConfig, &p);

	p.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL;
	if (result == CUPTI_SUCCESS || CALL(d, cupti, PmSamplingSetConfig, &p) != CUPTI_SUCCESS)
		return result;
	capability_note(feature_sampling_interval, capability_state_degraded, "ns", "cycles",
			"device %u (%s) cannot sample by time: %llu cycles of its system clock lie "
			"between two samples",
			d->metrics->device, d->metrics->chip, (unsigned long long)self.interval_ns);
	return CUPTI_SUCCESS;
}

static CUptiResult allocate_image(struct sampled_device *d, const struct cupti *cupti)
{
	CUpti_PmSampling_GetCounterDataSize_Params p =
		PARAMETERS(PmSampling_GetCounterDataSize, .pPmSamplingObject = d->object,
			   .pMetricNames = d->metrics->set.names.data,
			   .numMetrics = d->metrics->set.names.count, .maxSamples = IMAGE_SAMPLES);
	CUptiResult result = CALL(d, cupti, PmSamplingGetCounterDataSize, &p);

	if (result != CUPTI_SUCCESS)
		return result;
	d->image_bytes = p.counterDataSize;
	if (d->image_bytes && d->image_bytes <= IMAGE_MAX)
		d->image = calloc(1, d->image_bytes);
	return d->image ? CUPTI_SUCCESS : CUPTI_ERROR_OUT_OF_MEMORY;
}

static void close_device(struct sampled_device *d, const struct cupti *cupti)
{
	CUpti_PmSampling_Disable_Params p =
		PARAMETERS(PmSampling_Disable, .pPmSamplingObject = d->object);

	cupti->PmSamplingDisable(&p);
	free(d->image);
	d->image = NULL;
	d->object = NULL;
}

static CUptiResult start_device(struct sampled_device *d, const struct cupti *cupti,
				unsigned ordinal)
{
	CUpti_PmSampling_Enable_Params enable =
		PARAMETERS(PmSampling_Enable, .deviceIndex = ordinal);
	CUpti_PmSampling_Start_Params start = PARAMETERS(PmSampling_Start, );
	CUptiResult result = CALL(d, cupti, PmSamplingEnable, &enable);

	if (result != CUPTI_SUCCESS)
		return result;
	d->object = start.pPmSamplingObject = enable.pPmSamplingObject;
	result = set_config(d, cupti);
	if (result == CUPTI_SUCCESS)
		result = allocate_image(d, cupti);
	d->first_passed = false;
	if (result == CUPTI_SUCCESS)
		result = CALL(d, cupti, PmSamplingStart, &start);
	if (result != CUPTI_SUCCESS)
		close_device(d, cupti);
	return result;
}

static void open_device(struct sampled_device *d, const struct cupti *cupti, unsigned ordinal)
{
	uint64_t begun = clock_monotonic_ns();
	struct error e = { 0 };
	CUptiResult result = CUPTI_SUCCESS;

	d->metrics = engine_metrics_find(self.metrics, ENGINE, cupti, PROFILER_OF_SAMPLES, NULL,
					 ordinal, self.requested, &e);
	if (d->metrics)
		result = start_device(d, cupti, ordinal);
	if (result != CUPTI_SUCCESS)
		error_set(&e, E_UNSUPPORTED, "device %u: %s: %s: %s", ordinal, d->failed,
			  cupti_result_text(cupti, result), engine_advice(result));
	d->refused = e.code;
	if (e.code)
		engine_refuse(&self.refusal, &pm_sampling_client, ENGINE, "%s", e.text);
	own_work_add(cost_kind_setup, begun, 1);
}

static void stop_device(struct sampled_device *d, const struct cupti *cupti)
{
	CUpti_PmSampling_Stop_Params p =
		PARAMETERS(PmSampling_Stop, .pPmSamplingObject = d->object);

	cupti->PmSamplingStop(&p);
}

/* Counts the lost samples before this one, assuming that they had its length. */
static void count_gap(struct sampled_device *d, uint64_t start, uint64_t end)
{
	uint64_t length = end - start;

	if (d->last_end_ns && start > d->last_end_ns + length / 2)
		atomic_fetch_add(&self.lost, (start - d->last_end_ns + length / 2) / length);
	d->last_end_ns = end;
}

/*
 * Pushes a sample's finite values to the collector, all at once: the collector reads clock pairs
 * between events, and a sample has one time. A sample without any is ignored.
 */
static void push_sample(struct sampled_device *d, const struct cupti *cupti, size_t index)
{
	CUpti_PmSampling_CounterData_GetSampleInfo_Params p =
		PARAMETERS(PmSampling_CounterData_GetSampleInfo, .pPmSamplingObject = d->object,
			   .pCounterDataImage = d->image, .counterDataImageSize = d->image_bytes,
			   .sampleIndex = index);
	uint32_t first = (uint32_t)(d->metrics - self.metrics) * SAMPLED_METRICS_MAX;
	struct ring_event events[SAMPLED_METRICS_MAX];
	struct ring *r = ring_get();
	double values[SAMPLED_METRICS_MAX];
	uint8_t count = 0;
	int result;

	if (!r || cupti->PmSamplingCounterDataGetSampleInfo(&p) != CUPTI_SUCCESS ||
	    p.endTimestamp <= p.startTimestamp || !vendor_hold(false))
		return;
	result = metric_set_evaluate(&d->metrics->set, d->image, d->image_bytes, index, values);
	vendor_let(false); /* libnvperf_host has destructors */
	if (result)
		return;
	for (uint32_t i = 0; i < d->metrics->set.names.count; i++) {
		double scaled = values[i] * SCALE + (values[i] < 0 ? -0.5 : 0.5);

		if (!isfinite(values[i]) || fabs(values[i]) > VALUE_MAX)
			continue;
		events[count++] = (struct ring_event){ .a = p.startTimestamp,
						       .b = (uint64_t)(int64_t)scaled,
						       .c = first + i,
						       .d = d->metrics->device,
						       .kind = RING_SAMPLE };
	}
	if (!count)
		return;
	events[0].flags = count;
	ring_push(r, events, count);
	count_gap(d, p.startTimestamp, p.endTimestamp);
	d->failures = 0;
}

/* Decodes the GPU's buffer into the image and pushes its samples. *more: the image became full. */
static CUptiResult read_image(struct sampled_device *d, const struct cupti *cupti, bool *more)
{
	CUpti_PmSampling_CounterDataImage_Initialize_Params image =
		PARAMETERS(PmSampling_CounterDataImage_Initialize, .pPmSamplingObject = d->object,
			   .counterDataSize = d->image_bytes, .pCounterData = d->image);
	CUpti_PmSampling_DecodeData_Params decode =
		PARAMETERS(PmSampling_DecodeData, .pPmSamplingObject = d->object,
			   .pCounterDataImage = d->image, .counterDataImageSize = d->image_bytes);
	CUpti_PmSampling_GetCounterDataInfo_Params info =
		PARAMETERS(PmSampling_GetCounterDataInfo, .pCounterDataImage = d->image,
			   .counterDataImageSize = d->image_bytes);
	CUptiResult result = CALL(d, cupti, PmSamplingCounterDataImageInitialize, &image);

	if (result == CUPTI_SUCCESS)
		result = CALL(d, cupti, PmSamplingDecodeData, &decode);
	if (result == CUPTI_SUCCESS)
		result = CALL(d, cupti, PmSamplingGetCounterDataInfo, &info);
	if (result != CUPTI_SUCCESS)
		return result;
	for (size_t i = !d->first_passed; i < MIN(info.numCompletedSamples, IMAGE_SAMPLES); i++)
		push_sample(d, cupti, i);
	d->first_passed |= info.numCompletedSamples > 0;
	*more = info.numCompletedSamples &&
		decode.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL;
	return decode.overflow && !info.numCompletedSamples ? CUPTI_ERROR_OUT_OF_MEMORY
							    : CUPTI_SUCCESS;
}

static CUptiResult read_device(struct sampled_device *d, const struct cupti *cupti)
{
	CUptiResult result = CUPTI_SUCCESS;
	bool more = true;

	for (unsigned i = 0; more && i < IMAGES_MAX && result == CUPTI_SUCCESS; i++)
		result = read_image(d, cupti, &more);
	return result;
}

/* Reads the samples, and sets the device up again after an error: a full buffer stays full. */
static void follow_device(struct sampled_device *d, const struct cupti *cupti, unsigned ordinal)
{
	CUptiResult result = read_device(d, cupti);
	const char *failed = d->failed;

	if (result == CUPTI_SUCCESS)
		return;
	log_line(ENGINE ": device %u: %s: %s", ordinal, failed, cupti_result_text(cupti, result));
	stop_device(d, cupti);
	close_device(d, cupti);
	if (++d->failures < FAILURES_MAX) {
		open_device(d, cupti, ordinal);
		return;
	}
	d->refused = true;
	engine_refuse(
		&self.refusal, &pm_sampling_client, ENGINE,
		"device %u: %s: %s, %u times in a row: a longer --pm-interval or fewer --metrics "
		"may help",
		ordinal, failed, cupti_result_text(cupti, result), FAILURES_MAX);
}

static void end_device(struct sampled_device *d, const struct cupti *cupti)
{
	stop_device(d, cupti);
	(void)!read_device(d, cupti);
	close_device(d, cupti);
	d->last_end_ns = 0;
}

/* Opens, reads or closes a device as needed; the calls may hang. */
static void look_after(struct sampled_device *d, const struct cupti *cupti, unsigned ordinal,
		       bool exits)
{
	bool open = atomic_load(&self.open);
	bool used = api_calls_devices() >> ordinal & 1 || devices_pci(ordinal);

	if (!d->object && (!open || !used || exits || d->refused))
		return;
	vendor_enter("cuptiPmSampling");
	if (!d->object)
		open_device(d, cupti, ordinal);
	else if (exits)
		(void)!read_device(d, cupti);
	else if (open)
		follow_device(d, cupti, ordinal);
	else
		end_device(d, cupti);
	vendor_leave();
}

static uint64_t vendor(unsigned reasons, uint64_t now)
{
	const struct cupti *cupti = atomic_load(&self.cupti);
	uint64_t wait = UINT64_MAX;

	(void)now;
	if (!cupti || api_calls_fatal())
		return UINT64_MAX;
	if (reasons & VENDOR_CLOSE)
		atomic_store(&self.open, false); /* also in later rounds */
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		look_after(&self.devices[i], cupti, i, reasons & VENDOR_EXIT);
		if (self.devices[i].object)
			wait = MIN(READ_SAMPLES * self.interval_ns, READ_MAX_NS);
	}
	if (wait == UINT64_MAX && atomic_load(&self.open) && !refusal_text(&self.refusal))
		wait = READ_MAX_NS; /* by then the process may use a device */
	return wait;
}

/* --- attaching --- */

static const char *missing_function(const struct cupti *cupti)
{
#define F(name, need)                                                                              \
	if (!cupti->name)                                                                          \
		return "cupti" #name;
	PM_SAMPLING_FUNCTIONS(F)
#undef F
	return NULL;
}

static bool attach(const struct cupti *cupti, int engine, bool late)
{
	const char *missing = missing_function(cupti);

	(void)engine, (void)late;
	if (missing) {
		engine_refuse(&self.refusal, &pm_sampling_client, ENGINE,
			      "this CUPTI lacks %s: sampling needs CUDA 12.6 Update 2 or later",
			      missing);
		return false;
	}
	hub_set_callback(&pm_sampling_client, true, CUPTI_CB_DOMAIN_RESOURCE,
			 CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
	atomic_store(&self.cupti, cupti);
	return true;
}

/* A context was created. */
static void notify(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *info)
{
	(void)domain, (void)id, (void)info;
	if (atomic_load(&self.open))
		vendor_thread_request(VENDOR_COUNTERS);
}

/* --- the sessions --- */

static bool is_engine_of(const struct settings *wanted)
{
	return settings_trace_gpus(wanted) && wanted->engine == SETTING_ENGINE_PM_SAMPLING;
}

static void window(const struct settings *wanted, struct writer *w)
{
	(void)w;
	atomic_store(&self.open, wanted && is_engine_of(wanted) && atomic_load(&self.wanted));
}

static void extend(const struct source_start *how)
{
	const struct settings *s = how->wanted;

	if (!(how->vendors & VENDOR_BIT(nvidia)) || !is_engine_of(s))
		return;
	if (s->pm_interval_ns < INTERVAL_MIN_NS || s->pm_interval_ns > INTERVAL_MAX_NS)
		capability_note(feature_sampling_interval, capability_state_degraded, ENGINE,
				ENGINE, "sampled every %s: --pm-interval may be from 20us to 1ms",
				s->pm_interval_ns < INTERVAL_MIN_NS ? "20us" : "1ms");
	if (!atomic_load(&self.open)) {
		snprintf(self.requested, sizeof(self.requested), "%s",
			 strcmp(s->metrics, "default") == 0 ? "sampling" : s->metrics);
		self.interval_ns = MIN(MAX(s->pm_interval_ns, INTERVAL_MIN_NS), INTERVAL_MAX_NS);
	}
	atomic_store(&self.wanted, true);
	engine_note_refusal(&self.refusal, ENGINE);
}

static void start(const struct source_start *how)
{
	extend(how);
	if ((how->vendors & VENDOR_BIT(nvidia)) && how->open)
		window(how->wanted, NULL);
}

static void begin(struct writer *w, const struct source_start *how)
{
	(void)w;
	(void)how;
	self.since_ns = clock_monotonic_ns();
	memset(self.counters, 0, sizeof(self.counters));
	map_clear(&self.names);
}

/* Returns the id of a metric's counter, which is common to all devices; writes its row if new. */
static uint32_t counter_of(struct writer *w, uint32_t metric)
{
	const struct metric_texts *texts =
		&self.metrics[metric / SAMPLED_METRICS_MAX].texts[metric % SAMPLED_METRICS_MAX];
	size_t before = self.names.count;
	struct row_counter row = { .decimals = DECIMALS, .kind = counter_kind_level };

	row.id = METRIC_PM_FIRST +
		 (uint32_t)map_number(&self.names, hash_bytes(texts->name, strlen(texts->name)));
	self.counters[metric] = row.id;
	if (self.names.count == before || row.id >= METRIC_HOST_FIRST)
		return row.id;
	row.name = rows_text(w, texts->name);
	row.unit = rows_text(w, strcmp(texts->unit, "percent") == 0 ? "%" : texts->unit);
	row.description = rows_text(w, texts->description);
	ROW_MISSING(&row, counter, reading);
	writer_append(w, TABLE_counter, &row);
	return row.id;
}

static void write_value(struct writer *w, const struct ring_event *event)
{
	struct row_counter_sample row = { .time_ns = cupti_clock_convert(event->a),
					  .counter = self.counters[event->c],
					  .device = event->d,
					  .value = (int64_t)event->b };

	ROW_MISSING(&row, counter_sample, thread);
	if (!row.counter)
		row.counter = counter_of(w, event->c);
	if (row.counter < METRIC_HOST_FIRST)
		writer_append(w, TABLE_counter_sample, &row);
}

static uint64_t on_sample(struct writer *w, const struct ring *r, uint64_t position)
{
	uint8_t count = ring_slot(r, position)->flags;

	clock_pairs_drain(w); /* the collector may see the first samples before the first pair */
	for (uint8_t i = 0; i < count; i++)
		write_value(w, ring_slot(r, position + i));
	return count;
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now)
{
	(void)since_ns;
	rows_loss(w, loss_reason_gpu_records_dropped, atomic_exchange(&self.lost, 0), self.since_ns,
		  now,
		  "samples of hardware counters that the GPU's buffer had no room for: a longer "
		  "--pm-interval helps");
	self.since_ns = now;
}

static void stopped(struct writer *w)
{
	(void)w;
	atomic_store(&self.wanted, false);
	atomic_store(&self.open, false);
}

static void after_fork(void)
{
	memset(&self, 0, sizeof(self));
}

const struct source pm_sampling_source = {
	.name = ENGINE,
	.start = start,
	.extend = extend,
	.begin = begin,
	.window = window,
	.periodic = periodic,
	.vendor = vendor,
	.stopped = stopped,
	.after_fork = after_fork,
	.handlers = { { RING_SAMPLE, on_sample } },
	.handler_count = 1,
};

#else

static bool attach(const struct cupti *cupti, int engine, bool late)
{
	(void)cupti, (void)engine, (void)late;
	engine_note_trace(ENGINE, "this libpitot.so was built without the headers of CUDA 12.6 "
				  "Update 2 or later");
	return false;
}

#define notify NULL

const struct source pm_sampling_source = { .name = ENGINE };

#endif

static bool is_engine(int engine)
{
	return engine == SETTING_ENGINE_PM_SAMPLING;
}

static struct hub_wishes wishes;
const struct hub_client pm_sampling_client = {
	.name = ENGINE,
	.wishes = &wishes,
	.takes_counters = true,
	.is_engine = is_engine,
	.attach = attach,
	.notify = notify,
};
