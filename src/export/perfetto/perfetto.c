/*
 * perfetto.c: the files of a Perfetto trace. Events of all processes are written in order of time.
 * When a file reaches its limit, the next file begins with all descriptions and names written
 * again, so that each file can be opened alone. The files get their names at the end.
 */
#include <errno.h>

#include "base/output.h"
#include "export/perfetto/perfetto_rows.h"
#include "format/writer.h"

/*
 * Readers store lengths in 31 bits. The data that may follow after the limit (ends of slices, one
 * large packet) takes less than the rest.
 */
#define SPLIT_BYTES (UINT64_C(2040) << 20)
#define SPLIT_BYTES_MIN (UINT64_C(4) << 10)
#define PARTS_MAX 1000

struct parts {
	const char *path;
	bool overwrite;
	VEC(struct output *) outputs;
	uint64_t limit;
};

/* Appends the path of a part, such as "x-2.perfetto-trace" for the second. */
static void part_path(const char *path, size_t number, struct strbuf *out)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strchr(name[0] == '.' ? name + 1 : name, '.');

	if (number == 1) {
		strbuf_adds(out, path);
		return;
	}
	if (exporter_by_path(path)) { /* other dots may precede the suffix */
		dot = strrchr(name, '.');
		if (!strcmp(dot, ".gz"))
			do
				dot--;
			while (*dot != '.');
	}
	if (!dot)
		dot = name + strlen(name);
	strbuf_add(out, path, (size_t)(dot - path));
	strbuf_addf(out, "-%zu%s", number, dot);
}

static struct output *part(const struct parts *parts)
{
	return parts->outputs.data[parts->outputs.count - 1];
}

static int open_part(struct parts *parts, struct error *e)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct output *output;

	if (parts->outputs.count == PARTS_MAX)
		return error_set(e, E_LIMIT, "more than %d files; use a larger --split-size",
				 PARTS_MAX);
	part_path(parts->path, parts->outputs.count + 1, &path);
	if (path.failed || vec_reserve(&parts->outputs, 1) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	output = output_open(strbuf_text(&path), parts->overwrite, e);
	if (!output)
		return e && e->code ? e->code : -EIO;
	parts->outputs.data[parts->outputs.count++] = output;
	return 0;
}

/* Commits the last part first, so that the requested name appears when all parts exist. */
static int commit_parts(struct parts *parts, struct export_result *result, struct error *e)
{
	int r = 0;

	for (size_t i = parts->outputs.count; i-- > 0 && r >= 0;) {
		uint64_t bytes = 0;

		r = output_commit(&parts->outputs.data[i], &bytes, e);
		result->bytes += bytes;
		result->files++;
	}
	return r;
}

/* Returns the error of an output that failed, which is the cause of r, or else r. */
static int find_failure(struct parts *parts, int r, struct error *e)
{
	for (size_t i = 0; i < parts->outputs.count; i++)
		if (output_failed(parts->outputs.data[i]))
			return output_commit(&parts->outputs.data[i], NULL, e);
	return r;
}

static void release_parts(struct parts *parts)
{
	for (size_t i = 0; i < parts->outputs.count; i++)
		output_abort(&parts->outputs.data[i]);
	vec_release(&parts->outputs);
}

/* Returns the process with most clock readings; all processes ran on one machine. */
static size_t clock_process(const struct trace *t)
{
	uint64_t most = 0;
	size_t found = 0;

	for (size_t p = 0; p < trace_process_count(t); p++) {
		uint64_t rows =
			trace_first_row(t, TABLE_clock, p + 1) - trace_first_row(t, TABLE_clock, p);

		if (rows > most) {
			most = rows;
			found = p;
		}
	}
	return found;
}

/* Writes a clock snapshot at the beginning, and one after each suspension of the machine. */
static void write_clocks(struct perfetto *p)
{
	const struct trace *t = p->view.trace;
	const struct clock_columns *c = clock_columns(t);
	struct row_walk w = process_rows(t, TABLE_clock, clock_process(t));
	int64_t last = INT64_MIN;

	while (trace_rows(t, TABLE_clock) && row_walk_next(&w)) {
		struct perfetto_clocks clocks = {
			c->monotonic_ns[w.row],
			c->realtime_ns[w.row],
			c->boottime_ns[w.row],
		};
		int64_t asleep = (int64_t)(clocks.boottime_ns - clocks.monotonic_ns);

		if (last != INT64_MIN && (int64_t)((uint64_t)asleep - (uint64_t)last) < 10000000)
			continue;
		last = asleep;
		perfetto_clock_snapshot(&p->out, PERFETTO_SEQUENCE, &clocks);
	}
	if (last == INT64_MIN) {
		struct perfetto_clocks clocks = { .monotonic_ns = p->time_ns };

		clocks.realtime_ns = (uint64_t)trace_unix_ns(t, p->time_ns);
		perfetto_clock_snapshot(&p->out, PERFETTO_SEQUENCE, &clocks);
	}
}

static void begin_part(struct perfetto *p)
{
	write_clocks(p);
	perfetto_describe_gpus(p);
	perfetto_slices_restart(&p->path);
	for (size_t i = 0; i < p->view.process_count; i++)
		if (p->feeds[i].sink)
			perfetto_sink_begin(p->feeds[i].sink, p->time_ns);
}

