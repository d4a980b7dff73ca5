/* dwarf_values.c: what attributes say: forms, strings, addresses, lists of ranges. */
#include <string.h>

#include "symbol/dwarf_file.h"

enum {
	DW_FORM_addr = 0x01,
	DW_FORM_block2 = 0x03,
	DW_FORM_block4 = 0x04,
	DW_FORM_data2 = 0x05,
	DW_FORM_data4 = 0x06,
	DW_FORM_data8 = 0x07,
	DW_FORM_string = 0x08,
	DW_FORM_block = 0x09,
	DW_FORM_block1 = 0x0a,
	DW_FORM_data1 = 0x0b,
	DW_FORM_flag = 0x0c,
	DW_FORM_sdata = 0x0d,
	DW_FORM_strp = 0x0e,
	DW_FORM_udata = 0x0f,
	DW_FORM_ref_addr = 0x10,
	DW_FORM_ref1 = 0x11,
	DW_FORM_ref2 = 0x12,
	DW_FORM_ref4 = 0x13,
	DW_FORM_ref8 = 0x14,
	DW_FORM_ref_udata = 0x15,
	DW_FORM_indirect = 0x16,
	DW_FORM_sec_offset = 0x17,
	DW_FORM_exprloc = 0x18,
	DW_FORM_flag_present = 0x19,
	DW_FORM_strx = 0x1a,
	DW_FORM_addrx = 0x1b,
	DW_FORM_ref_sup4 = 0x1c,
	DW_FORM_strp_sup = 0x1d,
	DW_FORM_data16 = 0x1e,
	DW_FORM_line_strp = 0x1f,
	DW_FORM_ref_sig8 = 0x20,
	DW_FORM_implicit_const = 0x21,
	DW_FORM_loclistx = 0x22,
	DW_FORM_rnglistx = 0x23,
	DW_FORM_ref_sup8 = 0x24,
	DW_FORM_strx1 = 0x25,
	DW_FORM_strx2 = 0x26,
	DW_FORM_strx3 = 0x27,
	DW_FORM_strx4 = 0x28,
	DW_FORM_addrx1 = 0x29,
	DW_FORM_addrx2 = 0x2a,
	DW_FORM_addrx3 = 0x2b,
	DW_FORM_addrx4 = 0x2c,
	DW_FORM_GNU_ref_alt = 0x1f20,
	DW_FORM_GNU_strp_alt = 0x1f21,
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

static struct dwarf_value skip(struct cursor *c, uint64_t bytes)
{
	cursor_bytes(c, (size_t)bytes);
	return value(DWARF_NONE, 0);
}

static struct dwarf_value read_reference(const struct dwarf_unit *u, struct cursor *c,
					 uint32_t form)
{
	uint64_t offset = 0;

	switch (form) {
	case DW_FORM_ref1:
		offset = cursor_u8(c);
		break;
	case DW_FORM_ref2:
		offset = cursor_u16(c);
		break;
	case DW_FORM_ref4:
		offset = cursor_u32(c);
		break;
	case DW_FORM_ref8:
		offset = cursor_u64(c);
		break;
	case DW_FORM_ref_udata:
		offset = cursor_uleb(c);
		break;
	}
	return offset < u->end - u->offset ? value(DWARF_REFERENCE, u->offset + offset)
					   : value(DWARF_NONE, 0);
}

static struct dwarf_value read_string(const struct dwarf_unit *u, struct cursor *c, uint32_t form)
{
	const char *text;

