/*
 * writer.c: passes rows to sinks, each definition before the first row that refers to it.
 *
 * - A text or configuration that is new in the epoch is emitted when its id is requested.
 * - For tables with trait LAST (process, threads, modules, devices …) the last row of each key is
 *   stored with its texts, and repeated at the beginning of every epoch.
 * - Nodes of CUDA graphs are too many for that: a node is repeated when a row refers to it
 *   (LAST_USED).
 * - Stacks are stored elsewhere and requested with writer_need_stack.
 *
 * An epoch begins with empty id tables. Numbers continue, so no id has two meanings. It becomes due
 * in a flush and begins with the next call, so that nothing is repeated when nothing follows.
 */
#include "format/writer.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "format/loss_tally.h"

#define STRING_EMPTY 0u /* id of "" */
#define STRING_UNKNOWN 1u /* id of "?" */
#define STRING_FIRST 2u
#define STRING_OVERHEAD 48u /* approximate bytes that an interner needs per text */
#define STRING_BYTES_MAX ((size_t)64 << 20)
#define STRING_LENGTH_MAX (64u << 10)
#define STRING_LENGTH_LIMIT (1u << 20)
#define CONFIGS_EPOCH 16384u /* number of configurations that ends an epoch */
#define CONFIGS_MAX (8 * CONFIGS_EPOCH)
#define KEPT_MAX 4096u /* rows of a table; then the older half is dropped */
#define KEPT_USED_MAX 262144u /* rows of a LAST_USED table: 24 MiB of graph nodes */
#define RECENT_STACKS 1024u /* asking the stacks' owner costs as much as the rest of a row */
#define USES_MAX 8 /* depth of nested uses: clones of clones of nodes */

_Static_assert(sizeof(struct row_kernel_config) % 8 == 0, "is compared in words");

/* The last row of each key, preceded by the epoch in which it was emitted last. */
struct kept_rows {
	uint8_t *items;
	size_t count, capacity;
	struct map index; /* hash of the key → item */
};

struct table_state {
	const struct table_schema *schema;
	/* columns whose definitions may have to be emitted first: stacks, others */
	uint64_t stack, user;
	size_t stack_offset; /* in a row */
	struct kept_rows kept;
};

struct writer {
	struct sink *sinks;
	struct table_state tables[TABLE_MAX + 1];
	uint32_t epoch;
	bool begun; /* something was emitted in this epoch */
	bool due; /* the next epoch begins with the next call */
	unsigned hold; /* flushes for which it does not */
	unsigned uses; /* depth of nested emit_used() calls */

	struct interner strings; /* of this epoch */
	struct interner configs; /* keys: row without id and name, then the name's text */
	VEC(uint32_t) config_epochs; /* epoch in which each was emitted last */
	uint32_t first_string, first_config; /* ids of items 0 */
	struct strbuf config_key;
	bool has_fixed[STRING_FIRST]; /* the text was emitted in this epoch */
	uint64_t config_mask[sizeof(struct row_kernel_config) /
			     8]; /* key bytes of a row, without the name */
	size_t string_bytes_max;
	uint32_t string_length_max;

	writer_need_stack *need_stack;
	void *stack_context;
	/* the latest of the stacks that share an index, if it was needed in this epoch */
	uint32_t recent_stacks[RECENT_STACKS];
	struct loss_tally lost; /* not yet in a row */
	const uint64_t *now_ns; /* as in writer_options */
	uint64_t rows;
	pid_t owner;
};

static void lose(struct writer *w, enum loss_reason reason)
{
	uint64_t now = w->now_ns ? *w->now_ns : clock_monotonic_ns();

	loss_add(&w->lost, reason, 1, now, now);
}

/* ---- passing rows to sinks ---- */

static bool in_window(const struct sink *s, const struct table_schema *table, const uint8_t *row)
{
	int column = table->time_column;
	uint64_t time;

	if (table->repeated || column < 0 || load_u64(row) >> column & 1)
		return true;
	time = load_u64(row + table->columns[column].row_offset);
	return time >= s->from_ns && time < s->until_ns;
}

ALWAYS_INLINE void emit(struct writer *w, const struct table_state *t, const void *row)
{
	for (struct sink *s = w->sinks; s; s = s->next)
		if (likely(!s->until_ns) || in_window(s, t->schema, row))
			s->ops->append(s, t->schema->id, row);
}

