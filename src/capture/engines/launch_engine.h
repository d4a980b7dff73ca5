/*
 * launch_engine.h: the common part of the engines that measure single launches of selected kernels:
 * which launches are measured, when and on which thread; sessions and windows; the queue of
 * measurements to the collector. One engine is attached at a time.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_ENGINE_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "capture/cuda/hub/hub.h"
#include "capture/core/source.h"
#include "capture/engines/launch_queue.h"
#include "cupti/profiler_host.h"

extern const struct source launch_engine_source;
extern const struct hub_client launches_client;

/* The engine that measures launches for a value of the setting; SETTING_ENGINE_TRACE: none. */
static inline int launch_engine_of(int engine)
{
	return engine == SETTING_ENGINE_DEEP ? SETTING_ENGINE_SASS_METRICS
	       : engine == SETTING_ENGINE_RANGE_PROFILER || engine == SETTING_ENGINE_SASS_METRICS
		       ? engine
		       : SETTING_ENGINE_TRACE;
}

static inline bool launch_engine_is(int engine)
{
	return launch_engine_of(engine) != SETTING_ENGINE_TRACE;
}

#ifdef PITOT_HAS_PROFILER_HOST

/* A range or graph launch that is measured as a whole. Times are CLOCK_MONOTONIC. */
struct marked_range {
	enum range_kind kind;
	uint64_t key; /* identical for all occurrences of the range in one context; never 0 */
	uint64_t start_ns;
	uint32_t thread; /* operating system's thread id */
	uint32_t domain, level; /* of a range of the program, as in table nvtx */
	char name[256]; /* truncated to this size */
};

struct launch_engine {
	int engine; /* SETTING_ENGINE_… */
	const char *name;
	/*
	 * The engine patches the kernels that it measures and writes rows of their instructions.
	 * The kernels' activity records contain the times of the patched code.
	 */
	bool patches;
	/* NULL, or a function that CUPTI or the driver lacks; *needs says what provides it. */
	const char *(*missing)(const struct cupti *cupti, const char **needs);

	/*
	 * Called by the thread that owns the engine, where a launch (`marked` NULL) or a
	 * marked range begins. Returns whether the work from here to `stop` is measured.
	 */
	bool (*start)(const struct cupti *cupti, CUcontext context,
		      const struct marked_range *marked);
	/* Ends the measurement that is started, if any. !valid: discards its values. */
	void (*stop)(const struct cupti *cupti, bool valid);
	/* Stops using a context. `gone`: it is destroyed, and CUPTI must not be called for it. */
	void (*leave_context)(const struct cupti *cupti, CUcontext handle, bool gone);
	bool (*has_contexts)(void); /* some context is still in use */

	/*
	 * Called by the collector: `write` writes the rows of a measurement, which the caller
	 * frees; `numbers` has the metrics' ids in this recording. `periodic` writes losses.
	 */
	void (*write)(struct writer *w, const struct measured *m, struct map *numbers);
	void (*periodic)(struct writer *w, uint64_t since_ns, uint64_t now_ns);
	void *state; /* all of the engine's state; zeroed in the child of a fork */
	size_t state_bytes;
};
extern const struct launch_engine range_profiler_engine, sass_metrics_engine;

/* The metrics that the session requests. Must be called as the owner. */
const char *launch_engine_metrics(void);
/* A number that changes with each session. */
unsigned launch_engine_session(void);

/* Ends all measuring, so that only the trace remains, until the engine or its metrics change. */
__attribute__((format(printf, 1, 2))) void launch_engine_refuse(const char *format, ...);
/*
 * Counts a failed call about one launch. If it is the `last`, or too many have failed in a row, the
 * engine refuses, and true is returned.
 */
bool launch_engine_failed(const struct cupti *cupti, const char *function, int result, bool last);
void launch_engine_count_unmeasured(void);
/* Counts a pass of a range that needs further passes as a success. */
void launch_engine_count_pass(void);
/* Queues a measurement of this size, which it owns from then on. NULL counts as lost. */
void launch_engine_push(struct measured *m, size_t bytes);
/* Whether an engine that patches kernels is attached: CUPTI must then record serialized kernels. */
bool launch_engine_serializes(void);

/*
 * For marked_ranges.c. Claims the engine for a range that begins. Returns NULL if the range is not
 * measured; otherwise launch_engine_start() must follow on the same thread.
 */
const struct cupti *launch_engine_own(void);
/* Returns whether the range is measured until launch_engine_stop(). NULL: gives up the engine. */
bool launch_engine_start(const struct cupti *cupti, CUcontext context,
			 const struct marked_range *range);
/* Whether launches and ranges are selected for measurement at present. */
bool launch_engine_is_active(void);
/* Must be called once for each successful start. !valid: discards the values. Any thread. */
void launch_engine_stop(bool valid);
#endif

#endif
