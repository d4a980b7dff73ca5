#include "stack/python/python_eval.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "elf/eh_frame.h"
#include "elf/loaded_libraries.h"

#define SECTIONS_MAX 4096
#define PART_MAX (32u << 20) /* of symbols, and of their names */
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

/* The module that has an address. */
struct module {
	uintptr_t address;
	uintptr_t bias;
	char path[PATH_SIZE];
	const ElfW(Phdr) * headers; /* in memory */
	size_t header_count;
	uintptr_t eh_frame_hdr, eh_frame_hdr_end;
	uintptr_t text, text_end; /* the executable segment that has the address */
};

static int match_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module *m = context;
	const char *path =
		info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";

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
	m->bias = info->dlpi_addr;
	m->headers = info->dlpi_phdr;
	m->header_count = info->dlpi_phnum;
	return 1;
}

void *python_eval_read(int fd, uint64_t offset, uint64_t size, uint64_t max)
{
	uint8_t *p;

	if (size == 0 || size > max || offset > INT64_MAX - size)
		return NULL;
	p = malloc(size);
	for (uint64_t n = 0; p && n < size;) {
		ssize_t count = pread(fd, p + n, size - n, (off_t)(offset + n));

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0) {
			free(p);
			return NULL;
		}
		n += (uint64_t)count;
	}
	return p;
}

bool python_eval_name(const char *name)
{
	size_t length = strlen("_PyEval_EvalFrameDefault");

	if (!strncmp(name, "_TAIL_CALL_", strlen("_TAIL_CALL_")))
		return true;
	return !strncmp(name, "_PyEval_EvalFrameDefault", length) &&
	       (name[length] == 0 || name[length] == '.');
}

static void symbols_of(const struct module *m, const ElfW(Sym) * symbols, size_t count,
		       const char *names, size_t names_size, struct python_eval *eval)
{
	for (size_t i = 0; i < count; i++) {
		const ElfW(Sym) *s = &symbols[i];
		uintptr_t start = m->bias + s->st_value;

		if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF ||
		    s->st_name >= names_size || start < m->text || start >= m->text_end ||
		    s->st_size > m->text_end - start)
			continue;
		if (python_eval_name(names + s->st_name))
			python_eval_add(eval, start, start + s->st_size);
	}
}

/* The file is the one that was loaded, as far as its program headers tell. */
static bool same_file(int fd, const ElfW(Ehdr) * head, const struct module *m)
{
	size_t size = m->header_count * sizeof(*m->headers);
	_cleanup_free_ void *headers = NULL;

	if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_phnum != m->header_count || head->e_phentsize != sizeof(*m->headers) ||
	    head->e_shentsize != sizeof(ElfW(Shdr)))
		return false;
	headers = python_eval_read(fd, head->e_phoff, size, PART_MAX);
	return headers && memcmp(headers, m->headers, size) == 0;
}

static void read_symtab(const struct module *m, struct python_eval *eval)
{
	_cleanup_close_ int fd = open(m->path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ ElfW(Ehdr) *head = NULL;
	_cleanup_free_ ElfW(Shdr) *sections = NULL;

	if (fd < 0)
		return;
	head = python_eval_read(fd, 0, sizeof(*head), sizeof(*head));
	if (!head || !same_file(fd, head, m))
		return;
	sections = python_eval_read(fd, head->e_shoff, head->e_shnum * sizeof(*sections),
				    SECTIONS_MAX * sizeof(*sections));
	for (unsigned i = 0; sections && i < head->e_shnum; i++) {
		_cleanup_free_ ElfW(Sym) *symbols = NULL;
		_cleanup_free_ char *names = NULL;
		uint64_t size;

		if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= head->e_shnum)
			continue;
		size = sections[sections[i].sh_link].sh_size;
		symbols =
			python_eval_read(fd, sections[i].sh_offset, sections[i].sh_size, PART_MAX);
		names = python_eval_read(fd, sections[sections[i].sh_link].sh_offset, size,
					 PART_MAX);
		if (symbols && names && names[size - 1] == 0)
			symbols_of(m, symbols, sections[i].sh_size / sizeof(*symbols), names, size,
				   eval);
	}
}

/*
 * The search table of .eh_frame_hdr: where each FDE's code starts, ascending, and where the FDE
 * is; both relative to the header.
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

/* End of the code that FDE i is about; 0 if its pointers are not in the usual form. */
static uintptr_t fde_end(const struct fde_table *t, size_t i)
{
	const uint8_t *fde = (const uint8_t *)(t->base + (uintptr_t)(intptr_t)(int32_t)load_u32(
								 t->entries + 8 * i + 4));
	uintptr_t start = (uintptr_t)(fde + 8) + (uintptr_t)(intptr_t)(int32_t)load_u32(fde + 8);

	return start == fde_start(t, i) ? start + load_u32(fde + 12) : 0;
}

/* The last FDE that starts at or before pc. */
static size_t fde_of(const struct fde_table *t, uintptr_t pc)
{
	size_t after = sorted_prefix(t->count, i, fde_start(t, i) <= pc);

	return after ? after - 1 : 0;
}

#define JUMPS_MIN 4 /* what looks like a jump into another function by chance lands in many, once */

/*
 * Looks for direct jumps (E9, 0F 80 to 8F, with 4 bytes of distance) from the loop into the middle
 * of other FDEs: compilers move unlikely code out of a function, with an FDE of its own; a call to
 * another function leads to its start.
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
		const uint8_t *p = (const uint8_t *)pc;
		size_t length = p[0] == 0xe9 ? 5 : p[0] == 0x0f && (p[1] & 0xf0) == 0x80 ? 6 : 0;
		uintptr_t to =
			length ? pc + length +
					 (uintptr_t)(intptr_t)(int32_t)load_u32(p + length - 4)
			       : 0;
		size_t i;

		if (to < m->text || to >= m->text_end || (to >= start && to < end))
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
	ElfW(Sym) *symbol = NULL;
	Dl_info unused;

	memset(eval, 0, sizeof(*eval));
	if (!loaded_libraries_visit(match_module, &m))
		return error_set(e, -ENOENT, "no module has CPython's evaluation loop");
	read_symtab(&m, eval);
	if (python_eval_has(eval, runtime->eval + 1))
		return 0;
	memset(eval, 0, sizeof(*eval));
	if (!dladdr1((void *)runtime->eval, &unused, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
	    m.bias + symbol->st_value != runtime->eval || symbol->st_size == 0 ||
	    symbol->st_size > m.text_end - runtime->eval)
		return error_set(e, -ENOENT, "CPython's evaluation loop has no extent in '%s'",
				 m.path);
	python_eval_add(eval, runtime->eval, runtime->eval + symbol->st_size);
	find_parts(&m, runtime->eval, runtime->eval + symbol->st_size, eval);
	return 0;
}
