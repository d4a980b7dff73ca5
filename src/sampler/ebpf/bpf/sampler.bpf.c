/*
 * sampler.bpf.c: samples followed processes on a timer of each processor and (off_cpu) when their
 * threads leave it. Forks, execs and exits are followed inside the operating system's kernel, so
 * that no process is missed.
 *
 * A sample stands for the CPU time that its thread used since its last sample. What remains after
 * the last sample is known when the thread leaves its processor for the last time, so that the sum
 * of all is the kernel's own count. The kernel updates that count when a thread leaves its
 * processor and at ticks; between these, the time since the thread got the processor is added.
 *
 * SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 */
#include "sampler/ebpf/bpf/python.bpf.h"

const char program_license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPF_PROCESSES);
	__type(key, __u32);
	__type(value, struct bpf_followed);
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPF_PROCESSES);
	__type(key, __u64);
	__type(value, struct bpf_image);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BPF_THREADS);
	__type(key, __u64);
	__type(value, struct bpf_thread);
} threads SEC(".maps");

/* One per processor. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

#define BUDGET_NS 10000000u
#define BUDGET_WALKS 40u
#define BUDGET_WALKS_NS 1000000u

/* Per processor: stacks of threads leaving it that were unwound since start_ns. */
struct budget {
	__u64 start_ns;
	__u64 walks_ns; /* time that it took */
	__u32 walks;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct budget);
} budgets SEC(".maps");

/* --- tasks --- */

/* Returns the id of a task in the sampler's pid namespace; 0: the task is not in it. */
static __always_inline __u32 task_id(const struct task_struct *task)
{
	__u32 level = counters.level, nr = 0;
	const struct pid *pid;

	if (!level)
		return (__u32)BPF_CORE_READ(task, pid);
	pid = BPF_CORE_READ(task, thread_pid);
	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	bpf_probe_read_kernel(&nr, sizeof(nr),
			      (const char *)pid + bpf_core_field_offset(struct pid, numbers) +
				      level * bpf_core_type_size(struct upid) +
				      bpf_core_field_offset(struct upid, nr));
	return nr;
}

static __always_inline __u32 process_id(const struct task_struct *task)
{
	if (!counters.level)
		return (__u32)BPF_CORE_READ(task, tgid);
	return task_id(BPF_CORE_READ(task, group_leader));
}

static __always_inline int in_window(__u64 now)
{
	return now >= config.start_ns && (config.end_ns == 0 || now < config.end_ns);
}

/* --- CPU time of threads --- */

static __always_inline __u64 kernel_cpu_ns(const struct task_struct *task)
{
	return BPF_CORE_READ(task, se.sum_exec_runtime);
}

/*
 * Finds a thread of a followed process, or adds it; its CPU time counts from then on. NULL: its
 * process is not followed, or there is no room.
 */
static __always_inline struct bpf_thread *find_thread(const struct task_struct *task, __u64 now)
{
	__u64 key = (__u64)task, cpu_ns = kernel_cpu_ns(task);
	struct bpf_thread *thread = bpf_map_lookup_elem(&threads, &key);
	struct bpf_thread fresh = { .sampled_ns = cpu_ns,
				    .entered_cpu_ns = cpu_ns,
				    .entered_ns = now };
	struct bpf_followed *process;
	__u64 start;

	if (thread)
		return thread;
	fresh.pid = process_id(task);
	process = bpf_map_lookup_elem(&followed, &fresh.pid);
	if (!process || !process->image)
		return NULL;
	/*
	 * Under load, about one thread in a thousand is not found at its first switch but at a
	 * later one: what a thread of this image has used until then counts too.
	 */
	start = BPF_CORE_READ(task, start_time);
	if (start >= process->image && in_window(start))
		fresh.sampled_ns = 0;
	fresh.tid = task_id(task);
	if (!fresh.tid || bpf_map_update_elem(&threads, &key, &fresh, BPF_NOEXIST) != 0)
		return NULL;
	__sync_fetch_and_add(&process->threads, 1);
	return bpf_map_lookup_elem(&threads, &key);
}

