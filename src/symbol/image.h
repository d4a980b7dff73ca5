/*
 * image.h: all symbol data of one file: its symbols, its debug file, the bounds of its functions,
 * and its lines. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_IMAGE_H
#define PITOT_SYMBOL_IMAGE_H

#include "base/strbuf.h"
#include "symbol/debug_files.h"
#include "symbol/lines.h"
#include "symbol/symbol_table.h"

struct image {
	struct elf_file code; /* empty if only the debug file was found */
	struct elf_file debug, mini, alt; /* empty: none */
	struct function_bounds bounds;
	struct symbol_table symbols;
	struct lines *lines; /* NULL: none */
	uint64_t read_bytes; /* of all these files, in memory */
	struct strbuf debug_path; /* path of `debug`; "": none */
	struct strbuf notes; /* what was found but could not be used; "": nothing */
};

struct image_request {
	const char *path; /* of the file */
	const char *build_id; /* with which a debug file is found if there is no file */
	const struct debug_folders *folders;
	bool lines;
	const struct wanted_addresses *wanted; /* others may have wrong names; NULL: any */
};

/*
 * Opens an image with `code`, an open file whose ownership it takes, also on failure; or, if that
 * is NULL, with the debug file found by build id. Returns 0, -ENOMEM, or -ENOENT if neither is
 * found.
 */
int image_open(struct image *image, struct elf_file *code, const struct image_request *request,
	       struct error *e) MUST_USE;
void image_release(struct image *image);

enum address_kind {
	ADDRESS_INSTRUCTION, /* address of the instruction being executed */
	ADDRESS_RETURN, /* return address, after the call */
};

struct image_answer {
	struct source_frame frames[SOURCE_FRAMES_MAX]; /* the function, then inlined functions */
	unsigned count; /* at least 1; frames[0].function is NULL for unknown code */
	enum symbol_kind kind; /* of frames[0].function */
	bool has_start;
	uint64_t start; /* start of the function */
};

/* Looks up an ELF address. Returns 0 or -ENOMEM. */
int image_find(struct image *image, uint64_t address, enum address_kind kind,
	       struct image_answer *answer);

#endif
