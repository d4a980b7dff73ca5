/*
 * ebpf_source.c: the eBPF way of sampling. Records of the BPF programs and of the perf events beside them (what is
 * mapped, started and renamed) are put in order of time and told to `targets`. User stacks come walked; where the
 * programs lacked a table, they come with a copy of the stack, from which they are walked on here, and the table is
 * uploaded for the next time.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "cpu/cpu_source.h"
#include "cpu/ebpf_queue.h"
#include "cpu/ebpf_sideband.h"
#include "cpu/ebpf_tables.h"

/* Records that are younger than this may still be on their way into another ring. */
#define SETTLE_NS (2 * NS_PER_MS)

enum { SOURCE_PROGRAMS, SOURCE_SIDEBAND };

/* A followed process. */
struct process {
	pid_t pid;
	uint64_t image; /* of its last sample since the exec; 0: there was none */
	bool changed; /* its ranges are not what was uploaded */
};

struct cpu_source {
	struct targets *targets;
	struct sampler_programs *programs;
	struct ebpf_sideband *sideband;
	struct ebpf_tables tables;
	struct ebpf_queue queue;
	struct map index; /* pid -> struct process *, NULL: not followed any more */
	VEC(struct process *) processes;
	uint64_t weight_ns, dropped, dropped_ns, lost;
	bool reread; /* records of mappings were lost */
};

/* --- processes --- */

static struct process *find_process(struct cpu_source *s, pid_t pid)
{
	uint64_t p;

	return map_get(&s->index, (uint64_t)pid, &p) ? (struct process *)(uintptr_t)p : NULL;
}

static struct process *add_process(struct cpu_source *s, pid_t pid)
{
	struct process *p = find_process(s, pid);

	if (!p)
		p = calloc(1, sizeof(*p));
	else
		*p = (struct process){ 0 };
	if (!p)
		return NULL;
	p->pid = pid;
	p->changed = true;
	if (find_process(s, pid) == p)
		return p;
	if (vec_push(&s->processes, p) < 0) {
		free(p);
		return NULL;
	}
	if (map_put(&s->index, (uint64_t)pid, (uintptr_t)p) < 0) {
		s->processes.count--;
		free(p);
		return NULL;
	}
	return p;
}

static void remove_process(struct cpu_source *s, struct process *p)
{
	if (p->image)
		ebpf_tables_forget(&s->tables, p->image);
	*map_at(&s->index, (uint64_t)p->pid, 0) = 0;
	for (size_t i = 0; i < s->processes.count; i++)
		if (s->processes.data[i] == p) {
			s->processes.data[i] = s->processes.data[--s->processes.count];
			break;
		}
	free(p);
}

static bool has_none(void *context, const struct target_range *range)
{
	(void)context;
	return range->file != 0;
}

/* Tells the programs what is where in the processes whose stacks they could not walk for want of it. */
static void upload(struct cpu_source *s)
{
	for (size_t i = 0; i < s->processes.count; i++) {
		struct process *p = s->processes.data[i];
		struct target *target = p->image ? targets_find(s->targets, p->pid) : NULL;
		const struct target_range *ranges;
		size_t count;

		if (!target || (!p->changed && ebpf_tables_has(&s->tables, p->image)))
			continue;
		ranges = target_ranges(target, &count);
		if (ebpf_tables_image(&s->tables, p->image, ranges, count, NULL, has_none, s) == 0)
			p->changed = false;
	}
}

/* --- samples --- */

static const enum stack_end ends[] = {
	[BPF_STOP_COMPLETE] = stack_end_complete, [BPF_STOP_TRUNCATED] = stack_end_truncated,
	[BPF_STOP_DEPTH] = stack_end_depth,       [BPF_STOP_NO_RULE] = stack_end_truncated,
	[BPF_STOP_NO_TABLE] = stack_end_partial,  [BPF_STOP_NO_RANGE] = stack_end_partial,
};

/* What a record says, checked. */
struct stack_record {
	const struct bpf_record *head;
	const uint64_t *kernel, *user, *registers;
	const uint8_t *stack; /* copy */
};

