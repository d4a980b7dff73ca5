/*
 * sbt_export.c: a file of TraceSmith's format SBT 0.1, which its own reader reads: metadata, GPUs,
 * events in the order of time, strings. The header counts the events, and strings are numbered as
 * they occur, so the events are kept in memory until the end: about 20 bytes each.
 *
 * SBT has no calls, counters and samples. A call's thread and stack are those of the work that it
 * launched. Streams are numbers without a GPU: each has its own if that is not another's already.
 */
#include <errno.h>
#include <stdio.h>

#include "base/heap.h"
#include "base/output.h"
#include "export/export_merge.h"
#include "export/export_stacks.h"
#include "schema/gpu_vendor.h"
#include "schema/sbt_format.h"

#define FREE_STREAMS 65536u /* numbers of streams that share theirs begin here */

struct range_end {
	uint64_t time_ns, number;
	uint32_t thread;
	uint32_t name; /* of a string */
};

struct sbt_writer {
	struct export_view view;
	struct export_merge merge;
	struct export_stacks stacks;
	struct strbuf out, name;
	struct interner strings;
	struct map streams, taken; /* hash of a stream's place -> number; numbers */
	VEC(struct range_end) ends; /* a heap */
	uint64_t events, last_ns, next_range;
};

static void add_varint(struct sbt_writer *w, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(&w->out, bytes, varint_put(bytes, value));
}

static void add_text(struct sbt_writer *w, const char *text)
{
	size_t length = strlen(text);

	add_varint(w, length);
	strbuf_add(&w->out, text, length);
}

/* Returns the number of a string; one without memory makes the export fail at the end. */
static uint32_t number_of(struct sbt_writer *w, const char *text, size_t length)
{
	int64_t item = interner_add(&w->strings, text, length, NULL);

	w->out.failed |= item < 0;
	return (uint32_t)MAX(item, 0);
}

/* ---- events ---- */

/* What all events have; `stream`: 0 for those of threads. */
struct place {
	uint32_t device, stream;
	uint64_t correlation;
};

static void begin_event(struct sbt_writer *w, uint8_t type, uint8_t flags, uint64_t start_ns,
			uint64_t duration_ns, struct place p, uint32_t name)
{
	uint64_t time_ns = (uint64_t)trace_unix_ns(w->view.trace, start_ns);

	flags |= duration_ns ? SBT_HAS_DURATION : 0;
	strbuf_addc(&w->out, (char)type);
	strbuf_addc(&w->out, (char)flags);
	add_varint(w, w->events++ ? time_ns - w->last_ns : 0);
	w->last_ns = time_ns;
	if (flags & SBT_HAS_DURATION)
		add_varint(w, duration_ns);
	add_varint(w, p.device);
	add_varint(w, p.stream);
	add_varint(w, p.correlation);
	add_varint(w, name);
}

static uint32_t stream_of(struct sbt_writer *w, const struct export_event *v, uint32_t context,
			  uint32_t stream)
{
	uint64_t place[] = { v->process, (uint64_t)v->gpu << 32 | context, stream };
	uint64_t *number = map_at(&w->streams, hash_bytes(place, sizeof(place)), 0);

	if (!number) {
		w->out.failed = true;
		return stream;
	}
	if (!*number && map_add(&w->taken, stream) > 0)
		*number = (uint64_t)stream + 1;
	else if (!*number)
		*number = FREE_STREAMS + w->streams.count;
	return (uint32_t)(*number - 1);
}

static void add_frame(struct sbt_writer *w, uint64_t address, uint32_t function, uint32_t file,
		      uint32_t line)
{
	const char *name = stacks_text(&w->stacks.stacks, function);
	const char *path = stacks_text(&w->stacks.stacks, file);

	add_varint(w, address);
	add_varint(w, number_of(w, name, strlen(name)));
	add_varint(w, number_of(w, path, strlen(path)));
	add_varint(w, line);
}

