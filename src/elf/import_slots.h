/*
 * import_slots.h: the words of a library in this process through which it reaches functions of
 * others: what the loader fills in for relocations JUMP_SLOT, GLOB_DAT and 64 (a function's address
 * in data) of its dynamic section.
 *
 * Bytes are the loader's, which has used them before; a table that leaves the library's segments
 * ends the search all the same.
 */
#ifndef PITOT_ELF_IMPORT_SLOTS_H
#define PITOT_ELF_IMPORT_SLOTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A library as loaded_libraries_visit() describes it. It stays loaded only while that runs. */
struct loaded_library {
	uintptr_t base;
	const ElfW(Phdr) * segments;
	unsigned segment_count;
	uintptr_t protected_from,
		protected_to; /* what the loader makes read-only after relocation; equal: nothing */
	bool has_rpath; /* DT_RPATH: its dlopen() finds libraries that another's does not */
	const ElfW(Sym) * symbols;
	const char *strings;
	size_t strings_size;
	struct {
		const ElfW(Rela) * entries;
		size_t count;
	} tables[2];
};

/*
 * false: it has no dynamic section that is understood. Allocates nothing, calls nothing of the
 * loader's.
 */
bool loaded_library_read(const struct dl_phdr_info *info, struct loaded_library *out);

/* Whether the address is in one of its segments. */
bool loaded_library_has(const struct loaded_library *library, uintptr_t address);

/*
 * Calls visit for each slot of a named symbol; its value is the function's address plus `addend`.
 */
typedef void import_slot_visitor(uintptr_t *slot, const char *name, uint64_t addend, void *user);
void import_slots_visit(const struct loaded_library *library, import_slot_visitor *visit,
			void *user);

#endif
