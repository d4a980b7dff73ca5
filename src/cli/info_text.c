/* info_text.c: `pitot info` as tables. */
#include "cli/info.h"

#include <string.h>
#include <time.h>

#include "analysis/capabilities.h"
#include "analysis/filter.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/plural.h"
#include "base/vec.h"
#include "report/text_table.h"
#include "schema/event_words.h"

#define CELL_MAX 200 /* columns of a cell; --json has the whole text */

static uint64_t table_bytes(const struct info *i, enum table_id table)
{
	struct trace_table_size size;

	trace_table_size(i->trace, table, &size);
	return size.bytes;
}

/* Bytes per row in tenths, rounded. */
static uint64_t tenths_of(uint64_t bytes, uint64_t rows)
{
	return rows ? (bytes * 10 + rows / 2) / rows : 0;
}

static uint64_t kernel_tenths(const struct info *i)
{
	return tenths_of(table_bytes(i, TABLE_kernel) + table_bytes(i, TABLE_api_call),
			 trace_rows(i->trace, TABLE_kernel));
}

static void cell(struct text_table *t, const char *unsafe)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT;

	text_safe(&safe, unsafe, strlen(unsafe));
	text_shorten(&safe, CELL_MAX);
	text_table_add(t, strbuf_text(&safe));
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

/* What cannot be verified is named: nothing is known of the rows behind the end of a cut file. */
static void add_checksums(const struct info *i, struct text_table *t)
{
	struct trace_cut cut = trace_cut(i->trace);

	text_table_add(t, "checksums");
	if (i->damaged)
		text_table_addf(t, "%lld damaged block%s", (long long)i->damaged,
				plural((uint64_t)i->damaged));
	else
		text_table_add(t, cut.segments ? "all right in what is there" : "all right");
	if (!cut.segments)
		return;
	text_table_add(t, "cut");
	text_table_addf(t, "%zu segment%s without an end", cut.segments, plural(cut.segments));
	if (!cut.partial_bytes)
		strbuf_adds(&t->text, ", after complete blocks");
	else
		strbuf_addf(&t->text, ", in a block: %llu byte%s there",
			    (unsigned long long)cut.partial_bytes, plural(cut.partial_bytes));
	if (cut.missing_bytes)
		strbuf_addf(&t->text, ", %llu missing", (unsigned long long)cut.missing_bytes);
}

static void print_identity(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = { LEFT(""), LEFT("") };
	struct text_table t = { .columns = columns, .column_count = 2, .headless = true };
	int64_t start_unix_ns = trace_unix_ns(i->trace, i->start_ns);
	time_t seconds = (time_t)(start_unix_ns / (int64_t)NS_PER_S);
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
	text_table_duration(&t, i->end_ns - i->start_ns);
	text_table_add(&t, "size");
	text_table_bytes(&t, trace_file_bytes(i->trace));
	strbuf_addf(&t.text, " in %zu segment%s", trace_segment_count(i->trace),
		    plural(trace_segment_count(i->trace)));
	if (kernels)
		strbuf_addf(&t.text, "; %llu.%llu bytes a kernel with its launch",
			    (unsigned long long)kernel_tenths(i) / 10,
			    (unsigned long long)kernel_tenths(i) % 10);
	if (i->damaged >= 0)
		add_checksums(i, &t);
	finish(i, "", &t, out);
}

static void number_or_dash(struct text_table *t, bool known, unsigned n)
{
	if (known)
		text_table_addf(t, "%u", n);
	else
		text_table_add(t, "-");
}

/* What came of the recorder inside. */
static const char *recorder_state(const struct trace_process *p)
{
	if (!p->inside)
		return "none";
	return p->closed ? "complete" : "cut off";
}

static bool is_job(const struct trace *t)
{
	for (size_t n = 0; n < trace_process_count(t); n++)
		if (trace_process(t, n)->rank != TRACE_NO_RANK)
			return true;
	return false;
}

