/*
 * cpu_sampler.h: samples the CPU use of a command and its descendants from outside, into the
 * segments cpu-<pid>.<n>.pit of a recording: tables process, thread, module, stack_node, stack,
 * cpu_sample, off_cpu, loss, cost, capability.
 *
 * The best method that is allowed is used: eBPF (privileged: kernel stacks, Python frames, time
 * off the CPU; stacks are unwound in the operating system's kernel, from the unwind tables),
 * then perf_event (own processes: registers and a copy of the top of the stack, unwound here
 * from the same tables). Where neither is allowed, the recorder inside each process samples it
 * by a timer (capture/cpu/cpu_timer.c): then there is nothing to do here.
 *
 * A sampler runs its own thread, unless its method is the timer. All functions must be called on
 * one thread, that of `pitot record`.
 */
#ifndef PITOT_SAMPLER_CPU_SAMPLER_H
#define PITOT_SAMPLER_CPU_SAMPLER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/strbuf.h"
#include "sampler/cpu_method.h"

struct cpu_sampler;

/*
 * Samples all threads of the processes and of the descendants that they start from now on. A child
 * that waits for its exec is sampled from the exec on. Of processes that are running already,
 * existing descendants are sampled too, and roots that have ended are ignored unless all have.
 * Returns 0; E_UNSUPPORTED when no method, or not the requested one, is allowed, with the reason
 * and the way out in e; -ESRCH; or another negative code.
 */
int cpu_sampler_start(const struct cpu_options *options, const struct cpu_roots *roots,
		      struct cpu_sampler **out, struct error *e) MUST_USE;

enum cpu_method cpu_sampler_method(const struct cpu_sampler *s);
/* "eBPF", "perf_event", "a timer inside each process" */
const char *cpu_method_name(enum cpu_method method);
/*
 * Why no better method is used, or what this one lacks, such as "no kernel frames:
 * perf_event_paranoid is 2"; "" if there is nothing to explain.
 */
const char *cpu_sampler_reason(const struct cpu_sampler *s);

enum cpu_python cpu_sampler_python(const struct cpu_sampler *s);

/*
 * Appends that perf events have no Python frames and, for processes that are running already, why,
 * and the command that records them. was_chosen: the user requested the method; root may prefer
 * another.
 */
void cpu_explain_no_python(const struct cpu_roots *roots, bool was_chosen, enum cpu_python python,
			   struct strbuf *out);

struct cpu_sampler_result {
	/* CPU time that it used, including its programs in the operating system's kernel */
	uint64_t cpu_ns;
	bool allocator; /* the allocator of a process was recorded */
	struct strbuf no_allocator; /* why none was, or not all */
};

/*
 * Stops sampling, writes the remaining samples, closes all segments and frees the sampler. `result`
 * may be NULL; else it has to be zeros. Returns 0, or the first error of writing.
 */
int cpu_sampler_stop(struct cpu_sampler **s, struct cpu_sampler_result *result, struct error *e);

/*
 * For `pitot doctor`: whether this method could sample a child of ours. Returns 0, or a negative
 * code with the reason and the way out in e.
 */
int cpu_method_check(enum cpu_method method, struct error *e);

#endif
