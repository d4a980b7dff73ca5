/* target_rows.c: the segments of a target: its writer and its rows. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "sampler/sampled_processes_state.h"
#include "format/loss_tally.h"
#include "format/rows.h"
#include "stack/python/python_code.h"

#define FLUSH_NS (250 * NS_PER_MS)
#define OWN_SEGMENTS_PERIODS 10u /* so much CPU time without any sample is worth segments */
#define PYTHON_BYTES_MAX ((size_t)64 << 20) /* limit for the Python names of a target */

static uint32_t text_in(struct targets *t, struct writer *w, uint32_t id)
{
	const char *text = targets_text_of(t, id);

	return writer_string(w, text, strlen(text));
}

/* --- rows that describe the process --- */

static void process_row(struct targets *t, struct target *p)
{
	struct writer *w = p->writer;
	struct row_process row = {
		.pid = (uint32_t)p->pid,
		.parent_pid = (uint32_t)p->parent_pid,
		.start_ns = p->start_ns,
		.end_ns = p->end_ns,
		.command = text_in(t, w, p->command ? p->command : p->name),
		.executable = text_in(t, w, p->executable),
		.directory = text_in(t, w, p->directory),
		.host = text_in(t, w, t->host),
		.boot_id = text_in(t, w, t->boot_id),
		.uid = p->uid,
		.source = process_source_sampler,
	};

	row.missing = schema_missing(TABLE_process);
	if (p->end_ns)
		ROW_PRESENT(&row, process, end_ns);
	writer_append(w, TABLE_process, &row);
}

/* Ranges without a file get no row: their symbols are in perf maps. */
static void module_row(struct targets *t, struct target *p, size_t index)
{
	const struct target_range *range = &p->ranges.data[index];
	struct range_origin *o = &p->origins.data[index];
	const struct target_file *file = target_file_at(&t->files, range->file);
	const char *id = file ? file->build_id : "", *path = targets_text_of(t, o->path);
	struct row_module row = {
		.path = text_in(t, p->writer, o->path),
		.build_id = writer_string(p->writer, id, strlen(id)),
		.start_address = range->start,
		.end_address = range->end,
		.file_offset = o->file_offset,
		.load_bias = range->bias,
		.loaded_ns = o->mapped_ns,
	};

	o->segment = p->segment;
	if (!file && !target_is_file(path))
		return;
	if (!*id)
		ROW_MISSING(&row, module, build_id);
	writer_append(p->writer, TABLE_module, &row);
}

static void thread_row(struct targets *t, struct target *p, pid_t tid)
{
	struct target_thread *thread = target_thread(t, p, tid);
	struct row_thread row = { .tid = (uint32_t)tid };

	if (!thread || thread->segment == p->segment)
		return;
	thread->segment = p->segment;
	row.name = text_in(t, p->writer, thread->name);
	row.time_ns = thread->named_ns;
	writer_append(p->writer, TABLE_thread, &row);
}

/* Starts a segment with its process and the modules of its stacks: segments are self-contained. */
static void begin_segment(struct targets *t, struct target *p)
{
	if (p->segment == writer_epoch(p->writer))
		return;
	p->segment = writer_epoch(p->writer);
	process_row(t, p);
	rows_clock(p->writer, 0);
	for (size_t i = 0; i < p->origins.count; i++)
		if (p->origins.data[i].segment)
			module_row(t, p, i);
}

/* --- loss --- */

static void loss_row(struct writer *w, const struct row_loss *loss)
{
	static const char *const details[LOSS_REASONS] = {
		[loss_reason_process_limit] = "processes without CPU samples",
		[loss_reason_stack_limit] = "distinct stacks of CPU samples",
		[loss_reason_allocations_dropped] = "allocations of the framework's allocator",
		[loss_reason_allocation_stacks] = "allocations of the framework's allocator",
		[loss_reason_unknown_release] = "releases to the framework's allocator",
	};
	const char *detail = details[loss->reason] ?: "CPU samples";
	struct row_loss row = *loss;

	row.detail = writer_string(w, detail, strlen(detail));
	row.missing = 0;
	writer_append(w, TABLE_loss, &row);
}

