/* dwarf_file.c: units, abbreviations and names. Forms and ranges are in dwarf_values.c. */
#include "symbol/dwarf_file.h"

#include <string.h>

#define UNITS_MAX ((size_t)4 << 20)
#define ATTRIBUTES_MAX 256 /* of one entry, which may take no byte: compilers use up to 30 */
#define REFERENCES_MAX 16 /* from an inlined call to the name of the function */

enum {
	DW_UT_compile = 1,
	DW_UT_type,
	DW_UT_partial,
	DW_UT_skeleton,
	DW_UT_split_compile,
	DW_UT_split_type
};

static int by_code(const void *pa, const void *pb)
{
	const struct dwarf_abbreviation *a = pa, *b = pb;

	return (a->code > b->code) - (a->code < b->code);
}

static bool read_attributes(struct cursor *c, struct dwarf_abbreviations *table,
			    struct dwarf_abbreviation *a)
{
	for (;;) {
		struct dwarf_attribute attribute;

		attribute.name = (uint32_t)cursor_uleb(c);
		attribute.form = (uint32_t)cursor_uleb(c);
		attribute.constant = attribute.form == 0x21 ? cursor_sleb(c) : 0;
		if (c->failed)
			return false;
		if (attribute.name == 0 && attribute.form == 0)
			return true;
		if (a->count >= ATTRIBUTES_MAX || table->attributes.count >= UINT32_MAX ||
		    vec_push(&table->attributes, attribute) < 0)
			return false;
		a->count++;
	}
}

static bool read_abbreviations(struct cursor *c, struct dwarf_abbreviations *table)
{
	bool is_sorted = true;

	for (;;) {
		struct dwarf_abbreviation a = { .code = cursor_uleb(c) };

		if (a.code == 0 || c->failed)
			break;
		a.tag = (uint32_t)cursor_uleb(c);
		a.has_children = cursor_u8(c) != 0;
		a.first = (uint32_t)table->attributes.count;
		if (!read_attributes(c, table, &a))
			return false;
		is_sorted &= !table->items.count ||
			     table->items.data[table->items.count - 1].code < a.code;
		if (vec_push(&table->items, a) < 0)
			return false;
	}
	if (!is_sorted)
		qsort(table->items.data, table->items.count, sizeof(*table->items.data), by_code);
	return !c->failed;
}

static void free_abbreviations(struct dwarf_abbreviations *table)
{
	if (!table)
		return;
	vec_release(&table->items);
	vec_release(&table->attributes);
	free(table);
}

/* The table at an offset of .debug_abbrev, read once; NULL: none. */
static struct dwarf_abbreviations *abbreviations_at(struct dwarf_file *d, uint64_t offset)
{
	struct dwarf_abbreviations *table;
	uint64_t known, read;
	struct cursor c;

	if (map_get(&d->tables, offset, &known))
		return (struct dwarf_abbreviations *)(uintptr_t)known;
	if (offset >= d->abbrev.size)
		return NULL;
	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	c = cursor_of(d->abbrev.data + offset,
		      (size_t)MIN(d->abbrev.size - offset, d->abbrev_budget));
	if (!read_abbreviations(&c, table)) {
		free_abbreviations(table);
		table = NULL;
	}
	read = (uint64_t)(c.p - (d->abbrev.data + offset));
	d->abbrev_budget -= MIN(read, d->abbrev_budget);
	if (map_put(&d->tables, offset, (uintptr_t)table) < 0) {
		free_abbreviations(table);
		table = NULL;
	}
	return table;
}

/* Makes its abbreviations available. False: it has none, or no memory. */
static bool dwarf_unit_prepare(struct dwarf_file *d, struct dwarf_unit *u)
{
	if (!u->abbreviations)
		u->abbreviations = abbreviations_at(d, u->abbreviations_offset);
	return u->abbreviations != NULL;
}

static const struct dwarf_abbreviation *find_code(const struct dwarf_abbreviations *table,
						  uint64_t code)
{
	struct dwarf_abbreviation key = { .code = code };

	/* Compilers number them from 1. */
	if (code <= table->items.count && table->items.data[code - 1].code == code)
		return &table->items.data[code - 1];
	return table->items.count
		       ? bsearch(&key, table->items.data, table->items.count, sizeof(key), by_code)
		       : NULL;
}

