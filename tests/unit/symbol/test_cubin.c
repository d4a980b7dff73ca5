/*
 * Lines of device code that NVIDIA's compiler made (tests/fuzz/seeds_cubin has the sources), whole,
 * cut and changed.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "failing_alloc.h"
#include "symbol/cubin.h"

#define SMOOTH "_Z6smoothPfPKfi"
#define SCALE "_Z5scaleIfEvPT_i"
#define GATHER "_Z6gatherPKfi"

static struct source_frame frames[SOURCE_FRAMES_MAX];

struct contents {
	uint8_t *bytes;
	size_t size;
};

static const char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", CUBINS, name);
	return path;
}

static struct contents load(const char *name)
{
	FILE *f = fopen(path_of(name), "rb");
	struct contents c = { .bytes = malloc(1 << 16) };

	assert_non_null(f);
	assert_non_null(c.bytes);
	c.size = fread(c.bytes, 1, 1 << 16, f);
	assert_in_range(c.size, 1000, (1 << 16) - 1);
	fclose(f);
	return c;
}

static int open_bytes(const void *bytes, size_t size, struct cubin **out)
{
	struct elf_file f;
	int r = elf_file_open_bytes(bytes, size, &f, NULL);

	return r < 0 ? r : cubin_open(&f, out, NULL);
}

static struct cubin *open_named(const char *name)
{
	struct error e = { 0 };
	struct elf_file f;
	struct cubin *c;

	if (elf_file_open(path_of(name), &f, &e) < 0 || cubin_open(&f, &c, &e) < 0)
		fail_msg("%s", e.text);
	return c;
}

static struct cubin_function function(const struct cubin *c, const char *name)
{
	struct cubin_function f;

	assert_true(cubin_find_function(c, name, &f));
	return f;
}

static void assert_frame(const struct source_frame *f, const char *name, const char *file,
			 uint32_t line)
{
	assert_non_null(f->function);
	assert_non_null(strstr(f->function, name));
	assert_non_null(f->file);
	assert_string_equal(f->file, file);
	assert_int_equal(f->line, line);
}

/*
 * Where the code of each call of twice() is, by the line of polynomial() that calls it: bits 8
 * and 9.
 */
static unsigned check_function(struct cubin *c, const char *name, const char *file)
{
	struct cubin_function f = function(c, name);
	unsigned lines = 0;

	for (uint64_t at = 0; at < 0x400; at += 16) {
		int count = cubin_find_frames(c, &f, at, frames);

		assert_in_range(count, 0, 3);
		if (count != 3)
			continue;
		assert_frame(&frames[0], SMOOTH, file, 16);
		assert_non_null(strstr(frames[1].function, "polynomial"));
		assert_frame(&frames[2], "twice", "/src/math.h", 3);
		assert_string_equal(frames[1].file, "/src/math.h");
		lines |= 1u << frames[1].line;
	}
	return lines;
}

/* By every form that relocations and sections have. */
static void lines_and_inlined_calls(void **state)
{
	static const char *const names[] = { "lineinfo", "rel", "blackwell", "relocatable",
					     "linked" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct cubin *c = open_named(names[i]);
		struct cubin_function scale = function(c, SCALE);

		assert_int_equal(check_function(c, SMOOTH, "/src/kernel.cu"), 1u << 8 | 1u << 9);
		assert_int_equal(cubin_find_frames(c, &scale, 0, frames), 1);
		assert_frame(&frames[0], SCALE, "/src/kernel.cu", 19);
		cubin_free(c);
	}
}

static void python_is_the_source(void **state)
{
	struct cubin *c = open_named("python");

	(void)state;
	assert_int_equal(check_function(c, SMOOTH, "/src/softmax.py"), 1u << 8 | 1u << 9);
	cubin_free(c);
}

