/*
 * dwarf_line.c: executes the line programs of .debug_line.
 *
 * Tables of device code have an opcode of NVIDIA's, after which rows belong to an inlined function.
 * Its operands are the row of this sequence (from 1) that contains the call, or 0 for none, and the
 * offset of the function's name in .debug_str.
 */
#include "symbol/dwarf_line.h"

#include <string.h>

#include "base/search.h"

#define FORMATS_MAX 16 /* fields of a file entry; five kinds are defined */
#define ROWS_MAX ((size_t)1 << 28)

enum {
	DW_LNS_copy = 1,
	DW_LNS_advance_pc,
	DW_LNS_advance_line,
	DW_LNS_set_file,
	DW_LNS_set_column,
	DW_LNS_negate_stmt,
	DW_LNS_set_basic_block,
	DW_LNS_const_add_pc,
	DW_LNS_fixed_advance_pc,
	DW_LNE_end_sequence = 1,
	DW_LNE_set_address,
	DW_LNE_define_file,
	DW_LNE_NVIDIA_inlined_call = 0x90,
	DW_LNCT_path = 1,
	DW_LNCT_directory_index = 2,
};

struct program {
	struct line_table *table;
	const struct dwarf_unit *unit;
	struct cursor c; /* ends at the end of the program */
	const uint8_t *operands; /* number of operands of each standard opcode, from 1 */
	uint16_t version;
	uint8_t address_size, offset_size;
	uint8_t minimum, line_range, opcode_base;
	int8_t line_base;
};

/* Reads the folders and files of versions before 5; each list ends with an empty name. */
static int read_old_names(struct program *p, struct cursor *c)
{
	const char *text;

	if (vec_push(&p->table->folders, p->unit->folder) < 0)
		return -ENOMEM;
	while ((text = cursor_text(c)) && *text)
		if (vec_push(&p->table->folders, text) < 0)
			return -ENOMEM;
	while ((text = cursor_text(c)) && *text) {
		struct line_file file = { .name = text };

		file.folder = cursor_uleb(c);
		file.time_s = cursor_uleb(c);
		file.size_bytes = cursor_uleb(c);
		if (vec_push(&p->table->files, file) < 0)
			return -ENOMEM;
	}
	p->table->first_file = 1;
	return 0;
}

struct format {
	uint64_t content;
	uint32_t form;
};

