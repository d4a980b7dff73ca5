/*
 * arrow_schema.c: types, names, units and meanings of columns in Arrow's C data interface.
 */
#include <errno.h>
#include <string.h>

#include "base/strbuf.h"
#include "read/read_table.h"

void arrow_schema_release(struct ArrowSchema *s)
{
	for (int64_t i = 0; i < s->n_children; i++) {
		if (s->children[i]->release)
			s->children[i]->release(s->children[i]);
		free(s->children[i]);
	}
	free(s->children);
	if (s->dictionary && s->dictionary->release)
		s->dictionary->release(s->dictionary);
	free(s->dictionary);
	free((char *)s->name);
	free((char *)s->metadata);
	s->release = NULL;
}

static void add_int(struct strbuf *out, size_t value)
{
	int32_t n = (int32_t)value;

	strbuf_add(out, &n, sizeof(n));
}

/*
 * Encodes pairs of key and value, preceded by their number and lengths; omits pairs with value "".
 */
static char *metadata(const char *const pairs[][2], size_t count)
{
	struct strbuf out = STRBUF_INIT;
	size_t given = 0;

	for (size_t i = 0; i < count; i++)
		given += *pairs[i][1] != '\0';
	add_int(&out, given);
	for (size_t i = 0; i < count; i++) {
		if (!*pairs[i][1])
			continue;
		for (size_t k = 0; k < 2; k++) {
			add_int(&out, strlen(pairs[i][k]));
			strbuf_adds(&out, pairs[i][k]);
		}
	}
	if (out.failed)
		strbuf_release(&out);
	return out.data;
}

/* Takes ownership of pairs. Returns -ENOMEM if pairs or a copy is NULL; release s in any case. */
static int schema_init(struct ArrowSchema *s, const char *format, const char *name, char *pairs)
{
	*s = (struct ArrowSchema){ .format = format,
				   .name = strdup(name),
				   .metadata = pairs,
				   .flags = ARROW_FLAG_NULLABLE,
				   .release = arrow_schema_release };
	return s->name && pairs ? 0 : -ENOMEM;
}

static const char *format_of(const struct view_column *c)
{
	static const char *const formats[] = {
		[COLUMN_TYPE_U8] = "C",   [COLUMN_TYPE_U16] = "S",    [COLUMN_TYPE_U32] = "I",
		[COLUMN_TYPE_U64] = "L",  [COLUMN_TYPE_I32] = "i",    [COLUMN_TYPE_I64] = "l",
		[COLUMN_TYPE_TIME] = "L", [COLUMN_TYPE_STRING] = "i", [COLUMN_TYPE_ENUM] = "C",
		[COLUMN_TYPE_REF] = "I",  [COLUMN_TYPE_BYTES] = "i",
	};

	if (c->kind == VIEW_PID)
		return "I";
	if (c->kind == VIEW_SCOPE)
		return "i";
	return c->kind == VIEW_DURATION ? "L" : formats[c->schema->type];
}

static int add_dictionary(struct ArrowSchema *s)
{
	s->dictionary = calloc(1, sizeof(*s->dictionary));
	return s->dictionary ? schema_init(s->dictionary, "u", "", metadata(NULL, 0)) : -ENOMEM;
}

/* Adds the item type of a list of texts. */
static int add_names(struct ArrowSchema *s)
{
	struct ArrowSchema *item = calloc(1, sizeof(*item));

	s->children = calloc(1, sizeof(struct ArrowSchema *));
	if (!item || !s->children) {
		free(item);
		return -ENOMEM;
	}
	s->children[s->n_children++] = item;
	return schema_init(item, "i", "item", metadata(NULL, 0)) < 0 ? -ENOMEM
								     : add_dictionary(item);
}

static int column_schema_init(const struct read_table *r, size_t i, struct ArrowSchema *out)
{
	static const struct column_schema
		pid = { .unit = "", .meaning = "process of the row" },
		scope = { .unit = "", .meaning = "path of the innermost scope around it" },
		frames = { .unit = "",
			   .meaning = "names of the call stack's frames, outermost first" },
		duration = { .unit = "ns", .meaning = "end_ns - start_ns" },
		names[] = {
			[READ_SHORT] = { .unit = "", .meaning = "kernel name, short" },
			[READ_FULL] = { .unit = "", .meaning = "kernel name with its parameters" },
		};
	const struct view_column *c = &r->columns.items.data[i];
	enum read_form form = r->forms[i];
	const struct column_schema *schema = form == READ_FRAMES ? &frames
					     : form == READ_SHORT || form == READ_FULL
						     ? &names[form]
					     : c->schema             ? c->schema
					     : c->kind == VIEW_PID   ? &pid
					     : c->kind == VIEW_SCOPE ? &scope
								     : &duration;
	const char *const pairs[][2] = {
		{ "unit", schema->unit },
		{ "meaning", schema->meaning },
		{ "clock", view_is_time(c) ? "CLOCK_MONOTONIC" : "" },
		{ "refers_to", form == READ_ROW ? schema_table(schema->ref)->name : "" },
	};
	int result = schema_init(out, form == READ_FRAMES ? "+l" : format_of(c), c->label,
				 metadata(pairs, ARRAY_SIZE(pairs)));

	if (result < 0)
		return result;
	if (form == READ_FRAMES)
		return add_names(out);
	return read_is_text(r, i) || read_is_enum(r, i) ? add_dictionary(out) : 0;
}

int read_table_schema(const struct read_table *r, struct ArrowSchema *out)
{
	const char *const pairs[][2] = { { "table", r->view.schema->name },
					 { "meaning", r->view.schema->meaning } };
	size_t count = r->columns.items.count;
	int result = schema_init(out, "+s", "", metadata(pairs, ARRAY_SIZE(pairs)));

	out->flags = 0;
	out->children = calloc(MAX(count, 1u), sizeof(*out->children));
	for (size_t i = 0; i < count && result == 0; i++) {
		struct ArrowSchema *child = out->children ? calloc(1, sizeof(*child)) : NULL;

		if (!child) {
			result = -ENOMEM;
			break;
		}
		out->children[out->n_children++] = child;
		result = column_schema_init(r, i, child);
	}
	if (result < 0 || !out->children) {
		arrow_schema_release(out);
		return -ENOMEM;
	}
	return 0;
}