static void emit_string(struct writer *w, uint32_t id, const void *text, size_t length)
{
	struct row_string row = { .id = id, .text = { text, (uint32_t)length } };

	w->begun = true;
	emit(w, &w->tables[TABLE_string], &row);
}

/* ---- kept rows ---- */

static size_t item_size(const struct table_state *t)
{
	return sizeof(uint64_t) + t->schema->row_size;
}

static uint8_t *item_at(const struct table_state *t, size_t i)
{
	return t->kept.items + i * item_size(t);
}

static uint8_t *row_of(uint8_t *item)
{
	return item + sizeof(uint64_t);
}

static uint64_t key_of(const struct table_schema *schema, const void *row)
{
	uint64_t key = 0;

	for (uint64_t columns = schema->key; columns; columns &= columns - 1) {
		const struct column_schema *c = &schema->columns[__builtin_ctzll(columns)];
		uint64_t value = 0;

		memcpy(&value, (const uint8_t *)row + c->row_offset, c->width);
		key = hash_u64(key ^ value);
	}
	return key;
}

/* Rebuilds the index, because keys contain text ids, which change with each epoch. */
static void index_kept(struct writer *w, struct table_state *t)
{
	map_clear(&t->kept.index);
	for (size_t i = 0; i < t->kept.count; i++)
		if (map_put(&t->kept.index, key_of(t->schema, row_of(item_at(t, i))), i) < 0) {
			t->kept.count = i;
			lose(w, loss_reason_no_memory);
		}
}

static void forget_older_half(struct writer *w, struct table_state *t)
{
	size_t half = t->kept.count / 2;

	memmove(t->kept.items, item_at(t, half), (t->kept.count - half) * item_size(t));
	t->kept.count -= half;
	index_kept(w, t);
}

static void keep(struct writer *w, struct table_state *t, const void *row)
{
	struct kept_rows *k = &t->kept;
	uint64_t *index;

	if (k->count >= (t->schema->repeated == REPEAT_LAST_USED ? KEPT_USED_MAX : KEPT_MAX))
		forget_older_half(w, t);
	if (vec_grow((void **)&k->items, &k->capacity, k->count + 1, item_size(t)) < 0 ||
	    !(index = map_at(&k->index, key_of(t->schema, row), k->count))) {
		lose(w, loss_reason_no_memory);
		return;
	}
	k->count += *index == k->count;
	store_u64(item_at(t, *index), w->epoch);
	memcpy(row_of(item_at(t, *index)), row, t->schema->row_size);
}

/* ---- definitions that a row uses ---- */

static void append_row(struct writer *w, struct table_state *t, const uint8_t *row);

/*
 * Emits the definition that a row uses, unless it was emitted in this epoch, and first the
 * definition that it uses itself: a clone's original.
 */
static NOINLINE void emit_used(struct writer *w, const struct table_schema *schema,
			       const uint8_t *row)
{
	const struct column_schema *column = &schema->columns[schema->user_column];
	struct table_state *used = &w->tables[schema->used_table];
	uint64_t key = 0, index;
	uint8_t *item;

	memcpy(&key, row + column->row_offset, column->width);
	if (!map_get(&used->kept.index, hash_u64(key), &index) || w->uses == USES_MAX)
		return;
	item = item_at(used, index);
	if (load_u64(item) == w->epoch)
		return;
	store_u64(item, w->epoch);
	w->uses++;
	append_row(w, used, row_of(item));
	w->uses--;
}

/* Emits the texts "" and "?", whose ids are fixed. */
static NOINLINE void emit_fixed_strings(struct writer *w, const struct table_state *t,
					const uint8_t *row)
{
	for (uint64_t left = t->schema->texts & ~load_u64(row); left; left &= left - 1) {
		uint32_t id = load_u32(row + t->schema->columns[__builtin_ctzll(left)].row_offset);

		if (id < STRING_FIRST && !w->has_fixed[id]) {
			w->has_fixed[id] = true;
			emit_string(w, id, "?", id == STRING_UNKNOWN);
		}
	}
}

static inline void need_stack(struct writer *w, uint32_t id)
{
	uint32_t *recent = &w->recent_stacks[id % RECENT_STACKS];

	if (!w->need_stack || *recent == id)
		return;
	*recent = id;
	w->need_stack(w->stack_context, w, id);
}

