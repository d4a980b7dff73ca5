#include "report/section.h"

#include <math.h>
#include <string.h>

#include "analysis/flame/flame.h"
#include "base/human.h"
#include "report/words.h"
#include "trace/counter_value.h"

const void *section_result(const struct section *s, const struct report *r)
{
	const void *result;

	if (s->whole_report)
		return r;
	memcpy(&result, (const char *)r + s->result, sizeof(result));
	return result;
}

const void *list_row(const struct list *list, const struct report_view *v, const void *of, size_t i)
{
	const char *items = (const char *)of + list->items;
	size_t count = list->length;

	if (list->item)
		return list->item(v, of, i);
	if (!list->length) {
		memcpy(&items, items, sizeof(items));
		memcpy(&count, (const char *)of + list->count, sizeof(count));
	}
	return i < count ? items + i * list->stride : NULL;
}

static uint32_t read_u32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

const char *value_name(const struct field *f, uint64_t value)
{
	const char *name =
		schema_value_name(&schema_table(f->table)->columns[f->column], (unsigned)value);

	return name ? name : "?";
}

bool value_is_text(enum unit unit)
{
	return unit == UNIT_TEXT || unit == UNIT_STRING || unit == UNIT_CHOICE ||
	       unit == UNIT_NAME || unit == UNIT_CODE || unit == UNIT_CLASS;
}

/* Text for a number of one of the units of value_is_text. */
static const char *text_of(const struct report_view *v, const struct field *f, uint64_t n)
{
	const struct callers *callers = &v->report->callers;

	switch (f->unit) {
	case UNIT_STRING:
		return trace_string(v->report->trace, (uint32_t)n);
	case UNIT_CHOICE:
		return f->names((unsigned)n);
	case UNIT_NAME:
		return value_name(f, n);
	case UNIT_CODE:
		return stacks_text(&callers->stacks, (uint32_t)n);
	case UNIT_CLASS:
		return frame_class_name((enum frame_class)caller_at(callers, (uint32_t)n)->class);
	default:
		return (const char *)(uintptr_t)n;
	}
}

void value_read(const struct report_view *v, const struct field *f, const void *result,
		const void *row, struct value *out)
{
	const char *member = (const char *)row + f->offset;
	uint64_t per = 0;

	if (f->when && !f->when(v, row)) {
		out->state = f->null ? VALUE_UNKNOWN : VALUE_ABSENT;
		return;
	}
	if (f->value) {
		f->value(v, row, out);
		return;
	}
	memcpy(&out->n, member, f->size); /* little-endian, as all of Pitot */
	if (f->unit >= UNIT_REAL && f->unit <= UNIT_BANDWIDTH &&
	    !isfinite(counter_value_real((int64_t)out->n).real))
		out->state = VALUE_UNKNOWN;
	if (f->unit == UNIT_TEXT && !out->n) {
		out->state = f->null ? VALUE_UNKNOWN : VALUE_ABSENT;
		return;
	}
	if (value_is_text(f->unit))
		strbuf_adds(&out->text, text_of(v, f, out->n));
	out->whole = f->unit == UNIT_LINE ? CALLER_NONE : 0;
	if (f->unit == UNIT_PATH || f->unit == UNIT_THREAD)
		out->whole = read_u32(member + sizeof(uint32_t));
	if (f->per)
		memcpy(&per, (const char *)row + f->per - 1, sizeof(per));
	if (f->unit == UNIT_RATE || f->unit == UNIT_RATIO || (f->unit == UNIT_SHARE && f->per))
		out->whole = per;
	else if (f->per)
		out->n = per ? (out->n + (f->unit == UNIT_COUNT ? per / 2 : 0)) / per : 0;
	else if (f->whole)
		memcpy(&out->whole, (const char *)result + f->whole - 1, sizeof(out->whole));
}

void value_text(const struct report_view *v, const struct field *f, const struct value *value,
		struct strbuf *out)
{
	const struct report *r = v->report;
	double real = counter_value_real((int64_t)value->n).real;
	const char *name;
	size_t length;

	if (value_is_text(f->unit)) {
		text_safe(out, strbuf_text(&value->text), value->text.length);
		return;
	}
	switch (f->unit) {
	case UNIT_COUNT:
		human_count(out, value->n);
		break;
	case UNIT_ID:
		strbuf_addf(out, "%llu", (unsigned long long)value->n);
		break;
	case UNIT_PID:
		strbuf_addf(out, "%u", trace_process(r->trace, value->n)->pid);
		break;
	case UNIT_REAL:
		human_real(out, real);
		break;
	case UNIT_PERCENT:
		strbuf_addf(out, "%.1f%%", real);
		break;
	case UNIT_FLOPS:
		human_si(out, real, "FLOP/s");
		break;
	case UNIT_BANDWIDTH:
		human_si(out, real, "B/s");
		break;
	case UNIT_FLAG:
		strbuf_adds(out, value->n ? "yes" : "no");
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
	case UNIT_RATIO:
		report_ratio_text(value->n, value->whole, out);
		break;
	case UNIT_RATE:
		human_rate(out, value->n, value->whole);
		break;
	case UNIT_FUNCTION:
		name = calls_function_name(r->trace, (uint32_t)value->n, &length);
		text_safe(out, length ? name : "?", length ? length : 1);
		break;
	case UNIT_THREAD:
		report_thread_text(r, (uint32_t)value->n, (uint32_t)value->whole, out);
		break;
	case UNIT_LINE:
	case UNIT_PATH:
		report_line_text(r, (uint32_t)value->n, (uint32_t)value->whole, out);
		break;
	default: /* in JSON only */
		break;
	}
}
