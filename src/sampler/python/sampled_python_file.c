#include "sampler/python/sampled_python_file.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define SECTIONS_MAX 4096u
#define PART_MAX ((uint64_t)64 << 20) /* of symbols, and of their names */

static const char *const names[PYTHON_NAMES] = {
	[PYTHON_RUNTIME] = "_PyRuntime",         [PYTHON_VERSION] = "Py_Version",
	[PYTHON_CODE_TYPE] = "PyCode_Type",      [PYTHON_STRING_TYPE] = "PyUnicode_Type",
	[PYTHON_BYTES_TYPE] = "PyBytes_Type",    [PYTHON_GET_BACK] = "PyFrame_GetBack",
	[PYTHON_NEW_REF] = "Py_NewRef",          [PYTHON_TRACE_REFS] = "PyModule_Create2TraceRefs",
	[PYTHON_DEBUG] = "_Py_NegativeRefcount",
};

static void take_symbol(struct sampled_python_file *out, const Elf64_Sym *s, const char *name)
{
	if (s->st_shndx == SHN_UNDEF || !s->st_value || (name[0] != 'P' && name[0] != '_'))
		return;
	for (unsigned i = 0; i < PYTHON_NAMES; i++)
		if (strcmp(name, names[i]) == 0)
			out->symbols[i] = s->st_value;
	if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && python_eval_name(name))
		python_eval_add(&out->eval, s->st_value, s->st_value + s->st_size);
}

static int read_table(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strings,
		      struct sampled_python_file *out)
{
	_cleanup_free_ Elf64_Sym *symbols =
		python_eval_read(fd, table->sh_offset, table->sh_size, PART_MAX);
	_cleanup_free_ char *text =
		python_eval_read(fd, strings->sh_offset, strings->sh_size, PART_MAX);

	if (!symbols || !text || text[strings->sh_size - 1] != '\0')
		return E_FORMAT;
	for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++)
		if (symbols[i].st_name < strings->sh_size)
			take_symbol(out, &symbols[i], text + symbols[i].st_name);
	return 0;
}

static int read_tables(int fd, const Elf64_Ehdr *head, const Elf64_Shdr *sections, uint32_t type,
		       struct sampled_python_file *out)
{
	for (unsigned i = 0; i < head->e_shnum; i++) {
		int r;

		if (sections[i].sh_type != type || sections[i].sh_link >= head->e_shnum)
			continue;
		r = read_table(fd, &sections[i], &sections[sections[i].sh_link], out);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * Whether the dynamic symbols may include _PyRuntime, by the filter of their hash table: two words
 * tell of most files that they do not, where all symbols of a large program are tens of megabytes.
 */
static bool may_be_python(int fd, const Elf64_Ehdr *head, const Elf64_Shdr *sections)
{
	uint32_t hash = 5381, table[4]; /* buckets, first symbol, words of the filter, shift */
	uint64_t word;

	for (const char *c = names[PYTHON_RUNTIME]; *c; c++)
		hash = 33 * hash + (uint8_t)*c;
	for (unsigned i = 0; i < head->e_shnum; i++) {
		off_t at = (off_t)sections[i].sh_offset;

		if (sections[i].sh_type != SHT_GNU_HASH)
			continue;
		if (pread(fd, table, sizeof(table), at) != sizeof(table) || !table[2] ||
		    pread(fd, &word, sizeof(word),
			  at + (off_t)sizeof(table) + 8 * (off_t)(hash / 64 % table[2])) !=
			    sizeof(word))
			return true;
		return word >> hash % 64 & word >> (hash >> table[3] % 32) % 64 & 1;
	}
	return true;
}

int sampled_python_file_read(int fd, struct sampled_python_file *out)
{
	_cleanup_free_ Elf64_Ehdr *head = python_eval_read(fd, 0, sizeof(*head), sizeof(*head));
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	int r;

	memset(out, 0, sizeof(*out));
	if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(*sections))
		return E_FORMAT;
	sections = python_eval_read(fd, head->e_shoff, head->e_shnum * sizeof(*sections),
				    SECTIONS_MAX * sizeof(*sections));
	if (!sections)
		return E_FORMAT;
	if (!may_be_python(fd, head, sections))
		return -ENOENT;
	r = read_tables(fd, head, sections, SHT_DYNSYM, out);
	if (r < 0)
		return r;
	if (!out->symbols[PYTHON_RUNTIME] || !out->eval.count)
		return -ENOENT;
	/* The parts of the evaluation loop that are set apart have local names only. */
	return read_tables(fd, head, sections, SHT_SYMTAB, out);
}
