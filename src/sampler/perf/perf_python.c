#include "sampler/perf/perf_python.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "sampler/perf/perf_held.h"
#include "sampler/proc_tree.h"
#include "sampler/python/sampled_python.h"

#define HZ_MAX 1000u /* at a higher rate, reading would take too much of the threads' time */
#define READING_AGE_NS NS_PER_S /* age at which a reading without a sample is freed */

struct process {
	bool is_known; /* sampled_python_find() was called since its mappings changed */
	struct sampled_python *python; /* NULL: not Python */
};

struct perf_python {
	struct targets *targets;
	struct perf_readers *readers;
	uint64_t period_ns;
	struct map index; /* pid -> item of processes */
	VEC(struct process) processes;
	struct perf_held_list held;
	uint64_t samples, read; /* samples of Python processes; those with a usable reading */
	uint64_t read_ns; /* total duration of the readings */
	uint64_t unnamed; /* frames whose code object could not be described */
	uint64_t start_ns; /* start of the time span of `unnamed` */
	struct error python_error; /* for the first interpreter whose frames cannot be read */
	uint64_t frames[STACK_FRAMES_MAX]; /* of the stack being emitted */
};

/* --- processes --- */

enum cpu_python perf_python_check(const struct cpu_options *options, const struct cpu_roots *roots)
{
	enum cpu_python best = CPU_PYTHON_NONE;
	struct proc_tree tree = { 0 };

	if (!roots->running || options->hz > HZ_MAX)
		return CPU_PYTHON_NONE;
	if (proc_tree_read(&tree, roots->pids, roots->count) >= 0)
		for (size_t i = 0; i < tree.pids.count && best != CPU_PYTHON_READ; i++)
			best = MAX(best, sampled_python_check(tree.pids.data[i]));
	proc_tree_release(&tree);
	return best;
}

static struct process *find_or_add_process(struct perf_python *p, pid_t pid)
{
	uint64_t *at = map_at(&p->index, (uint64_t)pid, UINT64_MAX);
	struct process fresh = { 0 };

	if (!at)
		return NULL;
	if (*at == UINT64_MAX && vec_push(&p->processes, fresh) == 0)
		*at = p->processes.count - 1;
	return *at == UINT64_MAX ? NULL : &p->processes.data[*at];
}

static struct process *find_process(struct perf_python *p, pid_t pid)
{
	uint64_t at;

	return map_get(&p->index, (uint64_t)pid, &at) && at != UINT64_MAX ? &p->processes.data[at]
									  : NULL;
}

static void forget_process(struct perf_python *p, pid_t pid)
{
	struct process *process = find_process(p, pid);

	perf_held_end_process(&p->held, pid);
	if (!process)
		return;
	if (process->python)
		perf_readers_remove(p->readers, pid);
	sampled_python_free(process->python);
	*process = (struct process){ 0 };
}

/* Passes the location of the interpreter's data to the readers. */
static void add_location(struct perf_python *p, pid_t pid, const struct sampled_python *python)
{
	struct python_location location;

	sampled_python_location(python, &location);
	if (perf_readers_add(p->readers, pid, &location) < 0)
		error_set(&p->python_error, -ENOMEM, "out of memory");
}

/* Returns the interpreter of a process; NULL: it has none. */
static struct sampled_python *find_python(struct perf_python *p, struct target *target)
{
	pid_t pid = target_pid(target);
	struct process *process = find_or_add_process(p, pid);
	struct error why = { 0 };

	if (!process || process->is_known)
		return process ? process->python : NULL;
	process->is_known = true;
	if (sampled_python_find(p->targets, target, &process->python, &why) < 0 &&
	    !p->python_error.code) {
		error_prefix(&why, "process %d", (int)pid);
		p->python_error = why;
	}
	if (process->python)
		add_location(p, pid, process->python);
	return process->python;
}

void perf_python_find(struct perf_python *p, struct target *target)
{
	find_python(p, target);
}

/* --- samples --- */

static void emit(void *context, const struct perf_held *held, const struct perf_reading *reading)
{
	struct perf_python *p = context;
	struct target *target = targets_find(p->targets, held->pid);
	struct process *process = find_process(p, held->pid);
	struct target_stack stack = { .kernel = held->kernel,
				      .kernel_count = held->kernel_count,
				      .user = held->user,
				      .user_count = held->user_count,
				      .end = held->end };

	if (!target)
		return;
	if (reading && process && process->python && reading->has_frames) {
		const struct sampled_python_stack parts = {
			.native = held->user,
			.words = reading->words,
			.native_count = held->user_count,
			.python_count = reading->count,
			.python_complete = reading->is_complete,
		};

		p->read++;
		p->read_ns += reading->end_ns - reading->begin_ns;
		if (reading->count) {
			stack.user = p->frames;
			stack.user_count = sampled_python_merge(process->python, target, &parts,
								p->frames, &stack.end);
			p->unnamed += sampled_python_unnamed(process->python);
		}
	}
	targets_cpu_sample(p->targets, target, held->tid, held->time_ns, p->period_ns, held->cpu,
			   &stack);
}

