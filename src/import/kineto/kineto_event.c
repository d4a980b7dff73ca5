/* kineto_event.c: reads one event, with its members in any order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "import/kineto/kineto.h"

#define NAME_OF(id, name) { name, sizeof(name) - 1 },
static const struct {
	const char *name;
	size_t length;
} names[] = { KINETO_MEMBERS(NAME_OF) KINETO_ARGUMENTS(NAME_OF) };

const char *kineto_field_name(enum kineto_field field)
{
	return names[field].name;
}

/* Returns the field of a name between two fields, or `end`. */
static enum kineto_field field_of(const struct strbuf *key, unsigned from, unsigned end)
{
	while (from < end && (names[from].length != key->length ||
			      memcmp(names[from].name, strbuf_text(key), key->length) != 0))
		from++;
	return from;
}

static size_t store(struct strbuf *text, const struct strbuf *from)
{
	size_t at = text->length;

	strbuf_add(text, strbuf_text(from), from->length);
	strbuf_addc(text, '\0');
	return at;
}

static void store_value(struct kineto_event *v, const struct json_pull *p, enum kineto_field field)
{
	v->has |= UINT64_C(1) << field;
	v->strings |= (uint64_t)(p->kind == JSON_STRING) << field;
	v->at[field] = store(&v->text, &p->text);
}

/* Reads [x, y, z]. */
static int read_sizes(struct kineto *k, enum kineto_field field)
{
	struct json_pull *p = &k->json;
	size_t depth = p->depth + 1, count = 0;
	uint32_t *sizes = k->event.sizes[field - KINETO_GRID];
	bool good = true;
	uint64_t size;
	int rc;

	while ((rc = json_pull_next(p, k->error)) > 0 && p->depth >= depth) {
		good &= p->kind == JSON_NUMBER && parse_u64(strbuf_text(&p->text), &size) == 0 &&
			size <= UINT32_MAX && count < 3;
		if (good)
			sizes[count++] = (uint32_t)size;
	}
	if (good && count == 3)
		k->event.has |= UINT64_C(1) << field;
	return MIN(rc, 0);
}

static int read_argument(struct kineto *k)
{
	struct kineto_event *v = &k->event;
	struct json_pull *p = &k->json;
	enum kineto_field field = field_of(&p->key, KINETO_MEMBERS_END, KINETO_FIELDS);

	if (p->kind == JSON_ARRAY && (field == KINETO_GRID || field == KINETO_BLOCK))
		return read_sizes(k, field);
	if (p->kind >= JSON_NULL)
		return json_pull_skip(p, k->error);
	if (field < KINETO_FIELDS) {
		store_value(v, p, field);
	} else if (p->kind == JSON_NUMBER && v->other_count < KINETO_OTHERS) {
		v->others[v->other_count].key = store(&v->text, &p->key);
		v->others[v->other_count++].value = store(&v->text, &p->text);
	}
	return 0;
}

int kineto_read_event(struct kineto *k)
{
	struct kineto_event *v = &k->event;
	struct json_pull *p = &k->json;
	size_t depth = p->depth;
	bool in_args = false;
	int rc;

	v->has = v->strings = v->other_count = 0;
	strbuf_clear(&v->text);
	while ((rc = json_pull_next(p, k->error)) > 0 && p->depth > depth) {
		enum kineto_field field;

		if (rc == JSON_PULL_CLOSE) {
			in_args = false;
			continue;
		}
		if (in_args) {
			rc = read_argument(k);
		} else if (p->kind == JSON_OBJECT && !strcmp(strbuf_text(&p->key), "args")) {
			in_args = true;
		} else {
			field = field_of(&p->key, 0, KINETO_MEMBERS_END);
			if (p->kind < JSON_NULL && field < KINETO_MEMBERS_END)
				store_value(v, p, field);
			rc = json_pull_skip(p, k->error);
		}
		if (rc < 0)
			break;
	}
	return rc < 0 ? rc : v->text.failed ? error_set(k->error, -ENOMEM, "out of memory") : 0;
}

/* ---- values ---- */

