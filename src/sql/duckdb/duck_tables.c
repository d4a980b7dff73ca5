/*
 * duck_tables.c: one table function reads all tables, by the table's name, with which the name in a
 * statement is replaced. Threads take the rows in portions, and fill DuckDB's vectors with them:
 * numbers in place, texts as pointers to sql.texts, of which each is made once.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sql/duckdb/duck_engine.h"
#include "sql/sql_error.h"
#include "sql/sql_summary.h"
#include "sql/sql_table.h"
#include "sql/sql_views.h"

#define PORTION ((uint64_t)32 * DUCK_CHUNK) /* rows that a thread takes */
#define ROWID SIZE_MAX /* in place of a column */
#define NOTHING (SIZE_MAX - 1) /* a vector that nothing reads */
#define ITEMS ((size_t)1 << 32) /* beside a column: numbers of texts, 0 without one */
#define UNMADE UINT32_MAX /* length of a text */

/*
 * Texts by value. Threads read while another adds: what is there is complete once its length is
 * set, and an array that became too small stays until the end.
 */
struct text_array {
	struct text_array *before;
	size_t count;
	struct duck_text items[];
};

struct texts {
	_Atomic(struct text_array *) array;
};

/* What a statement reads of a table. */
struct bound {
	struct duck *duck;
	struct duck_table *table; /* NULL: a summary */
	struct duck_summary *summary;
	const char *items; /* names of columns with ITEMS; only while it is bound */
	size_t count;
	size_t *columns; /* number in the table, also with ITEMS, or ROWID */
};

struct scan {
	const struct bound *bound;
	_Atomic uint64_t next; /* portion */
	size_t count;
	size_t columns[]; /* of the vectors */
};

/* Of a thread. */
struct portion {
	size_t recording;
	uint64_t from, to;
	uint64_t values[DUCK_CHUNK];
	uint8_t valid[DUCK_CHUNK];
};

static void keep_error(struct duck *d, int rc, const struct error *e)
{
	pthread_mutex_lock(&d->texts);
	sql_table_failed(d->sql, rc, e);
	pthread_mutex_unlock(&d->texts);
}

/* ---- tables ---- */

static void free_table(struct duck_table *t, size_t recordings)
{
	if (!t)
		return;
	for (size_t i = 0; t->texts && i < recordings * t->column_count; i++)
		for (struct text_array *a = t->texts[i].array, *before; a; a = before) {
			before = a->before;
			free(a);
		}
	for (size_t i = 0; t->sources && i < recordings; i++)
		sql_source_release(&t->sources[i]);
	free(t->sources);
	free(t->texts);
	free(t->distinct);
	free(t);
}

void duck_tables_free(struct duck *d)
{
	for (size_t i = 0; i <= TABLE_MAX; i++)
		free_table(d->tables[i], d->sql->count);
	for (size_t i = 0; i < d->summaries.count; i++)
		duck_summary_free(d->summaries.data[i]);
	vec_release(&d->summaries);
	vec_release(&d->views);
	vec_release(&d->distinct);
}

int duck_table_find(struct duck *d, enum table_id id, struct duck_table **out, struct error *e)
{
	struct duck_table *t = d->tables[id];
	int rc = 0;

	*out = t;
	if (t)
		return 0;
	t = calloc(1, sizeof(*t));
	if (t)
		t->sources = calloc(d->sql->count, sizeof(*t->sources));
	if (!t || !t->sources)
		rc = error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < d->sql->count && rc >= 0; i++)
		rc = sql_source_init(&t->sources[i], d->sql, i, id, e);
	if (rc >= 0) {
		t->column_count = t->sources[0].columns.count;
		t->texts = calloc(d->sql->count * t->column_count, sizeof(*t->texts));
		t->distinct = calloc(t->column_count, sizeof(*t->distinct));
		if (!t->texts || !t->distinct)
			rc = error_set(e, -ENOMEM, "out of memory");
	}
	if (rc < 0) {
		free_table(t, d->sql->count);
		return rc;
	}
	d->tables[id] = *out = t;
	return 0;
}

static enum table_id table_id(const char *name)
{
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (id != TABLE_string && !sqlite3_stricmp(schema_table(id)->name, name))
			return (enum table_id)id;
	return 0;
}

/* ---- bind: the columns of a table ---- */

static void free_bound(void *data)
{
	struct bound *b = data;

	free(b->columns);
	free(b);
}