/* Appends the thread and the stack of a call, innermost frame first. Returns 0 or -ENOMEM. */
static int add_stack(struct sbt_writer *w, const struct export_event *v, uint32_t call)
{
	const struct stacks *s = &w->stacks.stacks;
	uint32_t id = export_call_stack(&w->view, call);
	size_t count = 0;

	add_varint(w, w->view.call->thread[call]);
	w->stacks.frames.count = 0;
	if (id && export_stacks_find(&w->stacks, v->process, id, true) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < w->stacks.frames.count; i++)
		count += MAX(s->frames.data[w->stacks.frames.data[i]].line_count, 1);
	add_varint(w, count);
	for (size_t i = w->stacks.frames.count; i-- > 0;) {
		const struct stack_frame *f = &s->frames.data[w->stacks.frames.data[i]];

		if (!f->line_count)
			add_frame(w, f->address, f->name, f->file, f->line);
		for (uint32_t k = 0; k < f->line_count; k++) {
			const struct stack_line *l = &s->lines.data[f->first_line + k];

			add_frame(w, f->address, l->function, l->file, l->line);
		}
	}
	return 0;
}

static void add_kernel_sizes(struct sbt_writer *w, uint32_t config)
{
	const struct kernel_config_columns *k = kernel_config_columns(w->view.trace);
	const uint32_t sizes[] = { k->grid_x[config],
				   k->grid_y[config],
				   k->grid_z[config],
				   k->block_x[config],
				   k->block_y[config],
				   k->block_z[config],
				   k->static_shared_bytes[config] + k->dynamic_shared_bytes[config],
				   k->registers[config] };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		add_varint(w, sizes[i]);
}

static uint8_t type_of_copy(uint8_t kind)
{
	return kind == copy_kind_HtoD                             ? SBT_MemcpyH2D
	       : kind == copy_kind_DtoH                           ? SBT_MemcpyD2H
	       : kind == copy_kind_DtoD || kind == copy_kind_PtoP ? SBT_MemcpyD2D
								  : SBT_Custom;
}

static uint8_t type_of_wait(uint8_t kind)
{
	return kind == synchronization_kind_stream    ? SBT_StreamSync
	       : kind == synchronization_kind_context ? SBT_DeviceSync
						      : SBT_EventSync;
}

/* GPU work, and waits. */
static int write_work(void *exporter, const struct export_event *v)
{
	struct sbt_writer *w = exporter;
	const struct trace *t = w->view.trace;
	const struct event_columns *c = event_work(&w->view, v->kind);
	uint32_t call = work_call(&w->view, c, v->row), config = TRACE_NO_ROW;
	uint8_t type = SBT_Custom,
		flags = SBT_HAS_DURATION | (call != TRACE_NO_ROW ? SBT_HAS_STACK : 0);
	int bytes = -1;
	struct place p = { (uint32_t)v->gpu, 0,
			   export_correlation(&w->view, v->process, c->correlation[v->row]) };

	if (column_has(c->stream_valid, v->row))
		p.stream = stream_of(w, v, c->context[v->row], c->stream[v->row]);
	strbuf_clear(&w->name);
	if (v->kind == EVENT_KERNEL)
		config = kernel_columns(t)->config[v->row];
	if (v->kind == EVENT_MEMCPY)
		type = type_of_copy(memcpy_columns(t)->kind[v->row]), bytes = COLUMN_memcpy_bytes;
	if (v->kind == EVENT_MEMSET)
		type = SBT_MemsetDevice, bytes = COLUMN_memset_bytes;
	if (v->kind == EVENT_SYNC)
		type = type_of_wait(synchronization_columns(t)->kind[v->row]);
	if (bytes >= 0 && column_has(trace_valid(t, event_table(v->kind), bytes), v->row))
		flags |= SBT_HAS_MEMORY;
	if (v->kind == EVENT_KERNEL)
		type = SBT_KernelLaunch;
	if (config != TRACE_NO_ROW && column_has(kernel_config_columns(t)->valid.grid_x, config))
		flags |= SBT_HAS_KERNEL;
	if (config != TRACE_NO_ROW)
		strbuf_add(&w->name, trace_string(t, kernel_config_columns(t)->name[config]),
			   trace_string_length(t, kernel_config_columns(t)->name[config]));
	else if (v->kind == EVENT_SYNC)
		strbuf_adds(&w->name,
			    synchronization_name(synchronization_columns(t)->kind[v->row]));
	else
		event_name(&w->name, t, v);
	begin_event(w, type, flags, v->start_ns, v->end_ns - v->start_ns, p,
		    number_of(w, strbuf_text(&w->name), w->name.length));
	if (flags & SBT_HAS_KERNEL)
		add_kernel_sizes(w, config);
	if (flags & SBT_HAS_MEMORY) {
		add_varint(w, 0);
		add_varint(w, 0);
		add_varint(w, trace_u64(t, event_table(v->kind), bytes)[v->row]);
	}
	w->view.result->unlinked +=
		v->kind != EVENT_SYNC && (!c->launches || c->launches[v->row] == TRACE_NO_ROW);
	return flags & SBT_HAS_STACK ? add_stack(w, v, call) : 0;
}

