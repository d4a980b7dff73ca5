/*
 * perf_sampler.c: the perf_event sampling method. After each period of a thread's CPU time, the
 * operating system's kernel writes the thread's registers and the top of its stack into a ring. The
 * stacks are unwound here, on the sampler's thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "sampler/cpu_method.h"
#include "sampler/perf/perf_open.h"
#include "sampler/perf/perf_python.h"
#include "sampler/perf/perf_record.h"
#include "sampler/perf/perf_threads.h"
#include "stack/python/python_offsets.h"

/* Records of this age are complete on all processors, so they can be put in order. */
#define SETTLE_NS (5 * NS_PER_MS)
#define FIRST_WAIT_MS 10
#define PYTHON_WAIT_MS 20 /* short enough for code objects to exist and rings to have room */

struct cpu_sampling_state {
	struct perf_events events;
	struct perf_sample_layout layout;
	struct targets *targets;
	uint64_t start_ns, end_ns; /* window; end 0: none */
	struct perf_threads threads;
	enum cpu_python has_python;
	struct perf_python *python; /* NULL: Python frames are not read */
	struct error other_python; /* for the first process with another implementation */
	uint64_t reading_ns; /* CPU time that reading Python frames took */
	struct pollfd *files; /* one per ring, then wake_fd */
	bool stopped;
	bool processes_started; /* since the last wait: read them from /proc soon */
	int wait_ms;
	uint64_t lost; /* records dropped because a ring was full */
	uint64_t cpu_ns, lost_in_all; /* the kernel's totals, read when sampling has stopped */
	struct perf_sample sample;
	uint64_t frames[PERF_USER_FRAMES_MAX];
};

/* --- records --- */

static void on_fork(struct cpu_sampling_state *s, const struct perf_sideband *n)
{
	if (!perf_thread_begins(&s->threads, n->pid, n->tid, n->time_ns) || n->pid == n->parent_pid)
		return;
	targets_fork(s->targets, n->parent_pid, n->pid, n->time_ns);
	s->processes_started = true;
}

static void on_thread_exit(struct cpu_sampling_state *s, const struct perf_sideband *n)
{
	uint64_t known;

	if (map_get(&s->events.opened, (uint64_t)n->tid, &known) && known)
		*map_at(&s->events.opened, (uint64_t)n->tid, 0) = 0;
	perf_thread_ends(&s->threads, n->pid, n->tid, n->time_ns);
}

static void on_comm(struct cpu_sampling_state *s, const struct perf_sideband *n)
{
	if (n->is_exec) {
		/* The exit records of its other threads came before. */
		perf_threads_exec(&s->threads, s->targets, n->pid);
		targets_exec(s->targets, n->pid, n->time_ns);
		perf_thread_begins(&s->threads, n->pid, n->tid, n->time_ns);
		s->processes_started = true;
	}
	targets_thread_name(s->targets, n->pid, n->tid, n->text, n->time_ns);
}

static void on_sample(struct cpu_sampling_state *s, const struct perf_event_header *h)
{
	struct perf_sample *p = &s->sample;
	struct target_stack stack = { .end = stack_end_truncated };
	struct target *target;
	uint64_t owner, own;

	if (!perf_record_sample(h, &s->layout, p))
		return;
	if (p->time_ns < s->start_ns || (s->end_ns && p->time_ns >= s->end_ns))
		return;
	/*
	 * A thread with its own events may have inherited those of another as well: its samples
	 * from these are duplicates.
	 */
	if (map_get(&s->events.owners, p->id, &owner) && owner != (uint64_t)p->tid &&
	    map_get(&s->events.opened, (uint64_t)p->tid, &own) && own)
		return;
	target = targets_running(s->targets, p->pid, p->time_ns);
	if (!target) {
		targets_loss(s->targets, NULL, loss_reason_process_limit, 1, p->time_ns,
			     p->time_ns);
		return;
	}
	stack.kernel = p->kernel;
	stack.kernel_count = p->kernel_count;
	stack.user = s->frames;
	if (p->has_user)
		stack.user_count = stack_snapshot_walk(s->targets, target, &p->stack, s->frames,
						       PERF_USER_FRAMES_MAX, &stack.end);
	if (!s->python || !perf_python_sample(s->python, target, p, &stack))
		targets_cpu_sample(s->targets, target, p->tid, p->time_ns, s->events.period_ns,
				   p->cpu, &stack);
	perf_thread_sampled(&s->threads, p->tid, s->events.period_ns);
}

/* Adds records that were dropped between since_ns and time_ns, because a ring was full. */
static void lose(struct cpu_sampling_state *s, uint64_t count, uint64_t since_ns, uint64_t time_ns)
{
	s->lost += count;
	if (s->python)
		perf_python_on_loss(s->python);
	targets_loss(s->targets, NULL, loss_reason_samples_dropped, count, MIN(since_ns, time_ns),
		     time_ns);
}

