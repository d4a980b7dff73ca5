/* import_session.c: what a session is, and its records that are no events. */
#include "import/gpufl/import_session.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "format/rows.h"

#define FLUSH_BYTES ((size_t)16 << 20) /* of lines: fewer texts than the writer has room for */
#define NODES_MAX (1u << 20)

/* ---- texts ---- */

uint64_t import_text(struct import_session *s, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	int64_t item;

	if (!length)
		return 0;
	if (s->texts.bytes + length > IMPORT_TEXT_MAX)
		item = interner_find(&s->texts, text, length);
	else
		item = interner_add(&s->texts, text, length, NULL);
	if (item < 0)
		import_lose(s, loss_reason_string_limit, 1, "names in gpufl's logs");
	return (uint64_t)(item + 1);
}

struct interned import_text_of(const struct import_session *s, uint64_t text)
{
	return text ? s->texts.items[text - 1] : (struct interned){ "", 0 };
}

uint32_t import_string(struct import_session *s, uint64_t text)
{
	struct interned t = import_text_of(s, text);

	return writer_string(s->writer, t.text, t.length);
}

uint64_t import_name(const struct import_session *s, enum import_dictionary kind, uint64_t id)
{
	uint64_t text;

	return id && map_get(&s->names[kind], id, &text) ? text : 0;
}

static void read_dictionary(struct import_session *s, const struct record *r)
{
	static const char *const keys[NAMES] = { "kernel_dict", "scope_name_dict", "function_dict",
						 "metric_dict" };

	for (size_t i = 0; i < NAMES; i++) {
		const struct record_field *f = record_find(r, keys[i]);
		struct json_members m;

		if (!f || f->kind != JSON_OBJECT)
			continue;
		m = (struct json_members)JSON_MEMBERS(f->value, f->value_length);
		while (json_members_next(&m, NULL) > 0) {
			uint64_t id;

			if (m.kind != JSON_STRING || parse_u64(strbuf_text(&m.key), &id) < 0)
				import_lose(s, loss_reason_damaged_file, 1,
					    "entries of dictionary_update");
			else if (map_put(&s->names[i], id, import_text(s, strbuf_text(&m.text))) <
				 0)
				import_lose(s, loss_reason_no_memory, 1, NULL);
		}
		json_members_release(&m);
	}
}

/* ---- rows ---- */

void import_append(struct import_session *s, enum table_id table, const void *row)
{
	writer_append(s->writer, table, row);
	s->result->rows[table]++;
}

void import_lose(struct import_session *s, enum loss_reason reason, uint64_t count,
		 const char *detail)
{
	struct import_loss *l = s->losses;

	detail = detail ? detail : ""; /* compared as far as it is kept */
	for (; l < s->losses + s->loss_count; l++)
		if (l->reason == reason && !strncmp(l->detail, detail, sizeof(l->detail) - 1))
			break;
	if (l == s->losses + IMPORT_LOSSES) { /* the last one is of many */
		l--;
	} else if (l == s->losses + s->loss_count) {
		*l = (struct import_loss){ .reason = reason };
		snprintf(l->detail, sizeof(l->detail), "%s", detail);
		s->loss_count++;
	}
	l->count += count;
	s->result->unknown += reason == loss_reason_unknown_record ? count : 0;
	s->result->damaged += reason == loss_reason_damaged_file ? count : 0;
}

bool import_span(struct import_session *s, uint64_t start_ns, uint64_t end_ns)
{
	if (!start_ns || end_ns < start_ns || end_ns > INT64_MAX)
		return false;
	s->first_ns = s->first_ns ? MIN(s->first_ns, start_ns) : start_ns;
	s->last_ns = MAX(s->last_ns, end_ns);
	return true;
}

uint32_t import_device(const struct import_session *s)
{
	return s->devices && !(s->devices & (s->devices - 1))
		       ? (uint32_t)__builtin_ctzll(s->devices)
		       : 0;
}

