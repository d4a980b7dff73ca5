/*
 * timeline_page.c: the timeline as a self-contained page drawn by timeline_*.js (format:
 * timeline.h). This file writes everything around the events.
 */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "analysis/capabilities.h"
#include "analysis/cost.h"
#include "analysis/main_process.h"
#include "base/html.h"
#include "base/output.h"
#include "export/page/timeline.h"
#include "system/metrics.h"
#include "system/throttle.h"
#include "trace/columns.h"

/* --- properties of all slices: JSON --- */

static void add_notes(struct timeline *t, struct json *j)
{
	const struct export_options *options = t->view.options;
	const char *const words[][2] = { { "kernels like ", options->kernel },
					 { "inside scopes like ", options->scope } };

	json_key_array(j, "notes");
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!words[i][1])
			continue;
		strbuf_clear(&t->name);
		strbuf_addf(&t->name, "%s'%s'", words[i][0], words[i][1]);
		json_string(j, strbuf_text(&t->name));
	}
	json_end(j);
}

/* A page without the effect of its losses shows them as unsafe. */
static void add_losses(const struct timeline *t, struct json *j)
{
	const struct export_view *v = &t->view;
	const struct trace_loss *losses;
	struct cost cost;
	size_t count;

	if (cost_analyze(v->trace, &cost, NULL) >= 0) {
		json_key_string(j, "loss_effect", loss_effect_name(cost.effect));
		cost_release(&cost);
	}
	json_key_array(j, "loss");
	if (trace_losses(v->trace, &losses, &count, NULL) < 0)
		count = 0; /* export_merge_init has already loaded them successfully */
	for (size_t i = 0; i < count; i++) {
		const struct trace_loss *loss = &losses[i];

		json_array(j);
		json_string(j, loss->process < v->process_count
				       ? v->processes[v->processes[loss->process].owner].title
				       : "");
		json_string(j, loss_name(loss->reason));
		json_u64(j, loss->count);
		json_string(j, loss->detail);
		json_string(j, loss_text(loss->reason, loss->count));
		json_end(j);
	}
	json_end(j);
}

static void add_kinds(struct json *j)
{
	json_key_array(j, "kinds");
	for (int kind = 0; kind < EVENT_KINDS; kind++)
		json_string(j, kind == EVENT_GPU_RANGE ? "gpu_range"
			       : kind == EVENT_PATH
				       ? "critical_path"
				       : schema_table(event_table((enum event_kind)kind))->name);
	json_end(j);
}

static void add_group(struct json *j, const char *name, const char *detail)
{
	json_array(j);
	json_string(j, name);
	json_string(j, detail);
	json_end(j);
}

/* GPUs, then processes. Their titles have the real ids: a page needs no unique ones. */
static void add_groups(struct timeline *t, struct json *j)
{
	const struct export_view *v = &t->view;

	json_key_array(j, "groups");
	for (size_t i = 0; i < v->gpus.count; i++) {
		strbuf_clear(&t->name);
		strbuf_addf(&t->name, "GPU %zu", i);
		add_group(j, strbuf_text(&t->name), v->gpus.items[i].name);
	}
	for (size_t i = 0; i < v->process_count; i++)
		add_group(j, v->processes[i].title, trace_process(v->trace, i)->command);
	json_end(j);
}

static void add_counter(const struct timeline *t, const struct timeline_track *track,
			struct json *j)
{
	const struct trace *trace = t->view.trace;
	const struct counter_columns *c = counter_columns(trace);
	uint32_t row = track->context;
	uint8_t kind = column_has(c->valid.kind, row) ? c->kind[row] : counter_kind_level;
	uint32_t metric = metric_by_name(trace_string(trace, c->name[row]));
	enum metric_subject subject = metric ? metric_find(metric)->subject : METRIC_CUSTOM;
	const char *state;
	const char *word =
		schema_value_name(&schema_table(TABLE_counter)->columns[COLUMN_counter_kind], kind);

