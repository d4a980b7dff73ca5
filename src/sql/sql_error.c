#include "sql/sql_error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/options.h"

#define LINE_MAX_COLUMNS 100

/* Names to choose the nearest from. */
struct names {
	VEC(const char *) items;
	struct arena arena;
};

static void add_name(void *user, const struct sql_item *item)
{
	struct names *n = user;
	const char *copy = arena_strndup(&n->arena, item->name, strlen(item->name));

	/* Without memory the nearest name is of those that are known. */
	if (copy && vec_push(&n->items, copy) < 0)
		return;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

const char *sql_find_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strcasestr(at, word)); at++)
		if ((at == text || !is_word(at[-1])) && !is_word(at[length]))
			return at;
	return NULL;
}

/* The columns of the tables that a statement names, or of all. */
static void add_columns(struct sql *s, const char *text, struct names *columns)
{
	struct names tables = { 0 };
	struct error ignored = { 0 };

	sql_tables(s, add_name, &tables);
	for (int all = 0; all < 2 && !columns->items.count; all++)
		for (size_t i = 0; i < tables.items.count; i++)
			if ((all || sql_find_word(text, tables.items.data[i])) &&
			    sql_columns(s, tables.items.data[i], add_name, columns, &ignored) < 0)
				break;
	vec_release(&tables.items);
	arena_release(&tables.arena);
}

/* The name that SQLite's message ends with, without what qualifies it; NULL: it has none. */
static const char *unknown_name(const char *message, const char *prefix)
{
	size_t length = strlen(prefix);
	const char *dot;

	if (strncmp(message, prefix, length) != 0)
		return NULL;
	dot = strrchr(message + length, '.');
	return dot ? dot + 1 : message + length;
}

static void add_caret(const char *text, size_t offset, struct strbuf *out)
{
	const char *line = text + offset, *end = text + offset + strcspn(text + offset, "\n");

	while (line > text && line[-1] != '\n')
		line--;
	if (text + offset - line > LINE_MAX_COLUMNS / 2)
		line = text + offset - LINE_MAX_COLUMNS / 2;
	/* No character is cut. */
	while (line < text + offset && ((unsigned char)*line & 0xc0) == 0x80)
		line++;
	end = MIN(end, line + LINE_MAX_COLUMNS);
	while (end < text + strlen(text) && ((unsigned char)*end & 0xc0) == 0x80)
		end--;
	strbuf_addf(out, "\n  %.*s\n  ", (int)(end - line), line);
	for (const char *c = line; c < text + offset; c++)
		if (((unsigned char)*c & 0xc0) != 0x80)
			strbuf_addc(out, *c == '\t' ? '\t' : ' ');
	strbuf_addc(out, '^');
}

int sql_describe(struct sql *s, const char *text, const struct sql_problem *p, struct error *e)
{
	_cleanup_strbuf_ struct strbuf caret = STRBUF_INIT;
	struct names known = { 0 };
	int64_t offset = p->offset;
	const char *at;

	if (p->table)
		sql_tables(s, add_name, &known);
	if (p->column)
		add_columns(s, text, &known);
	at = p->table ? sql_find_word(text, p->table) : NULL;
	if (at)
		offset = at - text;
	if (offset >= 0 && (size_t)offset <= strlen(text))
		add_caret(text, (size_t)offset, &caret);
	error_set(e, E_USAGE, "%s", p->message);
	if (known.items.count && vec_push(&known.items, NULL) == 0)
		error_suggest(e, p->table ? p->table : p->column, known.items.data,
			      p->table ? "; `.tables` lists them" : "; `.schema TABLE` lists them");
	vec_release(&known.items);
	arena_release(&known.arena);
	if (e) {
		size_t length = strlen(e->text);

		snprintf(e->text + length, sizeof(e->text) - length, "%s", strbuf_text(&caret));
	}
	return E_USAGE;
}

int sql_error(struct sql *s, const char *text, struct error *e)
{
	_cleanup_strbuf_ struct strbuf message = STRBUF_INIT;
	struct sql_problem p = { .offset = sqlite3_error_offset(s->db) };

	strbuf_adds(&message, sqlite3_errcode(s->db) == SQLITE_AUTH ? SQL_ONLY_SELECT
								    : sqlite3_errmsg(s->db));
	p.message = strbuf_text(&message);
	p.table = unknown_name(p.message, "no such table: ");
	p.column = unknown_name(p.message, "no such column: ");
	return sql_describe(s, text, &p, e);
}
