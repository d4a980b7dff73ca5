/* import_session.c: sessions, and their records other than events. */
#include "import/gpufl/import_session.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "format/rows.h"
#include "schema/gpu_vendor.h"
#include "schema/theoretical_occupancy.h"

#define TEXT_MAX ((size_t)64 << 20) /* of all texts; further ones are left out */
/* of lines; they contain fewer texts than the writer has room for */
#define FLUSH_BYTES ((size_t)16 << 20)
#define NODES_MAX (1u << 20)
#define LATENESS_NS (60 * NS_PER_S) /* of work after the session's end, by different clocks */
#define CLOCK_ERROR_NS                                                                             \
	(24 * 3600 * NS_PER_S) /* of this machine's clock, for sessions without end */
#define MISSING_CALLS feature_api_call /* incomplete in all logs, whatever they claim */

/* ---- texts ---- */

uint64_t import_text(struct import_session *s, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	int64_t item;

	if (!length)
		return 0;
	if (s->texts.bytes + length > TEXT_MAX)
		item = interner_find(&s->texts, text, length);
	else
		item = interner_add(&s->texts, text, length, NULL);
	if (item < 0)
		import_add_loss(s, loss_reason_string_limit, 1, "names in gpufl's logs");
	return item < 0 ? 0 : (uint64_t)item + 1;
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

/* Dictionaries of dictionary_update, and what stands for names that they lack. */
static const struct {
	const char *key, *unknown;
} dictionaries[NAMES] = {
	[NAMES_KERNEL] = { "kernel_dict", "kernel" },
	[NAMES_SCOPE] = { "scope_name_dict", "scope" },
	[NAMES_FUNCTION] = { "function_dict", "function" },
	[NAMES_METRIC] = { "metric_dict", "metric" },
};

uint64_t import_name(struct import_session *s, enum import_dictionary kind, struct record *r,
		     const char *key)
{
	uint64_t id, text = 0;
	char name[64];

	if (!record_integer(r, key, UINT64_MAX, &id) || !id)
		return 0;
	if (map_get(&s->names[kind], id, &text))
		return text;
	snprintf(name, sizeof(name), "unknown %s %llu", dictionaries[kind].unknown,
		 (unsigned long long)id);
	text = import_text(s, name);
	snprintf(name, sizeof(name), "ids that no %s has", dictionaries[kind].key);
	import_add_loss(s, loss_reason_damaged_file, 1, name);
	if (text)
		import_put(s, &s->names[kind], id, text);
	return text;
}

bool import_required(struct import_session *s, struct record *r, const char *key, uint64_t most,
		     uint64_t *value)
{
	const struct record_field *f = record_find(r, key);
	char detail[64];

	if (record_integer(r, key, most, value))
		return true;
	snprintf(detail, sizeof(detail), "records without %s", key);
	if (!f || f->kind == JSON_NULL)
		import_add_loss(s, loss_reason_damaged_file, 1, detail);
	return false;
}

void import_put(struct import_session *s, struct map *m, uint64_t key, uint64_t value)
{
	if (map_put(m, key, value) < 0)
		import_add_loss(s, loss_reason_no_memory, 1, NULL);
}

static void read_dictionary(struct import_session *s, const struct record_field *f,
			    struct map *names, bool ahead)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(f->value, f->value_length);
	uint64_t id;

	while (json_members_next(&m, NULL) > 0) {
		bool good = m.kind == JSON_STRING && parse_u64(strbuf_text(&m.key), &id) == 0;

		if (good && !(ahead && map_get(names, id, &(uint64_t){ 0 })))
			import_put(s, names, id, import_text(s, strbuf_text(&m.text)));
		else if (!good && !ahead)
			import_add_loss(s, loss_reason_damaged_file, 1,
					"entries of dictionary_update");
	}
}

/* ahead: what comes first is valid until the dictionary that replaces it has its turn. */
static void read_names(struct import_session *s, struct record *r, bool ahead)
{
	for (size_t i = 0; i < NAMES; i++) {
		const struct record_field *f = record_find(r, dictionaries[i].key);

		if (f && f->kind == JSON_OBJECT)
			read_dictionary(s, f, &s->names[i], ahead);
		else if (f && f->kind != JSON_NULL && !ahead)
			import_add_loss(s, loss_reason_damaged_file, 1, dictionaries[i].key);
	}
}

void import_names(struct import_session *s, struct record *r)
{
	read_names(s, r, true);
}

