#include "elf/eh_frame.h"

#include <string.h>

#include "base/leb128.h"
#include "elf/cfa_expression.h"

enum {
	PE_UPTR,
	PE_ULEB,
	PE_U2,
	PE_U4,
	PE_U8,
	PE_SLEB = 9,
	PE_S2,
	PE_S4,
	PE_S8,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
};

static uint64_t read_format(struct cursor *c, uint8_t format)
{
	switch (format) {
	case PE_UPTR:
	case PE_U8:
	case PE_S8:
		return cursor_u64(c);
	case PE_U2:
		return cursor_u16(c);
	case PE_U4:
		return cursor_u32(c);
	case PE_S2:
		return (uint64_t)(int64_t)(int16_t)cursor_u16(c);
	case PE_S4:
		return (uint64_t)(int64_t)(int32_t)cursor_u32(c);
	case PE_ULEB:
		return cursor_varint(c);
	case PE_SLEB:
		return (uint64_t)cursor_sleb(c);
	default:
		c->failed = true;
		return 0;
	}
}

/*
 * Reads a pointer with an encoding DW_EH_PE_*; the address of the first byte at c is `at`. Returns
 * false when it cannot be read or is omitted.
 */
static bool eh_pointer(struct cursor *c, uint8_t encoding, uint64_t at, uint64_t data_base,
		       uint64_t *value)
{
	uint64_t v;

	if (encoding & EH_PE_INDIRECT) /* includes DW_EH_PE_omit, 0xff */
		return false;
	v = read_format(c, encoding & 0x0f);
	switch (encoding & 0x70) {
	case 0:
		break;
	case PE_PCREL:
		v += at;
		break;
	case PE_DATAREL:
		v += data_base;
		break;
	default:
		return false;
	}
	*value = v;
	return !c->failed;
}

#define SEARCH_TABLE_ENCODING 0x3b /* datarel | sdata4 */

bool eh_header_read(const uint8_t *bytes, size_t size, uint64_t address, struct eh_header *out)
{
	struct cursor c = cursor_of(bytes, MIN(size, EH_HEADER_BYTES));
	uint8_t version = cursor_u8(&c), frames_encoding = cursor_u8(&c);
	uint8_t count_encoding = cursor_u8(&c), table_encoding = cursor_u8(&c);
	uint64_t count;

	*out = (struct eh_header){ 0 };
	if (version != 1 || !eh_pointer(&c, frames_encoding, address + 4, address, &out->frames))
		return false;
	if (table_encoding == SEARCH_TABLE_ENCODING &&
	    eh_pointer(&c, count_encoding, 0, 0, &count) &&
	    count <= (size - (size_t)(c.p - bytes)) / 8) {
		out->pairs = c.p;
		out->pair_count = count;
	}
	return true;
}

static uint64_t address_of(const struct eh_section *s, const struct cursor *c)
{
	return s->address + (uint64_t)(c->p - s->bytes);
}

/* --- entries --- */

struct entry {
	struct cursor body; /* after the CIE pointer */
	size_t id_offset; /* offset of the CIE pointer in the section */
	uint64_t id;
	size_t end;
};

/* Returns 1, or -1 at the end of the section. */
static int read_entry(const struct eh_section *s, size_t offset, struct entry *e)
{
	struct cursor c;
	uint64_t length;
	bool wide;

	if (offset >= s->size)
		return -1;
	c = cursor_of(s->bytes + offset, s->size - offset);
	length = cursor_u32(&c);
	wide = length == 0xffffffff;
	if (wide)
		length = cursor_u64(&c);
	if (c.failed || length == 0 || length > cursor_left(&c))
		return -1;
	c.end = c.p + length;
	e->end = (size_t)(c.end - s->bytes);
	e->id_offset = (size_t)(c.p - s->bytes);
	/* In .eh_frame the CIE pointer has four bytes, even after a length of eight. */
	e->id = wide && s->debug ? cursor_u64(&c) : cursor_u32(&c);
	if (wide && s->debug && e->id == UINT64_MAX)
		e->id = UINT32_MAX;
	e->body = c;
	return 1;
}

static bool is_cie(const struct eh_section *s, const struct entry *e)
{
	return e->id == (s->debug ? UINT32_MAX : 0);
}

