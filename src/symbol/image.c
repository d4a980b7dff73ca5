/* image.c: opens the files that belong to one image, and looks addresses up in all of them. */
#include "symbol/image.h"

#include <errno.h>
#include <string.h>

#include "symbol/xz_data.h"

static void add_note(struct image *image, const char *text)
{
	strbuf_addf(&image->notes, "%s%s", image->notes.length ? "; " : "", text);
}

/* Opens MiniDebugInfo: a compressed section with a small ELF file that has a symbol table. */
static int open_mini(struct image *image)
{
	struct elf_bytes packed = elf_named_contents(&image->code, ".gnu_debugdata");
	struct error e = { 0 };
	uint8_t *bytes;
	size_t size;
	int rc;

	if (!packed.data)
		return 0;
	rc = xz_decompress(packed.data, packed.size, &bytes, &size, &e);
	if (rc == 0)
		rc = elf_file_open_owned(bytes, size, &image->mini, &e);
	if (rc < 0 && rc != -ENOMEM)
		add_note(image, e.text);
	return rc == -ENOMEM ? rc : 0;
}

static int open_debug(struct image *image, const struct image_request *r, struct error *e)
{
	struct error why = { 0 };
	int rc;

	if (image->code.bytes)
		rc = debug_file_open(r->folders, &image->code, r->path, &image->debug,
				     &image->debug_path, &why);
	else
		rc = debug_file_open_by_id(r->folders, r->build_id, &image->debug,
					   &image->debug_path, &why);
	if (rc == -ENOMEM || (rc < 0 && !image->code.bytes))
		return error_set(e, rc, "%s", rc == -ENOMEM ? "out of memory" : "no file");
	if (rc < 0 && why.code)
		add_note(image, why.text);
	return 0;
}

static bool has_symtab(const struct elf_file *f)
{
	return elf_named_contents(f, ".symtab").data != NULL;
}

static int read_tables(struct image *image, const struct elf_file *code)
{
	const struct elf_file *files[] = { &image->code, &image->debug, &image->mini };
	struct symbol_table *t = &image->symbols;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(files); i++)
		if (files[i]->bytes)
			rc = symbol_table_add(t, files[i]);
	if (rc == 0 && image->code.bytes && !has_symtab(&image->code) && !has_symtab(&image->debug))
		rc = symbol_table_add_go(t, &image->code);
	if (rc == 0 && image->code.bytes && symbol_table_needs_plt(&image->code, t->zones))
		rc = symbol_table_add_plt(t, &image->code);
	return rc == 0 ? symbol_table_finish(t, code, &image->bounds) : rc;
}

static int read_symbols(struct image *image, const struct elf_file *code,
			const struct wanted_addresses *wanted)
{
	struct code_zones zones;
	int rc = function_bounds_init(&image->bounds, code, wanted, &zones);

	if (rc == 0 && !zones.is_all && symbol_table_needs_plt(&image->code, &zones)) {
		function_bounds_release(&image->bounds);
		code_zones_release(&zones);
		rc = function_bounds_init(&image->bounds, code, NULL, &zones);
	}
	symbol_table_init(&image->symbols, &zones);
	if (rc == 0)
		rc = read_tables(image, code);
	image->symbols.zones = NULL;
	code_zones_release(&zones);
	return rc;
}

static int read_lines(struct image *image, const struct elf_file *code,
		      const struct image_request *r)
{
	bool is_own = elf_section(&image->code, ".debug_info") || !image->debug.bytes;
	const struct elf_file *debug = is_own ? &image->code : &image->debug;
	struct error e = { 0 };
	const char *alt_path;
	struct elf_bytes id;
	int rc;

	if (elf_debugaltlink(debug, &alt_path, &id)) {
		const char *from = is_own ? r->path : strbuf_text(&image->debug_path);

		rc = debug_file_open_alt(r->folders, debug, from, &image->alt, &e);
		if (rc == -ENOMEM)
			return rc;
		if (rc < 0)
			add_note(image, "the supplementary debug file is missing");
	}
	rc = lines_open(debug, code, image->alt.bytes ? &image->alt : NULL, &image->lines);
	if (rc == 0 && lines_split_units(image->lines))
		add_note(image, "split DWARF (.dwo) is not read: inlined calls are missing");
	return rc;
}