/* Returns the CPU time that the thread, which is on this processor, used since the last call. */
static __always_inline __u64 take_cpu_time(struct bpf_thread *thread,
					   const struct task_struct *task, __u64 now)
{
	__u64 least = kernel_cpu_ns(task), most = least + config.tick_ns;
	__u64 ns = thread->entered_cpu_ns + (now - thread->entered_ns), fresh;

	ns = ns < least ? least : ns > most ? most : ns;
	fresh = ns > thread->sampled_ns ? ns - thread->sampled_ns : 0;
	thread->sampled_ns += fresh;
	return fresh;
}

static __always_inline void end_process(__u32 pid, const struct bpf_followed *process)
{
	struct bpf_record record = { .kind = BPF_RECORD_EXIT,
				     .pid = pid,
				     .image = process->image,
				     .time_ns = bpf_ktime_get_ns() };

	bpf_map_delete_elem(&images, &record.image);
	/* Of threads that exit concurrently, only one succeeds. */
	if (bpf_map_delete_elem(&followed, &pid) == 0)
		send(&record, sizeof(record), 0);
}

/* Handles a dead thread that leaves its processor. */
static __always_inline void end_thread(const struct task_struct *task)
{
	__u64 key = (__u64)task, cpu_ns = kernel_cpu_ns(task);
	const struct bpf_thread *thread = bpf_map_lookup_elem(&threads, &key);
	struct bpf_record record = { .kind = BPF_RECORD_REMAINDER, .time_ns = bpf_ktime_get_ns() };
	struct bpf_followed *process;

	if (!thread)
		return;
	record.pid = thread->pid;
	record.tid = thread->tid;
	record.cpu = bpf_get_smp_processor_id();
	if (cpu_ns > thread->sampled_ns)
		record.cpu_ns = cpu_ns - thread->sampled_ns;
	bpf_map_delete_elem(&threads, &key);
	if (record.cpu_ns && in_window(record.time_ns))
		send(&record, sizeof(record), 0);
	process = bpf_map_lookup_elem(&followed, &record.pid);
	if (process && __sync_fetch_and_sub(&process->threads, 1) <= 1 && process->has_exited)
		end_process(record.pid, process);
}

/* --- processes --- */

SEC("raw_tp/sched_process_fork")
int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *parent = (const void *)ctx->args[0];
	const struct task_struct *child = (const void *)ctx->args[1];
	struct bpf_followed entry = { .image = BPF_CORE_READ(child, start_time) };
	__u32 parent_id = process_id(parent), child_id = process_id(child);
	const struct bpf_followed *found = bpf_map_lookup_elem(&followed, &parent_id);
	const struct bpf_image *image;

	if (!found || !child_id || child_id == parent_id)
		return 0;
	if (!found->image)
		entry.image = 0;
	entry.memory = (__u64)BPF_CORE_READ(child, mm);
	if (bpf_map_update_elem(&followed, &child_id, &entry, BPF_ANY) != 0)
		__sync_fetch_and_add(&counters.not_followed, 1);
	/* The child starts with the same mappings. */
	image = bpf_map_lookup_elem(&images, &found->image);
	if (image)
		bpf_map_update_elem(&images, &entry.image, image, BPF_ANY);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (const void *)ctx->args[0];
	__u32 id = process_id(task);
	struct bpf_followed *found = bpf_map_lookup_elem(&followed, &id);
	__u64 old;

	if (!found)
		return 0;
	old = found->image;
	found->image = bpf_ktime_get_ns();
	found->memory = (__u64)BPF_CORE_READ(task, mm);
	if (old)
		bpf_map_delete_elem(&images, &old);
	find_thread(task, found->image);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *task = (const void *)ctx->args[0];
	__u32 id = process_id(task);
	struct bpf_followed *found;

	if (BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	found = bpf_map_lookup_elem(&followed, &id);
	if (!found)
		return 0;
	found->has_exited = 1;
	/* The last known thread that leaves its processor ends the process, if there is one. */
	if (!find_thread(task, bpf_ktime_get_ns()) && found->threads <= 0)
		end_process(id, found);
	return 0;
}

/* The loader runs this program once, in its own context. */
SEC("raw_tp/pitot_setup")
int set_up(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *self = (const void *)bpf_get_current_task();

	(void)ctx;
	counters.level = BPF_CORE_READ(self, thread_pid, level);
	return 0;
}

