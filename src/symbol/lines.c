/* lines.c: finds units by address, and their line tables and scopes. */
#include "symbol/lines.h"

#include "symbol/dwarf_line.h"
#include "symbol/dwarf_scopes.h"

/* A line table, which several units may share. */
struct shared_table {
	struct line_table table;
	const struct dwarf_unit *unit; /* the first unit with this table */
};

struct loaded_unit {
	bool is_loaded;
	uint32_t table; /* index of tables */
	struct scopes scopes;
};

struct lines {
	struct dwarf_file dwarf;
	struct range_table ranges; /* address -> index of unit */
	struct loaded_unit *loaded; /* indexed by unit */
	VEC(struct shared_table) tables;
	struct map table_at; /* offset in .debug_line -> index of tables */
	uint64_t line_budget, name_budget;
	struct map paths; /* table << 32 | file -> id of a text, or UINT64_MAX: none */
	struct map names; /* entry -> id of the text of its qualified name */
	struct interner texts;
	size_t split_units;
};

static int index_units(struct lines *l)
{
	for (size_t i = 0; i < l->dwarf.units.count; i++) {
		struct dwarf_unit *u = &l->dwarf.units.data[i];
		struct dwarf_extent extent;

		if (!dwarf_unit_read(&l->dwarf, u, &extent))
			continue;
		l->split_units += u->is_split;
		if (u->is_code && dwarf_add_ranges(&l->dwarf, u, &extent, UINT32_MAX - (uint32_t)i,
						   (uint32_t)i, &l->ranges) < 0)
			return -ENOMEM;
	}
	return range_table_finish(&l->ranges);
}

static int open_alt(const struct elf_file *alt, struct dwarf_file **out)
{
	*out = NULL;
	if (!alt)
		return 0;
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	if (dwarf_open(*out, alt, alt, NULL) == 0)
		return 0;
	dwarf_release(*out);
	free(*out);
	return -ENOMEM;
}

static int open_all(struct lines *l, const struct elf_file *debug, const struct elf_file *code,
		    const struct elf_file *alt)
{
	struct dwarf_file *shared;
	int rc = open_alt(alt, &shared);

	if (rc == 0)
		rc = dwarf_open(&l->dwarf, debug, code, shared);
	if (rc < 0)
		return rc;
	l->line_budget = 4 * (uint64_t)l->dwarf.line.size;
	l->name_budget = 4 * (uint64_t)l->dwarf.info.size;
	l->loaded = calloc(l->dwarf.units.count + 1, sizeof(*l->loaded));
	return l->loaded ? index_units(l) : -ENOMEM;
}

int lines_open(const struct elf_file *debug, const struct elf_file *code,
	       const struct elf_file *alt, struct lines **out)
{
	struct lines *l;
	int rc;

	*out = NULL;
	if (!elf_named_contents(debug, ".debug_info").data)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	interner_init(&l->texts);
	rc = open_all(l, debug, code, alt);
	if (rc < 0)
		lines_free(l);
	else
		*out = l;
	return rc;
}

void lines_free(struct lines *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->loaded && i < l->dwarf.units.count; i++)
		scopes_release(&l->loaded[i].scopes);
	for (size_t i = 0; i < l->tables.count; i++)
		line_table_release(&l->tables.data[i].table);
	vec_release(&l->tables);
	free(l->loaded);
	range_table_release(&l->ranges);
	map_release(&l->table_at);
	map_release(&l->paths);
	map_release(&l->names);
	interner_release(&l->texts);
	dwarf_release(&l->dwarf);
	free(l);
}

static int load_table(struct lines *l, const struct dwarf_unit *u, uint32_t *index)
{
	uint64_t offset = u->has_lines ? u->lines_offset : UINT64_MAX, known;
	struct shared_table shared = { .unit = u };

	if (map_get(&l->table_at, offset, &known)) {
		*index = (uint32_t)known;
		return 0;
	}
	if (line_table_read(&shared.table, u, &l->line_budget) < 0)
		return -ENOMEM;
	*index = (uint32_t)l->tables.count;
	if (vec_push(&l->tables, shared) < 0) {
		line_table_release(&shared.table);
		return -ENOMEM;
	}
	return map_put(&l->table_at, offset, *index);
}

