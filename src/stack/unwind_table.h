/*
 * unwind_table.h: the call frame information of one module as a sorted table.
 *
 * A row says: from this address on, up to the next row's, this rule holds. Rows are six bytes in two
 * arrays (32-bit address relative to `base`, 16-bit rule), rules are deduplicated, and an index of
 * 4 KiB pages bounds each search to the rows of one page. A finished table never changes; any number
 * of threads may read it.
 */
#ifndef PITOT_STACK_UNWIND_TABLE_H
#define PITOT_STACK_UNWIND_TABLE_H

#include "stack/eh_frame.h"

#define UNWIND_PAGE_SHIFT 12
#define UNWIND_RULES_MAX 65536u

/* Rules that every table has. */
enum { UNWIND_RULE_NONE, UNWIND_RULE_UNKNOWN };

struct unwind_table {
	uint64_t base; /* address of offset 0 */
	uint32_t length; /* offsets from here on have no rule */
	uint32_t row_count, rule_count;
	uint32_t damaged; /* entries that were left out: unreadable, overlapping, too far away */
	uint32_t *starts; /* ascending, no two equal */
	uint16_t *row_rules;
	struct unwind_rule *rules;
	uint32_t *pages; /* [p]: first row that starts in page p or later; one more at the end */
	size_t bytes; /* of memory held */
};

struct unwind_input {
	struct eh_section section;
	/* The binary search table of .eh_frame_hdr: pairs of 32-bit start and FDE address, relative
	 * to `header_address`; NULL: the section is walked instead. */
	const uint8_t *search;
	size_t search_count;
	uint64_t header_address;
	uint64_t base; /* lowest address of the module */
	size_t bytes_max; /* ceiling of memory, while building as well */
};

/*
 * Compiles a table. Wrong input makes rows unknown or missing, never a failure. 0, -ENOMEM, or
 * E_LIMIT when bytes_max does not do.
 */
int unwind_table_build(const struct unwind_input *input, struct unwind_table **table) MUST_USE;
void unwind_table_free(struct unwind_table *t);

/*
 * The same in steps, for a thread that has other things to do: start, then step until it returns
 * something else than 1. At 0 *table is set; on any other result, and by cancel, all is freed.
 * `input` and its bytes must stay; cancel takes NULL.
 */
struct unwind_builder;
int unwind_builder_start(const struct unwind_input *input, struct unwind_builder **b) MUST_USE;
int unwind_builder_step(struct unwind_builder *b, size_t fde_count, struct unwind_table **table);
void unwind_builder_cancel(struct unwind_builder *b);

/* The rule for an address; of kind CFA_NONE where nothing is said. */
static inline const struct unwind_rule *unwind_table_find(const struct unwind_table *t,
							  uint64_t address)
{
	uint64_t offset = address - t->base;
	uint32_t low, high, page;

	if (offset >= t->length)
		return &t->rules[UNWIND_RULE_NONE];
	page = (uint32_t)offset >> UNWIND_PAGE_SHIFT;
	low = t->pages[page];
	high = t->pages[page + 1];
	/* The first row after the offset is in [low, high]. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (t->starts[middle] <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return &t->rules[low ? t->row_rules[low - 1] : UNWIND_RULE_NONE];
}

#endif
