/*
 * cmd_info.c: `pitot info`: what a recording is and what it consists of. It loads only tables of
 * what rows refer to, so that it is quick whatever the size of the recording.
 */
#include <string.h>
#include <time.h>

#include "analysis/cost.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "cli/text_table.h"
#include "cli/ui.h"

#define CELL_MAX 200 /* columns of a cell; --json has the whole text */

static bool option_verify;

static const struct option options[] = {
	{ .name = "verify",
	  .type = OPTION_FLAG,
	  .value = &option_verify,
	  .help = "check every checksum; fails when something is damaged" },
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot info", "the newest recording in this folder" },
	{ "pitot info --verify train.pitot", "is it intact?" },
	{ NULL, NULL },
};

struct info {
	const struct context *context;
	struct trace *trace;
	const char *path;
	uint64_t start_ns, end_ns;
	const struct trace_loss *losses;
	size_t loss_count;
	int64_t damaged; /* blocks; -1: not checked */
};

static int load(struct info *i, struct error *e)
{
	int r = trace_load_repeated(i->trace, e);

	trace_span(i->trace, &i->start_ns, &i->end_ns);
	for (size_t n = 0; n < trace_process_count(i->trace); n++)
		i->end_ns = MAX(i->end_ns, trace_process(i->trace, n)->end_ns);
	if (r >= 0)
		r = trace_losses(i->trace, &i->losses, &i->loss_count, e);
	i->damaged = -1;
	if (r >= 0 && option_verify) {
		i->damaged = trace_verify(i->trace, e);
		r = i->damaged < 0 ? (int)i->damaged : 0;
	}
	return r;
}

static uint64_t table_bytes(const struct info *i, enum table_id table)
{
	struct trace_table_size size;

	trace_table_size(i->trace, table, &size);
	return size.bytes;
}

/* Tenths of a byte a row, rounded. */
static uint64_t tenths_of(uint64_t bytes, uint64_t rows)
{
	return rows ? (bytes * 10 + rows / 2) / rows : 0;
}

static uint64_t kernel_tenths(const struct info *i)
{
	return tenths_of(table_bytes(i, TABLE_kernel) + table_bytes(i, TABLE_api_call),
			 trace_rows(i->trace, TABLE_kernel));
}

static uint64_t number(const struct info *i, enum table_id table, int column, uint64_t row)
{
	return trace_value(i->trace, table, column, row, NULL);
}

/* The text of a STRING column; "" when it is missing. */
static const char *text(const struct info *i, enum table_id table, int column, uint64_t row)
{
	bool missing;
	uint64_t id = trace_value(i->trace, table, column, row, &missing);

	return missing ? "" : trace_string(i->trace, (uint32_t)id);
}

static void cell(struct text_table *t, const char *unsafe)
{
	struct strbuf safe = STRBUF_INIT;

	text_safe(&safe, unsafe, strlen(unsafe));
	text_shorten(&safe, CELL_MAX);
	text_table_add(t, strbuf_text(&safe));
	strbuf_release(&safe);
}

static void title(const struct info *i, const char *name, struct strbuf *out)
{
	strbuf_addc(out, '\n');
	style_add(out, i->context->color, STYLE_BOLD, name);
	strbuf_addc(out, '\n');
}

static void finish(const struct info *i, const char *name, struct text_table *t, struct strbuf *out)
{
	if (text_table_rows(t)) {
		if (*name)
			title(i, name, out);
		text_table_print(t, *name ? 2 : 0, UINT32_MAX, i->context->color, out);
	}
	text_table_release(t);
}