static void print_processes(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("rank"),     RIGHT("pid"),    RIGHT("parent"),  LEFT("host"),
		RIGHT("from"),     RIGHT("to"),     LEFT("recorder"), RIGHT("status"),
		RIGHT("segments"), LEFT("command"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;

	if (!is_job(i->trace)) { /* without the first column */
		t.columns++;
		t.column_count--;
	}
	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		struct trace_process p = info_process(i, n);
		const char *name;

		if (info_is_sampler_session(i, n))
			continue;
		if (t.columns == columns)
			number_or_dash(&t, p.rank != TRACE_NO_RANK, p.rank);
		text_table_addf(&t, "%u", p.pid);
		number_or_dash(&t, p.parent_pid != 0, p.parent_pid);
		cell(&t, p.host);
		text_table_duration(&t, p.start_ns - MIN(p.start_ns, i->start_ns));
		text_table_duration(&t, p.end_ns - MIN(p.end_ns, i->start_ns));
		text_table_add(&t, recorder_state(&p));
		number_or_dash(&t, p.exit_status >= 0, (unsigned)p.exit_status);
		if (p.missing_segments)
			text_table_addf(&t, "%u, %u missing", p.segments, p.missing_segments);
		else
			text_table_addf(&t, "%u", p.segments);
		name = capability_app_name(i->trace, trace_process(i->trace, n));
		strbuf_clear(&command);
		strbuf_addf(&command, "%s%s%s", name, *name ? ": " : "",
			    *p.command ? p.command : p.executable);
		cell(&t, strbuf_text(&command));
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
#define DEVICE(column) info_number(i, TABLE_device, COLUMN_device_##column, row)
		unsigned driver = (unsigned)DEVICE(driver_version);

		text_table_addf(
			&t, "%u",
			trace_process(i->trace, trace_row_process(i->trace, TABLE_device, row))
				->pid);
		text_table_addf(&t, "%u", (unsigned)DEVICE(id));
		cell(&t, row_text(i->trace, TABLE_device, COLUMN_device_name, row));
		text_table_addf(&t, "%u.%u", (unsigned)DEVICE(compute_major),
				(unsigned)DEVICE(compute_minor));
		number_or_dash(&t, DEVICE(multiprocessors), (unsigned)DEVICE(multiprocessors));
		text_table_bytes(&t, DEVICE(memory_bytes));
		cell(&t, row_text(i->trace, TABLE_device, COLUMN_device_pci, row));
		cell(&t, row_text(i->trace, TABLE_device, COLUMN_device_uuid, row));
		if (driver)
			text_table_addf(&t, "CUDA %u.%u", driver / 1000, driver % 1000 / 10);
		else
			cell(&t, "-");
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

/* An equal capability of several processes. */
struct capability_group {
	uint64_t row; /* the first row */
	uint64_t processes;
	size_t last; /* the last process; rows are ordered by process */
};

#define GROUPS_MAX 1024u /* each further row is its own group */

static bool is_same_capability(const struct info *i, uint64_t a, uint64_t b)
{
	static const int columns[] = { COLUMN_capability_name,   COLUMN_capability_other,
				       COLUMN_capability_state,  COLUMN_capability_requested,
				       COLUMN_capability_actual, COLUMN_capability_reason };

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

/* Appends "requested X, actual Y; reason", without equal or missing parts. */
static void add_outcome(const struct info *i, uint64_t row, struct strbuf *out)
{
	const char *requested =
		row_text(i->trace, TABLE_capability, COLUMN_capability_requested, row);
	const char *actual = row_text(i->trace, TABLE_capability, COLUMN_capability_actual, row);
	const char *reason = row_text(i->trace, TABLE_capability, COLUMN_capability_reason, row);

	if (*requested && strcmp(requested, actual) != 0)
		strbuf_addf(out, "requested %s%s%s", requested, *actual ? ", actual " : "", actual);
	else
		strbuf_adds(out, actual);
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
	cell(t, capability_name(i->trace, g->row));
	text_table_add(t, info_state(i, g->row));
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
		size_t process = trace_row_process(i->trace, TABLE_capability, row);

		while (n < known && !is_same_capability(i, groups.data[n].row, row))
			n++;
		n = n < known ? n : groups.count;
		if (n == groups.count &&
		    vec_push(&groups, ((struct capability_group){ row, 0, SIZE_MAX })) < 0) {
			out->failed = true;
			break;
		}
		groups.data[n].processes += groups.data[n].last != process;
		groups.data[n].last = process;
	}
	for (size_t n = 0; n < groups.count; n++)
		add_capability(i, &groups.data[n], &t);
	vec_release(&groups);
	finish(i, "capabilities", &t, out);
}

static void print_clocks(const struct info *i, struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("pid"),
		RIGHT("readings"),
		RIGHT("with GPU"),
		RIGHT("realtime drift"),
		RIGHT("widest reading"),
	};
	struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		struct info_clock s = info_read_clock(i, n);
		int64_t ns = info_drift_ns(&s);

		if (!s.readings)
			continue;
		text_table_addf(&t, "%u", trace_process(i->trace, n)->pid);
		text_table_addf(&t, "%llu", (unsigned long long)s.readings);
		text_table_addf(&t, "%llu", (unsigned long long)s.gpu_readings);
		text_table_add(&t, ns < 0 ? "-" : "");
		human_duration(&t.text, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
		text_table_duration(&t, s.widest_ns);
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
		text_table_add(&t, loss_name(l->reason));
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

void info_print_text(const struct info *i, struct strbuf *out)
{
	print_identity(i, out);
	print_processes(i, out);
	print_devices(i, out);
	print_tables(i, out);
	print_clocks(i, out);
	print_capabilities(i, out);
	print_losses(i, out);
}
