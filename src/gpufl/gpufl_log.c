#include "gpufl/gpufl_log.h"

#include <errno.h>

#define TIME_STEP_NS UINT64_C(256)
#define DICTIONARY_BYTES_MAX ((size_t)8 << 20) /* of names; beyond it a dictionary starts anew */

/* column: of the batch's table, or how the field gets its value */
enum { FIELD_COMPUTED = -1, FIELD_TIME = -2 };
struct field {
	const char *key;
	int8_t column;
};

#define TIME_FIELD(table) { "dt_ns", FIELD_TIME },
#define COLUMN_FIELD(table, key, column) { #key, COLUMN_##table##_##column },
#define COMPUTED_FIELD(table, key, ...) { #key, FIELD_COMPUTED },
#define FIELDS(name, channel, version, type, table)                                                \
	static const struct field name##_fields[] = { GPUFL_##name(                                \
		TIME_FIELD, COLUMN_FIELD, COMPUTED_FIELD, COMPUTED_FIELD, table) };
GPUFL_BATCHES(FIELDS)

static const struct batch_kind {
	enum gpufl_channel channel;
	const char *head; /* up to the session's id */
	enum table_id table;
	const struct field *fields;
	size_t field_count;
} kinds[BATCHES] = {
#define KIND(name, channel, version, type, table)                                                  \
	[BATCH_##name] = { GPUFL_##channel,                                                        \
			   "{\"version\":" #version ",\"type\":\"" type "\",\"session_id\":\"",    \
			   TABLE_##table, name##_fields, ARRAY_SIZE(name##_fields) },
	GPUFL_BATCHES(KIND)
#undef KIND
};

static const char *const map_names[DICTIONARIES] = { "kernel_dict", "scope_name_dict",
						     "function_dict", "metric_dict" };

int gpufl_log_init(struct gpufl_log *l, struct gpufl_files *files, const char *session)
{
	bool good = true;

	*l = (struct gpufl_log){ .files = files };
	memcpy(l->session, session, sizeof(l->session));
	for (size_t i = 0; i < BATCHES; i++)
		good &= raw_init(&l->batches[i].rows) && raw_init(&l->batches[i].after);
	for (size_t i = 0; i < GPUFL_CHANNELS; i++)
		good &= raw_init(&l->out[i]);
	for (size_t i = 0; i < DICTIONARIES; i++) {
		interner_init(&l->dictionaries[i].names);
		l->dictionaries[i].first = 1;
	}
	return good ? 0 : -ENOMEM;
}

void gpufl_log_release(struct gpufl_log *l)
{
	for (size_t i = 0; i < BATCHES; i++) {
		strbuf_release(&l->batches[i].rows);
		strbuf_release(&l->batches[i].after);
	}
	for (size_t i = 0; i < GPUFL_CHANNELS; i++)
		strbuf_release(&l->out[i]);
	for (size_t i = 0; i < DICTIONARIES; i++) {
		interner_release(&l->dictionaries[i].names);
		strbuf_release(&l->dictionaries[i].new_entries);
	}
	strbuf_release(&l->host);
}

/* ---- channels ---- */

static void flush_channel(struct gpufl_log *l, enum gpufl_channel channel)
{
	struct strbuf *out = &l->out[channel];
	int r = out->failed ? -ENOMEM : 0;

	if (!l->begun || (!out->length && !out->failed))
		return;
	if (r == 0)
		r = gpufl_files_write(l->files, channel, out->data, out->length);
	*(r < 0 ? &l->lost : &l->records) += l->pending[channel];
	l->pending[channel] = 0;
	strbuf_clear(out);
	out->failed = false;
}

static void add_lines(struct gpufl_log *l, enum gpufl_channel channel, const char *text,
		      size_t length)
{
	if (raw_reserve(&l->out[channel], length))
		raw_add(&l->out[channel], text, length);
}

void gpufl_line_everywhere(struct gpufl_log *l, const char *text, size_t length)
{
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++) {
		add_lines(l, (enum gpufl_channel)c, text, length);
		l->pending[c]++;
	}
}

struct strbuf *gpufl_line(struct gpufl_log *l, enum gpufl_channel channel, const char *type)
{
	struct strbuf *out = &l->out[channel];

	raw_reserve(out, 0);
	TEXT(out, "{\"type\":\"");
	raw_add(out, type, strlen(type));
	TEXT(out, "\"");
	l->pending[channel]++;
	return out;
}

size_t gpufl_log_pending_bytes(const struct gpufl_log *l)
{
	size_t bytes = 0;

	for (size_t c = 0; c < GPUFL_CHANNELS; c++)
		bytes += l->out[c].length;
	return bytes;
}

/* ---- dictionaries ---- */

uint32_t gpufl_name(struct gpufl_log *l, enum gpufl_dictionary_id id, const char *text,
		    size_t length)
{
	struct gpufl_dictionary *d = &l->dictionaries[id];
	bool is_new;
	int64_t item;

	if (d->names.bytes > DICTIONARY_BYTES_MAX) {
		d->first += (uint32_t)d->names.count;
		interner_release(&d->names);
		interner_init(&d->names);
	}
	item = interner_add(&d->names, text, length, &is_new);
	l->lost += item < 0;
	if (item < 0)
		return 0;
	if (is_new) {
		strbuf_addf(&d->new_entries, "%s\"%u\":\"", d->new_entries.length ? "," : "",
			    d->first + (uint32_t)item);
		if (id == DICTIONARY_function)
			strbuf_add(&d->new_entries, text, length);
		else
			json_escape(&d->new_entries, text, length);
		strbuf_addc(&d->new_entries, '"');
	}
	return d->first + (uint32_t)item;
}