void targets_write_losses(struct targets *t)
{
	struct row_loss rows[LOSS_REASONS];
	size_t count = t->loss_owner ? loss_rows(&t->losses, rows) : 0;

	for (size_t i = 0; i < count; i++)
		loss_row(t->loss_owner->writer, &rows[i]);
	if (t->loss_owner)
		loss_clear(&t->losses);
}

void targets_loss(struct targets *t, struct target *p, enum loss_reason reason, uint64_t count,
		  uint64_t start_ns, uint64_t end_ns)
{
	struct row_loss row = {
		.reason = (uint8_t)reason, .count = count, .start_ns = start_ns, .end_ns = end_ns
	};

	p = p && p->writer ? p : t->loss_owner;
	if (p)
		loss_row(p->writer, &row);
	else
		loss_add(&t->losses, reason, count, start_ns, end_ns);
}

void targets_capability(struct targets *t, enum feature name, enum capability_state state,
			const char *actual, const char *reason)
{
	if (t->loss_owner)
		rows_capability(t->loss_owner->writer, name, state, NULL, actual, reason);
}

/* Reports the distinct stacks that did not fit into the stack tree, and unknown releases. */
static void flush_losses(struct targets *t, struct target *p)
{
	uint64_t fresh = p->tree.refused - p->stacks_refused;

	if (p->unknown_releases)
		targets_loss(t, p, loss_reason_unknown_release, p->unknown_releases, t->flushed_ns,
			     MAX(p->allocated_ns, t->flushed_ns));
	p->unknown_releases = 0;
	if (fresh)
		targets_loss(t, p, loss_reason_stack_limit, fresh, t->flushed_ns,
			     clock_monotonic_ns());
	p->stacks_refused = p->tree.refused;
}

/* --- the writer --- */

static void describe_python(void *context, struct writer *w, uint64_t frame,
			    struct row_stack_node *row)
{
	const struct target *p = context;
	const struct interned *item = &p->python.items[python_frame_code(frame)];
	size_t name = strlen(item->text);

	row->missing = 0;
	row->address = python_frame_code(frame);
	row->function = writer_string(w, item->text, name);
	row->file = writer_string(w, item->text + name + 1, item->length - name - 1);
	row->line = python_frame_last(frame);
	if (!row->line)
		ROW_MISSING(row, stack_node, line);
}

/* Returns 0 or a negative errno. */
static int open_writer(struct targets *t, struct target *p)
{
	char prefix[32];
	struct writer_options options = {
		.directory = t->options.directory,
		.folder = t->options.folder,
		.prefix = prefix,
	};
	int r;

	if (t->options.max_bytes)
		options.max_bytes =
			t->options.max_bytes - MIN(t->closed_bytes, t->options.max_bytes - 1);
	snprintf(prefix, sizeof(prefix), "cpu-%d", (int)p->pid);
	r = writer_open(&options, &p->writer, NULL);
	if (r < 0)
		p->writer = NULL;
	return r;
}

/* Returns the writer, which is opened if necessary; NULL: the process gets no segments. */
static struct writer *target_writer(struct targets *t, struct target *p, uint64_t time_ns)
{
	int r = -EMFILE;

	if (p->writer || p->no_segments)
		return p->writer;
	if (t->segments_opened < t->options.processes_max)
		r = open_writer(t, p);
	if (r < 0) {
		bool limit = r == -EMFILE || r == -ENFILE;

		p->no_segments = true;
		t->failure = t->failure || limit ? t->failure : -r;
		targets_loss(t, NULL, limit ? loss_reason_process_limit : loss_of_error(r), limit,
			     time_ns, time_ns);
		return NULL;
	}
	t->segments_opened++;
	stack_tree_init(&p->tree, TARGET_NODES_MAX, describe_python, p);
	targets_choose_loss_owner(t);
	return p->writer;
}

static void add_stats(struct targets *t, struct target *p)
{
	struct writer_stats stats;

	writer_stats(p->writer, &stats);
	if (stats.error && stats.error != EFBIG && !t->failure)
		t->failure = stats.error;
	t->bytes += stats.bytes;
}