bool dwarf_entry_at(const struct dwarf_unit *u, uint64_t offset, struct dwarf_entry *entry)
{
	uint64_t code;

	if (offset < u->entries || offset >= u->end)
		return false;
	entry->unit = u;
	entry->offset = offset;
	entry->cursor = cursor_of(u->file->info.data + offset, (size_t)(u->end - offset));
	code = cursor_uleb(&entry->cursor);
	entry->abbreviation = code ? find_code(u->abbreviations, code) : NULL;
	return !entry->cursor.failed && (code == 0 || entry->abbreviation);
}

bool dwarf_unit_read(struct dwarf_file *d, struct dwarf_unit *u, struct dwarf_place *place)
{
	struct dwarf_value name = { 0 }, folder = { 0 };
	struct dwarf_entry entry;

	*place = (struct dwarf_place){ 0 };
	if (!dwarf_unit_prepare(d, u) || !dwarf_entry_at(u, u->entries, &entry) ||
	    !entry.abbreviation)
		return false;
	u->is_code = entry.abbreviation->tag == DW_TAG_compile_unit ||
		     entry.abbreviation->tag == DW_TAG_skeleton_unit;
	for (uint32_t i = 0; i < entry.abbreviation->count; i++) {
		const struct dwarf_attribute *a =
			&u->abbreviations->attributes.data[entry.abbreviation->first + i];
		struct dwarf_value v = dwarf_read(u, &entry.cursor, a);

		switch (a->name) {
		case DW_AT_name:
			name = v;
			break;
		case DW_AT_comp_dir:
			folder = v;
			break;
		case DW_AT_low_pc:
			place->low = v;
			break;
		case DW_AT_high_pc:
			place->high = v;
			break;
		case DW_AT_ranges:
			place->ranges = v;
			break;
		case DW_AT_stmt_list:
			u->has_lines = v.class == DWARF_OFFSET || v.class == DWARF_CONSTANT;
			u->lines_offset = v.number;
			break;
		case DW_AT_str_offsets_base:
			u->string_offsets = v.number;
			break;
		case DW_AT_addr_base:
			u->addresses = v.number;
			break;
		case DW_AT_rnglists_base:
			u->range_lists = v.number;
			break;
		case DW_AT_dwo_name:
		case DW_AT_GNU_dwo_name:
			u->is_split = true;
			break;
		}
	}
	/* Only now are the bases known. */
	u->name = dwarf_text(u, name);
	u->folder = dwarf_text(u, folder);
	dwarf_address(u, place->low, &u->base);
	return true;
}

/*
 * The header of a unit; false: not to be understood, and with u->end == 0 nothing after it either.
 */
static bool read_header(const struct dwarf_file *d, uint64_t offset, struct dwarf_unit *u)
{
	struct cursor c = cursor_of(d->info.data + offset, d->info.size - offset);
	uint64_t length = cursor_u32(&c);
	uint8_t type = DW_UT_compile;

	*u = (struct dwarf_unit){ .file = d, .offset = offset, .offset_size = 4 };
	if (length == UINT32_MAX) {
		length = cursor_u64(&c);
		u->offset_size = 8;
	}
	if (c.failed || length > cursor_left(&c) || length == 0)
		return false;
	u->end = (uint64_t)(c.p - d->info.data) + length;
	c.end = c.p + length;
	u->version = cursor_u16(&c);
	if (u->version < 2 || u->version > 5)
		return false;
	if (u->version == 5) {
		type = cursor_u8(&c);
		u->address_size = cursor_u8(&c);
	}
	u->abbreviations_offset = u->offset_size == 8 ? cursor_u64(&c) : cursor_u32(&c);
	if (u->version < 5)
		u->address_size = cursor_u8(&c);
	if (type == DW_UT_skeleton || type == DW_UT_split_compile)
		cursor_u64(&c);
	u->entries = (uint64_t)(c.p - d->info.data);
	/* Where a unit says nothing, its tables start after the header of the section. */
	u->string_offsets = u->version == 5 ? 2 * (uint64_t)u->offset_size : 0;
	u->addresses = u->version == 5 ? 2 * (uint64_t)u->offset_size : 0;
	u->range_lists = u->version == 5 ? (u->offset_size == 8 ? 20 : 12) : 0;
	return !c.failed && (u->address_size == 8 || u->address_size == 4) &&
	       (type == DW_UT_compile || type == DW_UT_partial || type == DW_UT_skeleton);
}

