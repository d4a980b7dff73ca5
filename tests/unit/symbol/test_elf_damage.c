/* Files that end anywhere, bytes that are anything, memory that runs out. */
#include <elf.h>

#include "compiled_fixture.h"

#include <errno.h>

#include "failing_alloc.h"

static const char small_source[] =
	"static volatile int sink;\n"
	"static inline __attribute__((always_inline)) void inner(void) { sink++; }\n"
	"__attribute__((noinline)) void outer(void) { inner(); sink++; }\n"
	"void _start(void) { outer(); for (;;); }\n";

#define SMALL "-O2 -nostdlib -static -Wl,-z,noseparate-code -Wl,-z,max-page-size=16"

#define WANTED 64

static void fill_wanted(uint64_t *addresses, uint64_t first)
{
	for (unsigned i = 0; i < WANTED; i++)
		addresses[i] = first - 1 + i;
}

/*
 * Opens a copy of exactly this size, so that a sanitizer sees a read past its end. -1: no ELF file.
 */
static int open_copy(const char *bytes, size_t size, const struct wanted_addresses *wanted,
		     struct image *image, uint8_t **copy)
{
	static const struct debug_folders none = { .root = "" };
	const struct image_request request = { .path = "/nonexistent/file",
					       .build_id = "",
					       .folders = &none,
					       .lines = true,
					       .wanted = wanted };
	struct elf_file f;
	int r;

	*copy = malloc(size ? size : 1);
	if (!*copy)
		return -ENOMEM;
	memcpy(*copy, bytes, size);
	r = elf_file_open_bytes(*copy, size, &f, NULL);
	if (r == 0)
		r = image_open(image, &f, &request, NULL);
	if (r < 0)
		free(*copy);
	return r;
}

static void cut_anywhere(void **state)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	uint64_t outer, size, all[WANTED];
	const struct wanted_addresses wanted = { all, WANTED };
	unsigned opened = 0, named = 0;

	(void)state;
	write_file("small.c", small_source, strlen(small_source));
	shell("cc %s -gdwarf-5 -o small small.c", SMALL);
	read_file("small", &bytes);
	outer = nm_symbol("small", "outer", &size);
	fill_wanted(all, outer);
	for (size_t length = 0; length <= bytes.length; length++) {
		struct image_answer answer;
		struct image image;
		uint8_t *copy;

		if (open_copy(bytes.data, length, length % 2 ? &wanted : NULL, &image, &copy) < 0)
			continue;
		opened++;
		assert_true(size < WANTED);
		for (uint64_t a = outer; a < outer + size; a++) {
			assert_int_equal(image_find(&image, a, ADDRESS_INSTRUCTION, &answer), 0);
			/* Less is known, but nothing else. */
			for (unsigned i = 0; i < answer.count; i++)
				if (answer.frames[i].function)
					assert_string_equal(answer.frames[i].function,
							    i ? "inner" : "outer");
			if (answer.has_start)
				assert_int_equal(answer.start, outer);
		}
		named += answer.frames[0].function != NULL;
		image_release(&image);
		free(copy);
	}
	assert_true(opened > bytes.length / 2);
	assert_true(named > 0);
}

static void any_byte(void **state)
{
	static const uint8_t patterns[] = { 0x01, 0x80, 0xff };
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	uint64_t outer, all[WANTED];
	const struct wanted_addresses wanted = { all, WANTED };

	(void)state;
	write_file("small.c", small_source, strlen(small_source));
	shell("cc %s -gdwarf-4 -o small small.c", SMALL);
	read_file("small", &bytes);
	outer = nm_address("small", "outer");
	fill_wanted(all, outer);
	for (size_t i = 0; i < bytes.length; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(patterns); k++) {
			struct image_answer answer;
			struct image image;
			uint8_t *copy;

			bytes.data[i] = (char)(bytes.data[i] ^ patterns[k]);
			if (open_copy(bytes.data, bytes.length, i % 2 ? &wanted : NULL, &image,
				      &copy) == 0) {
				for (uint64_t a = 0; a < 32; a++)
					assert_int_equal(image_find(&image, outer + a,
								    ADDRESS_RETURN, &answer),
							 0);
				image_release(&image);
				free(copy);
			}
			bytes.data[i] = (char)(bytes.data[i] ^ patterns[k]);
		}
	}
}

