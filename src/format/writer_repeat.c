/*
 * writer_repeat.c: what later rows refer to, repeated in each segment: the process, its modules and
 * threads, devices, streams …
 *
 * Of each table in `kept` the last row of each key is remembered, and comes first in every new
 * segment. Nodes of CUDA graphs are too many for that: one is repeated when a row refers to it. Where
 * there are more than the limit, the older half is forgotten, and stays where it was written.
 *
 * Texts are forgotten after many others (id_space.h). Those that are still going to be needed, of
 * remembered rows and of kernel configurations, are copied before that.
 */
#include "format/writer_state.h"

#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"

#define ROWS_MAX 4096u /* of a table */
#define NODES_MAX 262144u /* of graphs: 24 MiB */
#define CLONES_MAX 8 /* of a node: how far originals are followed */

#define KEY(table, column) (1u << COLUMN_##table##_##column)

static const struct kept {
	enum table_id table;
	uint32_t key; /* columns as bits; 0: only the last row of all counts */
} kept[] = {
	{ TABLE_clock, 0 },
	{ TABLE_process, KEY(process, pid) | KEY(process, start_ns) },
	{ TABLE_thread, KEY(thread, tid) },
	{ TABLE_module, KEY(module, path) | KEY(module, start_address) },
	{ TABLE_device, KEY(device, id) },
	{ TABLE_context, KEY(context, id) },
	{ TABLE_stream, KEY(stream, id) | KEY(stream, context) },
	{ TABLE_nvtx_domain, KEY(nvtx_domain, id) },
	{ TABLE_nvtx_category, KEY(nvtx_category, domain) | KEY(nvtx_category, id) },
	{ TABLE_capability, KEY(capability, name) },
	{ TABLE_counter, KEY(counter, id) },
};

static const struct kept kept_nodes = { TABLE_graph_node, KEY(graph_node, node) };

static size_t item_size(const struct table_schema *schema)
{
	return sizeof(uint64_t) + schema->row_size;
}

static uint8_t *item_at(const struct table_buffer *t, size_t i)
{
	return t->memory.items + i * item_size(t->schema);
}

static uint8_t *row_of(uint8_t *item)
{
	return item + sizeof(uint64_t);
}

static uint64_t key_of(const struct table_schema *schema, uint32_t columns, const uint8_t *row)
{
	uint64_t key = 0;

	for (; columns; columns &= columns - 1) {
		const struct column_schema *c = &schema->columns[__builtin_ctz(columns)];
		uint64_t value = 0;

		memcpy(&value, row + c->row_offset, c->width);
		key = hash_u64(key ^ value);
	}
	return key;
}

/* Makes room by forgetting the older half. */
static void forget_half(struct table_buffer *t, uint32_t columns)
{
	size_t half = t->memory.count / 2;

	memmove(t->memory.items, item_at(t, half), (t->memory.count - half) * item_size(t->schema));
	t->memory.count -= half;
	map_clear(&t->memory.index);
	for (size_t i = 0; i < t->memory.count; i++)
		if (map_put(&t->memory.index, key_of(t->schema, columns, row_of(item_at(t, i))),
			    i) < 0)
			return;
}

static void remember(struct writer *w, const struct kept *k, size_t most, const uint8_t *row)
{
	struct table_buffer *t = &w->tables[k->table];
	struct row_memory *m = &t->memory;
	uint64_t key = key_of(t->schema, k->key, row), *index;

	if (m->count >= most)
		forget_half(t, k->key);
	index = map_at(&m->index, key, m->count);
	if (!index || (*index == m->count && vec_grow((void **)&m->items, &m->capacity,
						      m->count + 1, item_size(t->schema)) < 0)) {
		writer_lose_now(w, loss_reason_no_memory);
		return;
	}
	m->count += *index == m->count;
	store_u64(item_at(t, *index), w->serial);
	memcpy(row_of(item_at(t, *index)), row, t->schema->row_size);
}

void writer_remember(struct writer *w, enum table_id table, const uint8_t *row)
{
	if (table == kept_nodes.table)
		remember(w, &kept_nodes, NODES_MAX, row);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i].table == table)
			remember(w, &kept[i], ROWS_MAX, row);
}

static void repeat(struct writer *w, enum table_id table, uint8_t *item)
{
	store_u64(item, w->serial);
	writer_need_references(w, &w->tables[table], row_of(item));
	writer_push_referred(w, table, row_of(item));
}

void writer_repeat(struct writer *w)
{
	w->repeated_serial = w->serial;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		struct table_buffer *t = &w->tables[kept[i].table];

		for (size_t n = 0; n < t->memory.count; n++)
			repeat(w, kept[i].table, item_at(t, n));
	}
}

void writer_need_node(struct writer *w, uint64_t node)
{
	struct table_buffer *t = &w->tables[TABLE_graph_node];
	struct row_graph_node row = { .node = node };

	for (int i = 0; i < CLONES_MAX; i++) {
		uint64_t index, key = key_of(t->schema, kept_nodes.key, (const uint8_t *)&row);
		uint8_t *item;

		if (!map_get(&t->memory.index, key, &index))
			return;
		item = item_at(t, index);
		if (load_u64(item) == w->serial)
			return;
		repeat(w, TABLE_graph_node, item);
		memcpy(&row, row_of(item), sizeof(row));
		if (row.missing >> COLUMN_graph_node_original & 1)
			return;
		row.node = row.original;
	}
}

/* Copies a text of the generation that is the next to be forgotten. */
static void keep_text(struct writer *w, uint32_t id)
{
	struct kept_text copy;
	const struct interned *text;
	uint32_t *serial;
	uint64_t known;

	if (id >= w->strings.current.base || map_get(&w->text_index, id, &known))
		return;
	text = id_space_find(&w->strings, id, &serial);
	if (!text || w->text_bytes + text->length > w->strings.bytes_max)
		return;
	copy = (struct kept_text){
		{ arena_strndup(&w->text_arena, text->text, text->length), text->length }, *serial
	};
	if (!copy.text.text || vec_push(&w->texts, copy) < 0 ||
	    map_put(&w->text_index, id, w->texts.count - 1) < 0)
		writer_lose_now(w, loss_reason_no_memory);
	else
		w->text_bytes += text->length;
}

static void keep_config_names(struct writer *w, const struct id_generation *configs)
{
	struct row_kernel_config row;

	for (size_t i = 0; i < configs->texts.count; i++) {
		memcpy(&row, configs->texts.items[i].text, sizeof(row));
		keep_text(w, row.name);
	}
}

void writer_keep_texts(struct writer *w)
{
	w->texts_base = w->strings.current.base;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		struct table_buffer *t = &w->tables[kept[i].table];

		for (size_t n = 0; n < t->memory.count; n++) {
			uint8_t *row = row_of(item_at(t, n));

			for (uint64_t left = t->strings & ~load_u64(row); left; left &= left - 1)
				keep_text(w,
					  load_u32(row + t->schema->columns[__builtin_ctzll(left)]
								 .row_offset));
		}
	}
	keep_config_names(w, &w->configs.current);
	keep_config_names(w, &w->configs.previous);
}

const struct interned *writer_kept_text(struct writer *w, uint32_t id, uint32_t **serial)
{
	uint64_t index;

	if (!map_get(&w->text_index, id, &index))
		return NULL;
	*serial = &w->texts.data[index].serial;
	return &w->texts.data[index].text;
}