/* --- samples --- */

/* Sets the header for a record of the current thread. Returns 0: the thread is not followed. */
static __always_inline int begin_header(struct bpf_record *r, __u32 kind)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	__u64 now = bpf_ktime_get_ns();
	__u32 pid = process_id(task), tid = task_id(task);
	struct bpf_followed *found = bpf_map_lookup_elem(&followed, &pid);
	__u64 memory = (__u64)BPF_CORE_READ(task, mm);

	/* An ended thread may no longer have an id. */
	if (!found || !found->image || !tid || !in_window(now))
		return 0;
	__builtin_memset(r, 0, sizeof(*r));
	r->time_ns = now;
	r->image = found->image;
	r->pid = pid;
	r->tid = tid;
	r->cpu = bpf_get_smp_processor_id();
	r->kind = (__u8)kind;
	if (!found->memory)
		found->memory = memory;
	r->no_user = memory != found->memory;
	r->thread_base = BPF_CORE_READ(task, thread.KERNEL_THREAD_BASE);
	return 1;
}

/*
 * Starts a record of the current thread. Returns the scratch of this processor, with the header
 * set; NULL: the thread is not followed.
 */
static __always_inline struct scratch *begin_record(__u32 kind)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct scratch *s = bpf_map_lookup_elem(&scratches, &cpu);

	return s && begin_header(&s->record, kind) ? s : NULL;
}

/* Stores the frames of the operating system's kernel, after `at` words. Returns their number. */
static __always_inline __u32 read_kernel_stack(void *ctx, struct scratch *s, __u32 at)
{
	long bytes = 0;

	at &= BPF_FRAME_WORDS - 1;
	if (config.kernel)
		bytes = bpf_get_stack(ctx, &s->words[at], 8 * BPF_KERNEL_FRAMES, 0);
	s->record.kernel_count = bytes > 0 ? (__u16)(bytes / 8) : 0;
	return s->record.kernel_count;
}

/*
 * Reads the stacks of the current thread, without those of the operating system's kernel if `ctx`
 * is NULL. Returns the number of words.
 */
static __always_inline __u32 read_stacks(void *ctx, struct scratch *s)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	struct walk_context context = { s };
	struct walk *w = &s->walk;
	const struct bpf_image *image = bpf_map_lookup_elem(&images, &s->record.image);
	__u32 words = 0;

	w->start_stack = BPF_CORE_READ(task, mm, start_stack);
	if (image && !s->record.no_user)
		words = walk_python(s, &image->python);
	if (ctx)
		words += read_kernel_stack(ctx, s, words);
	w->first_range = image ? image->first_range : 0;
	w->range_count = image ? image->range_count : 0;
	w->generation = image ? image->generation : 0;
	w->range.start = w->range.end = 0;
	w->at = words;
	w->count = w->total = 0;
	w->switches = 0;
	w->stop = s->record.no_user ? BPF_STOP_COMPLETE : BPF_STOP_TRUNCATED;
	if (!s->record.no_user && enter_walk(w))
		bpf_loop(BPF_USER_FRAMES + 1, walk_frame, &context, 0);
	s->record.user_count = (__u16)w->count;
	s->record.stop = (__u8)w->stop;
	words = w->at + w->count;
	/* A copy may need as much room as two hundred samples, which are more important. */
	if (w->stop >= BPF_STOP_NO_RULE && waiting_bytes() < config.wake_bytes)
		words += copy_stack(s, words);
	return words;
}

/* Reads the stacks of the current thread, and sends the record. */
static __always_inline void send_stacks(void *ctx, struct scratch *s)
{
	__u64 size = sizeof(s->record) + 8 * (__u64)read_stacks(ctx, s);

	if (size <= sizeof(s->record) + sizeof(s->words))
		send(&s->record, size, s->record.copied);
	__sync_fetch_and_add(&counters.run_ns, bpf_ktime_get_ns() - s->record.time_ns);
}

