/*
 * engine_metrics.h: what a text such as "memory,sm__cycles_active.avg" means on a device, for the
 * engines that count. One thread at a time; the texts stay until the child of a fork.
 */
#ifndef PITOT_CAPTURE_ENGINES_ENGINE_METRICS_H
#define PITOT_CAPTURE_ENGINES_ENGINE_METRICS_H

#include "base/map.h"
#include "base/options.h"
#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"
#include "format/writer.h"

#ifdef PITOT_HAS_PROFILER_HOST

/* Of a call of CUPTI's profilers. */
#define PARAMETERS(name, ...)                                                                      \
	{                                                                                          \
		.structSize = CUpti_##name##_Params_STRUCT_SIZE, __VA_ARGS__                       \
	}

#define ENGINE_METRICS_MAX 16u /* devices, times what sessions have asked for */

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
	/*
	 * of ranges: index of how long the kernel takes, in nanoseconds; SIZE_MAX: the chip has no
	 * such metric
	 */
	size_t duration;
};

/*
 * Finds the metrics that `requested` names on a device in `known`, an array of ENGINE_METRICS_MAX,
 * or looks them up and adds them there; notes in the capabilities what is measured and what is left
 * out. `context` belongs to the device; NULL with PROFILER_OF_SAMPLES. `engine` is a literal.
 * Returns NULL with the reason in *e. The first call takes a third of a second.
 */
const struct engine_metrics *engine_metrics_find(struct engine_metrics *known, const char *engine,
						 const struct cupti *cupti, enum profiler_kind kind,
						 CUcontext context, unsigned device,
						 const char *requested, struct error *e);

/* Says it again, for another session. `ns`: how long it took. */
void engine_metrics_note(const struct engine_metrics *m, const char *engine, uint64_t ns);

/*
 * The id of a metric in a recording, which has its row from then on. `numbers`: of the recording,
 * by address.
 */
uint32_t engine_metrics_number(struct map *numbers, struct writer *w,
			       const struct metric_texts *texts);

#endif
#endif