void import_batch(struct import_session *s, const struct record *r, const char *const *names,
		  size_t count, import_row *add)
{
	struct cell cells[BATCH_COLUMNS];
	struct error e = { 0 };
	struct batch batch;
	uint64_t base_ns = record_number(r, "base_time_ns");
	int rc = batch_begin(&batch, r, names, count, cells, &e);

	while (rc >= 0 && (rc = batch_next(&batch, &e)) > 0) {
		uint64_t time_ns = base_ns + (uint64_t)cells[0].value;

		add(s, cells, cells[0].known && time_ns <= INT64_MAX ? time_ns : 0);
	}
	batch_end(&batch);
	if (rc < 0)
		import_lose(s, loss_reason_damaged_file, 1, e.text);
}

/* ---- the process ---- */

static void append_process(struct import_session *s)
{
	struct row_process row = s->process;

	row.executable = row.command = import_string(s, s->app);
	row.directory = import_string(s, s->log_path);
	row.host = import_string(s, s->host);
	row.boot_id = import_string(s, 0);
	import_append(s, TABLE_process, &row);
}

static void append_clock(struct import_session *s, uint64_t time_ns)
{
	struct row_clock row = { .monotonic_ns = time_ns,
				 .realtime_ns = time_ns,
				 .boottime_ns = time_ns };

	ROW_MISSING(&row, clock, cupti_ns);
	import_append(s, TABLE_clock, &row);
}

static void append_capability(struct import_session *s, uint64_t time_ns, const char *name,
			      enum capability_state state, const char *requested,
			      const char *actual, const char *reason)
{
	struct row_capability row = { .time_ns = time_ns,
				      .name = rows_text(s->writer, name),
				      .state = (uint8_t)state };

	row.asked = rows_text(s->writer, requested);
	row.got = rows_text(s->writer, actual);
	row.reason = rows_text(s->writer, reason);
	ROW_MISSING_IF(&row, capability, asked, !requested || !*requested);
	ROW_MISSING_IF(&row, capability, got, !actual || !*actual);
	ROW_MISSING_IF(&row, capability, reason, !reason || !*reason);
	ROW_MISSING(&row, capability, method);
	import_append(s, TABLE_capability, &row);
}

/* Members of both lists of job_start, by id. */
static void read_device(struct import_session *s, const struct record *r)
{
	struct row_device row = { .id = record_u32(r, "id") };
	uint64_t value;

	if (row.id >= IMPORT_DEVICES || s->devices >> row.id & 1)
		return;
	s->devices |= UINT64_C(1) << row.id;
	row.name = rows_text(s->writer, record_text(r, "name"));
	row.uuid = rows_text(s->writer, record_text(r, "uuid"));
	row.compute_major = record_u32(r, "compute_major");
	row.compute_minor = record_u32(r, "compute_minor");
	row.memory_bytes = record_number(r, "total_mib") << 20;
	for (int c = COLUMN_device_multiprocessors; c < COLUMNS_device; c++)
		row.missing |= (uint64_t)schema_table(TABLE_device)->columns[c].maybe << c;
#define GIVEN(column, key)                                                                         \
	if (record_u64(r, key, &value) && value && value <= UINT32_MAX) {                          \
		row.column = (uint32_t)value;                                                      \
		row.missing &= ~(UINT64_C(1) << COLUMN_device_##column);                           \
	}
	GIVEN(multiprocessors, "multi_processor_count")
	GIVEN(l2_bytes, "l2_cache_size_bytes")
	GIVEN(warp_size, "warp_size")
	GIVEN(registers_per_block, "regs_per_block")
	GIVEN(shared_per_block_bytes, "shared_mem_per_block_bytes")
#undef GIVEN
	import_append(s, TABLE_device, &row);
}

/* Two objects of one device as one: the members of the second stand behind those of the first. */
static const char *device_object(const struct record_field *list, uint64_t id, size_t *length)
{
	struct json_members m = JSON_ITEMS(list->value, list->value_length);
	struct record r = { 0 };
	const char *found = NULL;

	while (!found && json_members_next(&m, NULL) > 0) {
		if (m.kind != JSON_OBJECT || record_read(&r, m.value, m.value_length, NULL) < 0 ||
		    record_number(&r, "id") != id)
			continue;
		found = m.value;
		*length = m.value_length;
	}
	json_members_release(&m);
	record_release(&r);
	return found;
}

static void read_devices(struct import_session *s, const struct record *start)
{
	const struct record_field *lists[] = { record_find(start, "devices"),
					       record_find(start, "gpu_static_devices") };
	struct record r = { 0 };

	for (uint64_t id = 0; id < IMPORT_DEVICES; id++) {
		_cleanup_strbuf_ struct strbuf both = STRBUF_INIT;

		for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
			size_t length = 0;
			const char *object = lists[i] && lists[i]->kind == JSON_ARRAY
						     ? device_object(lists[i], id, &length)
						     : NULL;

			if (!object)
				continue;
			strbuf_addc(&both, both.length ? ',' : '{');
			strbuf_add(&both, object + 1, length - 2);
		}
		if (!both.length)
			continue;
		strbuf_addc(&both, '}');
		if (record_read(&r, strbuf_text(&both), both.length, NULL) == 0)
			read_device(s, &r);
	}
	record_release(&r);
}

