/*
 * rocpd.c: converts the SQLite databases of rocprofv3 (rocpd, schemas 3.x).
 *
 * Each table has the suffix of its process's uuid; views without it unite them, and are what is
 * read. `pid`, `tid` and so on are ids of rows in rocpd_info_…, not the operating system's. The
 * ready view `kernels` leaves out dispatches that lack a thread, a queue or a name, so rows are
 * joined here, and what they lack is missing.
 *
 * The correlation id of work and of the call that caused it is the stack_id of their events.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json_read.h"
#include "base/starts_with.h"
#include "format/rows.h"
#include "import/nested_ranges.h"

#define API_HIP 4
#define EVENT .join = "rocpd_event", .on = "event_id"

struct agent {
	uint32_t ordinal; /* among the GPUs */
	bool is_gpu;
};

struct rocpd {
	struct database_import import;
	struct map threads, processes, agents; /* ids -> tid; pid; ordinal << 1 | is a GPU */
	struct map symbols; /* id of a kernel symbol -> item of names */
	bool has_calls;
};

static struct agent agent_of(struct database_import *m, int64_t id)
{
	uint64_t value = 0;

	map_get(&((struct rocpd *)m->own)->agents, (uint64_t)id, &value);
	return (struct agent){ (uint32_t)(value >> 1), value & 1 };
}

static uint32_t tid_of(struct database_import *m, int64_t id)
{
	uint64_t tid = 0;

	map_get(&((struct rocpd *)m->own)->threads, (uint64_t)id, &tid);
	return (uint32_t)tid;
}

/* ---- kernels ---- */

static const struct field kernel_fields[] = {
	FIELD(kernel, start_ns, TIME, "start"),
	FIELD(kernel, end_ns, TIME, "end"),
	FIELD(kernel, correlation, NUMBER, "+stack_id"),
	FIELD(kernel, stream, NUMBER, "stream_id|queue_id"),
	FIELD(kernel, graph, NUMBER_OR_0, "graph_exec_id"),
	FIELD(kernel, graph_node, NUMBER_OR_0, "graph_node_id"),
};
static const struct field kernel_more[] = {
	FIELD(kernel_config, block_x, NUMBER, "workgroup_size_x"),
	FIELD(kernel_config, block_y, NUMBER, "workgroup_size_y"),
	FIELD(kernel_config, block_z, NUMBER, "workgroup_size_z"),
	FIELD(kernel_config, grid_x, NUMBER, "grid_size_x"),
	FIELD(kernel_config, grid_y, NUMBER, "grid_size_y"),
	FIELD(kernel_config, grid_z, NUMBER, "grid_size_z"),
	FIELD(kernel_config, dynamic_shared_bytes, NUMBER, "group_segment_size"),
	FIELD(kernel_config, local_bytes_per_thread, NUMBER, "private_segment_size"),
	/* read by finish_kernel: */
	{ .from = "agent_id" },
	{ .from = "kernel_id" },
	{ .from = "region_name_id" },
};
#define CONFIG_FIELDS (ARRAY_SIZE(kernel_more) - 3)

/* The grid is in work items; the last group of a dimension may be a part. */
static void count_blocks(struct row_kernel_config *c)
{
	uint32_t *grid = &c->grid_x, *block = &c->block_x;

	for (int i = 0; i < 3; i++) {
		if (block[i])
			grid[i] = (uint32_t)(((uint64_t)grid[i] + block[i] - 1) / block[i]);
		else
			c->missing |= UINT64_C(1) << (COLUMN_kernel_config_grid_x + i) |
				      UINT64_C(1) << (COLUMN_kernel_config_block_x + i);
	}
}

