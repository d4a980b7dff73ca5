/* cmd_replay.c: `pitot replay`: executes the timeline of a recording again, with stand-ins. */
#include <stdlib.h>
#include <string.h>

#include "cli/ui.h"
#include "cli/window.h"
#include "replay/replay_view.h"
#include "report/report_view.h"

static bool option_dry_run, process_given;
static uint64_t option_process, option_memory, option_repeat = 1;
static int option_pace, option_stand_in;
static const char *option_ops, *option_stream, *option_speed = "1";
static struct window_options option_window;

static const struct option options[] = {
	FLAG("dry-run", 0, option_dry_run,
	     "execute nothing: show what would be replayed, skipped and substituted (needs no "
	     "GPU)"),
	OPTION(ENUM, "pace", 0, option_pace, NULL,
	       "when calls begin: after the recorded time of the host since the call before (gaps, "
	       "the default), at their recorded times, or at once (free)",
	       .choices = replay_pace_names),
	OPTION(ENUM, "stand-in", 0, option_stand_in, NULL,
	       "what kernels do: end after their recorded time (deadline, the default), or an "
	       "amount "
	       "of work in their recorded shape that takes as long alone (work)",
	       .choices = replay_stand_in_names),
	OPTION(STRING, "speed", 0, option_speed, "F",
	       "divide the times of kernels and of the host by F, such as 2 or 0.5"),
	OPTION(U64, "repeat", 0, option_repeat, "N", "replay N times", .positive = true,
	       .most = 1000000),
	OPTION(SIZE, "memory", 0, option_memory, "SIZE",
	       "most memory for copies, on each GPU and on the host; larger copies are cut "
	       "(default: "
	       "half of the GPU's free memory, a quarter of the host's)",
	       .positive = true),
	WINDOW_OPTIONS(option_window),
	OPTION(STRING, "ops", 0, option_ops, "N..M",
	       "only these operations of the GPU, numbered from 1 in the order of their launches",
	       .group = "selection"),
	OPTION(STRING, "stream", 0, option_stream, "ID[,ID...]", "only these streams",
	       .group = "selection"),
	OPTION_PROCESS("this process (default: the one with most GPU work)"),
	OPTION_RANK(RANK_HELP),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot replay --dry-run", "what a replay of the newest recording would do" },
	{ "pitot replay train.pitot", "execute it on this machine's GPU, without the program" },
	{ "pitot replay train.pitot --since 2s --until 3s --pace free",
	  "a second of it, as fast as the GPU can" },
	{ "pitot record -o again.pitot -- pitot replay train.pitot",
	  "record the replay, to compare it" },
	{ NULL, NULL },
};

/* --- options --- */

static int parse_ops(const struct context *c, struct replay_options *o)
{
	const char *dots = option_ops ? strstr(option_ops, "..") : NULL;
	_cleanup_free_ char *first = dots ? strndup(option_ops, (size_t)(dots - option_ops)) : NULL;

	if (!option_ops)
		return EXIT_DONE;
	if (!first || parse_u64(first, &o->first_op) < 0 || parse_u64(dots + 2, &o->last_op) < 0 ||
	    !o->first_op || o->last_op < o->first_op)
		return cli_usage(c,
				 "--ops takes the first and the last number, from 1 on, such as "
				 "100..200, not '%s'",
				 option_ops);
	return EXIT_DONE;
}

static int parse_streams(const struct context *c, struct replay_options *o)
{
	_cleanup_free_ char *list = option_stream ? strdup(option_stream) : NULL;
	char *rest = list, *item;
	uint64_t id;

	while ((item = strsep(&rest, ","))) {
		if (parse_u64(item, &id) < 0 || id > UINT32_MAX)
			return cli_usage(c, "--stream takes stream ids such as 7,13, not '%s'",
					 option_stream);
		if (o->stream_count == REPLAY_STREAMS_MAX)
			return cli_usage(c, "--stream takes at most %u streams",
					 REPLAY_STREAMS_MAX);
		o->streams[o->stream_count++] = (uint32_t)id;
	}
	return EXIT_DONE;
}

