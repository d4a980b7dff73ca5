/*
 * symbol_table.h: functions of an ELF file by address, from any number of symbol tables.
 *
 * An address after a symbol's end has no name, never that of the preceding symbol. A symbol without
 * a size ends at the next symbol, the end of its FDE or of its segment, whichever comes first. Of
 * several names of one function, global binding is preferred to local, local to weak; then fewer
 * leading underscores, then the shorter name, then the first in byte order. A function that
 * contains another is interrupted by it and continues after it.
 */
#ifndef PITOT_SYMBOL_SYMBOL_TABLE_H
#define PITOT_SYMBOL_SYMBOL_TABLE_H

#include "elf/elf_file.h"
#include "symbol/range_table.h"

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

/* Reads all of .eh_frame, ignoring malformed entries. Returns 0 or -ENOMEM. */
int function_bounds_init(struct function_bounds *b, const struct elf_file *f) MUST_USE;
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
};

void symbol_table_init(struct symbol_table *t);
void symbol_table_release(struct symbol_table *t);
/*
 * Adds .symtab and .dynsym of a file, which must outlive the table. Symbols without a size have end
 * 0 until the table is finished. Returns 0 or -ENOMEM.
 */
int symbol_table_add(struct symbol_table *t, const struct elf_file *f) MUST_USE;
/* Adds the PLT entries of the file with the code. Returns 0 or -ENOMEM. */
int symbol_table_add_plt(struct symbol_table *t, const struct elf_file *f) MUST_USE;
/* Adds the functions of a stripped Go program. Returns 0 or -ENOMEM. */
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
