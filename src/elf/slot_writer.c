#include "elf/slot_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/io.h"

#define MAPS_BYTES (8u << 20)

/* Reads a page's protection from /proc/self/maps; returns false if it is unknown. */
static bool is_writable(struct slot_writer *w, uintptr_t address, bool *writable)
{
	uint64_t from, to;
	char protection[5];

	if (!w->maps.length && io_read_file("/proc/self/maps", MAPS_BYTES, &w->maps) < 0)
		return false;
	for (const char *line = strbuf_text(&w->maps); line && *line;
	     line = strchr(line, '\n'), line += line != NULL) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, protection) != 3)
			return false;
		if (address >= from && address < to) {
			*writable = protection[1] == 'w';
			return true;
		}
	}
	return false;
}

/*
 * Makes the pages writable that the loader protects after relocation. If they are still writable,
 * another thread is loading the library: if we protected them now that thread would crash, and the
 * loader would overwrite what we store.
 */
static bool open_protected(struct slot_writer *w)
{
	const struct loaded_library *l = w->library;
	bool writable = true;

	if (w->is_open)
		return true;
	if (!is_writable(w, l->protected_from, &writable))
		return false;
	w->is_unfinished |= writable;
	if (writable)
		return false;
	w->is_open = mprotect((void *)l->protected_from, l->protected_to - l->protected_from,
			      PROT_READ | PROT_WRITE) == 0;
	return w->is_open;
}

bool slot_writer_set(struct slot_writer *w, uintptr_t *slot, uintptr_t value)
{
	uintptr_t at = (uintptr_t)slot;

	if (at >= w->library->protected_from && at < w->library->protected_to && !open_protected(w))
		return false;
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
	return true;
}

void slot_writer_end(struct slot_writer *w)
{
	const struct loaded_library *l = w->library;

	if (w->is_open)
		mprotect((void *)l->protected_from, l->protected_to - l->protected_from, PROT_READ);
	w->is_open = false;
	strbuf_release(&w->maps);
}
