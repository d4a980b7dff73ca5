/*
 * import_work.c: GPU work.
 *
 * A kernel's grid, scope and call stack are in its kernel_detail, which follows the batch. Scope
 * and stack belong to the launching call, whose time only Pitot's logs and those of the first
 * releases have. In others a row of api_call of kind `untimed` represents the call, at the
 * beginning of its scope or, outside of scopes, of the kernel.
 */
#include <stdio.h>
#include <string.h>

#include "format/rows.h"
#include "import/gpufl/import_session.h"

#define PENDING_MAX (1u << 16) /* kernels that wait for their details */
#define DETAILS_MAX (1u << 20) /* to which later kernels may refer */
#define DETAIL_BYTES_MAX ((size_t)64 << 20)
#define CALLS_MAX (1u << 16) /* work of a call, such as a graph's nodes, is closer together */
#define FRAMES_MAX 256u
#define ROW_BYTES_MAX 256

/* ---- call stacks ---- */

/*
 * Splits "step (train.py:57)", Pitot's form of Python frames, into the length of "step", file and
 * line. Returns false for other texts.
 */
static bool parse_python(const char *name, size_t *function, const char **file, uint32_t *line)
{
	const char *paren = strrchr(name, '('), *colon = strrchr(name, ':');
	char end, more;

	if (!paren || !colon || paren - name < 2 || paren[-1] != ' ' || colon - paren < 4 ||
	    memcmp(colon - 3, ".py", 3) != 0 || sscanf(colon, ":%u%c%c", line, &end, &more) != 2 ||
	    end != ')')
		return false;
	*function = (size_t)(paren - name) - 1;
	*file = paren + 1;
	return true;
}

void import_python_frame(void *session, struct writer *w, uint64_t frame,
			 struct row_stack_node *row)
{
	const char *name = import_text_of(session, frame & ~FRAME_PYTHON).text, *file;
	size_t length;

	row->missing = 0;
	if (!parse_python(name, &length, &file, &row->line))
		return;
	row->function = writer_string(w, name, length);
	row->file = writer_string(w, file, (size_t)(strrchr(file, ':') - file));
}

static uint64_t frame_of(struct import_session *s, const char *name)
{
	uint64_t text = import_text(s, name);
	const char *file;
	uint32_t line;
	size_t length;
	struct row_symbol row = { .address = text << 4,
				  .function = import_string(s, text),
				  .session = s->number };

	if (text && parse_python(name, &length, &file, &line))
		return text | FRAME_PYTHON;
	if (!text || map_add(&s->symbols, text) <= 0)
		return row.address;
	ROW_MISSING(&row, symbol, module, file, line, function_start);
	import_append(s, TABLE_symbol, &row);
	return row.address;
}

/* Parses "main|f", outermost frame first. Returns the id of the stack, or 0. */
static uint32_t stack_of(struct import_session *s, uint64_t text)
{
	uint64_t stack[FRAMES_MAX], *known = text ? map_at(&s->stack_of, text, UINT64_MAX) : NULL;
	unsigned at = FRAMES_MAX;
	char *copy, *next;

	if (!known || *known != UINT64_MAX)
		return known ? (uint32_t)*known : 0;
	*known = 0;
	next = copy = strdup(import_text_of(s, text).text);
	for (char *name; at && (name = strsep(&next, "|"));)
		if (*name)
			stack[--at] = frame_of(s, name);
	free(copy);
	if (at < FRAMES_MAX)
		*known = stack_tree_id(&s->stacks, s->writer, stack + at, FRAMES_MAX - at,
				       next ? stack_end_depth : stack_end_complete, NULL);
	return (uint32_t)*known;
}

/* ---- launches ---- */

void import_functions(struct import_session *s)
{
	const struct column_schema *kinds =
		&schema_table(TABLE_api_function)->columns[COLUMN_api_function_kind];

	for (uint32_t kind = api_kind_launch; kind <= api_kind_untimed; kind++) {
		struct row_api_function row = { .id = kind, .kind = (uint8_t)kind };

		row.name = rows_text(s->writer, kind == api_kind_untimed
							? "launch (time unknown)"
							: schema_value_name(kinds, kind));
		ROW_MISSING(&row, api_function, waits_for);
		writer_api_function(s->writer, row.id, &row);
	}
}

/* Reads the members of GPUFL_CALL. */
static void read_call(struct record *r, struct import_origin *o)
{
	o->start_ns = record_number(r, "api_start_ns", INT64_MAX);
	o->end_ns = record_number(r, "api_exit_ns", INT64_MAX);
	o->thread = record_number(r, "thread_id", UINT32_MAX);
}