static bool finish_kernel(struct database_import *m, struct database_process *p, void *row,
			  const struct query *q, int at)
{
	const struct rocpd *r = m->own;
	struct row_kernel *kernel = row;
	struct row_kernel_config config;
	int last = at + (int)CONFIG_FIELDS;
	uint64_t name;

	database_fill(m, p, q, at, TABLE_kernel_config, kernel_more, CONFIG_FIELDS, &config);
	count_blocks(&config);
	kernel->device = agent_of(m, query_number(q, last, -1)).ordinal;
	if (map_get(&r->symbols, (uint64_t)query_number(q, last + 1, -1), &name))
		config.name = writer_string(p->writer, m->texts.items[name].text,
					    m->texts.items[name].length);
	else if (query_number(q, last + 2, 0))
		config.name = database_string(m, p, (uint64_t)query_number(q, last + 2, 0));
	else
		config.name = rows_text(p->writer, "unknown kernel");
	kernel->config = writer_kernel_config(p->writer, &config);
	return true;
}

/* ---- copies and memory ---- */

static const struct field copy_fields[] = {
	FIELD(memcpy, start_ns, TIME, "start"),
	FIELD(memcpy, end_ns, TIME, "end"),
	FIELD(memcpy, bytes, NUMBER, "size"),
	FIELD(memcpy, correlation, NUMBER, "+stack_id"),
	FIELD(memcpy, stream, NUMBER, "stream_id|queue_id"),
};
static const struct field copy_more[] = { { .from = "name_id" },
					  { .from = "src_agent_id" },
					  { .from = "dst_agent_id" } };

static bool finish_copy(struct database_import *m, struct database_process *p, void *row,
			const struct query *q, int at)
{
	static const struct {
		const char *part;
		uint8_t kind;
	} kinds[] = { { "HOST_TO_DEVICE", copy_kind_HtoD },
		      { "DEVICE_TO_HOST", copy_kind_DtoH },
		      { "DEVICE_TO_DEVICE", copy_kind_DtoD },
		      { "HOST_TO_HOST", copy_kind_HtoH } };
	const struct interned *name = database_text(m, (uint64_t)query_number(q, at, -1));
	struct agent from = agent_of(m, query_number(q, at + 1, -1));
	struct agent to = agent_of(m, query_number(q, at + 2, -1));
	struct row_memcpy *copy = row;

	(void)p;
	for (size_t i = 0; i < ARRAY_SIZE(kinds) && name; i++)
		if (strstr(name->text, kinds[i].part))
			copy->kind = kinds[i].kind;
	/* Memory of the host may be pageable or pinned. */
	copy->source_kind = from.is_gpu ? memory_kind_device : memory_kind_unknown;
	copy->destination_kind = to.is_gpu ? memory_kind_device : memory_kind_unknown;
	copy->device = to.is_gpu ? to.ordinal : from.ordinal;
	if (from.is_gpu && to.is_gpu && from.ordinal != to.ordinal) {
		copy->kind = copy_kind_PtoP;
		copy->source_device = from.ordinal;
		copy->destination_device = to.ordinal;
		copy->missing &= ~(UINT64_C(1) << COLUMN_memcpy_source_device |
				   UINT64_C(1) << COLUMN_memcpy_destination_device);
	}
	return true;
}

static const struct field allocation_fields[] = {
	FIELD(allocation, time_ns, TIME, "start"),
	FIELD(allocation, address, NUMBER, "address"),
	FIELD(allocation, bytes, NUMBER, "size"),
	FIELD(allocation, correlation, NUMBER, "+stack_id"),
};
static const struct field allocation_more[] = { { .from = "type" }, { .from = "agent_id" } };

static bool finish_allocation(struct database_import *m, struct database_process *p, void *row,
			      const struct query *q, int at)
{
	struct row_allocation *allocation = row;
	size_t length;
	const char *type = query_text(q, at, &length);
	struct agent agent = agent_of(m, query_number(q, at + 1, -1));

	(void)p;
	allocation->device = agent.ordinal;
	allocation->kind = agent.is_gpu ? memory_kind_device : memory_kind_unknown;
	allocation->operation = !type                    ? memory_operation_unknown
				: !strcmp(type, "ALLOC") ? memory_operation_allocation
				: !strcmp(type, "FREE")  ? memory_operation_release
							 : memory_operation_unknown;
	if (allocation->operation != memory_operation_unknown)
		return true;
	database_loss(m, loss_reason_unknown_record, 1, "memory that was reallocated or reclaimed");
	return false;
}

/* ---- calls and markers ---- */