static void thread_event(struct sbt_writer *w, uint8_t type, uint64_t start_ns,
			 uint64_t duration_ns, uint64_t correlation, uint32_t thread, uint32_t name)
{
	begin_event(w, type, SBT_HAS_STACK, start_ns, duration_ns,
		    (struct place){ .correlation = correlation }, name);
	add_varint(w, thread);
	add_varint(w, 0);
}

static int write_cuda_event(void *exporter, const struct export_event *v)
{
	struct sbt_writer *w = exporter;
	const struct cuda_event_columns *c = cuda_event_columns(w->view.trace);
	struct place p = { (uint32_t)v->gpu, stream_of(w, v, c->context[v->row], c->stream[v->row]),
			   export_correlation(&w->view, v->process, c->correlation[v->row]) };
	char name[32];
	int length = snprintf(name, sizeof(name), "event %u", c->event[v->row]);

	begin_event(w, SBT_EventRecord, 0, v->start_ns, 0, p, number_of(w, name, (size_t)length));
	return 0;
}

static int write_allocation(void *exporter, const struct export_event *v)
{
	struct sbt_writer *w = exporter;
	const struct allocation_columns *c = allocation_columns(w->view.trace);
	struct place p = { (uint32_t)gpus_find(&w->view.gpus, v->process, c->device[v->row]), 0,
			   export_correlation(&w->view, v->process, c->correlation[v->row]) };
	bool sized = column_has(c->valid.bytes, v->row);
	const char *name = allocation_name(c->operation[v->row]);

	begin_event(w,
		    c->operation[v->row] == memory_operation_release ? SBT_MemFree : SBT_MemAlloc,
		    SBT_HAS_MEMORY, v->start_ns, 0, p, number_of(w, name, strlen(name)));
	add_varint(w, 0);
	add_varint(w, c->address[v->row]);
	add_varint(w, sized ? c->bytes[v->row] : 0);
	return 0;
}

static int write_nvtx(void *exporter, const struct export_event *v)
{
	struct sbt_writer *w = exporter;
	const struct nvtx_columns *c = nvtx_columns(w->view.trace);
	bool is_mark = c->kind[v->row] == nvtx_kind_mark;
	struct range_end end = { .time_ns = v->end_ns, .thread = c->thread[v->row] };
	struct export_range range;
	size_t length;

	export_range(&w->view, v->process, v->row, &range);
	length = trace_string_length(w->view.trace, range.text);
	end.name = length ? number_of(w, trace_string(w->view.trace, range.text), length)
			  : number_of(w, NO_MESSAGE, strlen(NO_MESSAGE));
	end.number = is_mark ? 0 : ++w->next_range;
	thread_event(w, is_mark ? SBT_Marker : SBT_RangeStart, v->start_ns, 0, end.number,
		     end.thread, end.name);
	if (is_mark)
		return 0;
	if (vec_push(&w->ends, end) < 0)
		return -ENOMEM;
	heap_up(w->ends.data, w->ends.count - 1, a, b,
		a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->number > b->number));
	return 0;
}