static void print_identity(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT(""), LEFT("") };
	struct text_table t = { .columns = columns, .column_count = 2, .headless = true };
	int64_t start_unix_ns = (int64_t)i->start_ns + trace_realtime_offset_ns(i->trace);
	time_t seconds = (time_t)(start_unix_ns / (int64_t)NS_PER_S);
	_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;
	uint64_t kernels = trace_rows(i->trace, TABLE_kernel);
	char date[64] = "";
	struct tm tm;

	text_table_add(&t, "recording");
	cell(&t, i->path);
	if (gmtime_r(&seconds, &tm) && strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm)) {
		text_table_add(&t, "start");
		text_table_add(&t, date);
	}
	text_table_add(&t, "duration");
	human_duration(&value, i->end_ns - i->start_ns);
	text_table_add(&t, strbuf_text(&value));
	text_table_add(&t, "size");
	strbuf_clear(&value);
	human_bytes(&value, trace_file_bytes(i->trace));
	strbuf_addf(&value, " in %zu segment%s", trace_segment_count(i->trace),
		    trace_segment_count(i->trace) == 1 ? "" : "s");
	if (kernels)
		strbuf_addf(&value, "; %llu.%llu bytes a kernel with its launch",
			    (unsigned long long)kernel_tenths(i) / 10,
			    (unsigned long long)kernel_tenths(i) % 10);
	text_table_add(&t, strbuf_text(&value));
	if (i->damaged >= 0) {
		text_table_add(&t, "checksums");
		if (i->damaged)
			text_table_addf(&t, "%lld damaged blocks", (long long)i->damaged);
		else
			text_table_add(&t, "all right");
	}
	finish(i, "", &t, out);
}

static void number_or_dash(struct text_table *t, bool known, unsigned n)
{
	if (known)
		text_table_addf(t, "%u", n);
	else
		text_table_add(t, "-");
}

/* Whether the session at `index` is what a sampler outside wrote about another process. */
static bool is_of_another(const struct info *i, size_t index)
{
	return trace_process(i->trace, index)->of != index;
}

/* The process at `index`, with what a sampler outside wrote about it. */
static struct trace_process whole_process(const struct info *i, size_t index)
{
	struct trace_process whole = *trace_process(i->trace, index);

	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		const struct trace_process *p = trace_process(i->trace, n);

		if (n == index || p->of != index)
			continue;
		whole.segments += p->segments;
		whole.missing_segments += p->missing_segments;
		whole.start_ns = MIN(whole.start_ns, p->start_ns);
		whole.end_ns = MAX(whole.end_ns, p->end_ns);
		if (whole.exit_status < 0)
			whole.exit_status = p->exit_status;
	}
	return whole;
}

static const char *process_state(const struct trace_process *p)
{
	if (!p->inside)
		return "not recorded";
	return p->closed ? "in order" : "cut off";
}

static void print_processes(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("pid"),  RIGHT("parent"), LEFT("host"),      RIGHT("from"),   RIGHT("to"),
		LEFT("ended"), RIGHT("status"), RIGHT("segments"), LEFT("command"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		struct trace_process p = whole_process(i, n);

		if (is_of_another(i, n))
			continue;
		text_table_addf(&t, "%u", p.pid);
		number_or_dash(&t, p.parent_pid != 0, p.parent_pid);
		cell(&t, p.host);
		text_table_duration(&t, p.start_ns - MIN(p.start_ns, i->start_ns));
		text_table_duration(&t, p.end_ns - MIN(p.end_ns, i->start_ns));
		text_table_add(&t, process_state(&p));
		number_or_dash(&t, p.exit_status >= 0, (unsigned)p.exit_status);
		if (p.missing_segments)
			text_table_addf(&t, "%u, %u missing", p.segments, p.missing_segments);
		else
			text_table_addf(&t, "%u", p.segments);
		cell(&t, *p.command ? p.command : p.executable);
	}
	finish(i, "processes", &t, out);
}

