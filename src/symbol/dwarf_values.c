/* dwarf_values.c: decodes attribute values: forms, strings, addresses, range lists. */
#include <string.h>

#include "symbol/dwarf_file.h"

enum {
	DW_FORM_indirect = 0x16,
	DW_FORM_implicit_const = 0x21,
	DW_FORM_GNU_ref_alt = 0x1f20,
	DW_FORM_GNU_strp_alt = 0x1f21,
};

/* How a form is stored; 1, 2, 3, 4, 8 and 16 are numbers of that many bytes. */
enum stored {
	STORED_UNKNOWN,
	STORED_16_BYTES = 16,
	STORED_NOTHING, /* no bytes; the value is 1 */
	STORED_ULEB,
	STORED_SLEB,
	STORED_OFFSET, /* 4 or 8 bytes, depending on the unit */
	STORED_ADDRESS,
	STORED_REFERENCE, /* an offset, or an address in version 2 */
	STORED_TEXT,
	STORED_BLOCK, /* length as ULEB, then bytes; or length in 1, 2 or 4 bytes: */
	STORED_BLOCK_1,
	STORED_BLOCK_2,
	STORED_BLOCK_4,
};

/* What the number of a form is an offset from, if it is one. */
enum origin { ORIGIN_NONE, ORIGIN_UNIT, ORIGIN_STR, ORIGIN_LINE_STR, ORIGIN_ALT_STR };

struct form {
	uint8_t stored, class, origin;
};

static const struct form forms[] = {
	[0x01] = { STORED_ADDRESS, DWARF_ADDRESS, 0 }, /* addr */
	[0x03] = { STORED_BLOCK_2, DWARF_NONE, 0 }, /* block2 */
	[0x04] = { STORED_BLOCK_4, DWARF_NONE, 0 }, /* block4 */
	[0x05] = { 2, DWARF_CONSTANT, 0 }, /* data2 */
	[0x06] = { 4, DWARF_CONSTANT, 0 }, /* data4 */
	[0x07] = { 8, DWARF_CONSTANT, 0 }, /* data8 */
	[0x08] = { STORED_TEXT, DWARF_STRING, 0 }, /* string */
	[0x09] = { STORED_BLOCK, DWARF_NONE, 0 }, /* block */
	[0x0a] = { STORED_BLOCK_1, DWARF_NONE, 0 }, /* block1 */
	[0x0b] = { 1, DWARF_CONSTANT, 0 }, /* data1 */
	[0x0c] = { 1, DWARF_CONSTANT, 0 }, /* flag */
	[0x0d] = { STORED_SLEB, DWARF_CONSTANT, 0 }, /* sdata */
	[0x0e] = { STORED_OFFSET, DWARF_STRING, ORIGIN_STR }, /* strp */
	[0x0f] = { STORED_ULEB, DWARF_CONSTANT, 0 }, /* udata */
	[0x10] = { STORED_REFERENCE, DWARF_REFERENCE, 0 }, /* ref_addr */
	[0x11] = { 1, DWARF_REFERENCE, ORIGIN_UNIT }, /* ref1 */
	[0x12] = { 2, DWARF_REFERENCE, ORIGIN_UNIT }, /* ref2 */
	[0x13] = { 4, DWARF_REFERENCE, ORIGIN_UNIT }, /* ref4 */
	[0x14] = { 8, DWARF_REFERENCE, ORIGIN_UNIT }, /* ref8 */
	[0x15] = { STORED_ULEB, DWARF_REFERENCE, ORIGIN_UNIT }, /* ref_udata */
	[0x17] = { STORED_OFFSET, DWARF_OFFSET, 0 }, /* sec_offset */
	[0x18] = { STORED_BLOCK, DWARF_NONE, 0 }, /* exprloc */
	[0x19] = { STORED_NOTHING, DWARF_CONSTANT, 0 }, /* flag_present */
	[0x1a] = { STORED_ULEB, DWARF_STRING_INDEX, 0 }, /* strx */
	[0x1b] = { STORED_ULEB, DWARF_ADDRESS_INDEX, 0 }, /* addrx */
	[0x1c] = { 4, DWARF_REFERENCE_ALT, 0 }, /* ref_sup4 */
	[0x1d] = { STORED_OFFSET, DWARF_STRING, ORIGIN_ALT_STR }, /* strp_sup */
	[0x1e] = { STORED_16_BYTES, DWARF_NONE, 0 }, /* data16 */
	[0x1f] = { STORED_OFFSET, DWARF_STRING, ORIGIN_LINE_STR }, /* line_strp */
	[0x20] = { 8, DWARF_NONE, 0 }, /* ref_sig8 */
	[0x22] = { STORED_ULEB, DWARF_NONE, 0 }, /* loclistx */
	[0x23] = { STORED_ULEB, DWARF_RANGES_INDEX, 0 }, /* rnglistx */
	[0x24] = { 8, DWARF_REFERENCE_ALT, 0 }, /* ref_sup8 */
	[0x25] = { 1, DWARF_STRING_INDEX, 0 }, /* strx1 */
	[0x26] = { 2, DWARF_STRING_INDEX, 0 }, /* strx2 */
	[0x27] = { 3, DWARF_STRING_INDEX, 0 }, /* strx3 */
	[0x28] = { 4, DWARF_STRING_INDEX, 0 }, /* strx4 */
	[0x29] = { 1, DWARF_ADDRESS_INDEX, 0 }, /* addrx1 */
	[0x2a] = { 2, DWARF_ADDRESS_INDEX, 0 }, /* addrx2 */
	[0x2b] = { 3, DWARF_ADDRESS_INDEX, 0 }, /* addrx3 */
	[0x2c] = { 4, DWARF_ADDRESS_INDEX, 0 }, /* addrx4 */
};

