/*
 * Which files are CPython interpreters, by synthetic ELF files: whole, cut at every byte, with
 * every byte changed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sampler/python/sampled_python_file.h"

#define SYMBOLS_MAX 16u

#define FILTER_WORDS 5u

/* Sections: none, .dynsym, .dynstr, .symtab, .strtab; .gnu.hash if there is one. */
struct image {
	Elf64_Ehdr head;
	Elf64_Shdr sections[6];
	uint32_t hash[4];
	uint64_t filter[FILTER_WORDS];
	Elf64_Sym dynamic[SYMBOLS_MAX], all[SYMBOLS_MAX];
	char dynamic_names[512], all_names[512];
	size_t dynamic_used, all_used;
};

static void add(Elf64_Sym *symbols, char *names, size_t *used, uint64_t value, uint64_t size,
		const char *name)
{
	unsigned i = 1;

	while (symbols[i].st_name)
		i++;
	assert_true(i < SYMBOLS_MAX);
	symbols[i] =
		(Elf64_Sym){ .st_name = (uint32_t)*used,
			     .st_info = ELF64_ST_INFO(STB_GLOBAL, size ? STT_FUNC : STT_OBJECT),
			     .st_shndx = 1,
			     .st_value = value,
			     .st_size = size };
	memcpy(names + *used, name, strlen(name) + 1);
	*used += strlen(name) + 1;
}

static void add_table(struct image *m, unsigned section, uint32_t type, const void *symbols,
		      const void *names, size_t names_size)
{
	m->sections[section] =
		(Elf64_Shdr){ .sh_type = type,
			      .sh_offset = (uint64_t)((const char *)symbols - (char *)m),
			      .sh_size = sizeof(m->all),
			      .sh_link = section + 1 };
	m->sections[section + 1] =
		(Elf64_Shdr){ .sh_type = SHT_STRTAB,
			      .sh_offset = (uint64_t)((const char *)names - (char *)m),
			      .sh_size = names_size };
}

static void make(struct image *m, bool is_python)
{
	memset(m, 0, sizeof(*m));
	memcpy(m->head.e_ident, ELFMAG, SELFMAG);
	m->head.e_ident[EI_CLASS] = ELFCLASS64;
	m->head.e_ident[EI_DATA] = ELFDATA2LSB;
	m->head.e_shoff = offsetof(struct image, sections);
	m->head.e_shnum = 5;
	m->head.e_shentsize = sizeof(Elf64_Shdr);
	m->dynamic_used = m->all_used = 1;
	if (is_python)
		add(m->dynamic, m->dynamic_names, &m->dynamic_used, 0x9200, 0, "PyCode_Type");
	add(m->dynamic, m->dynamic_names, &m->dynamic_used, 0x9000, 0, "_PyRuntime");
	add(m->dynamic, m->dynamic_names, &m->dynamic_used, 0x9100, 0, "Py_Version");
	add(m->dynamic, m->dynamic_names, &m->dynamic_used, 0x9300, 0, "PyUnicode_Type");
	add(m->dynamic, m->dynamic_names, &m->dynamic_used, 0x4000, 0x500,
	    "_PyEval_EvalFrameDefault");
	add(m->dynamic, m->dynamic_names, &m->dynamic_used, 0x8000, 0x10, "PyFrame_GetBack");
	add(m->all, m->all_names, &m->all_used, 0x2000, 0x80, "_PyEval_EvalFrameDefault.cold");
	add(m->all, m->all_names, &m->all_used, 0x4000, 0x500, "_PyEval_EvalFrameDefault");
	add(m->all, m->all_names, &m->all_used, 0x6000, 0x80, "_PyEval_EvalFrameDefaultish");
	add_table(m, 1, SHT_DYNSYM, m->dynamic, m->dynamic_names, m->dynamic_used);
	add_table(m, 3, SHT_SYMTAB, m->all, m->all_names, m->all_used);
}

