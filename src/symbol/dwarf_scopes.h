/* dwarf_scopes.h: the functions of a unit, and the calls inlined into them. */
#ifndef PITOT_SYMBOL_DWARF_SCOPES_H
#define PITOT_SYMBOL_DWARF_SCOPES_H

#include "base/strbuf.h"
#include "symbol/dwarf_file.h"

#define SCOPE_NONE UINT32_MAX

struct scope {
	uint32_t parent; /* the scope that it is inlined into; SCOPE_NONE: it is a function */
	uint32_t call_line; /* 0: unknown */
	uint64_t call_file; /* index in the line table; UINT64_MAX: unknown */
	struct dwarf_value name; /* reference for dwarf_function_name */
};

/* A namespace or class that contains other entries. */
struct container {
	uint64_t start, end; /* offsets in .debug_info */
	uint32_t parent; /* SCOPE_NONE: it is directly in the unit */
	bool is_class;
	bool skipped; /* its entries were not read: the list lacks the classes in it */
	struct dwarf_value name;
};

struct scopes {
	VEC(struct scope) items;
	VEC(struct container) containers; /* sorted by start */
	struct range_table ranges; /* values are indexes of items */
};

/* Reads all entries of a unit, after dwarf_unit_read(). Returns 0 or -ENOMEM. */
int scopes_read(struct scopes *s, struct dwarf_file *d, const struct dwarf_unit *u) MUST_USE;
void scopes_release(struct scopes *s);
/* Returns the innermost scope that contains an address: an index of items, or SCOPE_NONE. */
uint32_t scopes_find(const struct scopes *s, uint64_t address);
/*
 * Appends the namespaces and classes that contain an entry of the unit: "space::class::", or
 * nothing. The cost is subtracted from *budget. Returns false if the budget was exceeded, so that
 * *out is incomplete.
 */
bool scopes_qualify(const struct scopes *s, const struct dwarf_unit *u, uint64_t entry,
		    uint64_t *budget, struct strbuf *out);

#endif
