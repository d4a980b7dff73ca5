#include "elf/loaded_libraries.h"

#include <elf.h>
#include <string.h>

#include "base/compiler.h"
#include "base/safe_memory.h"

#define PAGE 4096u
#define HEADERS_MAX 64u /* program headers; real libraries have a dozen */
#define SEARCH_BYTES (64u << 20) /* searched before the dynamic section */

struct walk {
	unsigned long long adds; /* 0: all libraries are new */
	loaded_library_filter *is_wanted;
	loaded_library_visitor *visit;
	void *user;
	int result;
	bool is_done;
};

static bool is_readable(uintptr_t from, size_t size)
{
	for (uintptr_t at = from & -(uintptr_t)PAGE; at < from + size; at += PAGE)
		if (!memory_readable(at))
			return false;
	return true;
}

/* Whether the program headers match the addresses that the loader has recorded for the library. */
static bool headers_match(const ElfW(Phdr) * headers, unsigned count,
			  const struct link_map *library, uintptr_t header)
{
	bool has_header = false, has_dynamic = false;

	for (unsigned i = 0; i < count; i++) {
		const ElfW(Phdr) *p = &headers[i];
		uintptr_t start = library->l_addr + p->p_vaddr;

		has_header |= p->p_type == PT_LOAD && start - p->p_offset == header;
		has_dynamic |= p->p_type == PT_DYNAMIC && start == (uintptr_t)library->l_ld;
	}
	return has_header && has_dynamic;
}

/* Returns false when there is no ELF header, or that of another library. */
static bool read_header(const struct link_map *library, uintptr_t at, struct dl_phdr_info *out)
{
	const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)at;
	const ElfW(Phdr) * headers;

	if (!memory_readable(at) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
	    header->e_phentsize != sizeof(*headers) || header->e_phnum > HEADERS_MAX ||
	    header->e_phoff % _Alignof(ElfW(Phdr)) != 0)
		return false;
	headers = (const ElfW(Phdr) *)(at + header->e_phoff);
	if (!is_readable((uintptr_t)headers, header->e_phnum * sizeof(*headers)) ||
	    !headers_match(headers, header->e_phnum, library, at))
		return false;
	out->dlpi_phdr = headers;
	out->dlpi_phnum = header->e_phnum;
	return true;
}

/* Finds the ELF header: at the load bias, except in libraries linked for a fixed address. */
static bool find_header(const struct link_map *library, struct dl_phdr_info *out)
{
	uintptr_t dynamic = (uintptr_t)library->l_ld & -(uintptr_t)PAGE;

	if (read_header(library, library->l_addr, out))
		return true;
	for (uintptr_t before = 0; before < MIN(SEARCH_BYTES, dynamic); before += PAGE)
		if (read_header(library, dynamic - before, out))
			return true;
	return false;
}

static bool is_program(const struct dl_phdr_info *info, const struct link_map *program)
{
	if (!program || info->dlpi_addr != program->l_addr)
		return false;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC &&
		    info->dlpi_addr + info->dlpi_phdr[i].p_vaddr == (uintptr_t)program->l_ld)
			return true;
	return false;
}

/* Returns how many libraries at the beginning of the list are old. */
static unsigned long long count_old(const struct walk *w, unsigned long long adds)
{
	unsigned long long count = 0, new = adds - w->adds;

	for (const struct link_map *library = _r_debug.r_map; library; library = library->l_next)
		count++;
	return count - MIN(count, new);
}

/*
 * Called with the first entry. The loader's public list lacks libraries in namespaces of dlmopen().
 */
static int visit_all(struct dl_phdr_info *first, size_t size, void *user)
{
	const struct link_map *library = _r_debug.r_map;
	struct dl_phdr_info info = *first;
	struct walk *w = user;
	unsigned long long old;
	bool is_found = true; /* the first header is known */

	if (!is_program(first, library))
		return 1;
	w->is_done = true;
	old = w->adds ? count_old(w, first->dlpi_adds) : 0;
	info.dlpi_tls_modid = 0;
	info.dlpi_tls_data = NULL;
	for (; library && !w->result; library = library->l_next, is_found = false) {
		if (old && old-- && !w->is_wanted(library->l_addr, w->user))
			continue;
		if (!is_found) {
			info.dlpi_addr = library->l_addr;
			info.dlpi_name = library->l_name;
			is_found = find_header(library, &info);
		}
		if (is_found)
			w->result = w->visit(&info, size, w->user);
	}
	return 1;
}

int loaded_libraries_visit_since(unsigned long long adds, loaded_library_filter *is_wanted,
				 loaded_library_visitor *visit, void *user)
{
	struct walk w = { .adds = adds, .is_wanted = is_wanted, .visit = visit, .user = user };

	dl_iterate_phdr(visit_all, &w);
	return w.is_done ? w.result : dl_iterate_phdr(visit, user);
}

int loaded_libraries_visit(loaded_library_visitor *visit, void *user)
{
	return loaded_libraries_visit_since(0, NULL, visit, user);
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *user)
{
	struct loaded_library_counts *counts = user;

	(void)size;
	*counts = (struct loaded_library_counts){ info->dlpi_adds, info->dlpi_subs };
	return 1; /* every entry has the counts */
}

struct loaded_library_counts loaded_library_counts(void)
{
	struct loaded_library_counts counts = { 0 };

	dl_iterate_phdr(read_counts, &counts);
	return counts;
}