	json_object(j);
	json_key_string(j, "unit", trace_string(trace, c->unit[row]));
	json_key_string(j, "meaning", trace_string(trace, c->description[row]));
	json_key_string(j, "kind", word ? word : "level");
	json_key_u64(j, "order", (uint64_t)subject << 32 | (metric ? metric : row));
	if (metric == METRIC_gpu_throttle_reasons) {
		json_key_array(j, "states");
		for (unsigned bit = 0; (state = throttle_reason(bit)); bit++)
			json_string(j, state);
		json_end(j);
	}
	json_end(j);
}

static void add_level(struct json *j)
{
	json_object(j);
	json_key_string(j, "unit", "bytes");
	json_key_string(j, "meaning", "recorded memory that is live");
	json_key_string(j, "kind", "level");
	json_key_u64(j, "order", (uint64_t)METRIC_MEMORY << 32);
	json_end(j);
}

static void add_track(struct timeline *t, const struct timeline_track *track, struct json *j)
{
	strbuf_clear(&t->name);
	timeline_track_name(t, track, &t->name);
	json_array(j);
	json_u64(j, track->group);
	json_string(j, timeline_track_word(track->kind));
	json_bytes(j, strbuf_text(&t->name), t->name.length);
	json_u64(j, track->id);
	json_array(j);
	for (size_t i = 0; i < track->rows.count; i++) {
		const struct timeline_row *row = &track->rows.data[i];

		json_array(j);
		json_u64(j, row->lane);
		json_u64(j, row->depth);
		json_u64(j, row->count);
		for (size_t c = 0; c < ROW_COLUMNS; c++)
			json_u64(j, row->columns[c].length);
		json_end(j);
	}
	json_end(j);
	if (track->kind == TIMELINE_LEVEL)
		add_level(j);
	if (track->kind == TIMELINE_COUNTER)
		add_counter(t, track, j);
	json_end(j);
}

static void add_tracks(struct timeline *t, struct json *j)
{
	json_key_array(j, "tracks");
	for (size_t i = 0; i < t->tracks.items.count; i++)
		add_track(t, (const struct timeline_track *)t->tracks.items.data[i], j);
	json_end(j);
}

/* The object is written in pieces, so struct json does not see it whole; the items are JSON. */
static void add_items(struct strbuf *out, const char *key, const struct interner *items)
{
	strbuf_addf(out, ",\n\"%s\": [", key);
	for (size_t i = 0; i < items->count; i++) {
		strbuf_adds(out, i ? ",\n" : "\n");
		strbuf_add(out, items->items[i].text, items->items[i].length);
	}
	strbuf_addc(out, ']');
}

/* Members of a collective are next to each other. */
void timeline_add_collectives(const struct timeline *t, timeline_place *place, void *user,
			      struct json *j)
{
	const struct collective_link *links = t->links.items.data, *open = NULL;

	json_key_array(j, "collectives");
	for (size_t i = 0; i < t->links.items.count; i++) {
		const struct timeline_member *m = &t->members[i];
		uint64_t slice = !m->row ? UINT64_MAX : place ? place(user, m) : m->slice;

		if (slice == UINT64_MAX)
			continue;
		if (!open || links[i].collective != open->collective) {
			if (open)
				json_end(j);
			json_array(j);
			open = &links[i];
		}
		json_u64(j, m->track);
		json_u64(j, m->row - 1);
		json_u64(j, slice);
		json_u64(j, links[i].wait_ns);
	}
	if (open)
		json_end(j);
	json_end(j);
}

static const char *page_title(const struct timeline *t)
{
	const struct trace_process *p = main_process(t->view.trace);

	if (!p)
		return "recording";
	return *capability_app_name(t->view.trace, p) ? capability_app_name(t->view.trace, p)
						      : p->command;
}

/* The part of the recording that the options select, from the start of the page. */
static void add_window(const struct timeline *t, struct json *j)
{
	const struct export_options *options = t->view.options;
	uint64_t end_ns = MAX(t->span_end_ns, t->base_ns);
	uint64_t from_ns = MIN(MAX(options->since_ns, t->base_ns), end_ns);

	json_key_array(j, "window");
	json_u64(j, from_ns - t->base_ns);
	json_u64(j, MAX(MIN(options->until_ns, end_ns), from_ns) - t->base_ns);
	json_end(j);
}