static void add_column(void *info, struct bound *b, size_t column, const char *name, int type)
{
	void *logical = duck_api.create_logical_type(type);

	duck_api.bind_add_result_column(info, name, logical);
	duck_api.destroy_logical_type(&logical);
	b->columns[b->count++] = column;
}

static void add_table_column(void *info, struct bound *b, size_t column)
{
	const struct sql_column *c = &b->table->sources[0].columns.data[column];
	const char *type = sql_column_type(c);

	if (sql_find_word(b->items, c->name))
		add_column(info, b, column | ITEMS, c->name, DUCK_BIGINT);
	else
		add_column(info, b, column, c->name,
			   !strcmp(type, "TEXT")   ? DUCK_VARCHAR
			   : !strcmp(type, "REAL") ? DUCK_DOUBLE
						   : DUCK_BIGINT);
}

static void bind_table(void *info, struct bound *b)
{
	const struct sql *sql = b->duck->sql;
	uint64_t rows = 0;

	/* As in SQLite, `*` has the recording's name only where there are several. */
	for (size_t i = 0; i < b->table->column_count; i++)
		if (b->table->sources[0].columns.data[i].kind != SQL_RECORDING || sql->count > 1)
			add_table_column(info, b, i);
	for (size_t i = 0; i < b->table->column_count && sql->count == 1; i++)
		if (b->table->sources[0].columns.data[i].kind == SQL_RECORDING &&
		    b->duck->has_recording)
			add_table_column(info, b, i);
	if (b->duck->has_rowid)
		add_column(info, b, ROWID, "rowid", DUCK_BIGINT);
	for (size_t i = 0; i < sql->count; i++)
		rows += trace_rows(sql->recordings[i].trace, b->table->sources[i].schema->id);
	duck_api.bind_set_cardinality(info, rows, false);
}

static void bind_summary(void *info, struct bound *b)
{
	for (size_t i = 0; i < b->summary->count; i++)
		add_column(info, b, i, b->summary->columns[i].name, b->summary->columns[i].type);
	if (b->duck->has_rowid && sql_summary_known(b->summary->name))
		add_column(info, b, ROWID, "rowid", DUCK_BIGINT);
}

static int bind_name(void *info, struct bound *b, const char *name, struct error *e)
{
	_cleanup_free_ char *table = strndup(name, strcspn(name, ":"));
	enum table_id id = table ? table_id(table) : 0;
	int rc = id ? duck_table_find(b->duck, id, &b->table, e)
		    : duck_summary_find(b->duck, name, &b->summary, e);

	if (rc < 0)
		return rc;
	if (!b->table && !b->summary)
		return error_set(e, E_USAGE, "there is no table '%s'", name);
	b->columns = calloc((b->table ? b->table->column_count : b->summary->count) + 1,
			    sizeof(*b->columns));
	if (!b->columns || !table)
		return error_set(e, -ENOMEM, "out of memory");
	b->items = name + strlen(table);
	(b->table ? bind_table : bind_summary)(info, b);
	return 0;
}

static void bind(void *info)
{
	void *value = duck_api.bind_get_parameter(info, 0);
	char *name = value ? duck_api.get_varchar(value) : NULL;
	struct bound *b = calloc(1, sizeof(*b));
	struct error e = { 0 };
	int rc = error_set(&e, -ENOMEM, "out of memory");

	if (b) {
		b->duck = duck_api.bind_get_extra_info(info);
		duck_api.bind_set_bind_data(info, b, free_bound);
	}
	if (b && name)
		rc = bind_name(info, b, name, &e);
	if (rc < 0) {
		if (b)
			keep_error(b->duck, rc, &e);
		duck_api.bind_set_error(info, e.text);
	}
	if (name)
		duck_api.free(name);
	if (value)
		duck_api.destroy_value(&value);
}

/* ---- init: the columns of a statement ---- */

static uint64_t source_rows(const struct sql_source *s)
{
	return trace_rows(s->trace, s->schema->id);
}

