#include "report/section_values.h"

#include <string.h>

#include "base/human.h"
#include "report/words.h"

const void *section_result(const struct section *s, const struct report *r)
{
	const void *result;

	if (s->whole_report)
		return r;
	memcpy(&result, (const char *)r + s->result, sizeof(result));
	return result;
}

size_t list_count(const struct list *list, const void *result)
{
	size_t count;

	memcpy(&count, (const char *)result + list->count, sizeof(count));
	return count;
}

const void *list_row(const struct list *list, const void *result, size_t i)
{
	const char *items;

	memcpy(&items, (const char *)result + list->items, sizeof(items));
	return items + i * list->stride;
}

static uint32_t read_u32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

void value_read(const struct report_view *v, const struct field *f, const void *result,
		const void *row, struct value *out)
{
	const char *member = (const char *)row + f->offset;
	uint64_t per = 0;

	if (f->value) {
		f->value(v, row, out);
		return;
	}
	if (f->unit == UNIT_TEXT) {
		const char *text;

		memcpy(&text, member, sizeof(text));
		strbuf_adds(&out->text, text);
		return;
	}
	memcpy(&out->n, member, f->size); /* little-endian, as all of Pitot */
	out->whole = f->unit == UNIT_LINE ? CALLER_NONE : 0;
	if (f->unit == UNIT_PATH || f->unit == UNIT_THREAD)
		out->whole = read_u32(member + sizeof(uint32_t));
	if (f->per)
		memcpy(&per, (const char *)row + f->per - 1, sizeof(per));
	if (f->unit == UNIT_RATE || (f->unit == UNIT_SHARE && f->per))
		out->whole = per;
	else if (f->per)
		out->n = per ? (out->n + (f->unit == UNIT_COUNT ? per / 2 : 0)) / per : 0;
	else if (f->unit == UNIT_SHARE && f->whole)
		memcpy(&out->whole, (const char *)result + f->whole - 1, sizeof(out->whole));
	else if (f->unit == UNIT_SHARE)
		out->whole = v->report->end_ns - v->report->start_ns;
}

const char *value_name(const struct field *f, uint64_t value)
{
	const char *name =
		schema_value_name(&schema_table(f->table)->columns[f->column], (unsigned)value);

	return name ? name : "?";
}

void value_text(const struct report_view *v, const struct field *f, const struct value *value,
		struct strbuf *out)
{
	const struct report *r = v->report;
	const char *name;
	size_t length;

	switch (f->unit) {
	case UNIT_COUNT:
		human_count(out, value->n);
		break;
	case UNIT_ID:
		strbuf_addf(out, "%llu", (unsigned long long)value->n);
		break;
	case UNIT_TIME:
		human_duration(out, value->n - MIN(value->n, r->span_start_ns));
		break;
	case UNIT_NS:
		human_duration(out, value->n);
		break;
	case UNIT_BYTES:
		human_bytes(out, value->n);
		break;
	case UNIT_SHARE:
		human_percent(out, value->n, value->whole);
		break;
	case UNIT_RATE:
		human_rate(out, value->n, value->whole);
		break;
	case UNIT_FLAG:
		strbuf_adds(out, value->n ? "yes" : "no");
		break;
	case UNIT_TEXT:
		text_safe(out, strbuf_text(&value->text), value->text.length);
		break;
	case UNIT_NAME:
		strbuf_adds(out, value_name(f, value->n));
		break;
	case UNIT_FUNCTION:
		name = calls_function_name(r->trace, (uint32_t)value->n, &length);
		text_safe(out, length ? name : "?", length ? length : 1);
		break;
	case UNIT_PID:
		strbuf_addf(out, "%u", trace_process(r->trace, value->n)->pid);
		break;
	case UNIT_THREAD:
		report_thread_text(r, (uint32_t)value->n, (uint32_t)value->whole, out);
		break;
	case UNIT_LINE:
	case UNIT_PATH:
		report_line_text(r, (uint32_t)value->n, (uint32_t)value->whole, out);
		break;
	case UNIT_STATS:
	case UNIT_LIST:
		break;
	}
}
