/* section_json.c: sections as JSON. */
#include "analysis/flame/flame.h"
#include "report/section_values.h"

void report_json_list(struct report_view *v, const char *key)
{
	json_key(&v->json, key);
	json_array(&v->json);
}

void report_json_object(struct report_view *v, const char *key)
{
	json_key(&v->json, key);
	json_object(&v->json);
}

void report_json_time(struct report_view *v, const char *key, uint64_t time_ns)
{
	json_key_u64(&v->json, key, time_ns - MIN(time_ns, v->report->span_start_ns));
}

void report_json_thread(struct report_view *v, uint32_t process, uint32_t thread)
{
	json_key_u64(&v->json, "pid", trace_process(v->report->trace, process)->pid);
	json_key_u64(&v->json, "thread", thread);
	json_key_string(&v->json, "thread_name", report_thread_name(v->report, process, thread));
}

void report_json_line(struct report_view *v, const char *key, uint32_t caller)
{
	const struct callers *all = &v->report->callers;
	struct json *j = &v->json;
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

static void write_stats(struct report_view *v, const char *key, const struct duration_stats *s)
{
	struct json *j = &v->json;

	report_json_object(v, key);
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

static void write_value(struct report_view *v, const struct field *f, const struct value *value)
{
	const char *name;
	size_t length;

	switch (f->unit) {
	case UNIT_TIME:
		report_json_time(v, f->key, value->n);
		break;
	case UNIT_FLAG:
		json_key_bool(&v->json, f->key, value->n);
		break;
	case UNIT_TEXT:
		json_key_string(&v->json, f->key, strbuf_text(&value->text));
		break;
	case UNIT_NAME:
		json_key_string(&v->json, f->key, value_name(f, value->n));
		break;
	case UNIT_FUNCTION:
		name = calls_function_name(v->report->trace, (uint32_t)value->n, &length);
		json_key(&v->json, f->key);
		json_bytes(&v->json, name, length);
		break;
	case UNIT_PID:
		json_key_u64(&v->json, f->key, trace_process(v->report->trace, value->n)->pid);
		break;
	case UNIT_THREAD:
		report_json_thread(v, (uint32_t)value->n, (uint32_t)value->whole);
		break;
	case UNIT_LINE:
		report_json_line(v, f->key, (uint32_t)value->n);
		break;
	case UNIT_PATH:
		report_json_line(v, f->key, (uint32_t)value->n);
		report_json_line(v, "callee", (uint32_t)value->whole);
		break;
	default:
		json_key_u64(&v->json, f->key, value->n);
		break;
	}
}

static void write_fields(struct report_view *v, const struct field *fields, size_t count,
			 const void *result, const void *row);

static void write_list(struct report_view *v, const struct field *f, const void *result)
{
	const struct list *list = f->list;
	size_t count = list_count(list, result), shown = 0;

	report_json_list(v, f->key);
	for (size_t i = 0; i < count && (list->all || shown < v->top); i++) {
		const void *row = list_row(list, result, i);

		if (list->hidden && list->hidden(v, row))
			continue;
		shown++;
		json_object(&v->json);
		write_fields(v, list->fields, list->field_count, result, row);
		json_end(&v->json);
	}
	json_end(&v->json);
}

static void write_fields(struct report_view *v, const struct field *fields, size_t count,
			 const void *result, const void *row)
{
	for (const struct field *f = fields; f < fields + count; f++) {
		struct value value = { 0 };

		if (f->json)
			f->json(v, row);
		if (!f->key)
			continue;
		if (f->unit == UNIT_LIST) {
			write_list(v, f, result);
			continue;
		}
		if (f->unit == UNIT_STATS) {
			write_stats(v, f->key, (const void *)((const char *)row + f->offset));
			continue;
		}
		value_read(v, f, result, row, &value);
		if (value.state == VALUE_UNKNOWN)
			json_key_string(&v->json, f->key, NULL);
		else if (value.state == VALUE_KNOWN)
			write_value(v, f, &value);
		v->out->failed |= value.text.failed;
		strbuf_release(&value.text);
	}
}

void section_print_json(const struct section *s, struct report_view *v)
{
	const void *result = section_result(s, v->report);

	if (s->json) {
		s->json(v);
		return;
	}
	if (s->key)
		report_json_object(v, s->key);
	write_fields(v, s->fields, s->field_count, result, result);
	if (s->key)
		json_end(&v->json);
}