/* A device function that one kernel calls is in the kernel's section, behind it. */
static void device_functions(void **state)
{
	struct cubin *c = open_named("lineinfo");
	struct cubin_function smooth = function(c, SMOOTH), own = function(c, GATHER),
			      whole = function(c, "$" SMOOTH "$" GATHER);

	(void)state;
	assert_int_equal(own.section, smooth.section);
	assert_int_equal(own.start, 0x190);
	assert_int_equal(own.section, whole.section);
	assert_int_equal(own.start, whole.start);
	assert_string_equal(cubin_kernel(c, &own), SMOOTH);
	assert_int_equal(cubin_find_frames(c, &smooth, 0x190, frames), 1);
	assert_frame(&frames[0], GATHER, "/src/kernel.cu", 7);
	assert_int_equal(cubin_find_frames(c, &own, 0, frames), 1);
	assert_frame(&frames[0], GATHER, "/src/kernel.cu", 7);
	assert_int_equal(cubin_find_frames(c, &smooth, 0x180, frames), 1);
	assert_frame(&frames[0], SMOOTH, "/src/kernel.cu", 17);
	/* Behind all code, and behind all numbers. */
	assert_int_equal(cubin_find_frames(c, &smooth, 0x380, frames), 0);
	assert_int_equal(cubin_find_frames(c, &smooth, UINT64_MAX, frames), 0);
	assert_false(cubin_find_function(c, "gather", &own));
	assert_false(cubin_find_function(c, "", &own));
	cubin_free(c);
	c = open_named("relocatable"); /* its own section here */
	own = function(c, GATHER);
	assert_string_equal(cubin_kernel(c, &own), GATHER);
	cubin_free(c);
}

/*
 * The compiler's times and sizes of source files, which it left out here: put in as its LEB128 of
 * one byte.
 */
static void set_source(struct contents *c, const char *name, uint8_t time_s, uint8_t size_bytes)
{
	uint8_t *at = memmem(c->bytes, c->size, name, strlen(name) + 1);

	assert_non_null(at);
	at += strlen(name) + 1;
	assert_memory_equal(at, "\1\0\0", 3);
	at[1] = time_s;
	at[2] = size_bytes;
}

static void assert_source(struct cubin *c, const char *path, uint64_t time_s, uint64_t size_bytes)
{
	uint64_t time, size;

	cubin_source(c, path, &time, &size);
	assert_int_equal(time, time_s);
	assert_int_equal(size, size_bytes);
}

static void times_of_sources(void **state)
{
	struct contents bytes = load("lineinfo");
	struct cubin *c;

	(void)state;
	set_source(&bytes, "kernel.cu", 7, 8);
	set_source(&bytes, "math.h", 9, 10);
	assert_int_equal(open_bytes(bytes.bytes, bytes.size, &c), 0);
	assert_source(c, "/src/kernel.cu", 7, 8);
	assert_source(c, "/src/math.h", 9, 10);
	assert_source(c, "/src/none.h", 0, 0);
	cubin_free(c);
	free(bytes.bytes);
}

static void without_lines(void **state)
{
	struct cubin *c = open_named("plain");
	struct cubin_function f = function(c, SMOOTH);

	(void)state;
	assert_int_equal(cubin_find_frames(c, &f, 0, frames), 1);
	assert_string_equal(frames[0].function, SMOOTH);
	assert_null(frames[0].file);
	assert_int_equal(frames[0].line, 0);
	cubin_free(c);
}

/*
 * What is added to a relocation's symbol, beside it or in its place: all lines are that much later.
 */
static void addends(void **state)
{
	static const char *const names[] = { "lineinfo", "rel" };
	static const char *const sections[] = { ".rela.debug_line", ".rel.debug_line" };

	(void)state;
	for (size_t n = 0; n < 2; n++) {
		struct contents c = load(names[n]);
		struct cubin_function f;
		struct cubin *cubin;
		struct elf_file file;
		const struct elf_section *s, *lines;

		assert_int_equal(elf_file_open_bytes(c.bytes, c.size, &file, NULL), 0);
		s = elf_section(&file, sections[n]);
		lines = elf_section(&file, ".debug_line");
		assert_non_null(s);
		for (uint64_t at = s->offset; at < s->offset + s->size; at += n ? 16 : 24)
			store_u64(c.bytes + (n ? lines->offset + load_u64(c.bytes + at) : at + 16),
				  0x40);
		assert_int_equal(cubin_open(&file, &cubin, NULL), 0);
		f = function(cubin, SMOOTH);
		assert_int_equal(cubin_find_frames(cubin, &f, 0x30, frames), 1);
		assert_null(frames[0].file);
		assert_int_equal(cubin_find_frames(cubin, &f, 0x40, frames), 1);
		assert_frame(&frames[0], SMOOTH, "/src/kernel.cu", 12);
		assert_int_equal(cubin_find_frames(cubin, &f, 0x50, frames), 1);
		assert_frame(&frames[0], SMOOTH, "/src/kernel.cu", 14);
		cubin_free(cubin);
		free(c.bytes);
	}
}

