#include "stack/unwind/unwind_parts.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/search.h"

#define PART_BYTES (1u << UNWIND_PART_SHIFT)
#define RULE_BYTES 128u /* approximate bytes of a rule in the store */

/* An FDE of a section without a search table. */
struct unwind_place {
	uint64_t start;
	size_t offset; /* in the section */
};

int unwind_store_init(struct unwind_store *store, size_t bytes_max)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	static const struct unwind_rule unknown = { .cfa = CFA_UNKNOWN };

	*store = (struct unwind_store){ .bytes_max = bytes_max };
	interner_init(&store->rules);
	if (interner_add(&store->rules, &none, sizeof(none), NULL) == UNWIND_RULE_NONE &&
	    interner_add(&store->rules, &unknown, sizeof(unknown), NULL) == UNWIND_RULE_UNKNOWN)
		return 0;
	unwind_store_release(store);
	return -ENOMEM;
}

void unwind_store_release(struct unwind_store *store)
{
	interner_release(&store->rules);
}

bool unwind_store_reserve(struct unwind_store *store, size_t bytes)
{
	if (bytes > store->bytes_max || store->bytes > store->bytes_max - bytes)
		return false;
	store->bytes += bytes;
	return true;
}

static bool reserve_bytes(struct unwind_parts *p, size_t bytes)
{
	if (!unwind_store_reserve(p->store, bytes))
		return false;
	p->bytes += bytes;
	return true;
}

static bool load_bytes(const struct unwind_parts *p, const uint8_t *bytes, size_t size)
{
	return !p->load || p->load(p->context, bytes, size);
}

/* Without a search table, everything was loaded at the beginning. */
static bool has_all(const struct unwind_parts *p)
{
	return !p->load || !p->input.search;
}

/* --- entries --- */

/* Reads the FDE at an offset into p->fde. */
static bool read_fde(struct unwind_parts *p, size_t offset)
{
	size_t next;

	return (has_all(p) || eh_frame_load(&p->input.section, offset, p->load, p->context)) &&
	       eh_frame_entry(&p->input.section, offset, &p->fde, &next) == 1;
}

/* --- lists of FDEs --- */

static size_t fde_count(const struct unwind_parts *p)
{
	return p->input.search ? p->input.search_count : p->place_count;
}

/* Reads the start address of the i-th FDE's code. Returns false when it is unreadable. */
static bool fde_start(const struct unwind_parts *p, size_t i, uint64_t *start)
{
	const uint8_t *pair;

	if (!p->input.search) {
		*start = p->places[i].start;
		return true;
	}
	pair = p->input.search + 8 * i;
	*start = p->input.header_address;
	if (!load_bytes(p, pair, 8))
		return false;
	*start += (uint64_t)(int64_t)(int32_t)load_u32(pair);
	return true;
}

/* Returns the FDE's offset in the section, after its start was read. */
static size_t fde_offset(const struct unwind_parts *p, size_t i)
{
	if (!p->input.search)
		return p->places[i].offset;
	return p->input.header_address +
	       (uint64_t)(int64_t)(int32_t)load_u32(p->input.search + 8 * i + 4) -
	       p->input.section.address;
}

/* Finds the last FDE that begins at or before an address, else the first. False when unreadable. */
static bool find_fde(const struct unwind_parts *p, uint64_t address, size_t *index)
{
	uint64_t start = 0;
	bool readable = true;
	size_t after = sorted_prefix(fde_count(p), i,
				     (readable &= fde_start(p, i, &start)) && start <= address);

	*index = after ? after - 1 : 0;
	return readable;
}

ORDER(compare_places, struct unwind_place, UP(start) ?: UP(offset))

static int list_places(struct unwind_parts *p)
{
	VEC(struct unwind_place) places = VEC_INIT;
	const struct eh_section *s = &p->input.section;
	size_t offset = 0, next;
	int rc;

	if (!load_bytes(p, s->bytes, s->size))
		return 0;
	while ((rc = eh_frame_entry(s, offset, &p->fde, &next)) >= 0) {
		const struct unwind_place place = { p->fde.start, offset };

		if (rc > 0 && vec_push(&places, place) < 0) {
			vec_release(&places);
			return -ENOMEM;
		}
		offset = next;
	}
	vec_sort(&places, compare_places);
	p->places = places.data;
	p->place_count = places.count;
	return reserve_bytes(p, places.capacity * sizeof(*places.data)) ? 0 : E_LIMIT;
}

/* --- compiling --- */

/* State of compiling a part into parts->rows. */
struct compiling {
	struct unwind_parts *parts;
	uint32_t start, end; /* offsets */
	uint64_t done; /* offset up to which there are rows */
	uint32_t last_rule; /* result of the last lookup */
	bool failed;
};

static uint32_t rule_id(struct compiling *c, const struct unwind_rule *rule)
{
	struct unwind_store *store = c->parts->store;
	bool is_new = false;
	int64_t id;

	if (memcmp(unwind_store_rule(store, c->last_rule), rule, sizeof(*rule)) == 0)
		return c->last_rule;
	if (store->rules.count == UNWIND_STORE_RULES_MAX)
		id = interner_find(&store->rules, rule, sizeof(*rule));
	else
		id = interner_add(&store->rules, rule, sizeof(*rule), &is_new);
	if (id < 0)
		return UNWIND_RULE_UNKNOWN;
	store->bytes += is_new ? RULE_BYTES : 0;
	c->last_rule = (uint32_t)id;
	return c->last_rule;
}

