/* dwarf_scopes.c: reads the scopes in one pass over the entries of a unit. */
#include "symbol/dwarf_scopes.h"

#include <string.h>

#include "base/search.h"

#define DEPTH_MAX 4096
#define CONTAINERS_MAX 32u /* maximum for one name */

struct walk {
	struct scopes *scopes;
	struct dwarf_file *file;
	const struct dwarf_unit *unit;
	/* At each depth: the scope and the namespace or class that contain the entries there. */
	uint32_t around[DEPTH_MAX], container[DEPTH_MAX];
	unsigned depth;
};

/* Returns the offset of the next entry at the same depth; 0: unknown. */
static uint64_t sibling_of(const struct dwarf_facts *facts)
{
	return facts->sibling.class == DWARF_REFERENCE ? facts->sibling.number : 0;
}

/* Adds the scope of an entry. *index is SCOPE_NONE if it has none, as a declaration. */
static int add_scope(struct walk *w, const struct dwarf_entry *entry,
		     const struct dwarf_facts *facts, uint32_t *index)
{
	bool is_inlined = entry->abbreviation->tag == DW_TAG_inlined_subroutine;
	struct scope scope = {
		SCOPE_NONE, 0, UINT64_MAX, { DWARF_REFERENCE, entry->offset, NULL }
	};
	size_t before = w->scopes->ranges.ranges.count;

	*index = SCOPE_NONE;
	if (w->scopes->items.count >= SCOPE_NONE - 1)
		return -ENOMEM;
	if (dwarf_add_ranges(w->file, w->unit, &facts->extent, UINT32_MAX - w->depth,
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

static bool is_class(uint32_t tag)
{
	return tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

/* Adds a namespace or class, which qualifies the names of the entries in it. */
static int add_container(struct walk *w, const struct dwarf_entry *entry,
			 const struct dwarf_facts *facts)
{
	struct container around = {
		.start = entry->offset,
		.end = sibling_of(facts) ? sibling_of(facts) : w->unit->end,
		.parent = w->container[w->depth],
		.is_class = is_class(entry->abbreviation->tag),
		.name = facts->name,
	};

	return vec_push(&w->scopes->containers, around);
}

/* Whether an entry can contain entries with code; if not, its children can be skipped. */
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
	case 0x4109: /* call, before DWARF 5 */
		return false;
	}
	return true;
}

/* Handles an entry; its children are walked next. Returns the next offset, or 0: no memory. */
static uint64_t visit_entry(struct walk *w, struct dwarf_entry *entry)
{
	uint32_t tag = entry->abbreviation->tag, scope = SCOPE_NONE;
	bool is_scope = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
	struct dwarf_facts facts;
	uint64_t next;

	dwarf_read_facts(entry, &facts);
	next = (uint64_t)(entry->cursor.p - w->unit->file->info.data);
	if (entry->cursor.failed)
		return w->unit->end;
	if (is_scope && add_scope(w, entry, &facts, &scope) < 0)
		return 0;
	if (!entry->abbreviation->has_children)
		return next;
	if ((tag == DW_TAG_namespace || is_class(tag)) && add_container(w, entry, &facts) < 0)
		return 0;
	if (sibling_of(&facts) > next && !may_have_code(tag)) {
		if (is_class(tag))
			w->scopes->containers.data[w->scopes->containers.count - 1].skipped = true;
		return sibling_of(&facts);
	}
	if (w->depth + 1 >= DEPTH_MAX)
		return w->unit->end;
	w->around[w->depth + 1] = scope != SCOPE_NONE ? scope : w->around[w->depth];
	w->container[w->depth + 1] = tag == DW_TAG_namespace || is_class(tag)
					     ? (uint32_t)w->scopes->containers.count - 1
					     : w->container[w->depth];
	w->depth++;
	return next;
}

/* Handles the end of the current depth. */
static void end_container(struct walk *w, uint64_t offset)
{
	uint32_t i = w->container[w->depth];

	if (i != w->container[w->depth - 1])
		w->scopes->containers.data[i].end = offset;
}

static int walk(struct walk *w)
{
	uint64_t offset = w->unit->entries;
	struct dwarf_entry entry;

	while (dwarf_entry_at(w->unit, offset, &entry)) {
		if (entry.abbreviation) {
			offset = visit_entry(w, &entry);
			if (offset == 0)
				return -ENOMEM;
			continue;
		}
		offset = (uint64_t)(entry.cursor.p - w->unit->file->info.data);
		if (w->depth <= 1)
			break;
		end_container(w, offset);
		w->depth--;
	}
	return 0;
}

int scopes_read(struct scopes *s, struct dwarf_file *d, const struct dwarf_unit *u)
{
	struct walk w = { .scopes = s, .file = d, .unit = u };
	int rc;

	*s = (struct scopes){ .ranges = RANGE_TABLE_INIT };
	w.around[0] = w.container[0] = SCOPE_NONE;
	rc = walk(&w);
	if (rc == 0)
		rc = range_table_finish(&s->ranges);
	if (rc < 0)
		scopes_release(s);
	return rc;
}

void scopes_release(struct scopes *s)
{
	vec_release(&s->items);
	vec_release(&s->containers);
	range_table_release(&s->ranges);
}

uint32_t scopes_find(const struct scopes *s, uint64_t address)
{
	return range_table_find(&s->ranges, address);
}

/* --- namespaces and classes around an entry --- */

static bool spend(uint64_t *budget, uint64_t cost)
{
	bool enough = cost <= *budget;

	*budget -= enough ? cost : *budget;
	return enough;
}

static bool add_name(const struct dwarf_unit *u, struct dwarf_value name, bool is_class_,
		     uint64_t *budget, struct strbuf *out)
{
	const char *text = dwarf_text(u, name);

	if (!text)
		text = is_class_ ? "{unnamed}" : "(anonymous namespace)";
	if (!spend(budget, strlen(text) + 2))
		return false;
	strbuf_adds(out, text);
	strbuf_adds(out, "::");
	return true;
}

/* Returns the innermost known namespace or class that contains an entry. */
static uint32_t find_container(const struct scopes *s, uint64_t entry)
{
	const struct container *all = s->containers.data;
	size_t before = sorted_prefix(s->containers.count, i, all[i].start < entry);
	uint32_t at = before ? (uint32_t)before - 1 : SCOPE_NONE;

	while (at != SCOPE_NONE && all[at].end <= entry)
		at = all[at].parent;
	return at;
}

/* Adds the classes between an entry and `class`, whose contents walk() has skipped. */
static bool add_inner_classes(const struct dwarf_unit *u, uint64_t class, uint64_t entry,
			      uint64_t *budget, struct strbuf *out)
{
	struct dwarf_value names[CONTAINERS_MAX];
	unsigned depths[CONTAINERS_MAX], count = 0, depth = 0;
	uint64_t offset = class;
	struct dwarf_entry e;

	while (offset < entry && dwarf_entry_at(u, offset, &e)) {
		struct dwarf_facts facts = { 0 };

		if (e.abbreviation)
			dwarf_read_facts(&e, &facts);
		if (e.cursor.failed || !spend(budget, 1))
			return false;
		offset = (uint64_t)(e.cursor.p - u->file->info.data);
		if (!e.abbreviation) {
			if (depth-- == 0)
				return true;
			count -= count && depths[count - 1] > depth;
		} else if (e.abbreviation->has_children) {
			if (sibling_of(&facts) > offset && sibling_of(&facts) <= entry) {
				offset = sibling_of(&facts);
				continue;
			}
			if (depth && is_class(e.abbreviation->tag) && count < CONTAINERS_MAX) {
				names[count] = facts.name;
				depths[count++] = depth + 1;
			}
			depth++;
		}
	}
	for (unsigned i = 0; i < count; i++)
		if (!add_name(u, names[i], true, budget, out))
			return false;
	return true;
}

bool scopes_qualify(const struct scopes *s, const struct dwarf_unit *u, uint64_t entry,
		    uint64_t *budget, struct strbuf *out)
{
	const struct container *all = s->containers.data;
	uint32_t chain[CONTAINERS_MAX], count = 0;

	for (uint32_t i = find_container(s, entry); i != SCOPE_NONE && count < CONTAINERS_MAX;
	     i = all[i].parent)
		chain[count++] = i;
	for (uint32_t i = count; i-- > 0;)
		if (!add_name(u, all[chain[i]].name, all[chain[i]].is_class, budget, out))
			return false;
	return !count || !all[chain[0]].skipped ||
	       add_inner_classes(u, all[chain[0]].start, entry, budget, out);
}
