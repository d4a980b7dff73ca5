/* cmd_trace.c: `pitot trace`: runs a command in a session of Perfetto's tracing service. */
#include "cli/ui.h"
#include "base/human.h"
#include "record/perfetto_session.h"

static struct perfetto_session_request request = { .output = "trace.pftrace" };

static const struct option options[] = {
	OPTION(STRING, "config", 'c', request.config, "FILE",
	       "Perfetto's TraceConfig, as text or binary (default: trace GPU work, calls, "
	       "scheduling, processes)",
	       .is_path = true),
	OPTION(STRING, "output", 'o', request.output, "FILE",
	       "write the trace to FILE (default: trace.pftrace)", .is_path = true),
	FLAG("force", 'f', request.force, "replace FILE"),
	FLAG("force-injection", 0, request.force_injection,
	     "replace another tool's CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH"),
	OPTION_END,
};

static void still_writes(void *user, uint64_t bytes)
{
	_cleanup_strbuf_ struct strbuf size = STRBUF_INIT;

	human_bytes(&size, bytes);
	cli_note(user, "perfetto is still writing '%s' (%s so far); Ctrl-C ends it", request.output,
		 strbuf_text(&size));
}

static int run_trace(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf size = STRBUF_INIT;
	struct perfetto_session_result result;
	struct error e = { 0 };

	if (argc < 2)
		return cli_usage(c, "no command given: pitot trace [options] -- COMMAND");
	request.still_writes = still_writes;
	request.user = c;
	if (perfetto_session_run(&request, argv + 1, &result, &e) < 0) {
		int status = cli_fail(c, &e);

		return result.status ? result.status : status;
	}
	if (!result.has_sources)
		cli_warn(c, "the configuration names no data source of Pitot, such as "
			    "gpu.renderstages: the trace has no GPU data");
	if (result.problem.code) {
		cli_warn(c, "the trace is not complete: %s", result.problem.text);
		return result.status ? result.status : EXIT_FAILED;
	}
	human_bytes(&size, result.bytes);
	cli_note(c, "the trace is in '%s' (%s); https://ui.perfetto.dev shows it", request.output,
		 strbuf_text(&size));
	return result.status;
}

static const struct command_example examples[] = {
	{ "pitot trace -- python train.py", "GPU work, scheduling and processes in one file" },
	{ "pitot trace -c config.pbtx -o step.pftrace -- ./server",
	  "with a configuration of your own" },
	{ NULL, NULL },
};

const struct command cmd_trace = {
	.name = "trace",
	.summary = "run a command in a session of Perfetto's tracing service",
	.usage = "[options] -- COMMAND [ARGUMENT…]",
	.description =
		"Starts a session of Perfetto's tracing service with the machine's program "
		"`perfetto`, runs COMMAND with the recorder inside, and ends the session. The "
		"activity of the GPU, the operating system and other programs is then in one file "
		"for https://ui.perfetto.dev.\n\n"
		"The service, traced, must be running, and traced_probes for data of the operating "
		"system. COMMAND keeps its standard input, output and error; its exit status is "
		"returned. Other programs that have loaded the recorder are traced as well.",
	.options = options,
	.examples = examples,
	.notes = "ENVIRONMENT\n\n"
		 "COMMAND gets the path of libpitot.so in CUDA_INJECTION64_PATH and "
		 "NVTX_INJECTION64_PATH, and PITOT_PERFETTO=1 unless that variable is set. "
		 "PERFETTO_PRODUCER_SOCK_NAME and PERFETTO_CONSUMER_SOCK_NAME name the service's "
		 "sockets.\n\n"
		 "SIGNALS\n\n"
		 "Ctrl-C on the terminal reaches COMMAND directly; pitot waits until it ends and "
		 "completes the trace. A second Ctrl-C, after COMMAND has ended, leaves the trace "
		 "incomplete. Signals that are sent to pitot are passed on to COMMAND.\n\n"
		 "EXIT STATUS\n\n"
		 "The status of COMMAND, or 128 + n if signal n killed it; 127 if COMMAND was not "
		 "found, 126 if it could not be started, 1 if the session could not begin or the "
		 "file is not complete, 2 for wrong usage.",
	.stop_at_operand = true,
	.no_json = true,
	.run = run_trace,
};
