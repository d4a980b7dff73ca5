/*
 * ebpf_samples.c: turns records of the BPF programs into samples. User stacks arrive unwound; where
 * the programs lacked a table or a rule, the record has registers and a copy of the stack, from
 * which unwinding continues here.
 */
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/io.h"
#include "base/strbuf.h"
#include "sampler/perf/stack_snapshot.h"
#include "sampler/ebpf/ebpf_state.h"

#define OFF_THREADS_MAX 65536u

static const enum stack_end ends[] = {
	[BPF_STOP_COMPLETE] = stack_end_complete, [BPF_STOP_TRUNCATED] = stack_end_truncated,
	[BPF_STOP_DEPTH] = stack_end_depth,       [BPF_STOP_NO_RULE] = stack_end_truncated,
	[BPF_STOP_NO_TABLE] = stack_end_partial,  [BPF_STOP_NO_RANGE] = stack_end_partial,
};

/* The parts of a record; its counts have been checked. */
struct stack_record {
	const struct bpf_record *head;
	const uint64_t *kernel, *user, *python, *registers;
	const uint64_t *arguments; /* of a probe */
	const uint8_t *copy;
};

static bool read_record(const void *bytes, size_t size, struct stack_record *out)
{
	const struct bpf_record *h = bytes;
	size_t words, frames;

	if (size < sizeof(*h) || h->stop >= ARRAY_SIZE(ends))
		return false;
	words = (size - sizeof(*h)) / 8;
	frames = (size_t)h->kernel_count + h->user_count + 2 * (size_t)h->python_count;
	if (h->kernel_count > BPF_KERNEL_FRAMES || h->user_count > BPF_USER_FRAMES ||
	    h->python_count > BPF_PYTHON_FRAMES || frames > words)
		return false;
	out->head = h;
	out->python = (const uint64_t *)(h + 1);
	out->kernel = out->python + 2 * (size_t)h->python_count;
	out->user = out->kernel + h->kernel_count;
	out->registers = out->user + h->user_count;
	out->copy = (const uint8_t *)(out->registers + REG_COUNT_);
	out->arguments = (const uint64_t *)(h + 1) + words - MIN(words, BPF_SITE_ARGUMENTS);
	if (h->kind == BPF_RECORD_ALLOCATION || h->kind == BPF_RECORD_RELEASE)
		frames += BPF_SITE_ARGUMENTS;
	return words >= frames + (h->copied ? REG_COUNT_ + (size_t)h->copy_bytes / 8 : 0);
}

/* --- stacks --- */

/* Continues unwinding from the copied stack, in place of the last frame. Returns the count. */
static unsigned continue_unwind(struct cpu_sampling_state *s, struct target *target,
				const struct stack_record *r, uint64_t *frames, unsigned max,
				enum stack_end *end)
{
	const struct bpf_record *h = r->head;
	unsigned known = h->user_count - 1u;
	struct stack_snapshot stack = { .bytes = r->copy,
					.size = h->copy_bytes,
					.cut = h->copy_bytes + BPF_STACK_PAGE >
					       BPF_STACK_PAGES * BPF_STACK_PAGE };

	memcpy(stack.registers.at, r->registers, sizeof(stack.registers.at));
	stack.registers.known = h->known;
	stack.registers.interrupted = (r->user[known] & FRAME_INTERRUPTED) != 0;
	return known +
	       stack_snapshot_walk(s->targets, target, &stack, frames + known, max - known, end);
}

/* Uploads the rules of these frames, which unwinding has just compiled. */
static void upload_rules(struct cpu_sampling_state *s, struct process *p, struct target *target,
			 const uint64_t *frames, unsigned count)
{
	size_t known = s->tables.tables.count;

	for (unsigned i = 0; i < count; i++) {
		const struct target_range *range =
			target_range_at(s->targets, target, frame_lookup_address(frames[i]));

		if (range && range->parts)
			ebpf_tables_upload(&s->tables, range->parts);
	}
	p->changed |= s->tables.tables.count != known;
}

