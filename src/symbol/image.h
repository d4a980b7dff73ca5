/*
 * image.h: everything that is known of the code of one file: its symbols, its separate symbols,
 * where its functions begin, and its lines. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_IMAGE_H
#define PITOT_SYMBOL_IMAGE_H

#include "base/strbuf.h"
#include "symbol/debug_files.h"
#include "symbol/lines.h"
#include "symbol/symbol_table.h"

struct image {
	struct elf_file code; /* empty when only the separate symbols were found */
	struct elf_file debug, mini, alt; /* empty: none */
	struct function_bounds bounds;
	struct symbol_table symbols;
	struct lines *lines; /* NULL: none */
	struct strbuf debug_path; /* of `debug`; "" if none */
	struct strbuf notes; /* what was there and could not be used; "" if nothing */
};

/*
 * Takes an open file (which is the image's from then on, also on failure), or, with NULL, what is
 * found by build_id in the folders of separate symbols. `path` is where the file is. 0, -ENOMEM,
 * -ENOENT without file and symbols.
 */
int image_open(struct image *image, struct elf_file *code, const char *path, const char *build_id,
	       const struct debug_folders *folders, bool want_lines, struct error *e) MUST_USE;
void image_release(struct image *image);

enum address_kind {
	ADDRESS_INSTRUCTION, /* being executed */
	ADDRESS_RETURN, /* of a caller: behind the call */
};

struct image_answer {
	struct source_frame
		frames[SOURCE_FRAMES_MAX]; /* the function, then those inlined into it */
	unsigned count; /* at least 1; frames[0].function is NULL for unknown code */
	enum symbol_kind kind; /* of frames[0].function */
	bool has_start;
	uint64_t start; /* of the function */
};

/* What is at an ELF address. 0 or -ENOMEM. */
int image_find(struct image *image, uint64_t address, enum address_kind kind,
	       struct image_answer *answer);

#endif
