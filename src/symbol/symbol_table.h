/*
 * symbol_table.h: functions of an ELF file by address, from any number of symbol tables.
 *
 * An address after a symbol's end has no name, never that of the preceding symbol. A symbol without
 * a size ends at the next symbol, the end of its FDE or of its segment, whichever comes first. Of
 * several names of one function, global binding is preferred to local, local to weak; then fewer
 * leading underscores, then the shorter name, then the first in byte order. A function that
 * contains another is interrupted by it and continues after it.
 *
 * The tables of a library of PyTorch have half a million symbols, of which the stacks of a process
 * need a hundred. So only what is near the wanted addresses is read, if these are known before: a
 * zone around each of them, in which nothing depends on symbols outside. Of libtorch_cpu.so that
 * takes 15 ms instead of 180 (bench/results/local-2026-12.txt).
 */
#ifndef PITOT_SYMBOL_SYMBOL_TABLE_H
#define PITOT_SYMBOL_SYMBOL_TABLE_H

#include "elf/elf_file.h"
#include "symbol/range_table.h"

/* Addresses that will be looked up, ascending. */
struct wanted_addresses {
	const uint64_t *data;
	size_t count;
};

/*
 * Where functions begin and end, from .eh_frame, which stripped files keep. A function that the
 * compiler split (foo and foo.cold) has several bounds.
 */
struct bounds {
	uint64_t start, end;
};

struct function_bounds {
	VEC(struct bounds) items; /* sorted by start */
	struct range_table table; /* values are indexes of items */
};

/* Parts of the code: whole functions, and gaps between functions. */
struct code_zones {
	bool is_all; /* everything */
	VEC(struct bounds) items; /* otherwise, without overlaps, sorted by start */
};

bool code_zones_touch(const struct code_zones *z, uint64_t start, uint64_t end);
void code_zones_release(struct code_zones *z);

/*
 * Reads .eh_frame, ignoring malformed entries: all of it, or if there are wanted addresses (ELF
 * addresses, ascending) and .eh_frame_hdr has a search table, only what is in their zones. Returns
 * 0 and *zones, what was read, or -ENOMEM.
 */
int function_bounds_init(struct function_bounds *b, const struct elf_file *f,
			 const struct wanted_addresses *wanted, struct code_zones *zones) MUST_USE;
void function_bounds_release(struct function_bounds *b);
/* Returns the bounds that contain an address, or NULL. */
const struct bounds *function_bounds_find(const struct function_bounds *b, uint64_t address);
/* Returns the start of the next function after the address, or UINT64_MAX. */
uint64_t function_bounds_next(const struct function_bounds *b, uint64_t address);

enum symbol_kind {
	SYMBOL_FUNCTION,
	SYMBOL_IFUNC, /* the resolver that chooses an implementation of `name` */
	SYMBOL_PLT, /* the PLT entry that calls `name` */
};

struct symbol {
	uint64_t start, end;
	const char *name; /* owned by the file; with its version (@@GLIBC_2.14), if any */
	uint8_t kind; /* enum symbol_kind */
	uint8_t rank; /* of several names of a function, the lowest rank wins */
};

struct symbol_table {
	VEC(struct symbol) symbols;
	struct range_table ranges; /* values are indexes of symbols */
	const struct code_zones *zones; /* others are not added; until it is finished */
	bool has_any; /* the files have symbols of functions, in the zones or not */
};

void symbol_table_init(struct symbol_table *t, const struct code_zones *zones);
void symbol_table_release(struct symbol_table *t);
/*
 * Adds .symtab and .dynsym of a file, which must outlive the table. Symbols without a size have end
 * 0 until the table is finished. Returns 0 or -ENOMEM.
 */
int symbol_table_add(struct symbol_table *t, const struct elf_file *f) MUST_USE;
/* Adds the PLT entries of the file with the code, all of them. Returns 0 or -ENOMEM. */
int symbol_table_add_plt(struct symbol_table *t, const struct elf_file *f) MUST_USE;
/* Whether there are PLT entries in the zones. Their names need all other symbols. */
bool symbol_table_needs_plt(const struct elf_file *f, const struct code_zones *zones);
/* Adds the functions of a stripped Go program, all of them. Returns 0 or -ENOMEM. */
int symbol_table_add_go(struct symbol_table *t, const struct elf_file *f) MUST_USE;
/*
 * Must be called once, after all symbols were added. `code` is the file with the code, `bounds` are
 * its function bounds. Returns 0 or -ENOMEM.
 */
int symbol_table_finish(struct symbol_table *t, const struct elf_file *code,
			const struct function_bounds *bounds) MUST_USE;
/* Returns the symbol that contains an address, or NULL. */
const struct symbol *symbol_table_find(const struct symbol_table *t, uint64_t address);

#endif
