/* nsys.c: what an export says about itself, its processes and GPUs; and the order of conversion. */
#include "import/nsys/nsys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/starts_with.h"
#include "format/rows.h"
#include "schema/theoretical_occupancy.h"

#define DEFAULT_SAMPLE_NS UINT64_C(1000000) /* of nsys: 1 kHz */
#define DIAGNOSTICS_MAX 64
#define SEVERITY_WARNING 2
#define SEVERITY_ERROR 3

/* ---- the export ---- */

/* Reads an entry of a table of names and values. Returns false if there is none. */
static bool read_entry(struct database_import *m, const char *table, const char *name, char *value,
		       size_t size)
{
	static const char *const columns[] = { "name", "value" };
	struct error e = { 0 };
	struct query q;
	size_t length;
	bool found = false;

	if (query_open(&q, &m->db, table, columns, 2, NULL, &e) < 0)
		return false;
	while (!found && query_next(&q) > 0) {
		const char *text = query_text(&q, 0, &length);

		found = text && !strcmp(text, name);
		text = found ? query_text(&q, 1, &length) : NULL;
		if (text)
			snprintf(value, size, "%s", text);
	}
	query_close(&q);
	return found;
}

static bool is_set(struct database_import *m, const char *table, const char *name)
{
	char value[16] = "";

	return read_entry(m, table, name, value, sizeof(value)) && !strcmp(value, "true");
}

/*
 * Times count from the start of the capture, unless they were exported as UTC, plus a shift. If it
 * is unknown, they begin a second after 1970, because 0 is no time of a recording.
 */
static int read_clock(struct nsys *n, struct error *e)
{
	static const char *const columns[] = { "utcEpochNs" };
	struct database_import *m = &n->import;
	bool is_utc = is_set(m, "META_DATA_EXPORT", "EXPORT_PARAM_TIME_NORMALIZE");
	char shift[32] = "0";
	int64_t ns;
	struct query q;
	int rc = query_open(&q, &m->db, "TARGET_INFO_SESSION_START_TIME", columns, 1, NULL, e);

	m->offset_ns = is_utc ? 0 : NS_PER_S;
	n->has_clock = is_utc;
	if (rc >= 0 && query_next(&q) > 0 && query_value(&q, 0, &ns) == QUERY_INTEGER && ns > 0 &&
	    ns < INT64_MAX / 2 && !is_utc) {
		m->offset_ns = ns;
		n->has_clock = true;
	}
	query_close(&q);
	read_entry(m, "META_DATA_EXPORT", "EXPORT_PARAM_TIME_SHIFT", shift, sizeof(shift));
	ns = strtoll(shift, NULL, 10);
	if (ns > INT64_MIN / 4 && ns < INT64_MAX / 4)
		m->offset_ns -= ns;
	return rc;
}

