/*
 * plt_stubs.c: finds the function that a PLT entry calls.
 *
 * An entry jumps through a slot of the global offset table, and a relocation names the function
 * whose address the slot holds. So the function follows from the entry's instructions, in any of
 * .plt, .plt.sec and .plt.got. The lazy entries of a PLT with .plt.sec have no such jump: they push
 * the number of the relocation.
 */
#include <elf.h>
#include <string.h>

#include "arch/elf_machine.h"
#include "base/search.h"
#include "symbol/symbol_table.h"

#define STUB_SIZE 16
#define STUBS_MAX 100000u
#define TABLES_MAX 16 /* relocation tables; linkers create two */

struct slot {
	uint64_t address;
	const char *name; /* NULL: `target` is the address of the function */
	uint64_t target;
};

struct slots {
	const struct elf_machine *machine;
	VEC(struct slot) lazy; /* from .rela.plt, in its order */
	VEC(struct slot) all; /* sorted by address */
	VEC(struct slot) ifuncs; /* of this file, sorted by address */
};

static const char *symbol_name(const struct elf_file *f, const struct elf_section *relocations,
			       uint32_t number)
{
	struct elf_section *symbols;
	struct elf_bytes bytes;
	Elf64_Sym symbol;

	if (relocations->link >= f->section_count || number == 0)
		return NULL;
	symbols = &f->sections[relocations->link];
	bytes = elf_contents(f, symbols);
	if (symbols->link >= f->section_count || bytes.size / sizeof(symbol) <= number)
		return NULL;
	memcpy(&symbol, bytes.data + number * sizeof(symbol), sizeof(symbol));
	return elf_string(elf_contents(f, &f->sections[symbols->link]), symbol.st_name);
}

static int read_relocations(const struct elf_file *f, struct elf_section *s, struct slots *slots)
{
	bool is_lazy = s && strcmp(s->name, ".rela.plt") == 0;
	struct elf_bytes bytes = elf_contents(f, s);

	for (size_t at = 0; at + sizeof(Elf64_Rela) <= bytes.size; at += sizeof(Elf64_Rela)) {
		struct slot slot = { 0 };
		Elf64_Rela r;
		uint32_t type;

		memcpy(&r, bytes.data + at, sizeof(r));
		type = (uint32_t)ELF64_R_TYPE(r.r_info);
		slot.address = r.r_offset;
		if (type == slots->machine->irelative)
			slot.target = (uint64_t)r.r_addend;
		else if (type == slots->machine->jump_slot || type == slots->machine->glob_dat)
			slot.name = symbol_name(f, s, (uint32_t)ELF64_R_SYM(r.r_info));
		else if (!is_lazy)
			continue;
		if ((is_lazy && slots->lazy.count < STUBS_MAX &&
		     vec_push(&slots->lazy, slot) < 0) ||
		    (slots->all.count < STUBS_MAX && vec_push(&slots->all, slot) < 0))
			return -ENOMEM;
	}
	return 0;
}

ORDER(by_address, struct slot, UP(address))

/* Returns the slot through which the stub at `address` jumps, or NULL. */
static const struct slot *decode(const struct slots *slots, const uint8_t *code, size_t size,
				 uint64_t address)
{
	struct plt_stub stub;
	struct slot key;

	if (!slots->machine->read_stub(code, size, address, &stub))
		return NULL;
	if (stub.is_lazy)
		return stub.number < slots->lazy.count ? &slots->lazy.data[stub.number] : NULL;
	if (!slots->all.count)
		return NULL;
	key.address = stub.slot;
	return bsearch(&key, slots->all.data, slots->all.count, sizeof(key), by_address);
}

/*
 * Lists the functions of this file that are resolved when it is loaded (IFUNCs): the symbols
 * already added contain their names.
 */
static int read_ifuncs(const struct symbol_table *t, struct slots *slots)
{
	for (size_t i = 0; i < t->symbols.count; i++) {
		const struct symbol *s = &t->symbols.data[i];
		struct slot slot = { .address = s->start, .name = s->name };

		if (s->kind == SYMBOL_IFUNC && vec_push(&slots->ifuncs, slot) < 0)
			return -ENOMEM;
	}
	vec_sort(&slots->ifuncs, by_address);
	return 0;
}

static const char *name_of(const struct slots *slots, const struct slot *slot)
{
	struct slot key;

	if (slot && slot->name)
		return slot->name;
	if (!slot || !slots->ifuncs.count)
		return NULL;
	key.address = slot->target;
	slot = bsearch(&key, slots->ifuncs.data, slots->ifuncs.count, sizeof(key), by_address);
	return slot ? slot->name : NULL;
}

static bool has_stubs(const struct elf_section *s)
{
	return s->flags & SHF_EXECINSTR && s->type == SHT_PROGBITS &&
	       (strncmp(s->name, ".plt", 4) == 0 || strcmp(s->name, ".iplt") == 0);
}

bool symbol_table_needs_plt(const struct elf_file *f, const struct code_zones *zones)
{
	for (size_t i = 0; i < f->section_count; i++) {
		const struct elf_section *s = &f->sections[i];

		if (has_stubs(s) && code_zones_touch(zones, s->address, s->address + s->size))
			return true;
	}
	return false;
}

static int add_stubs(struct symbol_table *t, const struct elf_file *f, struct elf_section *s,
		     const struct slots *slots)
{
	/* Static programs have short stubs, without a matching entry size. */
	size_t step = s->entry_size == STUB_SIZE ? STUB_SIZE : slots->machine->short_stub_bytes;
	struct elf_bytes bytes = elf_contents(f, s);
	size_t count = MIN(bytes.size / step, STUBS_MAX);

	for (size_t i = 0; i < count; i++) {
		uint64_t address = s->address + i * step;
		const char *name = name_of(slots, decode(slots, bytes.data + i * step,
							 bytes.size - i * step, address));
		struct symbol stub = { address, address + step, name, SYMBOL_PLT, 0 };

		if (name && *name && vec_push(&t->symbols, stub) < 0)
			return -ENOMEM;
	}
	return 0;
}

int symbol_table_add_plt(struct symbol_table *t, const struct elf_file *f)
{
	struct slots slots = { .machine = elf_machine_of(f->machine) };
	unsigned tables = 0, stub_sections = 0;
	int rc;

	if (!slots.machine)
		return 0;
	rc = read_ifuncs(t, &slots);
	for (size_t i = 0; rc == 0 && i < f->section_count; i++)
		if (f->sections[i].type == SHT_RELA && f->sections[i].flags & SHF_ALLOC &&
		    tables++ < TABLES_MAX)
			rc = read_relocations(f, &f->sections[i], &slots);
	vec_sort(&slots.all, by_address);
	for (size_t i = 0; rc == 0 && slots.all.count && i < f->section_count; i++) {
		struct elf_section *s = &f->sections[i];

		if (stub_sections < TABLES_MAX && has_stubs(s)) {
			stub_sections++;
			rc = add_stubs(t, f, s, &slots);
		}
	}
	vec_release(&slots.ifuncs);
	vec_release(&slots.lazy);
	vec_release(&slots.all);
	return rc;
}