static bool is_marker(struct database_import *m, const struct query *q, int column)
{
	const struct interned *category = database_text(m, (uint64_t)query_number(q, column, -1));

	return category && starts_with(category->text, "MARKER");
}

static const struct field call_fields[] = {
	FIELD(api_call, start_ns, TIME, "start"),
	FIELD(api_call, end_ns, TIME, "end"),
	FIELD(api_call, correlation, NUMBER, "+stack_id"),
};
static const struct field call_more[] = { { .from = "tid" },
					  { .from = "name_id" },
					  { .from = "+category_id" } };

static bool finish_call(struct database_import *m, struct database_process *p, void *row,
			const struct query *q, int at)
{
	struct row_api_call *call = row;

	if (is_marker(m, q, at + 2)) {
		m->result->records--; /* it is counted by read_markers */
		return false;
	}
	((struct rocpd *)m->own)->has_calls = true;
	call->thread = tid_of(m, query_number(q, at, -1));
	call->function = database_function(m, p, API_HIP, (uint64_t)query_number(q, at + 1, -1));
	return true;
}

/* The message of a marker: its event has it as JSON, otherwise it is the region's name. */
static uint32_t message_of(struct database_import *m, struct database_process *p,
			   const struct query *q, int data, int name)
{
	size_t length;
	const char *json = query_text(q, data, &length);
	_cleanup_members_ struct json_members members = JSON_MEMBERS(json ? json : "", length);
	uint32_t message = 0;

	while (json && !message && json_members_next(&members, NULL) > 0)
		if (members.kind == JSON_STRING && !strcmp(strbuf_text(&members.key), "message"))
			message = writer_string(p->writer, strbuf_text(&members.text),
						members.text.length);
	return message ? message : database_string(m, p, (uint64_t)query_number(q, name, -1));
}

static int read_marker(struct nested_ranges *n, const struct query *q)
{
	struct database_import *m = n->import;
	uint64_t key = (uint64_t)query_number(q, 0, 0), start_ns, end_ns;
	uint32_t tid = tid_of(m, query_number(q, 3, -1));
	struct database_process *p;
	struct nested_thread *t;
	struct row_nvtx row;
	int64_t start, end;

	if (!is_marker(m, q, 5))
		return 0;
	m->result->records++;
	p = database_process(m, key, n->e);
	t = p ? nested_thread(n, p, key << 32 | tid, tid) : NULL;
	if (!t)
		return n->e->code ? n->e->code : p ? -ENOMEM : 0;
	if (query_value(q, 1, &start) != QUERY_INTEGER ||
	    query_value(q, 2, &end) != QUERY_INTEGER || !database_time(m, start, &start_ns) ||
	    !database_time(m, end, &end_ns) || end_ns < start_ns) {
		database_loss(m, loss_reason_no_time, 1, "nvtx");
		return 0;
	}
	row = nested_row(start_ns == end_ns ? nvtx_kind_mark : nvtx_kind_push, start_ns, tid, 0);
	row.message = message_of(m, p, q, 6, 4);
	row.missing &= ~(UINT64_C(1) << COLUMN_nvtx_message);
	return start_ns == end_ns ? nested_append(n, p, &row) : nested_push(n, t, &row, end_ns);
}

static int read_markers(struct database_import *m, struct error *e)
{
	static const char *const columns[] = { "pid",     "start",        "end",     "tid",
					       "name_id", "+category_id", "+extdata" };
	struct nested_ranges n = { .import = m, .e = e, .next_range = UINT64_C(1) << 63 };
	struct query_source source = { .table = "rocpd_region", EVENT };
	struct query q;
	int rc = query_select(&q, &m->db, &source, columns, ARRAY_SIZE(columns),
			      "ORDER BY a.start, a.\"end\" DESC", e);

	if (rc >= 0)
		query_read_ahead(&q);
	while (rc >= 0 && (rc = query_next(&q)) > 0)
		rc = read_marker(&n, &q);
	database_query_end(m, &q, "rocpd_region");
	return nested_end(&n, rc);
}

/* ---- counters ---- */

static const struct field value_fields[] = {
	FIELD(metric_value, correlation, NUMBER, "+stack_id"),
};
static const struct field value_more[] = { { .from = "pmc_id" }, { .from = "value" } };