static void print_devices(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("pid"),    RIGHT("id"), LEFT("device"), RIGHT("compute"), RIGHT("SMs"),
		RIGHT("memory"), LEFT("PCI"), LEFT("uuid"),   RIGHT("driver"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (uint64_t row = 0; row < trace_rows(i->trace, TABLE_device); row++) {
#define DEVICE(column) number(i, TABLE_device, COLUMN_device_##column, row)
		unsigned driver = (unsigned)DEVICE(driver_version);

		text_table_addf(
			&t, "%u",
			trace_process(i->trace, trace_row_process(i->trace, TABLE_device, row))
				->pid);
		text_table_addf(&t, "%u", (unsigned)DEVICE(id));
		cell(&t, text(i, TABLE_device, COLUMN_device_name, row));
		text_table_addf(&t, "%u.%u", (unsigned)DEVICE(compute_major),
				(unsigned)DEVICE(compute_minor));
		text_table_addf(&t, "%u", (unsigned)DEVICE(multiprocessors));
		text_table_bytes(&t, DEVICE(memory_bytes));
		cell(&t, text(i, TABLE_device, COLUMN_device_pci, row));
		cell(&t, text(i, TABLE_device, COLUMN_device_uuid, row));
		text_table_addf(&t, "CUDA %u.%u", driver / 1000, driver % 1000 / 10);
#undef DEVICE
	}
	finish(i, "devices", &t, out);
}

static void print_tables(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		LEFT("table"), RIGHT("rows"), RIGHT("bytes"), RIGHT("bytes a row"), RIGHT("blocks"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		struct trace_table_size size;
		uint64_t rows = trace_rows(i->trace, (enum table_id)id), tenths;

		trace_table_size(i->trace, (enum table_id)id, &size);
		if (!size.rows)
			continue;
		tenths = tenths_of(size.bytes, rows);
		text_table_add(&t, schema_table(id)->name);
		text_table_count(&t, rows);
		text_table_count(&t, size.bytes);
		text_table_addf(&t, "%llu.%llu", (unsigned long long)tenths / 10,
				(unsigned long long)tenths % 10);
		text_table_count(&t, size.blocks);
	}
	finish(i, "tables", &t, out);
}

static const char *state_name(const struct info *i, uint64_t row)
{
	const struct column_schema *column =
		&schema_table(TABLE_capability)->columns[COLUMN_capability_state];
	const char *name = schema_value_name(
		column, number(i, TABLE_capability, COLUMN_capability_state, row));

	return name ? name : "?";
}

/* Rows that differ in nothing but their process. */
struct capability_group {
	uint64_t row; /* the first */
	uint64_t processes;
};

#define GROUPS_MAX 1024u /* further rows are groups of their own */

static bool is_same_capability(const struct info *i, uint64_t a, uint64_t b)
{
	static const int columns[] = { COLUMN_capability_name, COLUMN_capability_state,
				       COLUMN_capability_asked, COLUMN_capability_got,
				       COLUMN_capability_reason };

	for (size_t c = 0; c < ARRAY_SIZE(columns); c++) {
		bool missing_a, missing_b;
		uint64_t value_a =
				 trace_value(i->trace, TABLE_capability, columns[c], a, &missing_a),
			 value_b =
				 trace_value(i->trace, TABLE_capability, columns[c], b, &missing_b);

		if (missing_a != missing_b || (!missing_a && value_a != value_b))
			return false;
	}
	return true;
}

/* "asked for X, got Y; why", as short as it can be. */
static void add_outcome(const struct info *i, uint64_t row, struct strbuf *out)
{
	const char *asked = text(i, TABLE_capability, COLUMN_capability_asked, row);
	const char *got = text(i, TABLE_capability, COLUMN_capability_got, row);
	const char *reason = text(i, TABLE_capability, COLUMN_capability_reason, row);

	if (*asked && strcmp(asked, got) != 0)
		strbuf_addf(out, "asked for %s%s%s", asked, *got ? ", got " : "", got);
	else
		strbuf_adds(out, got);
	if (*reason)
		strbuf_addf(out, "%s%s", out->length ? "; " : "", reason);
}

static void add_capability(const struct info *i, const struct capability_group *g,
			   struct text_table *t)
{
	size_t process = trace_row_process(i->trace, TABLE_capability, g->row);
	_cleanup_strbuf_ struct strbuf outcome = STRBUF_INIT;

	if (g->processes > 1)
		text_table_addf(t, "%llu processes", (unsigned long long)g->processes);
	else
		text_table_addf(t, "%u", trace_process(i->trace, process)->pid);
	cell(t, text(i, TABLE_capability, COLUMN_capability_name, g->row));
	text_table_add(t, state_name(i, g->row));
	add_outcome(i, g->row, &outcome);
	cell(t, strbuf_text(&outcome));
}

static void print_capabilities(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("pid"),
		LEFT("capability"),
		LEFT("state"),
		LEFT("what, and why"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);
	VEC(struct capability_group) groups = { 0 };

	for (uint64_t row = 0; row < trace_rows(i->trace, TABLE_capability); row++) {
		size_t n = 0, known = MIN(groups.count, (size_t)GROUPS_MAX);

		while (n < known && !is_same_capability(i, groups.data[n].row, row))
			n++;
		if (n < known)
			groups.data[n].processes++;
		else if (vec_push(&groups, ((struct capability_group){ row, 1 })) < 0)
			out->failed = true;
	}
	for (size_t n = 0; n < groups.count; n++)
		add_capability(i, &groups.data[n], &t);
	vec_release(&groups);
	finish(i, "capabilities", &t, out);
}

/*
 * How far CLOCK_REALTIME ran away from CLOCK_MONOTONIC over the readings of one process and its
 * sampler, and how exact the readings are.
 */
struct clock_summary {
	uint64_t readings, cupti_readings;
	uint64_t first_ns, first_offset, last_ns, last_offset;
	uint64_t widest_ns;
};

static void add_reading(const struct info *i, struct clock_summary *s, uint64_t row)
{
	uint64_t at = number(i, TABLE_clock, COLUMN_clock_monotonic_ns, row);
	uint64_t offset = number(i, TABLE_clock, COLUMN_clock_realtime_ns, row) - at;
	bool missing;

	if (!s->readings || at < s->first_ns) {
		s->first_ns = at;
		s->first_offset = offset;
	}
	if (!s->readings++ || at >= s->last_ns) {
		s->last_ns = at;
		s->last_offset = offset;
	}
	s->widest_ns = MAX(s->widest_ns, number(i, TABLE_clock, COLUMN_clock_width_ns, row));
	trace_value(i->trace, TABLE_clock, COLUMN_clock_cupti_ns, row, &missing);
	s->cupti_readings += !missing;
}

static struct clock_summary summarize_clock(const struct info *i, size_t process)
{
	struct clock_summary s = { 0 };

	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		uint64_t row = trace_first_row(i->trace, TABLE_clock, n);
		uint64_t end = trace_first_row(i->trace, TABLE_clock, n + 1);

		while (trace_process(i->trace, n)->of == process && row < end)
			add_reading(i, &s, row++);
	}
	return s;
}