/* Appends a row; one from before the part begins at the part's first address. */
static void add_row(struct compiling *c, uint64_t start, uint32_t rule)
{
	struct unwind_parts *p = c->parts;
	const uint32_t *rows = p->rows.data;
	uint32_t offset;

	if (start >= c->end)
		return;
	offset = (uint32_t)MAX(start, c->start) - c->start;
	/* Replaces an empty row, and skips a row with the same rule. */
	if (p->rows.count && unwind_row_offset(rows[p->rows.count - 1]) == offset)
		p->rows.count--;
	if (p->rows.count && unwind_row_rule(rows[p->rows.count - 1]) == rule)
		return;
	if (vec_push(&p->rows, unwind_row(offset, rule)) < 0)
		c->failed = true;
}

static void append_row(void *context, uint64_t start, const struct unwind_rule *rule)
{
	struct compiling *c = context;

	if (start - c->parts->base < c->end)
		add_row(c, start - c->parts->base, rule_id(c, rule));
}

static void compile_fde(struct compiling *c)
{
	struct unwind_parts *p = c->parts;
	uint64_t start = p->fde.start - p->base, end = p->fde.end - p->base;

	if (start < c->done || end <= start || end > UINT32_MAX) {
		p->damaged++;
		return;
	}
	if (start > c->done)
		add_row(c, c->done, UNWIND_RULE_NONE);
	eh_frame_rows(&p->input.section, &p->fde, append_row, c);
	c->done = end;
}

static void compile_fdes(struct compiling *c)
{
	struct unwind_parts *p = c->parts;
	size_t i, count = fde_count(p);
	uint64_t start;

	if (!find_fde(p, p->base + c->start, &i)) {
		add_row(c, c->start, UNWIND_RULE_UNKNOWN);
		p->damaged++;
		return;
	}
	for (; i < count && !c->failed; i++) {
		if (!fde_start(p, i, &start) || start >= p->base + c->end)
			break;
		if (read_fde(p, fde_offset(p, i)))
			compile_fde(c);
		else
			p->damaged++;
	}
	if (c->done < c->end)
		add_row(c, c->done, UNWIND_RULE_NONE);
}

/* Returns a part with the rows of parts->rows. */
static struct unwind_part *copy_rows(struct unwind_parts *p)
{
	size_t bytes = unwind_part_bytes(p->rows.count);
	struct unwind_part *part;

	if (!unwind_store_reserve(p->store, bytes))
		return NULL;
	part = malloc(bytes);
	if (!part) {
		p->store->bytes -= bytes;
		return NULL;
	}
	part->count = (uint32_t)p->rows.count;
	memcpy(part->rows, p->rows.data, p->rows.count * sizeof(*part->rows));
	return part;
}

struct unwind_part *unwind_part_compile(struct unwind_parts *p, uint32_t number)
{
	uint32_t start = number << UNWIND_PART_SHIFT;
	struct compiling c = { .parts = p,
			       .start = start,
			       .end = start + MIN(p->length - start, PART_BYTES) };
	struct unwind_part *part = NULL;

	p->rows.count = 0;
	if (!p->refused)
		compile_fdes(&c);
	if (!p->refused && !c.failed)
		part = copy_rows(p);
	p->refused = !part;
	return part;
}

void unwind_part_free(struct unwind_store *store, struct unwind_part *part)
{
	if (part)
		store->bytes -= unwind_part_bytes(part->count);
	free(part);
}

const struct unwind_rule *unwind_parts_find(struct unwind_parts *p, uint64_t address)
{
	uint64_t offset = address - p->base;
	struct unwind_part **part;

	if (offset >= p->length)
		return unwind_store_rule(p->store, UNWIND_RULE_NONE);
	part = &p->parts[offset >> UNWIND_PART_SHIFT];
	if (!*part) {
		if (vec_reserve(&p->compiled, 1) < 0)
			return NULL;
		*part = unwind_part_compile(p, (uint32_t)(offset >> UNWIND_PART_SHIFT));
		if (!*part)
			return NULL;
		p->compiled.data[p->compiled.count++] = (uint32_t)(offset >> UNWIND_PART_SHIFT);
	}
	return unwind_store_rule(p->store, unwind_part_rule(*part, offset));
}

/* --- creating --- */

int unwind_parts_new(const struct unwind_input *input, uint64_t end, eh_load *load, void *context,
		     struct unwind_store *store, struct unwind_parts **out)
{
	uint64_t length = end > input->base ? MIN(end - input->base, (uint64_t)UINT32_MAX) : 0;
	uint64_t count = (length + PART_BYTES - 1) >> UNWIND_PART_SHIFT;
	struct unwind_parts *p;
	int rc = 0;

	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->store = store;
	if (!reserve_bytes(p, sizeof(*p) + count * sizeof(*p->parts))) {
		free(p);
		return E_LIMIT;
	}
	p->base = input->base;
	p->length = (uint32_t)length;
	p->part_count = (uint32_t)count;
	p->input = *input;
	p->load = load;
	p->context = context;
	p->parts = calloc(count + 1, sizeof(*p->parts));
	if (!p->parts)
		rc = -ENOMEM;
	else if (!input->search)
		rc = list_places(p);
	if (rc < 0) {
		unwind_parts_free(p);
		return rc;
	}
	*out = p;
	return 0;
}

void unwind_parts_free(struct unwind_parts *p)
{
	if (!p)
		return;
	p->store->bytes -= p->bytes;
	for (uint32_t i = 0; p->parts && i < p->part_count; i++)
		unwind_part_free(p->store, p->parts[i]);
	free(p->parts);
	free(p->places);
	vec_release(&p->rows);
	vec_release(&p->compiled);
	free(p);
}
