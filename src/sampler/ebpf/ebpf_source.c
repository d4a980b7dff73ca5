/*
 * ebpf_source.c: the eBPF sampling method. Puts the records of the BPF programs and the sideband
 * records of perf events (mappings, forks, names) in order of time, applies them to `targets`, and
 * uploads the unwind tables that the programs lack.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "sampler/ebpf/ebpf_state.h"
#include "sampler/proc_tree.h"

/* Records younger than this may still be on their way into another ring. */
#define SETTLE_NS (2 * NS_PER_MS)
#define SETTLE_MS 3
#define SAMPLER_NICE (-10)
#define QUIET_HZ 99 /* of samples that are not stored */
#define KALLSYMS "/proc/kallsyms"

static int on_record(void *context, void *bytes, size_t size)
{
	struct cpu_sampling_state *s = context;
	const struct bpf_record *h = bytes;

	if (size < sizeof(*h))
		return 0;
	if (h->kind == BPF_RECORD_CODE) {
		if (!ebpf_sample_code(s, bytes, size))
			ebpf_queue_put(&s->queue, h->time_ns, h, size);
		return 0;
	}
	if (h->kind == BPF_RECORD_PART) {
		ebpf_parts_add(&s->parts, h, size);
		return 0;
	}
	if (h->part)
		h = ebpf_parts_join(&s->parts, h, &size);
	if (!h) {
		s->lost++;
		return 0;
	}
	ebpf_queue_put(&s->queue, h->time_ns, h, size);
	if (h->copied)
		s->urgent_ns = MAX(s->urgent_ns, h->time_ns);
	return 0;
}

static void handle_item(void *context, const struct ebpf_item *item, const void *bytes)
{
	struct cpu_sampling_state *s = context;

	ebpf_process_events(s, item->time_ns);
	ebpf_sample_record(s, bytes, item->size);
}

static void count_loss(struct cpu_sampling_state *s, enum loss_reason reason, uint64_t count,
		       uint64_t now)
{
	if (count)
		targets_loss(s->targets, NULL, reason, count, s->counted_ns, now);
}

static void count_losses(struct cpu_sampling_state *s)
{
	const struct bpf_counters *c = s->programs->counters;
	uint64_t dropped = __atomic_load_n(&c->dropped, __ATOMIC_RELAXED) + s->lost + s->queue.lost;
	uint64_t not_followed = __atomic_load_n(&c->not_followed, __ATOMIC_RELAXED);
	uint64_t sites_dropped =
		__atomic_load_n(&c->sites_dropped, __ATOMIC_RELAXED) + s->sites_lost;
	uint64_t sites_unwalked = __atomic_load_n(&c->sites_unwalked, __ATOMIC_RELAXED);
	uint64_t now = clock_monotonic_ns();

	if (!s->no_samples)
		count_loss(s, loss_reason_samples_dropped, dropped - s->dropped, now);
	count_loss(s, loss_reason_process_limit, not_followed - s->not_followed, now);
	count_loss(s, loss_reason_unnamed_frames, s->unnamed, now);
	count_loss(s, loss_reason_allocations_dropped, sites_dropped - s->sites_dropped, now);
	count_loss(s, loss_reason_allocation_stacks, sites_unwalked - s->sites_unwalked, now);
	s->sites_dropped = sites_dropped;
	s->sites_unwalked = sites_unwalked;
	s->dropped = dropped;
	s->not_followed = not_followed;
	s->unnamed = 0;
	s->counted_ns = now;
}

static void collect(struct cpu_sampling_state *s, uint64_t until_ns)
{
	s->settled_ns = until_ns;
	s->collected_ns = clock_monotonic_ns();
	perf_rings_update(&s->sideband.rings);
	ebpf_queue_drain(&s->queue, until_ns, handle_item, s);
	ebpf_process_events(s, until_ns);
	if (s->missed)
		ebpf_processes_reread(s, clock_monotonic_ns());
	s->missed = false;
	count_losses(s);
}

