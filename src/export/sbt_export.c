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
#include "format/sbt_file.h"
#include "schema/gpu_vendor.h"

#define FREE_STREAMS 65536u /* numbers of streams that share theirs begin here */

struct range_end {
	uint64_t time_ns, number, name; /* name: of a string */
	uint32_t thread;
};

struct sbt_export {
	struct export_view view;
	struct export_merge merge;
	struct export_stacks stacks;
	struct sbt_writer file;
	struct strbuf name;
	struct map streams, taken; /* hash of a stream's place -> number; numbers */
	VEC(struct range_end) ends; /* a heap */
	uint64_t next_range;
};

/* Returns the number of a string; one without memory makes the export fail at the end. */
static uint64_t number_of(struct sbt_export *w, const char *text)
{
	return sbt_number(&w->file, text, strlen(text));
}

/* ---- events ---- */

/* Appends an event whose times are the recording's; what its flags say is in it. */
static void put_event(struct sbt_export *w, struct sbt_event v)
{
	v.time_ns = (uint64_t)trace_unix_ns(w->view.trace, v.time_ns);
	v.flags |= v.duration_ns ? SBT_HAS_DURATION : 0;
	sbt_put_event(&w->file, &v);
}

static uint32_t stream_of(struct sbt_export *w, const struct export_event *v, uint32_t context,
			  uint32_t stream)
{
	uint64_t place[] = { v->process, (uint64_t)v->gpu << 32 | context, stream };
	uint64_t *number = map_at(&w->streams, hash_bytes(place, sizeof(place)), 0);

	if (!number) {
		w->file.out.failed = true;
		return stream;
	}
	if (!*number && map_add(&w->taken, stream) > 0)
		*number = (uint64_t)stream + 1;
	else if (!*number)
		*number = FREE_STREAMS + w->streams.count;
	return (uint32_t)(*number - 1);
}

static void put_frame(struct sbt_export *w, uint64_t address, uint32_t function, uint32_t file,
		      uint32_t line)
{
	struct sbt_frame f = { address, number_of(w, stacks_text(&w->stacks.stacks, function)),
			       number_of(w, stacks_text(&w->stacks.stacks, file)), line };

	sbt_put_frame(&w->file, &f);
}

/* Finds the frames of a call's stack, and counts their lines. Returns 0 or -ENOMEM. */
static int find_stack(struct sbt_export *w, const struct export_event *v, uint32_t call,
		      uint64_t *count)
{
	const struct stacks *s = &w->stacks.stacks;
	uint32_t id = export_call_stack(&w->view, call);

	w->stacks.frames.count = 0;
	if (id && export_stacks_find(&w->stacks, v->process, id, true) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < w->stacks.frames.count; i++)
		*count += MAX(s->frames.data[w->stacks.frames.data[i]].line_count, 1);
	return 0;
}

static void put_stack(struct sbt_export *w)
{
	const struct stacks *s = &w->stacks.stacks;

	for (size_t i = w->stacks.frames.count; i-- > 0;) {
		const struct stack_frame *f = &s->frames.data[w->stacks.frames.data[i]];

		if (!f->line_count)
			put_frame(w, f->address, f->name, f->file, f->line);
		for (uint32_t k = 0; k < f->line_count; k++) {
			const struct stack_line *l = &s->lines.data[f->first_line + k];

			put_frame(w, f->address, l->function, l->file, l->line);
		}
	}
}

