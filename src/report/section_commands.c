/* section_commands.c: CPU time by command, of a program without GPU work. */
#include "report/section.h"

#include <string.h>

#include "analysis/commands.h"
#include "analysis/verdict.h"
#include "report/words.h"

static void read_name(const struct report_view *v, const void *row, struct value *out)
{
	const struct command_use *c = row;

	(void)v;
	strbuf_add(&out->text, strbuf_text(&c->name), c->name.length);
	if (!c->name.length)
		out->state = VALUE_UNKNOWN;
}

#define COMMAND(member) MEMBER(struct command_use, member)

static const struct field command_fields[] = {
	FIELD("command", NULL, TEXT, .value = read_name),
	FIELD("kind", NULL, CHOICE, COMMAND(load.verdict), .names = cpu_verdict_name),
	FIELD(NULL, "share", SHARE, COMMAND(load.total_ns), WHOLE(struct commands, whole.total_ns)),
	FIELD("total_ns", "CPU time", NS, COMMAND(load.total_ns)),
	FIELD(NULL, "CPUs", RATIO, COMMAND(load.total_ns),
	      PER(struct command_use, load.elapsed_ns)),
	FIELD(NULL, "in the OS", SHARE, COMMAND(load.kernel_ns),
	      PER(struct command_use, load.total_ns), OPTIONAL_COLUMN),
	FIELD("kernel_ns", NULL, NS, COMMAND(load.kernel_ns)),
	FIELD("busiest_ns", NULL, NS, COMMAND(load.busiest_ns)),
	FIELD("elapsed_ns", NULL, NS, COMMAND(load.elapsed_ns)),
	FIELD("processes", "processes", COUNT, COMMAND(processes), OPTIONAL_COLUMN),
	FIELD(NULL, "command", TEXT, .value = read_name, FLEXIBLE_COLUMN),
	FIELD(NULL, "verdict", CHOICE, COMMAND(load.verdict), .names = report_cpu_verdict,
	      LEFT_COLUMN),
};

static const struct field fields[] = {
	LIST("commands", ITEMS(struct commands, items, count), command_fields),
};

/* Not shown for a single command, or with GPU work: the verdict is enough. */
static bool is_shown(const struct report_view *v)
{
	return v->report->commands->count > 1 && v->report->verdicts->whole.kind == VERDICT_NO_WORK;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	sentence_add(out, DURATION(v->report->commands->whole.total_ns));
}

const struct section section_commands = {
	.title = "CPU time by command",
	RESULT(commands),
	FIELDS(fields),
	.shown = is_shown,
	.remark = add_remark,
};
