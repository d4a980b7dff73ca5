/*
 * profiler_host.h: hardware metrics of a chip, through CUPTI's profiler host API: which ones exist,
 * how many passes they need, and their values in a counter data image.
 *
 * No GPU or driver is needed. With CUPTI 13.0 and the name of a chip, all functions below were run
 * on a machine without either, except EvaluateToGpuValues, which needs an image.
 * (cuptiProfilerInitialize needs a driver; the host API does not need it.) The first call loads
 * libnvperf_host.so from CUPTI's folder, which takes 0.3 s. A host object then takes 1 ms, a metric
 * 1 to 70 ms.
 *
 * Base metrics (sm__warps_active) and complete names (sm__warps_active.avg) have properties; only
 * complete names can be collected. One invalid name makes ConfigAddMetrics fail for all and leaves
 * the host object without a configuration, so each name is tried on a separate object.
 */
#ifndef PITOT_CUPTI_PROFILER_HOST_H
#define PITOT_CUPTI_PROFILER_HOST_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"

/*
 * Defined with the headers of CUDA 12.6 Update 2 or later; else only the named sets are available.
 */
#if !defined(PITOT_WITHOUT_CUDA) && __has_include(<cupti_range_profiler.h>)
#define PITOT_HAS_PROFILER_HOST
#endif

/* One chip. Not thread-safe; owns the texts that it returns. */
struct profiler_host;

/*
 * Returns the names of all chips, NULL-terminated, owned by CUPTI; or NULL and *e. `cupti` is a
 * handle of dlopen, here and below.
 */
const char *const *profiler_host_chips(void *cupti, struct error *e);
/* Returns the chip of a CUDA device, which needs a driver; or NULL and *e. */
const char *profiler_host_chip_of(void *cupti, unsigned device, struct error *e);

/*
 * What is measured: launches of kernels, in as many passes as are needed; ranges of launches,
 * likewise; or the whole device over time, in one pass.
 */
enum profiler_kind { PROFILER_OF_LAUNCHES, PROFILER_OF_RANGES, PROFILER_OF_SAMPLES };

/*
 * `availability` is CUPTI's image of the counters available in a context, which is copied; NULL:
 * all of the chip. Returns 0, E_UNSUPPORTED or -ENOMEM.
 */
int profiler_host_open(struct profiler_host **host, void *cupti, const char *chip,
		       enum profiler_kind kind, const uint8_t *availability,
		       size_t availability_bytes, struct error *e) MUST_USE;
void profiler_host_free(struct profiler_host *host);

struct base_metric {
	const char *name;
	int type; /* CUpti_MetricType */
};
/* Returns all base metrics, sorted by name. */
const struct base_metric *profiler_host_metrics(const struct profiler_host *host, size_t *count);

/*
 * Suffixes of a base metric, with their dot: ".sum", ".avg.per_second". Empty when *base is not a
 * metric.
 */
struct submetrics {
	VEC(const char *) names;
};
int profiler_host_submetrics(struct profiler_host *host, const struct base_metric *base,
			     struct submetrics *out) MUST_USE;

/*
 * Returns the length of the base metric in a name, which ends at the first dot after "__"
 * (CTC.TriageCompute.ctc__rx_bytes.sum).
 */
size_t metric_base_length(const char *name);

struct metric_properties {
	const char *description, *unit; /* "": none */
	const char *hardware; /* hardware unit that counts: sm, l1tex, dram */
};
/* Reads the properties of a base metric or complete name. Returns false when it does not exist. */
bool profiler_host_properties(struct profiler_host *host, const char *name,
			      struct metric_properties *p);

/* Returns how many passes these metrics need together; 0: CUPTI cannot collect them. */
size_t profiler_host_passes(struct profiler_host *host, const char *const *names, size_t count);

/*
 * Appends why a metric cannot be collected, and similar names: "no metric 'x', did you mean 'y' or
 * 'z'?"
 */
void profiler_host_explain(struct profiler_host *host, const char *name, struct strbuf *out);

/*
 * The metrics of a text such as "memory,sm__cycles_active.avg,dram__*", configured for the
 * profiler. A pattern selects metrics of the named sets. At most METRICS_MAX; for samples the first
 * ones that fit in one pass, at most SAMPLED_METRICS_MAX.
 */
#define METRICS_MAX 256u
#define SAMPLED_METRICS_MAX 32u
struct metric_set {
	struct profiler_host *host;
	VEC(const char *) names; /* without duplicates */
	uint8_t *config;
	size_t config_bytes, passes;
	/* invalid or excess names with reasons, separated by "; " */
	struct strbuf left_out;
	unsigned lacking; /* number of metrics of named sets that the chip lacks */
	bool left_out_patched; /* `left_out` explains why metrics of patched code are missing */
};
/*
 * Makes the set of the metrics of `text` and of `also`, if the chip has it and there is room.
 * Returns E_USAGE when no metric of `text` remains.
 */
int metric_set_make(struct metric_set *set, struct profiler_host *host, const char *text,
		    const char *also, struct error *e) MUST_USE;
void metric_set_release(struct metric_set *set);
/*
 * Computes the values, indexed like names, of a range or sample in a counter data image. Returns 0
 * or a CUptiResult.
 */
int metric_set_evaluate(const struct metric_set *set, const uint8_t *image, size_t bytes,
			size_t range, double *values) MUST_USE;

/* Returns the metrics of a named set, NULL-terminated, or NULL when there is no such set. */
const char *const *metric_set_named(const char *name);
/* Names of the sets, NULL-terminated. */
extern const char *const metric_set_names[];

#endif