static int parse_speed(const struct context *c, double *speed)
{
	char *end;

	*speed = strtod(option_speed, &end);
	if (end == option_speed || *end || !(*speed >= 0.001 && *speed <= 1000))
		return cli_usage(c, "--speed takes a number from 0.001 to 1000, not '%s'",
				 option_speed);
	return EXIT_DONE;
}

/* --- running --- */

static int print(const struct context *c, const struct replay_view *v)
{
	if (c->json)
		replay_json(v);
	else
		replay_text(v);
	return cli_print(c, v->out);
}

static int execute(const struct context *c, struct replay_view *v)
{
	struct replay_result result;
	struct error e = { 0 };
	int rc, status;

	terminal_catch_signals();
	rc = replay_run(v->plan, v->settings, &result, &e);
	if (rc < 0) {
		status = cli_failf(c, "%s%s", e.text,
				   rc == E_UNSUPPORTED ? "; `pitot replay --dry-run` needs no GPU"
						       : "");
	} else {
		v->result = &result;
		status = print(c, v);
		if (status == EXIT_DONE && result.order_violations)
			status = EXIT_FAILED;
		if (result.stopped)
			status = 128 + terminal_stop_signal;
	}
	replay_result_release(&result);
	return status;
}

static int replay(const struct context *c, struct trace *trace, const char *path,
		  const struct replay_options *o, const struct replay_settings *settings)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct causes causes = { 0 };
	_cleanup_(replay_plan_release) struct replay_plan plan = { 0 };
	struct replay_view view = { .path = path,
				    .plan = &plan,
				    .settings = settings,
				    .width = MIN(MAX(c->width, REPORT_WIDTH_MIN), REPORT_WIDTH_MAX),
				    .color = c->color,
				    .out = &out };
	struct error e = { 0 };
	int rc = causes_build(&causes, trace), status;

	if (rc < 0)
		return cli_failf(c, "out of memory");
	rc = replay_plan_make(&plan, &causes, o, &e);
	if (rc == 0)
		view.pid = trace_process(trace, plan.process)->pid;
	causes_release(&causes);
	if (rc < 0)
		status = cli_fail(c, &e);
	else
		status = option_dry_run ? print(c, &view) : execute(c, &view);
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct replay_options o = { .process = process_given ? (int64_t)option_process : -1 };
	struct replay_settings settings = { .pace = (enum replay_pace)option_pace,
					    .stand_in = (enum replay_stand_in)option_stand_in,
					    .repeat = option_repeat,
					    .memory_bytes = option_memory,
					    .stop = &terminal_stop_signal };
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct progress progress;
	struct error e = { 0 };
	int status;

	(void)argc;
	if (option_process > UINT32_MAX)
		return cli_usage(c, "--process takes a number below 2^32");
	status = parse_ops(c, &o);
	if (status == EXIT_DONE)
		status = parse_streams(c, &o);
	if (status == EXIT_DONE)
		status = parse_speed(c, &settings.speed);
	if (status == EXIT_DONE)
		status = cli_open_trace(c, argv[1], &progress, &path, &trace);
	if (status != EXIT_DONE)
		return status;
	status = window_resolve(c, trace, &option_window, &o.since_ns, &o.until_ns);
	if (status == EXIT_DONE && replay_plan_load(trace, &e) < 0)
		status = cli_fail(c, &e);
	progress_end(&progress);
	if (status == EXIT_DONE)
		status = replay(c, trace, path ? path : argv[1], &o, &settings);
	cli_warn_loss(c, trace);
	trace_free(trace);
	return status;
}

const struct command cmd_replay = {
	.name = "replay",
	.group = COMMAND_LOOK_INTO,
	.summary = "execute a recording's GPU work again, with stand-in kernels",
	.usage = "[options] [RECORDING]",
	.description =
		"Launches the GPU work of a recording again, without its program, its data or "
		"its libraries: kernels are stand-ins that take the recorded time, copies and "
		"memory sets have their recorded sizes, and streams, priorities, events, graphs "
		"and synchronizations are the recorded ones. One process is replayed, by default "
		"the one with most GPU work.\n\n"
		"What cannot be replayed is listed with its reason, and so is what is replayed "
		"by something else. The exit status is 0 if all that was planned was executed in "
		"order.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.no_names = true,
	.examples = examples,
	.run = run,
};