/* Writes the ends of ranges up to a time, inner ones first. */
static void write_ends(struct sbt_writer *w, uint64_t time_ns)
{
	while (w->ends.count && w->ends.data[0].time_ns <= time_ns) {
		struct range_end end = w->ends.data[0];

		w->ends.data[0] = w->ends.data[--w->ends.count];
		heap_down(w->ends.data, w->ends.count, 0, a, b,
			  a->time_ns < b->time_ns ||
				  (a->time_ns == b->time_ns && a->number > b->number));
		thread_event(w, SBT_RangeEnd, end.time_ns, 0, end.number, end.thread, end.name);
	}
}

static int write_overhead(void *exporter, const struct export_event *v)
{
	struct sbt_writer *w = exporter;
	const struct overhead_columns *c = overhead_columns(w->view.trace);
	uint32_t thread = column_has(c->valid.thread, v->row) ? c->thread[v->row] : 0;

	strbuf_clear(&w->name);
	strbuf_addf(&w->name, "overhead: %s", overhead_name(c->kind[v->row]));
	thread_event(w, SBT_Custom, v->start_ns, v->end_ns - v->start_ns, 0, thread,
		     number_of(w, strbuf_text(&w->name), w->name.length));
	return 0;
}

static int write_loss(void *exporter, const struct export_event *v)
{
	struct sbt_writer *w = exporter;
	const struct trace_loss *loss = &w->merge.losses[v->row];

	strbuf_clear(&w->name);
	strbuf_addf(&w->name, "loss: %s %llu %s", loss_name(loss->reason),
		    (unsigned long long)loss->count, loss->detail);
	thread_event(w, SBT_Custom, v->start_ns, 0, 0, 0,
		     number_of(w, strbuf_text(&w->name), w->name.length));
	return 0;
}

static export_writer *const writers[EVENT_KINDS] = {
	[EVENT_LOSS] = write_loss,
	[EVENT_NVTX] = write_nvtx,
	[EVENT_OVERHEAD] = write_overhead,
	[EVENT_ALLOCATION] = write_allocation,
	[EVENT_SYNC] = write_work,
	[EVENT_WORK... EVENT_CUDA_EVENT - 1] = write_work,
	[EVENT_CUDA_EVENT] = write_cuda_event,
};

static int write_events(struct sbt_writer *w, struct error *e)
{
	struct export_event event;
	int r;

	while ((r = export_merge_next(&w->merge, &event)) > 0) {
		write_ends(w, event.start_ns);
		if (!w->events && writers[event.kind]) {
			strbuf_addc(&w->out, SBT_EVENTS);
			add_varint(w, (uint64_t)trace_unix_ns(w->view.trace, event.start_ns));
		}
		if (export_event_write(&w->view, writers, w, &event) < 0 || w->out.failed)
			return error_set(e, -ENOMEM, "out of memory");
		if (w->out.length > SBT_FILE_BYTES_MAX)
			return error_set(
				e, E_LIMIT,
				"more than %zu MiB of SBT; --since and --until select less",
				SBT_FILE_BYTES_MAX >> 20);
	}
	write_ends(w, UINT64_MAX);
	return export_merge_end(&w->merge, r, e);
}

/* ---- sections ---- */

static void write_metadata(struct sbt_writer *w)
{
	const struct trace *t = w->view.trace;
	const struct trace_process none = { .command = "", .host = "" }, *p = &none;
	const char *name = "";
	uint64_t start_ns, end_ns;

	if (w->view.process_count) {
		p = trace_process(t, 0);
		name = w->view.processes[0].name;
	}
	trace_span(t, &start_ns, &end_ns);
	strbuf_addc(&w->out, SBT_METADATA);
	add_text(w, name);
	add_text(w, p->command);
	add_varint(w, (uint64_t)trace_unix_ns(t, start_ns));
	add_varint(w, (uint64_t)trace_unix_ns(t, end_ns));
	add_text(w, p->host);
	add_varint(w, p->pid);
}

