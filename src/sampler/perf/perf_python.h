/*
 * perf_python.h: Python frames of what perf events sample, read from outside (perf_reader.h): of
 * processes that run already, in which no timer can be. For the sampler's thread.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_PYTHON_H
#define PITOT_SAMPLER_PERF_PERF_PYTHON_H

#include "sampler/cpu_sampler.h"
#include "sampler/perf/perf_reader.h"

struct perf_python;

/* Whether frames of what these processes run can be read. */
enum cpu_python perf_python_check(const struct cpu_options *options, const struct cpu_roots *roots);

/* 0 or a negative errno. */
int perf_python_open(const struct perf_events *events, const struct perf_sample_layout *layout,
		     struct targets *targets, struct perf_python **out) MUST_USE;
void perf_python_free(struct perf_python *p);

/* Looks for the interpreter of a process that runs already, before its first sample. */
void perf_python_find(struct perf_python *p, struct target *target);
/*
 * Whether a sample is of a Python. Then it is added to its target later, when it is certain which
 * frames it has.
 */
bool perf_python_sample(struct perf_python *p, struct target *target,
			const struct perf_sample *sample, const struct target_stack *stack);
/* Records other than samples, before anything else is done about them. */
void perf_python_notice(struct perf_python *p, unsigned type, const struct perf_notice *n);
void perf_python_lose(struct perf_python *p);

/* To be called after the rings were looked at, and before their records are handled. */
void perf_python_read(struct perf_python *p);
/* Nothing more is sampled. Returns the CPU time that reading took. */
uint64_t perf_python_stop(struct perf_python *p);
/* All records were handled. */
void perf_python_finish(struct perf_python *p);

#endif