	switch (form) {
	case DW_FORM_strp:
		return string_at(u->file->str, read_offset(u, c));
	case DW_FORM_line_strp:
		return string_at(u->file->line_str, read_offset(u, c));
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
		return string_at(u->file->alt ? u->file->alt->str : (struct elf_bytes){ NULL, 0 },
				 read_offset(u, c));
	case DW_FORM_strx:
		return value(DWARF_STRING_INDEX, cursor_uleb(c));
	case DW_FORM_strx1:
		return value(DWARF_STRING_INDEX, cursor_u8(c));
	case DW_FORM_strx2:
		return value(DWARF_STRING_INDEX, cursor_u16(c));
	case DW_FORM_strx3:
		return value(DWARF_STRING_INDEX, read_u24(c));
	case DW_FORM_strx4:
		return value(DWARF_STRING_INDEX, cursor_u32(c));
	}
	text = cursor_text(c);
	return (struct dwarf_value){ text ? DWARF_STRING : DWARF_NONE, 0, text };
}

struct dwarf_value dwarf_read_form(const struct dwarf_unit *u, struct cursor *c, uint32_t form)
{
	switch (form) {
	case DW_FORM_addr:
		return value(DWARF_ADDRESS, read_address(u, c));
	case DW_FORM_addrx:
		return value(DWARF_ADDRESS_INDEX, cursor_uleb(c));
	case DW_FORM_addrx1:
		return value(DWARF_ADDRESS_INDEX, cursor_u8(c));
	case DW_FORM_addrx2:
		return value(DWARF_ADDRESS_INDEX, cursor_u16(c));
	case DW_FORM_addrx3:
		return value(DWARF_ADDRESS_INDEX, read_u24(c));
	case DW_FORM_addrx4:
		return value(DWARF_ADDRESS_INDEX, cursor_u32(c));
	case DW_FORM_flag:
	case DW_FORM_data1:
		return value(DWARF_CONSTANT, cursor_u8(c));
	case DW_FORM_data2:
		return value(DWARF_CONSTANT, cursor_u16(c));
	case DW_FORM_data4:
		return value(DWARF_CONSTANT, cursor_u32(c));
	case DW_FORM_data8:
		return value(DWARF_CONSTANT, cursor_u64(c));
	case DW_FORM_udata:
		return value(DWARF_CONSTANT, cursor_uleb(c));
	case DW_FORM_sdata:
		return value(DWARF_CONSTANT, (uint64_t)cursor_sleb(c));
	case DW_FORM_flag_present:
		return value(DWARF_CONSTANT, 1);
	case DW_FORM_sec_offset:
		return value(DWARF_OFFSET, read_offset(u, c));
	case DW_FORM_rnglistx:
		return value(DWARF_RANGES_INDEX, cursor_uleb(c));
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		return read_reference(u, c, form);
	case DW_FORM_ref_addr:
		return value(DWARF_REFERENCE,
			     u->version == 2 ? read_address(u, c) : read_offset(u, c));
	case DW_FORM_GNU_ref_alt:
		return value(DWARF_REFERENCE_ALT, read_offset(u, c));
	case DW_FORM_ref_sup4:
		return value(DWARF_REFERENCE_ALT, cursor_u32(c));
	case DW_FORM_ref_sup8:
		return value(DWARF_REFERENCE_ALT, cursor_u64(c));
	case DW_FORM_string:
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
		return read_string(u, c, form);
	case DW_FORM_block1:
		return skip(c, cursor_u8(c));
	case DW_FORM_block2:
		return skip(c, cursor_u16(c));
	case DW_FORM_block4:
		return skip(c, cursor_u32(c));
	case DW_FORM_block:
	case DW_FORM_exprloc:
		return skip(c, cursor_uleb(c));
	case DW_FORM_loclistx:
		cursor_uleb(c);
		return value(DWARF_NONE, 0);
	case DW_FORM_ref_sig8:
		return skip(c, 8);
	case DW_FORM_data16:
		return skip(c, 16);
	}
	c->failed = true;
	return value(DWARF_NONE, 0);
}

struct dwarf_value dwarf_read(const struct dwarf_unit *u, struct cursor *c,
			      const struct dwarf_attribute *attribute)
{
	uint32_t form = attribute->form;
	struct dwarf_value v;

	if (form == DW_FORM_implicit_const)
		return value(DWARF_CONSTANT, (uint64_t)attribute->constant);
	/* The form is with the value. Once only: a chain of these says nothing. */
	if (form == DW_FORM_indirect)
		form = (uint32_t)cursor_uleb(c);
	v = dwarf_read_form(u, c, form);
	return c->failed ? value(DWARF_NONE, 0) : v;
}

/* Item `index` of an array of items of `size` bytes at `base` of a section. */
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

/* A table that ranges go to. */
struct adding {
	const struct dwarf_unit *unit;
	struct range_table *to;
	uint32_t order, value;
};

/* Code that the linker threw away is at 0, or at the last addresses. */
static int add_range(const struct adding *a, uint64_t start, uint64_t end)
{
	if (start == 0 || start >= end || !elf_is_code(a->unit->file->code, start))
		return 0;
	return range_table_add(a->to, (struct range){ start, end, a->order, a->value });
}

/* .debug_ranges: pairs relative to a base; a first address of all ones sets the base. */
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
	int r;

	if (v.class == DWARF_RANGES_INDEX) {
		if (!array_item(section, u->range_lists, v.number, u->offset_size, &offset))
			return 0;
		offset += u->range_lists;
	}
	if (!section.data || offset >= section.size)
		return 0;
	start = section.data + offset;
	c = cursor_of(start, (size_t)MIN(section.size - offset, d->ranges_budget));
	r = u->version >= 5 ? add_new_list(a, &c) : add_old_list(a, &c);
	d->ranges_budget -= MIN((uint64_t)(c.p - start), d->ranges_budget);
	return r;
}

int dwarf_add_ranges(struct dwarf_file *d, const struct dwarf_unit *u, const struct dwarf_place *p,
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
