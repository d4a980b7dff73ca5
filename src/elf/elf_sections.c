#include "elf/elf_sections.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

struct elf_file {
	const uint8_t *bytes;
	size_t size;
	Elf64_Ehdr header;
	const uint8_t *names;
	size_t names_size;
};

static const uint8_t *part(const struct elf_file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset ? f->bytes + offset : NULL;
}

/* Tables of headers: entries must have the size that we know. */
static const uint8_t *table(const struct elf_file *f, uint64_t offset, unsigned count, size_t size,
			    size_t entry)
{
	return size == entry ? part(f, offset, (uint64_t)count * entry) : NULL;
}

static bool section_at(const struct elf_file *f, unsigned i, Elf64_Shdr *section)
{
	const uint8_t *all = table(f, f->header.e_shoff, f->header.e_shnum, f->header.e_shentsize,
				   sizeof(*section));

	if (!all || i >= f->header.e_shnum)
		return false;
	memcpy(section, all + i * sizeof(*section), sizeof(*section));
	return true;
}

static int open_file(struct elf_file *f, const void *bytes, size_t size)
{
	Elf64_Shdr names;

	*f = (struct elf_file){ .bytes = bytes, .size = size };
	if (size < sizeof(f->header))
		return E_FORMAT;
	memcpy(&f->header, bytes, sizeof(f->header));
	if (memcmp(f->header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    f->header.e_ident[EI_CLASS] != ELFCLASS64 || f->header.e_machine != EM_X86_64)
		return E_FORMAT;
	if (!f->header.e_shnum)
		return 0;
	if (!section_at(f, f->header.e_shstrndx, &names))
		return E_FORMAT;
	f->names = part(f, names.sh_offset, names.sh_size);
	f->names_size = f->names ? names.sh_size : 0;
	return 0;
}

static bool section_named(const struct elf_file *f, const char *name, Elf64_Shdr *section)
{
	size_t length = strlen(name) + 1;

	for (unsigned i = 0; section_at(f, i, section); i++) {
		if (section->sh_type != SHT_NOBITS && section->sh_name < f->names_size &&
		    f->names_size - section->sh_name >= length &&
		    memcmp(f->names + section->sh_name, name, length) == 0 &&
		    !(section->sh_flags & SHF_COMPRESSED))
			return part(f, section->sh_offset, section->sh_size) != NULL;
	}
	return false;
}

static bool segment_at(const struct elf_file *f, unsigned i, Elf64_Phdr *segment)
{
	const uint8_t *all = table(f, f->header.e_phoff, f->header.e_phnum, f->header.e_phentsize,
				   sizeof(*segment));

	if (!all || i >= f->header.e_phnum)
		return false;
	memcpy(segment, all + i * sizeof(*segment), sizeof(*segment));
	return true;
}

static uint64_t lowest_address(const struct elf_file *f)
{
	uint64_t lowest = UINT64_MAX;
	Elf64_Phdr p;

	for (unsigned i = 0; segment_at(f, i, &p); i++)
		if (p.p_type == PT_LOAD)
			lowest = MIN(lowest, p.p_vaddr);
	return lowest == UINT64_MAX ? 0 : lowest & ~UINT64_C(4095);
}

/* The loaded segment that has an address, as far as it is in the file. */
static bool segment_with(const struct elf_file *f, uint64_t address, Elf64_Phdr *p)
{
	for (unsigned i = 0; segment_at(f, i, p); i++)
		if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz)
			return part(f, p->p_offset, p->p_filesz) != NULL;
	return false;
}

/*
 * Without section headers .eh_frame is found as the C library finds it: by .eh_frame_hdr, which is a segment. It is read
 * up to its terminator, at most to the end of its segment.
 */
static bool section_by_segment(const struct elf_file *f, struct eh_section *section)
{
	Elf64_Phdr segment, load;
	const uint8_t *bytes = NULL;
	struct eh_header header;
	uint64_t offset;

	for (unsigned i = 0; !bytes && segment_at(f, i, &segment); i++)
		if (segment.p_type == PT_GNU_EH_FRAME)
			bytes = part(f, segment.p_offset, segment.p_filesz);
	if (!bytes || !eh_header_read(bytes, segment.p_filesz, segment.p_vaddr, &header) ||
	    !segment_with(f, header.frames, &load))
		return false;
	offset = header.frames - load.p_vaddr;
	*section = (struct eh_section){ .bytes = f->bytes + load.p_offset + offset,
					.size = load.p_filesz - offset,
					.address = header.frames,
					.data_base = segment.p_vaddr };
	return true;
}

int elf_unwind_input(const void *bytes, size_t size, struct unwind_input *input)
{
	struct elf_file f;
	Elf64_Shdr section, header;
	bool debug = false;
	int r = open_file(&f, bytes, size);

	if (r < 0)
		return r;
	*input = (struct unwind_input){ .base = lowest_address(&f) };
	if (!f.header.e_shnum)
		return section_by_segment(&f, &input->section) ? 0 : -ENOENT;
	if (!section_named(&f, ".eh_frame", &section)) {
		debug = true;
		if (!section_named(&f, ".debug_frame", &section))
			return -ENOENT;
	}
	input->section = (struct eh_section){ .bytes = f.bytes + section.sh_offset,
					      .size = section.sh_size,
					      .address = section.sh_addr,
					      .debug = debug };
	if (section_named(&f, ".eh_frame_hdr", &header))
		input->section.data_base = header.sh_addr;
	return 0;
}

void elf_unwind_search(const void *bytes, size_t size, struct unwind_input *input)
{
	struct elf_file f;
	struct eh_header header;
	Elf64_Shdr section;

	if (input->section.debug || open_file(&f, bytes, size) < 0 ||
	    !section_named(&f, ".eh_frame_hdr", &section) ||
	    !eh_header_read(f.bytes + section.sh_offset, section.sh_size, section.sh_addr,
			    &header) ||
	    header.frames != input->section.address)
		return;
	input->header_address = section.sh_addr;
	input->search = header.pairs;
	input->search_count = header.pair_count;
}

uint64_t elf_code_end(const void *bytes, size_t size)
{
	struct elf_file f;
	Elf64_Phdr p;
	uint64_t end = 0;

	if (open_file(&f, bytes, size) < 0)
		return 0;
	for (unsigned i = 0; segment_at(&f, i, &p); i++)
		if (p.p_type == PT_LOAD && (p.p_flags & PF_X))
			end = MAX(end, p.p_vaddr + p.p_memsz);
	return end;
}
