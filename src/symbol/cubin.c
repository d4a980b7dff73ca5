/*
 * cubin.c: functions and line tables of device code.
 *
 * All code sections begin at address 0, and the sequences of a line table are distinguished by
 * relocations only. The line table is therefore copied and relocated to addresses with the number
 * of the section in their upper bits; functions get such addresses as well.
 */
#include "symbol/cubin.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/search.h"
#include "symbol/dwarf_line.h"

#define MACHINE_CUDA 190
#define RELOCATION_64 2 /* R_CUDA_64 */
#define SECTION_SHIFT 40
#define OFFSET_MAX (UINT64_C(1) << SECTION_SHIFT)
#define CODE_PREFIX ".text."
#define PATHS_MAX ((uint64_t)64 << 20) /* limit for all requested paths */

/* Kinds of function names, best first. */
enum name_kind {
	NAME_SYMBOL,
	NAME_SECTION, /* .text.<name> */
	NAME_DEVICE_FUNCTION, /* "$kernel$function": a device function in the kernel's section */
};

struct function_name {
	const char *name;
	enum name_kind kind;
	uint64_t address, size; /* size 0: a section, whose functions have sizes */
	uint32_t symbol; /* 0: none */
};

struct cubin {
	struct elf_file file;
	VEC(struct function_name) functions; /* sorted by name, then kind */
	uint64_t name_budget, path_budget; /* remaining bytes of names and paths */
	struct range_table ranges; /* address -> item of functions */
	uint8_t *line_bytes; /* .debug_line, relocated */
	struct dwarf_file dwarf; /* sections of the file */
	VEC(struct line_table) tables;
	struct dwarf_unit unit; /* what all line tables have in common */
	struct map table_of; /* section -> item of tables */
	struct map paths; /* table << 32 | file -> id of a text */
	struct interner texts;
};

static uint64_t address_of(uint32_t section, uint64_t offset)
{
	return (uint64_t)section << SECTION_SHIFT | offset;
}

ORDER(by_name, struct function_name, strcmp(a->name, b->name) ?: UP(kind))

static bool read_symbol(struct elf_bytes table, uint64_t index, Elf64_Sym *out)
{
	if (index >= table.size / sizeof(*out))
		return false;
	memcpy(out, table.data + index * sizeof(*out), sizeof(*out));
	return out->st_shndx != SHN_UNDEF && out->st_shndx < SHN_LORESERVE &&
	       out->st_value < OFFSET_MAX;
}

/* "$kernel$function" -> "function" */
static const char *device_function_name(const char *symbol)
{
	const char *own = *symbol == '$' ? strrchr(symbol, '$') + 1 : symbol;

	return *own ? own : symbol;
}

static const char *code_name(const struct elf_section *s)
{
	size_t length = strlen(CODE_PREFIX);

	return strncmp(s->name, CODE_PREFIX, length) == 0 ? s->name + length : "";
}

/* Many names may be suffixes of one long text: sorting them is bounded by limiting their bytes. */
static int add_function(struct cubin *c, struct function_name function)
{
	size_t length = function.name ? strlen(function.name) : 0;

	if (!length || length >= c->name_budget)
		return 0;
	c->name_budget -= length + 1;
	return vec_push(&c->functions, function);
}

static int add_symbol(struct cubin *c, const Elf64_Sym *symbol, const char *name, uint32_t number)
{
	struct function_name f = {
		.name = name,
		.symbol = number,
		.address = address_of(symbol->st_shndx, symbol->st_value),
		.size = MIN(symbol->st_size, OFFSET_MAX - symbol->st_value),
	};

	if (add_function(c, f) < 0)
		return -ENOMEM;
	if (!name || device_function_name(name) == name)
		return 0;
	f.name = device_function_name(name);
	f.kind = NAME_DEVICE_FUNCTION;
	return add_function(c, f);
}

static int read_symbols(struct cubin *c)
{
	struct elf_section *s = elf_section(&c->file, ".symtab");
	struct elf_bytes table = elf_contents(&c->file, s), names = { NULL, 0 };
	Elf64_Sym symbol;

	if (s && s->link < c->file.section_count)
		names = elf_contents(&c->file, &c->file.sections[s->link]);
	for (uint64_t i = 0; i < table.size / sizeof(symbol); i++)
		if (read_symbol(table, i, &symbol) && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
		    add_symbol(c, &symbol, elf_string(names, symbol.st_name), (uint32_t)i) < 0)
			return -ENOMEM;
	return 0;
}

static int read_functions(struct cubin *c)
{
	int rc = read_symbols(c);

	for (size_t i = 0; i < c->file.section_count && rc == 0; i++)
		rc = add_function(c, (struct function_name){
					     .name = code_name(&c->file.sections[i]),
					     .kind = NAME_SECTION,
					     .address = address_of((uint32_t)i, 0),
				     });
	vec_sort(&c->functions, by_name);
	for (size_t i = 0; i < c->functions.count && rc == 0; i++) {
		const struct function_name *f = &c->functions.data[i];

		rc = range_table_add(&c->ranges, (struct range){ f->address, f->address + f->size,
								 (uint32_t)i, (uint32_t)i });
	}
	return rc < 0 ? rc : range_table_finish(&c->ranges);
}

