/* dwarf_scopes.c: one pass over the entries of a unit. */
#include "symbol/dwarf_scopes.h"

#define DEPTH_MAX 4096

struct walk {
	struct scopes *scopes;
	struct dwarf_file *file;
	const struct dwarf_unit *unit;
	uint32_t around[DEPTH_MAX]; /* at each depth: the scope that entries there are in */
	unsigned depth;
};

/* What matters of an entry. */
struct facts {
	struct dwarf_place place;
	struct dwarf_value origin, call_file, call_line;
	uint64_t sibling; /* 0: unknown */
};

static void read_facts(struct dwarf_entry *entry, struct facts *facts)
{
	const struct dwarf_unit *u = entry->unit;

	*facts = (struct facts){ .sibling = 0 };
	for (uint32_t i = 0; i < entry->abbreviation->count; i++) {
		const struct dwarf_attribute *a =
			&u->abbreviations->attributes.data[entry->abbreviation->first + i];
		struct dwarf_value v = dwarf_read(u, &entry->cursor, a);

		switch (a->name) {
		case DW_AT_low_pc:
			facts->place.low = v;
			break;
		case DW_AT_high_pc:
			facts->place.high = v;
			break;
		case DW_AT_ranges:
			facts->place.ranges = v;
			break;
		case DW_AT_abstract_origin:
			facts->origin = v;
			break;
		case DW_AT_call_file:
			facts->call_file = v;
			break;
		case DW_AT_call_line:
			facts->call_line = v;
			break;
		case DW_AT_sibling:
			facts->sibling = v.class == DWARF_REFERENCE ? v.number : 0;
			break;
		}
	}
}

/* The scope that the entry is; SCOPE_NONE: none, such as a declaration. */
static int add_scope(struct walk *w, const struct dwarf_entry *entry, const struct facts *facts,
		     uint32_t *index)
{
	bool is_inlined = entry->abbreviation->tag == DW_TAG_inlined_subroutine;
	struct scope scope = {
		SCOPE_NONE, 0, UINT64_MAX, { DWARF_REFERENCE, entry->offset, NULL }
	};
	size_t before = w->scopes->ranges.ranges.count;

	*index = SCOPE_NONE;
	if (w->scopes->items.count >= SCOPE_NONE - 1)
		return -ENOMEM;
	if (dwarf_add_ranges(w->file, w->unit, &facts->place, UINT32_MAX - w->depth,
			     (uint32_t)w->scopes->items.count, &w->scopes->ranges) < 0)
		return -ENOMEM;
	if (w->scopes->ranges.ranges.count == before)
		return 0;
	if (is_inlined) {
		scope.parent = w->around[w->depth];
		scope.name = facts->origin;
		if (facts->call_line.class == DWARF_CONSTANT)
			scope.call_line = (uint32_t)facts->call_line.number;
		if (facts->call_file.class == DWARF_CONSTANT)
			scope.call_file = facts->call_file.number;
	}
	*index = (uint32_t)w->scopes->items.count;
	return vec_push(&w->scopes->items, scope);
}

/* Entries within which code can be described: what is beside them can be passed over. */
static bool may_have_code(uint32_t tag)
{
	switch (tag) {
	case 0x02: /* class */
	case 0x13: /* structure */
	case 0x17: /* union */
	case 0x04: /* enumeration */
	case 0x15: /* type of a function */
	case 0x01: /* type of an array */
	case 0x48: /* call */
	case 0x4109: /* the same before DWARF 5 */
		return false;
	}
	return true;
}

/*
 * Takes the entry in; its children are walked next, if it has any. Returns where to go on, or 0: no
 * memory.
 */
static uint64_t take_entry(struct walk *w, struct dwarf_entry *entry)
{
	uint32_t tag = entry->abbreviation->tag, scope = SCOPE_NONE;
	bool is_scope = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
	struct facts facts;
	uint64_t next;

	read_facts(entry, &facts);
	next = (uint64_t)(entry->cursor.p - w->unit->file->info.data);
	if (entry->cursor.failed)
		return w->unit->end;
	if (is_scope && add_scope(w, entry, &facts, &scope) < 0)
		return 0;
	if (!entry->abbreviation->has_children)
		return next;
	if (facts.sibling > next && !may_have_code(tag))
		return facts.sibling;
	if (w->depth + 1 >= DEPTH_MAX)
		return w->unit->end;
	w->around[w->depth + 1] = scope != SCOPE_NONE ? scope : w->around[w->depth];
	w->depth++;
	return next;
}

static int walk(struct walk *w)
{
	uint64_t offset = w->unit->entries;
	struct dwarf_entry entry;

	while (dwarf_entry_at(w->unit, offset, &entry)) {
		if (entry.abbreviation) {
			offset = take_entry(w, &entry);
			if (offset == 0)
				return -ENOMEM;
			continue;
		}
		offset = (uint64_t)(entry.cursor.p - w->unit->file->info.data);
		if (w->depth <= 1)
			break;
		w->depth--;
	}
	return 0;
}

int scopes_read(struct scopes *s, struct dwarf_file *d, const struct dwarf_unit *u)
{
	struct walk w = { .scopes = s, .file = d, .unit = u };
	int r;

	*s = (struct scopes){ .ranges = RANGE_TABLE_INIT };
	w.around[0] = SCOPE_NONE;
	r = walk(&w);
	if (r == 0)
		r = range_table_finish(&s->ranges);
	if (r < 0)
		scopes_release(s);
	return r;
}

void scopes_release(struct scopes *s)
{
	vec_release(&s->items);
	range_table_release(&s->ranges);
}

uint32_t scopes_find(const struct scopes *s, uint64_t address)
{
	return range_table_find(&s->ranges, address);
}
