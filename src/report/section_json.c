/* section_json.c: renders sections as JSON. */
#include <string.h>

#include "analysis/flame/flame.h"
#include "report/section.h"
#include "trace/counter_value.h"

struct writer {
	const struct report_view *view;
	const void *result;
	struct json *json;
};

static uint64_t since_start(const struct report_view *v, uint64_t time_ns)
{
	return time_ns - MIN(time_ns, v->report->span_start_ns);
}

static void write_thread(const struct writer *w, uint32_t process, uint32_t thread)
{
	const struct report *r = w->view->report;

	json_key_u64(w->json, "pid", trace_process(r->trace, process)->pid);
	json_key_u64(w->json, "thread", thread);
	json_key_string(w->json, "thread_name", thread_name(&r->thread_names, process, thread));
}

/* "key": {…} or null. */
static void write_line(const struct writer *w, const char *key, uint32_t caller)
{
	const struct callers *all = &w->view->report->callers;
	struct json *j = w->json;
	const struct caller *c;

	json_key(j, key);
	if (caller == CALLER_NONE) {
		json_null(j);
		return;
	}
	c = caller_at(all, caller);
	json_object(j);
	json_key_string(j, "function", stacks_text(&all->stacks, c->function));
	if (c->file)
		json_key_string(j, "file", stacks_text(&all->stacks, c->file));
	if (c->file && c->line)
		json_key_u64(j, "line", c->line);
	json_key_string(j, "class", frame_class_name((enum frame_class)c->class));
	json_key_bool(j, "library", c->library);
	json_end(j);
}

static void write_stats(const struct writer *w, const struct duration_stats *s)
{
	struct json *j = w->json;

	json_object(j);
	json_key_u64(j, "count", s->count);
	if (s->count) {
		json_key_u64(j, "total_ns", s->total_ns);
		json_key_u64(j, "mean_ns", stats_mean_ns(s));
		json_key_u64(j, "median_ns", s->median_ns);
		json_key_u64(j, "p99_ns", s->p99_ns);
		json_key_u64(j, "min_ns", s->min_ns);
		json_key_u64(j, "max_ns", s->max_ns);
	}
	json_end(j);
}

static void write_numbers(const struct writer *w, const struct field *f, const char *row)
{
	const char *numbers = row + f->offset;
	uint64_t zero = 0, count = f->size / f->width;

	while (f->trim && count > 1 && !memcmp(numbers + (count - 1) * f->width, &zero, f->width))
		count--;
	json_array(w->json);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = 0;

		memcpy(&n, numbers + i * f->width, f->width);
		json_u64(w->json, n);
	}
	json_end(w->json);
}

static void write_value(const struct writer *w, const struct field *f, const struct value *value)
{
	const struct trace *t = w->view->report->trace;
	const char *name;
	size_t length;

	if (f->unit == UNIT_THREAD) {
		write_thread(w, (uint32_t)value->n, (uint32_t)value->whole);
		return;
	}
	if (f->unit == UNIT_LINE || f->unit == UNIT_PATH) {
		write_line(w, f->key, (uint32_t)value->n);
		if (f->unit == UNIT_PATH)
			write_line(w, "callee", (uint32_t)value->whole);
		return;
	}
	if (f->key)
		json_key(w->json, f->key);
	if (value_is_text(f->unit)) {
		json_string(w->json, strbuf_text(&value->text));
		return;
	}
	switch (f->unit) {
	case UNIT_TIME:
		json_u64(w->json, since_start(w->view, value->n));
		break;
	case UNIT_UNIX:
		json_i64(w->json, (int64_t)value->n);
		break;
	case UNIT_MILLI:
		json_fixed(w->json, (int64_t)value->n, 3);
		break;
	case UNIT_REAL:
	case UNIT_PERCENT:
	case UNIT_FLOPS:
	case UNIT_BANDWIDTH:
		json_double(w->json, counter_value_real((int64_t)value->n).real);
		break;
	case UNIT_FLAG:
		json_bool(w->json, value->n);
		break;
	case UNIT_FUNCTION:
		name = calls_function_name(t, (uint32_t)value->n, &length);
		json_bytes(w->json, name, length);
		break;
	case UNIT_PID:
		json_u64(w->json, trace_process(t, value->n)->pid);
		break;
	default:
		json_u64(w->json, value->n);
		break;
	}
}

static void write_fields(const struct writer *w, const struct field *fields, size_t count,
			 const void *row);

static void write_field(const struct writer *w, const struct field *f, const void *row)
{
	struct value value = { 0 };

	value_read(w->view, f, w->result, row, &value);
	if (value.state == VALUE_UNKNOWN)
		json_key_string(w->json, f->key, NULL);
	else if (value.state == VALUE_KNOWN)
		write_value(w, f, &value);
	w->json->out->failed |= value.text.failed;
	strbuf_release(&value.text);
}

static void write_list(const struct writer *w, const struct list *list, const void *of)
{
	const struct report_view *v = w->view;
	uint64_t shown = 0;
	const void *row;

	for (size_t i = 0; (row = list_row(list, v, of, i)) && (list->all || shown < v->top); i++) {
		if (list->hidden && list->hidden(v, row))
			continue;
		shown++;
		if (list->names)
			json_key(w->json, list->names((unsigned)i));
		if (list->names && !list->fields->key) {
			write_field(w, list->fields, row);
			continue;
		}
		json_object(w->json);
		write_fields(w, list->fields, list->field_count, row);
		json_end(w->json);
	}
}

/* Writes a list, an object, statistics or numbers. */
static void write_nested(const struct writer *w, const struct field *f, const void *row)
{
	if (f->key)
		json_key(w->json, f->key);
	if (f->unit == UNIT_STATS) {
		write_stats(w, (const void *)((const char *)row + f->offset));
		return;
	}
	if (f->unit == UNIT_NUMBERS) {
		write_numbers(w, f, row);
		return;
	}
	if (f->key && f->unit == UNIT_LIST && !f->list->names)
		json_array(w->json);
	else if (f->key)
		json_object(w->json);
	if (f->unit == UNIT_LIST)
		write_list(w, f->list, row);
	else
		write_fields(w, f->list->fields, f->list->field_count, row);
	if (f->key)
		json_end(w->json);
}

static void write_fields(const struct writer *w, const struct field *fields, size_t count,
			 const void *row)
{
	for (const struct field *f = fields; f < fields + count; f++) {
		_Alignas(uint64_t) char room[SECTION_ROOM];
		const void *at = row;

		if (f->unit != UNIT_LIST && f->unit != UNIT_OBJECT && f->unit != UNIT_STATS &&
		    f->unit != UNIT_NUMBERS) {
			if (f->key)
				write_field(w, f, row);
			continue;
		}
		if (f->when && !f->when(w->view, row))
			at = NULL;
		else if (f->of)
			at = f->of(w->view, row, room);
		if (at && (f->key || f->list))
			write_nested(w, f, at);
		else if (f->key && f->null)
			json_key_string(w->json, f->key, NULL);
	}
}

void section_print_json(const struct section *s, const struct report_view *v, struct json *j)
{
	struct writer w = { .view = v, .result = section_result(s, v->report), .json = j };

	if (s->computed && !s->computed(v)) {
		json_key(j, s->key);
		json_null(j);
		return;
	}
	if (s->key)
		json_key_object(j, s->key);
	write_fields(&w, s->fields, s->field_count, w.result);
	if (s->key)
		json_end(j);
}