static bool read_record(const void *bytes, size_t size, struct stack_record *out)
{
	const struct bpf_record *h = bytes;
	const uint64_t *words = (const uint64_t *)(h + 1);
	size_t left;

	if (size < sizeof(*h) || h->stop >= ARRAY_SIZE(ends))
		return false;
	left = (size - sizeof(*h)) / 8;
	if ((size_t)h->kernel_count + h->user_count > left)
		return false;
	out->head = h;
	out->kernel = words;
	out->user = words + h->kernel_count;
	left -= (size_t)h->kernel_count + h->user_count;
	out->registers = out->user + h->user_count;
	out->stack = (const uint8_t *)(out->registers + BPF_REGISTERS);
	return !h->copied || (left >= BPF_REGISTERS && left - BPF_REGISTERS >= h->copy_bytes / 8);
}

static void take_sample(struct cpu_source *s, const struct stack_record *r)
{
	const struct bpf_record *h = r->head;
	struct process *p = find_process(s, (pid_t)h->pid);
	struct target *target = targets_find(s->targets, (pid_t)h->pid);
	struct target_stack stack = { .kernel = r->kernel,
				      .user = r->user,
				      .kernel_count = h->kernel_count,
				      .user_count = h->user_count,
				      .end = ends[h->stop] };

	if (!p)
		p = add_process(s, (pid_t)h->pid);
	if (!target)
		target = targets_running(s->targets, (pid_t)h->pid, h->time_ns);
	if (!p || !target)
		return;
	if (p->image != h->image) {
		p->image = h->image;
		p->changed = true;
	}
	if (h->copied && h->user_count) {
		const struct target_range *range = target_range_at(
			s->targets, target, frame_lookup_address(r->user[h->user_count - 1]));

		if (h->stop == BPF_STOP_NO_TABLE && range && range->table &&
		    ebpf_tables_number(&s->tables, range->table) != BPF_TABLE_WANTED)
			p->changed = true;
	}
	targets_cpu_sample(s->targets, target, (pid_t)h->tid, h->time_ns, s->weight_ns, h->cpu,
			   &stack);
}

static void take_record(struct cpu_source *s, const void *bytes, size_t size)
{
	struct stack_record r;
	struct process *p;

	if (!read_record(bytes, size, &r)) {
		s->lost++;
		return;
	}
	switch (r.head->kind) {
	case BPF_RECORD_CPU:
		take_sample(s, &r);
		break;
	case BPF_RECORD_EXIT:
		p = find_process(s, (pid_t)r.head->pid);
		if (p)
			remove_process(s, p);
		targets_exit(s->targets, (pid_t)r.head->pid, r.head->time_ns);
		break;
	default:
		break;
	}
}

/* --- what processes do --- */

static void take_exec(struct cpu_source *s, struct process *p, uint64_t time_ns)
{
	if (p->image)
		ebpf_tables_forget(&s->tables, p->image);
	p->image = 0;
	p->changed = true;
	targets_exec(s->targets, p->pid, time_ns);
}

static void take_sideband(struct cpu_source *s, uint64_t time_ns, const void *bytes, size_t size)
{
	struct sideband_record r;
	struct target_mapping m;
	struct process *p;

	sideband_decode(bytes, size, &r);
	if (r.kind == SIDEBAND_LOST)
		s->reread = true;
	p = r.kind == SIDEBAND_FORK ? find_process(s, (pid_t)r.parent)
				    : find_process(s, (pid_t)r.pid);
	if (!p)
		return;
	switch (r.kind) {
	case SIDEBAND_FORK:
		if (r.pid != r.parent && add_process(s, (pid_t)r.pid))
			targets_fork(s->targets, (pid_t)r.parent, (pid_t)r.pid, time_ns);
		break;
	case SIDEBAND_EXEC:
		take_exec(s, p, time_ns);
		targets_thread_name(s->targets, p->pid, (pid_t)r.tid, r.text, time_ns);
		break;
	case SIDEBAND_NAME:
		targets_thread_name(s->targets, p->pid, (pid_t)r.tid, r.text, time_ns);
		break;
	case SIDEBAND_MAP:
		m = (struct target_mapping){ r.start,       r.start + r.length,
					     r.file_offset, r.device,
					     r.inode,       r.text };
		targets_map(s->targets, p->pid, &m, time_ns);
		p->changed = true;
		break;
	default:
		break;
	}
}

static void take_item(void *context, const struct ebpf_item *item, const void *bytes)
{
	struct cpu_source *s = context;

	if (item->source == SOURCE_PROGRAMS)
		take_record(s, bytes, item->size);
	else
		take_sideband(s, item->time_ns, bytes, item->size);
}

