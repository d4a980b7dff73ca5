/* link: test_support */
/* ELF files that are read as far as they are asked for, against the same bytes in memory. */
#include "elf/elf_file.h"
#include "elf/unwind_input.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "support/cmocka_tests.h"

#define SELF "/proc/self/exe"

static void open_whole(const char *path, struct elf_file *out)
{
	struct strbuf bytes = STRBUF_INIT;

	assert_int_equal(io_read_file(path, 256u << 20, &bytes), 0);
	assert_int_equal(elf_file_open_owned((uint8_t *)bytes.data, bytes.length, out, NULL), 0);
}

static void open_both(const char *path, struct elf_file *whole, struct elf_file *read)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	open_whole(path, whole);
	assert_int_equal(elf_file_open_fd(fd, read, NULL), 0);
	/* The descriptor is still ours, and need not be there any more. */
	assert_int_equal(close(fd), 0);
}

/* A file that is much larger than its headers. */
static const char *libc_path(void)
{
	Dl_info info;

	assert_true(dladdr((void *)gnu_get_libc_version, &info));
	return info.dli_fname;
}

static void headers_are_the_same(void **state)
{
	struct elf_file whole, read;

	(void)state;
	open_both(libc_path(), &whole, &read);
	assert_int_equal(read.size, whole.size);
	assert_int_equal(read.machine, whole.machine);
	assert_int_equal(read.entry, whole.entry);
	assert_true(elf_is_code(&read, read.entry));
	assert_int_equal(read.segment_count, whole.segment_count);
	assert_memory_equal(read.segments, whole.segments,
			    whole.segment_count * sizeof(*whole.segments));
	assert_int_equal(read.section_count, whole.section_count);
	for (size_t i = 0; i < whole.section_count; i++) {
		assert_string_equal(read.sections[i].name, whole.sections[i].name);
		assert_int_equal(read.sections[i].offset, whole.sections[i].offset);
		assert_int_equal(read.sections[i].size, whole.sections[i].size);
	}
	assert_int_equal(read.build_id_size, whole.build_id_size);
	assert_memory_equal(read.build_id, whole.build_id, whole.build_id_size);
	assert_true(read.source->read_bytes < read.size / 4);
	elf_file_release(&whole);
	elf_file_release(&read);
}

static void contents_are_read_when_needed(void **state)
{
	static const uint8_t zeros[512];
	struct elf_file whole, read;
	struct elf_bytes there, bytes;
	size_t middle;

	(void)state;
	open_both(libc_path(), &whole, &read);
	there = elf_named_contents(&whole, ".text");
	bytes = elf_raw_contents(&read, elf_section(&read, ".text"));
	assert_int_equal(bytes.size, there.size);
	middle = bytes.size / 2;
	assert_memory_equal(bytes.data + middle, zeros, sizeof(zeros));
	assert_memory_not_equal(there.data + middle, zeros, sizeof(zeros));
	assert_true(elf_load(&read, (struct elf_bytes){ bytes.data + middle, sizeof(zeros) }));
	assert_memory_equal(bytes.data + middle, there.data + middle, sizeof(zeros));
	assert_true(elf_load(&read, bytes));
	assert_memory_equal(bytes.data, there.data, there.size);
	there = elf_named_contents(&whole, ".rodata");
	bytes = elf_named_contents(&read, ".rodata");
	assert_int_equal(bytes.size, there.size);
	assert_memory_equal(bytes.data, there.data, there.size);
	assert_false(elf_load(&read, (struct elf_bytes){ NULL, 0 }));
	elf_file_release(&whole);
	elf_file_release(&read);
}

static void call_frame_information_is_found(void **state)
{
	struct unwind_input theirs, ours;
	struct elf_file whole, read;

	(void)state;
	open_both(libc_path(), &whole, &read);
	assert_int_equal(elf_unwind_input(&whole, &theirs), 0);
	assert_int_equal(elf_unwind_input(&read, &ours), 0);
	assert_true(theirs.search_count > 1000);
	assert_int_equal(ours.search_count, theirs.search_count);
	assert_int_equal(ours.section.size, theirs.section.size);
	assert_int_equal(ours.section.bytes - read.bytes, theirs.section.bytes - whole.bytes);
	/* Found, not read. */
	assert_true(read.source->read_bytes < ours.section.size);
	elf_file_release(&whole);
	elf_file_release(&read);
}

