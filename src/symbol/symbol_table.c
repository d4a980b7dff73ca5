/* symbol_table.c: sorts .symtab and .dynsym, and chooses one name for each piece of code. */
#include "symbol/symbol_table.h"

#include <elf.h>
#include <string.h>

#include "base/search.h"

#define SYMBOLS_MAX ((size_t)1 << 28)

void symbol_table_init(struct symbol_table *t, const struct code_zones *zones)
{
	*t = (struct symbol_table){ .ranges = RANGE_TABLE_INIT, .zones = zones };
}

void symbol_table_release(struct symbol_table *t)
{
	vec_release(&t->symbols);
	range_table_release(&t->ranges);
}

/*
 * Whether a symbol is in code. Sections are more precise than segments, which decide where the
 * section number is reserved or out of range.
 */
static bool is_in_code(const struct elf_file *f, const Elf64_Sym *s)
{
	if (s->st_shndx == SHN_UNDEF || (s->st_shndx >= SHN_LORESERVE && s->st_shndx != SHN_XINDEX))
		return false;
	if (s->st_shndx < f->section_count) {
		const struct elf_section *in = &f->sections[s->st_shndx];

		return in->flags & SHF_EXECINSTR && s->st_value >= in->address &&
		       s->st_value - in->address < in->size;
	}
	return elf_is_code(f, s->st_value);
}

static uint8_t rank_of(const Elf64_Sym *s)
{
	unsigned binding = ELF64_ST_BIND(s->st_info);
	unsigned rank = binding == STB_LOCAL ? 1 : binding == STB_WEAK ? 2 : 0;

	return (uint8_t)(2 * rank + (ELF64_ST_TYPE(s->st_info) == STT_NOTYPE));
}

/*
 * Whether a symbol is only a label: '$x' and similar mark the kind of the bytes that follow, '.L'
 * is a compiler's internal label, and "L…gas_1" is a label inside functions of Intel's MKL, which
 * have no sizes.
 */
static bool is_label(const char *name)
{
	const char *last = strrchr(name, '_');

	return *name == '$' || strncmp(name, ".L", 2) == 0 ||
	       (*name == 'L' && last && last - name > 3 && strncmp(last - 3, "gas", 3) == 0 &&
		last[1] && !last[1 + strspn(last + 1, "0123456789")]);
}

static int add_symbol(struct symbol_table *t, const struct elf_file *f,
		      const struct elf_symbols *symbols, const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	struct symbol symbol = { .start = s->st_value, .rank = rank_of(s) };
	bool is_near;

	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	if (s->st_size && s->st_size <= UINT64_MAX - s->st_value)
		symbol.end = s->st_value + s->st_size;
	is_near = code_zones_touch(t->zones, symbol.start, MAX(symbol.end, symbol.start + 1));
	if ((!is_near && t->has_any) || !is_in_code(f, s))
		return 0;
	symbol.name = elf_symbol_name(f, symbols, s);
	if (!*symbol.name || is_label(symbol.name))
		return 0;
	t->has_any = true;
	if (!is_near)
		return 0;
	if (t->symbols.count >= SYMBOLS_MAX)
		return -ENOMEM;
	symbol.kind = type == STT_GNU_IFUNC ? SYMBOL_IFUNC : SYMBOL_FUNCTION;
	return vec_push(&t->symbols, symbol);
}

/* Adds the first section of a type: a file has one of each. */
static int add_section(struct symbol_table *t, const struct elf_file *f, uint32_t type)
{
	struct elf_symbols symbols;
	Elf64_Sym symbol;

	if (elf_symbol_entries(f, type, &symbols) < 0 ||
	    (t->zones->is_all && !elf_load(f, symbols.names)))
		return 0;
	for (size_t i = 0; elf_symbol_entry(&symbols, i, &symbol); i++)
		if (add_symbol(t, f, &symbols, &symbol) < 0)
			return -ENOMEM;
	return 0;
}

int symbol_table_add(struct symbol_table *t, const struct elf_file *f)
{
	int rc = add_section(t, f, SHT_SYMTAB);

	return rc < 0 ? rc : add_section(t, f, SHT_DYNSYM);
}

static size_t underscores(const char *name)
{
	return strspn(name, "_");
}

/* A total order of the names of one function; negative: a's name is preferred. */
static int compare_names(const struct symbol *a, const struct symbol *b)
{
	return UP(rank) ?: ORDER_OF(underscores(a->name), underscores(b->name))
			?: ORDER_OF(strlen(a->name), strlen(b->name))
			?: strcmp(a->name, b->name);
}

/* By start, then the longest first; symbols without a size come last. */
ORDER(by_start, struct symbol, UP(start) ?: DOWN(end))

/* Returns the end of the address's segment, or section in files without segments. */
static uint64_t code_end(const struct elf_file *f, uint64_t address)
{
	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->type == PT_LOAD && address >= s->address &&
		    address - s->address < s->memory_size)
			return s->address + s->memory_size;
	}
	for (size_t i = 0; !f->segment_count && i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (s->flags & SHF_EXECINSTR && address >= s->address &&
		    address - s->address < s->size)
			return s->address + s->size;
	}
	return address;
}

/*
 * Of symbols with the same start and end, the preferred name remains. Symbols without a size are
 * removed if another with the same start has one.
 */
static void drop_aliases(struct symbol_table *t)
{
	struct symbol *all = t->symbols.data;
	size_t kept = 0;

	for (size_t i = 0; i < t->symbols.count; i++) {
		struct symbol *last = kept ? &all[kept - 1] : NULL;

		if (!last || last->start != all[i].start)
			all[kept++] = all[i];
		else if (last->end == all[i].end && compare_names(&all[i], last) < 0)
			*last = all[i];
		else if (last->end != all[i].end && all[i].end != 0)
			all[kept++] = all[i];
	}
	t->symbols.count = kept;
}

/*
 * Sets the ends of symbols without a size. One that is inside of a known function is a label: it
 * gets no end, and so no code.
 */
static void find_ends(struct symbol_table *t, const struct elf_file *code,
		      const struct function_bounds *bounds)
{
	uint64_t covered = 0, last_start = 0;

	for (size_t i = 0; i < t->symbols.count; i++) {
		struct symbol *s = &t->symbols.data[i];
		const struct bounds *around;
		uint64_t end;

		if (s->end) {
			covered = MAX(covered, s->end);
			last_start = s->start;
			continue;
		}
		around = function_bounds_find(bounds, s->start);
		if (s->start < covered ||
		    (i > 0 && around && around->start < s->start && last_start >= around->start))
			continue;
		end = code_end(code, s->start);
		if (i + 1 < t->symbols.count)
			end = MIN(end, t->symbols.data[i + 1].start);
		s->end = MIN(end, around ? around->end : function_bounds_next(bounds, s->start));
		last_start = s->start;
	}
}

int symbol_table_finish(struct symbol_table *t, const struct elf_file *code,
			const struct function_bounds *bounds)
{
	int rc = 0;

	vec_sort(&t->symbols, by_start);
	drop_aliases(t);
	find_ends(t, code, bounds);
	for (size_t i = 0; rc == 0 && i < t->symbols.count; i++) {
		const struct symbol *s = &t->symbols.data[i];

		rc = range_table_add(&t->ranges,
				     (struct range){ s->start, s->end, 0, (uint32_t)i });
	}
	return rc == 0 ? range_table_finish(&t->ranges) : rc;
}

const struct symbol *symbol_table_find(const struct symbol_table *t, uint64_t address)
{
	uint32_t i = range_table_find(&t->ranges, address);

	return i == RANGE_NONE ? NULL : &t->symbols.data[i];
}
