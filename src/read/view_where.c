#include "read/view_where.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/options.h"

void view_where_release(struct view_where *w)
{
	for (size_t i = 0; i < w->conditions.count; i++)
		free(w->conditions.data[i].matches);
	vec_release(&w->conditions);
	view_columns_release(&w->columns);
}

/* Parses the operator at text; *length is its length. */
static bool parse_operator(const char *text, enum where_operator *op, size_t *length)
{
	static const struct {
		const char *text;
		enum where_operator op;
	} operators[] = {
		{ "!=", WHERE_UNEQUAL }, { ">=", WHERE_AT_LEAST }, { "<=", WHERE_AT_MOST },
		{ "==", WHERE_EQUAL },   { "=", WHERE_EQUAL },     { ">", WHERE_GREATER },
		{ "<", WHERE_LESS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		*length = strlen(operators[i].text);
		if (!strncmp(text, operators[i].text, *length)) {
			*op = operators[i].op;
			return true;
		}
	}
	return false;
}

static bool is_signed(const struct view_column *c)
{
	return c->schema &&
	       (c->schema->type == COLUMN_TYPE_I32 || c->schema->type == COLUMN_TYPE_I64);
}

static int parse_enum(const struct column_schema *column, const char *text, uint64_t *number,
		      struct error *e)
{
	const char *names[256 + 1];

	for (unsigned i = 0; i < column->value_count; i++) {
		names[i] = column->values[i].name;
		if (!strcmp(names[i], text)) {
			*number = column->values[i].value;
			return 0;
		}
	}
	if (!parse_u64(text, number))
		return 0;
	names[column->value_count] = NULL;
	error_set(e, E_USAGE, "column %s has no value '%s'", column->name, text);
	return error_suggest(e, text, names, NULL);
}

/*
 * Parses a point in time or a duration. A bare number is nanoseconds if the column was named with
 * its unit; otherwise it is rejected as ambiguous.
 */
static int parse_time(const struct view_column *c, const char *name, const char *text, uint64_t *ns,
		      struct error *e)
{
	size_t length = strlen(text), name_length = strlen(name);
	bool bare = length && strspn(text, "0123456789.") == length;

	if (bare && name_length > 3 && !strcmp(name + name_length - 3, "_ns") &&
	    !parse_u64(text, ns))
		return 0;
	if (parse_duration(text, ns) < 0)
		return error_set(
			e, E_USAGE,
			"'%s' is not a value of column %s: give a time such as 1.5s or 20us", text,
			c->label);
	if (bare && *ns)
		return error_set(e, E_USAGE, "'%s' has no unit: write %ss, %sms, %sus or %sns",
				 text, text, text, text, text);
	return 0;
}

static int parse_value(const struct view_table *t, const struct view_column *c, const char *name,
		       const char *text, struct view_condition *condition, struct error *e)
{
	const char *digits = is_signed(c) && *text == '-' ? text + 1 : text;
	char *end;
	int rc = 0;

	condition->missing = !strcmp(text, "-");
	if (condition->missing)
		return 0;
	if (view_is_text(c)) {
		condition->text = text;
		return 0;
	}
	if (c->schema && c->schema->type == COLUMN_TYPE_ENUM)
		return parse_enum(c->schema, text, &condition->number, e);
	if (view_is_time(c) || view_is_duration(c)) {
		if (parse_time(c, name, text, &condition->number, e) < 0)
			return E_USAGE;
	} else if (c->schema && !strcmp(c->schema->unit, "bytes")) {
		rc = parse_size(text, &condition->number);
	} else {
		rc = parse_u64(digits, &condition->number);
		if (rc < 0 && view_is_counter_value(t, c)) {
			condition->real = strtod(text, &end);
			condition->is_fraction = true;
			rc = end == text || *end || !isfinite(condition->real) ? rc : 0;
		}
	}
	if (rc < 0)
		return error_set(e, E_USAGE, "'%s' is not a value of column %s: give a number",
				 text, c->label);
	if (view_is_time(c) &&
	    __builtin_add_overflow(condition->number, t->origin_ns, &condition->number))
		condition->number = UINT64_MAX;
	if (digits != text)
		condition->number = 0 - condition->number;
	if (!condition->is_fraction)
		condition->real = (double)(int64_t)condition->number;
	return 0;
}

int view_where_add(const struct view_table *t, const char *text, struct view_where *w,
		   struct error *e)
{
	struct view_condition condition = { .column = w->columns.items.count };
	size_t name_length = strcspn(text, "=<>!"), length;
	const char *value;
	char name[72];
	int rc;

	if (!name_length || name_length >= sizeof(name) ||
	    !parse_operator(text + name_length, &condition.op, &length))
		return error_set(e, E_USAGE,
				 "'%s' is no condition: write COLUMN=VALUE (or != < <= > >=)",
				 text);
	value = text + name_length + length;
	value += strspn(value, " ");
	while (name_length && text[name_length - 1] == ' ')
		name_length--;
	memcpy(name, text, name_length);
	name[name_length] = '\0';
	rc = view_columns_add(t, name, &w->columns, e);
	if (rc >= 0)
		rc = parse_value(t, &w->columns.items.data[condition.column], name, value,
				 &condition, e);
	if (rc >= 0 && (condition.text || condition.missing) && condition.op > WHERE_UNEQUAL)
		rc = error_set(
			e, E_USAGE,
			"'%s': texts and missing values can only be compared with = and !=", text);
	if (rc >= 0 && vec_push(&w->conditions, condition) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc < 0 ? rc : 0;
}

int view_where_time(const struct view_table *t, enum where_operator op, uint64_t ns,
		    struct view_where *w, struct error *e)
{
	struct view_condition condition = { .column = w->columns.items.count, .op = op };
	int rc;

	if (t->schema->time_column < 0)
		return error_set(e, E_USAGE, "table %s has no times for --since and --until",
				 t->schema->name);
	if (__builtin_add_overflow(ns, t->origin_ns, &condition.number))
		condition.number = UINT64_MAX;
	rc = view_columns_add(t, t->schema->columns[t->schema->time_column].name, &w->columns, e);
	if (rc >= 0 && vec_push(&w->conditions, condition) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc < 0 ? rc : 0;
}

int view_where_prepare(const struct view_table *t, struct view_where *w)
{
	for (size_t i = 0; i < w->conditions.count; i++) {
		struct view_condition *c = &w->conditions.data[i];

		if (!c->text)
			continue;
		if (w->columns.items.data[c->column].kind == VIEW_SCOPE) {
			const struct nvtx_ranges *n = &t->scopes->ranges;

			c->matches = scope_paths_match(n, t->trace, c->text);
			if (!c->matches)
				return -ENOMEM;
			c->match_count = (uint32_t)n->path_count;
			for (size_t k = 0; k < n->path_count; k++)
				c->matches[k]++; /* all are now tested */
			continue;
		}
		c->match_count = trace_string_count(t->trace);
		c->matches = calloc((size_t)c->match_count + 1, 1);
		if (!c->matches)
			return -ENOMEM;
	}
	return 0;
}

/* Tests each text only once. */
static bool text_holds(const struct view_table *t, const struct view_column *column,
		       const struct view_condition *c, uint32_t id)
{
	uint8_t *state = &c->matches[MIN(id, c->match_count)];

	if (!*state) {
		const char *text = trace_string(t->trace, id);
		bool match = view_is_kernel_name(t, column) ? kernel_name_matches(c->text, text)
							    : text_matches(c->text, text);

		*state = match ? 2 : 1;
	}
	return (*state == 2) == (c->op == WHERE_EQUAL);
}

static bool number_holds(const struct view_condition *c, uint64_t value, bool is_negative)
{
	/* Adding 2^63 makes signed numbers comparable as unsigned ones. */
	uint64_t shift = is_negative ? UINT64_C(1) << 63 : 0, a = value + shift,
		 b = c->number + shift;

	switch (c->op) {
	case WHERE_EQUAL:
		return a == b;
	case WHERE_UNEQUAL:
		return a != b;
	case WHERE_LESS:
		return a < b;
	case WHERE_AT_MOST:
		return a <= b;
	case WHERE_GREATER:
		return a > b;
	case WHERE_AT_LEAST:
		return a >= b;
	}
	return false;
}

/* If not both are integers, compares the sign of the difference with 0. */
static bool counter_holds(const struct view_table *t, const struct view_condition *c, uint64_t row)
{
	struct counter_value value = view_counter_value(t, row);
	double real = value.is_real ? value.real : (double)value.integer;
	struct view_condition sign = { .op = c->op };

	if (!value.is_real && !c->is_fraction)
		return number_holds(c, (uint64_t)value.integer, true);
	if (isnan(real))
		return c->op == WHERE_UNEQUAL;
	return number_holds(&sign, (uint64_t)((real > c->real) - (real < c->real)), true);
}

bool view_where_holds(const struct view_table *t, const struct view_where *w, uint64_t row)
{
	for (size_t i = 0; i < w->conditions.count; i++) {
		const struct view_condition *c = &w->conditions.data[i];
		const struct view_column *column = &w->columns.items.data[c->column];
		struct view_value v = view_value(t, column, row);
		bool holds;

		if (c->missing)
			holds = v.missing == (c->op == WHERE_EQUAL);
		else if (v.missing)
			holds = false;
		else if (c->text)
			holds = text_holds(t, column, c, (uint32_t)v.number);
		else if (view_is_counter_value(t, column))
			holds = counter_holds(t, c, row);
		else
			holds = number_holds(c, v.number, is_signed(column));
		if (!holds)
			return false;
	}
	return true;
}
