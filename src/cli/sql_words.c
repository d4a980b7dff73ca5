#include "cli/sql_words.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "sql/sql_error.h"
#include "sql/sql_functions.h"

static const char *const keywords[] = {
	"AND",   "AS",   "ASC",       "BETWEEN", "BY",   "CASE",  "CAST",   "DESC",   "DISTINCT",
	"ELSE",  "END",  "EXISTS",    "FROM",    "GLOB", "GROUP", "HAVING", "IN",     "IS",
	"JOIN",  "LEFT", "LIKE",      "LIMIT",   "NOT",  "NULL",  "OFFSET", "ON",     "OR",
	"ORDER", "OVER", "PARTITION", "SELECT",  "THEN", "UNION", "USING",  "VALUES", "WHEN",
	"WHERE", "WITH", "avg(",      "count(",  "max(", "min(",  "sum(",
};

struct words {
	struct sql *sql;
	const char *statement;
	struct line_words *out;
	const char *prefix; /* "k." of "k.start_ns" */
	size_t tables; /* that the statement names */
};

static void add_table(void *user, const struct sql_item *item)
{
	line_words_add(((struct words *)user)->out, item->name);
}

static void add_column(void *user, const struct sql_item *item)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct words *w = user;

	strbuf_addf(&text, "%s%s", w->prefix, item->name);
	if (!text.failed)
		line_words_add(w->out, strbuf_text(&text));
}

static void add_columns(void *user, const struct sql_item *item)
{
	struct error ignored = { 0 };
	struct words *w = user;

	/* A table without columns that are known has none to add. */
	if (sql_find_word(w->statement, item->name) &&
	    sql_columns(w->sql, item->name, add_column, w, &ignored) >= 0)
		w->tables++;
}

/* A word up to its first blank or after its parenthesis: "median(" of "median(X)". */
static void add_part(struct line_words *out, const char *text)
{
	char part[64];
	size_t length = strcspn(text, " (");

	length += text[length] == '(';
	if (length < sizeof(part)) {
		memcpy(part, text, length);
		part[length] = '\0';
		line_words_add(out, part);
	}
}

/* Whether the last word before is one after which a table comes. */
static bool wants_table(const char *statement)
{
	static const char *const words[] = { "from", "join", ".schema" };
	size_t end = strlen(statement), start;

	while (end && isspace((unsigned char)statement[end - 1]))
		end--;
	for (start = end; start && !isspace((unsigned char)statement[start - 1]);)
		start--;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i]) == end - start &&
		    !strncasecmp(words[i], statement + start, end - start))
			return true;
	return false;
}

void sql_words_add(struct sql *s, const char *statement, const char *word, struct line_words *out)
{
	char prefix[64] = "";
	struct words w = { .sql = s, .statement = statement, .out = out, .prefix = prefix };
	const char *dot = strrchr(word, '.');

#define COMMAND(name, meaning) add_part(out, name);
#define FUNCTION(call, meaning) add_part(out, call);
	if (!*statement && *word == '.') {
		SQL_COMMANDS(COMMAND)
		return;
	}
	if (wants_table(statement)) {
		sql_tables(s, add_table, &w);
		return;
	}
	if (dot && (size_t)(dot + 1 - word) < sizeof(prefix))
		memcpy(prefix, word, (size_t)(dot + 1 - word));
	sql_tables(s, add_columns, &w);
	if (dot)
		return;
	SQL_FUNCTIONS(FUNCTION)
	for (size_t i = 0; i < ARRAY_SIZE(keywords); i++)
		line_words_add(out, keywords[i]);
	if (!w.tables)
		sql_tables(s, add_table, &w);
}
