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

struct file_copies;

/* A method is 1 + enum sampling_method; auto: the best that is allowed. */
enum cpu_method { CPU_METHOD_AUTO, CPU_METHOD_EBPF, CPU_METHOD_PERF, CPU_METHOD_TIMER };
/* Their names as values of an option; NULL at the end. */
extern const char *const cpu_method_options[];

/* Whether the Python frames of processes that were already running are sampled. */
enum cpu_python {
	CPU_PYTHON_NONE, /* no, or none of the processes runs Python */
	CPU_PYTHON_FORBIDDEN, /* their memory may not be read */
	CPU_PYTHON_READ,
};

struct cpu_options {
	const char *directory; /* of the recording; not copied */
	struct folder_id folder; /* which one that is */
	unsigned hz; /* samples per second of CPU time of each thread, 1 … 10000 */
	bool off_cpu; /* also record time off the CPU (eBPF only) */
	bool kernel; /* also sample the operating system's kernel, where that is allowed */
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC; end 0: none */
	uint64_t max_bytes; /* limit for all segments together; 0: none */
	/*
	 * Recorders inside the processes may take over from perf events, which have no Python
	 * frames (settings.h, perf_namespace).
	 */
	bool timers_inside;
	enum cpu_method method;
	/*
	 * Receives copies of files that may soon be deleted. Used by the sampler until it is
	 * stopped; NULL: no copies are made.
	 */
	struct file_copies *file_copies;
};

/* The processes to sample. If they are not `running`, there is one: a child that waits for exec. */
struct cpu_roots {
	const pid_t *pids;
	size_t count;
	bool running;
};

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

/*
 * Stops sampling, writes the remaining samples, closes all segments and frees the sampler. *cpu_ns
 * (may be NULL) is the CPU time that the sampler used, including its programs in the operating
 * system's kernel. Returns 0, or the first error of writing.
 */
int cpu_sampler_stop(struct cpu_sampler **s, uint64_t *cpu_ns, struct error *e);

/*
 * For `pitot doctor`: whether this method could sample a child of ours. Returns 0, or a negative
 * code with the reason and the way out in e.
 */
int cpu_method_check(enum cpu_method method, struct error *e);

#endif
