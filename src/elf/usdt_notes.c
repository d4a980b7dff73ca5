#include "elf/usdt_notes.h"

#include <string.h>

#include "base/bytes.h"

#define NOTES_BYTES_MAX ((size_t)16 << 20)
#define NOTE_USDT 3u
#define OWNER "stapsdt"
#define PROBES_SECTION ".probes"
#define BASE_SECTION ".stapsdt.base"

struct place {
	uint64_t address, base, semaphore; /* virtual addresses, as in the note */
};

/* Consumes a text with its end; NULL: it has none. */
static const char *cursor_text(struct cursor *c)
{
	const uint8_t *end = c->failed ? NULL : memchr(c->p, 0, cursor_left(c));

	return (const char *)cursor_bytes(c, end ? (size_t)(end - c->p) + 1 : SIZE_MAX);
}

/* The offset in the file of `size` bytes at an address, all of which are in one segment. */
static bool offset_of(const struct elf_file *f, uint64_t address, uint64_t size, uint32_t flags,
		      uint64_t *offset)
{
	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];
		uint64_t into = address - s->address;

		if (s->type != PT_LOAD || (s->flags & flags) != flags || address < s->address ||
		    into >= s->file_size || size > s->file_size - into || s->offset > f->size ||
		    into + size > f->size - s->offset)
			continue;
		*offset = s->offset + into;
		return true;
	}
	return false;
}

/* Whether an instruction there does nothing, in the forms that a probe has on this processor. */
static bool is_nop(const struct elf_file *f, uint64_t offset)
{
	static const struct {
		uint16_t machine;
		uint8_t size, bytes[5];
	} nops[] = {
		{ EM_X86_64, 1, { 0x90 } },
		{ EM_X86_64, 2, { 0x66, 0x90 } },
		{ EM_X86_64, 5, { 0x0f, 0x1f, 0x44, 0x00, 0x00 } },
		{ EM_AARCH64, 4, { 0x1f, 0x20, 0x03, 0xd5 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(nops); i++) {
		struct elf_bytes code = { f->bytes + offset, nops[i].size };

		if (f->machine == nops[i].machine && code.size <= f->size - offset &&
		    elf_load(f, code) && !memcmp(code.data, nops[i].bytes, code.size))
			return true;
	}
	return false;
}

/* A file that was moved by a prelinker has moved .stapsdt.base as well: by as much as its code. */
static uint64_t moved_by(const struct elf_file *f, const struct place *place)
{
	const struct elf_section *base = elf_section(f, BASE_SECTION);

	return base && place->base ? base->address - place->base : 0;
}

static bool find_place(const struct elf_file *f, struct place place, struct usdt_probe *probe)
{
	const struct elf_section *probes = elf_section(f, PROBES_SECTION);
	uint64_t moved = moved_by(f, &place);

	if (!offset_of(f, place.address + moved, 1, PF_X, &probe->offset) ||
	    !is_nop(f, probe->offset))
		return false;
	probe->semaphore = 0;
	if (!place.semaphore)
		return true;
	place.semaphore += moved;
	return probes && !(place.semaphore & 1) && place.semaphore >= probes->address &&
	       probes->size >= 2 && place.semaphore - probes->address <= probes->size - 2 &&
	       offset_of(f, place.semaphore, 2, PF_W, &probe->semaphore);
}

/* Visits the probe of a note's contents. 1: it is of the provider. */
static int visit_note(const struct elf_file *f, struct cursor c, const char *provider,
		      usdt_visit *visit, void *user, struct error *e)
{
	uint64_t address = cursor_u64(&c), base = cursor_u64(&c), semaphore = cursor_u64(&c);
	const char *owner = cursor_text(&c), *name = cursor_text(&c), *arguments = cursor_text(&c);
	struct usdt_probe probe = { .name = name, .arguments = arguments };
	int rc;

	if (c.failed)
		return error_set(e, E_FORMAT, "a note of .note.stapsdt is too short");
	if (strcmp(owner, provider))
		return 0;
	if (!find_place(f, (struct place){ address, base, semaphore }, &probe))
		return error_set(e, E_FORMAT,
				 "probe %s:%s at 0x%llx: there is no nop in code, or its semaphore "
				 "0x%llx is not in " PROBES_SECTION,
				 provider, name, (unsigned long long)address,
				 (unsigned long long)semaphore);
	rc = visit(user, &probe);
	return rc < 0 ? rc : 1;
}

int usdt_probes(const struct elf_file *f, const char *provider, usdt_visit *visit, void *user,
		struct error *e)
{
	struct elf_bytes notes = elf_raw_contents(f, elf_section(f, ".note.stapsdt"));
	struct cursor c;
	int count = 0, rc = 0;

	if (!notes.data)
		return 0;
	if (notes.size > NOTES_BYTES_MAX || !elf_load(f, notes))
		return error_set(e, E_FORMAT, ".note.stapsdt cannot be read");
	c = cursor_of(notes.data, notes.size);
	while (rc >= 0 && cursor_left(&c)) {
		uint32_t name_size = cursor_u32(&c), size = cursor_u32(&c), type = cursor_u32(&c);
		const uint8_t *name = cursor_bytes(&c, ((size_t)name_size + 3) & ~(size_t)3);
		const uint8_t *contents = cursor_bytes(&c, size);

		cursor_bytes(&c, MIN(-(size_t)size & 3, cursor_left(&c)));
		if (c.failed)
			return error_set(e, E_FORMAT, ".note.stapsdt ends within a note");
		if (type != NOTE_USDT || name_size != sizeof(OWNER) ||
		    memcmp(name, OWNER, sizeof(OWNER)))
			continue;
		rc = visit_note(f, cursor_of(contents, size), provider, visit, user, e);
		count += rc > 0;
	}
	return rc < 0 ? rc : count;
}