static void set_kernel(struct sbt_event *out, const struct kernel_config_columns *k,
		       uint32_t config)
{
	const uint32_t sizes[] = { k->grid_x[config],
				   k->grid_y[config],
				   k->grid_z[config],
				   k->block_x[config],
				   k->block_y[config],
				   k->block_z[config],
				   k->static_shared_bytes[config] + k->dynamic_shared_bytes[config],
				   k->registers[config] };

	if (column_has(k->valid.grid_x, config)) {
		out->flags |= SBT_HAS_KERNEL;
		memcpy(out->kernel, sizes, sizeof(sizes));
	}
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
	struct sbt_export *w = exporter;
	const struct trace *t = w->view.trace;
	const struct event_columns *c = event_work(&w->view, v->kind);
	uint32_t call = work_call(&w->view, c, v->row), config = TRACE_NO_ROW;
	struct sbt_event out = { .type = SBT_Custom,
				 .flags = SBT_HAS_DURATION,
				 .time_ns = v->start_ns,
				 .duration_ns = v->end_ns - v->start_ns,
				 .device = (uint32_t)v->gpu };
	int bytes = -1;

	out.correlation = export_correlation(&w->view, v->process, c->correlation[v->row]);
	if (column_has(c->stream_valid, v->row))
		out.stream = stream_of(w, v, c->context[v->row], c->stream[v->row]);
	strbuf_clear(&w->name);
	if (v->kind == EVENT_KERNEL) {
		out.type = SBT_KernelLaunch;
		config = kernel_columns(t)->config[v->row];
	}
	if (v->kind == EVENT_MEMCPY)
		out.type = type_of_copy(memcpy_columns(t)->kind[v->row]),
		bytes = COLUMN_memcpy_bytes;
	if (v->kind == EVENT_MEMSET)
		out.type = SBT_MemsetDevice, bytes = COLUMN_memset_bytes;
	if (v->kind == EVENT_SYNC)
		out.type = type_of_wait(synchronization_columns(t)->kind[v->row]);
	if (bytes >= 0 && column_has(trace_valid(t, event_table(v->kind), bytes), v->row)) {
		out.flags |= SBT_HAS_MEMORY;
		out.memory[2] = trace_u64(t, event_table(v->kind), bytes)[v->row];
	}
	if (config != TRACE_NO_ROW) {
		set_kernel(&out, kernel_config_columns(t), config);
		strbuf_add(&w->name, trace_string(t, kernel_config_columns(t)->name[config]),
			   trace_string_length(t, kernel_config_columns(t)->name[config]));
	} else if (v->kind == EVENT_SYNC) {
		strbuf_adds(&w->name,
			    synchronization_name(synchronization_columns(t)->kind[v->row]));
	} else {
		event_name(&w->name, t, v);
	}
	out.name = sbt_number(&w->file, strbuf_text(&w->name), w->name.length);
	w->stacks.frames.count = 0;
	if (call != TRACE_NO_ROW) {
		out.flags |= SBT_HAS_STACK;
		out.thread = w->view.call->thread[call];
		if (find_stack(w, v, call, &out.frame_count) < 0)
			return -ENOMEM;
	}
	put_event(w, out);
	put_stack(w);
	w->view.result->unlinked +=
		v->kind != EVENT_SYNC && (!c->launches || c->launches[v->row] == TRACE_NO_ROW);
	return 0;
}

static int write_cuda_event(void *exporter, const struct export_event *v)
{
	struct sbt_export *w = exporter;
	const struct cuda_event_columns *c = cuda_event_columns(w->view.trace);
	struct sbt_event out = { .type = SBT_EventRecord,
				 .time_ns = v->start_ns,
				 .device = (uint32_t)v->gpu };
	char name[32];

	snprintf(name, sizeof(name), "event %u", c->event[v->row]);
	out.name = number_of(w, name);
	out.stream = stream_of(w, v, c->context[v->row], c->stream[v->row]);
	out.correlation = export_correlation(&w->view, v->process, c->correlation[v->row]);
	put_event(w, out);
	return 0;
}