/* Merges the Python frames of a record into its native stack of `count` frames. */
static void add_python(struct cpu_sampling_state *s, struct process *p, struct target *target,
		       const struct stack_record *r, unsigned count, struct finished_stack *out)
{
	const struct sampled_python_stack stack = {
		.native = out->native,
		.words = r->python,
		.native_count = count,
		.python_count = r->head->python_count,
		.python_complete = !r->head->python_cut,
	};

	if (!p->python || !r->head->python_count) {
		memcpy(out->user, out->native, count * sizeof(*out->user));
		out->user_count = count;
		return;
	}
	out->user_count = sampled_python_merge(p->python, target, &stack, out->user, &out->end);
	s->unnamed += sampled_python_unnamed(p->python);
}

static void finish_stack(struct cpu_sampling_state *s, struct process *p, struct target *target,
			 const struct stack_record *r, struct finished_stack *out)
{
	const struct bpf_record *h = r->head;
	unsigned count = h->user_count;

	out->kernel_count = h->kernel_count;
	out->end = ends[h->stop];
	memcpy(out->kernel, r->kernel, h->kernel_count * sizeof(*out->kernel));
	memcpy(out->native, r->user, count * sizeof(*out->native));
	if (h->copied && h->user_count) {
		unsigned known = h->user_count - 1u;

		count = continue_unwind(s, target, r, out->native, ARRAY_SIZE(out->native),
					&out->end);
		if (h->stop != BPF_STOP_NO_RULE)
			upload_rules(s, p, target, out->native + known, count - known);
	}
	add_python(s, p, target, r, count, out);
}

/* Finds or adds the process of a record. NULL: no memory. */
static struct process *begin_record(struct cpu_sampling_state *s, const struct bpf_record *h,
				    struct target **target)
{
	struct process *p = ebpf_process_find(s, (pid_t)h->pid);

	*target = targets_find(s->targets, (pid_t)h->pid);
	if (!*target)
		*target = targets_running(s->targets, (pid_t)h->pid, h->time_ns);
	if (!p)
		p = ebpf_process_add(s, (pid_t)h->pid);
	if (!p || !*target)
		return NULL;
	if (h->no_user)
		return p;
	if (p->image != h->image) {
		ebpf_process_set_image(s, p, h->image, h->time_ns);
		*target = targets_find(s->targets, (pid_t)h->pid);
		if (!*target)
			return NULL;
	}
	ebpf_process_find_python(s, p, *target);
	if (p->python && sampled_python_locate(p->python, h->thread_base))
		p->changed = true;
	return p;
}

static void add_sample(struct cpu_sampling_state *s, const struct stack_record *r)
{
	struct target *target;
	struct process *p = begin_record(s, r->head, &target);
	struct finished_stack *f = &s->stack;

	if (!p) {
		s->lost++;
		return;
	}
	finish_stack(s, p, target, r, f);
	if (s->no_samples)
		return;
	targets_cpu_sample(s->targets, target, (pid_t)r->head->tid, r->head->time_ns,
			   r->head->cpu_ns, r->head->cpu,
			   &(struct target_stack){ .kernel = f->kernel,
						   .user = f->user,
						   .kernel_count = f->kernel_count,
						   .user_count = f->user_count,
						   .end = f->end });
}

/* Adds what an allocator handed out or got back; read_record() has checked the arguments. */
static void add_allocation(struct cpu_sampling_state *s, const struct stack_record *r)
{
	const struct bpf_record *h = r->head;
	struct target_allocation a = { .time_ns = h->time_ns,
				       .address = r->arguments[0],
				       .device = (uint32_t)r->arguments[1],
				       .bytes = r->arguments[2],
				       .tid = (pid_t)h->tid,
				       .is_release = h->kind == BPF_RECORD_RELEASE };
	struct finished_stack *f = &s->stack;
	struct target *target;
	struct process *p = begin_record(s, h, &target);

	if (!p) {
		s->sites_lost++;
		return;
	}
	f->user_count = 0;
	if (h->user_count)
		finish_stack(s, p, target, r, f);
	targets_allocation(s->targets, target, &a,
			   &(struct target_stack){
				   .user = f->user, .user_count = f->user_count, .end = f->end });
}

/* Adds CPU time of an ended thread after its last sample; its process may be amid an exec. */
static void add_remainder(struct cpu_sampling_state *s, const struct bpf_record *h)
{
	struct target *target = targets_find(s->targets, (pid_t)h->pid);

	if (target)
		targets_cpu_remainder(s->targets, target, (pid_t)h->tid, h->time_ns, h->cpu_ns);
	else
		s->lost++;
}