static void not_elf(void **state)
{
	struct error e = { 0 };
	struct elf_file f;

	(void)state;
	write_file("text", "no program\n", 11);
	assert_int_equal(elf_file_open(in_folder("text"), &f, &e), E_FORMAT);
	assert_non_null(strstr(e.text, "text"));
	write_file("empty", "", 0);
	assert_int_equal(elf_file_open(in_folder("empty"), &f, &e), E_FORMAT);
	assert_int_equal(elf_file_open(in_folder("missing"), &f, &e), -ENOENT);
	assert_int_equal(elf_file_open(folder, &f, &e), E_FORMAT);
	shell("mkfifo pipe");
	assert_int_equal(elf_file_open(in_folder("pipe"), &f, &e), E_FORMAT);
	write_file("old", "\177ELF\1\1\1\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(elf_file_open(in_folder("old"), &f, &e), E_UNSUPPORTED);
}

static void no_memory(void **state)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	uint64_t outer, all[WANTED];
	const struct wanted_addresses wanted = { all, WANTED };
	unsigned failures = 0;

	(void)state;
	write_file("small.c", small_source, strlen(small_source));
	shell("cc %s -gdwarf-5 -gz -o small small.c", SMALL);
	read_file("small", &bytes);
	outer = nm_address("small", "outer");
	fill_wanted(all, outer);
	FOR_EACH_FAILURE(n)
	{
		struct image_answer answer;
		struct image image;
		uint8_t *copy;

		if (open_copy(bytes.data, bytes.length, n % 2 ? &wanted : NULL, &image, &copy) <
		    0) {
			failures++;
			continue;
		}
		failures += image_find(&image, outer, ADDRESS_INSTRUCTION, &answer) == -ENOMEM;
		/* With memory again it works, if only with what was read. */
		failing_alloc_left = -1;
		assert_int_equal(image_find(&image, outer, ADDRESS_INSTRUCTION, &answer), 0);
		image_release(&image);
		free(copy);
	}
	assert_true(failures * FAILURE_STEP > 5);
}

/* A section that decompresses to more or fewer bytes than its header says has no contents. */
static void compressed_to_another_size(void **state)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;

	(void)state;
	write_file("small.c", small_source, strlen(small_source));
	shell("cc %s -gdwarf-5 -gz=zlib -o packed small.c", SMALL);
	read_file("packed", &bytes);
	for (int change = -1; change <= 1; change++) {
		struct elf_section *s;
		struct elf_bytes plain;
		struct elf_file f;
		Elf64_Chdr header;
		char *at;

		assert_int_equal(elf_file_open_bytes(bytes.data, bytes.length, &f, NULL), 0);
		s = elf_section(&f, ".debug_info");
		assert_non_null(s);
		assert_true(s->flags & SHF_COMPRESSED);
		at = bytes.data + s->offset;
		memcpy(&header, at, sizeof(header));
		header.ch_size += (uint64_t)(int64_t)change;
		memcpy(at, &header, sizeof(header));
		plain = elf_contents(&f, s);
		assert_int_equal(plain.data != NULL, change == 0);
		assert_int_equal(plain.size, change == 0 ? header.ch_size : 0);
		elf_file_release(&f);
		header.ch_size -= (uint64_t)(int64_t)change;
		memcpy(at, &header, sizeof(header));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(cut_anywhere),
		compiled_test(any_byte),
		compiled_test(not_elf),
		compiled_test(no_memory),
		compiled_test(compressed_to_another_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