void import_end(struct import_session *s, const struct record *r)
{
	uint64_t end_ns = record_time(r, "ts_ns") + LATENESS_NS;

	if (end_ns > LATENESS_NS && end_ns <= INT64_MAX) {
		s->latest_ns = s->has_end ? MAX(s->latest_ns, end_ns) : end_ns;
		s->has_end = true;
	}
}

static void read_dictionary_update(struct import_session *s, struct record *r)
{
	read_names(s, r, false);
}

/* ---- rows ---- */

void import_append(struct import_session *s, enum table_id table, const void *row)
{
	writer_append(s->writer, table, row);
	s->result->rows[table]++;
}

void import_add_loss(struct import_session *s, enum loss_reason reason, uint64_t count,
		     const char *detail)
{
	import_losses_add(&s->losses, reason, count, detail);
	s->result->unknown += reason == loss_reason_unknown_record ? count : 0;
	s->result->damaged += reason == loss_reason_damaged_file ? count : 0;
}

bool import_span(struct import_session *s, uint64_t start_ns, uint64_t end_ns)
{
	if (!start_ns || end_ns < start_ns || end_ns > s->latest_ns)
		return false;
	s->first_ns = s->first_ns ? MIN(s->first_ns, start_ns) : start_ns;
	s->last_ns = MAX(s->last_ns, end_ns);
	return true;
}

uint64_t import_time(struct import_session *s, const struct record *r, const char *key,
		     const char *detail)
{
	uint64_t time_ns = record_time(r, key);

	if (import_span(s, time_ns, time_ns))
		return time_ns;
	import_add_loss(s, loss_reason_no_time, 1, detail);
	return 0;
}

static uint64_t time_at(const void *row, const struct table_schema *t, int column)
{
	uint64_t time_ns;

	memcpy(&time_ns, (const char *)row + t->columns[column].row_offset, sizeof(time_ns));
	return time_ns;
}

void import_fill(struct import_session *s, struct record *r, enum table_id table, void *row)
{
	const struct table_schema *t = schema_table(table);
	int start = t->roles[ROLE_START] < 0 ? t->time_column : t->roles[ROLE_START];
	int end = t->roles[ROLE_END] < 0 ? start : t->roles[ROLE_END];
	int device = t->roles[ROLE_DEVICE];
	uint64_t found = record_fill(r, table, row), missing;
	uint32_t only = s->devices && !(s->devices & (s->devices - 1))
				? (uint32_t)__builtin_ctzll(s->devices)
				: 0;

	memcpy(&missing, row, sizeof(missing));
	if (table == TABLE_pc_reading) /* the logs have one time of a reading */
		end = start;
	if (!import_span(s, time_at(row, t, start), time_at(row, t, end))) {
		missing |= UINT64_C(1) << start | UINT64_C(1) << end;
		memcpy(row, &missing, sizeof(missing));
		import_add_loss(s, loss_reason_no_time, 1, t->name);
	}
	if (device >= 0 && !(found >> device & 1)) {
		memcpy((char *)row + t->columns[device].row_offset, &only, sizeof(only));
		s->lacks_device = true;
	}
}

/* Counts the values of a record that could not be used. */
static void count_unusable(struct import_session *s, const struct record *r, const char *type)
{
	char detail[128];

	for (uint64_t bits = r->unusable; bits; bits &= bits - 1) {
		snprintf(detail, sizeof(detail), "unusable values of %s in %s",
			 r->fields[__builtin_ctzll(bits)].key, type);
		import_add_loss(s, loss_reason_damaged_file, 1, detail);
	}
}

/* ---- the process ---- */

static void append_process(struct import_session *s)
{
	struct row_process row = s->process;

	row.executable = row.command = import_string(s, s->app);
	row.directory = import_string(s, s->log_path);
	row.host = import_string(s, s->host);
	import_append(s, TABLE_process, &row);
}

/* `name`: of feature_other */
static void append_feature(struct import_session *s, uint64_t time_ns, enum feature feature,
			   const char *name, enum capability_state state, const char *actual,
			   const char *reason)
{
	struct row_capability row = { .time_ns = time_ns, .state = (uint8_t)state };

	row.name = (uint8_t)feature;
	if (feature == feature_other)
		row.other = rows_text(s->writer, name);
	row.actual = rows_text(s->writer, actual);
	row.reason = rows_text(s->writer, reason);
	ROW_MISSING_IF(&row, capability, other, feature != feature_other);
	ROW_MISSING(&row, capability, requested);
	ROW_MISSING_IF(&row, capability, actual, !row.actual);
	ROW_MISSING_IF(&row, capability, reason, !row.reason);
	ROW_MISSING(&row, capability, method);
	import_append(s, TABLE_capability, &row);
}

