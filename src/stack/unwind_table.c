#include "stack/unwind_table.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"

#define SLOTS_MIN 1024u

/* An FDE that is to be compiled. */
struct place {
	uint32_t start; /* relative to the base */
	uint32_t offset; /* in the section */
};

struct unwind_builder {
	const struct unwind_input *input;
	struct unwind_table *table;
	struct place *places;
	size_t place_count, place_capacity;
	size_t start_capacity, row_rule_capacity, rule_capacity;
	uint32_t *slots; /* open addressing: rule id + 1 */
	size_t slot_count;
	uint16_t last_rule;
	uint64_t done; /* offset up to which rows have been made */
	size_t next_place;
	struct eh_fde fde; /* the last, with its CIE */
	int failed;
};

static size_t bytes_held(const struct unwind_builder *b)
{
	return sizeof(*b->table) + b->place_capacity * sizeof(*b->places) +
	       b->start_capacity * sizeof(uint32_t) + b->row_rule_capacity * sizeof(uint16_t) +
	       b->rule_capacity * sizeof(struct unwind_rule) + b->slot_count * sizeof(*b->slots);
}

/* Room for one more item of an array. */
static bool grow(struct unwind_builder *b, void **data, size_t *capacity, size_t count, size_t size)
{
	if (likely(count < *capacity))
		return true;
	if (b->failed)
		return false;
	if (bytes_held(b) + MAX(count, 16) * size > b->input->bytes_max)
		b->failed = E_LIMIT;
	else
		b->failed = vec_grow(data, capacity, count + 1, size);
	return b->failed == 0;
}

/* --- rules --- */