static int write_allocation(void *exporter, const struct export_event *v)
{
	struct sbt_export *w = exporter;
	const struct allocation_columns *c = allocation_columns(w->view.trace);
	bool releases = c->operation[v->row] == memory_operation_release;
	struct sbt_event out = { .type = releases ? SBT_MemFree : SBT_MemAlloc,
				 .flags = SBT_HAS_MEMORY,
				 .time_ns = v->start_ns,
				 .name = number_of(w, allocation_name(c->operation[v->row])),
				 .memory[1] = c->address[v->row] };

	out.device = (uint32_t)gpus_find(&w->view.gpus, v->process, c->device[v->row]);
	out.correlation = export_correlation(&w->view, v->process, c->correlation[v->row]);
	if (column_has(c->valid.bytes, v->row))
		out.memory[2] = c->bytes[v->row];
	put_event(w, out);
	return 0;
}

/* What happens on a thread. */
#define THREAD_EVENT(...) ((struct sbt_event){ .flags = SBT_HAS_STACK, __VA_ARGS__ })

static int write_nvtx(void *exporter, const struct export_event *v)
{
	struct sbt_export *w = exporter;
	const struct nvtx_columns *c = nvtx_columns(w->view.trace);
	bool is_mark = c->kind[v->row] == nvtx_kind_mark;
	struct range_end end = { .time_ns = v->end_ns, .thread = c->thread[v->row] };
	struct export_range range;
	size_t length;

	export_range(&w->view, v->process, v->row, &range);
	length = trace_string_length(w->view.trace, range.text);
	end.name = length ? sbt_number(&w->file, trace_string(w->view.trace, range.text), length)
			  : number_of(w, NO_MESSAGE);
	end.number = is_mark ? 0 : ++w->next_range;
	put_event(w, THREAD_EVENT(.type = is_mark ? SBT_Marker : SBT_RangeStart,
				  .time_ns = v->start_ns, .correlation = end.number,
				  .thread = end.thread, .name = end.name));
	if (is_mark)
		return 0;
	if (vec_push(&w->ends, end) < 0)
		return -ENOMEM;
	heap_up(w->ends.data, w->ends.count - 1, a, b,
		a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->number > b->number));
	return 0;
}

/* Writes the ends of ranges up to a time, inner ones first. */
static void write_ends(struct sbt_export *w, uint64_t time_ns)
{
	while (w->ends.count && w->ends.data[0].time_ns <= time_ns) {
		struct range_end end = w->ends.data[0];

		w->ends.data[0] = w->ends.data[--w->ends.count];
		heap_down(w->ends.data, w->ends.count, 0, a, b,
			  a->time_ns < b->time_ns ||
				  (a->time_ns == b->time_ns && a->number > b->number));
		put_event(w, THREAD_EVENT(.type = SBT_RangeEnd, .time_ns = end.time_ns,
					  .correlation = end.number, .thread = end.thread,
					  .name = end.name));
	}
}

static int write_overhead(void *exporter, const struct export_event *v)
{
	struct sbt_export *w = exporter;
	const struct overhead_columns *c = overhead_columns(w->view.trace);
	uint32_t thread = column_has(c->valid.thread, v->row) ? c->thread[v->row] : 0;

	strbuf_clear(&w->name);
	strbuf_addf(&w->name, "overhead: %s", overhead_name(c->kind[v->row]));
	put_event(w, THREAD_EVENT(.type = SBT_Custom, .time_ns = v->start_ns,
				  .duration_ns = v->end_ns - v->start_ns, .thread = thread,
				  .name = number_of(w, strbuf_text(&w->name))));
	return 0;
}

