/* function_bounds.c: function bounds from the frame descriptions (FDEs) in .eh_frame. */
#include "symbol/symbol_table.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/search.h"
#include "elf/unwind_input.h"

static int add_bounds(struct function_bounds *b, const struct elf_file *f, const struct eh_fde *fde)
{
	/* Code that the linker has discarded is at 0. */
	if (fde->start == 0 || !elf_is_code(f, fde->start))
		return 0;
	return vec_push(&b->items, ((struct bounds){ fde->start, fde->end }));
}

static int read_all(struct function_bounds *b, const struct elf_file *f,
		    const struct unwind_input *input)
{
	struct eh_fde fde = { 0 };
	size_t offset = 0, next;
	int rc;

	if (!elf_load(f, (struct elf_bytes){ input->section.bytes, input->section.size }))
		return 0;
	for (; (rc = eh_frame_entry(&input->section, offset, &fde, &next)) >= 0; offset = next)
		if (rc > 0 && add_bounds(b, f, &fde) < 0)
			return -ENOMEM;
	return 0;
}

/* --- zones --- */

bool code_zones_touch(const struct code_zones *z, uint64_t start, uint64_t end)
{
	size_t at;

	if (z->is_all)
		return true;
	at = sorted_prefix(z->items.count, i, z->items.data[i].end <= start);
	return at < z->items.count && z->items.data[at].start < end;
}

void code_zones_release(struct code_zones *z)
{
	vec_release(&z->items);
}

static bool load(void *file, const uint8_t *bytes, size_t size)
{
	return elf_load(file, (struct elf_bytes){ bytes, size });
}

static uint64_t searched(const struct unwind_input *input, size_t i, size_t word)
{
	return input->header_address +
	       (uint64_t)(int64_t)(int32_t)load_u32(input->search + 8 * i + 4 * word);
}

/* Reads the i-th function of the search table. Returns 1; 0: it is malformed; or -ENOMEM. */
static int read_searched(struct function_bounds *b, const struct elf_file *f,
			 const struct unwind_input *input, size_t i, struct eh_fde *fde)
{
	size_t offset = searched(input, i, 1) - input->section.address, next;

	*fde = (struct eh_fde){ 0 };
	if (!eh_frame_load(&input->section, offset, load, (void *)(uintptr_t)f) ||
	    eh_frame_entry(&input->section, offset, fde, &next) != 1)
		return 0;
	return add_bounds(b, f, fde) < 0 ? -ENOMEM : 1;
}

/*
 * Reads the function that contains an address: its zone; or those before and after the address: the
 * gap between them.
 */
static int read_zone(struct function_bounds *b, const struct elf_file *f,
		     const struct unwind_input *input, uint64_t address, struct bounds *zone)
{
	size_t after = sorted_prefix(input->search_count, i, searched(input, i, 0) <= address);
	struct eh_fde fde;
	int rc = after ? read_searched(b, f, input, after - 1, &fde) : 0;

	*zone = (struct bounds){ after ? searched(input, after - 1, 0) : 0, UINT64_MAX };
	if (rc > 0 && address < fde.end) {
		zone->end = fde.end;
		return 0;
	}
	if (rc > 0)
		zone->start = fde.end;
	if (rc < 0 || after == input->search_count)
		return rc;
	zone->end = searched(input, after, 0);
	return read_searched(b, f, input, after, &fde);
}

static int read_zones(struct function_bounds *b, const struct elf_file *f,
		      const struct unwind_input *input, const struct wanted_addresses *wanted,
		      struct code_zones *zones)
{
	if (!elf_load(f, (struct elf_bytes){ input->search, 8 * input->search_count }))
		return -ENODATA;
	for (size_t i = 0; i < wanted->count; i++) {
		struct bounds *last =
			zones->items.count ? &zones->items.data[zones->items.count - 1] : NULL;
		struct bounds zone;

		if (last && wanted->data[i] < last->end)
			continue;
		if (read_zone(b, f, input, wanted->data[i], &zone) < 0)
			return -ENOMEM;
		if (last && zone.start < last->end)
			last->end = MAX(last->end, zone.end);
		else if (vec_push(&zones->items, zone) < 0)
			return -ENOMEM;
	}
	return 0;
}

ORDER(by_start, struct bounds, UP(start) ?: UP(end))

static int sort_and_index(struct function_bounds *b)
{
	int rc = 0;

	vec_sort(&b->items, by_start);
	for (size_t i = 0; rc == 0 && i < b->items.count; i++)
		rc = range_table_add(&b->table,
				     (struct range){ b->items.data[i].start, b->items.data[i].end,
						     0, (uint32_t)i });
	return rc == 0 ? range_table_finish(&b->table) : rc;
}

int function_bounds_init(struct function_bounds *b, const struct elf_file *f,
			 const struct wanted_addresses *wanted, struct code_zones *zones)
{
	struct unwind_input input;
	bool has_input = elf_unwind_input(f, &input) == 0 && !input.section.debug;
	int rc = 0;

	*b = (struct function_bounds){ .table = RANGE_TABLE_INIT };
	*zones = (struct code_zones){ .is_all = !has_input || !input.search || !wanted };
	if (!zones->is_all)
		rc = read_zones(b, f, &input, wanted, zones);
	if (rc == -ENODATA)
		zones->is_all = true;
	if (has_input && zones->is_all)
		rc = read_all(b, f, &input);
	if (rc == 0)
		rc = sort_and_index(b);
	if (rc < 0) {
		function_bounds_release(b);
		code_zones_release(zones);
	}
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
