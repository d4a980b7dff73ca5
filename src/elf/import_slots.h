/*
 * import_slots.h: what the dynamic section of a library in this process says, without the loader,
 * whose functions wait while another thread's dlopen() runs constructors: the symbols that it
 * exports, and its import slots, the words that the loader fills with addresses of other libraries'
 * functions, for relocations JUMP_SLOT, GLOB_DAT and 64 (a function's address in data).
 *
 * The loader has used these bytes already. Nevertheless, the search ends at tables that leave the
 * library's segments.
 */
#ifndef PITOT_ELF_IMPORT_SLOTS_H
#define PITOT_ELF_IMPORT_SLOTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A library from loaded_libraries_visit(). It is valid only during that call. */
struct loaded_library {
	uintptr_t base;
	const ElfW(Phdr) * segments;
	unsigned segment_count;
	uintptr_t protected_from,
		protected_to; /* range made read-only after relocation; empty: none */
	bool has_rpath; /* DT_RPATH: its dlopen() searches additional folders */
	const ElfW(Sym) * symbols;
	const char *strings;
	size_t strings_size;
	const uint32_t *hashes; /* DT_GNU_HASH; NULL: none */
	struct {
		const ElfW(Rela) * entries;
		size_t count;
	} tables[2];
};

/*
 * Returns false without a usable dynamic section. Allocates nothing and calls no loader function.
 */
bool loaded_library_read(const struct dl_phdr_info *info, struct loaded_library *out);

/* Whether the address is in a segment of the library. */
bool loaded_library_has(const struct loaded_library *library, uintptr_t address);

/*
 * Returns an exported symbol of any version, as dlsym() would find it; NULL: none, or the library
 * has no GNU hash table. Its address is the library's base + st_value.
 */
const ElfW(Sym) * loaded_library_symbol(const struct loaded_library *library, const char *name);

/*
 * Calls visit for each slot of a named symbol. The slot contains the function's address + `addend`.
 */
typedef void import_slot_visitor(uintptr_t *slot, const char *name, uint64_t addend, void *user);
void import_slots_visit(const struct loaded_library *library, import_slot_visitor *visit,
			void *user);

#endif
