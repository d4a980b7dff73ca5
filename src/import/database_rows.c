#include "import/database_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "format/rows.h"
#include "schema/event_words.h"

#define FLUSH_ROWS (1u << 20)
#define FLUSH_BYTES ((uint64_t)16 << 20) /* of texts */
#define STRING_BYTES_MAX ((size_t)256 << 20)
#define STACK_NODES_MAX (1u << 22)
#define ROW_BYTES_MAX 256

void database_loss(struct database_import *m, enum loss_reason reason, uint64_t count,
		   const char *detail)
{
	import_losses_add(&m->losses, reason, count, detail);
	m->result->unknown += reason == loss_reason_unknown_record ? count : 0;
	m->result->damaged += reason == loss_reason_damaged_file ? count : 0;
}

/* ---- processes ---- */

static int open_writer(struct database_import *m, struct database_process *p, struct error *e)
{
	char prefix[16];
	struct writer_options options = { .directory = m->directory,
					  .prefix = prefix,
					  .session = p->session,
					  .now_ns = &p->last_ns };

	snprintf(prefix, sizeof(prefix), "%u", p->pid);
	return writer_open(&options, &p->writer, e);
}

static struct database_process *add_process(struct database_import *m, uint64_t key,
					    struct error *e)
{
	struct database_process *p = calloc(1, sizeof(*p));
	uint64_t identity[3] = { key, m->processes.count, m->result->sessions };

