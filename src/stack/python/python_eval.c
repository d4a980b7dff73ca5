#include "stack/python/python_eval.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "arch/processor.h"
#include "base/io.h"
#include "base/bytes.h"
#include "elf/eh_frame.h"
#include "elf/elf_file.h"
#include "elf/import_slots.h"
#include "elf/loaded_libraries.h"

#define PATH_SIZE 4096

void python_eval_add(struct python_eval *eval, uint64_t start, uint64_t end)
{
	unsigned at = eval->count;

	if (start >= end || eval->count == PYTHON_EVAL_RANGES)
		return;
	while (at > 0 && eval->ranges[at - 1].start > start)
		at--;
	if (at > 0 && eval->ranges[at - 1].end >= start) {
		eval->ranges[at - 1].end = MAX(eval->ranges[at - 1].end, end);
		return;
	}
	memmove(&eval->ranges[at + 1], &eval->ranges[at],
		(eval->count - at) * sizeof(eval->ranges[0]));
	eval->ranges[at] = (struct code_range){ start, end };
	eval->count++;
}

/* The module that contains the evaluation loop. */
struct module {
	uintptr_t address;
	uint64_t size; /* of the exported function; 0: unknown */
	uintptr_t bias;
	char path[PATH_SIZE];
	const ElfW(Phdr) * headers; /* in memory */
	size_t header_count;
	uintptr_t eh_frame_hdr, eh_frame_hdr_end;
	uintptr_t text, text_end; /* the executable segment that contains the address */
};

static int match_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module *m = context;
	const char *path =
		info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
	struct loaded_library library;
	const ElfW(Sym) * symbol;

	(void)size;
	m->text = 0;
	m->eh_frame_hdr = 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && m->address - start < p->p_memsz) {
			m->text = start;
			m->text_end = start + p->p_memsz;
		} else if (p->p_type == PT_GNU_EH_FRAME) {
			m->eh_frame_hdr = start;
			m->eh_frame_hdr_end = start + p->p_memsz;
		}
	}
	if (!m->text || strlen(path) >= sizeof(m->path))
		return 0;
	memcpy(m->path, path, strlen(path) + 1);
	symbol = loaded_library_read(info, &library)
			 ? loaded_library_symbol(&library, "_PyEval_EvalFrameDefault")
			 : NULL;
	if (symbol && library.base + symbol->st_value == m->address)
		m->size = symbol->st_size;
	m->bias = info->dlpi_addr;
	m->headers = info->dlpi_phdr;
	m->header_count = info->dlpi_phnum;
	return 1;
}

bool python_eval_name(const char *name)
{
	size_t length = strlen("_PyEval_EvalFrameDefault");

	if (!strncmp(name, "_TAIL_CALL_", strlen("_TAIL_CALL_")))
		return true;
	return !strncmp(name, "_PyEval_EvalFrameDefault", length) &&
	       (name[length] == 0 || name[length] == '.');
}

/* Whether the file is the one that was loaded, judging by its program headers. */
static bool same_file(const struct elf_file *f, const struct module *m)
{
	bool same = f->segment_count == m->header_count;

	for (size_t i = 0; same && i < m->header_count; i++) {
		const struct elf_segment *s = &f->segments[i];
		const ElfW(Phdr) *p = &m->headers[i];

		same = s->type == p->p_type && s->flags == p->p_flags && s->offset == p->p_offset &&
		       s->address == p->p_vaddr && s->file_size == p->p_filesz &&
		       s->memory_size == p->p_memsz;
	}
	return same;
}

static void read_symtab(const struct module *m, struct python_eval *eval)
{
	_cleanup_close_ int fd = io_open_file(m->path, NULL);
	struct elf_symbols symbols = { 0 };
	struct elf_file f;
	const char *name;
	ElfW(Sym) s;

	if (fd < 0 || elf_file_open_fd(fd, &f, NULL) < 0)
		return;
	if (!same_file(&f, m) || elf_symbols(&f, SHT_SYMTAB, &symbols) < 0)
		symbols.entries.size = 0;
	for (size_t i = 0; elf_symbol(&symbols, i, &s, &name); i++) {
		uintptr_t start = m->bias + s.st_value;

		if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx != SHN_UNDEF &&
		    start >= m->text && start < m->text_end && s.st_size <= m->text_end - start &&
		    python_eval_name(name))
			python_eval_add(eval, start, start + s.st_size);
	}
	elf_file_release(&f);
}