static bool finish_value(struct database_import *m, struct database_process *p, void *row,
			 const struct query *q, int at)
{
	struct row_metric_value *value = row;
	int64_t id = query_number(q, at, -1);
	double real;
	enum query_type type = query_value(q, at + 1, &value->value);

	(void)p;
	if (id <= 0 || id > UINT32_MAX || !value->correlation) {
		database_loss(m, loss_reason_unknown_record, 1, "counters of no kernel");
		return false;
	}
	value->metric = (uint32_t)id;
	real = (double)value->value;
	if (type == QUERY_INTEGER)
		memcpy(&value->value, &real, sizeof(real));
	if (type == QUERY_INTEGER || type == QUERY_REAL)
		value->missing &= ~(UINT64_C(1) << COLUMN_metric_value_value);
	return true;
}

static const struct field metric_fields[] = {
	FIELD(metric, id, NUMBER, "id"),
	FIELD(metric, name, TEXT, "symbol|name"),
	FIELD(metric, unit, TEXT, "units"),
	FIELD(metric, description, TEXT, "description"),
};

/* ---- what rows refer to ---- */

/* Reads a number for each id of a table. */
static int read_numbers(struct database_import *m, const char *table, const char *column,
			struct map *out, struct error *e)
{
	const char *const columns[] = { "id", column };
	struct query q;
	int rc = query_open(&q, &m->db, table, columns, 2, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		uint64_t id = (uint64_t)query_number(&q, 0, -1);

		rc = map_put(out, id, (uint64_t)query_number(&q, 1, 0));
		if (out == &((struct rocpd *)m->own)->processes && q.rows == 1)
			m->default_key = id; /* of counters, which name no process */
	}
	database_query_end(m, &q, table);
	return rc;
}

static int read_agents(struct rocpd *r, struct error *e)
{
	static const char *const columns[] = { "id", "type", "type_index|logical_index" };
	struct query q;
	int rc = query_open(&q, &r->import.db, "rocpd_info_agent", columns, 3, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		size_t length;
		const char *type = query_text(&q, 1, &length);

		rc = map_put(&r->agents, (uint64_t)query_number(&q, 0, -1),
			     (uint64_t)query_number(&q, 2, 0) << 1 |
				     (type && !strcmp(type, "GPU")));
	}
	database_query_end(&r->import, &q, "rocpd_info_agent");
	return rc;
}

static int read_symbols(struct rocpd *r, struct error *e)
{
	static const char *const columns[] = { "id", "kernel_name|display_name" };
	struct database_import *m = &r->import;
	struct query q;
	int rc = query_open(&q, &m->db, "rocpd_info_kernel_symbol", columns, 2, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		size_t length;
		const char *name = query_text(&q, 1, &length);
		const char *suffix = name ? strstr(name, ".kd") : NULL; /* kernel descriptor */
		int64_t item;

		if (!name)
			continue;
		item = interner_add(&m->texts, name,
				    suffix && !suffix[3] ? (size_t)(suffix - name) : length, NULL);
		rc = item < 0 ? -ENOMEM
			      : map_put(&r->symbols, (uint64_t)query_number(&q, 0, -1),
					(uint64_t)item);
	}
	database_query_end(m, &q, "rocpd_info_kernel_symbol");
	return rc;
}

static int check_version(struct database_import *m, struct error *e)
{
	static const char *const columns[] = { "tag", "value" };
	char version[32] = "";
	struct query q;
	size_t length;
	int rc = query_open(&q, &m->db, "rocpd_metadata", columns, 2, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		const char *tag = query_text(&q, 0, &length);

		if (tag && !strcmp(tag, "schema_version") && query_text(&q, 1, &length))
			snprintf(version, sizeof(version), "%s", query_text(&q, 1, &length));
	}
	query_close(&q);
	if (rc < 0 || (*version == '3' && (version[1] == '.' || !version[1])))
		return rc;
	return error_set(e, E_VERSION,
			 "'%s' has schema %s of rocpd, and pitot import reads 3.x: export it with "
			 "rocprofv3 of ROCm 7, --output-format rocpd",
			 m->path, *version ? version : "of an unknown version");
}