static int write_loss(void *exporter, const struct export_event *v)
{
	struct sbt_export *w = exporter;
	const struct trace_loss *loss = &w->merge.losses[v->row];

	strbuf_clear(&w->name);
	strbuf_addf(&w->name, "loss: %s %llu %s", loss_name(loss->reason),
		    (unsigned long long)loss->count, loss->detail);
	put_event(w, THREAD_EVENT(.type = SBT_Custom, .time_ns = v->start_ns,
				  .name = number_of(w, strbuf_text(&w->name))));
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

static int write_events(struct sbt_export *w, struct error *e)
{
	struct export_event event;
	int r;

	while ((r = export_merge_next(&w->merge, &event)) > 0) {
		write_ends(w, event.start_ns);
		if (export_event_write(&w->view, writers, w, &event) < 0 || w->file.out.failed)
			return error_set(e, -ENOMEM, "out of memory");
		if (w->file.out.length > SBT_FILE_BYTES_MAX)
			return error_set(
				e, E_LIMIT,
				"more than %zu MiB of SBT; --since and --until select less",
				SBT_FILE_BYTES_MAX >> 20);
	}
	write_ends(w, UINT64_MAX);
	return export_merge_end(&w->merge, r, e);
}

/* ---- sections ---- */

static struct sbt_text text_of(const char *text)
{
	return (struct sbt_text){ text, strlen(text) };
}

static void begin(struct sbt_export *w)
{
	const struct trace *t = w->view.trace;
	const struct trace_process none = { .command = "", .host = "" };
	const struct trace_process *p = w->view.process_count ? trace_process(t, 0) : &none;
	struct sbt_metadata m = { .name = text_of(w->view.process_count ? w->view.processes[0].name
									: ""),
				  .command = text_of(p->command),
				  .host = text_of(p->host),
				  .pid = p->pid };

	trace_span(t, &m.start_ns, &m.end_ns);
	m.start_ns = (uint64_t)trace_unix_ns(t, m.start_ns);
	m.end_ns = (uint64_t)trace_unix_ns(t, m.end_ns);
	sbt_begin(&w->file, &m);
}

static void write_devices(struct sbt_export *w)
{
	const struct trace *t = w->view.trace;
	const struct gpus *gpus = &w->view.gpus;
	size_t count = 0;
	bool missing;

	for (size_t i = 0; i < gpus->count; i++)
		count += gpus->items[i].row != TRACE_NO_ROW;
	sbt_begin_devices(&w->file, count);
	for (size_t i = 0; i < gpus->count; i++) {
		struct sbt_device d = { .id = (uint32_t)i, .name = text_of(gpus->items[i].name) };
		uint32_t row = gpus->items[i].row;
		const char *vendor;

		if (row == TRACE_NO_ROW)
			continue;
		vendor = gpu_vendor_title((unsigned)trace_value(
			t, TABLE_device, COLUMN_device_vendor, row, &missing));
		d.vendor = text_of(vendor ? vendor : "");
		for (size_t k = 0; k < ARRAY_SIZE(sbt_device_columns); k++)
			d.values[k] =
				trace_value(t, TABLE_device, sbt_device_columns[k], row, &missing);
		sbt_put_device(&w->file, &d);
	}
}

static int write_all(struct sbt_export *w, struct error *e)
{
	int r;

	begin(w);
	write_devices(w);
	r = write_events(w, e);
	if (r >= 0)
		r = w->name.failed ? error_set(e, -ENOMEM, "out of memory")
				   : sbt_finish(&w->file, e);
	return r;
}

static void release(struct sbt_export *w)
{
	export_merge_release(&w->merge);
	export_stacks_release(&w->stacks);
	sbt_writer_release(&w->file);
	strbuf_release(&w->name);
	map_release(&w->streams);
	map_release(&w->taken);
	vec_release(&w->ends);
	export_view_release(&w->view);
}

int sbt_write(struct trace *t, const struct export_options *options, const char *path,
	      struct export_result *result, struct error *e)
{
	struct sbt_export w = { .next_range = 0 };
	struct output *output = output_open(path, options->overwrite, e);
	int r;

	*result = (struct export_result){ 0 };
	if (!output)
		return e && e->code ? e->code : -EIO;
	r = export_view_init(&w.view, t, options, result, false, e);
	if (r >= 0)
		r = export_merge_init(&w.merge, &w.view, e);
	if (r >= 0)
		r = export_stacks_init(&w.stacks, t, e);
	if (r >= 0)
		r = write_all(&w, e);
	if (r >= 0) {
		output_move(output, &w.file.out);
		result->files = 1;
		r = output_commit(&output, &result->bytes, e);
	}
	output_abort(&output);
	release(&w);
	return r;
}
