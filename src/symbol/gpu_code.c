#include "symbol/gpu_code.h"

#include <errno.h>

#include "base/starts_with.h"
#include "symbol/dwarf_line.h"

#define CODE_PREFIX ".text."

static const struct elf_section *section_of(const struct elf_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (s->flags & SHF_EXECINSTR && s->address && address >= s->address &&
		    address - s->address < s->size)
			return s;
	}
	return NULL;
}

/* "$kernel$function" -> "function" */
static const char *function_name(const char *symbol)
{
	const char *own = *symbol == '$' ? strrchr(symbol, '$') + 1 : symbol;

	return *own ? own : symbol;
}

/* The innermost function; symbols have addresses, or offsets in their section. */
static void find_function(const struct elf_file *f, const struct elf_section *s, uint64_t address,
			  struct gpu_code *out)
{
	uint64_t best = 0;
	struct elf_symbols symbols;
	const char *name, *found = NULL;
	Elf64_Sym symbol;

	if (elf_symbols(f, SHT_SYMTAB, &symbols) < 0)
		return;
	for (size_t i = 0; elf_symbol(&symbols, i, &symbol, &name); i++) {
		uint64_t start = symbol.st_value;

		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !*name ||
		    symbol.st_shndx != (size_t)(s - f->sections))
			continue;
		start += start < s->address ? s->address : 0;
		if (address < start || address - start >= symbol.st_size || start < best)
			continue;
		best = start;
		found = name;
	}
	if (!found)
		return;
	strbuf_adds(&out->function, function_name(found));
	out->offset = address - best;
}

static int find_line(struct elf_file *f, uint64_t address, struct gpu_code *out)
{
	struct dwarf_file dwarf = { .line = elf_named_contents(f, ".debug_line"),
				    .str = elf_named_contents(f, ".debug_str"),
				    .line_str = elf_named_contents(f, ".debug_line_str") };
	struct dwarf_unit unit = {
		.file = &dwarf, .address_size = 8, .offset_size = 4, .has_lines = true
	};
	uint64_t size;
	int rc = 0;

	for (uint64_t at = 0; at < dwarf.line.size && rc == 0 && !out->line; at += size) {
		uint64_t left = dwarf.line.size - at, budget = left;
		const struct line_row *row;
		struct line_table table;

		size = left < 4 ? left : 4 + (uint64_t)load_u32(dwarf.line.data + at);
		unit.lines_offset = at;
		rc = line_table_read(&table, &unit, &budget);
		row = rc == 0 ? line_table_find(&table, address) : NULL;
		if (row && line_table_path(&table, &unit, row->file, &out->file))
			out->line = row->line;
		line_table_release(&table);
	}
	return rc;
}

int gpu_code_find(const struct gpu_core *core, uint64_t address, struct gpu_code *out)
{
	const struct elf_section *s;
	struct elf_file file;
	size_t size;
	uint8_t *bytes = gpu_core_code(core, address, &size);
	int rc;

	if (!bytes || elf_file_open_owned(bytes, size, &file, NULL) < 0)
		return 0;
	s = section_of(&file, address);
	if (!s) {
		elf_file_release(&file);
		return 0;
	}
	if (starts_with(s->name, CODE_PREFIX))
		strbuf_adds(&out->kernel, s->name + strlen(CODE_PREFIX));
	find_function(&file, s, address, out);
	rc = find_line(&file, address, out);
	elf_file_release(&file);
	if (rc == 0 && (out->kernel.failed || out->function.failed || out->file.failed))
		rc = -ENOMEM;
	return rc < 0 ? rc : 1;
}

void gpu_code_release(struct gpu_code *code)
{
	strbuf_release(&code->kernel);
	strbuf_release(&code->function);
	strbuf_release(&code->file);
}