bool perf_python_sample(struct perf_python *p, struct target *target,
			const struct perf_sample *sample, const struct target_stack *stack)
{
	struct perf_held *held = find_python(p, target) ? perf_held_add(&p->held, sample) : NULL;

	if (!held)
		return false;
	p->samples++;
	held->kernel_count = MIN(stack->kernel_count, PERF_KERNEL_FRAMES_MAX);
	held->user_count = stack->user_count;
	held->end = stack->end;
	memcpy(held->kernel, stack->kernel, held->kernel_count * sizeof(*held->kernel));
	memcpy(held->user, stack->user, held->user_count * sizeof(*held->user));
	return true;
}

void perf_python_sideband(struct perf_python *p, unsigned type, const struct perf_sideband *n)
{
	struct process *process;

	switch (type) {
	case PERF_RECORD_SWITCH:
		perf_held_switch(&p->held, n);
		break;
	case PERF_RECORD_FORK:
		perf_readers_begin_thread(p->readers, n->tid);
		if (n->pid != n->parent_pid)
			forget_process(p, n->pid);
		break;
	case PERF_RECORD_EXIT:
		perf_held_end(&p->held, n->tid);
		break;
	case PERF_RECORD_COMM:
		if (n->is_exec)
			forget_process(p, n->pid);
		break;
	case PERF_RECORD_MMAP2:
		process = n->is_executable ? find_process(p, n->pid) : NULL;
		if (process && !process->python)
			process->is_known = false;
		break;
	default:
		break;
	}
}

void perf_python_on_loss(struct perf_python *p)
{
	perf_held_on_loss(&p->held);
}

void perf_python_read(struct perf_python *p)
{
	size_t before;
	uint64_t now_ns = clock_monotonic_ns();

	perf_held_forget(&p->held, now_ns - MIN(now_ns, READING_AGE_NS));
	before = p->held.readings.all.count;
	perf_readers_take(p->readers, &p->held.readings);
	for (size_t i = before; i < p->held.readings.all.count; i++) {
		const struct perf_reading *r = p->held.readings.all.data[i];
		struct process *process = find_process(p, r->pid);

		if (!process || !process->python)
			continue;
		for (unsigned k = 0; k < r->code_count; k++)
			sampled_python_add_code(process->python, &r->codes[k], sizeof(r->codes[k]));
		if (r->thread_base && !r->has_frames &&
		    sampled_python_locate(process->python, r->thread_base))
			add_location(p, r->pid, process->python);
	}
}

/* --- the source --- */

int perf_python_open(const struct perf_events *events, const struct perf_sample_layout *layout,
		     struct targets *targets, struct perf_python **out)
{
	struct perf_python *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->targets = targets;
	p->period_ns = events->period_ns;
	p->start_ns = clock_monotonic_ns();
	p->held.emit = emit;
	p->held.context = p;
	err = perf_readers_start(events, layout, &p->readers);
	if (err < 0) {
		free(p);
		return err;
	}
	*out = p;
	return 0;
}

uint64_t perf_python_stop(struct perf_python *p)
{
	return perf_readers_stop(p->readers);
}

void perf_python_finish(struct perf_python *p)
{
	char actual[128];
	bool most = p->read >= p->samples - p->samples / 10;

	perf_held_end_process(&p->held, 0);
	if (p->unnamed)
		targets_loss(p->targets, NULL, loss_reason_unnamed_frames, p->unnamed, p->start_ns,
			     clock_monotonic_ns());
	if (p->python_error.code)
		targets_capability(p->targets, feature_cpu_python, capability_state_degraded,
				   "native frames of the interpreter", p->python_error.text);
	if (!p->samples)
		return;
	snprintf(actual, sizeof(actual),
		 "%" PRIu64 " of %" PRIu64 " sample%s, each read in %.0f us", p->read, p->samples,
		 plural(p->samples), (double)p->read_ns / 1e3 / (double)MAX(p->read, 1u));
	targets_capability(
		p->targets, feature_cpu_python,
		most ? capability_state_on : capability_state_degraded, actual,
		most ? NULL
		     : "the others have only native frames, because their threads ran on "
		       "before they were read");
}

void perf_python_free(struct perf_python *p)
{
	if (!p)
		return;
	perf_held_release(&p->held);
	for (size_t i = 0; i < p->processes.count; i++)
		sampled_python_free(p->processes.data[i].python);
	vec_release(&p->processes);
	map_release(&p->index);
	perf_readers_free(p->readers);
	free(p);
}