SEC("perf_event")
int on_tick(void *ctx)
{
	const struct task_struct *task = (const void *)bpf_get_current_task();
	struct bpf_thread *thread = find_thread(task, bpf_ktime_get_ns());
	struct scratch *s = begin_record(BPF_RECORD_CPU);
	__u64 now = bpf_ktime_get_ns();

	if (!s) {
		/* CPU time before the window is not attributed to any sample. */
		if (thread && !in_window(now))
			take_cpu_time(thread, task, now);
		return 0;
	}
	s->record.cpu_ns = thread ? take_cpu_time(thread, task, now) : config.period_ns;
	if (!s->record.cpu_ns)
		return 0; /* the kernel's tick is late: the next sample will have the time */
	send_stacks(ctx, s);
	return 0;
}

/* --- time off the CPU --- */

static __always_inline __u8 off_cpu_state(__u32 state, int preempted)
{
	if (preempted || state == 0)
		return BPF_STATE_RUNNABLE;
	if (state & TASK_INTERRUPTIBLE)
		return BPF_STATE_SLEEPING;
	if (state & TASK_UNINTERRUPTIBLE)
		return BPF_STATE_UNINTERRUPTIBLE;
	return state & TASK_STOPPED_OR_TRACED ? BPF_STATE_STOPPED : BPF_STATE_UNKNOWN;
}

/*
 * Stacks are unwound while the run queue is locked, so a processor that switches very often unwinds
 * only some of them. Pauses are recorded without a stack then.
 */
static __always_inline struct budget *may_walk(__u32 cpu, __u64 now)
{
	struct budget *b = bpf_map_lookup_elem(&budgets, &cpu);

	if (!b)
		return NULL;
	if (now - b->start_ns >= BUDGET_NS) {
		b->start_ns = now;
		b->walks_ns = 0;
		b->walks = 0;
	}
	return b->walks++ < BUDGET_WALKS && b->walks_ns < BUDGET_WALKS_NS ? b : NULL;
}

static __always_inline void leave_cpu(void *ctx, __u32 state, int preempted)
{
	struct scratch *s = begin_record(BPF_RECORD_SWITCH_OUT);
	struct budget *budget;

	if (!s)
		return;
	s->record.state = off_cpu_state(state, preempted);
	budget = may_walk(s->record.cpu, s->record.time_ns);
	if (budget) {
		send_stacks(ctx, s);
		budget->walks_ns += bpf_ktime_get_ns() - s->record.time_ns;
	} else {
		s->record.no_stack = 1;
		send(&s->record, sizeof(s->record), 0);
	}
}

static __always_inline void enter_cpu(const struct bpf_thread *thread)
{
	struct bpf_record record = { .kind = BPF_RECORD_SWITCH_IN,
				     .time_ns = bpf_ktime_get_ns(),
				     .pid = thread->pid,
				     .tid = thread->tid };
	const struct bpf_followed *process = bpf_map_lookup_elem(&followed, &record.pid);

	if (!process)
		return;
	record.image = process->image;
	send(&record, sizeof(record), 0);
}

SEC("raw_tp/sched_switch")
int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
	const struct task_struct *from = (const void *)ctx->args[1];
	const struct task_struct *to = (const void *)ctx->args[2];
	__u32 state = BPF_CORE_READ(from, __state);
	__u64 now = bpf_ktime_get_ns();
	struct bpf_thread *thread;

	if (state & TASK_DEAD)
		end_thread(from);
	else if (config.off_cpu)
		leave_cpu(ctx, state, (int)ctx->args[0] & 1);
	thread = find_thread(to, now);
	if (!thread)
		return 0;
	thread->entered_cpu_ns = kernel_cpu_ns(to);
	thread->entered_ns = now;
	if (config.off_cpu)
		enter_cpu(thread);
	return 0;
}

/* --- probes of an allocator --- */