static void check_symbols(const struct elf_file *whole, const struct elf_file *read, uint32_t type)
{
	struct elf_symbols ours, theirs;
	const char *name, *other;
	bool has_main = false;
	Elf64_Sym a, b;
	size_t i;

	assert_int_equal(elf_symbols(whole, type, &theirs), 0);
	assert_int_equal(elf_symbols(read, type, &ours), 0);
	for (i = 0; elf_symbol(&theirs, i, &b, &other); i++) {
		assert_true(elf_symbol(&ours, i, &a, &name));
		assert_memory_equal(&a, &b, sizeof(a));
		assert_string_equal(name, other);
		has_main |= !strcmp(name, "main") && elf_is_code(read, a.st_value);
	}
	assert_false(elf_symbol(&ours, i, &a, &name));
	assert_int_equal(i, elf_section_by_type(whole, type)->size / sizeof(a));
	assert_true(has_main == (type == SHT_SYMTAB));
}

static void symbols_are_the_same(void **state)
{
	struct elf_file whole, read;
	struct elf_symbols symbols;

	(void)state;
	open_both(SELF, &whole, &read);
	check_symbols(&whole, &read, SHT_SYMTAB);
	check_symbols(&whole, &read, SHT_DYNSYM);
	assert_int_equal(elf_symbols(&read, SHT_LOUSER, &symbols), -ENOENT);
	elf_section_by_type(&read, SHT_DYNSYM)->link = (uint32_t)read.section_count;
	assert_int_equal(elf_symbols(&read, SHT_DYNSYM, &symbols), E_FORMAT);
	elf_file_release(&whole);
	elf_file_release(&read);
}

/* A mapping would end us here. */
static void a_file_that_shrinks(void **state)
{
	const char *path = temp_file(*state, "program");
	struct elf_symbols symbols;
	struct elf_file self, read;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);

	open_whole(SELF, &self);
	for (unsigned by_path = 0; by_path < 2; by_path++) {
		assert_int_equal(pwrite(fd, self.bytes, self.size, 0), (ssize_t)self.size);
		assert_int_equal(by_path ? elf_file_open(path, &read, NULL)
					 : elf_file_open_fd(fd, &read, NULL),
				 0);
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(elf_symbols(&read, SHT_SYMTAB, &symbols), E_FORMAT);
		assert_null(elf_named_contents(&read, ".text").data);
		elf_file_release(&read);
	}
	elf_file_release(&self);
	close(fd);
}

static void what_was_read_remains(void **state)
{
	struct elf_file whole, read;
	struct elf_bytes bytes;

	(void)state;
	open_both(libc_path(), &whole, &read);
	assert_non_null(elf_named_contents(&read, ".rodata").data);
	elf_file_detach(&read);
	bytes = elf_named_contents(&read, ".rodata");
	assert_memory_equal(bytes.data, elf_named_contents(&whole, ".rodata").data, bytes.size);
	assert_null(elf_named_contents(&read, ".text").data);
	elf_file_release(&whole);
	elf_file_release(&read);
}

static void no_elf_files(void **state)
{
	int folder = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file = memfd_create("file", MFD_CLOEXEC);
	struct elf_file f;

	assert_int_equal(elf_file_open_fd(folder, &f, NULL), E_FORMAT);
	assert_int_equal(elf_file_open_fd(-1, &f, NULL), E_FORMAT);
	assert_int_equal(elf_file_open_fd(file, &f, NULL), E_FORMAT);
	assert_int_equal(write(file, "#!/bin/sh\nexit 0\n", 17), 17);
	assert_int_equal(elf_file_open_fd(file, &f, NULL), E_FORMAT);
	assert_int_equal(ftruncate(file, ((off_t)1 << 40) + 1), 0);
	assert_int_equal(elf_file_open_fd(file, &f, NULL), -ENOMEM);
	close(folder);
	close(file);
}

struct noted {
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	Elf64_Nhdr note;
	char name[4];
	uint8_t id[8];
};

