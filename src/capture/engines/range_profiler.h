/*
 * range_profiler.h: --engine range-profiler: hardware counters of chosen launches of kernels, beside the trace. Tables metric and
 * metric_value. What the hardware or its driver refuses is in the capability "engine"; the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_PROFILER_H
#define PITOT_CAPTURE_ENGINES_RANGE_PROFILER_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "capture/source.h"
#include "cupti/profiler_host.h"

extern const struct source range_profiler_source;

/* CUPTI is subscribed to, with the callbacks below. Again for nothing. On the thread that subscribes. */
void range_profiler_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber);
#ifdef PITOT_HAS_PROFILER_HOST
/* A session that wants counters has come after the subscription, which has not the callbacks that they need. Again for nothing. */
void range_profiler_missed(void);
/* The subscription is to end. Waits for a launch that is being measured. false: the subscription must stay. Vendor thread. */
bool range_profiler_detach(void);

/*
 * A call of the driver that launches begins, before anything else is done, and ends, after everything else. `function` is its name;
 * `graph`: it launches a graph.
 */
void range_profiler_enter(const CUpti_CallbackData *data, const char *function, bool graph);
void range_profiler_exit(const CUpti_CallbackData *data);
/* The calling thread is in a call that the engine itself makes. */
bool range_profiler_calls(void);

/*
 * When the last run of a measured launch began and ended: CUPTI's records of such kernels have no times. The end is that of the call, to
 * which the driver keeps it until all runs are over; the duration is gpu__time_duration.sum. false: it was not measured. Collector's thread.
 */
bool range_profiler_times(struct writer *w, uint32_t correlation, uint64_t *start_ns, uint64_t *end_ns);

/* A callback of the resource domain, on the thread that it is about. */
void range_profiler_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data);
#else /* headers of an older CUDA */
#define range_profiler_missed() ((void)0)
#define range_profiler_detach() true
#define range_profiler_enter(data, function, graph) ((void)(function), (void)(graph))
#define range_profiler_exit(data) ((void)0)
#define range_profiler_calls() false
#define range_profiler_times(w, correlation, start_ns, end_ns) false
#define range_profiler_callback(cbid, data) ((void)0)
#endif

#endif