/* Reads the letters after 'z', whose data are in `data`. */
static bool read_augmentation(const struct eh_section *s, const char *letters, struct cursor *data,
			      struct eh_cie *cie)
{
	uint64_t ignored;
	uint8_t encoding;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'L':
			cursor_u8(data);
			break;
		case 'P':
			encoding = cursor_u8(data);
			if (!eh_pointer(data, encoding & 0x7f, address_of(s, data), 0, &ignored))
				return false;
			break;
		case 'R':
			cie->pointer_encoding = cursor_u8(data);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* arm64's pointer authentication has no data */
			break;
		default: /* the rest has an unknown length and is ignored */
			return true;
		}
	}
	return !data->failed;
}

static bool read_cie_body(const struct eh_section *s, struct cursor c, struct eh_cie *cie)
{
	uint8_t version = cursor_u8(&c);
	const char *letters = (const char *)c.p;
	const char *nul = memchr(letters, 0, cursor_left(&c));

	if (c.failed || !nul || (version != 1 && version != 3 && version != 4))
		return false;
	cursor_bytes(&c, (size_t)(nul - letters) + 1);
	if (version == 4 && (cursor_u8(&c) != 8 || cursor_u8(&c) != 0))
		return false; /* sizes of an address and of a segment selector */
	cie->code_align = cursor_varint(&c);
	cie->data_align = cursor_sleb(&c);
	cie->ra_register = version == 1 ? cursor_u8(&c) : cursor_varint(&c);
	if (*letters == 'z') {
		uint64_t size = cursor_varint(&c);
		struct cursor data;

		if (c.failed || size > cursor_left(&c))
			return false;
		data = (struct cursor){ c.p, c.p + size, false };
		if (!read_augmentation(s, letters + 1, &data, cie))
			return false;
		cie->augmented = true;
		c.p += size;
	} else if (*letters) {
		return false;
	}
	cie->instructions = c.p;
	cie->length = cursor_left(&c);
	return !c.failed && cie->length <= CIE_INSTRUCTIONS_MAX && cie->ra_register == RA_COLUMN;
}

/* Reads the CIE at `offset` into *cie, unless it is there already. */
static bool read_cie(const struct eh_section *s, size_t offset, struct eh_cie *cie)
{
	struct entry e;

	if (cie->instructions && cie->offset == offset)
		return true;
	*cie = (struct eh_cie){ .offset = offset };
	if (read_entry(s, offset, &e) < 0 || !is_cie(s, &e) || !read_cie_body(s, e.body, cie)) {
		cie->instructions = NULL;
		return false;
	}
	return true;
}

static bool read_fde_body(const struct eh_section *s, struct cursor c, struct eh_fde *fde)
{
	uint8_t encoding = fde->cie.pointer_encoding;
	uint64_t start, length;

	if (!eh_pointer(&c, encoding, address_of(s, &c), s->data_base, &start) ||
	    !eh_pointer(&c, encoding & 0x0f, 0, 0, &length))
		return false;
	if (fde->cie.augmented) {
		uint64_t skip = cursor_varint(&c);

		if (c.failed || skip > cursor_left(&c))
			return false;
		c.p += skip;
	}
	fde->start = start;
	fde->end = start + length;
	fde->instructions = c.p;
	fde->length = cursor_left(&c);
	return fde->end > start;
}

int eh_frame_entry(const struct eh_section *s, size_t offset, struct eh_fde *fde, size_t *next)
{
	struct entry e;
	size_t cie;

	if (read_entry(s, offset, &e) < 0)
		return -1;
	*next = e.end;
	if (e.body.failed || is_cie(s, &e))
		return 0;
	if (s->debug ? e.id >= s->size : e.id > e.id_offset)
		return 0;
	cie = s->debug ? (size_t)e.id : e.id_offset - (size_t)e.id;
	return read_cie(s, cie, &fde->cie) && read_fde_body(s, e.body, fde);
}

/* --- entries of which the bytes have to be loaded --- */

#define ENTRY_HEAD 24u /* start of an entry: length, in 4 or 12 bytes, and CIE pointer */

