#include "elf/unwind_input.h"

#include <elf.h>
#include <errno.h>

#include "arch/processor.h"
#include "elf/elf_file.h"

static uint64_t lowest_address(const struct elf_file *f)
{
	uint64_t lowest = UINT64_MAX;

	for (size_t i = 0; i < f->segment_count; i++)
		if (f->segments[i].type == PT_LOAD)
			lowest = MIN(lowest, f->segments[i].address);
	return lowest == UINT64_MAX ? 0 : lowest & ~UINT64_C(4095);
}

/* Returns a section that is not compressed. */
static struct elf_bytes plain_section(const struct elf_file *f, const char *name, uint64_t *address)
{
	struct elf_section *s = elf_section(f, name);

	if (!s || s->flags & SHF_COMPRESSED)
		return (struct elf_bytes){ NULL, 0 };
	*address = s->address;
	return elf_raw_contents(f, s);
}

/* Returns .eh_frame_hdr, found by its section or, in a file without sections, by its segment. */
static struct elf_bytes find_header(const struct elf_file *f, uint64_t *address)
{
	if (f->section_count)
		return plain_section(f, ".eh_frame_hdr", address);
	for (size_t i = 0; i < f->segment_count; i++) {
		if (f->segments[i].type != PT_GNU_EH_FRAME)
			continue;
		*address = f->segments[i].address;
		return elf_at_address(f, *address);
	}
	return (struct elf_bytes){ NULL, 0 };
}

int elf_unwind_input(const struct elf_file *f, struct unwind_input *input)
{
	struct eh_section *s = &input->section;
	struct elf_bytes header, frames;
	struct eh_header found;

	if (f->machine != ARCH_MACHINE_NUMBER)
		return E_FORMAT;
	*input = (struct unwind_input){ .base = lowest_address(f) };
	header = find_header(f, &s->data_base);
	if (!elf_load(f, (struct elf_bytes){ header.data, MIN(header.size, EH_HEADER_BYTES) }) ||
	    !eh_header_read(header.data, header.size, s->data_base, &found))
		found = (struct eh_header){ 0 };
	frames = plain_section(f, ".eh_frame", &s->address);
	/*
	 * Without sections, .eh_frame_hdr has the address, as for the C library. The data end at
	 * their terminator, at the latest with the segment.
	 */
	if (!f->section_count && found.frames) {
		s->address = found.frames;
		frames = elf_at_address(f, found.frames);
	}
	if (!frames.data) {
		s->debug = true;
		frames = plain_section(f, ".debug_frame", &s->address);
	}
	s->bytes = frames.data;
	s->size = frames.size;
	if (found.frames == s->address && !s->debug && found.pairs) {
		input->header_address = s->data_base;
		input->search = found.pairs;
		input->search_count = found.pair_count;
	}
	return frames.data ? 0 : -ENOENT;
}

uint64_t elf_code_end(const struct elf_file *f)
{
	uint64_t end = 0;

	for (size_t i = 0; i < f->segment_count; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->type == PT_LOAD && s->flags & PF_X)
			end = MAX(end, s->address + s->memory_size);
	}
	return end;
}