/* Raises the priority: with many busy threads, ours would run too late and the rings overflow. */
static void raise_priority(struct cpu_sampling_state *s)
{
	if (!s->priority_raised)
		setpriority(PRIO_PROCESS, (id_t)gettid(), SAMPLER_NICE);
	s->priority_raised = true;
}

/*
 * Waits for records and, if the allocator is recorded, for mappings, so that a library that a
 * process has just loaded has its probes before it is used. Returns 0 or -errno.
 */
static int wait(struct cpu_sampling_state *s, int timeout_ms, int wake_fd)
{
	unsigned rings = s->allocator.programs ? s->sideband.rings.count : 0;

	s->waits[0] = (struct pollfd){ .fd = ring_buffer__epoll_fd(s->programs->records),
				       .events = POLLIN };
	s->waits[1] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	for (unsigned i = 0; i < rings; i++)
		s->waits[2 + i] = (struct pollfd){ .fd = s->sideband.files[i], .events = POLLIN };
	if (poll(s->waits, 2 + rings, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	for (unsigned i = 0; i < rings; i++)
		if (s->waits[2 + i].revents)
			s->urgent_ns = clock_monotonic_ns();
	return 0;
}

static int source_poll(struct cpu_sampling_state *s, int timeout_ms, int wake_fd)
{
	uint64_t due_ns = s->collected_ns + (uint64_t)timeout_ms * NS_PER_MS, now;
	int r;

	raise_priority(s);
	now = clock_monotonic_ns();
	timeout_ms = now < due_ns ? (int)((due_ns - now) / NS_PER_MS) + 1 : 0;
	if (s->urgent_ns > s->settled_ns)
		timeout_ms = MIN(timeout_ms, SETTLE_MS);
	r = wait(s, timeout_ms, wake_fd);
	if (r < 0)
		return r;
	ring_buffer__consume(s->programs->records);
	/* If it was woken because there was much to read, samples can wait. */
	now = clock_monotonic_ns();
	if (now < due_ns && s->urgent_ns <= s->settled_ns)
		return 0;
	collect(s, now - SETTLE_NS);
	ebpf_allocator_poll(&s->allocator, now);
	ebpf_processes_upload(s);
	return 0;
}

static void source_finish(struct cpu_sampling_state *s)
{
	sampler_programs_stop(s->programs);
	ring_buffer__consume(s->programs->records);
	collect(s, UINT64_MAX);
	ebpf_samples_finish(s, clock_monotonic_ns());
	if (s->python_error.code)
		targets_capability(s->targets, feature_cpu_python, capability_state_degraded,
				   "native frames of the interpreter", s->python_error.text);
}

static uint64_t source_kernel_ns(const struct cpu_sampling_state *s)
{
	return __atomic_load_n(&s->programs->counters->run_ns, __ATOMIC_RELAXED);
}

static void source_free(struct cpu_sampling_state *s)
{
	if (!s)
		return;
	ebpf_allocator_release(&s->allocator);
	free(s->waits);
	sampler_programs_free(s->programs);
	ebpf_sideband_close(&s->sideband);
	ebpf_tables_release(&s->tables);
	ebpf_parts_release(&s->parts);
	ebpf_queue_release(&s->queue);
	ebpf_processes_release(s);
	ebpf_samples_release(s);
	free(s);
}

/* --- opening --- */

static int open_programs(struct cpu_sampling_state *s, const struct cpu_options *options,
			 struct error *e)
{
	const struct sampler_load_options load = {
		.hz = options->hz ? options->hz : QUIET_HZ,
		.off_cpu = options->off_cpu,
		.kernel = options->kernel,
		.probes = options->allocator,
		.start_ns = options->start_ns,
		.end_ns = options->end_ns,
	};
	int r = sampler_programs_open(&load, on_record, s, &s->programs, e);

	if (r == 0)
		r = ebpf_sideband_open(&s->sideband, options->allocator, e);
	if (r == 0 && ebpf_tables_init(&s->tables, s->programs) < 0)
		r = error_set(e, E_UNSUPPORTED, "no memory for a BPF map");
	if (r == 0)
		s->waits = calloc(2 + (size_t)s->sideband.rings.count, sizeof(*s->waits));
	if (r == 0 && !s->waits)
		r = error_set(e, -ENOMEM, "out of memory");
	if (options->allocator)
		s->allocator =
			(struct ebpf_allocator){ .programs = s->programs, .targets = s->targets };
	return r;
}

static int follow_one(struct cpu_sampling_state *s, pid_t pid, bool running, struct error *e)
{
	int r = sampler_programs_follow(s->programs, pid, running);
	if (r < 0)
		return error_errno(e, -r, "cannot follow process %d", (int)pid);
	if (!ebpf_process_add(s, pid) ||
	    (running && !targets_running(s->targets, pid, clock_monotonic_ns())))
		return error_set(e, -ENOMEM, "out of memory");
	if (running)
		ebpf_allocator_find(&s->allocator, pid);
	return 0;
}

/* The BPF programs follow what processes start from now on; /proc has what they started before. */
static int follow_running(struct cpu_sampling_state *s, const struct cpu_roots *roots,
			  struct error *e)
{
	struct proc_tree tree = { 0 };
	bool any = true;
	int r = 0;

	while (any && r == 0) {
		any = false;
		r = proc_tree_read(&tree, roots->pids, roots->count);
		if (r < 0)
			error_set(e, r, r == -ESRCH ? "there is no process %d" : "out of memory",
				  (int)roots->pids[0]);
		for (size_t i = 0; i < tree.pids.count && r == 0; i++) {
			if (ebpf_process_find(s, tree.pids.data[i]))
				continue;
			any = true;
			r = follow_one(s, tree.pids.data[i], true, e);
		}
	}
	proc_tree_release(&tree);
	return r;
}

static int follow(struct cpu_sampling_state *s, const struct cpu_roots *roots, struct error *e)
{
	int r = roots->running ? follow_running(s, roots, e)
			       : follow_one(s, roots->pids[0], false, e);

	return r < 0 ? r : sampler_programs_start(s->programs, e);
}

static int source_open(const struct cpu_options *options, const struct cpu_roots *roots,
		       struct targets *targets, struct strbuf *reason,
		       struct cpu_sampling_state **out, struct error *e)
{
	struct cpu_sampling_state *s = calloc(1, sizeof(*s));
	int r;

	(void)reason;
	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->targets = targets;
	s->end_ns = options->end_ns;
	s->no_samples = !options->hz;
	s->counted_ns = clock_monotonic_ns();
	if (options->off_cpu)
		s->switch_function = switch_function_find(KALLSYMS);
	r = open_programs(s, options, e);
	if (r == 0)
		r = follow(s, roots, e);
	if (r < 0) {
		source_free(s);
		return r;
	}
	*out = s;
	return 0;
}

static bool source_allocator(const struct cpu_sampling_state *s, struct strbuf *reason)
{
	return ebpf_allocator_was_set(&s->allocator, reason);
}

static int ignore_record(void *context, void *bytes, size_t size)
{
	(void)context;
	(void)bytes;
	(void)size;
	return 0;
}

static int source_check(struct error *e)
{
	const struct sampler_load_options options = { .hz = 99, .off_cpu = true, .kernel = true };
	struct sampler_programs *programs;
	int r = sampler_programs_open(&options, ignore_record, NULL, &programs, e);

	if (r == 0)
		sampler_programs_free(programs);
	return r;
}

const struct cpu_method_ops cpu_method_ebpf = {
	.name = "eBPF",
	.method = CPU_METHOD_EBPF,
	.open = source_open,
	.poll = source_poll,
	.finish = source_finish,
	.free = source_free,
	.kernel_ns = source_kernel_ns,
	.allocator = source_allocator,
	.check = source_check,
};