	if (!p || vec_push(&m->processes, p) < 0) {
		free(p);
		error_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	p->key = key;
	p->pid = m->pid_of(m, key);
	p->session = hash_bytes(identity, sizeof(identity)) ^ hash_bytes(m->path, strlen(m->path));
	p->session |= 1;
	stack_tree_init(&p->stacks, STACK_NODES_MAX, NULL, NULL);
	m->result->sessions++;
	if (map_put(&m->process_of, key, m->processes.count - 1) < 0) {
		error_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	return open_writer(m, p, e) < 0 ? NULL : p;
}

struct database_process *database_process(struct database_import *m, uint64_t key, struct error *e)
{
	uint64_t item;

	if (m->last && m->last->key == key)
		return m->last;
	if (map_get(&m->process_of, key, &item))
		return m->last = m->processes.data[item];
	if (m->processes.count < DATABASE_PROCESSES_MAX)
		return m->last = add_process(m, key, e);
	database_loss(m, loss_reason_process_limit, 1, "rows of further processes");
	return NULL;
}

/* ---- values ---- */

const struct interned *database_text(const struct database_import *m, uint64_t number)
{
	uint64_t item;

	return map_get(&m->text_of, number, &item) ? &m->texts.items[item] : NULL;
}

uint32_t database_string(struct database_import *m, struct database_process *p, uint64_t number)
{
	struct database_id *known = &p->ids[number % ARRAY_SIZE(p->ids)];
	uint32_t epoch = writer_epoch(p->writer);
	const struct interned *text;
	char unknown[48];

	if (known->number == number && known->epoch == epoch)
		return known->id;
	text = database_text(m, number);
	if (text) {
		p->text_bytes += text->length / 8; /* most are repeated */
		*known = (struct database_id){ number, epoch,
					       writer_string(p->writer, text->text, text->length) };
		return known->id;
	}
	database_loss(m, loss_reason_damaged_file, 1, "numbers of strings that do not exist");
	snprintf(unknown, sizeof(unknown), "unknown string %llu", (unsigned long long)number);
	return rows_text(p->writer, unknown);
}

bool database_time(struct database_import *m, int64_t time, uint64_t *time_ns)
{
	int64_t sum;

	if (__builtin_add_overflow(time, m->offset_ns, &sum) || sum < 0)
		return false;
	*time_ns = (uint64_t)sum;
	return true;
}

static int64_t least_of(const struct column_schema *c)
{
	return column_is_signed(c) && c->width == 4 ? INT32_MIN : c->width == 8 ? INT64_MIN : 0;
}

/* Priorities are written as unsigned numbers, those of 2^63 and above as negative ones. */
static uint64_t most_of(const struct column_schema *c)
{
	return c->width == 8 ? INT64_MAX : (UINT64_C(1) << (8 * c->width)) - 1;
}

/* Converts a value that is not NULL. Returns false if it cannot be in the column. */
static bool convert(struct database_import *m, struct database_process *p, const struct field *f,
		    const struct column_schema *c, int64_t v, uint64_t *value)
{
	switch (f->kind) {
	case FIELD_TIME:
	case FIELD_TIME_OR_0:
		return database_time(m, v, value);
	case FIELD_STRING:
		*value = database_string(m, p, (uint64_t)v);
		return true;
	case FIELD_ENUM:
		*value = v >= 0 && v < ENUM_ENTRIES ? f->map[v] : 0;
		return v >= 0 && v < ENUM_ENTRIES;
	default:
		*value = (uint64_t)v;
		return v >= least_of(c) && (v < 0 || (uint64_t)v <= most_of(c));
	}
}

static bool is_none(const struct field *f, int64_t v)
{
	return (v == 0 && (f->kind == FIELD_NUMBER_OR_0 || f->kind == FIELD_TIME_OR_0)) ||
	       (v == UINT32_MAX && f->kind == FIELD_ID);
}

/* Counts a value that is missing where it must not be, or is none. */
static void count_unusable(struct database_import *m, const struct table_schema *t,
			   const struct field *f)
{
	char detail[120];

	snprintf(detail, sizeof(detail), "unusable values of %s for %s", f->from, t->name);
	database_loss(m, loss_reason_damaged_file, 1, detail);
}

/* What a column has that must have a value, and of which none is known. */
static uint32_t unknown_of(const struct table_schema *t, int column)
{
	const int8_t *r = t->roles;

	return column == r[ROLE_DEVICE] || column == r[ROLE_CONTEXT] || column == r[ROLE_STREAM]
		       ? UINT32_MAX
		       : 0;
}

void database_fill(struct database_import *m, struct database_process *p, const struct query *q,
		   int at, enum table_id table, const struct field *fields, size_t count, void *row)
{
	const struct table_schema *t = schema_table(table);
	uint64_t missing = t->maybe;

	memset(row, 0, t->row_size);
	for (size_t i = 0; i < count; i++) {
		const struct field *f = &fields[i];
		const struct column_schema *c = &t->columns[f->to];
		uint64_t value = 0;
		int64_t v = 0;
		enum query_type type = query_value(q, at + (int)i, &v);
		size_t length;

		if (f->kind == FIELD_TEXT) {
			const char *text = query_text(q, at + (int)i, &length);

			p->text_bytes += length;
			value = writer_string(p->writer, text ? text : "", length);
			type = text ? QUERY_INTEGER : QUERY_NULL;
		} else if (type == QUERY_INTEGER && is_none(f, v)) {
			type = QUERY_NULL;
		} else if ((type != QUERY_NULL && type != QUERY_INTEGER) ||
			   (type == QUERY_INTEGER && !convert(m, p, f, c, v, &value))) {
			count_unusable(m, t, f);
			type = QUERY_NULL;
		}
		if (type == QUERY_INTEGER)
			missing &= ~(UINT64_C(1) << f->to);
		else
			value = c->maybe ? 0 : unknown_of(t, f->to);
		memcpy((char *)row + c->row_offset, &value, c->width); /* little-endian */
	}
	memcpy(row, &missing, sizeof(missing));
}

/* ---- strings ---- */

int database_strings(struct database_import *m, const char *table, const char *id, const char *text,
		     struct error *e)
{
	const char *const columns[] = { id, text };
	struct query q;
	int rc = query_open(&q, &m->db, table, columns, 2, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		size_t length;
		const char *value = query_text(&q, 1, &length);
		int64_t number, item;

		if (query_value(&q, 0, &number) != QUERY_INTEGER || !value ||
		    m->texts.bytes + length > STRING_BYTES_MAX) {
			database_loss(m, loss_reason_string_limit, 1, table);
			continue;
		}
		item = interner_add(&m->texts, value, length, NULL);
		if (item < 0 || map_put(&m->text_of, (uint64_t)number, (uint64_t)item) < 0)
			rc = -ENOMEM;
	}
	database_query_end(m, &q, table);
	return rc < 0 ? error_set(e, rc, "%s: %s", m->path, error_code_text(rc)) : 0;
}

uint32_t database_function(struct database_import *m, struct database_process *p, uint32_t api,
			   uint64_t number)
{
	uint64_t *at = map_at(&m->functions, number << 8 | api, 0);
	const struct interned *text;
	struct row_api_function row;
	uint32_t id;

	if (!at)
		return api << 16;
	if (!*at)
		*at = (uint64_t)api << 16 | MIN(m->functions.count, UINT16_MAX);
	id = (uint32_t)*at;
	if (map_add(&p->functions, id) > 0) {
		text = database_text(m, number);
		row = (struct row_api_function){ .id = id };
		row.kind = (uint8_t)(text ? api_kind_of_function(text->text) : api_kind_other);
		if (text)
			row.waits_for = (uint8_t)synchronization_of_function(text->text);
		ROW_MISSING_IF(&row, api_function, waits_for, !row.waits_for);
		row.name = database_string(m, p, number);
		writer_api_function(p->writer, id, &row);
	} else {
		writer_api_function(p->writer, id, NULL);
	}
	return id;
}

uint64_t database_frame(struct database_import *m, struct database_process *p, uint64_t function,
			uint64_t module)
{
	uint64_t pair[2] = { function, module };
	uint64_t address = hash_bytes(pair, sizeof(pair)) >> 8 << 4;
	struct row_symbol row = { .address = address, .session = p->session };

	if (map_add(&p->symbols, address) <= 0)
		return address;
	row.function = database_string(m, p, function);
	row.module = database_text(m, module) ? database_string(m, p, module) : 0;
	ROW_MISSING_IF(&row, symbol, module, !row.module);
	ROW_MISSING(&row, symbol, file, line, function_start);
	writer_append(p->writer, TABLE_symbol, &row);
	m->result->rows[TABLE_symbol]++;
	return address;
}

/* ---- rows ---- */

/* Which GPU a context is of: columns of GPU work have both. Neighbours are mostly of one. */
static void note_context(struct database_process *p, const struct table_schema *t, const void *row)
{
	int context = t->roles[ROLE_CONTEXT], device = t->roles[ROLE_DEVICE];
	struct database_context c;
	size_t i = p->contexts.count;

	if (!t->gpu_work)
		return;
	c = (struct database_context){ (uint32_t)row_value(t, row, context),
				       (uint32_t)row_value(t, row, device) };
	while (i && p->contexts.data[i - 1].id != c.id)
		i--;
	if (i || c.id == UINT32_MAX || p->contexts.count >= DATABASE_CONTEXTS_MAX)
		return;
	if (vec_push(&p->contexts, c) < 0)
		return; /* is not named */
}

/* Whether the row has its times, which are those of the process then. Counts what has none. */
static bool check_times(struct database_import *m, struct database_process *p,
			const struct table_schema *t, void *row)
{
	int start = t->roles[ROLE_START] >= 0 ? t->roles[ROLE_START] : t->time_column;
	int end = t->roles[ROLE_END] >= 0 ? t->roles[ROLE_END] : start;
	uint64_t bits = 0, missing, start_ns, end_ns;

	if (start < 0)
		return true;
	bits = UINT64_C(1) << start | UINT64_C(1) << end;
	memcpy(&missing, row, sizeof(missing));
	start_ns = row_value(t, row, start);
	end_ns = row_value(t, row, end);
	if (!(missing & bits) && start_ns && end_ns >= start_ns) {
		p->first_ns = p->first_ns ? MIN(p->first_ns, start_ns) : start_ns;
		p->last_ns = MAX(p->last_ns, end_ns);
		return true;
	}
	if (missing & bits && t->columns[start].maybe && start == end)
		return true; /* a moment that was not measured */
	database_loss(m, end_ns < start_ns ? loss_reason_reversed_time : loss_reason_no_time, 1,
		      t->name);
	missing |= bits;
	memcpy(row, &missing, sizeof(missing));
	return t->columns[start].maybe && t->columns[end].maybe;
}

static int flush(struct database_process *p, struct error *e)
{
	struct writer_stats stats;

	writer_flush(p->writer);
	writer_stats(p->writer, &stats);
	p->rows = p->text_bytes = 0;
	return stats.error ? error_errno(e, stats.error, "cannot write the recording") : 0;
}

int database_append(struct database_import *m, struct database_process *p, enum table_id table,
		    const void *row, struct error *e)
{
	writer_append(p->writer, table, row);
	m->result->rows[table]++;
	return ++p->rows >= FLUSH_ROWS || p->text_bytes >= FLUSH_BYTES ? flush(p, e) : 0;
}

static int convert_row(struct database_import *m, const struct conversion *c, const struct query *q,
		       struct error *e)
{
	const struct table_schema *t = schema_table(c->to);
	_Alignas(8) uint8_t row[ROW_BYTES_MAX];
	uint64_t key = (uint64_t)query_number(q, 0, (int64_t)m->default_key) & c->process_mask;
	struct database_process *p = database_process(m, key, e);

	m->result->records++;
	if (!p)
		return e->code;
	database_fill(m, p, q, 1, c->to, c->fields, c->field_count, row);
	if (c->finish && !c->finish(m, p, row, q, 1 + (int)c->field_count))
		return 0;
	if (!check_times(m, p, t, row))
		return 0;
	note_context(p, t, row);
	return database_append(m, p, c->to, row, e);
}

int database_convert(struct database_import *m, const struct conversion *c, struct error *e)
{
	const char *columns[QUERY_COLUMNS_MAX] = { c->process };
	size_t count = 1;
	struct query q;
	int rc;

	for (size_t i = 0; i < c->field_count; i++)
		columns[count++] = c->fields[i].from;
	for (size_t i = 0; i < c->more_count; i++)
		columns[count++] = c->more[i].from;
	rc = query_select(&q, &m->db, &c->from, columns, count, c->rest, e);
	if (rc >= 0)
		query_read_ahead(&q);
	while (rc >= 0 && (rc = query_next(&q)) > 0)
		rc = convert_row(m, c, &q, e);
	database_query_end(m, &q, c->from.table);
	return rc < 0 && !e->code ? error_set(e, rc, "%s", error_code_text(rc)) : rc;
}

void database_query_end(struct database_import *m, struct query *q, const char *table)
{
	const char *why = q->failure == SQLITE_TOOBIG      ? "more rows than the file has bytes"
			  : q->failure == SQLITE_INTERRUPT ? "a view that computes without end"
							   : sqlite3_errstr(q->failure);
	char detail[160];

	if (q->failure) {
		snprintf(detail, sizeof(detail), "%s, from row %llu on: %s", table,
			 (unsigned long long)q->rows + 1, why);
		database_loss(m, loss_reason_damaged_file, 1, detail);
	}
	query_close(q);
}

/* ---- beginning and end ---- */

int database_import_open(struct database_import *m, const struct import_files *files,
			 struct input *in, const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf cut = STRBUF_INIT;
	int rc;

	*m = (struct database_import){ .path = path,
				       .directory = files->directory,
				       .result = files->result };
	interner_init(&m->texts);
	rc = database_open(&m->db, in, path, files->options, e);
	if (rc < 0 || !input_is_cut_database(in, m->db.size, &cut))
		return rc;
	database_loss(m, loss_reason_truncated_file, 1, strbuf_text(&cut));
	import_note(m->result, "the database is %s", strbuf_text(&cut));
	return 0;
}

static void append_contexts(struct database_import *m, struct database_process *p)
{
	for (size_t i = 0; i < p->contexts.count; i++) {
		struct row_context row = { .missing = schema_missing(TABLE_context),
					   .id = p->contexts.data[i].id,
					   .device = p->contexts.data[i].device,
					   .time_ns = p->first_ns };

		writer_append(p->writer, TABLE_context, &row);
		m->result->rows[TABLE_context]++;
	}
}

static int close_process(struct database_import *m, struct database_process *p,
			 void (*describe)(struct database_import *m, struct database_process *p,
					  struct row_process *row),
			 struct error *e)
{
	struct import_result *result = m->result;
	struct row_process row = { .missing = schema_missing(TABLE_process),
				   .pid = p->pid,
				   .start_ns = p->first_ns,
				   .end_ns = p->last_ns };
	struct row_clock clock = { .missing = schema_missing(TABLE_clock),
				   .monotonic_ns = p->first_ns,
				   .realtime_ns = p->first_ns,
				   .boottime_ns = p->first_ns };

	row.missing &= ~(UINT64_C(1) << COLUMN_process_end_ns);
	writer_append(p->writer, TABLE_clock, &clock);
	append_contexts(m, p);
	describe(m, p, &row);
	writer_append(p->writer, TABLE_process, &row);
	result->rows[TABLE_clock]++;
	result->rows[TABLE_process]++;
	result->start_ns = result->start_ns && p->first_ns ? MIN(result->start_ns, p->first_ns)
							   : MAX(result->start_ns, p->first_ns);
	result->end_ns = MAX(result->end_ns, p->last_ns);
	if (p == m->processes.data[0])
		result->rows[TABLE_loss] +=
			import_losses_append(&m->losses, p->writer, p->first_ns, p->last_ns);
	if (flush(p, e) < 0)
		return e->code;
	return writer_close(&p->writer) < 0 ? error_set(e, -EIO, "cannot write the recording") : 0;
}

int database_import_close(struct database_import *m,
			  void (*describe)(struct database_import *m, struct database_process *p,
					   struct row_process *row),
			  struct error *e)
{
	int rc = 0;

	m->result->files++;
	m->result->bytes += m->db.size;
	if (!m->processes.count)
		return error_set(e, -ENODATA, "'%s' contains no events of a program", m->path);
	for (size_t i = 0; i < m->processes.count && rc >= 0; i++)
		rc = close_process(m, m->processes.data[i], describe, e);
	return rc;
}

void database_import_release(struct database_import *m)
{
	for (size_t i = 0; i < m->processes.count; i++) {
		struct database_process *p = m->processes.data[i];

		writer_abandon(&p->writer);
		stack_tree_release(&p->stacks);
		vec_release(&p->contexts);
		map_release(&p->symbols);
		map_release(&p->functions);
		free(p);
	}
	vec_release(&m->processes);
	map_release(&m->process_of);
	map_release(&m->text_of);
	map_release(&m->functions);
	interner_release(&m->texts);
	database_close(&m->db);
}