static bool load_entry(const struct eh_section *s, size_t offset, eh_load *load, void *context)
{
	const uint8_t *at;
	size_t left, head;
	uint64_t length;

	if (offset >= s->size)
		return false;
	at = s->bytes + offset;
	left = s->size - offset;
	head = MIN(left, ENTRY_HEAD);
	if (head < 4 || !load(context, at, head))
		return false;
	length = load_u32(at);
	if (length == UINT32_MAX)
		length = head < 12 ? 0 : load_u64(at + 4) + 12;
	else
		length += 4;
	return length <= left && load(context, at, length);
}

bool eh_frame_load(const struct eh_section *s, size_t offset, eh_load *load, void *context)
{
	const uint8_t *at;
	size_t id, distance;

	if (!load_entry(s, offset, load, context))
		return false;
	at = s->bytes + offset;
	id = load_u32(at) == UINT32_MAX ? 12 : 4;
	if (s->size - offset < id + 4)
		return false;
	distance = load_u32(at + id);
	return distance != 0 && distance <= offset + id &&
	       load_entry(s, offset + id - distance, load, context);
}

/* --- instructions --- */

enum {
	CFA_advance_loc = 1, /* the first three are in the upper two bits */
	CFA_offset,
	CFA_restore,
	CFA_nop = 0,
	CFA_set_loc,
	CFA_advance_loc1,
	CFA_advance_loc2,
	CFA_advance_loc4,
	CFA_offset_extended,
	CFA_restore_extended,
	CFA_undefined,
	CFA_same_value,
	CFA_register,
	CFA_remember_state,
	CFA_restore_state,
	CFA_def_cfa,
	CFA_def_cfa_register,
	CFA_def_cfa_offset,
	CFA_def_cfa_expression,
	CFA_expression,
	CFA_offset_extended_sf,
	CFA_def_cfa_sf,
	CFA_def_cfa_offset_sf,
	CFA_val_offset,
	CFA_val_offset_sf,
	CFA_val_expression,
	CFA_GNU_args_size = 0x2e,
	CFA_GNU_negative_offset_extended,
};

struct machine {
	const struct eh_section *section;
	const struct eh_cie *cie;
	struct cursor code;
	struct unwind_rule rule;
	struct unwind_rule initial; /* after the CIE's instructions */
	struct unwind_rule remembered[REMEMBERED_MAX];
	unsigned depth;
	int64_t cfa_offset; /* last offset given with a register; valid again after an expression */
	uint64_t pc, end;
	eh_frame_row *row; /* NULL while the CIE's instructions run */
	void *context;
};

static const struct unwind_rule unknown_rule = { .cfa = CFA_UNKNOWN };

/* Returns the canonical form of a rule, so that equal rules have equal bytes. */
static struct unwind_rule canonical(const struct unwind_rule *rule, bool signal)
{
	struct unwind_rule r = *rule;

	r.interrupts = signal;
	if (r.ra.kind == SAVE_UNDEFINED)
		return (struct unwind_rule){ .cfa = CFA_END };
	if (r.ra.kind == SAVE_SAME && REG_LINK_ != REG_NONE_)
		r.ra = (struct save_rule){ .kind = SAVE_COPY, .base = REG_LINK_ };
	if (r.cfa <= CFA_UNKNOWN || r.ra.kind == SAVE_SAME || r.ra.kind == SAVE_LOST)
		return unknown_rule;
	if (signal && r.cfa == CFA_DEREF && r.base == REG_SP_ && r.offset == SIGNAL_RULE_SP &&
	    !r.extra && r.ra.kind == SAVE_MEMORY && r.ra.base == REG_SP_ &&
	    r.ra.offset == SIGNAL_RULE_PC)
		return (struct unwind_rule){ .cfa = CFA_SIGNAL, .interrupts = 1 };
	return r;
}

static void emit(struct machine *m)
{
	struct unwind_rule rule = canonical(&m->rule, m->cie->signal);

	m->row(m->context, m->pc, &rule);
}

/* Ends the range of the current rule before `to`. */
static void advance_to(struct machine *m, uint64_t to)
{
	if (!m->row || to < m->pc || to > m->end) {
		m->code.failed = true;
		return;
	}
	if (to > m->pc)
		emit(m);
	m->pc = to;
}

