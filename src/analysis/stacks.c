#include "analysis/stacks.h"

#include <string.h>

#include "analysis/filter.h"
#include "analysis/stacks_names.h"
#include "base/search.h"
#include "names/module_name.h"
#include "trace/columns.h"

#define TEXTS_MAX ((size_t)1 << 30) /* bytes of all names */

/* A symbol of an address; symbols of one address are consecutive, by inline depth. */
struct stack_symbol {
	uint64_t address;
	uint32_t process, depth, row;
};

struct stack_module {
	uint64_t start;
	uint32_t process, row;
};

/* A value of a column of numbers or strings; 0 when it is missing. */
static uint32_t row_number(const struct stacks *s, enum table_id table, int column, uint64_t row)
{
	const uint8_t *valid = trace_valid(s->trace, table, column);

	return valid && !valid[row] ? 0 : trace_u32(s->trace, table, column)[row];
}

ORDER(compare_symbols, struct stack_symbol, UP(process) ?: UP(address) ?: UP(depth) ?: UP(row))

/* Symbols with equal address and depth come from resolving twice; keeps the last. */
static size_t drop_repeated(struct stack_symbol *symbols, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (i + 1 < count && symbols[i].process == symbols[i + 1].process &&
		    symbols[i].address == symbols[i + 1].address &&
		    symbols[i].depth == symbols[i + 1].depth)
			continue;
		symbols[kept++] = symbols[i];
	}
	return kept;
}

static int index_symbols(struct stacks *s)
{
	const uint64_t *addresses = symbol_columns(s->trace)->address;
	const uint64_t *sessions = symbol_columns(s->trace)->session;
	const uint32_t *depths = symbol_columns(s->trace)->inline_depth;
	uint64_t rows = trace_rows(s->trace, TABLE_symbol), process;
	struct map processes = MAP_INIT;
	int rc = 0;

	s->symbols = calloc(rows + 1, sizeof(*s->symbols));
	if (!s->symbols)
		return -ENOMEM;
	for (size_t p = 0; p < trace_process_count(s->trace) && rc >= 0; p++)
		rc = map_put(&processes, trace_process(s->trace, p)->session, p);
	for (uint64_t row = 0; row < rows && rc >= 0; row++)
		if (map_get(&processes, sessions[row], &process))
			s->symbols[s->symbol_count++] =
				(struct stack_symbol){ addresses[row], (uint32_t)process,
						       depths[row], (uint32_t)row };
	map_release(&processes);
	qsort(s->symbols, s->symbol_count, sizeof(*s->symbols), compare_symbols);
	s->symbol_count = drop_repeated(s->symbols, s->symbol_count);
	return rc;
}

ORDER(compare_modules, struct stack_module, UP(process) ?: UP(start) ?: UP(row))

static int index_modules(struct stacks *s)
{
	const uint64_t *starts = module_columns(s->trace)->start_address;
	uint64_t rows = trace_rows(s->trace, TABLE_module);

	s->modules = calloc(rows + 1, sizeof(*s->modules));
	if (!s->modules)
		return -ENOMEM;
	for (uint64_t row = 0; row < rows; row++)
		s->modules[row] = (struct stack_module){
			starts[row],
			(uint32_t)trace_row_process(s->trace, TABLE_module, row),
			(uint32_t)row,
		};
	s->module_count = rows;
	qsort(s->modules, s->module_count, sizeof(*s->modules), compare_modules);
	return 0;
}

/* Finds the module that contains the address, the last mapped if several; TRACE_NO_ROW: none. */
static uint32_t find_module(const struct stacks *s, size_t process, uint64_t address)
{
	const uint64_t *ends = module_columns(s->trace)->end_address;
	const struct stack_module *all = s->modules;
	size_t low = sorted_prefix(s->module_count, i,
				   all[i].process < process ||
					   (all[i].process == process && all[i].start <= address));
	uint32_t found = TRACE_NO_ROW;

	/* modules overlap only where a library was mapped over another one */
	for (unsigned tries = 0; low-- > 0 && tries < 16; tries++) {
		const struct stack_module *m = &s->modules[low];

		if (m->process != process)
			break;
		if (address < ends[m->row] && (found == TRACE_NO_ROW || m->row > found))
			found = m->row;
	}
	return found;
}