/* Entries of .debug_rnglists. */
enum {
	DW_RLE_end_of_list,
	DW_RLE_base_addressx,
	DW_RLE_startx_endx,
	DW_RLE_startx_length,
	DW_RLE_offset_pair,
	DW_RLE_base_address,
	DW_RLE_start_end,
	DW_RLE_start_length,
};

static uint64_t read_offset(const struct dwarf_unit *u, struct cursor *c)
{
	return u->offset_size == 8 ? cursor_u64(c) : cursor_u32(c);
}

static uint64_t read_address(const struct dwarf_unit *u, struct cursor *c)
{
	return u->address_size == 8 ? cursor_u64(c) : cursor_u32(c);
}

static uint64_t read_u24(struct cursor *c)
{
	uint64_t low = cursor_u16(c);

	return low | (uint64_t)cursor_u8(c) << 16;
}

static struct dwarf_value value(enum dwarf_class class, uint64_t number)
{
	return (struct dwarf_value){ class, number, NULL };
}

static struct dwarf_value string_at(struct elf_bytes section, uint64_t offset)
{
	const char *text = elf_string(section, offset);

	return (struct dwarf_value){ text ? DWARF_STRING : DWARF_NONE, 0, text };
}

static uint64_t skip(struct cursor *c, uint64_t bytes)
{
	cursor_bytes(c, (size_t)bytes);
	return 0;
}

/* Reads the number of a form; 0 if it has none. */
static uint64_t read_stored(const struct dwarf_unit *u, struct cursor *c, uint8_t stored)
{
	switch (stored) {
	case 1:
		return cursor_u8(c);
	case 2:
		return cursor_u16(c);
	case 3:
		return read_u24(c);
	case 4:
		return cursor_u32(c);
	case 8:
		return cursor_u64(c);
	case STORED_16_BYTES:
		return skip(c, 16);
	case STORED_NOTHING:
		return 1;
	case STORED_ULEB:
		return cursor_uleb(c);
	case STORED_SLEB:
		return (uint64_t)cursor_sleb(c);
	case STORED_OFFSET:
		return read_offset(u, c);
	case STORED_ADDRESS:
		return read_address(u, c);
	case STORED_REFERENCE:
		return u->version == 2 ? read_address(u, c) : read_offset(u, c);
	case STORED_BLOCK:
		return skip(c, cursor_uleb(c));
	case STORED_BLOCK_1:
		return skip(c, cursor_u8(c));
	case STORED_BLOCK_2:
		return skip(c, cursor_u16(c));
	case STORED_BLOCK_4:
		return skip(c, cursor_u32(c));
	default:
		c->failed = true;
		return 0;
	}
}

