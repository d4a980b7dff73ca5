/* The symbols of loaded libraries. Import slots are tested with clients of CUPTI. */
#include "elf/import_slots.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "elf/loaded_libraries.h"
#include "support/cmocka_tests.h"

#define TABLE 4096u
#define SYMBOLS 1024u
#define STRINGS 3072u

/* Not those of which the loader chooses one of several. */
static const char *const names[] = {
	"qsort",    "environ",     "pthread_create",
	"dlopen",   "printf",      "getenv",
	"stdout",   "fopen",       "abort",
	"strerror", "tmpfile",     "sigaction",
	"timezone", "optarg",      "ftw",
	"execve",   "posix_spawn", "__libc_start_main",
};
static const char *const absent[] = { "", "qsor", "qsortt", "no such name", "main_of_the_test" };

struct found {
	uintptr_t names[ARRAY_SIZE(names)];
	unsigned absent;
};

static int look(struct dl_phdr_info *info, size_t size, void *user)
{
	struct loaded_library library;
	struct found *found = user;

	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	assert_true(loaded_library_read(info, &library));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const ElfW(Sym) *symbol = loaded_library_symbol(&library, names[i]);

		found->names[i] = symbol ? library.base + symbol->st_value : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		found->absent += !loaded_library_symbol(&library, absent[i]);
	return 1;
}

static void test_what_dlsym_says(void **state)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	struct found found = { .absent = 0 };

	(void)state;
	assert_non_null(libc);
	assert_int_equal(loaded_libraries_visit(look, &found), 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_non_null(dlsym(libc, names[i]));
		assert_int_equal(found.names[i], dlsym(libc, names[i]));
	}
	assert_int_equal(found.absent, ARRAY_SIZE(absent));
	dlclose(libc);
}

/* A library whose tables are these bytes. */
static struct loaded_library library_of(char *bytes, ElfW(Phdr) * segment)
{
	*segment = (ElfW(Phdr)){ .p_type = PT_LOAD, .p_memsz = TABLE };
	return (struct loaded_library){ .base = (uintptr_t)bytes,
					.segments = segment,
					.segment_count = 1,
					.symbols = (const ElfW(Sym) *)(bytes + SYMBOLS),
					.strings = bytes + STRINGS,
					.strings_size = TABLE - STRINGS,
					.hashes = (const uint32_t *)bytes };
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;

	while (*name)
		hash = 33 * hash + (unsigned char)*name++;
	return hash;
}

/* One bucket of three symbols, of which the first is only imported. */
static void make_library(char *bytes)
{
	static const char *const in_it[] = { "a", "b", "a" };
	uint32_t table[] = { 1, 1, 0, 0, 1, 0, 0, 0 };
	ElfW(Sym) symbols[4] = { { .st_name = 0 } };

	memset(bytes, 0, TABLE);
	for (unsigned i = 0; i < ARRAY_SIZE(in_it); i++) {
		table[5 + i] = (hash_of(in_it[i]) & ~1u) | (i == 2);
		symbols[1 + i] = (ElfW(Sym)){ .st_name = 1 + 2 * i,
					      .st_value = 10 + i,
					      .st_shndx = i ? 1 : SHN_UNDEF };
		bytes[STRINGS + 1 + 2 * i] = in_it[i][0];
	}
	memcpy(bytes, table, sizeof(table));
	memcpy(bytes + SYMBOLS, symbols, sizeof(symbols));
}

static uint64_t value_in(const struct loaded_library *library, const char *name)
{
	const ElfW(Sym) *symbol = loaded_library_symbol(library, name);

	return symbol ? symbol->st_value : 0;
}

static void test_symbols_that_are_imported(void **state)
{
	char *bytes = test_malloc(TABLE);
	ElfW(Phdr) segment;
	struct loaded_library library = library_of(bytes, &segment);

	(void)state;
	make_library(bytes);
	assert_int_equal(value_in(&library, "a"), 12);
	assert_int_equal(value_in(&library, "b"), 11);
	assert_int_equal(value_in(&library, "c"), 0);
	((uint32_t *)bytes)[6] |= 1; /* the bucket ends */
	assert_int_equal(value_in(&library, "a"), 0);
	assert_int_equal(value_in(&library, "b"), 11);
	test_free(bytes);
}

/* Whatever the tables say, nothing outside of them is read, and the search ends. */
static void test_damaged_tables(void **state)
{
	char *bytes = test_malloc(TABLE);
	ElfW(Phdr) segment;
	struct loaded_library library = library_of(bytes, &segment);
	uint32_t *words = (uint32_t *)bytes;

	(void)state;
	for (unsigned seed = 0; seed < 20000; seed++) {
		srand(seed);
		make_library(bytes);
		for (unsigned i = 0; i < 1 + seed % 4; i++)
			words[(unsigned)rand() % (seed % 2 ? 8 : TABLE / 4)] =
				seed % 3 ? (unsigned)rand() % 64 : 2u * (unsigned)rand();
		value_in(&library, "a");
		value_in(&library, "c");
	}
	test_free(bytes);
}

/* The tables of relocations are empty if they leave the library, and only then. */
static void test_tables_that_leave_the_library(void **state)
{
	struct image {
		ElfW(Dyn) dynamic[8];
		ElfW(Sym) symbol;
		ElfW(Rela) relocations[2];
		char strings[16];
	} image;

	(void)state;
	for (unsigned too_many = 0; too_many < 2; too_many++) {
		const uint64_t bytes = sizeof(ElfW(Rela)) * (too_many ? 1000 : 2);
		const ElfW(Phdr) segments[] = {
			{ .p_type = PT_LOAD, .p_memsz = sizeof(image) },
			{ .p_type = PT_DYNAMIC },
		};
		const struct dl_phdr_info info = { .dlpi_addr = (uintptr_t)&image,
						   .dlpi_phdr = segments,
						   .dlpi_phnum = ARRAY_SIZE(segments) };
		struct loaded_library library;

		image = (struct image){
			.dynamic = { { DT_SYMTAB, { offsetof(struct image, symbol) } },
				     { DT_STRTAB, { offsetof(struct image, strings) } },
				     { DT_STRSZ, { sizeof(image.strings) } },
				     { DT_JMPREL, { offsetof(struct image, relocations) } },
				     { DT_PLTRELSZ, { bytes } },
				     { DT_RELA, { offsetof(struct image, relocations) } },
				     { DT_RELASZ, { bytes } } },
		};
		assert_true(loaded_library_read(&info, &library));
		for (unsigned i = 0; i < ARRAY_SIZE(library.tables); i++)
			assert_int_equal(library.tables[i].count, too_many ? 0 : 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_dlsym_says),
		cmocka_unit_test(test_symbols_that_are_imported),
		cmocka_unit_test(test_damaged_tables),
		cmocka_unit_test(test_tables_that_leave_the_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
