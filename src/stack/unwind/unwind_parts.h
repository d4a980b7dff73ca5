/*
 * unwind_parts.h: call frame information of a file, compiled into rows of rules on demand: of a
 * large library only some hundred functions ever run.
 *
 * Code is divided into parts of 16 KiB. A part is compiled when an address in it is looked up
 * first. Its functions are found with the search table of .eh_frame_hdr, or without one with a
 * sorted list of all FDEs. A part is self-contained: its first row is at its first address.
 *
 * Not thread-safe.
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_PARTS_H
#define PITOT_STACK_UNWIND_UNWIND_PARTS_H

#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "elf/unwind_input.h"

#define UNWIND_PART_SHIFT 14

/* Rules of every store. */
enum { UNWIND_RULE_NONE, UNWIND_RULE_UNKNOWN };

#define UNWIND_STORE_RULES_SHIFT 18
#define UNWIND_STORE_RULES_MAX (1u << UNWIND_STORE_RULES_SHIFT)

/* Shared by all files. */
struct unwind_store {
	struct interner rules; /* struct unwind_rule; the first two: UNWIND_RULE_NONE … */
	size_t bytes, bytes_max; /* bytes of rows and their sources, and their limit */
};

/*
 * The rules of one part. A row has an offset in the part, in its upper 14 bits, and the number of
 * the rule that is valid from there up to the next row. The first row is at offset 0.
 */
struct unwind_part {
	uint32_t count;
	uint32_t rows[]; /* ascending */
};
_Static_assert(UNWIND_PART_SHIFT + UNWIND_STORE_RULES_SHIFT == 32, "a row has both");

static inline size_t unwind_part_bytes(size_t count)
{
	return sizeof(struct unwind_part) + count * sizeof(uint32_t);
}

static inline uint32_t unwind_row(uint64_t offset, uint32_t rule)
{
	return (uint32_t)offset << UNWIND_STORE_RULES_SHIFT | rule;
}

static inline uint32_t unwind_row_offset(uint32_t row)
{
	return row >> UNWIND_STORE_RULES_SHIFT;
}

static inline uint32_t unwind_row_rule(uint32_t row)
{
	return row & (UNWIND_STORE_RULES_MAX - 1);
}

/* Returns the number of the rule for an offset, ignoring bits beyond the part. */
static inline uint32_t unwind_part_rule(const struct unwind_part *part, uint64_t offset)
{
	uint32_t last = unwind_row(offset, UNWIND_STORE_RULES_MAX - 1);

	return unwind_row_rule(
		part->rows[sorted_prefix(part->count, i, part->rows[i] <= last) - 1]);
}

struct unwind_parts {
	uint64_t base; /* address of offset 0 */
	uint32_t length; /* offsets from here on have no rule */
	uint32_t part_count;
	struct unwind_part **parts; /* NULL: not needed yet by unwind_parts_find() */
	VEC(uint32_t) compiled; /* numbers of parts, in order of compilation */
	VEC(uint32_t) rows; /* of the part being compiled */
	uint32_t damaged; /* entries skipped, and parts unreadable */
	struct unwind_store *store;
	struct unwind_input input;
	eh_load *load; /* NULL: all bytes are available */
	void *context;
	struct unwind_place *places; /* list of FDEs, without a search table */
	size_t place_count;
	struct eh_fde fde; /* last FDE, with its CIE */
	bool refused; /* no memory for a part: no further ones */
	size_t bytes; /* counted in the store, excluding parts */
};

/* Returns 0 or -ENOMEM. */
int unwind_store_init(struct unwind_store *store, size_t bytes_max) MUST_USE;
void unwind_store_release(struct unwind_store *store);

/* Counts additional bytes. Returns false when they would exceed the limit. */
bool unwind_store_reserve(struct unwind_store *store, size_t bytes);

/*
 * `end` is the end of the code. The input's bytes must outlive the parts. Returns 0, -ENOMEM, or
 * E_LIMIT when the store is full.
 */
int unwind_parts_new(const struct unwind_input *input, uint64_t end, eh_load *load, void *context,
		     struct unwind_store *store, struct unwind_parts **out) MUST_USE;
void unwind_parts_free(struct unwind_parts *p);

/* Compiles a separate part, counted in the store until it is freed. NULL without memory. */
struct unwind_part *unwind_part_compile(struct unwind_parts *p, uint32_t number) MUST_USE;
void unwind_part_free(struct unwind_store *store, struct unwind_part *part);

/*
 * Returns the rule for an address, of kind CFA_NONE when no FDE covers it; NULL without memory.
 * Rules live as long as the store.
 */
const struct unwind_rule *unwind_parts_find(struct unwind_parts *p, uint64_t address);

static inline const struct unwind_rule *unwind_store_rule(const struct unwind_store *store,
							  uint32_t id)
{
	return (const struct unwind_rule *)(const void *)store->rules.items[id].text;
}

#endif
