/*
 * gpufl_export.c: writes a recording as gpufl's logs. Each process is a session. Its rows are
 * appended, in order of time and after the definitions that they refer to, to the recorder's own
 * sink (gpufl/gpufl_sink.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "export/export_merge.h"
#include "export/export_stacks.h"
#include "export/row_feed.h"
#include "format/writer.h"
#include "gpufl/gpufl_folder.h"
#include "gpufl/gpufl_sink.h"

#define STACK_TEXT_MAX ((size_t)16 << 10)
#define BACKGROUND_ROWS 100000 /* more kernels than this justify a compression thread */

/* Tables appended once per process, at its beginning. */
static const enum table_id definitions[] = { TABLE_process,     TABLE_device,
					     TABLE_nvtx_domain, TABLE_api_function,
					     TABLE_counter,     TABLE_external_correlation,
					     TABLE_metric,      TABLE_thread };
/* Tables that are not events of export_merge; their rows are merged in by time. */
static const enum table_id timed[] = { TABLE_clock,      TABLE_capability, TABLE_nvtx,
				       TABLE_pc_reading, TABLE_sass_value, TABLE_range_value };

static const enum table_id events[] = {
	TABLE_kernel,        TABLE_memcpy,          TABLE_memset,      TABLE_graph_launch,
	TABLE_api_call,      TABLE_synchronization, TABLE_allocation,  TABLE_counter_sample,
	TABLE_kernel_config, TABLE_pc_sample,       TABLE_metric_value
};

struct session {
	struct exporter_state *owner;
	size_t process;
	struct sink *sink; /* NULL: no event yet, or closed */
	bool opened; /* its directory exists */
	char id[GPUFL_ID_BYTES];
	struct row_feed feed;
	uint64_t next[ARRAY_SIZE(timed)]; /* per table of `timed`: next row */
	struct map samples; /* id of a pc_reading -> its first row of pc_sample */
};

struct exporter_state {
	struct export_view view;
	struct export_merge merge;
	struct export_stacks stacks;
	bool with_stacks;
	const char *path;
	struct error *error;
	struct session *sessions; /* one per process */
	VEC(uint32_t) losses; /* indexes into the merge's losses */
};

/* ---- rows ---- */

/* Unlike other capabilities the name is needed before the first line. */
static void append_name(struct session *s)
{
	struct trace *t = s->owner->view.trace;
	struct row_walk w = process_rows(t, TABLE_capability, s->process);

	while (row_walk_next(&w))
		if (capability_columns(t)->name[w.row] == feature_app_name)
			row_feed_append(&s->feed, TABLE_capability, w.row);
}

/* Whether an engine's row passes the filters. Such rows have no launch, and so no scope. */
static bool is_function_wanted(const struct exporter_state *x, uint32_t name)
{
	const struct filter *f = &x->view.selection.filter;

	return !f->scope &&
	       (!f->kernel || kernel_name_matches(f->kernel, trace_string(x->view.trace, name)));
}

static void append_engine_row(struct session *s, enum table_id table, uint64_t row,
			      uint32_t function)
{
	if (!is_function_wanted(s->owner, function))
		return;
	row_feed_append(&s->feed, table, row);
	s->owner->view.result->written[table]++;
}

/* Measured ranges have neither a kernel nor the scopes around them. */
static void append_range(struct session *s, uint64_t row)
{
	const struct filter *f = &s->owner->view.selection.filter;

	if (f->scope || f->kernel)
		return;
	row_feed_append(&s->feed, TABLE_range_value, row);
	s->owner->view.result->written[TABLE_range_value]++;
}

/* Appends a reading and then its samples. */
static void append_reading(struct session *s, uint64_t reading)
{
	const struct trace *t = s->owner->view.trace;
	uint64_t id = pc_reading_columns(t)->id[reading], row;

	row_feed_append(&s->feed, TABLE_pc_reading, reading);
	if (!map_get(&s->samples, id, &row))
		return;
	for (; row < trace_first_row(t, TABLE_pc_sample, s->process + 1) &&
	       pc_sample_columns(t)->reading[row] == id;
	     row++)
		append_engine_row(s, TABLE_pc_sample, row, pc_sample_columns(t)->function[row]);
}