static void write_devices(struct sbt_writer *w)
{
	const struct trace *t = w->view.trace;
	const struct gpus *gpus = &w->view.gpus;
	size_t count = 0;

	for (size_t i = 0; i < gpus->count; i++)
		count += gpus->items[i].row != TRACE_NO_ROW;
	strbuf_addc(&w->out, SBT_DEVICES);
	add_varint(w, count);
	for (size_t i = 0; i < gpus->count; i++) {
		uint32_t row = gpus->items[i].row;
		const char *vendor = NULL;
		bool missing;

		if (row == TRACE_NO_ROW)
			continue;
		vendor = gpu_vendor_title((unsigned)trace_value(
			t, TABLE_device, COLUMN_device_vendor, row, &missing));
		add_varint(w, i);
		add_text(w, gpus->items[i].name);
		add_text(w, vendor ? vendor : "");
		for (size_t k = 0; k < ARRAY_SIZE(sbt_device_columns); k++)
			add_varint(w, trace_value(t, TABLE_device, sbt_device_columns[k], row,
						  &missing));
	}
}

static int write_all(struct sbt_writer *w, struct error *e)
{
	uint64_t at[4] = { SBT_HEADER_BYTES };
	int r;

	strbuf_add(&w->out, (const char[SBT_HEADER_BYTES]){ 0 }, SBT_HEADER_BYTES);
	write_metadata(w);
	at[2] = w->out.length;
	write_devices(w);
	at[3] = w->out.length;
	r = write_events(w, e);
	if (r < 0)
		return r;
	at[1] = w->out.length;
	strbuf_addc(&w->out, SBT_STRINGS);
	add_varint(w, w->strings.count);
	for (size_t i = 0; i < w->strings.count; i++) {
		add_varint(w, w->strings.items[i].length);
		strbuf_add(&w->out, w->strings.items[i].text, w->strings.items[i].length);
	}
	strbuf_addc(&w->out, (char)SBT_END);
	if (w->out.failed || w->name.failed)
		return error_set(e, -ENOMEM, "out of memory");
	memcpy(w->out.data, "SBT\0\0\0\1\0\3\0\0\0\x48", 13); /* version 0.1, flags, size */
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		store_u64(w->out.data + 16 + 8 * i, at[i]);
	store_u64(w->out.data + 56, w->events);
	return 0;
}

static void release(struct sbt_writer *w)
{
	export_merge_release(&w->merge);
	export_stacks_release(&w->stacks);
	strbuf_release(&w->out);
	strbuf_release(&w->name);
	interner_release(&w->strings);
	map_release(&w->streams);
	map_release(&w->taken);
	vec_release(&w->ends);
	export_view_release(&w->view);
}

int sbt_write(struct trace *t, const struct export_options *options, const char *path,
	      struct export_result *result, struct error *e)
{
	struct sbt_writer w = { .next_range = 0 };
	struct output *output = output_open(path, options->overwrite, e);
	int r;

	*result = (struct export_result){ 0 };
	if (!output)
		return e && e->code ? e->code : -EIO;
	interner_init(&w.strings);
	r = export_view_init(&w.view, t, options, result, false, e);
	if (r >= 0)
		r = export_merge_init(&w.merge, &w.view, e);
	if (r >= 0)
		r = export_stacks_init(&w.stacks, t, e);
	if (r >= 0)
		r = write_all(&w, e);
	if (r >= 0) {
		output_move(output, &w.out);
		result->files = 1;
		r = output_commit(&output, &result->bytes, e);
	}
	output_abort(&output);
	release(&w);
	return r;
}
