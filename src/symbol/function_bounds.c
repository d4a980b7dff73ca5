/* function_bounds.c: function bounds from the frame descriptions (FDEs) in .eh_frame. */
#include "symbol/symbol_table.h"

#include "base/search.h"
#include "elf/unwind_input.h"

static int read_all(struct function_bounds *b, const struct elf_file *f)
{
	struct unwind_input input;
	struct eh_fde fde = { 0 };
	size_t offset = 0, next;
	int rc;

	if (elf_unwind_input(f, &input) < 0 || input.section.debug ||
	    !elf_load(f, (struct elf_bytes){ input.section.bytes, input.section.size }))
		return 0;
	for (; (rc = eh_frame_entry(&input.section, offset, &fde, &next)) >= 0; offset = next)
		/* Code that the linker has discarded is at 0. */
		if (rc > 0 && fde.start != 0 && elf_is_code(f, fde.start) &&
		    vec_push(&b->items, ((struct bounds){ fde.start, fde.end })) < 0)
			return -ENOMEM;
	return 0;
}

ORDER(by_start, struct bounds, UP(start) ?: UP(end))

int function_bounds_init(struct function_bounds *b, const struct elf_file *f)
{
	int rc;

	*b = (struct function_bounds){ .table = RANGE_TABLE_INIT };
	rc = read_all(b, f);
	if (rc == 0 && b->items.count)
		vec_sort(&b->items, by_start);
	for (size_t i = 0; rc == 0 && i < b->items.count; i++)
		rc = range_table_add(&b->table,
				     (struct range){ b->items.data[i].start, b->items.data[i].end,
						     0, (uint32_t)i });
	if (rc == 0)
		rc = range_table_finish(&b->table);
	if (rc < 0)
		function_bounds_release(b);
	return rc;
}

void function_bounds_release(struct function_bounds *b)
{
	vec_release(&b->items);
	range_table_release(&b->table);
}

const struct bounds *function_bounds_find(const struct function_bounds *b, uint64_t address)
{
	uint32_t i = range_table_find(&b->table, address);

	return i == RANGE_NONE ? NULL : &b->items.data[i];
}

uint64_t function_bounds_next(const struct function_bounds *b, uint64_t address)
{
	size_t at = sorted_prefix(b->items.count, i, b->items.data[i].start <= address);

	return at < b->items.count ? b->items.data[at].start : UINT64_MAX;
}