/* Reads one list of version 5: the format of its items, then the items. */
static int read_list(struct program *p, struct cursor *c, bool is_files)
{
	struct format formats[FORMATS_MAX];
	unsigned format_count = cursor_u8(c);
	struct dwarf_unit unit = *p->unit;
	uint64_t count;

	unit.offset_size = p->offset_size;
	unit.address_size = p->address_size;
	if (format_count > FORMATS_MAX)
		c->failed = true;
	for (unsigned i = 0; i < format_count && !c->failed; i++) {
		formats[i].content = cursor_uleb(c);
		formats[i].form = (uint32_t)cursor_uleb(c);
	}
	count = cursor_uleb(c);
	for (uint64_t n = 0; n < count && !c->failed && format_count; n++) {
		struct line_file file = { .name = NULL };
		const uint8_t *before = c->p;

		for (unsigned i = 0; i < format_count; i++) {
			struct dwarf_value v = dwarf_read_form(&unit, c, formats[i].form);

			if (formats[i].content == DW_LNCT_path)
				file.name = dwarf_text(&unit, v);
			else if (formats[i].content == DW_LNCT_directory_index)
				file.folder = v.number;
		}
		if (c->failed || c->p == before)
			break;
		if ((is_files ? vec_push(&p->table->files, file)
			      : vec_push(&p->table->folders, file.name)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int read_names(struct program *p, struct cursor *c)
{
	int rc;

	if (p->version < 5)
		return read_old_names(p, c);
	rc = read_list(p, c, false);
	return rc < 0 ? rc : read_list(p, c, true);
}

/* Reads the header and leaves the cursor at the program. Returns false if it cannot be read. */
static bool read_header(struct program *p, int *r)
{
	struct cursor *c = &p->c, names;
	uint64_t length = cursor_u32(c), header_length;

	p->offset_size = 4;
	if (length == UINT32_MAX) {
		length = cursor_u64(c);
		p->offset_size = 8;
	}
	if (c->failed || length > cursor_left(c))
		return false;
	c->end = c->p + length;
	p->version = cursor_u16(c);
	if (p->version < 2 || p->version > 5)
		return false;
	p->address_size = p->unit->address_size;
	if (p->version == 5) {
		p->address_size = cursor_u8(c);
		cursor_u8(c); /* size of segment selectors */
	}
	header_length = p->offset_size == 8 ? cursor_u64(c) : cursor_u32(c);
	if (c->failed || header_length > cursor_left(c))
		return false;
	names = cursor_of(c->p, (size_t)header_length);
	c->p += header_length;
	p->minimum = cursor_u8(&names);
	if (p->version >= 4)
		cursor_u8(&names); /* operations per instruction */
	cursor_u8(&names); /* initial value of is_stmt */
	p->line_base = (int8_t)cursor_u8(&names);
	p->line_range = cursor_u8(&names);
	p->opcode_base = cursor_u8(&names);
	p->operands = cursor_bytes(&names, p->opcode_base ? p->opcode_base - 1u : 0);
	if (names.failed || p->line_range == 0 || p->opcode_base == 0)
		return false;
	*r = read_names(p, &names);
	return true;
}

struct registers {
	uint64_t address;
	uint32_t line, file, inlined;
	size_t first_row; /* first row of the sequence */
};

static int append_row(struct program *p, struct registers *m, bool is_end)
{
	struct line_row row = { m->address, m->line, is_end ? LINE_ROW_END : m->file, m->inlined };

	if (p->table->rows.count >= ROWS_MAX)
		return -ENOMEM;
	return vec_push(&p->table->rows, row);
}

static bool can_be_code(const struct elf_file *code, uint64_t address)
{
	return !code || (address != 0 && elf_is_code(code, address));
}

/* Ends a sequence. Removes it if its rows run backwards, or the linker has discarded its code. */
static void end_sequence(struct program *p, struct registers *m)
{
	struct line_row *rows = p->table->rows.data;
	size_t count = p->table->rows.count;
	bool good = count > m->first_row &&
		    can_be_code(p->unit->file->code, rows[m->first_row].address);

	for (size_t i = m->first_row; good && i + 1 < count; i++)
		good = rows[i].address <= rows[i + 1].address;
	if (!good)
		p->table->rows.count = m->first_row;
	*m = (struct registers){ .line = 1, .file = 1, .first_row = p->table->rows.count };
}

static int inline_call(struct program *p, struct registers *m, struct cursor operands)
{
	uint64_t row = cursor_uleb(&operands);
	struct line_call call = { .function = cursor_uleb(&operands) };
	const struct line_row *from;

	m->inlined = 0;
	if (operands.failed || row == 0 || row > p->table->rows.count - m->first_row)
		return 0;
	from = &p->table->rows.data[m->first_row + row - 1];
	call.file = from->file;
	call.line = from->line;
	call.inlined = from->inlined;
	if (vec_push(&p->table->calls, call) < 0)
		return -ENOMEM;
	m->inlined = (uint32_t)p->table->calls.count;
	return 0;
}

static int run_extended(struct program *p, struct registers *m)
{
	uint64_t length = cursor_uleb(&p->c);
	const uint8_t *bytes = cursor_bytes(&p->c, (size_t)length);
	int rc = 0;

	if (!bytes || length == 0)
		return 0;
	switch (bytes[0]) {
	case DW_LNE_end_sequence:
		rc = append_row(p, m, true);
		end_sequence(p, m);
		break;
	case DW_LNE_set_address:
		if (length == 9)
			m->address = load_u64(bytes + 1);
		else if (length == 5)
			m->address = load_u32(bytes + 1);
		break;
	case DW_LNE_define_file: {
		struct cursor c = cursor_of(bytes + 1, (size_t)length - 1);
		struct line_file file = { .name = cursor_text(&c) };

		file.folder = cursor_uleb(&c);
		rc = vec_push(&p->table->files, file);
		break;
	}
	case DW_LNE_NVIDIA_inlined_call:
		rc = inline_call(p, m, cursor_of(bytes + 1, (size_t)length - 1));
		break;
	}
	return rc;
}

static void advance(struct program *p, struct registers *m, uint64_t operations)
{
	m->address += operations * p->minimum;
}

static void set_file(struct registers *m, uint64_t file)
{
	m->file = (uint32_t)MIN(file, LINE_ROW_END - 1);
}

static int run_standard(struct program *p, struct registers *m, uint8_t opcode)
{
	switch (opcode) {
	case DW_LNS_copy:
		return append_row(p, m, false);
	case DW_LNS_advance_pc:
		advance(p, m, cursor_uleb(&p->c));
		break;
	case DW_LNS_advance_line:
		m->line += (uint32_t)cursor_sleb(&p->c);
		break;
	case DW_LNS_set_file:
		set_file(m, cursor_uleb(&p->c));
		break;
	case DW_LNS_const_add_pc:
		advance(p, m, (255u - p->opcode_base) / p->line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		m->address += cursor_u16(&p->c);
		break;
	default:
		for (unsigned i = 0; i < p->operands[opcode - 1]; i++)
			cursor_uleb(&p->c);
	}
	return 0;
}

static int run(struct program *p)
{
	struct registers m = { .line = 1, .file = 1 };
	int rc = 0;

	while (rc == 0 && !p->c.failed && cursor_left(&p->c)) {
		uint8_t opcode = cursor_u8(&p->c);

		if (opcode >= p->opcode_base) {
			unsigned special = opcode - (unsigned)p->opcode_base;

			advance(p, &m, special / p->line_range);
			m.line += (uint32_t)(p->line_base + (int)(special % p->line_range));
			rc = append_row(p, &m, false);
		} else if (opcode == 0) {
			rc = run_extended(p, &m);
		} else {
			rc = run_standard(p, &m, opcode);
		}
	}
	p->table->rows.count = m.first_row; /* removes a sequence without an end */
	return rc;
}

/* Orders rows by address; the end of a sequence comes before the start of the next. */
ORDER(by_address, struct line_row,
      UP(address) ?: ORDER_OF(b->file == LINE_ROW_END, a->file == LINE_ROW_END))

/*
 * Of consecutive rows with one address, only the last counts. The others are removed before
 * sorting, which could reorder them.
 */
static void drop_repeated(struct line_table *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->rows.count; i++) {
		const struct line_row *next = i + 1 < t->rows.count ? &t->rows.data[i + 1] : NULL;

		if (!next || next->address != t->rows.data[i].address ||
		    t->rows.data[i].file == LINE_ROW_END)
			t->rows.data[kept++] = t->rows.data[i];
	}
	t->rows.count = kept;
}

int line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t *budget)
{
	struct program p = { .table = t, .unit = u };
	struct elf_bytes section = u->file->line;
	const uint8_t *start;
	int rc = 0;

	*t = (struct line_table){ 0 };
	if (!u->has_lines || !section.data || u->lines_offset >= section.size)
		return 0;
	start = section.data + u->lines_offset;
	p.c = cursor_of(start, (size_t)MIN(section.size - u->lines_offset, *budget));
	if (read_header(&p, &rc) && rc == 0)
		rc = run(&p);
	*budget -= MIN((uint64_t)(p.c.p - start), *budget);
	drop_repeated(t);
	vec_sort(&t->rows, by_address);
	if (rc < 0)
		line_table_release(t);
	return rc;
}

void line_table_release(struct line_table *t)
{
	vec_release(&t->rows);
	vec_release(&t->files);
	vec_release(&t->folders);
	vec_release(&t->calls);
}

const struct line_row *line_table_find(const struct line_table *t, uint64_t address)
{
	const struct line_row *rows = t->rows.data;
	size_t after = sorted_prefix(t->rows.count, i, rows[i].address <= address);

	return after && rows[after - 1].file != LINE_ROW_END ? &rows[after - 1] : NULL;
}

static void add_folder(const char *folder, struct strbuf *out)
{
	strbuf_adds(out, folder);
	if (*folder && folder[strlen(folder) - 1] != '/')
		strbuf_addc(out, '/');
}

bool line_table_path(const struct line_table *t, const struct dwarf_unit *u, uint64_t file,
		     struct strbuf *out)
{
	const struct line_file *f;
	const char *folder;

	if (file < t->first_file || file - t->first_file >= t->files.count)
		return false;
	f = &t->files.data[file - t->first_file];
	if (!f->name)
		return false;
	folder = f->folder < t->folders.count ? t->folders.data[f->folder] : NULL;
	if (*f->name != '/' && folder) {
		if (*folder != '/' && u->folder)
			add_folder(u->folder, out);
		add_folder(folder, out);
	}
	strbuf_adds(out, f->name);
	return true;
}