/* Returns the earliest time of the rings' last records. */
static uint64_t earliest_ns(const struct perf_rings *all)
{
	uint64_t earliest = UINT64_MAX;

	for (unsigned i = 0; i < all->count; i++)
		earliest = MIN(earliest, all->rings[i].dropped_ns);
	return earliest;
}

static void on_mapping(struct cpu_sampling_state *s, const struct perf_sideband *n)
{
	struct error why = { 0 };

	targets_map(s->targets, n->pid, &n->mapping, n->time_ns);
	if (s->other_python.code || python_refuse_other(n->mapping.path, &why) == 0)
		return;
	error_prefix(&why, "process %d", (int)n->pid);
	s->other_python = why;
}

static void on_sideband(struct cpu_sampling_state *s, const struct perf_event_header *h,
			const struct perf_ring *ring)
{
	struct perf_sideband n;

	if (!perf_record_sideband(h, &n))
		return;
	if (s->python)
		perf_python_sideband(s->python, h->type, &n);
	switch (h->type) {
	case PERF_RECORD_FORK:
		on_fork(s, &n);
		break;
	case PERF_RECORD_EXIT:
		on_thread_exit(s, &n);
		break;
	case PERF_RECORD_READ:
		perf_thread_counted(&s->threads, n.pid, n.tid, n.cpu_ns);
		break;
	case PERF_RECORD_COMM:
		on_comm(s, &n);
		break;
	case PERF_RECORD_MMAP2:
		if (n.is_executable)
			on_mapping(s, &n);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		lose(s, n.lost, ring->dropped_ns, n.time_ns);
		break;
	case PERF_RECORD_THROTTLE:
		targets_loss(s->targets, targets_find(s->targets, n.pid), loss_reason_throttled, 1,
			     n.time_ns, n.time_ns);
		break;
	}
}

/* Handles the records that are not younger than until_ns. */
static void drain_records(struct cpu_sampling_state *s, uint64_t until_ns)
{
	const struct perf_event_header *h;
	struct perf_ring *ring;

	while ((h = perf_rings_next(&s->events.rings, until_ns, &ring))) {
		if (s->threads.endings.count)
			perf_threads_settle(&s->threads, s->targets, ring->time_ns);
		if (h->type == PERF_RECORD_SAMPLE)
			on_sample(s, h);
		else
			on_sideband(s, h, ring);
		perf_rings_drop(&s->events.rings, ring);
	}
	if (s->events.rings.corrupt) {
		s->events.rings.corrupt = false;
		lose(s, 0, earliest_ns(&s->events.rings), clock_monotonic_ns());
	}
}

/* --- the source --- */

static void perf_free(struct cpu_sampling_state *s)
{
	if (s->python)
		perf_python_stop(s->python);
	perf_python_free(s->python);
	perf_events_close(&s->events);
	perf_threads_release(&s->threads);
	free(s->files);
	free(s);
}

/* Adds the threads that were running before, which have no fork record. */
static int add_running(struct cpu_sampling_state *s)
{
	uint64_t now_ns = clock_monotonic_ns();

	for (size_t i = 0; i < s->events.found.count; i++) {
		const struct perf_thread_id *found = &s->events.found.data[i];
		struct target *target;

		perf_thread_begins(&s->threads, found->pid, found->tid, now_ns);
		target = targets_running(s->targets, found->pid, now_ns);
		if (!target)
			return -ENOMEM;
		if (s->python)
			perf_python_find(s->python, target);
	}
	return 0;
}

static int perf_open(const struct cpu_options *options, const struct cpu_roots *roots,
		     struct targets *targets, struct strbuf *reason,
		     struct cpu_sampling_state **out, struct error *e)
{
	struct cpu_sampling_state *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->has_python = perf_python_check(options, roots);
	r = perf_events_open(&s->events, options, roots, s->has_python, reason, e);
	if (r < 0) {
		free(s);
		return r;
	}
	s->layout = (struct perf_sample_layout){
		.read_words = s->events.reads ? 1 + s->events.counts_lost : 0,
		.callchain = s->events.kernel,
		.stack_bytes = s->events.stack_bytes,
	};
	s->targets = targets;
	s->threads.writes_spans = options->timers_inside;
	s->start_ns = options->start_ns;
	s->end_ns = options->end_ns;
	s->wait_ms = FIRST_WAIT_MS;
	s->threads.root = roots->running ? 0 : roots->pids[0];
	/* With a window that starts later, the CPU time of a thread before it is unknown. */
	s->threads.end_ns = options->start_ns ? 0 : options->end_ns ? options->end_ns : UINT64_MAX;
	s->files = calloc(s->events.rings.count + 1, sizeof(*s->files));
	if (!s->files) {
		perf_free(s);
		return error_set(e, -ENOMEM, "out of memory");
	}
	for (unsigned i = 0; i < s->events.rings.count; i++)
		s->files[i] =
			(struct pollfd){ .fd = s->events.rings.rings[i].fd, .events = POLLIN };
	/* The readers wait for the rings instead. */
	for (unsigned i = 0; s->events.reads_python && i < s->events.rings.count; i++)
		s->files[i].fd = -1;
	if (s->events.reads_python &&
	    perf_python_open(&s->events, &s->layout, targets, &s->python) < 0) {
		s->has_python = CPU_PYTHON_NONE;
		strbuf_adds(reason, "; no Python frames: cannot start the threads that read them");
	}
	if (add_running(s) < 0) {
		perf_free(s);
		return error_set(e, -ENOMEM, "out of memory");
	}
	*out = s;
	return 0;
}

