/* layer: symbol */
/* Any bytes as MiniDebugInfo: what is decompressed is read as an ELF file. */
#include "fuzz.h"

#include "symbol/symbol_table.h"
#include "symbol/xz_data.h"

static void list_symbols(const struct elf_file *f)
{
	static const struct code_zones all = { .is_all = true };
	struct symbol_table symbols;

	symbol_table_init(&symbols, &all);
	if (symbol_table_add(&symbols, f) < 0)
		abort();
	symbol_table_release(&symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct elf_file f;
	uint8_t *plain;
	size_t length;

	if (xz_decompress(bytes, size, &plain, &length, NULL) < 0)
		return 0;
	if (elf_file_open_owned(plain, length, &f, NULL) < 0)
		return 0;
	list_symbols(&f);
	elf_file_release(&f);
	return 0;
}