static uint64_t rule_hash(const struct unwind_rule *rule)
{
	uint64_t words[sizeof(*rule) / 8 + 1] = { 0 }, h = 0;

	memcpy(words, rule, sizeof(*rule));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static uint32_t *rule_slot(const struct unwind_builder *b, const struct unwind_rule *rule)
{
	size_t i = rule_hash(rule) & (b->slot_count - 1);

	while (b->slots[i] && memcmp(&b->table->rules[b->slots[i] - 1], rule, sizeof(*rule)) != 0)
		i = (i + 1) & (b->slot_count - 1);
	return &b->slots[i];
}

static bool rehash(struct unwind_builder *b)
{
	size_t count = MAX(b->slot_count * 2, SLOTS_MIN);
	uint32_t *slots;

	if (bytes_held(b) + count * sizeof(*slots) > b->input->bytes_max) {
		b->failed = E_LIMIT;
		return false;
	}
	slots = calloc(count, sizeof(*slots));
	if (!slots) {
		b->failed = -ENOMEM;
		return false;
	}
	free(b->slots);
	b->slots = slots;
	b->slot_count = count;
	for (uint32_t i = 0; i < b->table->rule_count; i++)
		*rule_slot(b, &b->table->rules[i]) = i + 1;
	return true;
}

/* Id of the rule; UNWIND_RULE_UNKNOWN when there are too many. */
static uint16_t rule_id(struct unwind_builder *b, const struct unwind_rule *rule)
{
	struct unwind_table *t = b->table;
	uint32_t *slot;

	if (t->rule_count && memcmp(&t->rules[b->last_rule], rule, sizeof(*rule)) == 0)
		return b->last_rule;
	if (t->rule_count * 2 >= b->slot_count && !rehash(b))
		return UNWIND_RULE_UNKNOWN;
	slot = rule_slot(b, rule);
	if (!*slot) {
		if (t->rule_count == UNWIND_RULES_MAX ||
		    !grow(b, (void **)&t->rules, &b->rule_capacity, t->rule_count,
			  sizeof(*t->rules)))
			return UNWIND_RULE_UNKNOWN;
		t->rules[t->rule_count++] = *rule;
		*slot = t->rule_count;
	}
	b->last_rule = (uint16_t)(*slot - 1);
	return b->last_rule;
}

/* --- rows --- */

static void add_row(struct unwind_builder *b, uint32_t start, uint16_t rule)
{
	struct unwind_table *t = b->table;
	uint32_t n = t->row_count;

	/* A row of no length is replaced, one that says nothing new is left out. */
	if (n && t->starts[n - 1] == start)
		n--;
	if (n ? t->row_rules[n - 1] == rule : rule == UNWIND_RULE_NONE) {
		t->row_count = n;
		return;
	}
	if (n == UINT32_MAX - 1 ||
	    !grow(b, (void **)&t->starts, &b->start_capacity, n, sizeof(*t->starts)) ||
	    !grow(b, (void **)&t->row_rules, &b->row_rule_capacity, n, sizeof(*t->row_rules)))
		return;
	t->starts[n] = start;
	t->row_rules[n] = rule;
	t->row_count = n + 1;
}

static void take_row(void *context, uint64_t start, const struct unwind_rule *rule)
{
	struct unwind_builder *b = context;

	add_row(b, (uint32_t)(start - b->table->base), rule_id(b, rule));
}

static void compile(struct unwind_builder *b, const struct eh_fde *fde)
{
	struct unwind_table *t = b->table;
	uint64_t start = fde->start - t->base, end = fde->end - t->base;

	if (start < b->done || end <= start || end > UINT32_MAX) {
		t->damaged++;
		return;
	}
	if (start > b->done)
		add_row(b, (uint32_t)b->done, UNWIND_RULE_NONE);
	eh_frame_rows(&b->input->section, fde, take_row, b);
	b->done = end;
}

/* --- the order of FDEs --- */

static void add_place(struct unwind_builder *b, uint64_t start, uint64_t offset)
{
	if (start > UINT32_MAX || offset > UINT32_MAX)
		b->table->damaged++;
	else if (grow(b, (void **)&b->places, &b->place_capacity, b->place_count,
		      sizeof(*b->places)))
		b->places[b->place_count++] = (struct place){ (uint32_t)start, (uint32_t)offset };
}

static void find_places(struct unwind_builder *b)
{
	const struct unwind_input *in = b->input;
	struct eh_fde fde = { 0 };
	size_t offset = 0, next;
	int r;

	for (size_t i = 0; in->search && i < in->search_count && !b->failed; i++) {
		const uint8_t *pair = in->search + 8 * i;
		uint64_t start = in->header_address + (uint64_t)(int64_t)(int32_t)load_u32(pair);
		uint64_t at = in->header_address + (uint64_t)(int64_t)(int32_t)load_u32(pair + 4);

		add_place(b, start - in->base, at - in->section.address);
	}
	while (!in->search && !b->failed &&
	       (r = eh_frame_entry(&in->section, offset, &fde, &next)) >= 0) {
		if (r > 0)
			add_place(b, fde.start - in->base, offset);
		offset = next;
	}
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static void sort_places(struct unwind_builder *b)
{
	for (size_t i = 1; i < b->place_count; i++) {
		if (compare_places(&b->places[i - 1], &b->places[i]) > 0) {
			qsort(b->places, b->place_count, sizeof(*b->places), compare_places);
			return;
		}
	}
}

/* --- the whole --- */

static bool index_pages(struct unwind_builder *b)
{
	struct unwind_table *t = b->table;
	uint32_t count = t->length ? ((t->length - 1) >> UNWIND_PAGE_SHIFT) + 1 : 0, row = 0;

	t->pages = malloc(((size_t)count + 1) * sizeof(*t->pages));
	if (!t->pages) {
		b->failed = -ENOMEM;
		return false;
	}
	for (uint32_t p = 0; p <= count; p++) {
		uint64_t start = (uint64_t)p << UNWIND_PAGE_SHIFT;

		while (row < t->row_count && t->starts[row] < start)
			row++;
		t->pages[p] = row;
	}
	t->bytes = sizeof(*t) + ((size_t)count + 1) * sizeof(*t->pages);
	return true;
}

/* Gives back what doubling took too much; a failure to shrink is none. */
static void *shrunk(void *data, size_t bytes)
{
	void *smaller = bytes ? realloc(data, bytes) : NULL;

	return smaller ? smaller : data;
}

static void trim(struct unwind_table *t)
{
	t->starts = shrunk(t->starts, t->row_count * sizeof(*t->starts));
	t->row_rules = shrunk(t->row_rules, t->row_count * sizeof(*t->row_rules));
	t->rules = shrunk(t->rules, t->rule_count * sizeof(*t->rules));
	t->bytes += t->row_count * (sizeof(*t->starts) + sizeof(*t->row_rules)) +
		    t->rule_count * sizeof(*t->rules);
}

int unwind_builder_start(const struct unwind_input *input, struct unwind_builder **builder)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	static const struct unwind_rule unknown = { .cfa = CFA_UNKNOWN };
	struct unwind_builder *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return -ENOMEM;
	b->input = input;
	b->table = calloc(1, sizeof(*b->table));
	if (b->table) {
		b->table->base = input->base;
		rule_id(b, &none);
		rule_id(b, &unknown);
		find_places(b);
	}
	r = b->table ? b->failed : -ENOMEM;
	if (r < 0) {
		unwind_builder_cancel(b);
		return r;
	}
	sort_places(b);
	*builder = b;
	return 0;
}

int unwind_builder_step(struct unwind_builder *b, size_t fde_count, struct unwind_table **table)
{
	size_t end = b->next_place + MIN(fde_count, b->place_count - b->next_place), next;
	int r;

	for (; b->next_place < end && !b->failed; b->next_place++) {
		if (eh_frame_entry(&b->input->section, b->places[b->next_place].offset, &b->fde,
				   &next) == 1)
			compile(b, &b->fde);
		else
			b->table->damaged++;
	}
	if (!b->failed && end < b->place_count)
		return 1;
	b->table->length = (uint32_t)b->done;
	if (!b->failed && index_pages(b)) {
		trim(b->table);
		*table = b->table;
		b->table = NULL;
	}
	r = b->failed;
	unwind_builder_cancel(b);
	return r;
}

void unwind_builder_cancel(struct unwind_builder *b)
{
	if (!b)
		return;
	unwind_table_free(b->table);
	free(b->places);
	free(b->slots);
	free(b);
}

int unwind_table_build(const struct unwind_input *input, struct unwind_table **table)
{
	struct unwind_builder *b;
	int r = unwind_builder_start(input, &b);

	return r < 0 ? r : unwind_builder_step(b, SIZE_MAX, table);
}

void unwind_table_free(struct unwind_table *t)
{
	if (!t)
		return;
	free(t->starts);
	free(t->row_rules);
	free(t->rules);
	free(t->pages);
	free(t);
}
