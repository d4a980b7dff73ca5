/* layer: symbol */
/*
 * Any bytes as the sections of DWARF, without the ELF file around them: what fuzz_elf seldom gets
 * to. An input is a list of sections, each a byte that says which (index of `names`), its size (two
 * bytes) and its contents; the corpus is made by tests/fuzz/seeds_dwarf.
 */
#include "fuzz.h"

#include <elf.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "symbol/lines.h"

#define CODE_BYTES 0x1000
#define STEP 3

static const char *const names[] = {
	".debug_info",   ".debug_abbrev", ".debug_str",         ".debug_line",
	".debug_ranges", ".debug_addr",   ".debug_line_str",    ".debug_rnglists",
	".debug_types",  ".debug_loc",    ".debug_str_offsets",
};

/* Number of sections. */
static size_t cut_sections(const uint8_t *bytes, size_t size, struct elf_section *sections)
{
	struct cursor c = cursor_of(bytes, size);
	size_t count = 0;

	while (count < ARRAY_SIZE(names) && cursor_left(&c)) {
		unsigned which = cursor_u8(&c) % ARRAY_SIZE(names);
		uint64_t length = cursor_u16(&c), offset = (uint64_t)(c.p - bytes);

		if (!cursor_bytes(&c, (size_t)length))
			break;
		sections[count++] = (struct elf_section){
			.name = names[which], .type = SHT_PROGBITS, .offset = offset, .size = length
		};
	}
	return count;
}

static void check_frames(const struct source_frame *frames, int count)
{
	if (count > SOURCE_FRAMES_MAX)
		abort();
	for (int i = 0; i < count; i++)
		if ((frames[i].function && strlen(frames[i].function) > SIZE_MAX / 2) ||
		    (frames[i].file && strlen(frames[i].file) > SIZE_MAX / 2))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct elf_section sections[ARRAY_SIZE(names)];
	/* Where the programs of the corpus have their code, and a library or object. */
	struct elf_segment segments[] = {
		{ PT_LOAD, PF_R | PF_X, 0, 0, CODE_BYTES, CODE_BYTES },
		{ PT_LOAD, PF_R | PF_X, 0, 0x400000, CODE_BYTES, CODE_BYTES },
	};
	struct elf_file file = { .bytes = bytes,
				 .size = size,
				 .machine = EM_X86_64,
				 .type = ET_EXEC,
				 .sections = sections,
				 .segments = segments,
				 .segment_count = ARRAY_SIZE(segments) };
	static struct source_frame frames[SOURCE_FRAMES_MAX];
	struct lines *lines;

	file.section_count = cut_sections(bytes, size, sections);
	/* The file is its own shared one, so that references to that lead somewhere. */
	if (lines_open(&file, &file, &file, &lines) < 0 || !lines)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(segments); i++)
		for (uint64_t at = 0; at < CODE_BYTES; at += STEP)
			check_frames(frames, lines_find(lines, segments[i].address + at, frames));
	lines_free(lines);
	return 0;
}
