/*
 * compiled_fixture.h: programs that a test compiles in a folder of its own, with functions and
 * lines that it knows, and what binutils say of them.
 */
#ifndef PITOT_TESTS_COMPILED_FIXTURE_H
#define PITOT_TESTS_COMPILED_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/io.h"
#include "symbol/image.h"

static char folder[64]; /* of the test that runs */

static inline int fixture_setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/pitot-symbol-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

/* Runs a command line in the folder. */
static inline int try_shell(const char *format, ...) PRINTF_LIKE(1, 2);
static inline int try_shell(const char *format, ...)
{
	char line[4096];
	int used = snprintf(line, sizeof(line), "cd '%s' && ", folder);
	va_list args;

	va_start(args, format);
	vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
	va_end(args);
	return system(line);
}

#define shell(...)                                                                                 \
	do {                                                                                       \
		if (try_shell(__VA_ARGS__) != 0)                                                   \
			fail_msg("this command failed: " __VA_ARGS__);                             \
	} while (0)

/* Files stay mapped that nobody has released: no sanitizer notices that. */
static inline bool is_mapped(const char *path)
{
	_cleanup_strbuf_ struct strbuf maps = STRBUF_INIT;

	return io_read_file("/proc/self/maps", (size_t)1 << 30, &maps) < 0 ||
	       strstr(strbuf_text(&maps), path);
}

static inline int fixture_teardown(void **state)
{
	(void)state;
	if (is_mapped(folder))
		return -1;
	return try_shell("rm -rf '%s'", folder);
}

#define compiled_test(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

static inline bool have_tool(const char *name)
{
	return try_shell("command -v %s >/dev/null", name) == 0;
}

/* "folder/name" in one of a few static buffers. */
static inline const char *in_folder(const char *name)
{
	static char paths[8][512];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static inline void write_file(const char *name, const char *text, size_t length)
{
	FILE *f = fopen(in_folder(name), "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, length, f), length);
	assert_int_equal(fclose(f), 0);
}

static inline void read_file(const char *name, struct strbuf *out)
{
	assert_int_equal(io_read_file(in_folder(name), (size_t)1 << 30, out), 0);
}

/* What nm says of a symbol, whose size may be 0. */
static inline uint64_t nm_symbol(const char *file, const char *symbol, uint64_t *size)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char *line;

	shell("nm -S '%s' | awk '$NF == \"%s\" { print $1, (NF > 3 ? $2 : 0); exit }' > nm.out",
	      file, symbol);
	read_file("nm.out", &text);
	if (!text.length)
		fail_msg("nm knows no %s in %s", symbol, file);
	if (size)
		*size = strtoull(strchr(strbuf_text(&text), ' '), NULL, 16);
	line = text.data;
	return strtoull(line, NULL, 16);
}

static inline uint64_t nm_address(const char *file, const char *symbol)
{
	return nm_symbol(file, symbol, NULL);
}

/*
 * What is known of a file, near the wanted addresses (NULL: any); debug files are looked for in
 * folder/debug.
 */
static inline void open_image_near(const char *path, const struct wanted_addresses *wanted,
				   struct image *image)
{
	static char debug[128];
	const char *folders[] = { debug };
	struct debug_folders d = { .folders = folders, .count = 1, .root = "" };
	struct image_request request = {
		.path = path, .build_id = "", .folders = &d, .lines = true, .wanted = wanted
	};
	struct elf_file elf;
	struct error e = { 0 };

	snprintf(debug, sizeof(debug), "%s/debug", folder);
	if (elf_file_open(path, &elf, &e) < 0)
		fail_msg("%s", e.text);
	if (image_open(image, &elf, &request, &e) < 0)
		fail_msg("%s", e.text);
}

static inline void open_image(const char *file, struct image *image)
{
	open_image_near(in_folder(file), NULL, image);
}

/* The name at an address, or "-". */
static inline const char *name_at(struct image *image, uint64_t address)
{
	static struct image_answer answer;

	assert_int_equal(image_find(image, address, ADDRESS_INSTRUCTION, &answer), 0);
	return answer.frames[0].function ? answer.frames[0].function : "-";
}

static inline void assert_name(struct image *image, uint64_t address, const char *name)
{
	assert_string_equal(name_at(image, address), name);
}

/*
 * Functions with known lines. mark_inner is an instruction of inner(), inlined into middle(),
 * inlined into outer(). Nothing else but its own code is in plain().
 */
static const char known_source[] =
	"static volatile int sink;\n" /* 1 */
	"static inline __attribute__((always_inline)) void inner(void)\n" /* 2 */
	"{\n" /* 3 */
	"	__asm__ volatile(\".globl mark_inner\\nmark_inner:\\n\\tnop\");\n" /* 4 */
	"	sink++;\n" /* 5 */
	"}\n" /* 6 */
	"static inline __attribute__((always_inline)) void middle(void)\n" /* 7 */
	"{\n" /* 8 */
	"	sink++;\n" /* 9 */
	"	inner();\n" /* 10 */
	"}\n" /* 11 */
	"__attribute__((noinline)) void outer(void)\n" /* 12 */
	"{\n" /* 13 */
	"	sink++;\n" /* 14 */
	"	middle();\n" /* 15 */
	"	sink++;\n" /* 16 */
	"}\n" /* 17 */
	"static __attribute__((noinline, used)) int plain(int x)\n" /* 18 */
	"{\n" /* 19 */
	"	return x + sink;\n" /* 20 */
	"}\n" /* 21 */
	"int puts(const char *);\n" /* 22 */
	"int main(void)\n" /* 23 */
	"{\n" /* 24 */
	"	outer();\n" /* 25 */
	"	return puts(\"x\") + plain(1);\n" /* 26 */
	"}\n"; /* 27 */

static inline void write_known_source(void)
{
	write_file("known.c", known_source, strlen(known_source));
}

#endif
