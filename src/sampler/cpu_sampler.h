/*
 * cpu_sampler.h: samples what a command and all that it starts do on the CPU, from outside, into
 * segments cpu-<pid>.<n>.pit of a recording: tables process, thread, module, stack_node, stack,
 * cpu_sample, off_cpu, loss, cost, capability.
 *
 * Ways, from the best: eBPF (privileged: kernel stacks, Python frames, time off the CPU; stacks are
 * walked in the kernel, from the unwind tables), perf_event (own processes: registers and a copy of
 * the stack's top, walked here from the same tables). Where neither is allowed, the recorder inside
 * the process has a timer; that is not here.
 *
 * A sampler runs a thread of its own. All functions are for one thread, that of `pitot record`.
 */
#ifndef PITOT_SAMPLER_CPU_SAMPLER_H
#define PITOT_SAMPLER_CPU_SAMPLER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

struct file_copies;

enum cpu_method { CPU_METHOD_NONE, CPU_METHOD_EBPF, CPU_METHOD_PERF };

/* Whether the Python frames of processes that run already are sampled. */
enum cpu_python {
	CPU_PYTHON_NONE, /* not, or none of them is a Python */
	CPU_PYTHON_FORBIDDEN, /* their memory may not be read */
	CPU_PYTHON_READ,
};

struct cpu_options {
	const char *directory; /* of the recording; must stay */
	unsigned hz; /* 1 … 10000 samples a second of CPU time of each thread */
	bool off_cpu; /* time off the CPU too: eBPF only */
	bool kernel; /* frames and time of the operating system's kernel, where that is allowed */
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC; end 0: none */
	uint64_t max_bytes; /* of all segments; 0: no limit */
	/*
	 * Recorders inside may take processes over from perf events, which have no Python frames
	 * (settings.h, perf_namespace).
	 */
	bool timers_inside;
	enum cpu_method method; /* CPU_METHOD_NONE: the best that is allowed */
	/* gets files that are perhaps gone soon; the sampler's until it is stopped; NULL: none */
	struct file_copies *kept;
};

/* What is sampled. */
struct cpu_roots {
	const pid_t *pids;
	size_t count;
	bool running;
};

struct cpu_sampler;

/*
 * Samples processes with all their threads and whatever they start from now on. Either it is one, a
 * child that waits for its exec (then nothing before the exec is sampled), or they run already
 * (running); then those that they have started are sampled too, and roots that have ended are left
 * out, if any is there. 0; E_UNSUPPORTED when no method is allowed or the wanted one is not, with
 * the reason and what to do in e; -ESRCH; or another negative code.
 */
int cpu_sampler_start(const struct cpu_options *options, const struct cpu_roots *roots,
		      struct cpu_sampler **out, struct error *e) MUST_USE;

enum cpu_method cpu_sampler_method(const struct cpu_sampler *s);
/* "eBPF", "perf_event" */
const char *cpu_method_name(enum cpu_method method);
/*
 * Why it is not a better method, or lacks something, such as "no kernel frames: perf_event_paranoid
 * is 2"; "" if not.
 */
const char *cpu_sampler_reason(const struct cpu_sampler *s);

enum cpu_python cpu_sampler_python(const struct cpu_sampler *s);

/*
 * Appends that perf events have no Python frames, and of processes that run already why, and the
 * command that has them; was_chosen: this method was asked for, so that root, too, may have
 * another.
 */
void cpu_no_python(const struct cpu_roots *roots, bool was_chosen, enum cpu_python python,
		   struct strbuf *out);

/*
 * Stops, takes the samples that are there, closes all segments, frees. *cpu_ns (may be NULL) is the
 * CPU time that the sampler's thread took, with what its programs took in the kernel. 0, or the
 * first error of writing.
 */
int cpu_sampler_stop(struct cpu_sampler **s, uint64_t *cpu_ns, struct error *e);

/*
 * For `pitot doctor`: whether this method could be used now for a child of ours. 0, or a negative
 * code with the reason and the way out in e.
 */
int cpu_method_check(enum cpu_method method, struct error *e);

#endif
