/*
 * stack_recording.c: call stacks of this very program: known_caller calls known_outer, into which
 * known_inner is inlined; besides a frame of the operating system's kernel and one that is in no
 * file. A running one is of this process, on this machine, which prints a line when it is made and
 * lives until its standard input ends.
 */
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "elf/elf_file.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START UINT64_C(1000000000)

extern const char mark_inlined[];

static uint64_t return_address;

static inline __attribute__((always_inline)) void known_inner(void)
{
	/* The instruction of the innermost frame: */
	__asm__ volatile(".globl mark_inlined\nmark_inlined:\n\tnop"); /* LINE: innermost */
}

__attribute__((noinline)) static void known_outer(void)
{
	return_address = (uintptr_t)__builtin_return_address(0);
	known_inner(); /* LINE: inlined call */
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void known_caller(void)
{
	known_outer(); /* LINE: call */
	__asm__ volatile("" ::: "memory");
}

static int on_module(struct dl_phdr_info *info, size_t size, void *user)
{
	char build_id[2 * BUILD_ID_MAX + 1] = "";
	struct maker *m = user;
	struct elf_file f;

	(void)size;
	if (elf_file_open("/proc/self/exe", &f, NULL) == 0) {
		elf_build_id_text(&f, build_id, sizeof(build_id));
		elf_file_release(&f);
	}
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		struct row_module row = {
			.start_address = info->dlpi_addr + p->p_vaddr,
			.end_address = info->dlpi_addr + p->p_vaddr + p->p_memsz,
			.file_offset = p->p_offset,
			.load_bias = info->dlpi_addr,
			.loaded_ns = START,
		};
		char path[4096] = "";

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		if (!realpath("/proc/self/exe", path))
			return 1;
		row.path = maker_string(m, path);
		row.build_id = maker_string(m, build_id);
		if (!*build_id)
			ROW_MISSING(&row, module, build_id);
		writer_append(m->writer, TABLE_module, &row);
	}
	return 1; /* the first module is the program */
}

/* Sets this machine's boot id in the process's final row: it runs here. */
static void set_boot_id(struct maker *m)
{
	struct strbuf boot_id = STRBUF_INIT;

	if (io_read_file("/proc/sys/kernel/random/boot_id", 4096, &boot_id) < 0)
		exit(1);
	boot_id.data[strcspn(boot_id.data, "\n")] = 0;
	m->process.boot_id = maker_string(m, boot_id.data);
	strbuf_release(&boot_id);
}

static void wait_for_end(void)
{
	puts("made");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static struct maker *begin(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, START, "make-recording");

	dl_iterate_phdr(on_module, m);
	return m;
}

static void close_with_stack(struct maker *m)
{
	uint32_t outermost, caller, leaf;

	known_caller();
	outermost = maker_native(m, 0, 0x1000);
	caller = maker_native(m, outermost, return_address);
	leaf = maker_exact(m, caller, frame_kind_interrupted, (uintptr_t)mark_inlined);
	maker_python(m, caller, "train", "train.py", 7);
	maker_exact(m, leaf, frame_kind_kernel, UINT64_C(0xffffffff81000010));
	maker_stack(m, leaf, 3, stack_end_complete);
	maker_close(m, START + 1000);
}

void recording_stack_native(const char *folder)
{
	close_with_stack(begin(folder, 100));
}

void recording_stack_python(const char *folder)
{
	struct maker *m = begin(folder, 100);

	maker_python(m, 0, "train", "train.py", 7);
	maker_close(m, START + 1000);
}

void recording_stack_running(const char *folder)
{
	struct maker *m = begin(folder, (uint32_t)getpid());

	set_boot_id(m);
	close_with_stack(m);
	wait_for_end();
}