void target_close(struct targets *t, struct target *p)
{
	struct writer_stats stats;
	int r;

	if (!p->writer)
		return;
	begin_segment(t, p);
	flush_losses(t, p);
	process_row(t, p);
	writer_flush(p->writer);
	writer_stats(p->writer, &stats);
	t->closed_bytes += stats.bytes;
	r = writer_close(&p->writer);
	if (r < 0 && r != -EFBIG && !t->failure)
		t->failure = -r;
	stack_tree_release(&p->tree);
	if (t->loss_owner == p)
		t->loss_owner = NULL;
}

void targets_flush(struct targets *t, uint64_t now_ns, bool now)
{
	if (!now && now_ns - t->flushed_ns < FLUSH_NS)
		return;
	t->bytes = t->closed_bytes;
	targets_write_losses(t);
	for (size_t i = 0; i < t->all.count; i++) {
		struct target *p = t->all.data[i];

		if (!p->writer)
			continue;
		flush_losses(t, p);
		begin_segment(t, p);
		writer_flush(p->writer);
		add_stats(t, p);
	}
	t->full = t->options.max_bytes && t->bytes >= t->options.max_bytes;
	t->flushed_ns = now_ns;
}

/* --- rows of samples --- */

/* Adds the modules of the frames to the segment. */
static void add_modules(struct targets *t, struct target *p, const struct target_stack *stack)
{
	for (unsigned i = 0; i < stack->user_count; i++) {
		uint64_t frame = stack->user[i];
		size_t index;

		if ((frame & FRAME_PYTHON) ||
		    !target_range_find(p, frame_lookup_address(frame), &index) ||
		    p->origins.data[index].segment == p->segment)
			continue;
		target_range_look_up(t, p, index);
		module_row(t, p, index);
	}
}

/* Adds the stack to the segment. Returns its id; 0: none. */
static uint32_t stack_id(struct targets *t, struct target *p, const struct target_stack *stack)
{
	uint64_t *frames = t->frames;
	unsigned kernel = MIN(stack->kernel_count, STACK_KERNEL_MAX), count = 0;
	unsigned user = MIN(stack->user_count, STACK_FRAMES_MAX);

	/* The innermost address is the next instruction, the others are return addresses. */
	for (unsigned i = 0; i < kernel; i++)
		frames[count++] = frame_of_kernel(stack->kernel[i] + (i == 0));
	for (unsigned i = 0; i < user; i++)
		frames[count++] = stack->user[i];
	if (!count)
		return 0;
	add_modules(t, p, stack);
	return stack_tree_id(&p->tree, p->writer, frames, count,
			     user < stack->user_count ? stack_end_depth : stack->end, NULL);
}

static void write_remainders(struct targets *t, struct target *p);

uint64_t targets_sampled_ns(const struct targets *t)
{
	return t->sampled_ns;
}

/*
 * Writes the rows that a row of a thread refers to. Returns false if the process has no segments,
 * or the size limit was reached.
 */
static bool begin_row(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns)
{
	if (t->full) {
		loss_add(&t->losses, loss_reason_size_limit, 1, time_ns, time_ns);
		return false;
	}
	if (!target_writer(t, p, time_ns))
		return false;
	begin_segment(t, p);
	if (p->remainders.count)
		write_remainders(t, p);
	thread_row(t, p, tid);
	return true;
}

static void cpu_sample_row(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
			   uint64_t weight_ns, uint32_t cpu, uint32_t stack)
{
	struct row_cpu_sample row = { .time_ns = time_ns,
				      .thread = (uint32_t)tid,
				      .weight_ns = weight_ns,
				      .cpu = cpu,
				      .stack = stack };

	if (!stack)
		ROW_MISSING(&row, cpu_sample, stack);
	if (cpu == TARGET_CPU_UNKNOWN)
		ROW_MISSING(&row, cpu_sample, cpu);
	writer_append(p->writer, TABLE_cpu_sample, &row);
	t->sampled_ns += stack ? weight_ns : 0;
}

