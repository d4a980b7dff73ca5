/* dwarf_scopes.h: functions and the calls inlined into them, of one unit. */
#ifndef PITOT_SYMBOL_DWARF_SCOPES_H
#define PITOT_SYMBOL_DWARF_SCOPES_H

#include "base/strbuf.h"
#include "symbol/dwarf_file.h"

#define SCOPE_NONE UINT32_MAX

struct scope {
	uint32_t parent; /* what it is inlined into; SCOPE_NONE: it is a function */
	uint32_t call_line; /* 0: unknown */
	uint64_t call_file; /* index in the line table; UINT64_MAX: unknown */
	struct dwarf_value name; /* reference for dwarf_function_name */
};

/* A namespace or a class. */
struct surrounding {
	uint64_t start, end; /* offsets in .debug_info */
	uint32_t parent; /* SCOPE_NONE: the unit */
	bool is_class;
	bool passed_over; /* its entries were skipped: the list has no classes of it */
	struct dwarf_value name;
};

struct scopes {
	VEC(struct scope) items;
	VEC(struct surrounding) surroundings; /* by start */
	struct range_table ranges; /* values are indexes of items */
};

/* Reads all entries of a unit that dwarf_unit_read has read. 0 or -ENOMEM. */
int scopes_read(struct scopes *s, struct dwarf_file *d, const struct dwarf_unit *u) MUST_USE;
void scopes_release(struct scopes *s);
/* The innermost scope around an address: index of items, or SCOPE_NONE. */
uint32_t scopes_find(const struct scopes *s, uint64_t address);
/*
 * Appends the namespaces and classes around an entry of the unit: "space::class::", or nothing. Its
 * cost is subtracted from *budget; false: the budget was exceeded, and *out is incomplete.
 */
bool scopes_qualify(const struct scopes *s, const struct dwarf_unit *u, uint64_t entry,
		    uint64_t *budget, struct strbuf *out);

#endif