static void append_capability(struct import_session *s, uint64_t time_ns, enum feature feature,
			      enum capability_state state, const char *actual, const char *reason)
{
	append_feature(s, time_ns, feature, NULL, state, actual, reason);
}

/* The first list has names and sizes, the second limits. */
static void read_devices(struct import_session *s, struct record *start)
{
	static const char *const keys[] = { "devices", "gpu_static_devices" };
	struct row_device rows[IMPORT_DEVICES];
	uint64_t new_devices = 0, id;

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		struct record_list l;

		record_list_begin(&l, start, keys[k]);
		while (record_list_next(&l)) {
			const char *vendor = record_text(&l.item, "vendor");
			uint64_t bytes = 0;

			if (!import_required(s, &l.item, "id", IMPORT_DEVICES - 1, &id) ||
			    s->devices >> id & 1) {
				count_unusable(s, &l.item, keys[k]);
				continue;
			}
			if (new_devices >> id & 1)
				bytes = rows[id].memory_bytes;
			record_fill(&l.item, TABLE_device, &rows[id]);
			rows[id].id = (uint32_t)id;
			rows[id].memory_bytes =
				MAX(bytes, record_number(&l.item, "total_mib", UINT32_MAX) << 20);
			rows[id].name = rows_text(s->writer, record_text(&l.item, "name"));
			rows[id].uuid = rows_text(s->writer, record_text(&l.item, "uuid"));
			if (vendor) {
				rows[id].vendor = (uint8_t)gpu_vendor_by_title(vendor);
				rows[id].missing &= ~(UINT64_C(1) << COLUMN_device_vendor);
			}
			if (!vendor || rows[id].vendor == gpu_vendor_nvidia)
				occupancy_add_limits(&rows[id]);
			new_devices |= UINT64_C(1) << id;
			count_unusable(s, &l.item, keys[k]);
		}
		record_list_end(&l);
	}
	for (id = 0; id < IMPORT_DEVICES; id++)
		if (new_devices >> id & 1)
			import_append(s, TABLE_device, &rows[id]);
	s->devices |= new_devices;
}

static void append_clock(struct import_session *s, uint64_t time_ns)
{
	struct row_clock row = { .missing = schema_missing(TABLE_clock),
				 .monotonic_ns = time_ns,
				 .realtime_ns = time_ns,
				 .boottime_ns = time_ns };

	import_append(s, TABLE_clock, &row);
}

static void read_start(struct import_session *s, struct record *r)
{
	const char *app = record_text(r, "app");
	uint64_t time_ns;

	read_devices(s, r);
	if (s->has_start)
		return;
	time_ns = import_time(s, r, "ts_ns", "job_start");
	s->process.pid = (uint32_t)record_number(r, "pid", UINT32_MAX);
	s->app = import_text(s, app);
	s->host = import_text(s, record_text(r, "hostname"));
	s->log_path = import_text(s, record_text(r, "log_path"));
	if (app && !*s->result->name)
		snprintf(s->result->name, sizeof(s->result->name), "%s", app);
	if (!time_ns)
		return;
	s->has_start = true;
	s->process.start_ns = time_ns;
	append_process(s);
	append_clock(s, time_ns);
	append_capability(s, time_ns, feature_engine, capability_state_on,
			  record_text(r, "profiling_engine"), NULL);
	append_capability(s, time_ns, feature_session, capability_state_on, s->id, NULL);
}

static void read_shutdown(struct import_session *s, struct record *r)
{
	const struct record_field *signaled = record_find(r, "signaled");
	uint64_t time_ns = import_time(s, r, "ts_ns", "shutdown"), status, signal;

	s->process.end_ns = MAX(s->process.end_ns, time_ns);
	if (!record_integer(r, "exit_code", 255, &status))
		return;
	if (signaled && signaled->kind == JSON_TRUE) {
		if (!record_integer(r, "signal", 127, &signal))
			return;
		status = 128 + signal;
	}
	s->process.exit_status = (int32_t)status;
	ROW_PRESENT(&s->process, process, exit_status);
}