void targets_cpu_sample(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
			uint64_t weight_ns, uint32_t cpu, const struct target_stack *stack)
{
	struct target_thread *thread;
	uint32_t id;

	if (!begin_row(t, p, tid, time_ns))
		return;
	id = stack_id(t, p, stack);
	cpu_sample_row(t, p, tid, time_ns, weight_ns, cpu, id);
	thread = target_thread(t, p, tid);
	if (thread)
		thread->stack = id;
}

void targets_off_cpu(struct targets *t, struct target *p, pid_t tid, uint64_t start_ns,
		     uint64_t end_ns, enum off_cpu_state state, const struct target_stack *stack)
{
	struct row_off_cpu row = { .start_ns = start_ns,
				   .end_ns = end_ns,
				   .thread = (uint32_t)tid,
				   .state = (uint8_t)state };

	if (!begin_row(t, p, tid, start_ns))
		return;
	row.stack = stack_id(t, p, stack);
	if (!row.stack)
		ROW_MISSING(&row, off_cpu, stack);
	writer_append(p->writer, TABLE_off_cpu, &row);
}

/* --- allocations --- */

/* The call that allocated is not known: one without a time has its thread and stack. */
static void allocation_origin(struct targets *t, struct target *p,
			      const struct target_allocation *a, const struct target_stack *stack)
{
	struct row_api_call row = { .start_ns = a->time_ns,
				    .end_ns = a->time_ns,
				    .function = api_kind_untimed,
				    .thread = (uint32_t)a->tid,
				    .correlation = p->correlation,
				    .stack = stack_id(t, p, stack),
				    .missing = schema_missing(TABLE_api_call) };

	if (row.stack)
		ROW_PRESENT(&row, api_call, stack);
	writer_api_function(p->writer, api_kind_untimed, NULL);
	writer_append(p->writer, TABLE_api_call, &row);
}

/* Finds the device of a release, or stores that of an allocation. */
static bool allocation_device(struct target *p, const struct target_allocation *a, uint64_t *device)
{
	*device = a->device;
	if (a->is_release)
		return map_remove(&p->allocated, a->address, device);
	if (p->allocated.count < TARGET_ALLOCATED_MAX)
		(void)!map_put(&p->allocated, a->address, *device);
	return true;
}

void targets_allocation(struct targets *t, struct target *p, const struct target_allocation *a,
			const struct target_stack *stack)
{
	struct row_allocation row = { .time_ns = a->time_ns,
				      .operation = a->is_release ? memory_operation_release
								 : memory_operation_allocation,
				      .kind = memory_kind_allocator_request,
				      .address = a->address,
				      .bytes = a->bytes,
				      .missing = schema_missing(TABLE_allocation) };
	uint64_t device;

	if (!begin_row(t, p, a->tid, a->time_ns))
		return;
	p->allocated_ns = a->time_ns;
	if (!allocation_device(p, a, &device)) {
		p->unknown_releases++;
		return;
	}
	row.device = (uint32_t)device;
	if (!a->is_release) {
		row.correlation = ++p->correlation;
		allocation_origin(t, p, a, stack);
	}
	ROW_PRESENT(&row, allocation, time_ns);
	ROW_PRESENT(&row, allocation, bytes);
	writer_append(p->writer, TABLE_allocation, &row);
}

void targets_thread_state(struct targets *t, struct target *p, const struct target_thread_state *s,
			  const struct target_stack *stack)
{
	struct row_unfinished row = { .time_ns = s->time_ns,
				      .kind = unfinished_kind_thread,
				      .thread = (uint32_t)s->tid,
				      .state = (uint8_t)s->state,
				      .missing = schema_missing(TABLE_unfinished) };

	if (!begin_row(t, p, s->tid, s->time_ns))
		return;
	row.stack = stack_id(t, p, stack);
	ROW_PRESENT(&row, unfinished, thread);
	ROW_PRESENT(&row, unfinished, state);
	if (row.stack)
		ROW_PRESENT(&row, unfinished, stack);
	if (s->system_call)
		ROW_SET(&row, unfinished, system_call, rows_text(p->writer, s->system_call));
	if (s->reason)
		ROW_SET(&row, unfinished, reason, rows_text(p->writer, s->reason));
	writer_append(p->writer, TABLE_unfinished, &row);
}