/* ---- processes ---- */

static uint32_t pid_of(struct database_import *m, uint64_t key)
{
	uint64_t pid = key;

	map_get(&((struct rocpd *)m->own)->processes, key, &pid);
	return (uint32_t)pid;
}

static void append_devices(struct database_import *m, struct database_process *p)
{
	enum { ID, NAME, UUID };
	static const char *const columns[] = { "id", "product_name|model_name|name|user_name",
					       "uuid" };
	struct error e = { 0 };
	struct query q;
	char uuid[32];

	if (query_open(&q, &m->db, "rocpd_info_agent", columns, 3, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		struct row_device row = { .missing = schema_missing(TABLE_device) };
		struct agent agent = agent_of(m, query_number(&q, ID, -1));
		size_t length;
		int64_t number;

		if (!agent.is_gpu)
			continue;
		row.id = agent.ordinal;
		row.vendor = gpu_vendor_amd;
		row.missing &= ~(UINT64_C(1) << COLUMN_device_vendor);
		row.name = rows_text(p->writer, query_text(&q, NAME, &length));
		snprintf(uuid, sizeof(uuid), "GPU-%llx",
			 (unsigned long long)query_number(&q, UUID, 0));
		row.uuid = rows_text(p->writer, query_value(&q, UUID, &number) == QUERY_INTEGER
							? uuid
							: query_text(&q, UUID, &length));
		writer_append(p->writer, TABLE_device, &row);
		m->result->rows[TABLE_device]++;
	}
	query_close(&q);
}

static void append_threads(struct database_import *m, struct database_process *p)
{
	static const char *const columns[] = { "pid", "tid", "name" };
	struct error e = { 0 };
	struct query q;

	if (query_open(&q, &m->db, "rocpd_info_thread", columns, 3, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		size_t length;
		const char *name = query_text(&q, 2, &length);
		struct row_thread row = { .tid = (uint32_t)query_number(&q, 1, 0),
					  .time_ns = p->first_ns };

		if ((uint64_t)query_number(&q, 0, -1) != p->key || !name || !*name)
			continue;
		row.name = writer_string(p->writer, name, length);
		writer_append(p->writer, TABLE_thread, &row);
		m->result->rows[TABLE_thread]++;
	}
	query_close(&q);
}

static void append_metrics(struct database_import *m, struct database_process *p)
{
	const char *columns[ARRAY_SIZE(metric_fields)];
	struct error e = { 0 };
	struct query q;

	for (size_t i = 0; i < ARRAY_SIZE(metric_fields); i++)
		columns[i] = metric_fields[i].from;
	if (query_open(&q, &m->db, "rocpd_info_pmc", columns, ARRAY_SIZE(columns), NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		struct row_metric row;

		database_fill(m, p, &q, 0, TABLE_metric, metric_fields, ARRAY_SIZE(metric_fields),
			      &row);
		writer_append(p->writer, TABLE_metric, &row);
		m->result->rows[TABLE_metric]++;
	}
	query_close(&q);
}

/* Its pid, command and host. */
static void read_process(struct database_import *m, struct database_process *p,
			 struct row_process *row)
{
	static const struct query_source source = { .table = "rocpd_info_process",
						    .join = "rocpd_info_node",
						    .on = "nid" };
	static const char *const columns[] = { "id", "pid", "ppid", "command",
					       "+hostname|+system_name" };
	struct error e = { 0 };
	struct query q;
	size_t length;

	if (query_select(&q, &m->db, &source, columns, ARRAY_SIZE(columns), NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		if ((uint64_t)query_number(&q, 0, -1) != p->key)
			continue;
		row->pid = (uint32_t)query_number(&q, 1, row->pid);
		row->parent_pid = (uint32_t)query_number(&q, 2, 0);
		row->command = rows_text(p->writer, query_text(&q, 3, &length));
		row->executable = rows_text(p->writer, query_text(&q, 3, &length));
		row->host = rows_text(p->writer, query_text(&q, 4, &length));
		if (!*m->result->name && query_text(&q, 3, &length))
			snprintf(m->result->name, sizeof(m->result->name), "%s",
				 query_text(&q, 3, &length));
	}
	query_close(&q);
}

static void describe(struct database_import *m, struct database_process *p, struct row_process *row)
{
	const struct rocpd *r = m->own;

	read_process(m, p, row);
	append_devices(m, p);
	append_threads(m, p);
	append_metrics(m, p);
	rows_capability_at(p->writer, p->first_ns, feature_import, capability_state_on, NULL,
			   "rocprofv3 (rocpd)", NULL);
	rows_capability_at(p->writer, p->first_ns, feature_clock, capability_state_degraded, NULL,
			   NULL, "the database has no time of day: times count from the boot");
	rows_capability_at(p->writer, p->first_ns, feature_context, capability_state_unavailable,
			   NULL, NULL, "ROCm has no contexts");
	if (!r->has_calls)
		rows_capability_at(p->writer, p->first_ns, feature_api_call,
				   capability_state_unavailable, NULL, NULL,
				   "the database contains no calls (rocprofv3 --hip-trace)");
}

#define CONVERSION(name, target, columns, further, completes)                                      \
	{                                                                                          \
		.from = { .table = name, EVENT }, .process = "pid", .process_mask = UINT64_MAX,    \
		.to = TABLE_##target, .fields = columns, .field_count = ARRAY_SIZE(columns),       \
		.more = further, .more_count = ARRAY_SIZE(further), .finish = completes            \
	}

static int convert(struct rocpd *r, struct error *e)
{
	static const struct conversion conversions[] = {
		CONVERSION("rocpd_kernel_dispatch", kernel, kernel_fields, kernel_more,
			   finish_kernel),
		CONVERSION("rocpd_memory_copy", memcpy, copy_fields, copy_more, finish_copy),
		CONVERSION("rocpd_memory_allocate", allocation, allocation_fields, allocation_more,
			   finish_allocation),
		CONVERSION("rocpd_region", api_call, call_fields, call_more, finish_call),
		CONVERSION("rocpd_pmc_event", metric_value, value_fields, value_more, finish_value),
	};
	struct database_import *m = &r->import;
	int rc = check_version(m, e);

	if (rc >= 0)
		rc = database_strings(m, "rocpd_string", "id", "string", e);
	if (rc >= 0)
		rc = read_numbers(m, "rocpd_info_thread", "tid", &r->threads, e);
	if (rc >= 0)
		rc = read_numbers(m, "rocpd_info_process", "pid", &r->processes, e);
	if (rc >= 0)
		rc = read_agents(r, e);
	if (rc >= 0)
		rc = read_symbols(r, e);
	for (size_t i = 0; i < ARRAY_SIZE(conversions) && rc >= 0; i++)
		rc = database_convert(m, &conversions[i], e);
	if (rc >= 0)
		rc = read_markers(m, e);
	return rc < 0 ? rc : database_import_close(m, describe, e);
}

static int read_file(struct import_files *files, struct input *in, const char *path,
		     struct error *e)
{
	struct rocpd r = { 0 };
	int rc = database_import_open(&r.import, files, in, path, e);

	r.import.own = &r;
	r.import.pid_of = pid_of;
	if (rc >= 0)
		rc = convert(&r, e);
	if (rc < 0 && !e->code)
		error_set(e, rc, "%s: %s", path, error_code_text(rc));
	database_import_release(&r.import);
	map_release(&r.threads);
	map_release(&r.processes);
	map_release(&r.agents);
	map_release(&r.symbols);
	return rc;
}

static int sniff(const struct input *in)
{
	return database_sniff(in, "rocpd_metadata") ? 95 : 0;
}

static const struct import_format format = {
	.name = "databases of rocprofv3", .part = ".db", .sniff = sniff, .read = read_file
};

int rocpd_sniff(const struct import_source *source)
{
	return import_files_sniff(&format, source);
}

int rocpd_run(struct import_source *source, const struct import_options *options,
	      const char *directory, struct import_result *result, struct error *e)
{
	struct import_files files = {
		.format = &format, .options = options, .directory = directory, .result = result
	};

	return import_files(&files, source, e);
}