/* Applies one relocation: stores the address of its symbol in the copied line table. */
static void relocate(struct cubin *c, struct elf_bytes lines, struct elf_bytes symbols,
		     const uint8_t *entry, bool has_addend)
{
	uint64_t offset = load_u64(entry), info = load_u64(entry + 8);
	Elf64_Sym symbol;
	uint64_t addend;

	if (ELF64_R_TYPE(info) != RELOCATION_64 || lines.size < 8 || offset > lines.size - 8 ||
	    !read_symbol(symbols, ELF64_R_SYM(info), &symbol))
		return;
	addend = load_u64(has_addend ? entry + 16 : lines.data + offset);
	if (addend < OFFSET_MAX - symbol.st_value)
		store_u64(c->line_bytes + offset,
			  address_of(symbol.st_shndx, symbol.st_value + addend));
}

static void relocate_lines(struct cubin *c, struct elf_bytes lines, uint32_t section)
{
	for (size_t i = 0; i < c->file.section_count; i++) {
		struct elf_section *s = &c->file.sections[i];
		size_t size = s->type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
		struct elf_bytes entries, symbols;

		if ((s->type != SHT_RELA && s->type != SHT_REL) || s->info != section ||
		    s->link >= c->file.section_count)
			continue;
		entries = elf_contents(&c->file, s);
		symbols = elf_contents(&c->file, &c->file.sections[s->link]);
		for (size_t at = 0; entries.size - at >= size; at += size)
			relocate(c, lines, symbols, entries.data + at, s->type == SHT_RELA);
	}
}

/* Records for which sections a table has lines. */
static int index_table(struct cubin *c, const struct line_table *t)
{
	uint64_t section = 0;

	for (size_t i = 0; i < t->rows.count; i++) {
		uint64_t of_row = t->rows.data[i].address >> SECTION_SHIFT;

		if (of_row == section)
			continue;
		section = of_row;
		if (!map_at(&c->table_of, section, c->tables.count))
			return -ENOMEM;
	}
	return 0;
}

/* Reads the table at an offset; *size is its size in the section. */
static int read_table(struct cubin *c, uint64_t offset, uint64_t *size)
{
	uint64_t left = c->dwarf.line.size - offset, budget = left;
	struct line_table table;
	int rc;

	*size = left < 4 ? left : 4 + (uint64_t)load_u32(c->line_bytes + offset);
	c->unit.lines_offset = offset;
	rc = line_table_read(&table, &c->unit, &budget);
	if (rc == 0 && table.rows.count) {
		rc = index_table(c, &table);
		if (rc == 0)
			rc = vec_push(&c->tables, table);
		if (rc == 0)
			return 0;
	}
	line_table_release(&table);
	return rc;
}

static int read_lines(struct cubin *c)
{
	struct elf_section *s = elf_section(&c->file, ".debug_line");
	struct elf_bytes lines = elf_contents(&c->file, s);
	uint64_t size;
	int rc = 0;

	if (!lines.data)
		return 0;
	c->line_bytes = malloc(lines.size);
	if (!c->line_bytes)
		return -ENOMEM;
	memcpy(c->line_bytes, lines.data, lines.size);
	relocate_lines(c, lines, (uint32_t)(s - c->file.sections));
	c->dwarf.line = (struct elf_bytes){ c->line_bytes, lines.size };
	c->dwarf.str = elf_named_contents(&c->file, ".debug_str");
	c->dwarf.line_str = elf_named_contents(&c->file, ".debug_line_str");
	c->unit = (struct dwarf_unit){
		.file = &c->dwarf, .address_size = 8, .offset_size = 4, .has_lines = true
	};
	for (uint64_t at = 0; at < lines.size && rc == 0; at += size)
		rc = read_table(c, at, &size);
	return rc;
}

int cubin_open(struct elf_file *f, struct cubin **out, struct error *e)
{
	struct cubin *c = f->machine == MACHINE_CUDA ? calloc(1, sizeof(*c)) : NULL;
	int rc;

	if (!c) {
		bool is_other = f->machine != MACHINE_CUDA;

		elf_file_release(f);
		return is_other ? error_set(e, E_FORMAT, "not NVIDIA device code")
				: error_set(e, -ENOMEM, "out of memory");
	}
	c->file = *f;
	*f = (struct elf_file){ 0 };
	interner_init(&c->texts);
	c->name_budget = 4 * (uint64_t)c->file.size;
	c->path_budget = PATHS_MAX;
	rc = read_functions(c);
	if (rc == 0)
		rc = read_lines(c);
	if (rc < 0) {
		cubin_free(c);
		return error_set(e, rc, "out of memory");
	}
	elf_file_detach(&c->file);
	*out = c;
	return 0;
}