static void append_timed_row(struct session *s, enum table_id table, uint64_t row)
{
	if (table == TABLE_pc_reading)
		append_reading(s, row);
	else if (table == TABLE_sass_value)
		append_engine_row(s, table, row,
				  sass_value_columns(s->owner->view.trace)->function[row]);
	else if (table == TABLE_range_value)
		append_range(s, row);
	else
		row_feed_append(&s->feed, table, row);
}

/* Appends rows of the timed tables up to a time; events only if they are in the window. */
static void append_timed(struct session *s, uint64_t until_ns)
{
	const struct export_view *v = &s->owner->view;

	for (size_t i = 0; i < ARRAY_SIZE(timed); i++) {
		const uint64_t *time_ns =
			trace_u64(v->trace, timed[i], schema_table(timed[i])->time_column);
		uint64_t end = trace_first_row(v->trace, timed[i], s->process + 1);

		for (; s->next[i] < end && time_ns[s->next[i]] <= until_ns; s->next[i]++)
			if (timed[i] == TABLE_clock || timed[i] == TABLE_capability ||
			    selection_has_time(&v->selection, true, time_ns[s->next[i]]))
				append_timed_row(s, timed[i], s->next[i]);
	}
}

/* ---- sessions ---- */

static void stack_text(void *user, uint32_t id, struct strbuf *out)
{
	struct session *s = user;
	struct export_stacks *x = &s->owner->stacks;

	if (export_stacks_find(x, s->process, id, true) < 0)
		return;
	for (size_t i = 0; i < x->frames.count && out->length < STACK_TEXT_MAX; i++) {
		uint32_t frame = x->frames.data[i];

		for (size_t line = MAX(x->stacks.frames.data[frame].line_count, 1); line-- > 0;) {
			strbuf_adds(out, out->length ? "|" : "");
			strbuf_adds(out, export_frame_name(x, frame, line));
		}
	}
}

static int find_samples(struct session *s)
{
	const struct trace *t = s->owner->view.trace;
	const uint64_t *reading = pc_sample_columns(t)->reading;
	uint64_t first = trace_first_row(t, TABLE_pc_sample, s->process);
	int err = 0;

	for (uint64_t row = trace_first_row(t, TABLE_pc_sample, s->process + 1);
	     row-- > first && err >= 0;)
		if (row == first || reading[row - 1] != reading[row])
			err = map_put(&s->samples, reading[row], row);
	return MIN(err, 0);
}

static int open_sink(struct session *s)
{
	struct exporter_state *x = s->owner;
	struct trace *t = x->view.trace;
	const struct trace_process *p = trace_process(t, s->process);
	uint64_t first = trace_first_row(t, TABLE_synchronization, s->process);
	struct gpufl_options o = {
		.files = { .log_path = x->path,
			   .session = s->id,
			   .max_bytes = UINT64_MAX,
			   .background = trace_rows(t, TABLE_kernel) > BACKGROUND_ROWS },
		.shown_path = x->view.options->shown_path,
		.epoch_offset_ns = trace_unix_ns(t, p->start_ns) - (int64_t)p->start_ns,
		.compact = x->view.options->compact,
		.blocking_calls =
			first == trace_first_row(t, TABLE_synchronization, s->process + 1),
		.calls_max = SIZE_MAX,
		.user = s,
		.stack = x->with_stacks ? stack_text : NULL,
	};
	int r;

	gpufl_id_from(s->id, p->session ^ x->view.options->session_salt);
	if (find_samples(s) < 0)
		return error_set(x->error, -ENOMEM, "out of memory");
	if (x->view.options->overwrite)
		gpufl_folder_remove_session(x->path, s->id);
	r = gpufl_sink_new(&o, &s->sink, x->error);
	if (r == -EEXIST)
		return error_set(x->error, r,
				 "'%s/%s' exists: choose another folder with -o, or replace it "
				 "with --force",
				 x->path, s->id);
	if (r < 0)
		return r;
	s->opened = true;
	if (row_feed_init(&s->feed, x->view.trace, s->sink) < 0)
		return error_set(x->error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(timed); i++)
		s->next[i] = trace_first_row(t, timed[i], s->process);
	for (size_t i = 0; i < ARRAY_SIZE(definitions); i++)
		row_feed_table(&s->feed, definitions[i], s->process);
	append_name(s);
	return 0;
}