static inline void append_row(struct writer *w, struct table_state *t, const uint8_t *row)
{
	uint64_t present = ~load_u64(row);

	w->begun = true;
	if (present & t->stack)
		need_stack(w, load_u32(row + t->stack_offset));
	if (present & t->schema->texts)
		emit_fixed_strings(w, t, row);
	if (present & t->user)
		emit_used(w, t->schema, row);
	emit(w, t, row);
}

/* ---- epochs ---- */

/* Returns this epoch's id of a text of the previous epoch. */
static uint32_t renew_string(struct writer *w, const struct interner *before, uint32_t first,
			     uint32_t id)
{
	const struct interned *text;

	if (id < first || id - first >= before->count)
		return id;
	text = &before->items[id - first];
	return writer_string(w, text->text, text->length);
}

static void repeat_kept(struct writer *w, struct table_state *t, const struct interner *before,
			uint32_t first)
{
	for (size_t i = 0; i < t->kept.count; i++) {
		uint8_t *item = item_at(t, i), *row = row_of(item);

		for (uint64_t left = t->schema->texts & ~load_u64(row); left; left &= left - 1) {
			uint8_t *id = row + t->schema->columns[__builtin_ctzll(left)].row_offset;

			store_u32(id, renew_string(w, before, first, load_u32(id)));
		}
		store_u64(item, w->epoch);
		append_row(w, t, row);
	}
	if (t->schema->key & t->schema->texts)
		index_kept(w, t);
}

static size_t string_bytes(const struct writer *w)
{
	return w->strings.bytes + w->strings.count * STRING_OVERHEAD;
}

static bool too_many_configs(const struct writer *w)
{
	return w->configs.count >= CONFIGS_EPOCH || w->configs.bytes >= w->string_bytes_max / 8;
}

static void begin_epoch(struct writer *w)
{
	struct interner before = w->strings;
	uint32_t first = w->first_string;

	w->epoch++;
	w->due = w->begun = false;
	w->first_string += (uint32_t)w->strings.count;
	interner_init(&w->strings);
	if (too_many_configs(w)) {
		w->first_config += (uint32_t)w->configs.count;
		interner_release(&w->configs);
		w->config_epochs.count = 0;
	}
	memset(w->has_fixed, 0, sizeof(w->has_fixed));
	memset(w->recent_stacks, 0, sizeof(w->recent_stacks));
	for (struct sink *s = w->sinks; s; s = s->next) {
		s->wants_epoch = false;
		s->ops->epoch(s);
	}
	for (unsigned id = 1; id <= TABLE_MAX; id++)
		if (w->tables[id].schema->repeated == REPEAT_LAST)
			repeat_kept(w, &w->tables[id], &before, first);
	interner_release(&before);
}

static bool wants_epoch(const struct writer *w)
{
	bool wanted =
		string_bytes(w) >= w->string_bytes_max / 8 || w->configs.count >= CONFIGS_EPOCH;

	for (const struct sink *s = w->sinks; s; s = s->next)
		wanted |= s->wants_epoch;
	return wanted;
}

uint32_t writer_epoch(const struct writer *w)
{
	return w->epoch + w->due;
}

void writer_hold_epoch(struct writer *w, bool hold)
{
	w->hold = hold ? WRITER_HOLD_FLUSHES : 0;
}

/* ---- interned definitions ---- */

uint32_t writer_string(struct writer *w, const char *text, size_t length)
{
	int64_t index;
	bool is_new;

	if (!text || length == 0)
		return STRING_EMPTY;
	if (unlikely(w->due))
		begin_epoch(w);
	if (length > w->string_length_max) {
		lose(w, loss_reason_string_limit);
		length = w->string_length_max;
	}
	if (unlikely(string_bytes(w) + length > w->string_bytes_max) &&
	    interner_find(&w->strings, text, length) < 0) {
		lose(w, loss_reason_string_limit);
		return STRING_UNKNOWN;
	}
	index = interner_add(&w->strings, text, length, &is_new);
	if (index < 0 || index >= (int64_t)(UINT32_MAX - w->first_string)) {
		lose(w, loss_reason_no_memory);
		return STRING_UNKNOWN;
	}
	if (is_new)
		emit_string(w, w->first_string + (uint32_t)index, text, length);
	return w->first_string + (uint32_t)index;
}

/*
 * Equal configurations have equal key bytes: without id, padding and missing values. Their ids
 * outlive an epoch while there is room, so the key contains the name as a text.
 */
