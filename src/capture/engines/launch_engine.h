/*
 * launch_engine.h: what engines that measure single launches of chosen kernels have in common:
 * which launches, when, and on which thread; sessions and windows; what waits for the collector.
 * One engine is attached at a time.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_ENGINE_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "capture/cuda/vendor.h"
#include "capture/source.h"
#include "cupti/profiler_host.h"

extern const struct source launch_engine_source;

/* Which engine measures single launches for a value of the setting; SETTING_ENGINE_TRACE: none. */
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

/*
 * CUPTI is subscribed to, with the callbacks below. Again for nothing. On the thread that
 * subscribes, or the vendor thread.
 */
void launch_engine_attach(int engine, const struct cupti *cupti, CUpti_SubscriberHandle subscriber);

#ifdef PITOT_HAS_PROFILER_HOST

/* What is measured as one, unless it is the launch of a kernel. Times are of CLOCK_MONOTONIC. */
struct marked_range {
	enum range_kind kind;
	uint64_t key; /* the same for all occurrences of the range in one context, never 0 */
	uint64_t start_ns;
	uint32_t thread; /* the operating system's id */
	char name[256]; /* cut to its size */
};

/* A launch on its way to the collector; the head of what the engine has measured, on the heap. */
struct measured {
	struct measured *next;
	uint32_t correlation;
	uint64_t end_ns; /* of the call, and of all runs of the kernel */
	size_t bytes;
};

struct launch_engine {
	int engine; /* SETTING_ENGINE_… */
	const char *name;
	/*
	 * What is measured runs with patched code: its records have times of that, and its
	 * instructions have rows.
	 */
	bool patches;
	/* NULL, or a function that CUPTI or the driver lacks, and what has it. */
	const char *(*missing)(const struct cupti *cupti, const char **needs);

	/*
	 * Called by the thread that has claimed the engine: in the callback of a launch (NULL), or
	 * where a range begins. Returns true if what follows is measured, up to `stop`.
	 */
	bool (*start)(const struct cupti *cupti, CUcontext context,
		      const struct marked_range *marked);
	/* Ends what was started, if anything is. !valid: what was measured is thrown away. */
	void (*stop)(const struct cupti *cupti, bool valid);
	/* Nothing in this context is measured any more. `gone`: CUPTI is told nothing. */
	void (*leave_context)(const struct cupti *cupti, CUcontext handle, bool gone);
	bool (*has_contexts)(void);

	/*
	 * Of the collector: rows of a launch, which the caller frees, with numbers of metrics in
	 * this recording; rows of losses.
	 */
	void (*write)(struct writer *w, const struct measured *m, struct map *numbers);
	void (*periodic)(struct writer *w, uint64_t since_ns, uint64_t now_ns);
	void *state; /* all that it has; zeros in the child of a fork */
	size_t state_bytes;
};
extern const struct launch_engine range_profiler_engine, sass_metrics_engine;

/* Metrics that the session wants. */
const char *launch_engine_metrics(void);
/* Changes with each session. */
unsigned launch_engine_session(void);

/* For good: there is the trace. */
__attribute__((format(printf, 1, 2))) void launch_engine_refuse(const char *format, ...);
/*
 * A call about one launch has failed. `last`, or too many one after the other: true, and the engine
 * has refused.
 */
bool launch_engine_failed(const struct cupti *cupti, const char *function, int result, bool last);
void launch_engine_count_setup(uint64_t ns);
void launch_engine_count_unmeasured(void);
/* A pass of a range was measured, and others are to follow. */
void launch_engine_count_pass(void);
/* The launch that is measured. NULL: there was no memory. */
void launch_engine_push(struct measured *m, size_t bytes);
/*
 * How long the kernel of a measured launch takes, whose records of CUPTI's have no times because it
 * runs several times. Collector's thread.
 */
void launch_engine_set_duration(const struct measured *m, uint64_t ns);
/*
 * When its last run began and ended, which is when its call did: the driver keeps it until all runs
 * are over. false: that is not known. Asked once, when the kernel's record comes.
 */
bool launch_engine_times(struct writer *w, uint32_t correlation, uint64_t *start_ns,
			 uint64_t *end_ns);
/*
 * The launch ran with patched code, so that times of its record, which began then, are not the
 * kernel's own. Asked once. Collector's thread.
 */
bool launch_engine_has_patched(uint32_t correlation, uint64_t began_ns);
/* Another thread launched in the context meanwhile. */
bool launch_engine_is_disturbed(void);

/*
 * Records of kernels have to be of those that run one after the other, as long as CUPTI is
 * subscribed to with this engine.
 */
bool launch_engine_serializes(void);

/*
 * cuptiActivityFlushAll is to come, which hangs beside a launch that is being measured with patched
 * code (H100, CUPTI 13.0): while it is held nothing is measured. Launches wait for a moment, and
 * are then left out, as the flush may wait for theirs. false: one is being measured for long.
 * launch_engine_let() after true, on the same thread.
 */
bool launch_engine_hold(void);
void launch_engine_let(void);

/*
 * The subscription is to end. Waits for a launch that is being measured. false: the subscription
 * must stay. Vendor thread.
 */
bool launch_engine_detach(void);

/*
 * A call of the driver that launches begins, before anything else is done, and ends, after
 * everything else. `function` is its name; `graph`: it launches a graph.
 */
void launch_engine_enter(const CUpti_CallbackData *data, const char *function, bool graph);
void launch_engine_exit(const CUpti_CallbackData *data);
/*
 * Of marked_ranges.c. Claims the engine for a range that begins: NULL if it is not measured; else
 * launch_engine_start() follows on the same thread.
 */
const struct cupti *launch_engine_claim(void);
/* `range` NULL: it is not measured after all. Returns whether it is, up to launch_engine_stop(). */
bool launch_engine_start(const struct cupti *cupti, CUcontext context,
			 const struct marked_range *range);
/* Whether launches and ranges are measured at present. */
bool launch_engine_is_active(void);
/* Any thread, once for each start. !valid: what was measured is thrown away. */
void launch_engine_stop(bool valid);

/* The calling thread is in a call that the engine itself makes. */
bool launch_engine_calls(void);

/* A callback of the resource domain, on the thread that it is about. */
void launch_engine_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data);
#else /* headers of an older CUDA */
#define launch_engine_detach() true
#define launch_engine_enter(data, function, graph) ((void)(function), (void)(graph))
#define launch_engine_exit(data) ((void)0)
#define launch_engine_calls() false
#define launch_engine_times(w, correlation, start_ns, end_ns) false
#define launch_engine_has_patched(correlation, began_ns) ((void)(began_ns), false)
#define launch_engine_serializes() false
#define launch_engine_hold() true
#define launch_engine_let() ((void)0)
#define launch_engine_refuse(...) ((void)0)
#define launch_engine_callback(cbid, data) ((void)0)
#endif

#endif