/* Finds the symbols of an address: returns the first, and sets *count. */
static const struct stack_symbol *find_symbols(const struct stacks *s, size_t process,
					       uint64_t address, size_t *count)
{
	struct stack_symbol key = { .address = address, .process = (uint32_t)process };
	size_t low = sorted_prefix(s->symbol_count, i, compare_symbols(&s->symbols[i], &key) < 0);
	size_t end;

	for (end = low; end < s->symbol_count && s->symbols[end].process == process &&
			s->symbols[end].address == address;)
		end++;
	*count = end - low;
	return &s->symbols[low];
}

const char *stacks_text(const struct stacks *s, uint32_t text)
{
	return s->texts.items[text].text;
}

int64_t stacks_add_text(struct stacks *s, const char *text, size_t length)
{
	if (s->texts.bytes > TEXTS_MAX)
		return -ENOMEM;
	return interner_add(&s->texts, text, length, NULL);
}

static int add_text(struct stacks *s, const char *text, uint32_t *id)
{
	int64_t rc = stacks_add_text(s, text, strlen(text));

	if (rc < 0)
		return -ENOMEM;
	*id = (uint32_t)rc;
	return 0;
}

/* Frames are equal if they are displayed alike and, with STACK_ADDRESSES, have equal addresses. */
static int64_t intern_frame(struct stacks *s, const struct stack_frame *frame, uint32_t process)
{
	struct {
		uint64_t address;
		uint32_t name, class, process, file;
	} key = { .name = frame->name, .class = frame->class };
	bool is_new;
	int64_t id;

	if (s->detail == STACK_ADDRESSES) {
		key.address = frame->address;
		key.process = frame->address ? process : 0;
		key.file = frame->file;
	}
	id = interner_add(&s->keys, &key, sizeof(key), &is_new);
	if (id < 0 || !is_new)
		return id;
	return vec_push(&s->frames, *frame) < 0 ? -ENOMEM : id;
}

int64_t stacks_add_frame(struct stacks *s, enum frame_class class, const char *name,
			 const char *full_name, const char *system_name)
{
	struct stack_frame frame = { .module = TRACE_NO_ROW, .class = (uint8_t) class };

	if (add_text(s, name, &frame.name) < 0 ||
	    add_text(s, full_name ? full_name : name, &frame.full_name) < 0 ||
	    add_text(s, system_name ? system_name : "", &frame.system_name) < 0)
		return -ENOMEM;
	return intern_frame(s, &frame, 0);
}

int64_t stacks_add_line(struct stacks *s, enum frame_class class, const char *name,
			const char *function, const char *file, uint32_t line)
{
	struct stack_frame frame = { .module = TRACE_NO_ROW,
				     .class = (uint8_t) class,
				     .line = line,
				     .first_line = (uint32_t)s->lines.count,
				     .line_count = s->detail == STACK_ADDRESSES };
	struct stack_line of = { .line = line };

	if (add_text(s, name, &frame.name) < 0 || add_text(s, function, &of.function) < 0 ||
	    add_text(s, file, &frame.file) < 0)
		return -ENOMEM;
	frame.full_name = frame.name;
	of.full_name = of.function;
	of.file = frame.file;
	if (frame.line_count && vec_push(&s->lines, of) < 0)
		return -ENOMEM;
	return intern_frame(s, &frame, 0);
}

/* Begins an expansion; expand_add adds its frames. */
static int64_t expansion_new(struct stacks *s)
{
	struct stack_expansion new = { .first = (uint32_t)s->expanded.count };

	if (s->expansions.count >= UINT32_MAX || s->expanded.count >= UINT32_MAX ||
	    vec_push(&s->expansions, new) < 0)
		return -ENOMEM;
	return (int64_t)s->expansions.count - 1;
}