static unsigned build_id_size(uint64_t note_bytes)
{
	struct noted n = {
		.head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
			  .e_phoff = offsetof(struct noted, segment),
			  .e_phnum = 1,
			  .e_phentsize = sizeof(Elf64_Phdr) },
		.segment = { .p_type = PT_NOTE,
			     .p_offset = offsetof(struct noted, note),
			     .p_filesz = note_bytes },
		.note = { .n_namesz = 4, .n_descsz = 8, .n_type = NT_GNU_BUILD_ID },
		.name = "GNU",
	};
	int fd = memfd_create("noted", MFD_CLOEXEC);
	struct elf_file f;
	unsigned size;

	assert_int_equal(write(fd, &n, sizeof(n)), sizeof(n));
	assert_int_equal(ftruncate(fd, (off_t)64 << 20), 0);
	assert_int_equal(elf_file_open_fd(fd, &f, NULL), 0);
	size = f.build_id_size;
	assert_true(f.source->read_bytes < 2u << 20);
	elf_file_release(&f);
	close(fd);
	return size;
}

/* What a file says must not decide how much memory it takes. */
static void notes_that_are_too_long(void **state)
{
	(void)state;
	assert_int_equal(build_id_size(24), 8);
	assert_int_equal(build_id_size(1 << 20), 8);
	assert_int_equal(build_id_size((1 << 20) + 1), 0);
	assert_int_equal(build_id_size((uint64_t)64 << 20), 0);
}

static void symbols_that_are_too_many(void **state)
{
	Elf64_Shdr sections[] = { { 0 },
				  { .sh_type = SHT_SYMTAB, .sh_link = 2 },
				  { .sh_type = SHT_STRTAB, .sh_offset = 64, .sh_size = 1 } };
	Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
			    .e_shoff = sizeof(head),
			    .e_shnum = ARRAY_SIZE(sections),
			    .e_shentsize = sizeof(Elf64_Shdr) };
	int fd = memfd_create("symbols", MFD_CLOEXEC);
	struct elf_symbols symbols;
	struct elf_file f;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)1 << 30), 0);
	for (unsigned i = 0; i < 2; i++) {
		sections[1].sh_size = ((uint64_t)64 << 20) + i;
		assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
		assert_int_equal(pwrite(fd, sections, sizeof(sections), sizeof(head)),
				 sizeof(sections));
		assert_int_equal(elf_file_open_fd(fd, &f, NULL), 0);
		assert_int_equal(elf_symbols(&f, SHT_SYMTAB, &symbols), i ? E_FORMAT : 0);
		elf_file_release(&f);
	}
	close(fd);
}

/* A section in a hole takes no memory, and so no part of the budget. */
static void holes_are_not_read(void **state)
{
	Elf64_Shdr sections[] = { { 0 },
				  { .sh_type = SHT_SYMTAB,
				    .sh_link = 2,
				    .sh_offset = 1 << 20,
				    .sh_size = (uint64_t)60 << 20 },
				  { .sh_type = SHT_STRTAB, .sh_offset = 1 << 20, .sh_size = 1 } };
	Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB },
			    .e_shoff = sizeof(head),
			    .e_shnum = ARRAY_SIZE(sections),
			    .e_shentsize = sizeof(Elf64_Shdr) };
	int fd = memfd_create("holes", MFD_CLOEXEC);
	struct elf_symbols symbols;
	struct elf_file f;

	(void)state;
	assert_int_equal(write(fd, &head, sizeof(head)), sizeof(head));
	assert_int_equal(write(fd, sections, sizeof(sections)), sizeof(sections));
	assert_int_equal(ftruncate(fd, (off_t)64 << 20), 0);
	assert_int_equal(elf_file_open_fd(fd, &f, NULL), 0);
	assert_int_equal(elf_symbols(&f, SHT_SYMTAB, &symbols), 0);
	assert_true(f.source->read_bytes < 1 << 20);
	elf_file_release(&f);
	close(fd);
}

static void the_vdso(void **state)
{
	struct elf_file f;

	(void)state;
	assert_int_equal(elf_file_open_vdso(&f, NULL), 0);
	assert_int_equal(f.machine, EM_X86_64);
	assert_int_equal(f.type, ET_DYN);
	assert_true(f.build_id_size > 0);
	assert_non_null(elf_named_contents(&f, ".eh_frame").data);
	elf_file_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_are_the_same),
		cmocka_unit_test(contents_are_read_when_needed),
		cmocka_unit_test(call_frame_information_is_found),
		cmocka_unit_test(symbols_are_the_same),
		folder_test(a_file_that_shrinks),
		cmocka_unit_test(what_was_read_remains),
		folder_test(no_elf_files),
		cmocka_unit_test(notes_that_are_too_long),
		cmocka_unit_test(symbols_that_are_too_many),
		cmocka_unit_test(holes_are_not_read),
		cmocka_unit_test(the_vdso),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
