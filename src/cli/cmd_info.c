/*
 * cmd_info.c: `pitot info`: the contents of a recording. It loads only the small tables that rows
 * refer to, so that its time does not depend on the size of the recording.
 */
#include "analysis/filter.h"
#include "base/plural.h"
#include "cli/info.h"

static bool option_verify;

static const struct option options[] = {
	FLAG("verify", 0, option_verify, "check every checksum; fails if anything is damaged"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot info", "the newest recording in this folder" },
	{ "pitot info --verify train.pitot", "is it intact?" },
	{ NULL, NULL },
};

static int load(struct info *i, struct error *e)
{
	int rc = trace_load_repeated(i->trace, e);

	trace_span(i->trace, &i->start_ns, &i->end_ns);
	for (size_t n = 0; n < trace_process_count(i->trace); n++)
		i->end_ns = MAX(i->end_ns, trace_process(i->trace, n)->end_ns);
	i->damaged = -1;
	if (rc >= 0 && option_verify) {
		i->damaged = trace_verify(i->trace, e);
		rc = i->damaged < 0 ? (int)i->damaged : 0;
	}
	return rc < 0 ? rc : trace_losses(i->trace, &i->losses, &i->loss_count, e);
}

uint64_t info_number(const struct info *i, enum table_id table, int column, uint64_t row)
{
	return trace_value(i->trace, table, column, row, NULL);
}

const char *info_state(const struct info *i, uint64_t row)
{
	const struct column_schema *column =
		&schema_table(TABLE_capability)->columns[COLUMN_capability_state];
	const char *name = schema_value_name(
		column, info_number(i, TABLE_capability, COLUMN_capability_state, row));

	return name ? name : "?";
}

bool info_is_sampler_session(const struct info *i, size_t index)
{
	return trace_process(i->trace, index)->subject != index;
}

struct trace_process info_process(const struct info *i, size_t index)
{
	struct trace_process whole = *trace_process(i->trace, index);

	for (size_t n = 0; n < trace_process_count(i->trace); n++) {
		const struct trace_process *p = trace_process(i->trace, n);

		if (n == index || p->subject != index)
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

static void add_reading(const struct info *i, struct info_clock *s, uint64_t row)
{
	uint64_t at = info_number(i, TABLE_clock, COLUMN_clock_monotonic_ns, row);
	uint64_t offset = info_number(i, TABLE_clock, COLUMN_clock_realtime_ns, row) - at;
	bool missing;

	if (!s->readings || at < s->first_ns) {
		s->first_ns = at;
		s->first_offset = offset;
	}
	if (!s->readings++ || at >= s->last_ns) {
		s->last_ns = at;
		s->last_offset = offset;
	}
	s->widest_ns = MAX(s->widest_ns, info_number(i, TABLE_clock, COLUMN_clock_width_ns, row));
	trace_value(i->trace, TABLE_clock, COLUMN_clock_gpu_ns, row, &missing);
	s->gpu_readings += !missing;
}

struct info_clock info_read_clock(const struct info *i, size_t process)
{
	struct info_clock s = { 0 };

	for (struct row_walk w = all_rows(i->trace, TABLE_clock); row_walk_next(&w);)
		if (trace_process(i->trace, w.process)->subject == process)
			add_reading(i, &s, w.row);
	return s;
}

int64_t info_drift_ns(const struct info_clock *s)
{
	return (int64_t)(s->last_offset - s->first_offset);
}

static int print(const struct info *i)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	int status;

	if (i->context->json)
		info_print_json(i, &out);
	else
		info_print_text(i, &out);
	status = cli_print(i->context, &out);
	if (status == EXIT_DONE && i->damaged > 0)
		status = cli_failf(
			i->context,
			"'%s' is damaged in %lld place%s: unreadable parts are left out; copy "
			"it again, or record again",
			i->path, (long long)i->damaged, plural((uint64_t)i->damaged));
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct info info = { .context = c };
	_cleanup_free_ char *path = NULL;
	struct progress progress;
	struct error e = { 0 };
	int status = cli_open_trace(c, argv[1], &progress, &path, &info.trace), rc;

	(void)argc;
	if (status != EXIT_DONE)
		return status;
	info.path = path;
	rc = load(&info, &e);
	progress_end(&progress);
	status = rc < 0 ? cli_fail(c, &e) : print(&info);
	trace_free(info.trace);
	return status;
}

const struct command cmd_info = {
	.name = "info",
	.group = COMMAND_LOOK_INTO,
	.summary = "show what is in a recording: processes, tables, sizes, loss",
	.usage = "[options] [RECORDING]",
	.description = "Prints the recorded processes with their hosts, times and exit statuses, "
		       "the devices, the tables with their rows and bytes, the clocks, the "
		       "capabilities of the recorder, and the known losses. Without RECORDING it "
		       "reads the newest *.pitot in the current folder.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.notes = "EXIT STATUS\n\n"
		 "1 if --verify finds damage.",
	.no_names = true,
	.run = run,
};