static void read_capability(struct import_session *s, uint64_t time_ns, struct record *r)
{
	static const struct {
		const char *status;
		enum capability_state state;
	} states[] = { { "partial", capability_state_degraded },
		       { "fallback", capability_state_degraded },
		       { "skipped", capability_state_unavailable },
		       { "not_requested", capability_state_off } };
	/* Features that correspond to a table. */
	static const struct {
		const char *text;
		enum feature name;
	} names[] = { { "kernel_events", feature_kernel },
		      { "memcpy_activity", feature_memcpy },
		      { "graph_activity", feature_graph_launch },
		      { "sync_activity", feature_synchronization },
		      { "memory_activity", feature_allocation } };
	const char *name = record_text(r, "feature"), *status = record_text(r, "status");
	const char *message = record_text(r, "message");
	enum capability_state state = capability_state_on;
	enum feature feature;

	if (!name || !status)
		return;
	feature = feature_find(name);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		state = strcmp(status, states[i].status) ? state : states[i].state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		feature = strcmp(name, names[i].text) ? feature : names[i].name;
	if (feature != MISSING_CALLS)
		append_feature(s, time_ns, feature, name, state, NULL,
			       message && *message ? message : record_text(r, "reason_code"));
}

static void read_capabilities(struct import_session *s, struct record *r)
{
	uint64_t time_ns = import_time(s, r, "ts_ns", "capture_capabilities");
	struct record_list l;

	if (!time_ns || time_ns == s->capabilities_ns)
		return; /* every channel repeats the record */
	s->capabilities_ns = time_ns;
	record_list_begin(&l, r, "capabilities");
	while (record_list_next(&l)) {
		read_capability(s, time_ns, &l.item);
		count_unusable(s, &l.item, "capabilities");
	}
	record_list_end(&l);
}

/* A record that only Pitot writes. */
static void read_loss(struct import_session *s, struct record *r)
{
	struct row_loss row;

	record_fill(r, TABLE_loss, &row);
	row.detail = rows_text(s->writer, record_text(r, "detail"));
	row.missing = 0;
	if (import_span(s, row.start_ns, row.end_ns))
		import_append(s, TABLE_loss, &row);
	else
		import_add_loss(s, row.reason, row.count, record_text(r, "detail"));
}

/* Another one. */
static void read_thread(struct import_session *s, struct record *r)
{
	struct row_thread row = { .name = rows_text(s->writer, record_text(r, "name")),
				  .time_ns = import_time(s, r, "ts_ns", "pitot_thread") };
	uint64_t tid;

	if (!row.time_ns || !import_required(s, r, "thread_id", UINT32_MAX, &tid))
		return;
	row.tid = (uint32_t)tid;
	import_append(s, TABLE_thread, &row);
}

/* ---- all records ---- */

static const struct {
	const char *type;
	import_handler *read; /* NULL: nothing that a recording can represent */
} types[] = {
	{ "kernel_detail", import_kernel_detail },
	{ "kernel_event_batch", import_kernel },
	{ "memcpy_event_batch", import_copy },
	{ "memset_event", import_memset },
	{ "graph_launch_event", import_graph_launch },
	{ "synchronization_event_batch", import_wait },
	{ "memory_alloc_event_batch", import_allocation },
	{ "scope_event_batch", import_scope },
	{ "nvtx_marker_event", import_nvtx_range },
	{ "device_metric_batch", import_device_metrics },
	{ "host_metric_batch", import_host_metrics },
	{ "pm_sample_batch", import_pm_sample },
	{ "kernel_perf_metric_event", import_kernel_counters },
	{ "perf_metric_event", import_range_counters },
	{ "profile_sample_batch", import_profile_sample },
	{ "system_start", import_system_mark },
	{ "system_stop", import_system_mark },
	{ "dictionary_update", read_dictionary_update },
	{ "job_start", read_start },
	{ "shutdown", read_shutdown },
	{ "capture_capabilities", read_capabilities },
	{ "pitot_loss", read_loss },
	{ "pitot_thread", read_thread },
	{ "segment_start", NULL },
	{ "segment_end", NULL },
	{ "run_end", NULL },
	/* Of the first releases: */
	{ "init", read_start },
	{ "kernel_event", import_kernel },
	{ "memcpy_event", import_copy },
	{ "synchronization_event", import_wait },
	{ "memory_alloc_event", import_allocation },
	{ "scope_begin", import_scope },
	{ "scope_end", import_scope },
};

static void read_batch(struct import_session *s, const struct record *r, const char *type,
		       import_handler *read)
{
	struct error e = { 0 };
	struct batch batch;
	int rc = batch_begin(&batch, r, &e);

	while (rc >= 0 && (rc = batch_next(&batch, &e)) > 0) {
		read(s, &batch.row);
		count_unusable(s, &batch.row, type);
	}
	if (batch.damaged)
		import_add_loss(s, loss_reason_damaged_file, batch.damaged, "rows of batches");
	batch_end(&batch);
	if (rc < 0)
		import_add_loss(s, loss_reason_damaged_file, 1, e.text);
}