static struct form form_of(uint32_t form)
{
	if (form == DW_FORM_GNU_ref_alt)
		return (struct form){ STORED_OFFSET, DWARF_REFERENCE_ALT, 0 };
	if (form == DW_FORM_GNU_strp_alt)
		return (struct form){ STORED_OFFSET, DWARF_STRING, ORIGIN_ALT_STR };
	return form < ARRAY_SIZE(forms) ? forms[form] : forms[0];
}

struct dwarf_value dwarf_read_form(const struct dwarf_unit *u, struct cursor *c, uint32_t form)
{
	struct form f = form_of(form);
	const struct dwarf_file *alt = u->file->alt;
	const char *text;
	uint64_t number;

	if (f.stored == STORED_TEXT) {
		text = cursor_text(c);
		return (struct dwarf_value){ text ? DWARF_STRING : DWARF_NONE, 0, text };
	}
	number = read_stored(u, c, f.stored);
	switch (f.origin) {
	case ORIGIN_UNIT:
		return number < u->end - u->offset ? value(DWARF_REFERENCE, u->offset + number)
						   : value(DWARF_NONE, 0);
	case ORIGIN_STR:
		return string_at(u->file->str, number);
	case ORIGIN_LINE_STR:
		return string_at(u->file->line_str, number);
	case ORIGIN_ALT_STR:
		return string_at(alt ? alt->str : (struct elf_bytes){ NULL, 0 }, number);
	}
	return value((enum dwarf_class)f.class, number);
}

struct dwarf_value dwarf_read(const struct dwarf_unit *u, struct cursor *c,
			      const struct dwarf_attribute *attribute)
{
	uint32_t form = attribute->form;
	struct dwarf_value v;

	if (form == DW_FORM_implicit_const)
		return value(DWARF_CONSTANT, (uint64_t)attribute->constant);
	/* The form is stored with the value. Followed once only: chains of these are useless. */
	if (form == DW_FORM_indirect)
		form = (uint32_t)cursor_uleb(c);
	v = dwarf_read_form(u, c, form);
	return c->failed ? value(DWARF_NONE, 0) : v;
}

/* Reads item `index` of an array of `size`-byte items at `base` in a section. */
static bool array_item(struct elf_bytes section, uint64_t base, uint64_t index, unsigned size,
		       uint64_t *item)
{
	uint64_t at;

	if (index > section.size || base > section.size)
		return false;
	at = base + index * size;
	if (at > section.size || size > section.size - at)
		return false;
	*item = size == 8 ? load_u64(section.data + at) : load_u32(section.data + at);
	return true;
}

const char *dwarf_text(const struct dwarf_unit *u, struct dwarf_value v)
{
	uint64_t offset;

	if (v.class == DWARF_STRING)
		return v.text;
	if (v.class != DWARF_STRING_INDEX ||
	    !array_item(u->file->str_offsets, u->string_offsets, v.number, u->offset_size, &offset))
		return NULL;
	return elf_string(u->file->str, offset);
}

bool dwarf_address(const struct dwarf_unit *u, struct dwarf_value v, uint64_t *address)
{
	if (v.class == DWARF_ADDRESS)
		*address = v.number;
	return v.class == DWARF_ADDRESS ||
	       (v.class == DWARF_ADDRESS_INDEX &&
		array_item(u->file->addr, u->addresses, v.number, u->address_size, address));
}

/* The table to add ranges to, and their attributes. */
struct adding {
	const struct dwarf_unit *unit;
	struct range_table *to;
	uint32_t order, value;
};

