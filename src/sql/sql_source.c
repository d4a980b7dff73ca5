#include "sql/sql_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

static int add_column(struct sql_source *s, struct sql_column c)
{
	return vec_push(&s->columns, c);
}

static int add_columns(struct sql_source *s)
{
	bool scopes = row_scopes_available(s->schema);
	int rc = add_column(s, (struct sql_column){ .kind = SQL_RECORDING,
						    .name = "recording",
						    .meaning = "name of the recording" });

	for (size_t i = 0; i < s->flat.columns.count && rc == 0; i++) {
		const struct flat_column *c = &s->flat.columns.data[i];

		if (scopes && !strcmp(c->name, "scope"))
			continue; /* has no writer */
		rc = add_column(s, (struct sql_column){ .kind = SQL_FLAT,
							.flat = c,
							.name = c->name,
							.meaning = c->meaning });
	}
	if (rc == 0 && s->schema->launching_kinds)
		rc = add_column(s, (struct sql_column){
					   .kind = SQL_CALL,
					   .name = "call",
					   .meaning = "rowid of the api_call that caused it" });
	if (rc == 0 && scopes)
		rc = add_column(s, (struct sql_column){ .kind = SQL_SCOPE,
							.name = "scope",
							.meaning = "path of the innermost scope" });
	if (rc == 0 && (s->schema->launching_kinds || s->schema->id == TABLE_api_call))
		rc = add_column(
			s, (struct sql_column){ .kind = SQL_CALLER,
						.name = "caller",
						.meaning = "line of the program that called" });
	return rc;
}

int sql_source_init(struct sql_source *s, struct sql *sql, size_t recording, enum table_id table,
		    struct error *e)
{
	int rc;