static bool make_config_key(struct writer *w, const struct row_kernel_config *row)
{
	const struct table_schema *schema = w->tables[TABLE_kernel_config].schema;
	uint64_t words[ARRAY_SIZE(w->config_mask)];
	uint32_t name = row->name - w->first_string;

	memcpy(words, row, sizeof(words));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		words[i] &= w->config_mask[i];
	for (uint64_t left = row->missing; left; left &= left - 1) {
		int column = __builtin_ctzll(left);

		if (column < COLUMNS_kernel_config)
			memset((uint8_t *)words + schema->columns[column].row_offset, 0,
			       schema->columns[column].width);
	}
	strbuf_clear(&w->config_key);
	w->config_key.failed = false;
	strbuf_add(&w->config_key, words, sizeof(words));
	if (name < w->strings.count)
		strbuf_add(&w->config_key, w->strings.items[name].text,
			   w->strings.items[name].length);
	else
		strbuf_add(&w->config_key, &row->name, sizeof(row->name));
	return !w->config_key.failed;
}

uint32_t writer_kernel_config(struct writer *w, const struct row_kernel_config *row)
{
	struct row_kernel_config copy = *row;
	const struct strbuf *key = &w->config_key;
	int64_t index = -ENOMEM;

	if (unlikely(w->due))
		begin_epoch(w);
	if (make_config_key(w, row) && vec_reserve(&w->config_epochs, 1) == 0)
		index = w->configs.count < CONFIGS_MAX
				? interner_add(&w->configs, key->data, key->length, NULL)
				: interner_find(&w->configs, key->data, key->length);
	if (index < 0 || index >= (int64_t)(UINT32_MAX - w->first_config)) {
		lose(w, loss_reason_no_memory);
		return UINT32_MAX;
	}
	copy.id = w->first_config + (uint32_t)index;
	if ((size_t)index == w->config_epochs.count)
		w->config_epochs.data[w->config_epochs.count++] = 0;
	if (w->config_epochs.data[index] != w->epoch) {
		w->config_epochs.data[index] = w->epoch;
		append_row(w, &w->tables[TABLE_kernel_config], (const uint8_t *)&copy);
	}
	return copy.id;
}

void writer_api_function(struct writer *w, uint32_t id, const struct row_api_function *row)
{
	struct table_state *t = &w->tables[TABLE_api_function];
	struct row_api_function copy;
	uint64_t index;

	if (!row)
		return;
	if (unlikely(w->due))
		begin_epoch(w);
	copy = *row;
	copy.id = id;
	if (map_get(&t->kept.index, key_of(t->schema, &copy), &index))
		return;
	append_row(w, t, (const uint8_t *)&copy);
	keep(w, t, &copy);
}

void writer_on_stack(struct writer *w, writer_need_stack *need, void *context)
{
	w->need_stack = need;
	w->stack_context = context;
}

/* ---- the interface ---- */

void writer_append(struct writer *w, enum table_id table, const void *row)
{
	struct table_state *t = &w->tables[table];

	if (unlikely(w->due))
		begin_epoch(w);
	w->rows += t->schema->repeated != REPEAT_INTERNED;
	append_row(w, t, row);
	if (t->schema->repeated == REPEAT_LAST || t->schema->repeated == REPEAT_LAST_USED)
		keep(w, t, row);
}

void writer_append_to(struct writer *w, struct sink *sink, enum table_id table, const void *row)
{
	if (unlikely(w->due))
		begin_epoch(w);
	w->begun = true;
	sink->ops->append(sink, table, row);
}

static void append_losses(struct writer *w)
{
	struct row_loss rows[LOSS_REASONS];
	size_t count = loss_rows(&w->lost, rows);

	loss_clear(&w->lost);
	for (size_t i = 0; i < count; i++)
		writer_append(w, TABLE_loss, &rows[i]);
}

/* Returns a loss rather than 1, and 1 rather than 0. */
static int worse(int a, int b)
{
	return a < 0 || b == 0 ? a : b;
}

int writer_flush(struct writer *w)
{
	int result = 0;

	append_losses(w);
	for (struct sink *s = w->sinks; s; s = s->next)
		result = worse(result, s->ops->seal(s));
	w->hold -= w->hold > 0;
	w->due |= !w->hold && wants_epoch(w);
	return result;
}

int writer_failure(const struct writer *w)
{
	int result = 0;

	for (const struct sink *s = w->sinks; s && result == 0; s = s->next)
		result = s->ops->failure ? s->ops->failure(s) : 0;
	return result;
}