/* Waits until a ring is half full, or for s->wait_ms. */
static void wait_for_records(struct cpu_sampling_state *s, int timeout_ms, int wake_fd)
{
	int wait_ms = MIN(s->wait_ms, s->python ? PYTHON_WAIT_MS : timeout_ms);
	uint64_t now_ns = clock_monotonic_ns();

	if (s->end_ns > now_ns && !s->stopped)
		wait_ms = (int)MIN((uint64_t)wait_ms, (s->end_ns - now_ns) / NS_PER_MS + 1);
	s->files[s->events.rings.count] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	if (poll(s->files, s->events.rings.count + 1, wait_ms) > 0)
		for (unsigned i = 0; i < s->events.rings.count; i++)
			if (s->files[i].revents & (POLLHUP | POLLERR | POLLNVAL))
				/* Its first thread has ended: poll() would always return. */
				s->files[i].fd = -1;
	s->wait_ms = s->processes_started ? FIRST_WAIT_MS : MIN(2 * s->wait_ms, timeout_ms);
	s->processes_started = false;
}

static void stop(struct cpu_sampling_state *s)
{
	if (!s->stopped)
		perf_events_stop(&s->events, &s->cpu_ns, &s->lost_in_all);
	s->stopped = true;
}

static int perf_poll(struct cpu_sampling_state *s, int timeout_ms, int wake_fd)
{
	uint64_t now_ns;
	bool ring_nearly_full;

	wait_for_records(s, timeout_ms, wake_fd);
	now_ns = clock_monotonic_ns();
	ring_nearly_full = perf_rings_update(&s->events.rings);
	if (s->python)
		perf_python_read(s->python);
	drain_records(s, ring_nearly_full ? now_ns : now_ns - SETTLE_NS);
	if (s->end_ns && now_ns >= s->end_ns)
		stop(s);
	return 0;
}

/* Adds the capability `cpu_time`: how much of the CPU time the samples stand for. */
static void write_coverage(struct cpu_sampling_state *s)
{
	uint64_t sampled_ns = targets_sampled_ns(s->targets);
	bool most = sampled_ns >= s->cpu_ns - s->cpu_ns / 20;
	char actual[128];

	snprintf(actual, sizeof(actual), "%.3f s in samples of %.3f s of CPU time",
		 (double)sampled_ns / 1e9, (double)s->cpu_ns / 1e9);
	targets_capability(s->targets, feature_cpu_time,
			   most ? capability_state_on : capability_state_degraded, actual,
			   most ? NULL
			   : s->events.kernel
				   ? "threads shorter than one period have no samples"
				   : "time in the kernel and threads shorter than one period "
				     "have no samples");
}

static void perf_finish(struct cpu_sampling_state *s)
{
	stop(s);
	if (s->python) {
		s->reading_ns = perf_python_stop(s->python);
		perf_python_read(s->python);
	}
	perf_rings_update(&s->events.rings);
	drain_records(s, UINT64_MAX);
	/* A loss is reported with the next record, so the last one is still unreported. */
	if (s->lost_in_all > s->lost)
		lose(s, s->lost_in_all - s->lost, earliest_ns(&s->events.rings),
		     clock_monotonic_ns());
	if (s->python)
		perf_python_finish(s->python);
	else if (s->other_python.code)
		targets_capability(s->targets, feature_cpu_python, capability_state_degraded,
				   "native frames of the interpreter", s->other_python.text);
	perf_threads_finish(&s->threads, s->targets, s->cpu_ns);
	/* The count of CPU time includes the time before the window. */
	if (s->cpu_ns && !s->start_ns)
		write_coverage(s);
}

static uint64_t perf_reading_ns(const struct cpu_sampling_state *s)
{
	return s->reading_ns;
}

static enum cpu_python perf_has_python(const struct cpu_sampling_state *s)
{
	return s->has_python;
}

const struct cpu_method_ops cpu_method_perf = {
	.name = "perf_event",
	.method = CPU_METHOD_PERF,
	.open = perf_open,
	.poll = perf_poll,
	.finish = perf_finish,
	.free = perf_free,
	.kernel_ns = perf_reading_ns,
	.python = perf_has_python,
	.check = perf_events_check,
};
