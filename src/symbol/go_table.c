/*
 * go_table.c: functions of Go programs, from the table that Go's runtime symbolizes its own stacks
 * with: stripped programs keep it, but neither symbols nor frame descriptions. Its format since Go
 * 1.18, for 64 bits:
 *
 *	u32 magic, u16 0, u8 instruction unit, u8 pointer size, then 64-bit words: functions, files,
 *	address of the code, offsets of names, compilation units, files, instructions and functions
 *	functions: {u32 start, u32 offset}…, u32 end of the last; at that offset
 *	{u32 start, u32 name, …}
 *
 * Starts and ends are relative to the address of the code, offsets to the table of functions, names
 * to the table of names.
 */
#include "base/bytes.h"
#include "symbol/symbol_table.h"

#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u
#define HEADER_BYTES 72

struct go_table {
	uint64_t code, count;
	struct elf_bytes names, functions;
};

static struct elf_bytes from(struct elf_bytes all, uint64_t offset)
{
	if (offset > all.size)
		return (struct elf_bytes){ NULL, 0 };
	return (struct elf_bytes){ all.data + offset, all.size - (size_t)offset };
}

static bool read_header(struct elf_bytes all, struct go_table *g)
{
	uint32_t magic;

	if (all.size < HEADER_BYTES)
		return false;
	magic = load_u32(all.data);
	if ((magic != MAGIC_1_18 && magic != MAGIC_1_20) || all.data[7] != 8)
		return false;
	g->count = load_u64(all.data + 8);
	g->code = load_u64(all.data + 24);
	g->names = from(all, load_u64(all.data + 32));
	g->functions = from(all, load_u64(all.data + 64));
	return g->functions.size >= 4 && g->count <= (g->functions.size - 4) / 8;
}

static int add_function(struct symbol_table *t, const struct elf_file *f, const struct go_table *g,
			uint64_t i)
{
	const uint8_t *entry = g->functions.data + 8 * i;
	uint32_t start = load_u32(entry), end = load_u32(entry + 8);
	struct elf_bytes function = from(g->functions, load_u32(entry + 4));
	struct symbol symbol = { .start = g->code + start, .end = g->code + end };

	/* The start is stored twice; both must agree. */
	if (end <= start || function.size < 8 || load_u32(function.data) != start ||
	    symbol.end < symbol.start || !elf_is_code(f, symbol.start))
		return 0;
	symbol.name = elf_string(g->names, load_u32(function.data + 4));
	return symbol.name && *symbol.name ? vec_push(&t->symbols, symbol) : 0;
}

int symbol_table_add_go(struct symbol_table *t, const struct elf_file *f)
{
	struct go_table g;

	/* In position-independent programs, the file does not contain the address of the code. */
	if (!read_header(elf_named_contents(f, ".gopclntab"), &g) || !elf_is_code(f, g.code))
		return 0;
	for (uint64_t i = 0; i < g.count; i++)
		if (add_function(t, f, &g, i) < 0)
			return -ENOMEM;
	return 0;
}