static void read_start(struct import_session *s, const struct record *r)
{
	uint64_t time_ns = record_number(r, "ts_ns");
	const char *app = record_text(r, "app");

	read_devices(s, r);
	if (s->has_start || !import_span(s, time_ns, time_ns))
		return;
	s->has_start = true;
	s->process.pid = record_u32(r, "pid");
	s->process.start_ns = time_ns;
	s->app = import_text(s, app);
	s->host = import_text(s, record_text(r, "hostname"));
	s->log_path = import_text(s, record_text(r, "log_path"));
	if (app && !*s->result->name)
		snprintf(s->result->name, sizeof(s->result->name), "%s", app);
	append_process(s);
	append_clock(s, time_ns);
	append_capability(s, time_ns, "engine", capability_state_on, NULL,
			  record_text(r, "profiling_engine"), NULL);
}

static void read_shutdown(struct import_session *s, const struct record *r)
{
	const struct record_field *signaled = record_find(r, "signaled");
	uint64_t time_ns = record_number(r, "ts_ns"), status;

	if (!import_span(s, time_ns, time_ns))
		return;
	s->has_end = true;
	s->process.end_ns = MAX(s->process.end_ns, time_ns);
	if (!record_u64(r, "exit_code", &status))
		return;
	if (signaled && signaled->kind == JSON_TRUE)
		status = 128 + record_number(r, "signal");
	s->process.exit_status = (int32_t)MIN(status, 255);
	s->process.missing &= ~(UINT64_C(1) << COLUMN_process_exit_status);
}

static void read_capability(struct import_session *s, uint64_t time_ns, const struct record *r)
{
	static const char *const names[][2] = {
		{ "kernel_events", "kernel" },        { "memcpy_activity", "memcpy" },
		{ "graph_activity", "graph_launch" }, { "sync_activity", "synchronization" },
		{ "memory_activity", "allocation" },
	};
	static const struct {
		const char *status;
		enum capability_state state;
	} states[] = { { "partial", capability_state_degraded },
		       { "fallback", capability_state_degraded },
		       { "skipped", capability_state_unavailable },
		       { "not_requested", capability_state_off } };
	const char *name = record_text(r, "feature"), *status = record_text(r, "status");
	const char *message = record_text(r, "message");
	enum capability_state state = capability_state_on;

	if (!name || !status)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		name = strcmp(name, names[i][0]) ? name : names[i][1];
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		state = strcmp(status, states[i].status) ? state : states[i].state;
	append_capability(s, time_ns, name, state, NULL, NULL,
			  message && *message ? message : record_text(r, "reason_code"));
}