static int load(const struct scan *scan, struct error *e)
{
	const struct bound *b = scan->bound;
	int rc = 0;

	if (b->summary)
		return duck_summary_make(b->duck, b->summary, e);
	for (size_t i = 0; i < b->duck->sql->count && rc >= 0; i++) {
		struct sql_source *s = &b->table->sources[i];

		/* Processes of rows are known once any column is loaded. */
		if (source_rows(s))
			rc = sql_load(s, 0, e);
		for (size_t c = 0; c < scan->count && rc >= 0 && source_rows(s); c++)
			if (scan->columns[c] != ROWID && scan->columns[c] != NOTHING)
				rc = sql_load(s, scan->columns[c] & ~ITEMS, e);
	}
	return rc;
}

static uint64_t portions(uint64_t rows)
{
	return (rows + PORTION - 1) / PORTION;
}

static uint64_t all_portions(const struct bound *b)
{
	uint64_t count = 0;

	if (b->summary)
		return portions(b->summary->cells.count / b->summary->count);
	for (size_t i = 0; i < b->duck->sql->count; i++)
		count += portions(source_rows(&b->table->sources[i]));
	return count;
}

static void init(void *info)
{
	const struct bound *b = duck_api.init_get_bind_data(info);
	size_t count = duck_api.init_get_column_count(info);
	struct scan *scan = calloc(1, sizeof(*scan) + count * sizeof(*scan->columns));
	struct error e = { 0 };
	int rc = error_set(&e, -ENOMEM, "out of memory");

	if (scan) {
		scan->bound = b;
		scan->count = count;
		for (size_t i = 0; i < count; i++) {
			uint64_t column = duck_api.init_get_column_index(info, i);

			scan->columns[i] = column < b->count ? b->columns[column] : NOTHING;
		}
		pthread_rwlock_wrlock(&b->duck->loads);
		rc = load(scan, &e);
		pthread_rwlock_unlock(&b->duck->loads);
		duck_api.init_set_init_data(info, scan, free);
		if (rc >= 0)
			duck_api.init_set_max_threads(info, MAX(all_portions(b), (uint64_t)1));
	}
	if (rc < 0) {
		keep_error(b->duck, rc, &e);
		duck_api.init_set_error(info, e.text);
	}
}

static void init_thread(void *info)
{
	struct portion *p = calloc(1, sizeof(*p));

	if (p)
		duck_api.init_set_init_data(info, p, free);
	else
		duck_api.init_set_error(info, "out of memory");
}

/* ---- texts ---- */

static bool grow(struct texts *t, size_t count)
{
	struct text_array *before = t->array, *array;

	count = MAX(count, before ? before->count * 2 : 64);
	array = malloc(sizeof(*array) + count * sizeof(*array->items));
	if (!array)
		return false;
	/* Sets all lengths to UNMADE. */
	memset(array->items, 0xff, count * sizeof(*array->items));
	if (before)
		memcpy(array->items, before->items, before->count * sizeof(*array->items));
	array->before = before;
	array->count = count;
	atomic_store_explicit(&t->array, array, memory_order_release);
	return true;
}

