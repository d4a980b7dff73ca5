#include "elf/import_slots.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "arch/processor.h"
#include "base/compiler.h"

#define NAME_MAX_BYTES 256u /* longer symbols are not searched for */

bool loaded_library_has(const struct loaded_library *library, uintptr_t address)
{
	for (unsigned i = 0; i < library->segment_count; i++) {
		const ElfW(Phdr) *p = &library->segments[i];

		if (p->p_type == PT_LOAD && address - (library->base + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

static bool has_range(const struct loaded_library *library, const void *from, size_t size)
{
	uintptr_t address = (uintptr_t)from;

	return size && loaded_library_has(library, address) &&
	       loaded_library_has(library, address + size - 1);
}

/* glibc relocates most entries of a dynamic section in place, except in read-only sections. */
static const void *pointer_of(const struct loaded_library *library, uint64_t value)
{
	if (!loaded_library_has(library, (uintptr_t)value))
		value += library->base;
	return (const void *)(uintptr_t)value;
}

static const ElfW(Dyn) * read_segments(struct loaded_library *library)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const ElfW(Dyn) *dynamic = NULL;

	for (unsigned i = 0; i < library->segment_count; i++) {
		const ElfW(Phdr) *p = &library->segments[i];
		uintptr_t from = library->base + p->p_vaddr;

		if (p->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)from;
		if (p->p_type == PT_GNU_RELRO) {
			library->protected_from = from & ~(page - 1);
			library->protected_to =
				MAX((from + p->p_memsz) & ~(page - 1), library->protected_from);
		}
	}
	return dynamic;
}

static void read_entry(struct loaded_library *library, const ElfW(Dyn) * d)
{
	switch (d->d_tag) {
	case DT_SYMTAB:
		library->symbols = pointer_of(library, d->d_un.d_ptr);
		break;
	case DT_STRTAB:
		library->strings = pointer_of(library, d->d_un.d_ptr);
		break;
	case DT_STRSZ:
		library->strings_size = d->d_un.d_val;
		break;
	case DT_GNU_HASH:
		library->hashes = pointer_of(library, d->d_un.d_ptr);
		break;
	case DT_JMPREL:
		library->tables[0].entries = pointer_of(library, d->d_un.d_ptr);
		break;
	case DT_PLTRELSZ:
		library->tables[0].count = d->d_un.d_val / sizeof(ElfW(Rela));
		break;
	case DT_RELA:
		library->tables[1].entries = pointer_of(library, d->d_un.d_ptr);
		break;
	case DT_RELASZ:
		library->tables[1].count = d->d_un.d_val / sizeof(ElfW(Rela));
		break;
	case DT_RPATH:
		library->has_rpath = true;
		break;
	default:
		break;
	}
}

bool loaded_library_read(const struct dl_phdr_info *info, struct loaded_library *out)
{
	const ElfW(Dyn) * d;

	*out = (struct loaded_library){ .base = info->dlpi_addr,
					.segments = info->dlpi_phdr,
					.segment_count = info->dlpi_phnum };
	d = read_segments(out);
	if (!d)
		return false;
	for (; has_range(out, d, sizeof(*d)) && d->d_tag != DT_NULL; d++)
		read_entry(out, d);
	for (unsigned i = 0; i < ARRAY_SIZE(out->tables); i++)
		if (!out->tables[i].entries ||
		    !has_range(out, out->tables[i].entries,
			       out->tables[i].count * sizeof(ElfW(Rela))))
			out->tables[i].count = 0;
	return out->symbols && has_range(out, out->strings, out->strings_size);
}

static bool is_named(const struct loaded_library *library, const ElfW(Sym) * symbol,
		     const char *name)
{
	size_t size = strlen(name) + 1;

	return symbol->st_shndx != SHN_UNDEF && symbol->st_name < library->strings_size &&
	       size <= library->strings_size - symbol->st_name &&
	       memcmp(library->strings + symbol->st_name, name, size) == 0;
}

/*
 * The table: numbers of buckets, of the first symbol in it, of 8-byte words of a filter, and a
 * shift; the filter; the first symbol of each bucket; and a hash for each symbol, whose lowest bit
 * ends the bucket.
 */
const ElfW(Sym) * loaded_library_symbol(const struct loaded_library *library, const char *name)
{
	const uint32_t *table = library->hashes, *buckets, *chain;
	uint32_t hash = 5381, i;

	if (!table || !has_range(library, table, 4 * sizeof(*table)) || !table[0])
		return NULL;
	for (const char *c = name; *c; c++)
		hash = 33 * hash + (unsigned char)*c;
	buckets = table + 4 + 2 * (size_t)table[2];
	if (!has_range(library, buckets + hash % table[0], sizeof(*buckets)))
		return NULL;
	for (i = buckets[hash % table[0]]; i >= table[1]; i++) {
		const ElfW(Sym) *symbol = library->symbols + i;

		chain = buckets + table[0] + (i - table[1]);
		if (!i || !has_range(library, chain, sizeof(*chain)) ||
		    !has_range(library, symbol, sizeof(*symbol)))
			break;
		if ((*chain | 1) == (hash | 1) && is_named(library, symbol, name))
			return symbol;
		if (*chain & 1)
			break;
	}
	return NULL;
}

static void visit_entry(const struct loaded_library *library, const ElfW(Rela) * entry,
			import_slot_visitor *visit, void *user)
{
	const struct elf_machine *m = &ARCH_ELF_MACHINE;
	const ElfW(Sym) *symbol = library->symbols + ELF64_R_SYM(entry->r_info);
	unsigned type = ELF64_R_TYPE(entry->r_info);
	uintptr_t slot = library->base + entry->r_offset;
	size_t left;

	if ((type != m->jump_slot && type != m->glob_dat && type != m->absolute) ||
	    !ELF64_R_SYM(entry->r_info) || slot % sizeof(uintptr_t) ||
	    !has_range(library, symbol, sizeof(*symbol)) ||
	    !has_range(library, (const void *)slot, sizeof(uintptr_t)) ||
	    symbol->st_name >= library->strings_size)
		return;
	left = MIN(library->strings_size - symbol->st_name, NAME_MAX_BYTES);
	if (memchr(library->strings + symbol->st_name, 0, left))
		visit((uintptr_t *)slot, library->strings + symbol->st_name,
		      type == m->absolute ? (uint64_t)entry->r_addend : 0, user);
}

void import_slots_visit(const struct loaded_library *library, import_slot_visitor *visit,
			void *user)
{
	for (unsigned t = 0; t < ARRAY_SIZE(library->tables); t++)
		for (size_t i = 0; i < library->tables[t].count; i++)
			visit_entry(library, &library->tables[t].entries[i], visit, user);
}
