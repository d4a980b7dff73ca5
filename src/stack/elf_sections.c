#include "stack/elf_sections.h"

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

static uint64_t lowest_address(const struct elf_file *f)
{
	const uint8_t *all = table(f, f->header.e_phoff, f->header.e_phnum, f->header.e_phentsize,
				   sizeof(Elf64_Phdr));
	uint64_t lowest = UINT64_MAX;

	for (unsigned i = 0; all && i < f->header.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, all + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD)
			lowest = MIN(lowest, p.p_vaddr);
	}
	return lowest == UINT64_MAX ? 0 : lowest & ~UINT64_C(4095);
}

int elf_unwind_input(const void *bytes, size_t size, struct unwind_input *input)
{
	struct elf_file f;
	Elf64_Shdr section, header;
	bool debug = false;
	int r = open_file(&f, bytes, size);

	if (r < 0)
		return r;
	if (!section_named(&f, ".eh_frame", &section)) {
		debug = true;
		if (!section_named(&f, ".debug_frame", &section))
			return -ENOENT;
	}
	*input = (struct unwind_input){ .base = lowest_address(&f) };
	input->section = (struct eh_section){ .bytes = f.bytes + section.sh_offset,
					      .size = section.sh_size,
					      .address = section.sh_addr,
					      .debug = debug };
	if (section_named(&f, ".eh_frame_hdr", &header))
		input->section.data_base = header.sh_addr;
	return 0;
}