const char *kineto_text(const struct kineto *k, enum kineto_field field)
{
	const struct kineto_event *v = &k->event;

	return v->has >> field & 1 ? v->text.data + v->at[field] : "";
}

/* Also accepts "0x10", and 7.0, as which tools that rewrite traces print integers. */
static bool parse_integer(const char *text, uint64_t *value)
{
	size_t length = strlen(text);
	char digits[24];

	if (length > 2 && length < sizeof(digits) + 2 && !strcmp(text + length - 2, ".0")) {
		memcpy(digits, text, length - 2);
		digits[length - 2] = '\0';
		text = digits;
	}
	return parse_u64(text, value) == 0;
}

bool kineto_u64(struct kineto *k, enum kineto_field field, uint64_t *value)
{
	const char *text = kineto_text(k, field);

	if (!(k->event.has >> field & 1) || *text == '-' || !*text) /* -1 stands for unknown */
		return false;
	if (parse_integer(text, value))
		return true;
	kineto_count(k, KINETO_DAMAGED_COUNT);
	return false;
}

bool kineto_u32(struct kineto *k, enum kineto_field field, uint32_t *value)
{
	uint64_t wide;

	if (!kineto_u64(k, field, &wide))
		return false;
	if (wide > UINT32_MAX) {
		kineto_count(k, KINETO_DAMAGED_COUNT);
		return false;
	}
	*value = (uint32_t)wide;
	return true;
}

/* Whether the field has a value of the column; counts it if it is something else. */
static bool read_value(struct kineto *k, enum kineto_field field, const struct column_schema *c,
		       uint64_t *value)
{
	uint32_t narrow;

	if (column_is_signed(c)) {
		*value = (uint64_t)strtoll(kineto_text(k, field), NULL, 10);
		return kineto_has(k, field);
	}
	if (c->width == 8)
		return kineto_u64(k, field, value);
	if (!kineto_u32(k, field, &narrow))
		return false;
	*value = narrow;
	return c->type != COLUMN_TYPE_ENUM || schema_value_name(c, narrow);
}

void kineto_fill(struct kineto *k, enum table_id table, const struct kineto_argument *arguments,
		 size_t count, void *row)
{
	const struct table_schema *t = schema_table(table);
	uint64_t missing = schema_missing(table), value;

	memset(row, 0, t->row_size);
	memcpy(row, &missing, sizeof(missing));
	for (const struct kineto_argument *a = arguments; a < arguments + count; a++)
		if (read_value(k, a->field, &t->columns[a->column], &value) && (value || !a->or_0))
			row_set(t, row, a->column, value);
}

/*
 * Reads the digits of a decimal number with an exponent, and the place of the digit of the
 * nanoseconds: that of the third decimal.
 */
bool kineto_time(const char *text, int64_t *ns)
{
	bool negative = *text == '-', fraction = false;
	const char *p = text + negative, *exponent = strpbrk(text, "eE");
	const char *end = exponent ? exponent : text + strlen(text);
	int64_t places = 3, power;
	uint64_t value = 0;

	if (exponent) {
		bool down = exponent[1] == '-';
		uint64_t digits;

		if (parse_u64(exponent + 1 + (down || exponent[1] == '+'), &digits) < 0 ||
		    digits > 400)
			return false;
		places += down ? -(int64_t)digits : (int64_t)digits;
	}
	if (p == end)
		return false;
	/* `power`: of ten, of the next digit, in nanoseconds */
	power = places + (int64_t)strcspn(p, ".eE") - 1;
	for (; p < end; p++) {
		if (*p == '.' && !fraction) {
			fraction = true;
			continue;
		}
		if (*p < '0' || *p > '9')
			return false;
		if (power >= 0) {
			if (__builtin_mul_overflow(value, 10u, &value) ||
			    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
				return false;
		} else if (power == -1) {
			value += *p >= '5';
		}
		power--;
	}
	for (; power >= 0 && value; power--)
		if (__builtin_mul_overflow(value, 10u, &value))
			return false;
	if (value > INT64_MAX)
		return false;
	*ns = negative ? -(int64_t)value : (int64_t)value;
	return true;
}