/* Closes the files: a recording can have thousands, and everything that is needed was read. */
static void detach(struct image *image)
{
	struct elf_file *files[] = { &image->code, &image->debug, &image->mini, &image->alt };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		image->read_bytes += files[i]->source ? files[i]->source->read_bytes : 0;
		elf_file_detach(files[i]);
	}
}

int image_open(struct image *image, struct elf_file *code, const struct image_request *request,
	       struct error *e)
{
	const struct elf_file *described = &image->code;
	int rc = 0;

	*image = (struct image){ .debug_path = STRBUF_INIT, .notes = STRBUF_INIT };
	if (code) {
		image->code = *code;
		*code = (struct elf_file){ 0 };
	}
	if (!has_symtab(&image->code) ||
	    (request->lines && !elf_section(&image->code, ".debug_info")))
		rc = open_debug(image, request, e);
	if (rc == 0)
		rc = open_mini(image);
	if (!image->code.bytes)
		described = &image->debug;
	if (rc == 0)
		rc = read_symbols(image, described, request->wanted);
	if (rc == 0 && request->lines)
		rc = read_lines(image, described, request);
	if (rc < 0) {
		image_release(image);
		return e && e->code ? rc : error_set(e, rc, "out of memory");
	}
	detach(image);
	return 0;
}

void image_release(struct image *image)
{
	lines_free(image->lines);
	symbol_table_release(&image->symbols);
	function_bounds_release(&image->bounds);
	elf_file_release(&image->code);
	elf_file_release(&image->debug);
	elf_file_release(&image->mini);
	elf_file_release(&image->alt);
	strbuf_release(&image->debug_path);
	strbuf_release(&image->notes);
	image->lines = NULL;
}

/*
 * Returns an address in the call before a return address: one byte before it is enough. To the
 * start of the function that ends a signal handler, the operating system's kernel returns without a
 * call; its frame description starts one byte early to mark that.
 */
static uint64_t address_of_call(const struct image *image, uint64_t address)
{
	const struct symbol *s = symbol_table_find(&image->symbols, address);
	const struct bounds *b = function_bounds_find(&image->bounds, address - 1);

	if (s && s->start == address && b && b->start == address - 1 && b->end > address &&
	    !symbol_table_find(&image->symbols, address - 1))
		return address;
	return address - 1;
}

/*
 * Returns the symbol's name; for a clone that a compiler made of a function ("f.part.0"), the
 * function's name, if DWARF has it.
 */
static const char *name_of(const struct symbol *s, const char *function)
{
	size_t length = function ? strlen(function) : 0;

	return length && strncmp(s->name, function, length) == 0 && s->name[length] == '.'
		       ? function
		       : s->name;
}

int image_find(struct image *image, uint64_t address, enum address_kind kind,
	       struct image_answer *answer)
{
	const struct bounds *bounds;
	const struct symbol *symbol;
	int count = 0;

	if (kind == ADDRESS_RETURN && address)
		address = address_of_call(image, address);
	symbol = symbol_table_find(&image->symbols, address);
	bounds = function_bounds_find(&image->bounds, address);
	if (image->lines) {
		count = lines_find(image->lines, address, answer->frames);
		if (count < 0)
			return count;
	}
	if (count == 0)
		answer->frames[count++] = (struct source_frame){ NULL, NULL, 0 };
	answer->count = (unsigned)count;
	answer->kind = symbol ? (enum symbol_kind)symbol->kind : SYMBOL_FUNCTION;
	answer->has_start = symbol || bounds;
	answer->start = symbol ? symbol->start : bounds ? bounds->start : 0;
	if (symbol)
		answer->frames[0].function = name_of(symbol, answer->frames[0].function);
	/* Padding after a function has a line in some tables, but is no code. */
	if (!symbol && !bounds && !answer->frames[0].function)
		answer->frames[0] = (struct source_frame){ NULL, NULL, 0 };
	return 0;
}