static void advance(struct machine *m, uint64_t delta)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(delta, m->cie->code_align, &bytes) || bytes > m->end - m->pc)
		m->code.failed = true;
	else
		advance_to(m, m->pc + bytes);
}

static struct save_rule *save_of(struct unwind_rule *rule, uint64_t reg)
{
	if (reg == RA_COLUMN)
		return &rule->ra;
	for (unsigned i = 0; i < SAVED_REGISTERS; i++)
		if (saved_registers[i] == reg)
			return &rule->saved[i];
	return NULL;
}

static void set_save(struct machine *m, uint64_t reg, enum save_kind kind, uint64_t base,
		     int64_t offset)
{
	struct save_rule *save = save_of(&m->rule, reg);

	if (!save)
		return;
	if (offset != (int32_t)offset || base >= REG_COUNT_)
		*save = (struct save_rule){ .kind = SAVE_LOST };
	else
		*save = (struct save_rule){ kind, (uint8_t)base, 0, (int32_t)offset };
}

static void restore(struct machine *m, uint64_t reg)
{
	struct save_rule *save = save_of(&m->rule, reg);

	if (save)
		*save = *save_of(&m->initial, reg);
}

static int64_t factored(const struct machine *m, int64_t v)
{
	int64_t result;

	return __builtin_mul_overflow(v, m->cie->data_align, &result) ? INT64_MAX : result;
}

static int64_t factored_uleb(struct machine *m)
{
	uint64_t v = cursor_varint(&m->code);

	return v > INT64_MAX ? INT64_MAX : factored(m, (int64_t)v);
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->rule.cfa = reg < REG_RA_ && offset == (int32_t)offset ? CFA_REGISTER : CFA_UNKNOWN;
	m->rule.base = (uint8_t)reg;
	m->rule.offset = (int32_t)offset;
	m->rule.index = 0;
	m->rule.extra = 0;
	m->cfa_offset = offset;
}

static void set_cfa_offset(struct machine *m, int64_t offset)
{
	if (m->rule.cfa == CFA_REGISTER)
		set_cfa(m, m->rule.base, offset);
	else
		m->rule.cfa = CFA_UNKNOWN;
}

static struct cursor read_block(struct machine *m)
{
	uint64_t length = cursor_varint(&m->code);
	const uint8_t *p = NULL;

	if (length <= cursor_left(&m->code))
		p = cursor_bytes(&m->code, (size_t)length);
	else
		m->code.failed = true;
	return cursor_of(p ? p : m->code.p, p ? (size_t)length : 0);
}

static void save_expression(struct machine *m, bool value)
{
	uint64_t reg = cursor_varint(&m->code);
	struct save_rule rule = cfa_expression_save(read_block(m), value);
	struct save_rule *save = save_of(&m->rule, reg);

	if (save)
		*save = rule;
}

static void remember(struct machine *m)
{
	if (m->depth == REMEMBERED_MAX)
		m->code.failed = true;
	else
		m->remembered[m->depth++] = m->rule;
}

static void recall(struct machine *m)
{
	if (m->depth == 0)
		m->code.failed = true;
	else
		m->rule = m->remembered[--m->depth];
	if (m->rule.cfa == CFA_REGISTER)
		m->cfa_offset = m->rule.offset;
}

static void run_cfa(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code;
	uint64_t reg;

	switch (op) {
	case CFA_def_cfa:
		reg = cursor_varint(c);
		set_cfa(m, reg, (int64_t)cursor_varint(c));
		break;
	case CFA_def_cfa_sf:
		reg = cursor_varint(c);
		set_cfa(m, reg, factored(m, cursor_sleb(c)));
		break;
	case CFA_def_cfa_register:
		/* Also after an expression: assembly code relies on the previous offset. */
		set_cfa(m, cursor_varint(c), m->cfa_offset);
		break;
	case CFA_def_cfa_offset:
		set_cfa_offset(m, (int64_t)cursor_varint(c));
		break;
	case CFA_def_cfa_offset_sf:
		set_cfa_offset(m, factored(m, cursor_sleb(c)));
		break;
	default: /* CFA_def_cfa_expression */
		cfa_expression_cfa(read_block(m), &m->rule);
		break;
	}
}