void cubin_free(struct cubin *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->tables.count; i++)
		line_table_release(&c->tables.data[i]);
	vec_release(&c->tables);
	vec_release(&c->functions);
	range_table_release(&c->ranges);
	map_release(&c->table_of);
	map_release(&c->paths);
	interner_release(&c->texts);
	free(c->line_bytes);
	elf_file_release(&c->file);
	free(c);
}

bool cubin_find_function(const struct cubin *c, const char *name, struct cubin_function *out)
{
	const struct function_name *f = c->functions.data;
	size_t at = sorted_prefix(c->functions.count, i, strcmp(f[i].name, name) < 0);

	if (at == c->functions.count || strcmp(f[at].name, name) != 0)
		return false;
	/* Device functions of this name in several kernels cannot be distinguished. */
	if (f[at].kind == NAME_DEVICE_FUNCTION && at + 1 < c->functions.count &&
	    strcmp(f[at + 1].name, name) == 0)
		return false;
	*out = (struct cubin_function){ .section = (uint32_t)(f[at].address >> SECTION_SHIFT),
					.start = f[at].address & (OFFSET_MAX - 1) };
	return true;
}

const char *cubin_kernel(const struct cubin *c, const struct cubin_function *f)
{
	return f->section < c->file.section_count ? code_name(&c->file.sections[f->section]) : "";
}

uint64_t cubin_code_size(const struct cubin *c, const struct cubin_function *f)
{
	return f->section < c->file.section_count
		       ? elf_raw_contents(&c->file, &c->file.sections[f->section]).size
		       : 0;
}

uint32_t cubin_symbol(const struct cubin *c, const struct cubin_function *f)
{
	for (size_t i = 0; i < c->functions.count; i++)
		if (c->functions.data[i].symbol &&
		    c->functions.data[i].address >> SECTION_SHIFT == f->section)
			return c->functions.data[i].symbol;
	return 0;
}

/* Returns the path of a file; NULL: unknown, or no memory. */
static const char *path_of(struct cubin *c, size_t table, uint32_t file)
{
	uint64_t key = (uint64_t)table << 32 | file, known;
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	int64_t id;

	if (map_get(&c->paths, key, &known))
		return c->texts.items[known].text;
	if (!c->path_budget || !line_table_path(&c->tables.data[table], &c->unit, file, &path) ||
	    path.failed)
		return NULL;
	c->path_budget -= MIN(path.length + 1, c->path_budget);
	id = interner_add(&c->texts, path.data, path.length, NULL);
	if (id < 0 || map_put(&c->paths, key, (uint64_t)id) < 0)
		return NULL;
	return c->texts.items[id].text;
}

void cubin_source(struct cubin *c, const char *path, uint64_t *time_s, uint64_t *size_bytes)
{
	*time_s = *size_bytes = 0;
	for (size_t i = 0; i < c->tables.count; i++) {
		const struct line_table *t = &c->tables.data[i];

		for (size_t k = 0; k < t->files.count; k++) {
			const char *known = path_of(c, i, t->first_file + (uint32_t)k);

			if (!known || strcmp(known, path) != 0)
				continue;
			*time_s = t->files.data[k].time_s;
			*size_bytes = t->files.data[k].size_bytes;
			return;
		}
	}
}

/* Returns the name of the function at an address; NULL: unknown. */
static const char *function_at(const struct cubin *c, uint64_t address)
{
	uint32_t item = range_table_find(&c->ranges, address);

	return item == RANGE_NONE ? NULL : device_function_name(c->functions.data[item].name);
}

/*
 * Writes the frames of a row: collects them from the innermost to the function that the code
 * belongs to, then reverses them.
 */
static int add_frames(struct cubin *c, size_t table, const struct line_row *row,
		      const char *function, struct source_frame frames[SOURCE_FRAMES_MAX])
{
	const struct line_table *t = &c->tables.data[table];
	uint32_t inlined = row->inlined, file = row->file, line = row->line;
	int count = 0;

	for (; inlined && count < SOURCE_FRAMES_MAX - 1; count++) {
		const struct line_call *call = &t->calls.data[inlined - 1];

		frames[count] = (struct source_frame){ elf_string(c->dwarf.str, call->function),
						       path_of(c, table, file), line };
		file = call->file;
		line = call->line;
		inlined = call->inlined;
	}
	frames[count++] = (struct source_frame){ function, path_of(c, table, file), line };
	for (int i = 0; i < count / 2; i++) {
		struct source_frame other = frames[i];

		frames[i] = frames[count - 1 - i];
		frames[count - 1 - i] = other;
	}
	return count;
}

int cubin_find_frames(struct cubin *c, const struct cubin_function *f, uint64_t offset,
		      struct source_frame frames[SOURCE_FRAMES_MAX])
{
	const struct line_row *row = NULL;
	const char *function;
	uint64_t address, table;

	if (offset >= OFFSET_MAX - f->start)
		return 0;
	address = address_of(f->section, f->start + offset);
	function = function_at(c, address);
	if (map_get(&c->table_of, f->section, &table))
		row = line_table_find(&c->tables.data[table], address);
	if (row)
		return add_frames(c, table, row, function, frames);
	frames[0] = (struct source_frame){ function, NULL, 0 };
	return function != NULL;
}