/* --- CPU time without samples --- */

/* A thread's last sample stands for one period after it; the stack of the rest is unknown. */
static void add_remainder(struct targets *t, struct target *p, const struct cpu_remainder *rest)
{
	struct target_thread *thread;
	uint64_t known_ns = 0;

	if (!p->writer) {
		if (p->remainders.count == TARGET_THREADS_MAX ||
		    vec_push(&p->remainders, *rest) < 0)
			targets_loss(t, NULL, loss_reason_samples_dropped, 1, rest->time_ns,
				     rest->time_ns);
		return;
	}
	thread = target_thread(t, p, rest->tid);
	if (thread && thread->name != rest->name) {
		thread->name = rest->name;
		thread->segment = 0;
	}
	if (!begin_row(t, p, rest->tid, rest->time_ns))
		return;
	if (thread && thread->stack)
		known_ns = MIN(rest->cpu_ns, t->options.period_ns);
	if (known_ns)
		cpu_sample_row(t, p, rest->tid, rest->time_ns, known_ns, TARGET_CPU_UNKNOWN,
			       thread->stack);
	if (rest->cpu_ns > known_ns)
		cpu_sample_row(t, p, rest->tid, rest->time_ns, rest->cpu_ns - known_ns,
			       TARGET_CPU_UNKNOWN, 0);
	if (thread)
		thread->stack = 0;
}

void targets_cpu_remainder(struct targets *t, struct target *p, pid_t tid, uint64_t time_ns,
			   uint64_t cpu_ns)
{
	const struct target_thread *thread = cpu_ns ? target_thread(t, p, tid) : NULL;
	struct cpu_remainder rest = { tid, thread ? thread->name : p->name, time_ns, cpu_ns };

	if (cpu_ns)
		add_remainder(t, p, &rest);
}

void targets_cpu_span(struct targets *t, const struct row_cpu_span *span)
{
	struct target *p = targets_find(t, (pid_t)span->pid);

	p = p && p->writer ? p : t->loss_owner;
	if (p && !t->full)
		writer_append(p->writer, TABLE_cpu_span, span);
}

/* Writes what was stored before the process had a writer. */
static void write_remainders(struct targets *t, struct target *p)
{
	size_t count = p->remainders.count;

	p->remainders.count = 0;
	for (size_t i = 0; i < count; i++)
		add_remainder(t, p, &p->remainders.data[i]);
}

void target_pass_remainders(struct targets *t, struct target *p, bool is_end)
{
	struct target *receiver = targets_find(t, p->parent_pid);
	uint64_t cpu_ns = 0;

	for (size_t i = 0; i < p->remainders.count; i++)
		cpu_ns += p->remainders.data[i].cpu_ns;
	if (p->remainders.count && cpu_ns >= OWN_SEGMENTS_PERIODS * t->options.period_ns &&
	    target_writer(t, p, p->remainders.data[0].time_ns)) {
		begin_segment(t, p);
		write_remainders(t, p);
		return;
	}
	if (!receiver || receiver == p || (is_end && !receiver->writer))
		receiver = t->loss_owner;
	for (size_t i = 0; i < p->remainders.count && receiver; i++)
		add_remainder(t, receiver, &p->remainders.data[i]);
	p->remainders.count = 0;
}

uint64_t target_python_frame(struct target *p, const char *function, const char *file,
			     uint32_t line)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int64_t id;

	strbuf_add(&text, function, strlen(function) + 1);
	strbuf_adds(&text, file);
	if (text.failed)
		return 0;
	id = interner_find(&p->python, text.data, text.length);
	if (id < 0 && p->python.bytes + text.length <= PYTHON_BYTES_MAX)
		id = interner_add(&p->python, text.data, text.length, NULL);
	return id < 0 ? 0 : python_frame_encode((uint32_t)id, line);
}
