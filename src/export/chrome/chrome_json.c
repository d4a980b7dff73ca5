/*
 * chrome_json.c: writes a recording as one file of Chrome trace JSON in Kineto's dialect
 * (docs/export.md). This file writes everything around the events.
 */
#include <errno.h>

#include "base/output.h"
#include "export/chrome/chrome_writer.h"

/* Kineto's keys in its order, and the columns of table device. */
static const struct {
	const char *key;
	uint8_t column;
} device_properties[] = {
	{ "totalGlobalMem", COLUMN_device_memory_bytes },
	{ "computeMajor", COLUMN_device_compute_major },
	{ "computeMinor", COLUMN_device_compute_minor },
	{ "maxThreadsPerBlock", COLUMN_device_max_threads_per_block },
	{ "maxThreadsPerMultiprocessor", COLUMN_device_max_threads_per_multiprocessor },
	{ "regsPerBlock", COLUMN_device_registers_per_block },
	{ "warpSize", COLUMN_device_warp_size },
	{ "sharedMemPerBlock", COLUMN_device_shared_per_block_bytes },
	{ "numSms", COLUMN_device_multiprocessors },
	{ "regsPerMultiprocessor", COLUMN_device_registers_per_multiprocessor },
	{ "sharedMemPerBlockOptin", COLUMN_device_shared_per_block_optin_bytes },
	{ "sharedMemPerMultiprocessor", COLUMN_device_shared_per_multiprocessor_bytes },
};

static void write_device(struct json *j, const struct trace *t, size_t id, uint32_t row)
{
	json_object(j);
	json_key_u64(j, "id", id);
	json_key_string(j, "name", trace_string(t, device_columns(t)->name[row]));
	for (size_t i = 0; i < ARRAY_SIZE(device_properties); i++) {
		bool missing;
		uint64_t value =
			trace_value(t, TABLE_device, device_properties[i].column, row, &missing);

		if (!missing)
			json_key_u64(j, device_properties[i].key, value);
	}
	json_end(j);
}

/* The file is written in pieces, so struct json sees only the value of "deviceProperties". */
static void write_devices(struct chrome *c)
{
	struct json j = JSON_INIT(&c->out);
	const struct gpus *gpus = &c->view.gpus;

	json_array(&j);
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->items[i].row != TRACE_NO_ROW)
			write_device(&j, c->view.trace, i, gpus->items[i].row);
	json_end(&j);
}

static void write_metadata_keys(struct chrome *c)
{
	const struct trace *t = c->view.trace;
	struct strbuf *s = &c->out;

	if (c->view.process_count) {
		const char *host = trace_process(t, 0)->host;

		strbuf_adds(s, ",\n\"host_name\": ");
		json_quote(s, host, strlen(host));
	}
	if (trace_rows(t, TABLE_device))
		strbuf_addf(s, ",\n\"cuda_driver_version\": %u",
			    device_columns(t)->driver_version[0]);
	/* Readers search for these exact bytes to find the rank. */
	strbuf_addf(s, ",\n\"distributedInfo\": {\"rank\": %u}", c->view.options->rank);
}

/* "GPU 0 python"; if several processes use GPUs, "GPU 0 (NVIDIA H200)". */
static void write_gpu_name(struct chrome *c, uint32_t gpu)
{
	struct strbuf *name = &c->name;

	strbuf_clear(name);
	if (c->view.gpu_process != NO_PROCESS)
		strbuf_addf(name, "GPU %u %s", gpu, c->view.processes[c->view.gpu_process].name);
	else
		strbuf_addf(name, "GPU %u (%s)", gpu, c->view.gpus.items[gpu].name);
	chrome_metadata(c, "process_name", "name", gpu, 0, strbuf_text(name), name->length, 0);
	strbuf_clear(name);
	strbuf_addf(name, "GPU %u", gpu);
	chrome_metadata(c, "process_labels", "labels", gpu, 0, strbuf_text(name), name->length, 0);
	chrome_metadata(c, "process_sort_index", "sort_index", gpu, 0, NULL, 0, 5000000 + gpu);
}

static void write_process_names(struct chrome *c)
{
	for (size_t i = 0; i < c->view.process_count; i++) {
		const struct export_process *p = &c->view.processes[i];
		const struct trace_process *own = trace_process(c->view.trace, i);
		const char *name = p->pid != own->pid ? p->title : p->label;
		uint32_t order = own->rank != TRACE_NO_RANK ? own->rank : p->pid;

		if (p->owner != i)
			continue;
		chrome_metadata(c, "process_name", "name", p->pid, 0, name, strlen(name), 0);
		chrome_metadata(c, "process_labels", "labels", p->pid, 0, "CPU", 3, 0);
		chrome_metadata(c, "process_sort_index", "sort_index", p->pid, 0, NULL, 0, order);
	}
	for (uint32_t gpu = 0; gpu < c->view.gpus.count; gpu++)
		write_gpu_name(c, gpu);
	if (trace_rows(c->view.trace, TABLE_overhead)) {
		chrome_metadata(c, "process_name", "name", OVERHEAD_PID, 0, "CUPTI Overhead", 14,
				0);
		chrome_metadata(c, "process_sort_index", "sort_index", OVERHEAD_PID, 0, NULL, 0,
				OVERHEAD_PID);
	}
}

