/*
 * engine_metrics.h: resolves a list such as "memory,sm__cycles_active.avg" to the metrics of a
 * device, for the engines that read counters. One thread at a time. Texts are valid for the life of
 * the process; a forked child resolves them again.
 */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_METRICS_H
#define PITOT_CAPTURE_ENGINES_ENGINE_METRICS_H

#include "base/map.h"
#include "base/options.h"
#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"
#include "format/writer.h"

#ifdef PITOT_HAS_PROFILER_HOST

/* Initializer of the parameters of a call to CUPTI's profilers. */
#define PARAMETERS(name, ...)                                                                      \
	{                                                                                          \
		.structSize = CUpti_##name##_Params_STRUCT_SIZE, __VA_ARGS__                       \
	}

#define ENGINE_METRICS_MAX 16u /* combinations of device, kind and requested list */

struct metric_texts {
	const char *name, *unit, *description;
};

struct engine_metrics {
	char requested[OPTION_TEXT_MAX], chip[32];
	unsigned device;
	enum profiler_kind kind;
	struct profiler_host *host;
	struct metric_set set;
	struct metric_texts *texts; /* by index in the set */
	/* index of the kernel's duration, in nanoseconds; SIZE_MAX: it is not in the set */
	size_t duration;
};

/*
 * Finds the metrics that `requested` names on a device in `known`, an array of ENGINE_METRICS_MAX.
 * If they are not there, resolves and adds them, and notes in the capabilities what is measured and
 * what is left out. `context` belongs to the device; NULL with PROFILER_OF_SAMPLES. `engine` is a
 * literal. Returns NULL with the reason in *e. The first call takes a third of a second.
 */
const struct engine_metrics *engine_metrics_find(struct engine_metrics *known, const char *engine,
						 const struct cupti *cupti, enum profiler_kind kind,
						 CUcontext context, unsigned device,
						 const char *requested, struct error *e);

/* Adds the capability notes again, for another session. `ns`: duration of the set-up. */
void engine_metrics_note(const struct engine_metrics *m, const char *engine, uint64_t ns);

/*
 * Returns the id of a metric in a recording, and writes its row at the first call. `numbers` has
 * the recording's ids by address.
 */
uint32_t engine_metrics_number(struct map *numbers, struct writer *w,
			       const struct metric_texts *texts);

#endif
#endif