/* Passes packets to the file. Returns 0 or a negative code. */
static int flush(struct perfetto *p, struct parts *parts, struct error *e)
{
	if (p->out.failed || p->view.scope_text.failed)
		return error_set(e, -ENOMEM, "out of memory");
	output_move(part(parts), &p->out);
	if (!raw_init(&p->out))
		return error_set(e, -ENOMEM, "out of memory");
	return output_failed(part(parts)) ? -EIO : 0; /* find_failure reports the cause */
}

static int end_part(struct perfetto *p, struct parts *parts, struct error *e)
{
	struct writer_stats stats = { 0 };

	for (size_t i = 0; i < p->view.process_count; i++) {
		if (!p->feeds[i].sink)
			continue;
		perfetto_sink_end(p->feeds[i].sink, p->time_ns);
		p->feeds[i].sink->ops->stats(p->feeds[i].sink, &stats);
	}
	if (stats.lost_rows)
		return error_set(e, -ENOMEM, "out of memory");
	return flush(p, parts, e);
}

static export_writer *const writers[EVENT_KINDS] = {
	[EVENT_LOSS] = perfetto_loss,
	[EVENT_PATH] = perfetto_path,
	[EVENT_RANGE_VALUES] = perfetto_range_values,
	[EVENT_NVTX] = perfetto_nvtx,
	[EVENT_CALL] = perfetto_call,
	[EVENT_OVERHEAD] = perfetto_overhead,
	[EVENT_ALLOCATION] = perfetto_allocation,
	[EVENT_SYNC] = perfetto_sync,
	[EVENT_GPU_RANGE] = perfetto_gpu_range,
	[EVENT_WORK... EVENT_CUDA_EVENT - 1] = perfetto_gpu_work,
	[EVENT_CUDA_EVENT] = perfetto_cuda_event,
	[EVENT_COUNTER] = perfetto_counter_sample,
	[EVENT_CPU_SAMPLE] = perfetto_sample,
	[EVENT_OFF_CPU] = perfetto_sample,
};

static int write_events(struct perfetto *p, struct parts *parts, struct error *e)
{
	struct export_event event;
	int r;

	while ((r = export_merge_next(&p->merge, &event)) > 0) {
		if (output_bytes(part(parts)) + p->out.length >= parts->limit) {
			r = end_part(p, parts, e);
			if (r >= 0)
				r = open_part(parts, e);
			if (r < 0)
				return r;
			p->time_ns = event.start_ns;
			begin_part(p);
		}
		p->time_ns = event.start_ns;
		if (export_event_write(&p->view, writers, p, &event) < 0)
			return error_set(e, -ENOMEM, "out of memory");
		if (p->out.length >= OUTPUT_PIECE_BYTES && (r = flush(p, parts, e)) < 0)
			return r;
	}
	return export_merge_end(&p->merge, r, e);
}

static int write_all(struct perfetto *p, struct parts *parts, struct error *e)
{
	uint64_t end_ns;
	int r;

	if (!raw_init(&p->out) || perfetto_feeds_init(p) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	trace_span(p->view.trace, &p->time_ns, &end_ns);
	begin_part(p);
	r = write_events(p, parts, e);
	p->time_ns = MAX(p->time_ns, MIN(end_ns, p->view.options->until_ns));
	return r < 0 ? r : end_part(p, parts, e);
}

int perfetto_write(struct trace *t, const struct export_options *options, const char *path,
		   struct export_result *result, struct error *e)
{
	struct perfetto p = { 0 };
	struct parts parts = { .path = path,
			       .overwrite = options->overwrite,
			       .limit = SPLIT_BYTES };
	int r;

	*result = (struct export_result){ 0 };
	if (options->split_bytes)
		parts.limit = MAX(options->split_bytes, SPLIT_BYTES_MIN);
	if (!strcmp(path, "-"))
		parts.limit = UINT64_MAX;
	r = open_part(&parts, e);
	if (r >= 0)
		r = collective_links_init(&p.links, t, e);
	if (r >= 0)
		r = trace_load(t, TABLE_device, 0, e);
	if (r >= 0)
		r = export_view_init(&p.view, t, options, result, false, e);
	if (r >= 0)
		r = export_view_load_samples(&p.view, e);
	if (r >= 0 && !options->no_stacks)
		r = export_stacks_init(&p.stacks, t, e);
	if (r >= 0)
		r = export_merge_init(&p.merge, &p.view, e);
	if (r >= 0 && perfetto_path_init(&p) < 0)
		r = error_set(e, -ENOMEM, "out of memory");
	if (r >= 0)
		r = write_all(&p, &parts, e);
	r = find_failure(&parts, r, e);
	if (r >= 0)
		r = commit_parts(&parts, result, e);
	release_parts(&parts);
	export_merge_release(&p.merge);
	perfetto_path_release(&p);
	perfetto_feeds_release(&p);
	export_stacks_release(&p.stacks);
	collective_links_release(&p.links);
	strbuf_release(&p.out);
	export_view_release(&p.view);
	return r;
}