static int64_t drift_ns(const struct clock_summary *s)
{
	return (int64_t)(s->last_offset - s->first_offset);
}

static void print_clocks(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("pid"),
		RIGHT("readings"),
		RIGHT("with CUPTI"),
		RIGHT("realtime drift"),
		RIGHT("widest reading"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		struct clock_summary s = summarize_clock(i, n);
		int64_t ns = drift_ns(&s);
		_cleanup_strbuf_ struct strbuf drift = STRBUF_INIT, width = STRBUF_INIT;

		if (!s.readings)
			continue;
		strbuf_adds(&drift, ns < 0 ? "-" : "");
		human_duration(&drift, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
		human_duration(&width, s.widest_ns);
		text_table_addf(&t, "%u", trace_process(i->trace, n)->pid);
		text_table_addf(&t, "%llu", (unsigned long long)s.readings);
		text_table_addf(&t, "%llu", (unsigned long long)s.cupti_readings);
		text_table_add(&t, strbuf_text(&drift));
		text_table_add(&t, strbuf_text(&width));
	}
	finish(i, "clocks", &t, out);
}

static void print_losses(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("pid"),  LEFT("reason"), RIGHT("count"),
		RIGHT("from"), RIGHT("to"),    LEFT("detail"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t n = 0; n < i->loss_count; n++) {
		const struct trace_loss *l = &i->losses[n];

		if (l->process < trace_process_count(i->trace))
			text_table_addf(&t, "%u", trace_process(i->trace, l->process)->pid);
		else
			text_table_add(&t, "-");
		text_table_add(&t, loss_reason_name(l->reason));
		if (l->count)
			text_table_count(&t, l->count);
		else
			text_table_add(&t, "unknown");
		text_table_duration(&t, l->start_ns - MIN(l->start_ns, i->start_ns));
		text_table_duration(&t, l->end_ns - MIN(l->end_ns, i->start_ns));
		cell(&t, l->detail);
	}
	if (!i->loss_count) {
		title(i, "loss", out);
		strbuf_adds(out, "  nothing lost\n");
	}
	finish(i, "loss", &t, out);
}

static void print_text(const struct info *i, struct strbuf *out)
{
	print_identity(i, out);
	print_processes(i, out);
	print_devices(i, out);
	print_tables(i, out);
	print_clocks(i, out);
	print_capabilities(i, out);
	print_losses(i, out);
}

/* What is known of a process and of a sampler's session about one. */
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
	json_key(j, "samplers");
	json_array(j);
	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		const struct trace_process *p = trace_process(i->trace, n);

		if (p->of != process || !p->sampler)
			continue;
		json_object(j);
		write_extent(i, p, j);
		json_end(j);
	}
	json_end(j);
}