static int count_files(const struct session *s, struct export_result *result)
{
	_cleanup_close_ int folder = folder_open(s->owner->path, FOLDER_ANY),
			    session = folder_enter(folder, s->id, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder_list(session);
	const char *name;
	struct stat st;

	while ((name = folder_next(list))) {
		if (name[0] == '.' || folder_stat(session, name, &st) < 0)
			continue;
		result->files++;
		result->bytes += (uint64_t)st.st_size;
	}
	return list ? 0 : -1;
}

static int close_sink(struct session *s, struct export_result *result)
{
	struct writer_stats stats = { 0 };
	int r;

	append_timed(s, UINT64_MAX);
	s->sink->ops->seal(s->sink);
	s->sink->ops->stats(s->sink, &stats);
	r = s->sink->ops->close(s->sink);
	s->sink = NULL;
	if (r < 0)
		return error_errno(s->owner->error, -r, "cannot write to '%s'", s->owner->path);
	if (stats.lost_rows)
		return error_set(s->owner->error, -ENOMEM, "out of memory");
	count_files(s, result);
	return 0;
}

/* ---- events ---- */

/* Appends the hardware counters of a kernel, if it was measured. */
static void append_counters(struct session *s, uint64_t kernel)
{
	const struct trace *t = s->owner->view.trace;
	uint64_t row = 0;
	unsigned rows = metric_values_take(&s->owner->view.metrics, s->process,
					   kernel_columns(t)->correlation[kernel], &row);

	for (; rows; rows--, row++)
		row_feed_append(&s->feed, TABLE_metric_value, row);
}

/* Appends the event's row to the session of its process. */
static int append_event(struct exporter_state *x, const struct export_event *event)
{
	struct session *s = &x->sessions[event->process];
	int r = s->sink ? 0 : open_sink(s);

	if (r < 0)
		return r;
	append_timed(s, event->start_ns);
	if (event->kind == EVENT_KERNEL)
		append_counters(s, event->row);
	if (event->kind != EVENT_NVTX)
		row_feed_append(&s->feed, event_table(event->kind), event->row);
	return 0;
}

static bool is_range_written(struct exporter_state *x, const struct export_event *event)
{
	struct export_range range;
	const char *name;

	if (nvtx_columns(x->view.trace)->kind[event->row] != nvtx_kind_mark)
		return event->finished;
	return export_range(&x->view, event->process, event->row, &range) &&
	       gpufl_mark_type(trace_string(x->view.trace, range.text), &name);
}

/* Whether the format has a record for the event. */
static bool is_written(struct exporter_state *x, const struct export_event *event)
{
	return event->kind == EVENT_NVTX ? is_range_written(x, event) : event->kind != EVENT_CALL;
}

/* Losses of a process without a session, or of none, go to the first session. */
static void append_losses(struct exporter_state *x)
{
	size_t count = x->view.process_count, first = 0;

	while (first < count && !x->sessions[first].sink)
		first++;
	for (size_t i = 0; i < x->losses.count && first < count; i++) {
		const struct trace_loss *l = &x->merge.losses[x->losses.data[i]];
		bool has_session = l->process < count && x->sessions[l->process].sink;
		struct row_feed *feed = &x->sessions[has_session ? l->process : first].feed;
		struct row_loss row = { .reason = (uint8_t)l->reason,
					.count = l->count,
					.start_ns = l->start_ns,
					.end_ns = l->end_ns,
					.detail = row_feed_text(feed, 0, l->detail) };

		feed->sink->ops->append(feed->sink, TABLE_loss, &row);
		x->view.result->written[TABLE_loss]++;
	}
}

static int write_events(struct exporter_state *x)
{
	static const bool kinds[EVENT_KINDS] = {
		[EVENT_NVTX] = true,       [EVENT_CALL] = true,
		[EVENT_ALLOCATION] = true, [EVENT_SYNC] = true,
		[EVENT_COUNTER] = true,    [EVENT_WORK... EVENT_CUDA_EVENT - 1] = true
	};
	struct export_result *result = x->view.result;
	struct export_event event;
	int r;

	while ((r = export_merge_next(&x->merge, &event)) > 0) {
		if (event.kind == EVENT_LOSS && vec_push(&x->losses, (uint32_t)event.row) < 0)
			return error_set(x->error, -ENOMEM, "out of memory");
		if (!kinds[event.kind])
			continue;
		r = append_event(x, &event);
		if (r < 0)
			return r;
		result->written[event_table(event.kind)] += is_written(x, &event);
	}
	if (r == 0)
		append_losses(x);
	return export_merge_end(&x->merge, r, x->error);
}

/* ---- all ---- */

static int load(struct exporter_state *x, struct trace *t)
{
	static const enum table_id *const lists[] = { definitions, timed, events };
	static const size_t counts[] = { ARRAY_SIZE(definitions), ARRAY_SIZE(timed),
					 ARRAY_SIZE(events) };
	int r = 0;

	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		for (size_t i = 0; i < counts[l] && r >= 0; i++)
			r = trace_load(t, lists[l][i], 0, x->error);
	return r;
}

static int init(struct exporter_state *x, struct trace *t, const struct export_options *options,
		struct export_result *result)
{
	int r = load(x, t);

	if (r >= 0)
		r = export_view_init(&x->view, t, options, result, false, x->error);
	if (r >= 0)
		r = export_merge_init(&x->merge, &x->view, x->error);
	if (r < 0)
		return r;
	x->with_stacks = x->view.with_stacks;
	if (x->with_stacks)
		r = export_stacks_init(&x->stacks, t, x->error);
	x->sessions = calloc(x->view.process_count + 1, sizeof(*x->sessions));
	if (!x->sessions)
		return error_set(x->error, -ENOMEM, "out of memory");
	for (size_t p = 0; p < x->view.process_count; p++)
		x->sessions[p] = (struct session){ .owner = x, .process = p };
	return r;
}

/* Closes all sessions. After an error, removes everything written for them. */
static int close_sessions(struct exporter_state *x, int r, bool created)
{
	size_t count = x->sessions ? x->view.process_count : 0;

	for (size_t p = 0; p < count && r >= 0; p++)
		if (x->sessions[p].sink)
			r = close_sink(&x->sessions[p], x->view.result);
	for (size_t p = 0; p < count && r < 0; p++) {
		struct session *s = &x->sessions[p];

		if (s->sink)
			s->sink->ops->abandon(s->sink);
		if (s->opened)
			gpufl_folder_remove_session(x->path, s->id);
	}
	for (size_t p = 0; p < count; p++) {
		row_feed_release(&x->sessions[p].feed);
		map_release(&x->sessions[p].samples);
	}
	if (r < 0 && created)
		rmdir(x->path);
	return r;
}

int gpufl_write(struct trace *t, const struct export_options *options, const char *path,
		struct export_result *result, struct error *e)
{
	struct error none = { 0 };
	struct exporter_state x = { .path = path, .error = e ? e : &none };
	bool created = access(path, F_OK) < 0;
	int r;

	*result = (struct export_result){ 0 };
	r = init(&x, t, options, result);
	if (r >= 0)
		r = write_events(&x);
	r = close_sessions(&x, r, created);
	free(x.sessions);
	vec_release(&x.losses);
	export_merge_release(&x.merge);
	export_stacks_release(&x.stacks);
	export_view_release(&x.view);
	return r;
}