static int expand_add(struct stacks *s, const struct stack_frame *frame, size_t process)
{
	int64_t id = intern_frame(s, frame, (uint32_t)process);

	if (id < 0 || vec_push(&s->expanded, (uint32_t)id) < 0)
		return -ENOMEM;
	s->expansions.data[s->expansions.count - 1].count++;
	return 0;
}

/* A place in code whose frames are being made. */
struct place {
	size_t process;
	uint64_t address;
	uint32_t module;
	enum frame_class class;
	bool returns; /* the address is a return address, not that of the running instruction */
	const struct stack_symbol *symbols; /* outermost first */
	size_t count;
};

static const char *module_path(const struct stacks *s, const struct place *p)
{
	return p->module == TRACE_NO_ROW
		       ? ""
		       : row_text(s->trace, TABLE_module, COLUMN_module_path, p->module);
}

/* xpu-perf shows the last byte of the call instruction, not the return address. */
static uint64_t xpu_perf_shift(const struct stacks *s, const struct place *p)
{
	return s->detail == STACK_XPU_PERF && p->returns;
}

/* Names code of an unknown function, by its offset in its file. */
static void unknown_name(const struct stacks *s, const struct place *p, struct strbuf *out)
{
	const char *path = module_path(s, p);
	uint64_t bias = 0, start;
	bool missing = true;

	if (p->module != TRACE_NO_ROW)
		bias = module_columns(s->trace)->load_bias[p->module];
	start = p->address - bias;
	if (p->count && s->detail != STACK_XPU_PERF) {
		uint64_t known = trace_value(s->trace, TABLE_symbol, COLUMN_symbol_function_start,
					     p->symbols[0].row, &missing);

		start = missing ? start : known;
	}
	if (p->count && !*path)
		path = row_text(s->trace, TABLE_symbol, COLUMN_symbol_module, p->symbols[0].row);
	if (*path) {
		module_name(path, out);
		strbuf_addf(out, "+0x%llx", (unsigned long long)(start - xpu_perf_shift(s, p)));
	} else if (s->detail == STACK_XPU_PERF) {
		strbuf_addf(out, "0x%llx", (unsigned long long)p->address);
	} else {
		strbuf_adds(out, p->class == FRAME_SYSTEM ? "[unknown kernel code]" : "[unknown]");
	}
}

/* Appends the offset in the function, as xpu-perf does. */
static void add_offset(const struct stacks *s, const struct place *p, uint32_t row,
		       struct strbuf *name)
{
	bool missing;
	uint64_t start =
		trace_value(s->trace, TABLE_symbol, COLUMN_symbol_function_start, row, &missing);
	uint64_t bias = 0;

	if (p->module != TRACE_NO_ROW)
		bias = module_columns(s->trace)->load_bias[p->module];
	if (!missing && p->address - bias >= start + xpu_perf_shift(s, p))
		strbuf_addf(name, "+0x%llx",
			    (unsigned long long)(p->address - bias - start - xpu_perf_shift(s, p)));
}

/* Makes the line of one function of a place; i: item of p->symbols, ignored if there are none. */
static int make_line(struct stacks *s, const struct place *p, size_t i, struct stack_line *line)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	uint32_t row = p->count ? p->symbols[i].row : 0;
	const char *function =
		p->count ? row_text(s->trace, TABLE_symbol, COLUMN_symbol_function, row) : "";

	*line = (struct stack_line){ 0 };
	if (*function)
		function_name_short(function, &name);
	else
		unknown_name(s, p, &name);
	if (*function && s->detail == STACK_XPU_PERF)
		add_offset(s, p, row, &name);
	if (name.failed || add_text(s, strbuf_text(&name), &line->function) < 0 ||
	    add_text(s, *function ? function : strbuf_text(&name), &line->full_name) < 0)
		return -ENOMEM;
	if (!p->count)
		return 0;
	line->line = row_number(s, TABLE_symbol, COLUMN_symbol_line, row);
	return add_text(s, row_text(s->trace, TABLE_symbol, COLUMN_symbol_file, row), &line->file);
}