/*
 * A probe's program can be interrupted by a sample, and preempted by another thread's probe, so
 * that it cannot use the processor's scratch. These are taken one by one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPF_PROBE_SCRATCHES);
	__type(key, __u32);
	__type(value, struct scratch);
} probe_scratches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BPF_SITES);
	__type(key, __u32);
	__type(value, struct bpf_site);
} sites SEC(".maps");

static __always_inline struct scratch *reserve_scratch(void)
{
	__u32 first = BPF_PROBE_SCRATCHES * bpf_get_smp_processor_id();

	for (__u32 i = 0; i < BPF_PROBE_SCRATCHES; i++) {
		__u32 at = first + i;
		struct scratch *s = bpf_map_lookup_elem(&probe_scratches, &at);

		if (s && !__sync_lock_test_and_set(&s->busy, 1))
			return s;
	}
	return NULL;
}

static __always_inline void release_scratch(struct scratch *s)
{
	*(volatile __u32 *)&s->busy = 0;
}

static __always_inline __u64 entry_register(const __u64 *registers, __u8 number)
{
	return number == BPF_NO_REGISTER ? 0 : registers[number & (REG_ROOM_ - 1)];
}

static __always_inline int read_argument(const __u64 *registers, const struct bpf_argument *a,
					 __u64 *out)
{
	__u64 value = (__u64)a->offset + entry_register(registers, a->base) +
		      (entry_register(registers, a->index) << (a->scale & 3));
	__u32 size = a->size, unused_bits;

	if (size - 1 >= 8)
		return 0;
	unused_bits = 64 - 8 * size;
	if (a->is_memory) {
		const void *at = (const void *)value;

		value = 0;
		if (bpf_probe_read_user(&value, size, at) != 0)
			return 0;
	}
	value = value >> (a->shift & 63) << (unused_bits & 63);
	*out = a->is_signed ? (__u64)((__s64)value >> (unused_bits & 63))
			    : value >> (unused_bits & 63);
	return 1;
}

/* Reads the arguments of the probe at which the current thread is. */
static __always_inline int read_site(struct walk *w, const struct bpf_site *site, __u64 *out)
{
	if (!enter_walk(w))
		return 0;
#pragma unroll
	for (__u32 i = 0; i < BPF_SITE_ARGUMENTS; i++)
		if (i < site->count && !read_argument(w->registers, &site->arguments[i], &out[i]))
			return 0;
	return 1;
}

/* Sends the record, with the arguments behind its words. Returns 0 if there is no room. */
static __always_inline int try_send_site(struct scratch *s, __u32 words, const __u64 *arguments)
{
	if (words > BPF_WORDS - BPF_SITE_ARGUMENTS)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < BPF_SITE_ARGUMENTS; i++)
		s->words[words + i] = arguments[i];
	return try_send(&s->record, sizeof(s->record) + 8 * ((__u64)words + BPF_SITE_ARGUMENTS),
			s->record.copied);
}

static __always_inline void forget_stack(struct bpf_record *r)
{
	r->python_count = r->user_count = r->part = 0;
	r->copied = 0;
	r->stop = BPF_STOP_TRUNCATED;
	r->no_stack = 1;
	__sync_fetch_and_add(&counters.sites_unwalked, 1);
}

/* What was allocated is more important than the stack, which needs ten times the room. */
static __always_inline void send_site(struct scratch *s, const struct bpf_site *site)
{
	__u64 arguments[BPF_SITE_ARGUMENTS] = { 0 };
	__u32 words = 0;

	if (!read_site(&s->walk, site, arguments)) {
		__sync_fetch_and_add(&counters.sites_dropped, 1);
		return;
	}
	if (site->kind == BPF_RECORD_ALLOCATION) {
		if (waiting_bytes() < 2 * config.wake_bytes)
			words = read_stacks(NULL, s);
		else
			forget_stack(&s->record);
	}
	if (try_send_site(s, words, arguments))
		return;
	if (words) {
		forget_stack(&s->record);
		if (try_send_site(s, 0, arguments))
			return;
	}
	__sync_fetch_and_add(&counters.sites_dropped, 1);
}

SEC("uprobe")
int on_site(void *ctx)
{
	__u32 number = (__u32)bpf_get_attach_cookie(ctx);
	const struct bpf_site *site = bpf_map_lookup_elem(&sites, &number);
	__u64 start = bpf_ktime_get_ns();
	struct scratch *s;

	if (!site)
		return 0;
	s = reserve_scratch();
	if (!s) {
		__sync_fetch_and_add(&counters.sites_dropped, 1);
		return 0;
	}
	if (begin_header(&s->record, site->kind))
		send_site(s, site);
	release_scratch(s);
	__sync_fetch_and_add(&counters.run_ns, bpf_ktime_get_ns() - start);
	return 0;
}
