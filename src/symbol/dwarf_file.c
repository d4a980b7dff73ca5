/* dwarf_file.c: units, abbreviations and names. dwarf_values.c reads forms and ranges. */
#include "symbol/dwarf_file.h"

#include <string.h>

#include "base/search.h"

#define UNITS_MAX ((size_t)4 << 20)
#define ATTRIBUTES_MAX 256 /* of one entry; they may have no bytes. Compilers use up to 30 */
#define REFERENCES_MAX 16 /* followed from an inlined call to the name of the function */

enum {
	DW_UT_compile = 1,
	DW_UT_type,
	DW_UT_partial,
	DW_UT_skeleton,
	DW_UT_split_compile,
	DW_UT_split_type
};

ORDER(by_code, struct dwarf_abbreviation, UP(code))

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
		vec_sort(&table->items, by_code);
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

/* Returns the table at an offset of .debug_abbrev, which is read once; NULL: none. */
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

/* Loads the unit's abbreviations. Returns false if it has none, or there is no memory. */
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

	/* Compilers number abbreviations from 1. */
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

static struct dwarf_value *fact_of(struct dwarf_facts *facts, uint32_t attribute)
{
	switch (attribute) {
	case DW_AT_name:
		return &facts->name;
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		return &facts->linkage_name;
	case DW_AT_comp_dir:
		return &facts->folder;
	case DW_AT_low_pc:
		return &facts->extent.low;
	case DW_AT_high_pc:
		return &facts->extent.high;
	case DW_AT_ranges:
		return &facts->extent.ranges;
	case DW_AT_abstract_origin:
		return &facts->origin;
	case DW_AT_specification:
		return &facts->specification;
	case DW_AT_call_file:
		return &facts->call_file;
	case DW_AT_call_line:
		return &facts->call_line;
	case DW_AT_sibling:
		return &facts->sibling;
	case DW_AT_stmt_list:
		return &facts->lines;
	case DW_AT_str_offsets_base:
		return &facts->string_offsets;
	case DW_AT_addr_base:
		return &facts->addresses;
	case DW_AT_rnglists_base:
		return &facts->range_lists;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		return &facts->split;
	}
	return NULL;
}

void dwarf_read_facts(struct dwarf_entry *entry, struct dwarf_facts *facts)
{
	const struct dwarf_abbreviations *table = entry->unit->abbreviations;

	*facts = (struct dwarf_facts){ 0 };
	for (uint32_t i = 0; i < entry->abbreviation->count; i++) {
		const struct dwarf_attribute *a =
			&table->attributes.data[entry->abbreviation->first + i];
		struct dwarf_value v = dwarf_read(entry->unit, &entry->cursor, a);
		struct dwarf_value *fact = fact_of(facts, a->name);

		if (fact)
			*fact = v;
	}
}

/* Sets a base in a section. Without the attribute, the unit's data follow the section's header. */
static void set_base(uint64_t *base, struct dwarf_value value)
{
	if (value.class != DWARF_NONE)
		*base = value.number;
}

bool dwarf_unit_read(struct dwarf_file *d, struct dwarf_unit *u, struct dwarf_extent *extent)
{
	struct dwarf_entry entry;
	struct dwarf_facts facts;

	*extent = (struct dwarf_extent){ 0 };
	if (!dwarf_unit_prepare(d, u) || !dwarf_entry_at(u, u->entries, &entry) ||
	    !entry.abbreviation)
		return false;
	u->is_code = entry.abbreviation->tag == DW_TAG_compile_unit ||
		     entry.abbreviation->tag == DW_TAG_skeleton_unit;
	dwarf_read_facts(&entry, &facts);
	set_base(&u->string_offsets, facts.string_offsets);
	set_base(&u->addresses, facts.addresses);
	set_base(&u->range_lists, facts.range_lists);
	u->has_lines = facts.lines.class == DWARF_OFFSET || facts.lines.class == DWARF_CONSTANT;
	u->lines_offset = facts.lines.number;
	u->is_split = facts.split.class != DWARF_NONE;
	/* These need the bases. */
	u->name = dwarf_text(u, facts.name);
	u->folder = dwarf_text(u, facts.folder);
	*extent = facts.extent;
	dwarf_address(u, extent->low, &u->base);
	return true;
}

/* Reads a unit's header; false: unusable, and if u->end is 0, nothing after it is readable. */
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
			break; /* impossible: the key exists */
	}
	map_release(&d->tables);
	vec_release(&d->units);
	if (d->alt) {
		dwarf_release(d->alt);
		free(d->alt);
	}
	*d = (struct dwarf_file){ 0 };
}

/* Returns the unit that contains an offset of .debug_info, or NULL. */
static struct dwarf_unit *dwarf_unit_at(struct dwarf_file *d, uint64_t offset)
{
	struct dwarf_unit *all = d->units.data;
	size_t at = sorted_prefix(d->units.count, i, all[i].end <= offset);

	return at < d->units.count && all[at].offset <= offset ? &all[at] : NULL;
}

struct dwarf_name dwarf_function_name(struct dwarf_file *d, struct dwarf_value reference)
{
	struct dwarf_name name = { .text = NULL };

	for (unsigned i = 0; i < REFERENCES_MAX && d; i++) {
		struct dwarf_unit *u;
		struct dwarf_entry entry;
		struct dwarf_facts facts;
		const char *text;

		if (reference.class == DWARF_REFERENCE_ALT)
			d = d->alt;
		else if (reference.class != DWARF_REFERENCE)
			break;
		u = d ? dwarf_unit_at(d, reference.number) : NULL;
		if (!u || !dwarf_unit_prepare(d, u) ||
		    !dwarf_entry_at(u, reference.number, &entry) || !entry.abbreviation)
			break;
		dwarf_read_facts(&entry, &facts);
		text = dwarf_text(u, facts.linkage_name);
		if (text)
			return (struct dwarf_name){ .text = text, .is_linkage = true };
		text = name.text ? NULL : dwarf_text(u, facts.name);
		if (text)
			name = (struct dwarf_name){ text, false, reference.number, u };
		reference = facts.origin.class != DWARF_NONE ? facts.origin : facts.specification;
	}
	return name;
}