static void no_device_code(void **state)
{
	struct contents c = load("lineinfo");
	struct cubin *cubin;

	(void)state;
	store_u16(c.bytes + offsetof(Elf64_Ehdr, e_machine), EM_X86_64);
	assert_int_equal(open_bytes(c.bytes, c.size, &cubin), E_FORMAT);
	free(c.bytes);
}

/* Less is known, but nothing else. */
static unsigned check_damaged(const uint8_t *bytes, size_t size, bool is_cut)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct cubin_function f;
	struct cubin *cubin;
	unsigned known = 0;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	if (open_bytes(copy, size, &cubin) == 0) {
		bool found = cubin_find_function(cubin, SMOOTH, &f);

		for (uint64_t at = 0; found && at < 0x200; at += 32) {
			int count = cubin_find_frames(cubin, &f, at, frames);

			assert_in_range(count, 0, SOURCE_FRAMES_MAX);
			for (int i = 0; is_cut && i < count; i++)
				if (frames[i].file)
					assert_true(!strncmp(frames[i].file, "/src/", 5));
			known += count && frames[0].file;
		}
		cubin_free(cubin);
	}
	free(copy);
	return known;
}

static void cut_anywhere(void **state)
{
	struct contents c = load("lineinfo");
	unsigned known = 0;

	(void)state;
	/* NVIDIA's tools put the headers of sections behind all contents: cut, there are none. */
	for (size_t size = 0; size <= c.size; size++)
		known += check_damaged(c.bytes, size, true);
	assert_true(known >= 10);
	free(c.bytes);
}

static void any_byte(void **state)
{
	static const uint8_t patterns[] = { 0x01, 0x80, 0xff };
	static const char *const names[] = { "lineinfo", "rel" };

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		struct contents c = load(names[n]);
		unsigned known = 0;

		for (size_t i = 0; i < c.size; i++)
			for (size_t k = 0; k < ARRAY_SIZE(patterns); k++) {
				c.bytes[i] ^= patterns[k];
				known += check_damaged(c.bytes, c.size, false) > 0;
				c.bytes[i] ^= patterns[k];
			}
		assert_true(known > c.size * 2);
		free(c.bytes);
	}
}

/* Relocations have no place in lines that end before it, of whatever length these are. */
static void short_lines(void **state)
{
	struct contents bytes = load("lineinfo");
	Elf64_Ehdr *header = (void *)bytes.bytes;
	Elf64_Shdr *sections = (void *)(bytes.bytes + header->e_shoff);
	const char *names = (char *)bytes.bytes + sections[header->e_shstrndx].sh_offset;
	unsigned lengths = 0;

	(void)state;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		uint64_t whole = sections[i].sh_size;

		if (strcmp(names + sections[i].sh_name, ".debug_line") != 0)
			continue;
		for (sections[i].sh_size = 0; sections[i].sh_size < whole;
		     sections[i].sh_size++, lengths++)
			assert_int_equal(check_damaged(bytes.bytes, bytes.size, true), 0);
	}
	assert_true(lengths > 100);
	free(bytes.bytes);
}

static void no_memory(void **state)
{
	struct contents bytes = load("lineinfo");
	unsigned failures = 0;

	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct cubin_function f;
		struct cubin *c;

		if (open_bytes(bytes.bytes, bytes.size, &c) < 0) {
			failures++;
			continue;
		}
		assert_true(cubin_find_function(c, SMOOTH, &f));
		assert_true(cubin_find_frames(c, &f, 0, frames) <= 1);
		cubin_free(c);
	}
	assert_true(failures * FAILURE_STEP > 5);
	free(bytes.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_and_inlined_calls),
		cmocka_unit_test(python_is_the_source),
		cmocka_unit_test(device_functions),
		cmocka_unit_test(times_of_sources),
		cmocka_unit_test(without_lines),
		cmocka_unit_test(addends),
		cmocka_unit_test(no_device_code),
		cmocka_unit_test(cut_anywhere),
		cmocka_unit_test(any_byte),
		cmocka_unit_test(short_lines),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