/* Ignores code that the linker has discarded: it is at 0, or at the last addresses. */
static int add_range(const struct adding *a, uint64_t start, uint64_t end)
{
	if (start == 0 || start >= end || !elf_is_code(a->unit->file->code, start))
		return 0;
	return range_table_add(a->to, (struct range){ start, end, a->order, a->value });
}

/* Reads a list of .debug_ranges: pairs relative to a base, which a first address of ones sets. */
static int add_old_list(const struct adding *a, struct cursor *c)
{
	const struct dwarf_unit *u = a->unit;
	uint64_t base = u->base, ones = u->address_size == 8 ? UINT64_MAX : UINT32_MAX;

	for (;;) {
		uint64_t start = read_address(u, c), end = read_address(u, c);

		if (c->failed || (start == 0 && end == 0))
			return 0;
		if (start == ones)
			base = end;
		else if (start < end && add_range(a, base + start, base + end) < 0)
			return -ENOMEM;
	}
}

static uint64_t indexed_address(const struct dwarf_unit *u, struct cursor *c)
{
	uint64_t address = 0;

	dwarf_address(u, value(DWARF_ADDRESS_INDEX, cursor_uleb(c)), &address);
	return address;
}

static int add_new_list(const struct adding *a, struct cursor *c)
{
	const struct dwarf_unit *u = a->unit;
	uint64_t base = u->base, start, end;

	for (;;) {
		uint8_t kind = cursor_u8(c);

		start = end = 0;
		switch (kind) {
		case DW_RLE_base_addressx:
			base = indexed_address(u, c);
			break;
		case DW_RLE_base_address:
			base = read_address(u, c);
			break;
		case DW_RLE_startx_endx:
			start = indexed_address(u, c);
			end = indexed_address(u, c);
			break;
		case DW_RLE_startx_length:
			start = indexed_address(u, c);
			end = start + cursor_uleb(c);
			break;
		case DW_RLE_offset_pair:
			start = base + cursor_uleb(c);
			end = base + cursor_uleb(c);
			break;
		case DW_RLE_start_end:
			start = read_address(u, c);
			end = read_address(u, c);
			break;
		case DW_RLE_start_length:
			start = read_address(u, c);
			end = start + cursor_uleb(c);
			break;
		default:
			return 0;
		}
		if (c->failed)
			return 0;
		if (add_range(a, start, end) < 0)
			return -ENOMEM;
	}
}

static int add_list(struct dwarf_file *d, const struct adding *a, struct dwarf_value v)
{
	const struct dwarf_unit *u = a->unit;
	struct elf_bytes section = u->version >= 5 ? d->rnglists : d->ranges;
	uint64_t offset = v.number;
	struct cursor c;
	const uint8_t *start;
	int rc;

	if (v.class == DWARF_RANGES_INDEX) {
		if (!array_item(section, u->range_lists, v.number, u->offset_size, &offset))
			return 0;
		offset += u->range_lists;
	}
	if (!section.data || offset >= section.size)
		return 0;
	start = section.data + offset;
	c = cursor_of(start, (size_t)MIN(section.size - offset, d->ranges_budget));
	rc = u->version >= 5 ? add_new_list(a, &c) : add_old_list(a, &c);
	d->ranges_budget -= MIN((uint64_t)(c.p - start), d->ranges_budget);
	return rc;
}

int dwarf_add_ranges(struct dwarf_file *d, const struct dwarf_unit *u, const struct dwarf_extent *p,
		     uint32_t order, uint32_t number, struct range_table *to)
{
	struct adding adding = { u, to, order, number };
	uint64_t low, high;

	if (p->ranges.class != DWARF_NONE)
		return add_list(d, &adding, p->ranges);
	if (!dwarf_address(u, p->low, &low) || p->high.class == DWARF_NONE)
		return 0;
	if (!dwarf_address(u, p->high, &high))
		high = low + p->high.number;
	return add_range(&adding, low, high);
}
