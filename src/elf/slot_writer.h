/* slot_writer.h: changes import slots of one library, also those that the loader has protected. */
#ifndef PITOT_ELF_SLOT_WRITER_H
#define PITOT_ELF_SLOT_WRITER_H

#include "base/strbuf.h"
#include "elf/import_slots.h"

struct slot_writer {
	const struct loaded_library *library; /* the rest starts as zeros */
	bool is_open; /* its protected pages have been made writable */
	bool is_unfinished; /* the loader is still relocating it: its slots cannot be changed yet */
	struct strbuf maps; /* /proc/self/maps, once read */
};

/* Returns false if the slot cannot be changed. */
bool slot_writer_set(struct slot_writer *w, uintptr_t *slot, uintptr_t value);
/* Protects the library's pages again. */
void slot_writer_end(struct slot_writer *w);

#endif