void writer_stats(const struct writer *w, struct writer_stats *stats)
{
	*stats = (struct writer_stats){ .rows = w->rows };
	for (struct sink *s = w->sinks; s; s = s->next)
		if (s->ops->stats)
			s->ops->stats(s, stats);
}

void writer_attach(struct writer *w, struct sink *sink)
{
	struct sink **last = &w->sinks;

	w->due |= w->begun;
	while (*last)
		last = &(*last)->next;
	sink->next = NULL;
	*last = sink;
}

int writer_close_sink(struct sink *sink, int sealed)
{
	int *result = sink->result, failure = sink->ops->failure ? sink->ops->failure(sink) : 0,
	    closed = sink->ops->close(sink);

	sealed = sealed < 0 ? sealed : failure;
	closed = sealed < 0 ? sealed : closed;
	if (result && *result == 0)
		*result = closed;
	return closed;
}

int writer_detach(struct writer *w, struct sink *sink)
{
	struct sink **at = &w->sinks;

	while (*at != sink)
		at = &(*at)->next;
	*at = sink->next;
	return sink->ops->seal(sink);
}

static void prepare_tables(struct writer *w)
{
	const struct table_schema *configs = schema_table(TABLE_kernel_config);

	for (unsigned id = 1; id <= TABLE_MAX; id++) {
		struct table_state *t = &w->tables[id];
		int stack;

		t->schema = schema_table(id);
		stack = schema_column_by_name(t->schema, "stack");
		if (stack >= 0) {
			t->stack = UINT64_C(1) << stack;
			t->stack_offset = t->schema->columns[stack].row_offset;
		}
		if (t->schema->user_column >= 0)
			t->user = UINT64_C(1) << t->schema->user_column;
	}
	for (int c = 0; c < configs->column_count; c++)
		if (c != COLUMN_kernel_config_id && c != COLUMN_kernel_config_name)
			memset((uint8_t *)w->config_mask + configs->columns[c].row_offset, 0xff,
			       configs->columns[c].width);
	memset(w->config_mask, 0xff, sizeof(uint64_t));
}

struct writer *writer_new(const struct writer_options *options)
{
	struct writer *w = calloc(1, sizeof(*w));
	uint32_t length = options->string_length_max;

	if (!w)
		return NULL;
	w->epoch = 1;
	w->owner = getpid();
	w->now_ns = options->now_ns;
	w->first_string = MAX(STRING_FIRST, options->first_string);
	w->first_config = options->first_config;
	w->string_bytes_max =
		options->string_bytes_max ? options->string_bytes_max : STRING_BYTES_MAX;
	w->string_length_max = length ? MIN(length, STRING_LENGTH_LIMIT) : STRING_LENGTH_MAX;
	interner_init(&w->strings);
	interner_init(&w->configs);
	prepare_tables(w);
	return w;
}

static void free_writer(struct writer *w)
{
	for (unsigned id = 1; id <= TABLE_MAX; id++) {
		free(w->tables[id].kept.items);
		map_release(&w->tables[id].kept.index);
	}
	interner_release(&w->strings);
	interner_release(&w->configs);
	vec_release(&w->config_epochs);
	strbuf_release(&w->config_key);
	free(w);
}

int writer_open(const struct writer_options *options, struct writer **out, struct error *e)
{
	struct writer *w = writer_new(options);
	struct sink *sink;
	int rc;

	if (!w)
		return error_errno(e, ENOMEM, "cannot write to '%s'", options->directory);
	rc = recording_sink_new(options, &sink, e);
	if (rc < 0) {
		free_writer(w);
		return rc;
	}
	writer_attach(w, sink);
	*out = w;
	return 0;
}

int writer_close(struct writer **w)
{
	int rc = 0;

	if (!*w)
		return 0;
	append_losses(*w);
	for (struct sink *s = (*w)->sinks, *next; s; s = next) {
		int closed;

		next = s->next;
		closed = writer_close_sink(s, s->ops->seal(s));
		rc = rc < 0 ? rc : closed;
	}
	free_writer(*w);
	*w = NULL;
	return rc;
}

void writer_abandon(struct writer **w)
{
	if (!*w)
		return;
	for (struct sink *s = (*w)->sinks, *next; s; s = next) {
		next = s->next;
		s->ops->abandon(s);
	}
	if ((*w)->owner == getpid())
		free_writer(*w);
	*w = NULL;
}
