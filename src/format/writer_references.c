/*
 * writer_references.c: strings, kernel configurations, API functions and stacks, written into each
 * segment that needs them.
 */
#include "format/writer_state.h"

#include <string.h>

#include "base/bytes.h"

static void need_string(struct writer *w, uint32_t id)
{
	static const struct interned fixed[STRING_FIRST] = { { "", 0 }, { "?", 1 } };
	const struct interned *text;
	struct row_string row = { .id = id };
	uint32_t *serial;

	if (id < STRING_FIRST) {
		text = &fixed[id];
		serial = &w->fixed_serials[id];
	} else {
		text = id_space_find(&w->strings, id, &serial);
		if (!text)
			text = writer_kept_text(w, id, &serial);
	}
	if (!text || *serial == w->serial)
		return;
	row.text = (struct bytes_value){ text->text, text->length };
	if (writer_push_referred(w, TABLE_string, &row))
		*serial = w->serial;
}

static void need_config(struct writer *w, uint32_t id)
{
	const struct interned *item;
	struct row_kernel_config row;
	uint32_t *serial;

	item = id_space_find(&w->configs, id, &serial);
	if (!item || *serial == w->serial)
		return;
	memcpy(&row, item->text, sizeof(row));
	row.id = id;
	need_string(w, row.name);
	if (writer_push_referred(w, TABLE_kernel_config, &row))
		*serial = w->serial;
}

static void need_function(struct writer *w, uint32_t id)
{
	struct row_api_function row = { .id = id };
	struct api_function *f;
	uint64_t index;

	if (!map_get(&w->function_index, id, &index))
		return;
	f = &w->functions[index];
	if (f->serial == w->serial)
		return;
	row.name = writer_string(w, f->name, f->name_length);
	row.kind = f->kind;
	need_string(w, row.name);
	if (writer_push_referred(w, TABLE_api_function, &row))
		f->serial = w->serial;
}

static void need_stack(struct writer *w, const struct table_buffer *t, const uint8_t *row)
{
	uint32_t id = load_u32(row + t->schema->columns[t->stack_column].row_offset);

	if (id)
		w->need_stack(w->stack_context, w, id);
}

void writer_need_references(struct writer *w, struct table_buffer *t, const uint8_t *row)
{
	uint64_t missing = load_u64(row);
	int column = t->config_column >= 0 ? t->config_column : t->function_column;

	for (uint64_t left = t->strings & ~missing; left; left &= left - 1) {
		const struct column_schema *c = &t->schema->columns[__builtin_ctzll(left)];

		need_string(w, load_u32(row + c->row_offset));
	}
	if (t->stack_column >= 0 && w->need_stack && !(missing >> t->stack_column & 1))
		need_stack(w, t, row);
	if (t->node_column >= 0 && !(missing >> t->node_column & 1))
		writer_need_node(w, load_u64(row + t->schema->columns[t->node_column].row_offset));
	if (column >= 0 && !(missing >> column & 1)) {
		uint32_t id = load_u32(row + t->schema->columns[column].row_offset);

		if (t->last_reference == id && t->last_serial == w->serial)
			return;
		t->last_reference = id;
		t->last_serial = w->serial;
		if (t->config_column >= 0)
			need_config(w, id);
		else
			need_function(w, id);
	}
}

void writer_on_stack(struct writer *w, writer_need_stack *need, void *context)
{
	w->need_stack = need;
	w->stack_context = context;
}

uint32_t writer_segment(const struct writer *w)
{
	return w->serial;
}

void writer_append_referred(struct writer *w, enum table_id table, const void *row)
{
	if (w->stopped)
		return;
	writer_need_references(w, &w->tables[table], row);
	writer_push_referred(w, table, row);
}

void writer_hold_segment(struct writer *w, bool hold)
{
	w->hold = hold ? WRITER_HOLD_FLUSHES : 0;
}

uint32_t writer_string(struct writer *w, const char *text, size_t length)
{
	int64_t id;

	if (!text || length == 0)
		return STRING_EMPTY;
	if (length > w->string_length_max) {
		writer_lose_now(w, loss_reason_string_limit);
		length = w->string_length_max;
	}
	id = id_space_add(&w->strings, text, length);
	if (id < 0) {
		writer_lose_now(w, loss_reason_no_memory);
		return STRING_UNKNOWN;
	}
	if (w->texts_base < w->strings.current.base)
		writer_keep_texts(w);
	return (uint32_t)id;
}

uint32_t writer_kernel_config(struct writer *w, const struct row_kernel_config *row)
{
	const struct table_schema *schema = w->tables[TABLE_kernel_config].schema;
	uint64_t key[ARRAY_SIZE(w->config_mask)];
	int64_t id;

	/*
	 * Equal configurations must be equal bytes: without id, padding and values that are
	 * missing.
	 */
	memcpy(key, row, sizeof(key));
	for (size_t i = 0; i < ARRAY_SIZE(key); i++)
		key[i] &= w->config_mask[i];
	for (uint64_t left = row->missing; left; left &= left - 1) {
		int column = __builtin_ctzll(left);

		if (column < COLUMNS_kernel_config)
			memset((uint8_t *)key + schema->columns[column].row_offset, 0,
			       schema->columns[column].width);
	}
	id = id_space_add(&w->configs, key, sizeof(key));
	if (id >= 0)
		return (uint32_t)id;
	writer_lose_now(w, loss_reason_no_memory);
	return UINT32_MAX;
}

bool writer_has_kernel_config(const struct writer *w, uint32_t id)
{
	const struct id_generation *g = &w->configs.current;

	return id >= g->base && id - g->base < g->texts.count;
}

void writer_api_function(struct writer *w, uint32_t id, const struct row_api_function *row)
{
	struct api_function *f = &w->functions[w->function_count];
	const struct interned *name = NULL;
	uint32_t *serial;
	uint64_t index;

	if (!row || w->function_count == WRITER_FUNCTIONS_MAX ||
	    map_get(&w->function_index, id, &index))
		return;
	name = id_space_find(&w->strings, row->name, &serial);
	*f = (struct api_function){ .id = id, .kind = row->kind, .name = "" };
	if (name) {
		f->name = arena_strndup(&w->function_names, name->text, name->length);
		f->name_length = name->length;
	}
	if (f->name && map_put(&w->function_index, id, w->function_count) == 0)
		w->function_count++;
}
