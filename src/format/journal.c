#include "format/journal.h"

#include <string.h>

static uint8_t *bytes_of(struct journal *j)
{
	return (uint8_t *)(j + 1);
}

void journal_begin(struct journal *j, uint64_t size, uint64_t session)
{
	memset(j, 0, sizeof(*j));
	j->size = size;
	atomic_store_explicit(&j->session, session, memory_order_release);
}

void journal_end(struct journal *j)
{
	atomic_store(&j->session, 0);
}

static uint64_t load(const atomic_uint_fast64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static uint64_t put(struct journal *j, uint64_t at, const void *from, size_t length)
{
	uint64_t start = at % j->size;
	size_t first = MIN(length, (size_t)(j->size - start));

	memcpy(bytes_of(j) + start, from, first);
	memcpy(bytes_of(j), (const uint8_t *)from + first, length - first);
	return at + length;
}

static void note_id(atomic_uint_fast64_t *last, uint32_t id)
{
	if (id > load(last))
		atomic_store_explicit(last, id, memory_order_relaxed);
}

static bool has_room(const struct journal *j, uint64_t head, uint64_t bytes)
{
	return head + bytes - load(&j->committed) <= j->size;
}

void journal_append(struct journal *j, const struct table_schema *table, const void *row)
{
	struct journal_entry entry = { .table = (uint32_t)table->id,
				       .length = (uint32_t)table->row_size };
	struct bytes_value text = { 0 };
	uint64_t head = load(&j->head), at;

	if (table->id == TABLE_string) {
		text = ((const struct row_string *)row)->text;
		note_id(&j->last_string, ((const struct row_string *)row)->id);
	} else if (table->id == TABLE_kernel_config) {
		note_id(&j->last_config, ((const struct row_kernel_config *)row)->id);
	}
	entry.length += text.length;
	if (!has_room(j, head, journal_entry_bytes(entry.length))) {
		atomic_store_explicit(&j->skipped, load(&j->skipped) + 1, memory_order_relaxed);
		return;
	}
	at = put(j, head, &entry, sizeof(entry));
	at = put(j, at, row, table->row_size);
	if (text.length)
		put(j, at, text.data, text.length);
	atomic_store_explicit(&j->head, head + journal_entry_bytes(entry.length),
			      memory_order_release);
}

uint64_t journal_head(const struct journal *j)
{
	return load(&j->head);
}

void journal_commit(struct journal *j, const struct journal_commit *commit)
{
	uint64_t made = load(&j->commits_made);

	j->commits[(made + 1) % 2] = *commit;
	atomic_store_explicit(&j->commits_made, made + 1, memory_order_release);
	atomic_store_explicit(&j->committed, commit->position, memory_order_relaxed);
}

void journal_mark(struct journal *j, uint64_t source, uint64_t progress)
{
	uint64_t made = load(&j->marks_made);

	j->marks[(made + 1) % 2] = (struct journal_mark){
		.source = source, .progress = progress, .position = source ? journal_head(j) : 0
	};
	atomic_store_explicit(&j->marks_made, made + 1, memory_order_release);
}