/*
 * The search table of .eh_frame_hdr: start of each FDE's code, ascending, and address of the FDE,
 * both relative to the header.
 */
struct fde_table {
	const uint8_t *entries;
	size_t count;
	uintptr_t base;
};

static bool read_fde_table(const struct module *m, struct fde_table *t)
{
	struct eh_header header;

	if (!m->eh_frame_hdr ||
	    !eh_header_read((const uint8_t *)m->eh_frame_hdr, m->eh_frame_hdr_end - m->eh_frame_hdr,
			    m->eh_frame_hdr, &header))
		return false;
	*t = (struct fde_table){ header.pairs, header.pair_count, m->eh_frame_hdr };
	return t->count > 0;
}

static uintptr_t fde_start(const struct fde_table *t, size_t i)
{
	return t->base + (uintptr_t)(intptr_t)(int32_t)load_u32(t->entries + 8 * i);
}

/* Returns the end of FDE i's code, or 0 if its pointers have an unusual encoding. */
static uintptr_t fde_end(const struct fde_table *t, size_t i)
{
	const uint8_t *fde = (const uint8_t *)(t->base + (uintptr_t)(intptr_t)(int32_t)load_u32(
								 t->entries + 8 * i + 4));
	uintptr_t start = (uintptr_t)(fde + 8) + (uintptr_t)(intptr_t)(int32_t)load_u32(fde + 8);

	return start == fde_start(t, i) ? start + load_u32(fde + 12) : 0;
}

/* Returns the last FDE that starts at or before pc. */
static size_t fde_of(const struct fde_table *t, uintptr_t pc)
{
	size_t after = sorted_prefix(t->count, i, fde_start(t, i) <= pc);

	return after ? after - 1 : 0;
}

#define JUMPS_MIN 4 /* accidental matches are spread over many functions, one each */

/*
 * Searches direct jumps from the loop into the middle
 * of other FDEs: compilers move unlikely code out of a function into a separate FDE, while a call
 * to another function leads to its start.
 */
static void find_parts(const struct module *m, uintptr_t start, uintptr_t end,
		       struct python_eval *eval)
{
	struct fde_table table;
	_cleanup_free_ uint32_t *hits = NULL;

	if (!read_fde_table(m, &table))
		return;
	hits = calloc(table.count, sizeof(*hits));
	if (!hits)
		return;
	for (uintptr_t pc = start; pc + 6 <= end; pc++) {
		uintptr_t to;
		size_t i;

		if (!arch_jump((const uint8_t *)pc, &to) || to < m->text || to >= m->text_end ||
		    (to >= start && to < end))
			continue;
		i = fde_of(&table, to);
		if (to > fde_start(&table, i))
			hits[i]++;
	}
	for (size_t i = 0; i < table.count; i++) {
		uintptr_t part_end = hits[i] >= JUMPS_MIN ? fde_end(&table, i) : 0;

		if (part_end > m->text && part_end <= m->text_end)
			python_eval_add(eval, fde_start(&table, i), part_end);
	}
}

int python_eval_find(const struct python_runtime *runtime, struct python_eval *eval,
		     struct error *e)
{
	struct module m = { .address = runtime->eval };

	memset(eval, 0, sizeof(*eval));
	if (!loaded_libraries_visit(match_module, &m))
		return error_set(e, -ENOENT, "no module has CPython's evaluation loop");
	read_symtab(&m, eval);
	if (python_eval_has(eval, runtime->eval + 1))
		return 0;
	memset(eval, 0, sizeof(*eval));
	if (m.size == 0 || m.size > m.text_end - runtime->eval)
		return error_set(e, -ENOENT,
				 "the size of CPython's evaluation loop is unknown in '%s'",
				 m.path);
	python_eval_add(eval, runtime->eval, runtime->eval + m.size);
	find_parts(&m, runtime->eval, runtime->eval + m.size, eval);
	return 0;
}