/* --- the way --- */

static int on_record(void *context, void *bytes, size_t size)
{
	struct cpu_source *s = context;
	const struct bpf_record *h = bytes;

	if (size >= sizeof(*h))
		ebpf_queue_put(&s->queue, h->time_ns, SOURCE_PROGRAMS, bytes, size);
	return 0;
}

static void count_losses(struct cpu_source *s)
{
	uint64_t dropped = __atomic_load_n(&s->programs->counters->dropped, __ATOMIC_RELAXED);
	uint64_t now = clock_monotonic_ns(), lost = s->lost + s->queue.lost;

	if (dropped + lost > s->dropped)
		targets_loss(s->targets, NULL, loss_reason_samples_dropped,
			     dropped + lost - s->dropped, s->dropped_ns, now);
	s->dropped = dropped + lost;
	s->dropped_ns = now;
}

static void collect(struct cpu_source *s, bool all)
{
	uint64_t until = all ? UINT64_MAX : clock_monotonic_ns() - SETTLE_NS;

	ring_buffer__consume(s->programs->records);
	ebpf_sideband_collect(s->sideband, &s->queue, SOURCE_SIDEBAND);
	ebpf_queue_drain(&s->queue, until, take_item, s);
	count_losses(s);
	if (!all)
		upload(s);
}

static int source_poll(struct cpu_source *s, int timeout_ms)
{
	struct epoll_event event;

	if (epoll_wait(ring_buffer__epoll_fd(s->programs->records), &event, 1, timeout_ms) < 0 &&
	    errno != EINTR)
		return -errno;
	collect(s, false);
	return 0;
}

static void source_finish(struct cpu_source *s)
{
	sampler_programs_stop(s->programs);
	collect(s, true);
}

static void source_free(struct cpu_source *s)
{
	if (!s)
		return;
	sampler_programs_free(s->programs);
	ebpf_sideband_free(s->sideband);
	ebpf_tables_release(&s->tables);
	ebpf_queue_release(&s->queue);
	for (size_t i = 0; i < s->processes.count; i++)
		free(s->processes.data[i]);
	vec_release(&s->processes);
	map_release(&s->index);
	free(s);
}

static int open_programs(struct cpu_source *s, const struct cpu_options *options, struct error *e)
{
	const struct sampler_load_options load = {
		.hz = options->hz,
		.off_cpu = options->off_cpu,
		.kernel = options->kernel,
		.start_ns = options->start_ns,
		.end_ns = options->end_ns,
	};
	int r = sampler_programs_open(&load, on_record, s, &s->programs, e);

	if (r == 0)
		r = ebpf_sideband_open(&s->sideband, e);
	if (r == 0)
		ebpf_tables_init(&s->tables, s->programs);
	return r;
}

static int follow(struct cpu_source *s, pid_t pid, bool running, struct error *e)
{
	int r;

	if (kill(pid, 0) < 0 && errno == ESRCH)
		return error_set(e, -ESRCH, "there is no process %d", (int)pid);
	r = sampler_programs_follow(s->programs, pid, running);
	if (r < 0)
		return error_errno(e, -r, "cannot follow process %d", (int)pid);
	if (!add_process(s, pid) ||
	    (running && !targets_running(s->targets, pid, clock_monotonic_ns())))
		return error_set(e, -ENOMEM, "out of memory");
	return sampler_programs_start(s->programs, e);
}

static int source_open(const struct cpu_options *options, pid_t pid, bool running,
		       struct targets *targets, struct strbuf *reason, struct cpu_source **out,
		       struct error *e)
{
	struct cpu_source *s = calloc(1, sizeof(*s));
	int r;

	(void)reason;
	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->targets = targets;
	s->weight_ns = NS_PER_S / options->hz;
	s->dropped_ns = clock_monotonic_ns();
	r = open_programs(s, options, e);
	if (r == 0)
		r = follow(s, pid, running, e);
	if (r < 0) {
		source_free(s);
		return r;
	}
	*out = s;
	return 0;
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

const struct cpu_source_type cpu_source_ebpf = {
	.name = "eBPF",
	.way = CPU_WAY_EBPF,
	.open = source_open,
	.poll = source_poll,
	.finish = source_finish,
	.free = source_free,
	.check = source_check,
};