static struct loaded_unit *load_unit(struct lines *l, uint32_t index)
{
	const struct dwarf_unit *u = &l->dwarf.units.data[index];
	struct loaded_unit *loaded = &l->loaded[index];

	if (loaded->is_loaded)
		return loaded;
	if (load_table(l, u, &loaded->table) < 0)
		return NULL;
	if (!u->is_split && scopes_read(&loaded->scopes, &l->dwarf, u) < 0)
		return NULL;
	loaded->is_loaded = true;
	return loaded;
}

/* NULL: unknown, or no memory, which is the same here. */
static const char *path_of(struct lines *l, uint32_t table, uint64_t file)
{
	const struct shared_table *shared = &l->tables.data[table];
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	uint64_t *known;

	if (file >= UINT32_MAX)
		return NULL;
	known = map_at(&l->paths, (uint64_t)table << 32 | file, UINT64_MAX - 1);
	if (!known)
		return NULL;
	if (*known == UINT64_MAX - 1) {
		*known = UINT64_MAX;
		if (line_table_path(&shared->table, shared->unit, file, &path) && !path.failed) {
			int64_t id = interner_add(&l->texts, path.data, path.length, NULL);

			*known = id < 0 ? UINT64_MAX : (uint64_t)id;
		}
	}
	return *known == UINT64_MAX ? NULL : l->texts.items[*known].text;
}

/*
 * Returns the name of a function; NULL: unknown. C++ compilers give no linkage name to functions
 * that are inlined everywhere and have internal types: such a name is qualified with its namespaces
 * and classes.
 */
static const char *name_of(struct lines *l, uint32_t unit, struct dwarf_value function)
{
	struct dwarf_name name = dwarf_function_name(&l->dwarf, function);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t *known;
	int64_t id;

	if (!name.text || name.is_linkage || name.unit != &l->dwarf.units.data[unit])
		return name.text;
	known = map_at(&l->names, name.entry, UINT64_MAX);
	if (!known)
		return name.text;
	if (*known == UINT64_MAX) {
		if (!scopes_qualify(&l->loaded[unit].scopes, name.unit, name.entry, &l->name_budget,
				    &text))
			strbuf_clear(&text);
		strbuf_adds(&text, name.text);
		id = text.failed ? -1 : interner_add(&l->texts, text.data, text.length, NULL);
		if (id < 0)
			return name.text;
		*known = (uint64_t)id;
	}
	return l->texts.items[*known].text;
}

/*
 * Lists the scopes that contain an address, innermost first. It terminates, because a scope's
 * parent was read before the scope.
 */
static unsigned scope_chain(const struct scopes *s, uint64_t address,
			    uint32_t chain[SOURCE_FRAMES_MAX])
{
	uint32_t scope = scopes_find(s, address);
	unsigned count = 0;

	while (scope != SCOPE_NONE && count < SOURCE_FRAMES_MAX) {
		chain[count++] = scope;
		scope = s->items.data[scope].parent;
	}
	return count;
}

int lines_find(struct lines *l, uint64_t address, struct source_frame frames[SOURCE_FRAMES_MAX])
{
	uint32_t unit = range_table_find(&l->ranges, address), chain[SOURCE_FRAMES_MAX];
	struct loaded_unit *loaded;
	const struct line_row *row;
	const char *file = NULL;
	uint32_t line = 0;
	unsigned count;

	if (unit == RANGE_NONE)
		return 0;
	loaded = load_unit(l, unit);
	if (!loaded)
		return -ENOMEM;
	row = line_table_find(&l->tables.data[loaded->table].table, address);
	if (row) {
		file = path_of(l, loaded->table, row->file);
		line = row->line;
	}
	count = scope_chain(&loaded->scopes, address, chain);
	/* The innermost frame has the line of the instruction, the others those of their calls. */
	for (unsigned i = 0; i < count; i++) {
		const struct scope *s = &loaded->scopes.items.data[chain[i]];

		frames[count - 1 - i] =
			(struct source_frame){ name_of(l, unit, s->name), file, line };
		file = path_of(l, loaded->table, s->call_file);
		line = s->call_line;
	}
	if (count == 0 && file)
		frames[count++] = (struct source_frame){ NULL, file, line };
	return (int)count;
}

size_t lines_split_units(const struct lines *l)
{
	return l ? l->split_units : 0;
}