/* What a page that has not all slices cannot count. */
static void add_counts(const struct timeline *t, struct json *j)
{
	json_key_object(j, "counts");
	for (enum table_id table = 1; table < TABLE_END; table++)
		if (t->view.result->written[table])
			json_key_u64(j, schema_table(table)->name, t->view.result->written[table]);
	json_end(j);
}

static void add_data(struct timeline *t)
{
	const struct trace *trace = t->view.trace;
	const struct trace_process *main = main_process(trace);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct json j = JSON_INIT(&text);

	json_object(&j);
	json_key_string(&j, "title", page_title(t));
	json_key_string(&j, "host", main ? main->host : "");
	json_key_i64(&j, "start_unix_ns", trace_unix_ns(trace, t->base_ns));
	json_key_u64(&j, "base_ns", t->base_ns);
	json_key_u64(&j, "duration_ns", MAX(t->end_ns, t->span_end_ns) - t->base_ns);
	add_window(t, &j);
	json_key_u64(&j, "cpu_samples", t->view.result->written[TABLE_cpu_sample]);
	add_notes(t, &j);
	add_losses(t, &j);
	add_kinds(&j);
	add_groups(t, &j);
	add_tracks(t, &j);
	if (t->is_served) {
		add_counts(t, &j);
		json_key_u64(&j, "instance", t->instance);
		add_items(&text, "classes", &(struct interner){ .count = 0 });
	} else {
		timeline_add_collectives(t, NULL, NULL, &j);
		add_items(&text, "classes", &t->classes);
	}
	add_items(&text, "nodes", &t->nodes);
	json_end(&j);
	strbuf_adds(&t->out, "<script type=\"application/json\" id=\"data\">\n");
	html_add_json(&t->out, strbuf_text(&text), text.length);
	strbuf_adds(&t->out, "\n</script>\n");
	t->out.failed |= text.failed;
}

/* --- columns: gzip as base64 --- */

/* Compresses bytes; `flush` Z_FINISH ends the stream. Returns 0 or -ENOMEM. */
static int pack(z_stream *z, struct strbuf *packed, const struct strbuf *bytes, int flush)
{
	z->next_in = (void *)(bytes ? bytes->data : NULL);
	z->avail_in = bytes ? (uInt)bytes->length : 0;
	do {
		if (!strbuf_reserve(packed, (size_t)64 << 10))
			return -ENOMEM;
		z->next_out = (void *)(packed->data + packed->length);
		z->avail_out = (uInt)(packed->capacity - packed->length - 1);
		deflate(z, flush);
		packed->length = (size_t)((char *)z->next_out - packed->data);
	} while (!z->avail_out);
	return 0;
}

static int pack_all(const struct timeline *t, z_stream *z, struct strbuf *packed)
{
	int r = 0;

	for (size_t i = 0; i < t->tracks.items.count; i++) {
		const struct timeline_track *track =
			(const struct timeline_track *)t->tracks.items.data[i];

		for (size_t k = 0; k < track->rows.count * ROW_COLUMNS && r >= 0; k++) {
			const struct strbuf *column =
				&track->rows.data[k / ROW_COLUMNS].columns[k % ROW_COLUMNS];

			if (column->failed || column->length > UINT_MAX)
				return -ENOMEM;
			if (column->length)
				r = pack(z, packed, column, Z_NO_FLUSH);
		}
	}
	return r < 0 ? r : pack(z, packed, NULL, Z_FINISH);
}

static int add_columns(struct timeline *t)
{
	_cleanup_strbuf_ struct strbuf packed = STRBUF_INIT;
	z_stream z = { 0 };
	int r;

	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return -ENOMEM;
	r = pack_all(t, &z, &packed);
	deflateEnd(&z);
	if (r < 0)
		return r;
	strbuf_adds(&t->out, "<script type=\"text/plain\" id=\"columns\">");
	strbuf_add_base64(&t->out, packed.data, packed.length);
	strbuf_adds(&t->out, "</script>\n");
	return 0;
}

/* --- the page --- */