static void run_save(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code;
	uint64_t reg = cursor_varint(c);

	switch (op) {
	case CFA_offset_extended:
		set_save(m, reg, SAVE_CFA, 0, factored_uleb(m));
		break;
	case CFA_offset_extended_sf:
		set_save(m, reg, SAVE_CFA, 0, factored(m, cursor_sleb(c)));
		break;
	case CFA_GNU_negative_offset_extended:
		set_save(m, reg, SAVE_CFA, 0, -factored_uleb(m));
		break;
	case CFA_val_offset:
		set_save(m, reg, SAVE_VALUE, 0, factored_uleb(m));
		break;
	case CFA_val_offset_sf:
		set_save(m, reg, SAVE_VALUE, 0, factored(m, cursor_sleb(c)));
		break;
	case CFA_register:
		set_save(m, reg, SAVE_COPY, cursor_varint(c), 0);
		break;
	case CFA_undefined:
		set_save(m, reg, SAVE_UNDEFINED, 0, 0);
		break;
	case CFA_same_value:
		set_save(m, reg, SAVE_SAME, 0, 0);
		break;
	default: /* CFA_restore_extended */
		restore(m, reg);
		break;
	}
}

static void run_set_loc(struct machine *m)
{
	uint64_t to;

	if (eh_pointer(&m->code, m->cie->pointer_encoding, address_of(m->section, &m->code),
		       m->section->data_base, &to))
		advance_to(m, to);
	else
		m->code.failed = true;
}

static void run_extended(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code;

	switch (op) {
	case CFA_nop:
		break;
	case CFA_set_loc:
		run_set_loc(m);
		break;
	case CFA_advance_loc1:
		advance(m, cursor_u8(c));
		break;
	case CFA_advance_loc2:
		advance(m, cursor_u16(c));
		break;
	case CFA_advance_loc4:
		advance(m, cursor_u32(c));
		break;
	case CFA_offset_extended ... CFA_register:
	case CFA_offset_extended_sf:
	case CFA_val_offset:
	case CFA_val_offset_sf:
	case CFA_GNU_negative_offset_extended:
		run_save(m, op);
		break;
	case CFA_remember_state:
		remember(m);
		break;
	case CFA_restore_state:
		recall(m);
		break;
	case CFA_def_cfa ... CFA_def_cfa_expression:
	case CFA_def_cfa_sf:
	case CFA_def_cfa_offset_sf:
		run_cfa(m, op);
		break;
	case CFA_expression:
	case CFA_val_expression:
		save_expression(m, op == CFA_val_expression);
		break;
	case CFA_GNU_args_size:
		cursor_varint(c);
		break;
	default:
		if (!CFA_NO_RULE(op))
			c->failed = true;
	}
}

static void run(struct machine *m, const uint8_t *code, size_t length)
{
	m->code = cursor_of(code, length);
	while (cursor_left(&m->code) && !m->code.failed) {
		uint8_t op = cursor_u8(&m->code), low = op & 0x3f;

		switch (op >> 6) {
		case CFA_advance_loc:
			advance(m, low);
			break;
		case CFA_offset:
			set_save(m, low, SAVE_CFA, 0, factored_uleb(m));
			break;
		case CFA_restore:
			restore(m, low);
			break;
		default:
			run_extended(m, low);
		}
	}
	if (m->code.failed)
		m->rule = unknown_rule;
}

void eh_frame_rows(const struct eh_section *s, const struct eh_fde *fde, eh_frame_row *row,
		   void *context)
{
	struct machine m;

	m.section = s;
	m.cie = &fde->cie;
	m.rule = (struct unwind_rule){ 0 };
	m.initial = m.rule;
	m.depth = 0;
	m.cfa_offset = 0;
	m.pc = fde->start;
	m.end = fde->end;
	m.row = NULL;
	m.context = context;
	run(&m, fde->cie.instructions, fde->cie.length);
	m.initial = m.rule;
	m.row = row;
	if (m.rule.cfa != CFA_UNKNOWN)
		run(&m, fde->instructions, fde->length);
	if (m.pc < m.end)
		emit(&m);
}
