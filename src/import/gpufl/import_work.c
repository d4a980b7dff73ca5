/*
 * import_work.c: what GPUs did.
 *
 * A kernel's grid, scope and call stack are in its kernel_detail, which follows the batch. Scope and stack belong to the call that
 * launched it, and the logs have no calls: a row of api_call of kind `untimed` stands for it, at the beginning of its scope or, outside of
 * scopes, at that of the kernel.
 */
#include <stdio.h>
#include <string.h>

#include "format/rows.h"
#include "import/gpufl/import_session.h"

#define PENDING_MAX (1u << 16) /* kernels that wait for their details */
#define DETAILS_MAX (1u << 20) /* that kernels may refer to again */
#define DETAIL_BYTES_MAX ((size_t)64 << 20)
#define FRAMES_MAX 256u

/* Marks both times as missing where they are none. */
#define TIMES(s, row, table, start, duration)                                                      \
	do {                                                                                       \
		(row)->start_ns = (start);                                                         \
		(row)->end_ns = (start) + (duration);                                              \
		if (!import_span(s, (row)->start_ns, (row)->end_ns)) {                             \
			ROW_MISSING(row, table, start_ns);                                         \
			ROW_MISSING(row, table, end_ns);                                           \
			import_lose(s, loss_reason_no_time, 1, #table);                            \
		}                                                                                  \
	} while (0)

static uint64_t cell_u64(struct cell c)
{
	return c.known ? (uint64_t)c.value : 0;
}

/* Of the log, or the only one that there is. */
static uint32_t device_of(struct import_session *s, bool known, uint32_t device)
{
	s->lacks_device |= !known;
	return known ? device : import_device(s);
}

/* ---- call stacks ---- */

static uint64_t frame_of(struct import_session *s, const char *name)
{
	uint64_t text = import_text(s, name), address = text << 4;
	struct row_symbol row = { .address = address,
				  .function = import_string(s, text),
				  .session = s->number };

	if (!text || map_add(&s->symbols, text) <= 0)
		return address;
	ROW_MISSING(&row, symbol, module);
	ROW_MISSING(&row, symbol, file);
	ROW_MISSING(&row, symbol, line);
	ROW_MISSING(&row, symbol, function_start);
	import_append(s, TABLE_symbol, &row);
	return address;
}

/* "main|f": the outermost frame is the first. Id of the stack, or 0. */
static uint32_t stack_of(struct import_session *s, uint64_t text)
{
	struct interned frames = import_text_of(s, text);
	uint64_t stack[FRAMES_MAX], *known;
	unsigned count = 0, at = FRAMES_MAX;
	char *copy, *next;

	if (!text)
		return 0;
	known = map_at(&s->stack_of, text, UINT64_MAX);
	if (!known || *known != UINT64_MAX)
		return known ? (uint32_t)*known : 0;
	*known = 0;
	next = copy = strndup(frames.text, frames.length);
	for (char *name; next && count < FRAMES_MAX && (name = strsep(&next, "|"));)
		if (*name) {
			stack[--at] = frame_of(s, name);
			count++;
		}
	free(copy);
	if (count)
		*known = stack_tree_id(&s->stacks, s->writer, stack + at, count,
				       next ? stack_end_depth : stack_end_complete, NULL);
	return (uint32_t)*known;
}

/* ---- launches ---- */

/* A call, of which only that is known that is not 0. */
struct launch {
	uint64_t correlation, path, stack; /* texts */
	uint64_t start_ns, end_ns;
	uint64_t work_ns; /* when what it launched began */
};

static void add_launch(struct import_session *s, const struct launch *l)
{
	bool timed = import_span(s, l->start_ns, l->end_ns);
	const struct import_scope *scope =
		import_scope_find(s, l->path, timed ? l->start_ns : l->work_ns);
	struct row_api_call row = { .start_ns = timed ? l->start_ns : l->work_ns,
				    .end_ns = timed ? l->end_ns : l->work_ns,
				    .function = timed ? CALL_LAUNCH : CALL_ORIGIN,
				    .correlation = l->correlation,
				    .stack = stack_of(s, l->stack) };

	if (!l->correlation || l->correlation == s->last_origin ||
	    (!timed && !scope && !row.stack) || !row.start_ns)
		return;
	s->last_origin = l->correlation;
	if (scope) {
		row.thread = scope->thread;
		if (!timed)
			row.start_ns = row.end_ns = scope->begin_ns;
	}
	ROW_MISSING(&row, api_call, result);
	ROW_MISSING_IF(&row, api_call, stack, !row.stack);
	writer_api_function(s->writer, row.function, NULL);
	import_append(s, TABLE_api_call, &row);
}

/* ---- kernels ---- */

static void read_three(const char *text, uint32_t *x, uint32_t *y, uint32_t *z)
{
	if (!text || sscanf(text, "(%u,%u,%u)", x, y, z) != 3)
		*x = *y = *z = 0;
}

/* Of what no log has, all that can be missing is. */
static struct row_kernel_config unknown_config(void)
{
	struct row_kernel_config c = { 0 };

	for (int i = 0; i < COLUMNS_kernel_config; i++)
		c.missing |= (uint64_t)schema_table(TABLE_kernel_config)->columns[i].maybe << i;
	return c;
}

#define CONFIG_GIVEN(c, column) ((c)->missing &= ~(UINT64_C(1) << COLUMN_kernel_config_##column))

static void read_config(const struct record *r, struct row_kernel_config *c)
{
	uint32_t requested = record_u32(r, "cache_config_requested");
	uint32_t executed = record_u32(r, "cache_config_executed");

	*c = unknown_config();
	read_three(record_text(r, "grid"), &c->grid_x, &c->grid_y, &c->grid_z);
	read_three(record_text(r, "block"), &c->block_x, &c->block_y, &c->block_z);
	if (c->grid_x && c->block_x)
		for (int i = COLUMN_kernel_config_grid_x; i <= COLUMN_kernel_config_block_z; i++)
			c->missing &= ~(UINT64_C(1) << i);
	c->local_bytes_per_thread = record_u32(r, "local_bytes");
	c->local_bytes_total = record_number(r, "local_mem_total_bytes");
	c->executed_shared_bytes = record_u32(r, "shared_mem_executed_bytes");
	if (c->executed_shared_bytes)
		CONFIG_GIVEN(c, executed_shared_bytes);
	/* CUPTI's numbers */
	c->cache_config_requested = requested < 4 ? (uint8_t)(requested + 1) : 0;
	c->cache_config_executed = executed < 4 ? (uint8_t)(executed + 1) : 0;
}

static uint64_t scope_of(struct import_session *s, const char *path)
{
	return path && strcmp(path, "global") != 0 ? import_text(s, path) : 0;
}

static void append_kernel(struct import_session *s, struct import_kernel *k,
			  const struct import_detail *d)
{
	struct row_kernel_config config = d ? d->config : unknown_config();

	config.name = import_string(s, k->name);
	config.registers = k->registers;
	config.dynamic_shared_bytes = k->dynamic_shared_bytes;
	k->row.config = writer_kernel_config(s->writer, &config);
	import_append(s, TABLE_kernel, &k->row);
	if (k->external_id && k->external_id != UINT64_MAX)
		import_append(
			s, TABLE_external_correlation,
			&(struct row_external_correlation){ .kind = k->external_kind,
							    .id = k->external_id,
							    .correlation = k->row.correlation });
	if (d)
		add_launch(s, &(struct launch){ .correlation = k->row.correlation,
						.path = d->path,
						.stack = d->stack,
						.work_ns = k->row.start_ns });
}

/* NULL: it has not come. */
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

static void add_kernel(struct import_session *s, struct import_kernel *k, bool has_detail)
{
	const struct import_detail *d = detail_of(s, k->detail);

	if (s->pending.count >= PENDING_MAX)
		import_kernels_resolve(s, false);
	if (d || !has_detail || vec_push(&s->pending, *k) < 0)
		append_kernel(s, k, d);
}

void import_kernel_detail(struct import_session *s, const struct record *r)
{
	struct import_detail d;
	uint64_t id;
	int64_t item;

	/* Equal bytes, also between the members. */
	memset(&d, 0, sizeof(d));
	read_config(r, &d.config);
	d.config.static_shared_bytes = record_u32(r, "static_shared");
	d.path = scope_of(s, record_text(r, "user_scope"));
	d.stack = import_text(s, record_text(r, "stack_trace"));
	if (!record_u64(r, "corr_id", &id)) {
		import_lose(s, loss_reason_damaged_file, 1, "kernel_detail without corr_id");
		return;
	}
	if (s->detail_of.count >= DETAILS_MAX || s->details.bytes >= DETAIL_BYTES_MAX) {
		import_kernels_resolve(s, false);
		map_clear(&s->detail_of);
		interner_release(&s->details);
		interner_init(&s->details);
	}
	item = interner_add(&s->details, &d, sizeof(d), NULL);
	if (item < 0 || map_put(&s->detail_of, id, (uint64_t)item) < 0)
		import_lose(s, loss_reason_no_memory, 1, "kernel_detail");
}

static struct row_kernel new_kernel(void)
{
	struct row_kernel row = { 0 };

	for (int i = COLUMN_kernel_channel; i < COLUMNS_kernel; i++)
		row.missing |= UINT64_C(1) << i;
	return row;
}

#define KERNEL_COLUMNS(C, p)                                                                       \
	C(p, dt_ns)                                                                                \
	C(p, kernel_id)                                                                            \
	C(p, stream_id) C(p, duration_ns) C(p, corr_id) C(p, dyn_shared) C(p, num_regs)            \
		C(p, has_details) C(p, external_kind) C(p, external_id) C(p, device_id)            \
			C(p, context_id) C(p, graph_id) C(p, graph_node_id) C(p, true_corr_id)     \
				C(p, queued_ns)
IMPORT_COLUMNS(KERNEL, KERNEL_COLUMNS)

static void add_kernel_row(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	struct import_kernel k = {
		.detail = cell_u64(c[KERNEL_corr_id]),
		.name = import_name(s, NAMES_KERNEL, cell_u64(c[KERNEL_kernel_id])),
		.registers = cell_u32(c[KERNEL_num_regs]),
		.dynamic_shared_bytes = cell_u32(c[KERNEL_dyn_shared]),
		.external_kind = cell_u32(c[KERNEL_external_kind]),
		.external_id = cell_u64(c[KERNEL_external_id]),
		.row = new_kernel(),
	};

	TIMES(s, &k.row, kernel, time_ns, cell_u64(c[KERNEL_duration_ns]));
	k.row.correlation =
		cell_u64(c[c[KERNEL_true_corr_id].known ? KERNEL_true_corr_id : KERNEL_corr_id]);
	k.row.device = device_of(s, c[KERNEL_device_id].known, cell_u32(c[KERNEL_device_id]));
	k.row.context = cell_u32(c[KERNEL_context_id]);
	k.row.stream = cell_u32(c[KERNEL_stream_id]);
	k.row.graph = cell_u32(c[KERNEL_graph_id]);
	k.row.graph_node = cell_u64(c[KERNEL_graph_node_id]);
	k.row.queued_ns = cell_u64(c[KERNEL_queued_ns]);
	k.row.missing &= ~((uint64_t)(k.row.graph != 0) << COLUMN_kernel_graph |
			   (uint64_t)(k.row.graph_node != 0) << COLUMN_kernel_graph_node |
			   (uint64_t)(k.row.queued_ns != 0) << COLUMN_kernel_queued_ns);
	add_kernel(s, &k, c[KERNEL_has_details].value == 1);
}

void import_kernels(struct import_session *s, const struct record *r)
{
	import_batch(s, r, KERNEL_names, KERNEL_COUNT, add_kernel_row);
}

void import_kernel_event(struct import_session *s, const struct record *r)
{
	struct import_kernel k = { .name = import_text(s, record_text(r, "name")),
				   .registers = record_u32(r, "num_regs"),
				   .dynamic_shared_bytes = record_u32(r, "dyn_shared_bytes"),
				   .external_kind = record_u32(r, "external_kind"),
				   .external_id = record_number(r, "external_id"),
				   .row = new_kernel() };
	struct import_detail d = { 0 };
	uint64_t start_ns = record_number(r, "start_ns"), device = 0;
	bool known = record_u64(r, "device_id", &device);

	read_config(r, &d.config);
	d.config.static_shared_bytes = record_u32(r, "static_shared_bytes");
	TIMES(s, &k.row, kernel, start_ns, record_number(r, "end_ns") - start_ns);
	k.row.correlation = record_number(r, "corr_id");
	k.row.device = device_of(s, known, (uint32_t)device);
	k.row.stream = record_u32(r, "stream_id");
	append_kernel(s, &k, &d);
	add_launch(s, &(struct launch){ .correlation = k.row.correlation,
					.path = scope_of(s, record_text(r, "user_scope")),
					.stack = import_text(s, record_text(r, "stack_trace")),
					.start_ns = record_number(r, "api_start_ns"),
					.end_ns = record_number(r, "api_exit_ns"),
					.work_ns = k.row.start_ns });
}

/* ---- copies and sets ---- */

static struct row_memcpy new_copy(void)
{
	struct row_memcpy row = { 0 };

	ROW_MISSING(&row, memcpy, async);
	for (int i = COLUMN_memcpy_channel; i < COLUMNS_memcpy; i++)
		row.missing |= UINT64_C(1) << i;
	return row;
}

#define COPY_COLUMNS(C, p)                                                                         \
	C(p, dt_ns)                                                                                \
	C(p, stream_id)                                                                            \
	C(p, duration_ns) C(p, bytes) C(p, copy_kind) C(p, corr_id) C(p, device_id)                \
		C(p, context_id) C(p, graph_id) C(p, graph_node_id) C(p, src_kind) C(p, dst_kind)
IMPORT_COLUMNS(COPY, COPY_COLUMNS)

/* A number of the schema's enum, which are CUPTI's; others are unknown, which is 0. */
static uint8_t enum_of(enum table_id table, int column, uint64_t value)
{
	const struct column_schema *c = &schema_table(table)->columns[column];

	return schema_value_name(c, value) ? (uint8_t)value : 0;
}

static void add_copy(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	struct row_memcpy row = new_copy();

	TIMES(s, &row, memcpy, time_ns, cell_u64(c[COPY_duration_ns]));
	row.bytes = cell_u64(c[COPY_bytes]);
	row.kind = enum_of(TABLE_memcpy, COLUMN_memcpy_kind, cell_u64(c[COPY_copy_kind]));
	row.source_kind =
		enum_of(TABLE_memcpy, COLUMN_memcpy_source_kind, cell_u64(c[COPY_src_kind]));
	row.destination_kind =
		enum_of(TABLE_memcpy, COLUMN_memcpy_destination_kind, cell_u64(c[COPY_dst_kind]));
	row.correlation = cell_u64(c[COPY_corr_id]);
	row.device = device_of(s, c[COPY_device_id].known, cell_u32(c[COPY_device_id]));
	row.context = cell_u32(c[COPY_context_id]);
	row.stream = cell_u32(c[COPY_stream_id]);
	row.graph = cell_u32(c[COPY_graph_id]);
	row.graph_node = cell_u64(c[COPY_graph_node_id]);
	row.missing &= ~((uint64_t)(row.graph != 0) << COLUMN_memcpy_graph |
			 (uint64_t)(row.graph_node != 0) << COLUMN_memcpy_graph_node);
	import_append(s, TABLE_memcpy, &row);
}

void import_copies(struct import_session *s, const struct record *r)
{
	import_batch(s, r, COPY_names, COPY_COUNT, add_copy);
}

/* Of an enum's value its number; 0: there is no such name. */
static uint8_t enum_named(enum table_id table, int column, const char *name)
{
	const struct column_schema *c = &schema_table(table)->columns[column];

	for (size_t i = 0; i < c->value_count && name; i++)
		if (!strcasecmp(c->values[i].name, name))
			return c->values[i].value;
	return 0;
}

static void add_event_launch(struct import_session *s, const struct record *r, uint64_t work_ns)
{
	add_launch(s, &(struct launch){ .correlation = record_number(r, "corr_id"),
					.path = scope_of(s, record_text(r, "user_scope")),
					.stack = import_text(s, record_text(r, "stack_trace")),
					.start_ns = record_number(r, "api_start_ns"),
					.end_ns = record_number(r, "api_exit_ns"),
					.work_ns = work_ns });
}

void import_copy_event(struct import_session *s, const struct record *r)
{
	struct row_memcpy row = new_copy();
	uint64_t start_ns = record_number(r, "start_ns"), device = 0;
	bool known = record_u64(r, "device_id", &device);

	TIMES(s, &row, memcpy, start_ns, record_number(r, "end_ns") - start_ns);
	row.bytes = record_number(r, "bytes");
	row.kind = enum_named(TABLE_memcpy, COLUMN_memcpy_kind, record_text(r, "copy_kind"));
	row.source_kind =
		enum_named(TABLE_memcpy, COLUMN_memcpy_source_kind, record_text(r, "src_kind"));
	row.destination_kind = enum_named(TABLE_memcpy, COLUMN_memcpy_destination_kind,
					  record_text(r, "dst_kind"));
	row.correlation = record_number(r, "corr_id");
	row.device = device_of(s, known, (uint32_t)device);
	row.stream = record_u32(r, "stream_id");
	import_append(s, TABLE_memcpy, &row);
	add_event_launch(s, r, row.start_ns);
}

void import_memset(struct import_session *s, const struct record *r)
{
	struct row_memset row = { .bytes = record_number(r, "bytes"),
				  .correlation = record_number(r, "corr_id"),
				  .stream = record_u32(r, "stream_id") };
	uint64_t start_ns = record_number(r, "start_ns"), device = 0;
	bool known = record_u64(r, "device_id", &device);

	for (int i = COLUMN_memset_channel; i < COLUMNS_memset; i++)
		row.missing |= UINT64_C(1) << i;
	ROW_MISSING(&row, memset, async);
	ROW_MISSING(&row, memset, value);
	row.device = device_of(s, known, (uint32_t)device);
	TIMES(s, &row, memset, start_ns, record_number(r, "end_ns") - start_ns);
	import_append(s, TABLE_memset, &row);
	add_event_launch(s, r, row.start_ns);
}

void import_graph_launch(struct import_session *s, const struct record *r)
{
	struct row_graph_launch row = { .graph = record_u32(r, "graph_id"),
					.correlation = record_number(r, "corr_id"),
					.device = record_u32(r, "device_id"),
					.stream = record_u32(r, "stream_id") };
	uint64_t start_ns = record_number(r, "start_ns");

	ROW_MISSING(&row, graph_launch, end_device);
	ROW_MISSING(&row, graph_launch, end_context);
	TIMES(s, &row, graph_launch, start_ns, record_number(r, "end_ns") - start_ns);
	import_append(s, TABLE_graph_launch, &row);
}

/* ---- waits and allocations ---- */

static void append_wait(struct import_session *s, uint64_t start_ns, uint64_t duration_ns,
			uint64_t kind, uint32_t stream, uint32_t event, uint32_t context,
			uint64_t correlation, uint64_t stack)
{
	struct row_synchronization row = { .kind = enum_of(TABLE_synchronization,
							   COLUMN_synchronization_kind, kind),
					   .correlation = correlation,
					   .context = context,
					   .stream = stream,
					   .event = event };

	TIMES(s, &row, synchronization, start_ns, duration_ns);
	ROW_MISSING_IF(&row, synchronization, stream, !stream);
	ROW_MISSING_IF(&row, synchronization, event, !event);
	ROW_MISSING(&row, synchronization, event_record);
	ROW_MISSING(&row, synchronization, result);
	import_append(s, TABLE_synchronization, &row);
	add_launch(s, &(struct launch){
			      .correlation = correlation, .stack = stack, .work_ns = start_ns });
}

#define WAIT_COLUMNS(C, p)                                                                         \
	C(p, dt_ns)                                                                                \
	C(p, duration_ns)                                                                          \
	C(p, sync_type) C(p, stream_id) C(p, event_id) C(p, context_id) C(p, corr_id)              \
		C(p, function_id)
IMPORT_COLUMNS(WAIT, WAIT_COLUMNS)

static void add_wait(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	append_wait(s, time_ns, cell_u64(c[WAIT_duration_ns]), cell_u64(c[WAIT_sync_type]),
		    cell_u32(c[WAIT_stream_id]), cell_u32(c[WAIT_event_id]),
		    cell_u32(c[WAIT_context_id]), cell_u64(c[WAIT_corr_id]),
		    import_name(s, NAMES_FUNCTION, cell_u64(c[WAIT_function_id])));
}

void import_waits(struct import_session *s, const struct record *r)
{
	import_batch(s, r, WAIT_names, WAIT_COUNT, add_wait);
}

void import_wait_event(struct import_session *s, const struct record *r)
{
	uint64_t start_ns = record_number(r, "start_ns");

	append_wait(s, start_ns, record_number(r, "end_ns") - start_ns,
		    record_number(r, "sync_type"), record_u32(r, "stream_id"),
		    record_u32(r, "event_id"), record_u32(r, "context_id"),
		    record_number(r, "corr_id"), import_text(s, record_text(r, "stack_trace")));
}

static void append_allocation(struct import_session *s, uint64_t time_ns, uint64_t operation,
			      uint64_t kind, struct row_allocation row)
{
	row.time_ns = time_ns;
	row.operation = enum_of(TABLE_allocation, COLUMN_allocation_operation, operation);
	row.kind = enum_of(TABLE_allocation, COLUMN_allocation_kind, kind);
	if (!import_span(s, time_ns, time_ns)) {
		ROW_MISSING(&row, allocation, time_ns);
		import_lose(s, loss_reason_no_time, 1, "allocation");
	}
	ROW_MISSING(&row, allocation, context);
	ROW_MISSING_IF(&row, allocation, stream, !row.stream);
	for (int i = COLUMN_allocation_async; i < COLUMNS_allocation; i++)
		row.missing |= UINT64_C(1) << i;
	import_append(s, TABLE_allocation, &row);
}

#define ALLOCATION_COLUMNS(C, p)                                                                   \
	C(p, dt_ns)                                                                                \
	C(p, memory_op)                                                                            \
	C(p, memory_kind) C(p, address) C(p, bytes) C(p, device_id) C(p, stream_id) C(p, corr_id)
IMPORT_COLUMNS(ALLOCATION, ALLOCATION_COLUMNS)

static void add_allocation(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	append_allocation(
		s, time_ns, cell_u64(c[ALLOCATION_memory_op]), cell_u64(c[ALLOCATION_memory_kind]),
		(struct row_allocation){ .address = cell_u64(c[ALLOCATION_address]),
					 .bytes = cell_u64(c[ALLOCATION_bytes]),
					 .device = cell_u32(c[ALLOCATION_device_id]),
					 .stream = cell_u32(c[ALLOCATION_stream_id]),
					 .correlation = cell_u64(c[ALLOCATION_corr_id]) });
}

void import_allocations(struct import_session *s, const struct record *r)
{
	import_batch(s, r, ALLOCATION_names, ALLOCATION_COUNT, add_allocation);
}

void import_allocation_event(struct import_session *s, const struct record *r)
{
	append_allocation(s, record_number(r, "start_ns"), record_number(r, "memory_op"),
			  record_number(r, "memory_kind"),
			  (struct row_allocation){ .address = record_number(r, "address"),
						   .bytes = record_number(r, "bytes"),
						   .device = record_u32(r, "device_id"),
						   .stream = record_u32(r, "stream_id"),
						   .correlation = record_number(r, "corr_id") });
}