static void write_process(const struct info *i, size_t process, struct json *j)
{
	struct trace_process p = whole_process(i, process);
	struct clock_summary s = summarize_clock(i, process);

	json_object(j);
	json_key_u64(j, "pid", p.pid);
	json_key_u64(j, "parent_pid", p.parent_pid);
	json_key_string(j, "command", p.command);
	json_key_string(j, "executable", p.executable);
	json_key_string(j, "host", p.host);
	json_key_bool(j, "recorded", p.inside && !p.sampler);
	json_key(j, "exit_status");
	if (p.exit_status < 0)
		json_null(j);
	else
		json_i64(j, p.exit_status);
	write_extent(i, &p, j);
	json_key_u64(j, "clock_readings", s.readings);
	json_key_i64(j, "realtime_drift_ns", drift_ns(&s));
	write_samplers(i, process, j);
	json_end(j);
}

static void write_processes(const struct info *i, struct json *j)
{
	json_key(j, "processes");
	json_array(j);
	for (size_t n = 0; n < trace_process_count(i->trace); n++)
		if (!is_of_another(i, n))
			write_process(i, n, j);
	json_end(j);
}

static void write_devices(const struct info *i, struct json *j)
{
	const struct table_schema *table = schema_table(TABLE_device);

	json_key(j, "devices");
	json_array(j);
	for (uint64_t row = 0; row < trace_rows(i->trace, TABLE_device); row++) {
		json_object(j);
		json_key_u64(j, "pid",
			     trace_process(i->trace, trace_row_process(i->trace, TABLE_device, row))
				     ->pid);
		for (int c = 0; c < table->column_count; c++) {
			bool missing;
			uint64_t v = trace_value(i->trace, TABLE_device, c, row, &missing);

			json_key(j, table->columns[c].name);
			if (missing)
				json_null(j);
			else if (table->columns[c].type == COLUMN_TYPE_STRING)
				json_string(j, trace_string(i->trace, (uint32_t)v));
			else
				json_u64(j, v);
		}
		json_end(j);
	}
	json_end(j);
}

static void write_tables(const struct info *i, struct json *j)
{
	json_key(j, "tables");
	json_object(j);
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		struct trace_table_size size;

		trace_table_size(i->trace, (enum table_id)id, &size);
		if (!size.rows)
			continue;
		json_key(j, schema_table(id)->name);
		json_object(j);
		json_key_u64(j, "rows", trace_rows(i->trace, (enum table_id)id));
		json_key_u64(j, "bytes", size.bytes);
		json_key_u64(j, "blocks", size.blocks);
		json_end(j);
	}
	json_end(j);
}