static struct stack_frame frame_of(const struct stacks *s, const struct place *p,
				   const struct stack_line *line, size_t i)
{
	return (struct stack_frame){
		.name = s->full_names ? line->full_name : line->function,
		.full_name = line->full_name,
		.file = line->file,
		.line = line->line,
		.module = p->module,
		.address = s->detail == STACK_ADDRESSES ? p->address : 0,
		.class = (uint8_t)(i ? FRAME_INLINED : p->class),
	};
}

/* Makes one frame with all functions at a place as its lines. */
static int expand_address(struct stacks *s, const struct place *p, struct stack_line *line)
{
	size_t count = MAX(p->count, 1);
	struct stack_frame frame;

	for (size_t i = count; i-- > 0;) {
		struct stack_line one;

		if (make_line(s, p, i, &one) < 0 || vec_push(&s->lines, one) < 0)
			return -ENOMEM;
		if (i == count - 1)
			*line = one;
	}
	frame = frame_of(s, p, line, 0);
	frame.first_line = (uint32_t)(s->lines.count - count);
	frame.line_count = (uint32_t)count;
	return expand_add(s, &frame, p->process);
}

static int expand_functions(struct stacks *s, const struct place *p, struct stack_line *line)
{
	/* xpu-perf does not show inlined functions */
	size_t count = s->detail == STACK_XPU_PERF ? 1 : MAX(p->count, 1);

	for (size_t i = 0; i < count; i++) {
		struct stack_frame frame;

		if (make_line(s, p, i, line) < 0)
			return -ENOMEM;
		frame = frame_of(s, p, line, i);
		if (expand_add(s, &frame, p->process) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int64_t expand_native(struct stacks *s, size_t process, uint64_t address,
			     enum frame_kind kind)
{
	struct place p = {
		.process = process,
		.address = address,
		.class = kind == frame_kind_kernel ? FRAME_SYSTEM : FRAME_NATIVE,
		.returns = kind == frame_kind_native,
	};
	uint64_t *known = map_at(&s->addresses[process], address, UINT64_MAX);
	struct stack_line line;
	int64_t id;
	int rc;

	if (!known)
		return -ENOMEM;
	if (*known != UINT64_MAX)
		return (int64_t)*known;
	p.module = p.class == FRAME_SYSTEM ? TRACE_NO_ROW : find_module(s, process, address);
	p.symbols = find_symbols(s, process, address, &p.count);
	id = expansion_new(s);
	if (id < 0)
		return id;
	rc = s->detail == STACK_ADDRESSES ? expand_address(s, &p, &line)
					  : expand_functions(s, &p, &line);
	if (rc < 0)
		return rc;
	s->expansions.data[id].innermost = line.function;
	s->expansions.data[id].vendor = is_vendor_module(module_path(s, &p));
	s->expansions.data[id].runs_python = runs_python(module_path(s, &p));
	*known = (uint64_t)id;
	return id;
}

/* Adds the only frame of a Python expansion. */
static int make_python(struct stacks *s, int64_t id, const char *function, const char *file,
		       uint32_t line_number)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	struct stack_frame frame = { .line = line_number,
				     .module = TRACE_NO_ROW,
				     .class = FRAME_PYTHON };
	struct stack_line line = { .line = line_number };

	if (s->no_lines && s->detail != STACK_ADDRESSES)
		line_number = frame.line = line.line = 0;
	function = *function ? function : "?";
	python_name(function, file, line_number, &name);
	if (name.failed || add_text(s, function, &line.function) < 0 ||
	    add_text(s, file, &line.file) < 0 || add_text(s, strbuf_text(&name), &frame.name) < 0)
		return -ENOMEM;
	line.full_name = line.function;
	frame.full_name = frame.name;
	frame.file = line.file;
	if (s->detail == STACK_ADDRESSES) {
		frame.first_line = (uint32_t)s->lines.count;
		frame.line_count = 1;
		if (vec_push(&s->lines, line) < 0)
			return -ENOMEM;
	}
	s->expansions.data[id].innermost = line.function;
	s->expansions.data[id].python = true;
	return expand_add(s, &frame, 0);
}

/* Expansions are keyed by string ids, because equal strings have equal ids. */
static int64_t expand_python(struct stacks *s, uint32_t node)
{
	const uint32_t key[] = {
		row_number(s, TABLE_stack_node, COLUMN_stack_node_function, node),
		row_number(s, TABLE_stack_node, COLUMN_stack_node_file, node),
		row_number(s, TABLE_stack_node, COLUMN_stack_node_line, node),
	};
	bool is_new;
	int64_t known = interner_add(&s->python, key, sizeof(key), &is_new), id;

	if (known < 0 || !is_new)
		return known < 0 ? known : s->python_expansions.data[known];
	id = expansion_new(s);
	if (id < 0 || vec_push(&s->python_expansions, (uint32_t)id) < 0 ||
	    make_python(s, id, trace_string(s->trace, key[0]), trace_string(s->trace, key[1]),
			key[2]) < 0)
		return -ENOMEM;
	return id;
}

int64_t stacks_expand(struct stacks *s, size_t process, uint32_t node)
{
	uint8_t kind = trace_u8(s->trace, TABLE_stack_node, COLUMN_stack_node_kind)[node];

	if (kind == frame_kind_python)
		return expand_python(s, node);
	return expand_native(s, process, stack_node_columns(s->trace)->address[node],
			     (enum frame_kind)kind);
}

/*
 * Finds the row of an id of a process. Each segment repeats the rows that it needs, so an id may
 * have several equal rows. The first is used: it comes after the first row of the node's caller.
 */
static int find_row(const struct trace *t, enum table_id table, int column, struct id_table *ids,
		    size_t process, uint32_t id, uint32_t *row)
{
	uint64_t first = trace_first_row(t, table, process);
	uint64_t end = trace_first_row(t, table, process + 1);
	uint32_t found;

	*row = TRACE_NO_ROW;
	if (!id || first == end)
		return 0;
	if (!ids[process].span &&
	    id_table_fill(&ids[process], trace_u32(t, table, column) + first, NULL, (uint32_t)first,
			  end - first, id_table_spare(trace_process_count(t))) < 0)
		return -ENOMEM;
	found = id_table_get(&ids[process], id);
	if (found != ID_ABSENT)
		*row = found;
	return 0;
}

static int find_node(const struct stacks *s, size_t process, uint32_t id, uint32_t *row)
{
	return find_row(s->trace, TABLE_stack_node, COLUMN_stack_node_id, s->node_ids, process, id,
			row);
}

int stacks_find_row(struct stacks *s, size_t process, uint32_t id, uint32_t *row)
{
	return find_row(s->trace, TABLE_stack, COLUMN_stack_id, s->stack_ids, process, id, row);
}

/*
 * Finds the parents of all nodes of a process. Nodes are written before their children; any other
 * order is damage, and might be a cycle. Stacks deeper than any recorder writes are cut and marked,
 * so that a small hostile file cannot cause unbounded work.
 */
static int find_parents(struct stacks *s, size_t process)
{
	const uint32_t *ids = stack_node_columns(s->trace)->parent;
	uint64_t first = trace_first_row(s->trace, TABLE_stack_node, process);
	uint64_t end = trace_first_row(s->trace, TABLE_stack_node, process + 1);
	struct stack_parent *parents = malloc((end - first + 1) * sizeof(*parents));
	int rc = parents ? 0 : -ENOMEM;

	for (uint64_t row = first; row < end && rc == 0; row++) {
		struct stack_parent *p = &parents[row - first];
		const struct stack_parent *caller;

		*p = (struct stack_parent){ .depth = 1 };
		rc = find_node(s, process, ids[row], &p->row);
		if (p->row >= row)
			p->row = TRACE_NO_ROW;
		if (p->row == TRACE_NO_ROW)
			continue;
		caller = &parents[p->row - first];
		p->cut = caller->cut || caller->depth == STACK_DEPTH_MAX;
		if (caller->depth == STACK_DEPTH_MAX)
			p->row = TRACE_NO_ROW;
		else
			p->depth = caller->depth + 1;
	}
	if (rc < 0)
		free(parents);
	else
		s->parents[process] = parents;
	return rc;
}

/* Parent of a node; NULL: out of memory. */
static const struct stack_parent *parent_of(struct stacks *s, size_t process, uint32_t node)
{
	if (!s->parents[process] && find_parents(s, process) < 0)
		return NULL;
	return &s->parents[process][node - trace_first_row(s->trace, TABLE_stack_node, process)];
}

int stacks_find(struct stacks *s, size_t process, uint32_t id, uint32_t *node, enum stack_end *end)
{
	const struct stack_parent *parent;
	uint32_t row;
	int rc = stacks_find_row(s, process, id, &row);

	*node = TRACE_NO_ROW;
	if (rc < 0 || row == TRACE_NO_ROW)
		return rc;
	*end = (enum stack_end)trace_u8(s->trace, TABLE_stack, COLUMN_stack_end)[row];
	rc = find_node(s, process, stack_columns(s->trace)->node[row], node);
	if (rc < 0 || *node == TRACE_NO_ROW)
		return rc;
	parent = parent_of(s, process, *node);
	if (parent && parent->cut)
		*end = stack_end_depth;
	return parent ? 0 : -ENOMEM;
}

int stacks_parent(struct stacks *s, size_t process, uint32_t node, uint32_t *parent)
{
	const struct stack_parent *found = parent_of(s, process, node);

	*parent = found ? found->row : TRACE_NO_ROW;
	return found ? 0 : -ENOMEM;
}

static int load(struct trace *t, struct error *e)
{
	static const enum table_id tables[] = { TABLE_stack_node, TABLE_stack, TABLE_symbol,
						TABLE_module };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && rc >= 0; i++)
		rc = trace_load(t, tables[i], 0, e);
	return rc;
}

int stacks_init(struct stacks *s, struct trace *t, enum stack_detail detail, bool full_names,
		struct error *e)
{
	int rc = load(t, e);

	if (rc < 0)
		return rc;
	*s = (struct stacks){ .trace = t, .detail = detail, .full_names = full_names };
	interner_init(&s->texts);
	interner_init(&s->keys);
	interner_init(&s->python);
	s->addresses = calloc(trace_process_count(t) + 1, sizeof(*s->addresses));
	s->node_ids = calloc(trace_process_count(t) + 1, sizeof(*s->node_ids));
	s->stack_ids = calloc(trace_process_count(t) + 1, sizeof(*s->stack_ids));
	s->parents = calloc(trace_process_count(t) + 1, sizeof(*s->parents));
	if (s->addresses && s->node_ids && s->stack_ids && s->parents &&
	    stacks_add_text(s, "", 0) == 0 && index_symbols(s) >= 0 && index_modules(s) >= 0)
		return 0;
	stacks_release(s);
	return error_set(e, -ENOMEM, "out of memory");
}

static void release_ids(const struct stacks *s, struct id_table *ids)
{
	for (size_t p = 0; ids && p < trace_process_count(s->trace); p++)
		id_table_release(&ids[p]);
	free(ids);
}

void stacks_release(struct stacks *s)
{
	for (size_t p = 0; s->addresses && p < trace_process_count(s->trace); p++)
		map_release(&s->addresses[p]);
	for (size_t p = 0; s->parents && p < trace_process_count(s->trace); p++)
		free(s->parents[p]);
	free(s->parents);
	release_ids(s, s->node_ids);
	release_ids(s, s->stack_ids);
	free(s->addresses);
	free(s->symbols);
	free(s->modules);
	interner_release(&s->texts);
	interner_release(&s->keys);
	interner_release(&s->python);
	vec_release(&s->frames);
	vec_release(&s->lines);
	vec_release(&s->expanded);
	vec_release(&s->expansions);
	vec_release(&s->python_expansions);
	*s = (struct stacks){ 0 };
}