static int find_or_add_file(const void *bytes, size_t size)
{
	int fd = memfd_create("python", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	return fd;
}

static int read_image(const struct image *m, size_t size, struct sampled_python_file *out)
{
	int fd = find_or_add_file(m, size), r = sampled_python_file_read(fd, out);

	close(fd);
	return r;
}

static void test_interpreter(void **state)
{
	static struct sampled_python_file file;
	static struct image m;

	(void)state;
	make(&m, true);
	assert_int_equal(read_image(&m, sizeof(m), &file), 0);
	assert_int_equal(file.symbols[PYTHON_RUNTIME], 0x9000);
	assert_int_equal(file.symbols[PYTHON_VERSION], 0x9100);
	assert_int_equal(file.symbols[PYTHON_CODE_TYPE], 0x9200);
	assert_int_equal(file.symbols[PYTHON_STRING_TYPE], 0x9300);
	assert_int_equal(file.symbols[PYTHON_GET_BACK], 0x8000);
	assert_int_equal(file.symbols[PYTHON_NEW_REF], 0);
	/* In order; not the function whose name only begins the same. */
	assert_int_equal(file.eval.count, 2);
	assert_int_equal(file.eval.ranges[0].start, 0x2000);
	assert_int_equal(file.eval.ranges[0].end, 0x2080);
	assert_int_equal(file.eval.ranges[1].start, 0x4000);
	assert_int_equal(file.eval.ranges[1].end, 0x4500);
}

static void test_other_program(void **state)
{
	static struct sampled_python_file file;
	static struct image m;

	(void)state;
	make(&m, false);
	assert_int_equal(read_image(&m, sizeof(m), &file), -ENOENT);
	m.head.e_shnum = 0;
	assert_int_equal(read_image(&m, sizeof(m), &file), E_FORMAT);
	assert_int_equal(read_image((const void *)"", 0, &file), E_FORMAT);
}

/* The hash of PyCode_Type is 0x72bde1ca: word 0 of five, bits 10 and, shifted by six, 7. */
static void test_filter_of_the_hash_table(void **state)
{
	static const uint64_t none[] = { 0, UINT64_C(1) << 10, UINT64_C(1) << 7,
					 ~(UINT64_C(1) << 10), ~(UINT64_C(1) << 7) };
	static struct sampled_python_file file;
	static struct image m;

	(void)state;
	make(&m, true);
	m.head.e_shnum = 6;
	m.sections[5] = (Elf64_Shdr){ .sh_type = SHT_GNU_HASH,
				      .sh_offset = offsetof(struct image, hash),
				      .sh_size = sizeof(m.hash) + sizeof(m.filter) };
	m.hash[2] = FILTER_WORDS;
	m.hash[3] = 6;
	m.filter[0] = UINT64_C(1) << 10 | UINT64_C(1) << 7;
	assert_int_equal(read_image(&m, sizeof(m), &file), 0);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		m.filter[0] = none[i];
		assert_int_equal(read_image(&m, sizeof(m), &file), -ENOENT);
	}
	/* One that makes no sense tells nothing: here the word is behind its end. */
	m.filter[0] = 0;
	m.sections[5].sh_size = sizeof(m.hash);
	assert_int_equal(read_image(&m, sizeof(m), &file), 0);
	m.hash[2] = 0;
	assert_int_equal(read_image(&m, sizeof(m), &file), 0);
	m.hash[2] = UINT32_MAX;
	m.sections[5].sh_offset = sizeof(m);
	assert_int_equal(read_image(&m, sizeof(m), &file), 0);
}

/* Of a large filter one word is read: of 8192 the one at 0x1787. */
static void test_large_filter(void **state)
{
	static const uint32_t hash[4] = { 0, 0, 8192, 6 };
	static struct sampled_python_file file;
	static struct image m;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t word = i ? UINT64_C(1) << 10 | UINT64_C(1) << 7 : 0;
		int fd;

		make(&m, true);
		m.head.e_shnum = 6;
		m.sections[5] = (Elf64_Shdr){ .sh_type = SHT_GNU_HASH,
					      .sh_offset = 1 << 20,
					      .sh_size = sizeof(hash) + 8192 * sizeof(word) };
		fd = find_or_add_file(&m, sizeof(m));
		assert_int_equal(ftruncate(fd, 2 << 20), 0);
		assert_int_equal(pwrite(fd, hash, sizeof(hash), 1 << 20), sizeof(hash));
		assert_int_equal(pwrite(fd, &word, sizeof(word),
					(1 << 20) + (off_t)sizeof(hash) + 8 * 0x1787),
				 sizeof(word));
		assert_int_equal(sampled_python_file_read(fd, &file), i ? 0 : -ENOENT);
		close(fd);
	}
}

/* Whatever is in the file: an answer, and no access outside of what was read. */
static void test_damage(void **state)
{
	static struct sampled_python_file file;
	static struct image m;
	size_t refused = 0;

	(void)state;
	make(&m, true);
	for (size_t size = 0; size < offsetof(struct image, all_names) + m.all_used; size += 3)
		assert_true(read_image(&m, size, &file) < 0);
	for (size_t at = 0; at < offsetof(struct image, dynamic_used); at++) {
		((uint8_t *)&m)[at] ^= 0xff;
		refused += read_image(&m, sizeof(m), &file) < 0;
		((uint8_t *)&m)[at] ^= 0xff;
	}
	assert_true(refused > 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interpreter),
		cmocka_unit_test(test_other_program),
		cmocka_unit_test(test_filter_of_the_hash_table),
		cmocka_unit_test(test_large_filter),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
