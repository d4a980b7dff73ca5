/*
 * perf_python.h: Python frames of perf samples, read from outside (perf_reader.h): for processes
 * that were already running, which cannot be given a timer. To be called on the sampler's thread.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_PYTHON_H
#define PITOT_SAMPLER_PERF_PERF_PYTHON_H

#include "sampler/cpu_sampler.h"
#include "sampler/perf/perf_reader.h"

struct perf_python;

/* Whether Python frames of these processes can be read. */
enum cpu_python perf_python_check(const struct cpu_options *options, const struct cpu_roots *roots);

/* Starts the threads that read. Returns 0 or a negative errno. */
int perf_python_open(const struct perf_events *events, const struct perf_sample_layout *layout,
		     struct targets *targets, struct perf_python **out) MUST_USE;
void perf_python_free(struct perf_python *p);

/* Finds the interpreter of a running process, before its first sample. */
void perf_python_find(struct perf_python *p, struct target *target);
/*
 * Whether a sample belongs to a Python process. If so, it is added to its target later, when it is
 * certain which frames it has.
 */
bool perf_python_sample(struct perf_python *p, struct target *target,
			const struct perf_sample *sample, const struct target_stack *stack);
/* Must be called with each sideband record before it is applied. */
void perf_python_sideband(struct perf_python *p, unsigned type, const struct perf_sideband *n);
void perf_python_on_loss(struct perf_python *p);

/* Must be called after perf_rings_update(), before the records are handled. */
void perf_python_read(struct perf_python *p);
/* Stops reading. Returns the CPU time that it took. */
uint64_t perf_python_stop(struct perf_python *p);
/* Must be called after all records were handled. */
void perf_python_finish(struct perf_python *p);

#endif