/* --- time off the CPU --- */

/* Finds or adds the item of a thread that leaves its processor. NULL: no room. */
static struct off_thread *off_thread(struct cpu_sampling_state *s, pid_t tid)
{
	uint64_t *index = map_at(&s->off_index, (uint64_t)tid, UINT64_MAX);

	if (!index)
		return NULL;
	if (*index != UINT64_MAX)
		return &s->off_threads.data[*index];
	if (s->off_free.count) {
		*index = s->off_free.data[--s->off_free.count];
		return &s->off_threads.data[*index];
	}
	/* off_free must be able to hold all items. */
	if (s->off_threads.count >= OFF_THREADS_MAX ||
	    vec_reserve(&s->off_free, s->off_threads.count + 1) < 0 ||
	    vec_push(&s->off_threads, (struct off_thread){ 0 }) < 0)
		return NULL;
	*index = s->off_threads.count - 1;
	return &s->off_threads.data[*index];
}

static bool keep_frames(struct off_thread *off, const struct finished_stack *f)
{
	size_t count = (size_t)f->kernel_count + f->user_count;

	if (vec_grow((void **)&off->frames, &off->frames_room, count, sizeof(*off->frames)) < 0)
		return false;
	memcpy(off->frames, f->kernel, f->kernel_count * sizeof(*off->frames));
	memcpy(off->frames + f->kernel_count, f->user, f->user_count * sizeof(*off->frames));
	off->kernel_count = (uint16_t)f->kernel_count;
	off->user_count = (uint16_t)f->user_count;
	off->end = f->end;
	return true;
}

static void remove_tracers(const struct cpu_sampling_state *s, struct finished_stack *f)
{
	unsigned count = switch_tracer_frames(&s->switch_function, f->kernel, f->kernel_count);

	f->kernel_count -= count;
	memmove(f->kernel, f->kernel + count, f->kernel_count * sizeof(*f->kernel));
}

/* Handles a thread that leaves its processor. */
static void begin_off(struct cpu_sampling_state *s, const struct stack_record *r)
{
	const struct bpf_record *h = r->head;
	struct target *target;
	struct process *p = begin_record(s, h, &target);
	struct off_thread *off = p ? off_thread(s, (pid_t)h->tid) : NULL;

	if (!off) {
		s->lost++;
		return;
	}
	off->off = true;
	off->pid = (pid_t)h->pid;
	off->tid = (pid_t)h->tid;
	off->image = h->image;
	off->start_ns = h->time_ns;
	off->state = h->state;
	off->kernel_count = off->user_count = 0;
	if (h->no_stack)
		return;
	finish_stack(s, p, target, r, &s->stack);
	remove_tracers(s, &s->stack);
	if (!keep_frames(off, &s->stack))
		s->lost++;
}

/* Ends a pause, because the thread runs again, or it or the recording has ended. Frees its item. */
static void end_off(struct cpu_sampling_state *s, struct off_thread *off, uint64_t end_ns)
{
	struct target *target = targets_find(s->targets, off->pid);
	const struct target_stack stack = { .kernel = off->frames,
					    .user = off->frames ? off->frames + off->kernel_count
								: NULL,
					    .kernel_count = off->kernel_count,
					    .user_count = off->user_count,
					    .end = off->end };

	if (target && end_ns >= off->start_ns)
		targets_off_cpu(s->targets, target, off->tid, off->start_ns, end_ns,
				(enum off_cpu_state)off->state, &stack);
	off->off = false;
	*map_at(&s->off_index, (uint64_t)off->tid, 0) = UINT64_MAX;
	vec_push(&s->off_free, (uint32_t)(off - s->off_threads.data));
}

static void end_off_cpu(struct cpu_sampling_state *s, const struct bpf_record *h)
{
	uint64_t index;

	if (map_get(&s->off_index, h->tid, &index) && index != UINT64_MAX &&
	    s->off_threads.data[index].image == h->image)
		end_off(s, &s->off_threads.data[index], h->time_ns);
}