static void read_capabilities(struct import_session *s, const struct record *r)
{
	const char *requested = record_text(r, "requested_engine");
	const char *selected = record_text(r, "selected_engine");
	const struct record_field *list = record_find(r, "capabilities");
	uint64_t time_ns = record_number(r, "ts_ns");
	struct record item = { 0 };
	struct json_members m;

	if (!list || list->kind != JSON_ARRAY || !import_span(s, time_ns, time_ns))
		return;
	if (requested && selected && strcmp(requested, selected) != 0)
		append_capability(s, time_ns, "engine", capability_state_degraded, requested,
				  selected, NULL);
	m = (struct json_members)JSON_ITEMS(list->value, list->value_length);
	while (json_members_next(&m, NULL) > 0)
		if (m.kind == JSON_OBJECT && record_read(&item, m.value, m.value_length, NULL) == 0)
			read_capability(s, time_ns, &item);
	json_members_release(&m);
	record_release(&item);
}

/* A record of ours. */
static void read_loss(struct import_session *s, const struct record *r)
{
	const struct column_schema *reasons =
		&schema_table(TABLE_loss)->columns[COLUMN_loss_reason];
	const char *reason = record_text(r, "reason");
	struct row_loss row = { .count = record_number(r, "count"),
				.start_ns = record_number(r, "start_ns"),
				.end_ns = record_number(r, "end_ns"),
				.detail = rows_text(s->writer, record_text(r, "detail")) };

	for (size_t i = 0; i < reasons->value_count && reason; i++)
		if (!strcmp(reason, reasons->values[i].name))
			row.reason = reasons->values[i].value;
	if (import_span(s, row.start_ns, row.end_ns))
		import_append(s, TABLE_loss, &row);
}

/* ---- all records ---- */

static const struct {
	const char *type;
	import_handler *read; /* NULL: it says nothing that the recording would have a place for */
} types[] = {
	{ "kernel_detail", import_kernel_detail },
	{ "kernel_event_batch", import_kernels },
	{ "memcpy_event_batch", import_copies },
	{ "memset_event", import_memset },
	{ "graph_launch_event", import_graph_launch },
	{ "synchronization_event_batch", import_waits },
	{ "memory_alloc_event_batch", import_allocations },
	{ "scope_event_batch", import_scope_events },
	{ "nvtx_marker_event", import_nvtx_range },
	{ "device_metric_batch", import_device_metrics },
	{ "host_metric_batch", import_host_metrics },
	{ "pm_sample_batch", import_pm_samples },
	{ "profile_sample_batch", import_pc_samples },
	{ "dictionary_update", read_dictionary },
	{ "job_start", read_start },
	{ "init", read_start },
	{ "shutdown", read_shutdown },
	{ "capture_capabilities", read_capabilities },
	{ "pitot_loss", read_loss },
	{ "system_start", import_system_mark },
	{ "system_stop", import_system_mark },
	/* Of the first releases: */
	{ "kernel_event", import_kernel_event },
	{ "memcpy_event", import_copy_event },
	{ "synchronization_event", import_wait_event },
	{ "memory_alloc_event", import_allocation_event },
	{ "scope_begin", import_scope_event },
	{ "scope_end", import_scope_event },
	{ "segment_start", NULL },
	{ "segment_end", NULL },
	{ "run_end", NULL },
};

static int flush(struct import_session *s, struct error *e)
{
	struct writer_stats stats;

	writer_flush(s->writer);
	writer_stats(s->writer, &stats);
	s->unflushed_bytes = 0;
	return stats.error ? error_errno(e, stats.error, "cannot write the recording") : 0;
}

int import_record(struct import_session *s, const struct record *r, size_t bytes, struct error *e)
{
	const char *type = record_text(r, "type");
	size_t i = 0;

	while (i < ARRAY_SIZE(types) && (!type || strcmp(types[i].type, type) != 0))
		i++;
	if (i == ARRAY_SIZE(types))
		import_lose(s, loss_reason_unknown_record, 1, type);
	else if (types[i].read)
		types[i].read(s, r);
	s->result->records++;
	s->unflushed_bytes += bytes;
	return s->unflushed_bytes >= FLUSH_BYTES ? flush(s, e) : 0;
}