static void append_dictionaries(struct gpufl_log *l)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	for (size_t i = 0; i < DICTIONARIES; i++) {
		struct strbuf *entries = &l->dictionaries[i].new_entries;

		if (!entries->length)
			continue;
		if (!line.length)
			strbuf_addf(&line,
				    "{\"version\":1,\"type\":\"dictionary_update\","
				    "\"session_id\":\"%s\"",
				    l->session);
		strbuf_addf(&line, ",\"%s\":{", map_names[i]);
		strbuf_add(&line, entries->data, entries->length);
		strbuf_addc(&line, '}');
		line.failed |= entries->failed;
		strbuf_clear(entries);
		entries->failed = false;
	}
	if (!line.length && !line.failed)
		return;
	strbuf_adds(&line, "}\n");
	if (!line.failed)
		gpufl_line_everywhere(l, line.data, line.length);
	l->lost += line.failed;
}

/* ---- batches ---- */

static void begin_batch(struct gpufl_log *l, enum gpufl_batch_id id, uint64_t time_ns)
{
	struct gpufl_batch *b = &l->batches[id];
	const struct batch_kind *kind = &kinds[id];
	struct strbuf *s = &b->rows;

	b->base_ns = time_ns - time_ns % TIME_STEP_NS;
	raw_add(s, kind->head, strlen(kind->head));
	raw_add(s, l->session, GPUFL_ID_BYTES - 1);
	TEXT(s, "\"");
	if (id == BATCH_host_metric)
		raw_add(s, strbuf_text(&l->host), l->host.length);
	TEXT_U64(s, "batch_id", ++l->batch_number);
	TEXT_U64(s, "base_time_ns", b->base_ns);
	TEXT(s, ",\"columns\":[");
	for (size_t i = 0; i < kind->field_count; i++) {
		if (i)
			TEXT(s, ",");
		TEXT(s, "\"");
		raw_add(s, kind->fields[i].key, strlen(kind->fields[i].key));
		TEXT(s, "\"");
	}
	TEXT(s, "],\"rows\":[");
}

static void seal_batch(struct gpufl_log *l, enum gpufl_batch_id id)
{
	struct gpufl_batch *b = &l->batches[id];
	enum gpufl_channel channel = kinds[id].channel;

	if (!b->count)
		return;
	append_dictionaries(l);
	if (b->rows.failed || b->after.failed) {
		l->lost += b->count;
	} else {
		TEXT(&b->rows, "]}\n");
		add_lines(l, channel, b->rows.data, b->rows.length);
		add_lines(l, channel, b->after.data, b->after.length);
		l->pending[channel] += b->count;
	}
	b->count = 0;
	b->rows.failed = b->after.failed = false;
	strbuf_clear(&b->rows);
	strbuf_clear(&b->after);
}

static struct strbuf *begin_row(struct gpufl_log *l, enum gpufl_batch_id id, uint64_t time_ns)
{
	struct gpufl_batch *b = &l->batches[id];

	raw_reserve(&b->rows, 0);
	if (b->count++ == 0)
		begin_batch(l, id, time_ns);
	else
		TEXT(&b->rows, ",");
	TEXT(&b->rows, "[");
	return &b->rows;
}

static void end_row(struct gpufl_log *l, enum gpufl_batch_id id)
{
	TEXT(&l->batches[id].rows, "]");
	if (l->batches[id].count < GPUFL_BATCH_ROWS)
		return;
	seal_batch(l, id);
	flush_channel(l, kinds[id].channel);
}

void gpufl_row(struct gpufl_log *l, enum gpufl_batch_id id, uint64_t time_ns, const void *row,
	       const uint64_t *computed)
{
	const struct table_schema *table = schema_table(kinds[id].table);
	struct strbuf *rows = begin_row(l, id, time_ns);

	for (size_t i = 0; i < kinds[id].field_count; i++) {
		int column = kinds[id].fields[i].column;

		if (i)
			TEXT(rows, ",");
		if (column == FIELD_TIME)
			text_i64(rows, (int64_t)(time_ns - l->batches[id].base_ns));
		else
			text_u64(rows, column < 0 ? *computed++ : row_value(table, row, column));
	}
	end_row(l, id);
}

void gpufl_pm_row(struct gpufl_log *l, uint64_t index, uint64_t time_ns, uint32_t device,
		  uint32_t metric, const char *value)
{
	struct strbuf *rows = begin_row(l, BATCH_pm_sample, time_ns);

	text_u64(rows, index);
	TEXT(rows, ",");
	text_i64(rows, (int64_t)(time_ns - l->batches[BATCH_pm_sample].base_ns));
	TEXT(rows, ",");
	text_u64(rows, device);
	TEXT(rows, ",");
	text_u64(rows, metric);
	TEXT(rows, ",");
	raw_add(rows, value, strlen(value));
	TEXT(rows, ",0");
	end_row(l, BATCH_pm_sample);
}

void gpufl_log_seal(struct gpufl_log *l)
{
	for (unsigned id = 0; id < BATCHES; id++)
		seal_batch(l, (enum gpufl_batch_id)id);
	append_dictionaries(l);
}

void gpufl_log_flush(struct gpufl_log *l)
{
	for (unsigned c = 0; c < GPUFL_CHANNELS; c++)
		flush_channel(l, (enum gpufl_channel)c);
}