static struct import_origin origin_of(struct import_session *s, struct record *r)
{
	const char *path = record_text(r, "user_scope");
	struct import_origin o = { 0 };

	if (path && strcmp(path, "global") != 0)
		o.path = import_text(s, path);
	o.stack = import_text(s, record_text(r, "stack_trace"));
	read_call(r, &o);
	return o;
}

/* work_ns: start of the launched work. */
static void add_launch(struct import_session *s, const struct import_origin *o, enum api_kind kind,
		       uint64_t correlation, uint64_t work_ns)
{
	bool timed = import_span(s, o->start_ns, o->end_ns);
	uint64_t time_ns = timed ? o->start_ns : work_ns;
	const struct import_scope *scope = import_scope_find(s, o->path, time_ns);
	struct row_api_call row = { .start_ns = timed || !scope ? time_ns : scope->begin_ns,
				    .function = timed ? kind : api_kind_untimed,
				    .thread = (uint32_t)o->thread,
				    .correlation = correlation,
				    .stack = stack_of(s, o->stack) };

	if (!correlation || !time_ns || (!timed && !scope && !row.stack))
		return;
	if (s->called.count >= CALLS_MAX)
		map_clear(&s->called);
	if (map_add(&s->called, correlation) <= 0)
		return;
	s->has_calls |= timed && o->thread;
	if (!row.thread && scope)
		row.thread = scope->thread;
	row.end_ns = timed ? o->end_ns : row.start_ns;
	ROW_MISSING(&row, api_call, result);
	ROW_MISSING_IF(&row, api_call, stack, !row.stack);
	ROW_MISSING(&row, api_call, stream, event, context);
	writer_api_function(s->writer, row.function, NULL);
	import_append(s, TABLE_api_call, &row);
}

/* ---- kernels ---- */

/* Resources that are in the batch rather than in the detail. */
#define IN_BATCH                                                                                   \
	(UINT64_C(1) << COLUMN_kernel_config_registers |                                           \
	 UINT64_C(1) << COLUMN_kernel_config_dynamic_shared_bytes)

/* CUPTI's number is one less than Pitot's, which has 0 for unknown. */
static uint8_t cache_config(struct record *r, const char *key)
{
	uint64_t number;

	return record_integer(r, key, cache_config_prefer_equal - 1, &number)
		       ? (uint8_t)(number + 1)
		       : cache_config_unknown;
}

static void read_config(struct record *r, struct row_kernel_config *c)
{
	bool grid, block;

	record_fill(r, TABLE_kernel_config, c);
	_Static_assert(offsetof(struct row_kernel_config, block_z) -
				       offsetof(struct row_kernel_config, grid_x) ==
			       5 * sizeof(uint32_t),
		       "two times three in a row");
	grid = record_size(r, "grid", &c->grid_x);
	block = record_size(r, "block", &c->block_x);
	if (grid && block)
		c->missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
	c->cache_config_requested = cache_config(r, "cache_config_requested");
	c->cache_config_executed = cache_config(r, "cache_config_executed");
}

static void append_kernel(struct import_session *s, struct import_kernel *k,
			  const struct import_detail *d)
{
	struct import_origin origin = d ? d->origin : (struct import_origin){ 0 };
	struct row_kernel_config config = { .missing = schema_missing(TABLE_kernel_config) };

	if (d)
		config = d->config;
	config.name = import_string(s, k->name);
	config.registers = k->config.registers;
	config.dynamic_shared_bytes = k->config.dynamic_shared_bytes;
	config.missing &= ~IN_BATCH;
	config.missing |= k->config.missing & IN_BATCH;
	k->row.config = writer_kernel_config(s->writer, &config);
	import_append(s, TABLE_kernel, &k->row);
	if (k->call.end_ns) {
		origin.start_ns = k->call.start_ns;
		origin.end_ns = k->call.end_ns;
		origin.thread = k->call.thread;
	}
	add_launch(s, &origin,
		   k->row.missing >> COLUMN_kernel_graph & 1 ? api_kind_launch
							     : api_kind_graph_launch,
		   k->row.correlation, k->row.start_ns);
}

/* Returns NULL if the detail has not arrived. */
static const struct import_detail *detail_of(const struct import_session *s, uint64_t id)
{
	uint64_t item;

	return map_get(&s->detail_of, id, &item) ? (const void *)s->details.items[item].text : NULL;
}

void import_kernels_resolve(struct import_session *s, bool all)
{
	size_t kept = 0, give_up = all ? s->pending.count : s->pending.count / 2;

	for (size_t i = 0; i < s->pending.count; i++) {
		struct import_kernel k = s->pending.data[i];
		const struct import_detail *d = detail_of(s, k.detail);

		if (d || i < give_up)
			append_kernel(s, &k, d);
		else
			s->pending.data[kept++] = k;
	}
	s->pending.count = kept;
}