static int read_export(struct nsys *n, struct error *e)
{
	static const char *const tables[] = { "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS" };
	static const char *const columns[] = { "globalTid" };
	struct database_import *m = &n->import;
	char product[32] = "", schema[32] = "unknown", rate[32] = "";
	uint64_t hz;
	int rc = 0;

	read_entry(m, "META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", product, sizeof(product));
	read_entry(m, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", schema, sizeof(schema));
	read_entry(m, "TARGET_INFO_SYSTEM_ENV", "Hostname", n->host, sizeof(n->host));
	snprintf(n->tool, sizeof(n->tool), "Nsight Systems%s%s, export schema %s",
		 *product ? " " : "", product, schema);
	n->sample_ns = DEFAULT_SAMPLE_NS;
	if (read_entry(m, "META_DATA_CAPTURE", "RATE_HZ", rate, sizeof(rate)) &&
	    parse_u64(rate, &hz) == 0 && hz && hz <= 1000000)
		n->sample_ns = UINT64_C(1000000000) / hz;
	for (size_t i = 0; i < ARRAY_SIZE(tables) && rc >= 0 && !m->default_key; i++) {
		struct query q;

		rc = query_open(&q, &m->db, tables[i], columns, 1, "LIMIT 1", e);
		if (rc >= 0 && query_next(&q) > 0)
			m->default_key = (uint64_t)query_number(&q, 0, 0) & NSYS_PROCESS_MASK;
		query_close(&q);
	}
	return rc < 0 ? rc : read_clock(n, e);
}

/* The process id is cut to 24 bits in the key; PROCESSES has all of it. */
static int read_pids(struct nsys *n, struct error *e)
{
	static const char *const columns[] = { "globalPid", "pid" };
	struct query q;
	int rc = query_open(&q, &n->import.db, "PROCESSES", columns, 2, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		int64_t pid = query_number(&q, 1, -1);

		if (pid > 0 && pid <= UINT32_MAX &&
		    map_put(&n->pids, (uint64_t)query_number(&q, 0, -1), (uint64_t)pid) < 0)
			rc = -ENOMEM;
	}
	query_close(&q);
	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : 0;
}

static uint32_t pid_of(struct database_import *m, uint64_t key)
{
	uint64_t pid = key >> 24 & 0xffffff;

	map_get(&((struct nsys *)m->own)->pids, key, &pid);
	return (uint32_t)pid;
}

/* ---- what is missing ---- */

static void append_diagnostic(struct database_import *m, struct database_process *p,
			      const struct query *q, unsigned number)
{
	struct row_capability row = { .missing = schema_missing(TABLE_capability),
				      .name = feature_other,
				      .state = capability_state_degraded,
				      .time_ns = p->first_ns };
	size_t length;
	const char *text = query_text(q, 1, &length), *digits;
	char name[48];
	int64_t time;
	uint64_t lost = 0;

	if (!text)
		return;
	if (query_value(q, 2, &time) == QUERY_INTEGER)
		database_time(m, time, &row.time_ns);
	snprintf(name, sizeof(name), "Nsight Systems' diagnostic %u", number);
	row.other = rows_text(p->writer, name);
	row.reason = writer_string(p->writer, text, length);
	row.missing &=
		~(UINT64_C(1) << COLUMN_capability_other | UINT64_C(1) << COLUMN_capability_reason);
	writer_append(p->writer, TABLE_capability, &row);
	m->result->rows[TABLE_capability]++;
	if (!strcasestr(text, "dropped") && !strcasestr(text, " lost"))
		return;
	digits = strpbrk(text, "123456789");
	lost = digits ? strtoull(digits, NULL, 10) : 1;
	database_loss(m, loss_reason_gpu_records_dropped, lost, text);
}

/* Warnings and errors of the capture. */
static void append_diagnostics(struct database_import *m, struct database_process *p)
{
	static const char *const columns[] = { "severity", "text", "timestamp" };
	struct error e = { 0 };
	struct query q;
	unsigned number = 0;

	if (query_open(&q, &m->db, "DIAGNOSTIC_EVENT", columns, 3, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0 && number < DIAGNOSTICS_MAX) {
		int64_t severity = query_number(&q, 0, 0);

		if (severity == SEVERITY_WARNING || severity == SEVERITY_ERROR)
			append_diagnostic(m, p, &q, ++number);
	}
	database_query_end(m, &q, "DIAGNOSTIC_EVENT");
}

/* Counts the rows of tables that nothing was read of. Other tools begin theirs with _. */
static void count_unknown(struct database_import *m)
{
	static const char *const known[] = { "ENUM_",     "META_DATA_", "TARGET_INFO_",
					     "ANALYSIS_", "sqlite_",    "NVTX_PAYLOAD_",
					     "Process",   "_" };
	struct error e = { 0 };
	struct query q;

	if (query_sql(&q, &m->db, "SELECT name FROM sqlite_master WHERE type = 'table'", &e) < 0)
		return;
	while (query_next(&q) > 0) {
		size_t length, i = 0;
		const char *name = query_text(&q, 0, &length);
		char sql[160], part[140], detail[160];
		struct query count;

		snprintf(part, sizeof(part), "|%s|", name ? name : "");
		while (i < ARRAY_SIZE(known) && name && !starts_with(name, known[i]))
			i++;
		if (!name || i < ARRAY_SIZE(known) || strchr(name, '"') ||
		    length + 40 > sizeof(sql) || strstr(strbuf_text(&m->db.queried), part))
			continue;
		snprintf(sql, sizeof(sql), "SELECT count(*) FROM \"%s\"", name);
		snprintf(detail, sizeof(detail), "rows of %s", name);
		if (query_sql(&count, &m->db, sql, &e) >= 0 && query_next(&count) > 0 &&
		    query_number(&count, 0, 0) > 0)
			database_loss(m, loss_reason_unknown_record,
				      (uint64_t)query_number(&count, 0, 0), detail);
		query_close(&count);
	}
	query_close(&q);
}

static void append_capabilities(struct nsys *n, struct database_process *p)
{
	static const char meta[] = "META_DATA_CAPTURE";
	struct database_import *m = &n->import;
	struct writer *w = p->writer;

	rows_capability_at(w, p->first_ns, feature_import, capability_state_on, NULL, n->tool,
			   NULL);
	if (!n->has_calls)
		rows_capability_at(w, p->first_ns, feature_api_call, capability_state_unavailable,
				   NULL, NULL, "the export contains no calls");
	else if (is_set(m, meta, "CUDA_SKIP_SOME_API_CALLS"))
		rows_capability_at(w, p->first_ns, feature_api_call, capability_state_degraded,
				   NULL, NULL,
				   "Nsight Systems leaves out calls that neither launch, copy nor "
				   "wait");
	if (!n->has_devices)
		rows_capability_at(w, p->first_ns, feature_device, capability_state_unavailable,
				   NULL, NULL, "the export does not describe the GPUs");
	if (!n->has_clock)
		rows_capability_at(w, p->first_ns, feature_clock, capability_state_degraded, NULL,
				   NULL,
				   "the export does not say when the capture began: times count "
				   "from 1970");
	if (database_has(&m->db, "COMPOSITE_EVENTS"))
		rows_capability_at(w, p->first_ns, feature_cpu, capability_state_on, NULL,
				   "Nsight Systems' samples",
				   n->sample_ns == DEFAULT_SAMPLE_NS
					   ? "each sample stands for 1 ms, nsys' default"
					   : NULL);
}

/* ---- processes ---- */

static const struct field device_fields[] = {
	FIELD(device, name, TEXT, "name"),
	FIELD(device, pci, TEXT, "busLocation"),
	FIELD(device, compute_major, NUMBER, "computeMajor|smMajor"),
	FIELD(device, compute_minor, NUMBER, "computeMinor|smMinor"),
	FIELD(device, multiprocessors, NUMBER_OR_0, "smCount|numMultiprocessors"),
	FIELD(device, memory_bytes, NUMBER, "totalMemory"),
	FIELD(device, l2_bytes, NUMBER_OR_0, "l2CacheSize"),
	FIELD(device, warp_size, NUMBER_OR_0, "threadsPerWarp"),
	FIELD(device, max_threads_per_block, NUMBER_OR_0, "maxThreadsPerBlock"),
	FIELD(device, max_blocks_per_multiprocessor, NUMBER_OR_0, "maxBlocksPerSm"),
	FIELD(device, registers_per_block, NUMBER_OR_0, "maxRegistersPerBlock"),
	FIELD(device, registers_per_multiprocessor, NUMBER_OR_0, "maxRegistersPerSm"),
	FIELD(device, shared_per_block_bytes, NUMBER_OR_0, "maxShmemPerBlock"),
	FIELD(device, shared_per_block_optin_bytes, NUMBER_OR_0, "maxShmemPerBlockOptin"),
	FIELD(device, shared_per_multiprocessor_bytes, NUMBER_OR_0, "maxShmemPerSm"),
};

/* Its ordinal in a process; TARGET_INFO_GPU has the machine's, old exports have no other. */
static uint32_t ordinal_of(struct database_import *m, const struct database_process *p, int64_t gpu,
			   int64_t otherwise)
{
	static const char *const columns[] = { "pid", "gpuId", "cudaId" };
	struct error e = { 0 };
	struct query q;

	if (query_open(&q, &m->db, "TARGET_INFO_CUDA_DEVICE", columns, 3, NULL, &e) < 0)
		return UINT32_MAX;
	if (q.statement)
		otherwise = UINT32_MAX;
	while (query_next(&q) > 0)
		if (query_number(&q, 0, -1) == p->pid && query_number(&q, 1, -1) == gpu)
			otherwise = query_number(&q, 2, otherwise);
	query_close(&q);
	return otherwise < 0 || otherwise > UINT32_MAX ? UINT32_MAX : (uint32_t)otherwise;
}

static void append_devices(struct nsys *n, struct database_process *p)
{
	enum {
		FIELDS = ARRAY_SIZE(device_fields),
		ID = FIELDS,
		ORDINAL,
		UUID,
		CLOCK,
		WARPS,
		COUNT
	};
	struct database_import *m = &n->import;
	const char *columns[COUNT] = { [ID] = "id",
				       [ORDINAL] = "cuDevice|id",
				       [UUID] = "uuid",
				       [CLOCK] = "clockRate",
				       [WARPS] = "maxWarpsPerSm" };
	char text[80] = "";
	struct error e = { 0 };
	uint64_t driver = 0;
	struct query q;

	for (size_t i = 0; i < FIELDS; i++)
		columns[i] = device_fields[i].from;
	if (read_entry(m, "TARGET_INFO_SYSTEM_ENV", "CudaDriverVersion", text, sizeof(text)) &&
	    (parse_u64(text, &driver) < 0 || driver > UINT32_MAX))
		driver = 0;
	if (query_open(&q, &m->db, "TARGET_INFO_GPU", columns, COUNT, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		struct row_device row;
		size_t length;
		int64_t hz = query_number(&q, CLOCK, 0), warps = query_number(&q, WARPS, 0);
		uint32_t id =
			ordinal_of(m, p, query_number(&q, ID, -1), query_number(&q, ORDINAL, -1));
		const char *uuid = query_text(&q, UUID, &length);

		if (id == UINT32_MAX)
			continue;
		database_fill(m, p, &q, 0, TABLE_device, device_fields, FIELDS, &row);
		row.id = id;
		row.driver_version = (uint32_t)driver;
		row.vendor = gpu_vendor_nvidia;
		row.missing &= ~(UINT64_C(1) << COLUMN_device_vendor);
		snprintf(text, sizeof(text), "%s%s",
			 uuid && *uuid && !strchr(uuid, 'G') ? "GPU-" : "", uuid ? uuid : "");
		row.uuid = rows_text(p->writer, text);
		if (hz > 0 && hz / 1000 <= UINT32_MAX) {
			row.clock_khz = (uint32_t)(hz / 1000);
			row.missing &= ~(UINT64_C(1) << COLUMN_device_clock_khz);
		}
		if (warps > 0 && warps <= 1024 && row.warp_size && row.warp_size <= 1024) {
			row.max_threads_per_multiprocessor = (uint32_t)warps * row.warp_size;
			row.missing &=
				~(UINT64_C(1) << COLUMN_device_max_threads_per_multiprocessor);
		}
		occupancy_add_limits(&row);
		writer_append(p->writer, TABLE_device, &row);
		m->result->rows[TABLE_device]++;
		n->has_devices = true;
	}
	database_query_end(m, &q, "TARGET_INFO_GPU");
}

static const struct field stream_fields[] = {
	FIELD(stream, id, NUMBER, "streamId"),
	FIELD(stream, context, NUMBER, "contextId"),
	FIELD(stream, priority, NUMBER, "priority"),
	{ .from = "processId" },
	{ .from = "flag" },
};

static void append_streams(struct database_import *m, struct database_process *p)
{
	enum { FIELDS = 3, COUNT = ARRAY_SIZE(stream_fields) };
	const char *columns[COUNT];
	struct error e = { 0 };
	struct query q;

	for (size_t i = 0; i < COUNT; i++)
		columns[i] = stream_fields[i].from;
	if (query_open(&q, &m->db, "TARGET_INFO_CUDA_STREAM", columns, COUNT, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		struct row_stream row;
		int64_t flag = query_number(&q, FIELDS + 1, 0);

		if (query_number(&q, FIELDS, -1) != p->pid)
			continue;
		database_fill(m, p, &q, 0, TABLE_stream, stream_fields, FIELDS, &row);
		row.time_ns = p->first_ns;
		row.non_blocking = flag == 2; /* ENUM_CUPTI_STREAM_TYPE */
		if (flag)
			row.missing &= ~(UINT64_C(1) << COLUMN_stream_non_blocking);
		writer_append(p->writer, TABLE_stream, &row);
		m->result->rows[TABLE_stream]++;
	}
	database_query_end(m, &q, "TARGET_INFO_CUDA_STREAM");
}

static void append_threads(struct database_import *m, struct database_process *p)
{
	static const char *const columns[] = { "globalTid", "nameId" };
	struct error e = { 0 };
	struct query q;

	if (query_open(&q, &m->db, "ThreadNames", columns, 2, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		uint64_t thread = (uint64_t)query_number(&q, 0, 0);
		struct row_thread row = { .tid = nsys_tid(thread), .time_ns = p->first_ns };

		if ((thread & NSYS_PROCESS_MASK) != p->key)
			continue;
		row.name = database_string(m, p, (uint64_t)query_number(&q, 1, -1));
		writer_append(p->writer, TABLE_thread, &row);
		m->result->rows[TABLE_thread]++;
	}
	database_query_end(m, &q, "ThreadNames");
}

/* The command of the capture, if it is that of the only process, else the process's name. */
static void read_command(struct database_import *m, const struct database_process *p,
			 struct strbuf *command)
{
	static const char *const names[] = { "globalPid", "name" }, *const entries[] = { "name",
											 "value" };
	struct error e = { 0 };
	struct query q;
	size_t length;

	if (query_open(&q, &m->db, "PROCESSES", names, 2, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0 && !command->length)
		if ((uint64_t)query_number(&q, 0, -1) == p->key && query_text(&q, 1, &length))
			strbuf_add_utf8(command, query_text(&q, 1, &length), length);
	query_close(&q);
	if (!*m->result->name)
		snprintf(m->result->name, sizeof(m->result->name), "%s", strbuf_text(command));
	if (m->processes.count > 1 ||
	    query_open(&q, &m->db, "META_DATA_CAPTURE", entries, 2, NULL, &e) < 0)
		return;
	while (query_next(&q) > 0) {
		const char *name = query_text(&q, 0, &length);
		const char *value = query_text(&q, 1, &length);

		if (!name || !value || !starts_with(name, "PROCESS_0:"))
			continue;
		name += strlen("PROCESS_0:");
		if (!strcmp(name, "COMMAND"))
			strbuf_clear(command);
		if (!strcmp(name, "COMMAND") || starts_with(name, "ARGUMENT_"))
			strbuf_addf(command, "%s%s", command->length ? " " : "", value);
	}
	query_close(&q);
}

static void describe(struct database_import *m, struct database_process *p, struct row_process *row)
{
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;
	struct nsys *n = m->own;

	read_command(m, p, &command);
	row->command = rows_text(p->writer, strbuf_text(&command));
	row->executable = writer_string(p->writer, strbuf_text(&command),
					strcspn(strbuf_text(&command), " "));
	row->host = rows_text(p->writer, n->host);
	append_devices(n, p);
	append_streams(m, p);
	append_threads(m, p);
	append_capabilities(n, p);
	if (p == m->processes.data[0]) {
		append_diagnostics(m, p);
		count_unknown(m);
	}
}

static int convert(struct nsys *n, struct error *e)
{
	static int (*const steps[])(struct nsys * n,
				    struct error * e) = { nsys_convert_work, nsys_convert_calls,
							  nsys_convert_nvtx, nsys_convert_metrics };
	int rc = database_strings(&n->import, "StringIds", "id", "value", e);

	if (rc >= 0)
		rc = nsys_enums_read(&n->import, e);
	if (rc >= 0)
		rc = read_export(n, e);
	if (rc >= 0)
		rc = read_pids(n, e);
	for (size_t i = 0; i < ARRAY_SIZE(steps) && rc >= 0; i++)
		rc = steps[i](n, e);
	return rc < 0 ? rc : database_import_close(&n->import, describe, e);
}

static int read_file(struct import_files *files, struct input *in, const char *path,
		     struct error *e)
{
	struct nsys *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return error_set(e, -ENOMEM, "out of memory");
	rc = database_import_open(&n->import, files, in, path, e);
	n->import.own = n;
	n->import.pid_of = pid_of;
	if (rc >= 0)
		rc = convert(n, e);
	database_import_release(&n->import);
	map_release(&n->pids);
	for (struct nsys_chains *c = &n->calls; c <= &n->samples; c++) {
		map_release(&c->chains);
		vec_release(&c->frames);
	}
	free(n);
	return rc;
}

static int sniff(const struct input *in)
{
	return database_sniff(in, "StringIds") ? 90 : 0;
}

static const struct import_format format = { .name = "SQLite exports of Nsight Systems",
					     .part = "sqlite",
					     .sniff = sniff,
					     .read = read_file };

int nsys_sniff(const struct import_source *source)
{
	return import_files_sniff(&format, source);
}

int nsys_run(struct import_source *source, const struct import_options *options,
	     const char *directory, struct import_result *result, struct error *e)
{
	struct import_files files = {
		.format = &format, .options = options, .directory = directory, .result = result
	};

	return import_files(&files, source, e);
}
