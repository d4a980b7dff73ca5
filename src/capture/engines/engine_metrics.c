#include "capture/engines/engine_metrics.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "capture/core/capability_notes.h"
#include "capture/core/process_exit.h"
#include "capture/core/vendor_thread.h"
#include "format/rows.h"

#define IMAGE_MAX (256u << 20)
#define DURATION "gpu__time_duration.sum"

static CUptiResult ask(const struct cupti *cupti, CUcontext context, unsigned device,
		       uint8_t *image, size_t *bytes)
{
	CUpti_Profiler_GetCounterAvailability_Params of_context = PARAMETERS(
		Profiler_GetCounterAvailability, .ctx = context,
		.counterAvailabilityImageSize = *bytes, .pCounterAvailabilityImage = image);
	CUpti_PmSampling_GetCounterAvailability_Params of_device = PARAMETERS(
		PmSampling_GetCounterAvailability, .deviceIndex = device,
		.counterAvailabilityImageSize = *bytes, .pCounterAvailabilityImage = image);
	CUptiResult result = context ? cupti->ProfilerGetCounterAvailability(&of_context)
				     : cupti->PmSamplingGetCounterAvailability(&of_device);

	*bytes = context ? of_context.counterAvailabilityImageSize
			 : of_device.counterAvailabilityImageSize;
	return result;
}

/* Reads which counters of the chip the GPU provides. Returns 0 if unknown, which means all. */
static size_t read_availability(const struct cupti *cupti, CUcontext context, unsigned device,
				uint8_t **image)
{
	size_t bytes = 0;

	*image = NULL;
	if (ask(cupti, context, device, NULL, &bytes) != CUPTI_SUCCESS || !bytes ||
	    bytes > IMAGE_MAX)
		return 0;
	*image = calloc(1, bytes);
	if (*image && ask(cupti, context, device, *image, &bytes) == CUPTI_SUCCESS)
		return bytes;
	free(*image);
	*image = NULL;
	return 0;
}

static int read_texts(struct engine_metrics *m)
{
	m->duration = SIZE_MAX;
	m->texts = calloc(m->set.names.count, sizeof(*m->texts));
	for (size_t i = 0; m->texts && i < m->set.names.count; i++) {
		struct metric_properties p = { "", "", "" };

		profiler_host_properties(m->host, m->set.names.data[i], &p);
		m->texts[i] = (struct metric_texts){ m->set.names.data[i], p.unit, p.description };
		if (strcmp(m->set.names.data[i], DURATION) == 0)
			m->duration = i;
	}
	return m->texts ? 0 : -ENOMEM;
}

static void release(struct engine_metrics *m)
{
	metric_set_release(&m->set);
	profiler_host_free(m->host);
	free(m->texts);
	memset(m, 0, sizeof(*m));
}

static int process_ends(struct error *e)
{
	return error_set(e, -ECANCELED, "the process ended while its metrics were prepared");
}

/* Opens m->host. The first call loads libnvperf_host, which has destructors. */
static int open_host(struct engine_metrics *m, const struct cupti *cupti, CUcontext context,
		     struct error *e)
{
	uint8_t *availability;
	size_t bytes = read_availability(cupti, context, m->device, &availability);
	int err;

	if (!vendor_hold(true)) {
		free(availability);
		return process_ends(e);
	}
	err = profiler_host_open(&m->host, cupti->handle, m->chip, m->kind, availability, bytes, e);
	process_exit_register();
	vendor_let(true);
	free(availability);
	return err;
}

static int make_set(struct engine_metrics *m, const char *requested, const char *required,
		    struct error *e)
{
	int err;

	if (!vendor_hold(false))
		return process_ends(e);
	err = metric_set_make(&m->set, m->host, requested, required, e);
	if (err == 0 && read_texts(m) < 0)
		err = error_set(e, -ENOMEM, "no memory for metrics");
	vendor_let(false);
	return err;
}

static int make(struct engine_metrics *m, const struct cupti *cupti, enum profiler_kind kind,
		CUcontext context, unsigned device, const char *requested, struct error *e)
{
	CUpti_Profiler_Initialize_Params p = PARAMETERS(Profiler_Initialize, );
	CUptiResult result = cupti->ProfilerInitialize(&p);
	const char *chip =
		result == CUPTI_SUCCESS ? profiler_host_chip_of(cupti->handle, device, e) : NULL;
	int err;

	*m = (struct engine_metrics){ .device = device, .kind = kind };
	if (result != CUPTI_SUCCESS)
		return error_set(e, E_UNSUPPORTED, "cuptiProfilerInitialize: %s",
				 cupti_result_text(cupti, result));
	if (!chip)
		return e->code;
	snprintf(m->chip, sizeof(m->chip), "%s", chip);
	snprintf(m->requested, sizeof(m->requested), "%s", requested);
	err = open_host(m, cupti, context, e);
	if (err == 0)
		err = make_set(m, requested, context ? DURATION : NULL, e);
	if (err == -ECANCELED)
		m->requested[0] = '\0'; /* its library must not free it any more */
	else if (err < 0)
		release(m);
	return err;
}

void engine_metrics_note(const struct engine_metrics *m, const char *engine, uint64_t ns)
{
	capability_note(feature_engine, capability_state_on, engine, engine,
			"device %u (%s): %zu metric%s in %zu pass%s; set up in %.3f s", m->device,
			m->chip, m->set.names.count, plural(m->set.names.count), m->set.passes,
			plural_es(m->set.passes), (double)ns / 1e9);
	if (m->set.left_out.length)
		capability_note(feature_metrics, capability_state_degraded, engine, engine, "%s",
				strbuf_text(&m->set.left_out));
	else if (m->set.lacking)
		capability_note(feature_metrics, capability_state_on, engine, engine,
				"%s lacks %u of the metrics of these sets", m->chip,
				m->set.lacking);
}

const struct engine_metrics *engine_metrics_find(struct engine_metrics *known, const char *engine,
						 const struct cupti *cupti, enum profiler_kind kind,
						 CUcontext context, unsigned device,
						 const char *requested, struct error *e)
{
	uint64_t begun = clock_monotonic_ns();

	for (struct engine_metrics *m = known; m < known + ENGINE_METRICS_MAX; m++) {
		if (m->host && m->device == device && m->kind == kind &&
		    strcmp(m->requested, requested) == 0)
			return m;
		if (m->host)
			continue;
		if (make(m, cupti, kind, context, device, requested, e) < 0)
			return NULL;
		engine_metrics_note(m, engine, clock_monotonic_ns() - begun);
		return m;
	}
	error_set(e, E_UNSUPPORTED, "more than %u sets of metrics in one process",
		  ENGINE_METRICS_MAX);
	return NULL;
}

uint32_t engine_metrics_number(struct map *numbers, struct writer *w,
			       const struct metric_texts *texts)
{
	size_t before = numbers->count;
	struct row_metric row = { .id = (uint32_t)map_number(numbers, (uintptr_t)texts) };

	if (numbers->count != before) {
		row.name = rows_text(w, texts->name);
		row.unit = rows_text(w, texts->unit);
		row.description = rows_text(w, texts->description);
		writer_append(w, TABLE_metric, &row);
	}
	return row.id;
}

#endif
