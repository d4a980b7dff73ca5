/*
 * unwind_parts.h: the call frame information of a file as rows of rules that are compiled where
 * they are needed: of a large library only some hundred functions ever run.
 *
 * Code is divided into parts of 16 KiB. A part is compiled when the first address in it is looked
 * up: the functions in it are found by the binary search table of .eh_frame_hdr, or, where there is
 * none, by a sorted list of all. A part stands by itself: its first row is at its first address.
 *
 * For one thread.
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_PARTS_H
#define PITOT_STACK_UNWIND_UNWIND_PARTS_H

#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "elf/unwind_input.h"

#define UNWIND_PART_SHIFT 14

/* Rules that every store has. */
enum { UNWIND_RULE_NONE, UNWIND_RULE_UNKNOWN };

#define UNWIND_STORE_RULES_SHIFT 18
#define UNWIND_STORE_RULES_MAX (1u << UNWIND_STORE_RULES_SHIFT)

/* What all files share. */
struct unwind_store {
	struct interner rules; /* struct unwind_rule; the first two: UNWIND_RULE_NONE … */
	size_t bytes, bytes_max; /* of memory for rows and what they are made from; a ceiling */
};

/*
 * The rules of one part. A row has an offset in the part, in its upper 14 bits, and the number of
 * the rule that holds from there on, up to the next row's. The first row is at offset 0.
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

/* The number of the rule for an offset, of which bits beyond the part do not count. */
static inline uint32_t unwind_part_rule(const struct unwind_part *part, uint64_t offset)
{
	uint32_t last = unwind_row(offset, UNWIND_STORE_RULES_MAX - 1);

	return unwind_row_rule(
		part->rows[sorted_prefix(part->count, i, part->rows[i] <= last) - 1]);
}

/*
 * Called before bytes of the section or of the search table are read: makes them available. false:
 * they are unavailable.
 */
typedef bool unwind_need(void *context, const uint8_t *bytes, size_t size);

struct unwind_parts {
	uint64_t base; /* address of offset 0 */
	uint32_t length; /* offsets from here on have no rule */
	uint32_t part_count;
	struct unwind_part **parts; /* NULL: unwind_parts_find() has not needed it yet */
	VEC(uint32_t) compiled; /* numbers of parts, in the order in which they were compiled */
	VEC(uint32_t) rows; /* of the part that is being compiled */
	uint32_t damaged; /* entries that were left out, and parts that could not be read */
	struct unwind_store *store;
	struct unwind_input input;
	unwind_need *need; /* NULL: all bytes are available */
	void *context;
	struct unwind_place *places; /* without a search table */
	size_t place_count;
	struct eh_fde fde; /* the last, with its CIE */
	bool refused; /* there was no memory for a part: there will be no more */
	size_t bytes; /* of the store's, parts excluded */
};

/* 0 or -ENOMEM. */
int unwind_store_init(struct unwind_store *store, size_t bytes_max) MUST_USE;
void unwind_store_release(struct unwind_store *store);

/* Counts so many bytes more; false: they are above the ceiling. */
bool unwind_store_take(struct unwind_store *store, size_t bytes);

/*
 * `end` is the end of the code. The bytes of the input must stay. 0, -ENOMEM, or E_LIMIT
 * when the store is full.
 */
int unwind_parts_new(const struct unwind_input *input, uint64_t end, unwind_need *need,
		     void *context, struct unwind_store *store, struct unwind_parts **out) MUST_USE;
void unwind_parts_free(struct unwind_parts *p);

/* A part of its own, whose bytes the store counts until it is freed. NULL: no memory. */
struct unwind_part *unwind_part_compile(struct unwind_parts *p, uint32_t number) MUST_USE;
void unwind_part_free(struct unwind_store *store, struct unwind_part *part);

/*
 * The rule for an address, of kind CFA_NONE where no FDE covers it. NULL: there is no memory for
 * it. Rules stay as long as the store.
 */
const struct unwind_rule *unwind_parts_find(struct unwind_parts *p, uint64_t address);

static inline const struct unwind_rule *unwind_store_rule(const struct unwind_store *store,
							  uint32_t id)
{
	return (const struct unwind_rule *)(const void *)store->rules.items[id].text;
}

#endif
