/* info_json.c: `pitot info --json`. */
#include "cli/info.h"

#include "analysis/capabilities.h"
#include "base/json.h"
#include "read/view_columns.h"
#include "schema/event_words.h"

/* Writes the keys that processes and samplers' sessions have in common. */
static void write_extent(const struct info *i, const struct trace_process *p, struct json *j)
{
	json_key_bool(j, "closed", p->closed);
	json_key_i64(j, "start_ns", (int64_t)(p->start_ns - i->start_ns));
	json_key_i64(j, "end_ns", (int64_t)(p->end_ns - i->start_ns));
	json_key_u64(j, "segments", p->segments);
	json_key_u64(j, "missing_segments", p->missing_segments);
}

static void write_samplers(const struct info *i, size_t process, struct json *j)
{
	json_key_array(j, "samplers");
	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		const struct trace_process *p = trace_process(i->trace, n);

		if (p->subject != process || !p->sampler)
			continue;
		json_object(j);
		write_extent(i, p, j);
		json_end(j);
	}
	json_end(j);
}

static void write_process(const struct info *i, size_t process, struct json *j)
{
	struct trace_process p = info_process(i, process);
	struct info_clock s = info_read_clock(i, process);

	json_object(j);
	json_key_u64(j, "pid", p.pid);
	json_key_u64(j, "parent_pid", p.parent_pid);
	json_key_string(j, "name", capability_app_name(i->trace, trace_process(i->trace, process)));
	json_key_string(j, "command", p.command);
	json_key_string(j, "executable", p.executable);
	json_key_string(j, "host", p.host);
	json_key_known(j, "rank", p.rank != TRACE_NO_RANK, p.rank);
	json_key_known(j, "local_rank", p.local_rank != TRACE_NO_RANK, p.local_rank);
	json_key_known(j, "world_size", p.world_size != TRACE_NO_RANK, p.world_size);
	json_key_known(j, "node_rank", p.node_rank != TRACE_NO_RANK, p.node_rank);
	json_key_string(j, "job", p.job);
	json_key_bool(j, "recorded", p.inside && !p.sampler);
	json_key_known(j, "exit_status", p.exit_status >= 0, (uint64_t)p.exit_status);
	write_extent(i, &p, j);
	json_key_u64(j, "clock_readings", s.readings);
	json_key_i64(j, "realtime_drift_ns", info_drift_ns(&s));
	write_samplers(i, process, j);
	json_end(j);
}

static void write_processes(const struct info *i, struct json *j)
{
	json_key_array(j, "processes");
	for (size_t n = 0; n < trace_process_count(i->trace); n++)
		if (!info_is_sampler_session(i, n))
			write_process(i, n, j);
	json_end(j);
}

/* Writes rows of a table as objects: the process, and all columns. */
static void write_rows(const struct info *i, const char *key, enum table_id id, struct json *j)
{
	const struct view_table table = { .trace = i->trace,
					  .schema = schema_table(id),
					  .origin_ns = i->start_ns };
	const struct view_column pid = { .kind = VIEW_PID };

	json_key_array(j, key);
	for (uint64_t row = 0; row < trace_rows(i->trace, id); row++) {
		json_object(j);
		json_key(j, "pid");
		view_json(&table, &pid, row, j);
		for (int c = 0; c < table.schema->column_count; c++) {
			const struct column_schema *schema = &table.schema->columns[c];
			const struct view_column column = { .column = c, .schema = schema };

			json_key(j, schema->name);
			view_json(&table, &column, row, j);
		}
		json_end(j);
	}
	json_end(j);
}

static void write_tables(const struct info *i, struct json *j)
{
	json_key_object(j, "tables");
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		struct trace_table_size size;

		trace_table_size(i->trace, (enum table_id)id, &size);
		if (!size.rows)
			continue;
		json_key_object(j, schema_table(id)->name);
		json_key_u64(j, "rows", trace_rows(i->trace, (enum table_id)id));
		json_key_u64(j, "bytes", size.bytes);
		json_key_u64(j, "blocks", size.blocks);
		json_end(j);
	}
	json_end(j);
}

static void write_losses(const struct info *i, struct json *j)
{
	json_key_array(j, "loss");
	for (size_t n = 0; n < i->loss_count; n++) {
		const struct trace_loss *l = &i->losses[n];

		json_object(j);
		json_key(j, "pid");
		if (l->process < trace_process_count(i->trace))
			json_u64(j, trace_process(i->trace, l->process)->pid);
		else
			json_null(j);
		json_key_string(j, "reason", loss_name(l->reason));
		json_key_known(j, "count", l->count, l->count);
		json_key_i64(j, "start_ns", (int64_t)(l->start_ns - i->start_ns));
		json_key_i64(j, "end_ns", (int64_t)(l->end_ns - i->start_ns));
		json_key_string(j, "detail", l->detail);
		json_end(j);
	}
	json_end(j);
}

void info_print_json(const struct info *i, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);
	struct trace_cut cut = trace_cut(i->trace);

	json_object(&j);
	json_key_string(&j, "recording", i->path);
	json_key_u64(&j, "start_monotonic_ns", i->start_ns);
	json_key_i64(&j, "start_unix_ns", trace_unix_ns(i->trace, i->start_ns));
	json_key_u64(&j, "duration_ns", i->end_ns - i->start_ns);
	json_key_u64(&j, "bytes", trace_file_bytes(i->trace));
	json_key_u64(&j, "segments", trace_segment_count(i->trace));
	json_key_u64(&j, "unfinished_segments", cut.segments);
	json_key_u64(&j, "partial_bytes", cut.partial_bytes);
	json_key_u64(&j, "missing_bytes", cut.missing_bytes);
	if (i->damaged >= 0)
		json_key_i64(&j, "damaged_blocks", i->damaged);
	write_processes(i, &j);
	write_rows(i, "devices", TABLE_device, &j);
	write_tables(i, &j);
	write_rows(i, "capabilities", TABLE_capability, &j);
	write_losses(i, &j);
	json_finish(&j);
}