static void write_capabilities(const struct info *i, struct json *j)
{
	json_key(j, "capabilities");
	json_array(j);
	for (uint64_t row = 0; row < trace_rows(i->trace, TABLE_capability); row++) {
		json_object(j);
		json_key_u64(
			j, "pid",
			trace_process(i->trace, trace_row_process(i->trace, TABLE_capability, row))
				->pid);
		json_key_string(j, "name", text(i, TABLE_capability, COLUMN_capability_name, row));
		json_key_string(j, "state", state_name(i, row));
		json_key_string(j, "asked",
				text(i, TABLE_capability, COLUMN_capability_asked, row));
		json_key_string(j, "got", text(i, TABLE_capability, COLUMN_capability_got, row));
		json_key_string(j, "reason",
				text(i, TABLE_capability, COLUMN_capability_reason, row));
		json_end(j);
	}
	json_end(j);
}

static void write_losses(const struct info *i, struct json *j)
{
	json_key(j, "loss");
	json_array(j);
	for (size_t n = 0; n < i->loss_count; n++) {
		const struct trace_loss *l = &i->losses[n];

		json_object(j);
		json_key(j, "pid");
		if (l->process < trace_process_count(i->trace))
			json_u64(j, trace_process(i->trace, l->process)->pid);
		else
			json_null(j);
		json_key_string(j, "reason", loss_reason_name(l->reason));
		json_key(j, "count");
		if (l->count)
			json_u64(j, l->count);
		else
			json_null(j);
		json_key_i64(j, "start_ns", (int64_t)(l->start_ns - i->start_ns));
		json_key_i64(j, "end_ns", (int64_t)(l->end_ns - i->start_ns));
		json_key_string(j, "detail", l->detail);
		json_end(j);
	}
	json_end(j);
}

static void print_json(const struct info *i, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_string(&j, "recording", i->path);
	json_key_u64(&j, "start_monotonic_ns", i->start_ns);
	json_key_i64(&j, "start_unix_ns",
		     (int64_t)i->start_ns + trace_realtime_offset_ns(i->trace));
	json_key_u64(&j, "duration_ns", i->end_ns - i->start_ns);
	json_key_u64(&j, "bytes", trace_file_bytes(i->trace));
	json_key_u64(&j, "segments", trace_segment_count(i->trace));
	if (i->damaged >= 0)
		json_key_i64(&j, "damaged_blocks", i->damaged);
	write_processes(i, &j);
	write_devices(i, &j);
	write_tables(i, &j);
	write_capabilities(i, &j);
	write_losses(i, &j);
	json_end(&j);
	strbuf_addc(out, '\n');
}

static int print(const struct info *i)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	int status;

	if (i->context->json)
		print_json(i, &out);
	else
		print_text(i, &out);
	status = cli_print(i->context, &out);
	if (status == EXIT_DONE && i->damaged > 0)
		status = cli_failf(i->context,
				   "'%s' has %lld damaged blocks: their rows are left out", i->path,
				   (long long)i->damaged);
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct info info = { .context = c };
	_cleanup_free_ char *path = NULL;
	struct progress progress;
	struct error e = { 0 };
	int status = cli_open_trace(c, argc, argv, &progress, &path, &info.trace), r;

	if (status != EXIT_DONE)
		return status;
	info.path = path;
	r = load(&info, &e);
	progress_end(&progress);
	status = r < 0 ? cli_fail(c, &e) : print(&info);
	trace_free(info.trace);
	return status;
}

const struct command cmd_info = {
	.name = "info",
	.summary = "what a recording is: processes, devices, tables, sizes, loss",
	.usage = "[options] [RECORDING]",
	.description =
		"Prints who was recorded where and when, how each process ended, the devices, the "
		"tables with their rows and "
		"bytes, the clocks, what was asked of the recorder and what was got, and "
		"everything that is known to be "
		"missing. Without RECORDING it reads the newest *.pitot in the current folder.",
	.options = options,
	.examples = examples,
	.notes = "EXIT STATUS\n\n1 when --verify finds damage.",
	.run = run,
};
