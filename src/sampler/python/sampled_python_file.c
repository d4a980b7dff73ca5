#include "sampler/python/sampled_python_file.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "elf/elf_file.h"

#define FILTER_OFFSET 16u /* of the Bloom filter in .gnu.hash */

static const char *const names[PYTHON_NAMES] = {
	[PYTHON_RUNTIME] = "_PyRuntime",         [PYTHON_VERSION] = "Py_Version",
	[PYTHON_CODE_TYPE] = "PyCode_Type",      [PYTHON_STRING_TYPE] = "PyUnicode_Type",
	[PYTHON_BYTES_TYPE] = "PyBytes_Type",    [PYTHON_GET_BACK] = "PyFrame_GetBack",
	[PYTHON_NEW_REF] = "Py_NewRef",          [PYTHON_TRACE_REFS] = "PyModule_Create2TraceRefs",
	[PYTHON_DEBUG] = "_Py_NegativeRefcount", [PYTHON_CONFIG] = "PyConfig_InitPythonConfig",
};

static void add_symbol(struct sampled_python_file *out, const Elf64_Sym *s, const char *name)
{
	if (s->st_shndx == SHN_UNDEF || !s->st_value || (name[0] != 'P' && name[0] != '_'))
		return;
	for (unsigned i = 0; i < PYTHON_NAMES; i++)
		if (strcmp(name, names[i]) == 0)
			out->symbols[i] = s->st_value;
	if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && python_eval_name(name))
		python_eval_add(&out->eval, s->st_value, s->st_value + s->st_size);
}

static int read_symbols(const struct elf_file *f, uint32_t type, struct sampled_python_file *out)
{
	struct elf_symbols symbols;
	int r = elf_symbols(f, type, &symbols);
	const char *name;
	Elf64_Sym s;

	for (size_t i = 0; r == 0 && elf_symbol(&symbols, i, &s, &name); i++)
		add_symbol(out, &s, name);
	return r == -ENOENT ? 0 : r;
}

/*
 * Whether the dynamic symbols may include PyCode_Type, by the Bloom filter of their hash table: for
 * most files two words show that they do not, where the symbols of a large program are tens of
 * megabytes.
 */
static bool may_be_python(const struct elf_file *f)
{
	struct elf_bytes table = elf_raw_contents(f, elf_section_by_type(f, SHT_GNU_HASH));
	uint32_t hash = 5381, words,
		 shift; /* they follow the numbers of buckets and of the first symbol */
	uint64_t word;

	for (const char *c = names[PYTHON_CODE_TYPE]; *c; c++)
		hash = 33 * hash + (uint8_t)*c;
	if (table.size < FILTER_OFFSET ||
	    !elf_load(f, (struct elf_bytes){ table.data, FILTER_OFFSET }))
		return true;
	words = load_u32(table.data + 8);
	shift = load_u32(table.data + 12);
	if (!words || (table.size - FILTER_OFFSET) / 8 < words)
		return true;
	table.data += FILTER_OFFSET + (size_t)8 * (hash / 64 % words);
	if (!elf_load(f, (struct elf_bytes){ table.data, 8 }))
		return true;
	word = load_u64(table.data);
	return word >> hash % 64 & word >> (hash >> shift % 32) % 64 & 1;
}

static int read_file(const struct elf_file *f, struct sampled_python_file *out)
{
	int r;

	if (!f->section_count)
		return E_FORMAT;
	if (!may_be_python(f))
		return -ENOENT;
	r = read_symbols(f, SHT_DYNSYM, out);
	if (r < 0)
		return r;
	if (!out->symbols[PYTHON_CODE_TYPE] || !out->symbols[PYTHON_STRING_TYPE])
		return -ENOENT;
	/* Parts of the evaluation loop that the compiler split off have local names only. */
	return read_symbols(f, SHT_SYMTAB, out);
}

int sampled_python_file_read(int fd, struct sampled_python_file *out)
{
	struct elf_file f;
	int r;

	memset(out, 0, sizeof(*out));
	if (elf_file_open_fd(fd, &f, NULL) < 0)
		return E_FORMAT;
	r = read_file(&f, out);
	elf_file_release(&f);
	return r;
}