static void read_detail(struct import_session *s, struct record *r, struct import_detail *d)
{
	/* zeroes the padding, too, so that equal details have equal bytes */
	memset(d, 0, sizeof(*d));
	read_config(r, &d->config);
	d->origin = origin_of(s, r);
}

void import_kernel_detail(struct import_session *s, struct record *r)
{
	struct import_detail d;
	uint64_t id;
	int64_t item;

	read_detail(s, r, &d);
	if (!import_required(s, r, "corr_id", UINT64_MAX, &id))
		return;
	if (s->detail_of.count >= DETAILS_MAX || s->details.bytes >= DETAIL_BYTES_MAX) {
		import_kernels_resolve(s, false);
		map_clear(&s->detail_of);
		interner_release(&s->details);
		interner_init(&s->details);
	}
	item = interner_add(&s->details, &d, sizeof(d), NULL);
	if (item < 0)
		import_add_loss(s, loss_reason_no_memory, 1, NULL);
	else
		import_put(s, &s->detail_of, id, (uint64_t)item);
}

static void add_external(struct import_session *s, struct record *r, uint64_t correlation)
{
	struct row_external_correlation row = { .correlation = correlation };
	uint64_t kind;

	if (!record_integer(r, "external_id", UINT64_MAX, &row.id) || !row.id ||
	    !record_integer(r, "external_kind", UINT32_MAX, &kind))
		return;
	row.kind = (uint32_t)kind;
	import_append(s, TABLE_external_correlation, &row);
}

/* Converts a row of a batch, or a record of the first releases, which contains its detail. */
void import_kernel(struct import_session *s, struct record *r)
{
	const char *name = record_text(r, "name");
	bool whole = record_find(r, "grid");
	const struct import_detail *known;
	struct import_detail own;
	struct import_kernel k;
	bool waits;

	record_fill(r, TABLE_kernel_config, &k.config);
	import_fill(s, r, TABLE_kernel, &k.row);
	k.call = (struct import_origin){ 0 };
	read_call(r, &k.call);
	k.name = name ? import_text(s, name) : import_name(s, NAMES_KERNEL, r, "kernel_id");
	if (!k.name) {
		k.name = import_text(s, "unknown kernel");
		import_add_loss(s, loss_reason_damaged_file, 1, "kernels without a name");
	}
	waits = import_required(s, r, "corr_id", UINT64_MAX, &k.detail) && !whole;
	add_external(s, r, k.row.correlation);
	known = waits ? detail_of(s, k.detail) : whole ? &own : NULL;
	if (whole)
		read_detail(s, r, &own);
	if (s->pending.count >= PENDING_MAX)
		import_kernels_resolve(s, false);
	if (!waits || known || vec_push(&s->pending, k) < 0)
		append_kernel(s, &k, known);
}

/* ---- other work ---- */

/*
 * Appends a row of a table whose columns are named in the logs as in import_record.c. The call is
 * of this kind, except that of a graph's node.
 */
static void import_work(struct import_session *s, struct record *r, enum table_id table,
			enum api_kind kind)
{
	_Alignas(8) uint8_t row[ROW_BYTES_MAX];
	struct import_origin origin = origin_of(s, r);
	uint64_t start_ns = record_time(r, "start_ns"), correlation = 0;

	import_fill(s, r, table, row);
	import_append(s, table, row);
	record_integer(r, "corr_id", UINT64_MAX, &correlation);
	if (!origin.stack)
		origin.stack = import_name(s, NAMES_FUNCTION, r, "function_id");
	if (record_number(r, "graph_id", UINT64_MAX))
		kind = api_kind_graph_launch;
	else if (kind == api_kind_allocate &&
		 record_number(r, "memory_op", UINT8_MAX) == memory_operation_release)
		kind = api_kind_release;
	if (kind == api_kind_synchronize && origin.thread) { /* the wait is the call */
		origin.start_ns = start_ns;
		origin.end_ns = record_time(r, "end_ns");
	}
	add_launch(s, &origin, kind, correlation, start_ns);
}

#define WORK(name, table, kind)                                                                    \
	void name(struct import_session *s, struct record *r)                                      \
	{                                                                                          \
		_Static_assert(sizeof(struct row_##table) <= ROW_BYTES_MAX, "there is room");      \
		import_work(s, r, TABLE_##table, api_kind_##kind);                                 \
	}
WORK(import_copy, memcpy, memcpy)
WORK(import_memset, memset, memset)
WORK(import_graph_launch, graph_launch, graph_launch)
WORK(import_wait, synchronization, synchronize)
WORK(import_allocation, allocation, allocate)