static int read_units(struct dwarf_file *d)
{
	uint64_t offset = 0;

	while (d->info.data && offset < d->info.size && d->units.count < UNITS_MAX) {
		struct dwarf_unit u;
		bool good = read_header(d, offset, &u);

		if (u.end <= offset)
			break;
		if (good && vec_push(&d->units, u) < 0)
			return -ENOMEM;
		offset = u.end;
	}
	return 0;
}

int dwarf_open(struct dwarf_file *d, const struct elf_file *f, const struct elf_file *code,
	       struct dwarf_file *alt)
{
	*d = (struct dwarf_file){
		.code = code,
		.alt = alt,
		.tables = MAP_INIT,
		.info = elf_named_contents(f, ".debug_info"),
		.abbrev = elf_named_contents(f, ".debug_abbrev"),
		.str = elf_named_contents(f, ".debug_str"),
		.line = elf_named_contents(f, ".debug_line"),
		.line_str = elf_named_contents(f, ".debug_line_str"),
		.str_offsets = elf_named_contents(f, ".debug_str_offsets"),
		.addr = elf_named_contents(f, ".debug_addr"),
		.ranges = elf_named_contents(f, ".debug_ranges"),
		.rnglists = elf_named_contents(f, ".debug_rnglists"),
	};
	d->abbrev_budget = 4 * (uint64_t)d->abbrev.size;
	d->ranges_budget = 16 * ((uint64_t)d->ranges.size + d->rnglists.size);
	return read_units(d);
}

void dwarf_release(struct dwarf_file *d)
{
	for (size_t i = 0; i < d->units.count; i++) {
		uint64_t table, offset = d->units.data[i].abbreviations_offset;

		if (!map_get(&d->tables, offset, &table))
			continue;
		free_abbreviations((struct dwarf_abbreviations *)(uintptr_t)table);
		if (map_put(&d->tables, offset, 0) < 0)
			break; /* cannot be: the key is there */
	}
	map_release(&d->tables);
	vec_release(&d->units);
	if (d->alt) {
		dwarf_release(d->alt);
		free(d->alt);
	}
	*d = (struct dwarf_file){ 0 };
}

/* The unit with an offset of .debug_info in it, or NULL. */
static struct dwarf_unit *dwarf_unit_at(struct dwarf_file *d, uint64_t offset)
{
	size_t low = 0, high = d->units.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (d->units.data[middle].end <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < d->units.count && d->units.data[low].offset <= offset ? &d->units.data[low]
									   : NULL;
}

/* The names that one entry has, and the entry that it refers to for more. */
struct naming {
	struct dwarf_value name, linkage, next;
};

static void read_naming(const struct dwarf_entry *entry, struct naming *n)
{
	const struct dwarf_unit *u = entry->unit;
	struct cursor c = entry->cursor;

	*n = (struct naming){ 0 };
	for (uint32_t i = 0; i < entry->abbreviation->count; i++) {
		const struct dwarf_attribute *a =
			&u->abbreviations->attributes.data[entry->abbreviation->first + i];
		struct dwarf_value v = dwarf_read(u, &c, a);

		if (a->name == DW_AT_name)
			n->name = v;
		else if (a->name == DW_AT_linkage_name || a->name == DW_AT_MIPS_linkage_name)
			n->linkage = v;
		else if (a->name == DW_AT_abstract_origin || a->name == DW_AT_specification)
			n->next = v;
	}
}

struct dwarf_name dwarf_function_name(struct dwarf_file *d, struct dwarf_value reference)
{
	struct dwarf_name name = { .text = NULL };

	for (unsigned i = 0; i < REFERENCES_MAX && d; i++) {
		struct dwarf_unit *u;
		struct dwarf_entry entry;
		struct naming n;
		const char *text;

		if (reference.class == DWARF_REFERENCE_ALT)
			d = d->alt;
		else if (reference.class != DWARF_REFERENCE)
			break;
		u = d ? dwarf_unit_at(d, reference.number) : NULL;
		if (!u || !dwarf_unit_prepare(d, u) ||
		    !dwarf_entry_at(u, reference.number, &entry) || !entry.abbreviation)
			break;
		read_naming(&entry, &n);
		text = dwarf_text(u, n.linkage);
		if (text)
			return (struct dwarf_name){ .text = text, .is_linkage = true };
		text = name.text ? NULL : dwarf_text(u, n.name);
		if (text)
			name = (struct dwarf_name){ text, false, reference.number, u };
		reference = n.next;
	}
	return name;
}