/* Ends the pauses of all threads of a process, or (0) of all processes. */
static void end_all(struct cpu_sampling_state *s, pid_t pid, uint64_t end_ns)
{
	for (size_t i = 0; i < s->off_threads.count; i++)
		if (s->off_threads.data[i].off && (!pid || s->off_threads.data[i].pid == pid))
			end_off(s, &s->off_threads.data[i], end_ns);
}

/* Handles the end of a process, and so of all its threads. */
static void end_process(struct cpu_sampling_state *s, const struct bpf_record *h)
{
	struct process *p = ebpf_process_find(s, (pid_t)h->pid);

	end_all(s, (pid_t)h->pid, h->time_ns);
	if (p)
		ebpf_process_remove(s, p);
	targets_exit(s->targets, (pid_t)h->pid, h->time_ns);
}

/* CPU time of a running thread, as counted by the operating system's kernel. 0: it has ended. */
static uint64_t cpu_time_of(const struct bpf_thread *thread)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", thread->pid, thread->tid);
	if (io_read_file(path, 128, &text) < 0)
		return 0;
	return strtoull(strbuf_text(&text), NULL, 10);
}

/* Adds the CPU time that running threads used after their last samples. */
static void add_remainders(struct cpu_sampling_state *s, uint64_t now_ns)
{
	struct bpf_record record = { .kind = BPF_RECORD_REMAINDER, .time_ns = now_ns };
	struct bpf_thread thread;
	uint64_t task = 0, cpu_ns;

	for (uint64_t *before = NULL;
	     bpf_map_get_next_key(s->programs->threads, before, &task) == 0; before = &task) {
		if (bpf_map_lookup_elem(s->programs->threads, &task, &thread) < 0)
			continue;
		cpu_ns = cpu_time_of(&thread);
		record.pid = thread.pid;
		record.tid = thread.tid;
		record.cpu_ns = cpu_ns - MIN(cpu_ns, thread.sampled_ns);
		add_remainder(s, &record);
	}
}

void ebpf_samples_finish(struct cpu_sampling_state *s, uint64_t now_ns)
{
	if (!s->no_samples && (!s->end_ns || now_ns < s->end_ns))
		add_remainders(s, now_ns);
	end_all(s, 0, now_ns);
}

void ebpf_samples_release(struct cpu_sampling_state *s)
{
	for (size_t i = 0; i < s->off_threads.count; i++)
		free(s->off_threads.data[i].frames);
	vec_release(&s->off_threads);
	vec_release(&s->off_free);
	map_release(&s->off_index);
}

bool ebpf_sample_code(const struct cpu_sampling_state *s, const void *bytes, size_t size)
{
	const struct bpf_code_record *r = bytes;
	const struct process *p;

	if (size < offsetof(struct bpf_code_record, lines))
		return true;
	p = ebpf_process_find(s, (pid_t)r->head.pid);
	if (!p || !p->python || p->image != r->head.image)
		return false;
	sampled_python_add_code(p->python, r, size);
	return true;
}

/* Adds a code object that was sent before its process was known. */
static void add_queued_code(struct cpu_sampling_state *s, const struct bpf_record *h, size_t size)
{
	struct target *target;

	if (begin_record(s, h, &target))
		ebpf_sample_code(s, h, size);
}

void ebpf_sample_record(struct cpu_sampling_state *s, const void *bytes, size_t size)
{
	const struct bpf_record *h = bytes;
	struct stack_record r;

	if (size >= sizeof(*h) && h->kind == BPF_RECORD_CODE) {
		add_queued_code(s, h, size);
		return;
	}
	if (!read_record(bytes, size, &r)) {
		s->lost++;
		return;
	}
	switch (r.head->kind) {
	case BPF_RECORD_CPU:
		add_sample(s, &r);
		break;
	case BPF_RECORD_SWITCH_OUT:
		begin_off(s, &r);
		break;
	case BPF_RECORD_SWITCH_IN:
		end_off_cpu(s, r.head);
		break;
	case BPF_RECORD_REMAINDER:
		if (!s->no_samples)
			add_remainder(s, r.head);
		break;
	case BPF_RECORD_ALLOCATION:
	case BPF_RECORD_RELEASE:
		add_allocation(s, &r);
		break;
	case BPF_RECORD_EXIT:
		end_process(s, r.head);
		break;
	default:
		s->lost++;
	}
}