static bool make_text(struct duck *d, struct sql_source *s, size_t column, struct texts *t,
		      uint64_t value, struct duck_text *out)
{
	uint32_t item;
	bool made;

	pthread_mutex_lock(&d->texts);
	item = sql_text_item(s, column, value);
	made = item && ((t->array && value < t->array->count) || grow(t, value + 1));
	if (made) {
		struct duck_text *entry = &t->array->items[value];

		*out = duck_text(&d->sql->texts.items[item - 1]);
		memcpy(entry->bytes, out->bytes, sizeof(entry->bytes));
		__atomic_store_n(&entry->length, out->length, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&d->texts);
	return made;
}

static bool read_text(struct duck *d, struct sql_source *s, size_t column, struct texts *t,
		      const struct text_array *array, uint64_t value, struct duck_text *out)
{
	if (array && value < array->count) {
		const struct duck_text *entry = &array->items[value];

		out->length = __atomic_load_n(&entry->length, __ATOMIC_ACQUIRE);
		memcpy(out->bytes, entry->bytes, sizeof(out->bytes));
		if (out->length != UNMADE)
			return true;
	}
	return make_text(d, s, column, t, value, out);
}

/* ---- rows ---- */

static void set_missing(void *vector, const uint8_t *valid, size_t count)
{
	uint64_t *bits;

	duck_api.vector_ensure_validity_writable(vector);
	bits = duck_api.vector_get_validity(vector);
	for (size_t i = 0; i < count; i++)
		if (!valid[i])
			bits[i / 64] &= ~(UINT64_C(1) << i % 64);
}

static bool fill_texts(struct duck *d, struct duck_table *table, const struct portion *p,
		       size_t column, size_t count, struct duck_text *out)
{
	struct texts *t = &table->texts[p->recording * table->column_count + column];
	const struct text_array *array = atomic_load_explicit(&t->array, memory_order_acquire);
	struct sql_source *s = &table->sources[p->recording];

	for (size_t i = 0; i < count; i++) {
		if (!p->valid[i])
			out[i] = (struct duck_text){ 0 };
		else if (i && p->valid[i - 1] && p->values[i] == p->values[i - 1])
			out[i] = out[i - 1];
		else if (!read_text(d, s, column, t, array, p->values[i], &out[i]))
			return false;
	}
	return true;
}

/* duck_distinct.c has made the texts of all values. */
static void read_items(struct sql_source *s, size_t column, const struct flat_rows *rows,
		       uint64_t *data, uint8_t *valid)
{
	const uint32_t *items = s->columns.data[column].texts.data;

	sql_read(s, column, rows, data, valid);
	for (size_t i = 0; i < rows->count; i++)
		data[i] = valid[i] ? items[data[i]] : 0;
}

static bool fill_column(struct duck *d, struct duck_table *table, struct portion *p, size_t column,
			size_t count, void *vector)
{
	struct flat_rows rows = { .first = p->from, .count = count };
	struct sql_source *s = &table->sources[p->recording];
	uint64_t *data = duck_api.vector_get_data(vector);
	bool is_text;

	if (column == ROWID) {
		for (size_t i = 0; i < count; i++)
			data[i] = sql_rowid(s, p->from + i);
		return true;
	}
	if (column & ITEMS) {
		read_items(s, column & ~ITEMS, &rows, data, p->valid);
		return true;
	}
	is_text = sql_is_text(&s->columns.data[column]);
	if (sql_read(s, column, &rows, is_text ? p->values : data, p->valid) < count)
		set_missing(vector, p->valid, count);
	return !is_text || fill_texts(d, table, p, column, count, (struct duck_text *)data);
}

/* The rows of the next portion; false: there are no more. */
static bool take_portion(struct scan *scan, struct portion *p)
{
	const struct bound *b = scan->bound;
	uint64_t number = atomic_fetch_add(&scan->next, 1), rows;

	for (size_t i = 0; i < b->duck->sql->count; i++) {
		rows = source_rows(&b->table->sources[i]);
		if (number < portions(rows)) {
			p->recording = i;
			p->from = number * PORTION;
			p->to = MIN(p->from + PORTION, rows);
			return true;
		}
		number -= portions(rows);
	}
	return false;
}

static bool take_summary(struct scan *scan, struct portion *p)
{
	const struct duck_summary *s = scan->bound->summary;
	uint64_t rows = s->cells.count / s->count, number = atomic_fetch_add(&scan->next, 1);

	p->from = MIN(number * PORTION, rows);
	p->to = MIN(p->from + PORTION, rows);
	return p->from < p->to;
}

static void fill_summary(const struct duck_summary *s, const struct portion *p, size_t column,
			 size_t count, void *vector)
{
	void *data = duck_api.vector_get_data(vector);
	uint8_t valid[DUCK_CHUNK];

	for (size_t i = 0; i < count && column == ROWID; i++)
		((uint64_t *)data)[i] = p->from + i;
	if (column == ROWID)
		return;
	for (size_t i = 0; i < count; i++) {
		size_t cell = (p->from + i) * s->count + column;

		valid[i] = s->valid.data[cell];
		if (s->columns[column].type == DUCK_VARCHAR)
			((struct duck_text *)data)[i] = s->cells.data[cell].text;
		else
			((int64_t *)data)[i] = s->cells.data[cell].integer;
	}
	set_missing(vector, valid, count);
}

static bool fill(const struct scan *scan, struct portion *p, size_t count, void *chunk)
{
	const struct bound *b = scan->bound;
	bool filled = true;

	for (size_t i = 0; i < scan->count && filled; i++) {
		void *vector = duck_api.data_chunk_get_vector(chunk, i);

		if (scan->columns[i] == NOTHING)
			continue;
		if (b->table)
			filled = fill_column(b->duck, b->table, p, scan->columns[i], count, vector);
		else
			fill_summary(b->summary, p, scan->columns[i], count, vector);
	}
	return filled;
}

static void read_rows(void *info, void *chunk)
{
	struct scan *scan = duck_api.function_get_init_data(info);
	struct portion *p = duck_api.function_get_local_init_data(info);
	struct duck *d = scan->bound->duck;
	bool filled = true;
	size_t count = 0;

	pthread_rwlock_rdlock(&d->loads);
	if (p->from < p->to || (scan->bound->table ? take_portion : take_summary)(scan, p)) {
		count = MIN(p->to - p->from, (uint64_t)DUCK_CHUNK);
		filled = fill(scan, p, count, chunk);
		p->from += count;
	}
	pthread_rwlock_unlock(&d->loads);
	duck_api.data_chunk_set_size(chunk, count);
	if (!filled)
		duck_api.function_set_error(info, "out of memory");
}

/* ---- registration ---- */

/* Called for names of tables that DuckDB does not know. */
static void replace(void *info, const char *table, void *user)
{
	struct duck_summary *summary = NULL;
	struct error e = { 0 };
	struct duck *d = user;
	void *value;

	if (!table_id(table) && (duck_summary_find(d, table, &summary, &e) < 0 || !summary))
		return;
	value = duck_api.create_varchar(table);
	duck_api.replacement_scan_set_function_name(info, DUCK_TABLE_FUNCTION);
	duck_api.replacement_scan_add_parameter(info, value);
	duck_api.destroy_value(&value);
}

int duck_tables_add(struct duck *d, struct error *e)
{
	void *function = duck_api.create_table_function();
	void *text = duck_api.create_logical_type(DUCK_VARCHAR);
	int rc;

	duck_api.table_function_set_name(function, DUCK_TABLE_FUNCTION);
	duck_api.table_function_add_parameter(function, text);
	duck_api.table_function_set_extra_info(function, d, NULL);
	duck_api.table_function_set_bind(function, bind);
	duck_api.table_function_set_init(function, init);
	duck_api.table_function_set_local_init(function, init_thread);
	duck_api.table_function_set_function(function, read_rows);
	duck_api.table_function_supports_projection_pushdown(function, true);
	rc = duck_api.register_table_function(d->connection, function);
	duck_api.destroy_logical_type(&text);
	duck_api.destroy_table_function(&function);
	if (rc != 0)
		return error_set(e, E_UNSUPPORTED, "DuckDB refuses a table function");
	duck_api.add_replacement_scan(d->database, replace, d, NULL);
	return 0;
}

/* ---- views and hidden columns, before a statement ---- */

struct preparation {
	struct duck *duck;
	const char *text;
	struct strbuf words; /* of the text, and of views in it */
	struct error *e;
	int rc;
};

static bool is_made(const struct duck *d, const char *view)
{
	for (size_t i = 0; i < d->views.count; i++)
		if (!strcmp(d->views.data[i], view))
			return true;
	return false;
}

static void add_words(struct duck *d, const char *text)
{
	d->has_rowid |= sql_find_word(text, "rowid") != NULL;
	d->has_recording |= sql_find_word(text, "recording") != NULL;
}

static void prepare_view(void *user, const struct sql_item *item)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct preparation *p = user;
	const char *select = sql_alias_select(item->name);

	if (p->rc < 0 || !sql_find_word(p->text, item->name))
		return;
	add_words(p->duck, select);
	strbuf_addf(&p->words, " %s", select);
	if (is_made(p->duck, item->name))
		return;
	strbuf_addf(&text, "CREATE VIEW \"%s\" AS %s", item->name, select);
	p->rc = text.failed ? error_set(p->e, -ENOMEM, "out of memory")
			    : duck_execute(p->duck, strbuf_text(&text), p->e);
	if (p->rc >= 0 && vec_push(&p->duck->views, item->name) < 0)
		p->rc = error_set(p->e, -ENOMEM, "out of memory");
}

int duck_tables_prepare(struct duck *d, const char *text, struct error *e)
{
	struct preparation p = { .duck = d, .text = text, .words = STRBUF_INIT, .e = e };

	d->has_rowid = d->has_recording = false;
	add_words(d, text);
	strbuf_adds(&p.words, text);
	sql_aliases_visit(prepare_view, &p);
	if (p.rc >= 0)
		p.rc = duck_distinct_prepare(d, text, strbuf_text(&p.words), e);
	strbuf_release(&p.words);
	return p.rc;
}
