/*
 * profiler_host.h: the hardware metrics of a chip through CUPTI's profiler host API: what there is,
 * in how many passes it is collected, and which values a counter data image has.
 *
 * Nothing of it needs a GPU or a driver: with CUPTI 13.0, by the name of a chip, all functions
 * below work on a machine without either, EvaluateToGpuValues aside, for which nobody has an image
 * there. (cuptiProfilerInitialize needs a driver; the host API does not need it.) The first call
 * loads libnvperf_host.so from beside CUPTI: 0.3 s. Then a host object takes 1 ms, and a metric 1
 * to 70 ms.
 *
 * Properties are known of base metrics (sm__warps_active) and of complete names
 * (sm__warps_active.avg); only the latter can be collected. One name that cannot makes
 * ConfigAddMetrics fail for all and leaves its host object without a configuration, so each name is
 * tried on an object of its own.
 */
#ifndef PITOT_CUPTI_PROFILER_HOST_H
#define PITOT_CUPTI_PROFILER_HOST_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"

/*
 * Compiled with the headers of CUDA 12.6 Update 2 or later; without them there are only the named
 * sets.
 */
#if !defined(PITOT_WITHOUT_CUDA) && __has_include(<cupti_range_profiler.h>)
#define PITOT_HAS_PROFILER_HOST
#endif

/* One chip. Not safe for concurrent use; texts live as long as it does. */
struct profiler_host;

/*
 * Names of all chips, ends with NULL; owned by CUPTI. `cupti`: a handle of dlopen, here and below.
 * NULL: *e says why.
 */
const char *const *profiler_host_chips(void *cupti, struct error *e);
/* The chip of a CUDA device; needs a driver. NULL: *e says why. */
const char *profiler_host_chip_of(void *cupti, unsigned device, struct error *e);

/*
 * What is measured: launches of kernels, in as many passes as are needed; ranges of launches,
 * likewise; or the whole device over time, in one pass.
 */
enum profiler_kind { PROFILER_OF_LAUNCHES, PROFILER_OF_RANGES, PROFILER_OF_SAMPLES };

/*
 * `availability`: CUPTI's image of the counters that a context has, copied; NULL: all of the chip.
 * 0 or E_UNSUPPORTED, -ENOMEM.
 */
int profiler_host_open(struct profiler_host **host, void *cupti, const char *chip,
		       enum profiler_kind kind, const uint8_t *availability,
		       size_t availability_bytes, struct error *e) MUST_USE;
void profiler_host_free(struct profiler_host *host);

struct base_metric {
	const char *name;
	int type; /* CUpti_MetricType */
};
/* All, by name. */
const struct base_metric *profiler_host_metrics(const struct profiler_host *host, size_t *count);

/*
 * What may stand behind the name of a base metric, each with its dot: ".sum", ".avg.per_second".
 * Empty: *base is none.
 */
struct submetrics {
	VEC(const char *) names;
};
int profiler_host_submetrics(struct profiler_host *host, const struct base_metric *base,
			     struct submetrics *out) MUST_USE;

/*
 * How long the base metric's name is in a name: up to the first dot behind "__"
 * (CTC.TriageCompute.ctc__rx_bytes.sum).
 */
size_t metric_base_length(const char *name);

struct metric_properties {
	const char *description, *unit; /* "": none */
	const char *hardware; /* which unit of the chip counts: sm, l1tex, dram */
};
/* Of a base metric or a complete name. false: there is none of that name. */
bool profiler_host_properties(struct profiler_host *host, const char *name,
			      struct metric_properties *p);

/* In how many passes these are collected together; 0: CUPTI cannot. */
size_t profiler_host_passes(struct profiler_host *host, const char *const *names, size_t count);

/*
 * Appends why a metric cannot be collected, with the nearest that can: "no metric 'x'; did you mean
 * 'y' or 'z'?"
 */
void profiler_host_explain(struct profiler_host *host, const char *name, struct strbuf *out);

/*
 * What a text such as "memory,sm__cycles_active.avg,dram__*" asks for, as the profiler wants it; a
 * pattern, those of the named sets that are like it. METRICS_MAX at most, and of samples as many as
 * fit into one pass, SAMPLED_METRICS_MAX at most, the first ones first.
 */
#define METRICS_MAX 256u
#define SAMPLED_METRICS_MAX 32u
struct metric_set {
	struct profiler_host *host;
	VEC(const char *) names; /* each once */
	uint8_t *config;
	size_t config_bytes, passes;
	/* names that are wrong or one too many, and why: lines without an end, separated by "; " */
	struct strbuf left_out;
	unsigned lacking; /* metrics of named sets that this chip has not */
	bool left_out_patched; /* `left_out` explains why metrics of patched code are missing */
};
/*
 * The metrics that `text` names, and `also`, if the chip has it and there is room. E_USAGE: none of
 * `text` is left.
 */
int metric_set_make(struct metric_set *set, struct profiler_host *host, const char *text,
		    const char *also, struct error *e) MUST_USE;
void metric_set_release(struct metric_set *set);
/*
 * The values, by index of names, of a range or sample in a counter data image. 0 or a CUptiResult.
 */
int metric_set_evaluate(const struct metric_set *set, const uint8_t *image, size_t bytes,
			size_t range, double *values) MUST_USE;

/* The metrics of a named set, ends with NULL; NULL: there is no such set. */
const char *const *metric_set_named(const char *name);
/* Their names, ends with NULL. */
extern const char *const metric_set_names[];

#endif