/* ---- beginning and end ---- */

static void append_functions(struct import_session *s)
{
	struct row_api_function row = { .name = rows_text(s->writer, "launch (time unknown)") };

	row.id = CALL_ORIGIN;
	row.kind = api_kind_untimed;
	writer_api_function(s->writer, CALL_ORIGIN, &row);
	row.id = CALL_LAUNCH;
	row.name = rows_text(s->writer, "launch");
	row.kind = api_kind_launch;
	writer_api_function(s->writer, CALL_LAUNCH, &row);
}

int import_session_init(struct import_session *s, const char *id, const char *directory,
			uint32_t pid, struct import_result *result, struct error *e)
{
	char prefix[16];
	struct writer_options options = { .directory = directory, .prefix = prefix };

	*s = (struct import_session){ .result = result };
	snprintf(s->id, sizeof(s->id), "%s", id);
	snprintf(prefix, sizeof(prefix), "%u", pid);
	interner_init(&s->texts);
	interner_init(&s->details);
	stack_tree_init(&s->stacks, NODES_MAX, NULL, NULL);
	s->number = options.session = hash_bytes(id, strlen(id)) | 1;
	ROW_MISSING(&s->process, process, exit_status);
	ROW_MISSING(&s->process, process, end_ns);
	result->sessions++;
	if (writer_open(&options, &s->writer, e) < 0)
		return e->code;
	append_functions(s);
	return 0;
}

static void append_losses(struct import_session *s)
{
	for (size_t i = 0; i < s->loss_count; i++) {
		const struct import_loss *l = &s->losses[i];

		rows_loss(s->writer, l->reason, l->count, s->first_ns, s->last_ns,
			  *l->detail ? l->detail : NULL);
		s->result->rows[TABLE_loss]++;
	}
}

int import_session_end(struct import_session *s, struct error *e)
{
	int rc;

	import_kernels_resolve(s, true);
	if (!s->has_start) {
		s->process.start_ns = s->first_ns;
		append_clock(s, s->first_ns);
	}
	if (s->has_end)
		s->process.missing &= ~(UINT64_C(1) << COLUMN_process_end_ns);
	append_process(s);
	append_capability(s, s->process.start_ns, "import", capability_state_on, NULL,
			  "gpufl's logs", NULL);
	append_capability(s, s->process.start_ns, "api_call", capability_state_unavailable, NULL,
			  NULL, "gpufl's logs have no times of calls");
	if (s->lacks_device && s->devices & (s->devices - 1))
		append_capability(s, s->process.start_ns, "device", capability_state_unavailable,
				  NULL, NULL,
				  "the logs do not say which GPU kernels ran on; all are of GPU 0");
	append_losses(s);
	s->result->start_ns = s->result->start_ns ? MIN(s->result->start_ns, s->process.start_ns)
						  : s->process.start_ns;
	s->result->end_ns = MAX(s->result->end_ns, s->last_ns);
	rc = flush(s, e);
	if (rc >= 0 && writer_close(&s->writer) < 0)
		rc = error_set(e, -EIO, "cannot write the recording");
	return rc;
}

void import_session_release(struct import_session *s)
{
	writer_abandon(&s->writer);
	interner_release(&s->texts);
	interner_release(&s->details);
	stack_tree_release(&s->stacks);
	for (size_t i = 0; i < NAMES; i++)
		map_release(&s->names[i]);
	map_release(&s->counters);
	map_release(&s->domains);
	map_release(&s->parents);
	map_release(&s->open);
	map_release(&s->inner);
	map_release(&s->detail_of);
	map_release(&s->stack_of);
	map_release(&s->symbols);
	vec_release(&s->scopes);
	vec_release(&s->pending);
}