	*s = (struct sql_source){ .sql = sql,
				  .recording = recording,
				  .trace = sql->recordings[recording].trace,
				  .schema = schema_table(table) };
	rc = flat_describe(&s->flat, s->trace, table, e);
	if (rc >= 0 && add_columns(s) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc;
}

void sql_source_release(struct sql_source *s)
{
	for (size_t i = 0; i < s->columns.count; i++) {
		struct sql_column *c = &s->columns.data[i];

		vec_release(&c->texts);
		free(c->index.keys);
		free(c->index.rows);
		vec_release(&c->index.ranks);
	}
	vec_release(&s->columns);
	row_scopes_release(&s->scopes);
	flat_table_release(&s->flat);
}

const char *sql_column_type(const struct sql_column *c)
{
	return sql_is_text(c)                                     ? "TEXT"
	       : c->kind == SQL_FLAT && c->flat->type == FLAT_F64 ? "REAL"
								  : "INTEGER";
}

bool sql_is_of_process(const struct sql_column *c)
{
	return c->kind == SQL_RECORDING || (c->kind == SQL_FLAT && c->flat->source <= FLAT_SESSION);
}

static int load_callers(struct sql_source *s, struct error *e)
{
	struct callers **callers = &s->sql->callers[s->recording];
	int rc = 0;

	if (s->schema->launching_kinds)
		rc = trace_launches(s->trace, s->schema->id, &s->calls, e);
	if (rc < 0 || *callers)
		return rc;
	*callers = calloc(1, sizeof(**callers));
	if (!*callers)
		return error_set(e, -ENOMEM, "out of memory");
	rc = callers_init(*callers, s->trace, true, e);
	if (rc < 0) {
		free(*callers);
		*callers = NULL;
	}
	return rc;
}

int sql_load(struct sql_source *s, size_t column, struct error *e)
{
	struct sql_column *c = &s->columns.data[column];
	int rc = 0;

	if (c->loaded)
		return 0;
	s->sql->loading++;
	switch (c->kind) {
	case SQL_FLAT:
		rc = flat_load(&s->flat, c->flat, e);
		break;
	case SQL_CALL:
		rc = trace_launches(s->trace, s->schema->id, &s->calls, e);
		break;
	case SQL_SCOPE:
		rc = row_scopes_load(&s->scopes, s->trace, s->schema, e);
		break;
	case SQL_CALLER:
		rc = load_callers(s, e);
		break;
	case SQL_RECORDING:
		rc = trace_load(s->trace, s->schema->id, 1, e);
		break;
	}
	s->sql->loading--;
	c->loaded = rc >= 0;
	return rc < 0 ? rc : 0;
}

bool sql_times_fit(const struct sql_source *s, size_t process)
{
	const uint64_t *times = trace_u64(s->trace, s->schema->id, s->schema->time_column);
	uint64_t rows = trace_first_row(s->trace, s->schema->id, process + 1);
	__int128 last = rows && times ? (__int128)times[rows - 1] + s->flat.offset_ns : 0;

	return last >= 0 && last <= INT64_MAX && s->flat.offset_ns >= 0;
}

static size_t read_callers(const struct sql_source *s, const struct flat_rows *rows,
			   uint64_t *values, uint8_t *valid)
{
	const struct callers *callers = s->sql->callers[s->recording];
	uint64_t from = 0, end = 0;
	size_t process = 0, present = 0;

	for (size_t i = 0; i < rows->count; i++) {
		uint64_t row = rows->list ? rows->list[i] : rows->first + i;

		if (row < from || row >= end) {
			process = trace_row_process(s->trace, s->schema->id, row);
			from = trace_first_row(s->trace, s->schema->id, process);
			end = trace_first_row(s->trace, s->schema->id, process + 1);
		}
		values[i] =
			callers_of_call(callers, process, s->calls ? s->calls[row] : (uint32_t)row);
		valid[i] = values[i] != CALLER_NONE;
		present += valid[i];
	}
	return present;
}

size_t sql_read(const struct sql_source *s, size_t column, const struct flat_rows *rows,
		uint64_t *values, uint8_t *valid)
{
	const struct sql_column *c = &s->columns.data[column];

	size_t present = 0;

	if (c->kind == SQL_FLAT)
		return flat_read(&s->flat, c->flat, rows, values, valid);
	if (c->kind == SQL_CALLER)
		return read_callers(s, rows, values, valid);
	for (size_t i = 0; i < rows->count; i++) {
		uint64_t row = rows->list ? rows->list[i] : rows->first + i;

		valid[i] = 1;
		values[i] = s->recording;
		if (c->kind == SQL_CALL) {
			valid[i] = s->calls[row] != TRACE_NO_ROW;
			values[i] = valid[i] ? sql_rowid(s, s->calls[row]) : 0;
		} else if (c->kind == SQL_SCOPE) {
			valid[i] = s->scopes.paths[row] != SCOPE_NONE;
			values[i] = valid[i] ? s->scopes.paths[row] : 0;
		}
		present += valid[i];
	}
	return present;
}

/* ---- texts ---- */

static uint32_t make_text(struct sql_source *s, struct sql_column *c, uint64_t value)
{
	_cleanup_strbuf_ struct strbuf room = STRBUF_INIT, text = STRBUF_INIT;
	const char *bytes;
	size_t length;
	int64_t item;

	if (c->kind == SQL_FLAT) {
		bytes = flat_text(&s->flat, c->flat, value, &room, &length);
	} else {
		if (c->kind == SQL_SCOPE)
			scope_path_text(&s->scopes.ranges, s->trace, (uint32_t)value, &room);
		else if (c->kind == SQL_CALLER)
			caller_text(s->sql->callers[s->recording], (uint32_t)value, CALLER_NONE,
				    &room);
		else
			strbuf_adds(&room, s->sql->recordings[s->recording].name);
		bytes = strbuf_text(&room);
		length = room.length;
	}
	strbuf_add_utf8(&text, bytes, length);
	item = interner_add(&s->sql->texts, strbuf_text(&text), text.length, NULL);
	return room.failed || text.failed || item < 0 || item >= UINT32_MAX - 1
		       ? 0
		       : (uint32_t)item + 1;
}

uint32_t sql_text_item(struct sql_source *s, size_t column, uint64_t value)
{
	struct sql_column *c = &s->columns.data[column];
	size_t count = c->texts.count;

	/* Values are numbers of strings, rows, processes or paths: dense. */
	if (value >= count) {
		if (value >= UINT32_MAX || vec_reserve(&c->texts, value + 1 - count) < 0)
			return 0;
		memset(c->texts.data + count, 0, (value + 1 - count) * sizeof(*c->texts.data));
		c->texts.count = value + 1;
	}
	if (!c->texts.data[value])
		c->texts.data[value] = make_text(s, c, value);
	return c->texts.data[value];
}

/* ---- indexes ---- */

#define CHUNK 4096

struct entry {
	int64_t key;
	uint32_t row;
	uint32_t has_value;
};
ORDER(by_key, struct entry, UP(has_value) ?: UP(key) ?: UP(row))

struct ranked_text {
	const struct interned *text;
	uint32_t item;
};
ORDER(by_text, struct ranked_text,
      memcmp(a->text->text, b->text->text, MIN(a->text->length, b->text->length))
	      ?: ORDER_OF(a->text->length, b->text->length))

/* Sets ranks that are not 0 to the ranks of their texts. 0 or -ENOMEM. */
static int rank_texts(const struct interner *texts, uint32_t *ranks, size_t count)
{
	VEC(struct ranked_text) known = VEC_INIT;
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (ranks[i])
			rc = vec_push(&known, ((struct ranked_text){ &texts->items[i], i }));
	vec_sort(&known, by_text);
	for (uint32_t i = 0; i < known.count; i++)
		ranks[known.data[i].item] = i + 1;
	vec_release(&known);
	return rc;
}

/* Turns values of a text column into ranks. 0 or -ENOMEM. */
static int read_ranks(struct sql_source *s, size_t column, struct sql_index *index,
		      const uint8_t *valid)
{
	for (size_t i = 0; i < index->count; i++)
		if (valid[i]) {
			index->keys[i] = sql_text_item(s, column, (uint64_t)index->keys[i]);
			if (!index->keys[i])
				return -ENOMEM;
		}
	if (vec_reserve(&index->ranks, s->sql->texts.count + 1) < 0)
		return -ENOMEM;
	index->ranks.count = s->sql->texts.count;
	memset(index->ranks.data, 0, index->ranks.count * sizeof(*index->ranks.data));
	for (size_t i = 0; i < index->count; i++)
		if (valid[i])
			index->ranks.data[index->keys[i] - 1] = 1;
	if (rank_texts(&s->sql->texts, index->ranks.data, index->ranks.count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < index->count; i++)
		if (valid[i])
			index->keys[i] = index->ranks.data[index->keys[i] - 1];
	return 0;
}

/* Reads the keys of all rows; those of rows without a value are 0. 0 or -ENOMEM. */
static int read_keys(struct sql_source *s, size_t column, struct sql_index *index, uint8_t *valid)
{
	for (size_t first = 0; first < index->count; first += CHUNK) {
		struct flat_rows r = { .first = first,
				       .count = MIN(index->count - first, (size_t)CHUNK) };

		sql_read(s, column, &r, (uint64_t *)index->keys + first, valid + first);
	}
	return sql_is_text(&s->columns.data[column]) ? read_ranks(s, column, index, valid) : 0;
}

/*
 * Sorts by counting where keys are small numbers, as most are that rows are grouped by: a sixth of
 * the time of qsort(). Returns 1, 0 if they are not, or -ENOMEM. Rows without a value come first,
 * as NULL does.
 */
static int count_keys(struct sql_index *index, const uint8_t *valid)
{
	int64_t least = INT64_MAX, most = INT64_MIN, *keys = index->keys;
	uint64_t width, at = 0;
	uint32_t *starts;

	for (size_t i = 0; i < index->count; i++) {
		least = valid[i] ? MIN(least, keys[i]) : least;
		most = valid[i] ? MAX(most, keys[i]) : most;
	}
	width = most < least ? 0 : (uint64_t)most - (uint64_t)least;
	if (width > index->count + UINT16_MAX)
		return 0;
	starts = calloc(width + 3, sizeof(*starts));
	if (!starts)
		return -ENOMEM;
#define SLOT(i) (valid[i] ? (uint64_t)keys[i] - (uint64_t)least + 1 : 0)
	for (size_t i = 0; i < index->count; i++)
		starts[SLOT(i) + 1]++;
	for (size_t i = 1; i < width + 3; i++)
		starts[i] += starts[i - 1];
	for (size_t i = 0; i < index->count; i++)
		index->rows[starts[SLOT(i)]++] = (uint32_t)i;
#undef SLOT
	/* Now starts[slot] is where the slot ends. */
	for (uint64_t slot = 0; slot < width + 2; slot++)
		while (at < starts[slot])
			keys[at++] = slot ? (int64_t)((uint64_t)least + slot - 1) : INT64_MIN;
	free(starts);
	return 1;
}

static int sort_keys(struct sql_index *index, const uint8_t *valid)
{
	_cleanup_free_ struct entry *entries = malloc((index->count + 1) * sizeof(*entries));

	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < index->count; i++)
		entries[i] = (struct entry){ valid[i] ? index->keys[i] : INT64_MIN, (uint32_t)i,
					     valid[i] };
	if (index->count)
		qsort(entries, index->count, sizeof(*entries), by_key);
	for (size_t i = 0; i < index->count; i++) {
		index->keys[i] = entries[i].key;
		index->rows[i] = entries[i].row;
	}
	return 0;
}

int sql_index_make(struct sql_source *s, size_t column, struct error *e)
{
	struct sql_column *c = &s->columns.data[column];
	struct sql_index index = { .count = trace_rows(s->trace, s->schema->id) };
	_cleanup_free_ uint8_t *valid = NULL;
	int rc = c->index.rows ? 0 : sql_load(s, column, e);

	if (rc < 0 || c->index.rows)
		return rc;
	s->sql->loading++;
	valid = malloc(index.count + 1);
	index.keys = malloc((index.count + 1) * sizeof(*index.keys));
	index.rows = malloc((index.count + 1) * sizeof(*index.rows));
	rc = valid && index.keys && index.rows ? read_keys(s, column, &index, valid) : -ENOMEM;
	if (rc >= 0)
		rc = count_keys(&index, valid);
	if (rc == 0)
		rc = sort_keys(&index, valid);
	s->sql->loading--;
	if (rc < 0) {
		free(index.keys);
		free(index.rows);
		vec_release(&index.ranks);
		return error_set(e, -ENOMEM, "out of memory");
	}
	c->index = index;
	return 0;
}