/* Readers treat a reference to the first event as "none", so nothing refers to this one. */
static void write_beginning(struct chrome *c)
{
	struct strbuf *s = &c->out;
	uint64_t base = (uint64_t)trace_unix_ns(c->view.trace, c->base_ns);

	strbuf_adds(s, "{\n\"schemaVersion\": 1,\n\"deviceProperties\": ");
	write_devices(c);
	write_metadata_keys(c);
	strbuf_addf(s, ",\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": %llu,\n",
		    (unsigned long long)base);
	strbuf_adds(
		s, "\"traceEvents\": [\n{\"ph\": \"M\", \"name\": \"process_sort_index\", \"pid\": "
		   "\"Spans\", \"tid\": 0, \"ts\": 0.000, \"args\": {\"sort_index\": 536870912}}");
	raw_reserve(s, 0);
	write_process_names(c);
	TEXT(s, ",\n{\"ph\": \"i\", \"s\": \"g\", \"name\": \"Iteration Start: Pitot\", "
		"\"pid\": \"Traces\", \"tid\": \"Trace Pitot\", \"ts\": 0.000}");
}

static void write_end(struct chrome *c, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct strbuf *s = &c->out;

	TEXT(s,
	     ",\n{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"Pitot (0)\", \"pid\": \"Spans\", "
	     "\"tid\": \"Pitot\", \"ts\": 0.000, \"dur\": ");
	text_time(c, s, c->end_ns);
	TEXT(s, ", \"args\": {\"Op count\": 0}},\n{\"ph\": \"i\", \"s\": \"g\", \"name\": "
		"\"Record Window End\", \"pid\": \"\", \"tid\": \"\", \"ts\": ");
	text_time(c, s, c->end_ns);
	TEXT(s, "}\n]");
	if (c->stacks.tree.length) {
		TEXT(s, ",\n\"stackFrames\":{");
		raw_reserve(s, c->stacks.tree.length);
		raw_add(s, c->stacks.tree.data, c->stacks.tree.length);
		TEXT(s, "\n}");
	}
	TEXT(s, ",\n\"traceName\": ");
	text_string(s, name, strlen(name));
	TEXT(s, "\n}\n");
}

/* Passes the text to the file. Returns 0 or a negative code. */
static int flush(struct chrome *c, struct output *output, struct error *e)
{
	if (c->out.failed || c->name.failed || c->view.scope_text.failed)
		return error_set(e, -ENOMEM, "out of memory");
	output_move(output, &c->out);
	if (!raw_init(&c->out))
		return error_set(e, -ENOMEM, "out of memory");
	return output_failed(output) ? -EIO : 0; /* output_commit reports the cause */
}

static int write_events(struct chrome *c, struct output *output, struct error *e)
{
	struct export_event event;
	int r;

	while ((r = export_merge_next(&c->merge, &event)) > 0) {
		if (event.kind != EVENT_LOSS)
			c->end_ns = MAX(c->end_ns, event.end_ns);
		if (chrome_event(c, &event) < 0)
			return error_set(e, -ENOMEM, "out of memory");
		if (c->out.length >= OUTPUT_PIECE_BYTES && (r = flush(c, output, e)) < 0)
			return r;
	}
	return export_merge_end(&c->merge, r, e);
}

static int write_all(struct chrome *c, struct output *output, const char *path, struct error *e)
{
	int r;

	if (!raw_init(&c->out) || !raw_init(&c->class_text) ||
	    event_records_init(&c->records, &c->view) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	trace_span(c->view.trace, &c->base_ns, &c->end_ns);
	r = chrome_stacks_init(c, e);
	if (r < 0)
		return r;
	write_beginning(c);
	r = write_events(c, output, e);
	if (r < 0)
		return r;
	write_end(c, path);
	return flush(c, output, e);
}

static void release(struct chrome *c)
{
	export_merge_release(&c->merge);
	chrome_tracks_release(c);
	event_records_release(&c->records);
	chrome_stacks_release(&c->stacks);
	map_release(&c->class_index);
	vec_release(&c->classes);
	strbuf_release(&c->out);
	strbuf_release(&c->class_text);
	strbuf_release(&c->name);
	export_view_release(&c->view);
}

int chrome_json_write(struct trace *t, const struct export_options *options, const char *path,
		      struct export_result *result, struct error *e)
{
	struct chrome c = { 0 };
	struct output *output = output_open(path, options->overwrite, e);
	int r;

	*result = (struct export_result){ 0 };
	if (!output)
		return e && e->code ? e->code : -EIO;
	r = export_view_init(&c.view, t, options, result, true, e);
	if (r >= 0)
		r = export_merge_init(&c.merge, &c.view, e);
	if (r >= 0)
		r = write_all(&c, output, path, e);
	if (r >= 0 || output_failed(output)) {
		result->files = 1;
		r = output_commit(&output, &result->bytes, e);
	}
	output_abort(&output);
	release(&c);
	return r;
}