static int flush(struct import_session *s, struct error *e)
{
	struct writer_stats stats;

	writer_flush(s->writer);
	writer_stats(s->writer, &stats);
	s->unflushed_bytes = 0;
	return stats.error ? error_errno(e, stats.error, "cannot write the recording") : 0;
}

int import_record(struct import_session *s, struct record *r, size_t bytes, struct error *e)
{
	static const char suffix[] = "_batch";
	const char *type = record_text(r, "type");
	size_t length = type ? strlen(type) : 0, i = 0;

	while (i < ARRAY_SIZE(types) && (!type || strcmp(types[i].type, type) != 0))
		i++;
	if (i == ARRAY_SIZE(types))
		import_add_loss(s, loss_reason_unknown_record, 1, type);
	else if (length > strlen(suffix) && !strcmp(type + length - strlen(suffix), suffix))
		read_batch(s, r, types[i].type, types[i].read);
	else if (types[i].read)
		types[i].read(s, r);
	count_unusable(s, r, i < ARRAY_SIZE(types) ? types[i].type : "a record");
	s->result->records++;
	s->unflushed_bytes += bytes;
	return s->unflushed_bytes >= FLUSH_BYTES ? flush(s, e) : 0;
}

/* ---- beginning and end ---- */

int import_session_init(struct import_session *s, const char *id, const char *directory,
			uint32_t pid, struct import_result *result, struct error *e)
{
	char prefix[16];
	struct writer_options options = { .directory = directory,
					  .prefix = prefix,
					  .now_ns = &s->last_ns };

	*s = (struct import_session){ .result = result,
				      .latest_ns = clock_read_ns(CLOCK_REALTIME) + CLOCK_ERROR_NS };
	snprintf(s->id, sizeof(s->id), "%s", id);
	snprintf(prefix, sizeof(prefix), "%u", pid);
	interner_init(&s->texts);
	interner_init(&s->details);
	stack_tree_init(&s->stacks, NODES_MAX, import_python_frame, s);
	s->number = options.session = hash_bytes(id, strlen(id)) | 1;
	ROW_MISSING(&s->process, process, exit_status, oom_killed, end_ns);
	result->sessions++;
	if (writer_open(&options, &s->writer, e) < 0)
		return e->code;
	import_functions(s);
	return 0;
}

/* Records what the recording lacks, and why. */
static void append_gaps(struct import_session *s)
{
	uint64_t time_ns = s->process.start_ns;

	append_capability(s, time_ns, feature_import, capability_state_on, "gpufl's logs", NULL);
	append_capability(s, time_ns, MISSING_CALLS,
			  s->has_calls ? capability_state_degraded : capability_state_unavailable,
			  NULL,
			  s->has_calls ? "the logs contain calls that cause GPU work or wait for it"
				       : "gpufl's logs do not contain the times of calls");
	if (s->lacks_device && s->devices & (s->devices - 1))
		append_capability(
			s, time_ns, feature_device, capability_state_unavailable, NULL,
			"the logs do not name the GPU of kernels; all are attributed to GPU 0");
	s->result->rows[TABLE_loss] +=
		import_losses_append(&s->losses, s->writer, s->first_ns, s->last_ns);
}

int import_session_end(struct import_session *s, struct error *e)
{
	struct import_result *result = s->result;
	int rc;

	import_kernels_resolve(s, true);
	import_ranges_write(s);
	if (!s->has_start) {
		s->process.start_ns = s->first_ns;
		append_clock(s, s->first_ns);
	}
	if (s->process.end_ns)
		ROW_PRESENT(&s->process, process, end_ns);
	append_process(s);
	append_gaps(s);
	result->start_ns =
		result->start_ns ? MIN(result->start_ns, s->process.start_ns) : s->process.start_ns;
	result->end_ns = MAX(result->end_ns, s->last_ns);
	rc = flush(s, e);
	if (rc >= 0 && writer_close(&s->writer) < 0)
		rc = error_set(e, -EIO, "cannot write the recording");
	return rc;
}

void import_session_release(struct import_session *s)
{
	struct map *maps[] = { &s->counters, &s->metrics,   &s->domains,  &s->parents, &s->open,
			       &s->inner,    &s->detail_of, &s->stack_of, &s->symbols, &s->called };

	writer_abandon(&s->writer);
	interner_release(&s->texts);
	interner_release(&s->details);
	stack_tree_release(&s->stacks);
	for (size_t i = 0; i < NAMES; i++)
		map_release(&s->names[i]);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_release(maps[i]);
	vec_release(&s->scopes);
	vec_release(&s->ranges);
	vec_release(&s->pending);
}