static void add_head(struct timeline *t)
{
	const char *title = page_title(t);

	strbuf_adds(&t->out,
		    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width\">\n");
	html_add_policy(&t->out);
	strbuf_adds(&t->out, "<title>");
	html_escape(&t->out, title, strlen(title));
	strbuf_addf(&t->out, " - timeline</title>\n<style>\n%s</style>\n</head>\n", timeline_css);
	html_add_body(&t->out);
	strbuf_adds(&t->out, "<noscript>This page draws itself: it needs JavaScript.</noscript>\n");
}

static int write_events(struct timeline *t, struct error *e)
{
	struct export_event event;
	int r;

	trace_span(t->view.trace, &t->base_ns, &t->span_end_ns);
	while ((r = export_merge_next(&t->merge, &event)) > 0) {
		if (!export_result_events(t->view.result))
			t->base_ns = MIN(t->base_ns, event.start_ns);
		if (timeline_event(t, &event) < 0)
			return error_set(e, -ENOMEM, "out of memory");
	}
	r = export_merge_end(&t->merge, r, e);
	if (r >= 0 && timeline_samples_finish(t) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	return r;
}

int timeline_init(struct timeline *t, struct trace *trace, const struct export_options *options,
		  struct export_result *result, struct error *e)
{
	int r;

	interner_init(&t->classes);
	interner_init(&t->nodes);
	r = collective_links_init(&t->links, trace, e);
	if (r >= 0)
		r = export_view_init(&t->view, trace, options, result, false, e);
	if (r >= 0)
		r = export_view_load_samples(&t->view, e);
	if (r >= 0)
		r = export_merge_init(&t->merge, &t->view, e);
	if (r < 0)
		return r;
	t->members = calloc(t->links.items.count + 1, sizeof(*t->members));
	if (!t->members)
		return error_set(e, -ENOMEM, "out of memory");
	if (t->view.with_stacks || t->view.with_samples)
		r = export_stacks_init(&t->stacks, trace, e);
	return r < 0 ? r : write_events(t, e);
}

int timeline_render(struct timeline *t)
{
	int r = 0;

	add_head(t);
	add_data(t);
	if (!t->is_served)
		r = add_columns(t);
	html_add_script(&t->out, " type=\"module\"");
	strbuf_addf(&t->out, "%s%s%s%s%s%s%s</script>\n</body>\n</html>\n", page_search_js,
		    timeline_data_js, t->is_served ? timeline_served_js : timeline_whole_js,
		    timeline_draw_js, page_elements_js, timeline_panels_js, timeline_input_js);
	return r < 0 || t->out.failed || t->text.failed || t->name.failed ||
			       t->view.scope_text.failed
		       ? -ENOMEM
		       : 0;
}

void timeline_release(struct timeline *t)
{
	export_merge_release(&t->merge);
	timeline_rows_release(t);
	interner_release(&t->classes);
	interner_release(&t->nodes);
	map_release(&t->kernels);
	map_release(&t->calls);
	map_release(&t->row_nodes);
	vec_release(&t->node_list);
	vec_release(&t->climb);
	export_stacks_release(&t->stacks);
	collective_links_release(&t->links);
	free(t->members);
	strbuf_release(&t->out);
	strbuf_release(&t->text);
	strbuf_release(&t->name);
	export_view_release(&t->view);
}

int html_write(struct trace *trace, const struct export_options *options, const char *path,
	       struct export_result *result, struct error *e)
{
	struct timeline t = { 0 };
	struct output *output = output_open(path, options->overwrite, e);
	int r;

	*result = (struct export_result){ 0 };
	if (!output)
		return e && e->code ? e->code : -EIO;
	r = timeline_init(&t, trace, options, result, e);
	if (r >= 0 && timeline_render(&t) < 0)
		r = error_set(e, -ENOMEM, "out of memory");
	if (r >= 0)
		output_move(output, &t.out);
	if (r >= 0 || output_failed(output)) {
		result->files = 1;
		r = output_commit(&output, &result->bytes, e);
	}
	output_abort(&output);
	timeline_release(&t);
	return r;
}
