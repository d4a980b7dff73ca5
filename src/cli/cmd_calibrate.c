/*
 * cmd_calibrate.c: `pitot calibrate`: what recording adds to calls on this machine, and what graphs
 * cost on it.
 *
 * A round runs this program twice with --loop, alone and below `pitot record`: two processes, since
 * a recorder stays in a process. The recording shows whether the second one was recorded at all.
 *
 * A virtual machine is up to half slower for seconds at a time, whether a program is recorded or
 * not. Differences of two processes would contain that, so the lower quartile of each kind counts:
 * it is right where a quarter of the rounds were undisturbed.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/calibration.h"
#include "analysis/sentence.h"
#include "base/io.h"
#include "base/plural.h"
#include "base/search.h"
#include "cli/ui.h"
#include "format/recording_dir.h"
#include "record/symbolize.h"
#include "replay/call_timing.h"
#include "trace/columns.h"

#define ROUNDS_MAX 100u
#define PRINTED_MAX 65536u
#define OWN_PROGRAM "/proc/self/exe"

static uint64_t option_rounds = 15;
static bool option_loop;

static const struct option options[] = {
	OPTION(U64, "rounds", 0, option_rounds, "N",
	       "measure N times without and N times with recording (default 15)", .positive = true,
	       .most = ROUNDS_MAX),
	FLAG("loop", 0, option_loop,
	     "only make the calls once, and print what they took: what is run in each round"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot calibrate", "measure it, once on each machine" },
	{ "pitot calibrate --rounds 51", "the same on a busy machine" },
	{ NULL, NULL },
};

/* Of a time that is known without recording. */
static void add_cost(struct strbuf *out, const char *what, uint64_t bare_ns, uint64_t ns,
		     uint64_t spread_ns)
{
	sentence_add(out, WORDS(what), WORDS(" takes "));
	if (bare_ns)
		sentence_add(out, DURATION(bare_ns));
	else
		strbuf_adds(out, "too little to be measured");
	sentence_add(out, WORDS(", and "), DURATION(ns), WORDS(" (+/- "), DURATION(spread_ns),
		     WORDS(") more when recorded\n"));
}

static void add_graphs(struct strbuf *out, const struct calibration *found)
{
	add_cost(out, "a launch of a CUDA graph of one kernel", found->graph_launch_bare_ns,
		 found->graph_launch_ns, found->graph_launch_spread_ns);
	add_cost(out, "each further node of the launch", found->node_call_bare_ns,
		 found->node_call_ns, found->node_call_spread_ns);
	add_cost(out, "the GPU from node to node", found->node_gap_bare_ns, found->node_gap_ns,
		 found->node_gap_spread_ns);
	if (found->node_latency_ns == CALIBRATION_UNKNOWN)
		strbuf_adds(out, "nodes were not recorded, so that the latency between their "
				 "recorded times is unknown\n");
	else if (!found->node_latency_ns)
		strbuf_adds(out, "recorded nodes follow each other at once, without what "
				 "recording adds\n");
	else
		sentence_add(out, WORDS("recorded nodes follow each other after "),
			     DURATION(found->node_latency_ns), WORDS(" (+/- "),
			     DURATION(found->node_latency_spread_ns), WORDS(")\n"));
}

/* What is measured in one process, or stored. */
static int print(const struct context *c, const struct calibration *found, const char *path)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	if (c->json || option_loop) {
		calibration_json(found, &out);
		return cli_print(c, &out);
	}
	sentence_add(&out, WORDS("recording adds "), DURATION(found->launch_ns), WORDS(" (+/- "),
		     DURATION(found->launch_spread_ns), WORDS(") to a launching call and "),
		     DURATION(found->synchronize_ns), WORDS(" (+/- "),
		     DURATION(found->synchronize_spread_ns),
		     WORDS(") to a synchronizing one\nand "), DURATION(found->eager_ns),
		     WORDS(" (+/- "), DURATION(found->eager_spread_ns),
		     WORDS(") to a launch in a loop like that of an eager framework\n"));
	add_graphs(&out, found);
	sentence_add(&out, WORDS("replayed kernels are at least "),
		     DURATION(found->replay_floor_ns), WORDS(" apart; the GPU's timer has steps "),
		     WORDS("of "), DURATION(found->timer_step_ns), WORDS("\nmeasured in "),
		     COUNTED_AS(found->rounds, "round"), WORDS(" on "));
	text_safe(&out, found->gpu, strlen(found->gpu));
	strbuf_addf(&out, "; `pitot what-if` uses it for recordings of this machine\nstored in ");
	text_safe(&out, path, strlen(path));
	strbuf_addc(&out, '\n');
	return cli_print(c, &out);
}

static int run_loop(const struct context *c)
{
	struct calibration found;
	struct utsname name = { 0 };
	struct error e = { 0 };

	calibration_init(&found);
	found.rounds = 1;
	snprintf(found.version, sizeof(found.version), "%s", PITOT_VERSION);
	if (call_timing_measure(&found, &e) < 0)
		return cli_failf(c, "%s; `pitot doctor` shows what is missing", e.text);
	uname(&name);
	snprintf(found.host, sizeof(found.host), "%s", name.nodename);
	return print(c, &found, NULL);
}

/* --- one process --- */

static void __attribute__((noreturn)) run_child(const char *const *words, int out)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (dup2(out, 1) >= 0)
		execv(OWN_PROGRAM, (char *const *)(uintptr_t)words);
	_exit(EXIT_FAILED);
}

/* Runs this program, which says on stderr what fails. Returns its exit status. */
static int run_program(const struct context *c, const char *const *words, struct calibration *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int pipes[2], status = 0, rc;
	struct error e = { 0 };
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return cli_failf(c, "cannot make a pipe: %s", strerror(errno));
	pid = fork();
	if (!pid)
		run_child(words, pipes[1]);
	close(pipes[1]);
	rc = pid < 0 ? -errno : io_read_to_end(pipes[0], PRINTED_MAX, &text);
	close(pipes[0]);
	if (pid > 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	if (terminal_stop_signal)
		return 128 + terminal_stop_signal;
	if (rc < 0)
		return cli_failf(c, "cannot run this program: %s", error_code_text(rc));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return WIFEXITED(status)
			       ? WEXITSTATUS(status)
			       : cli_failf(c, "the loop was killed by signal %d", WTERMSIG(status));
	if (calibration_parse(out, strbuf_text(&text), text.length, &e) < 0)
		return cli_failf(c, "the loop printed something else: %s", e.text);
	return EXIT_DONE;
}

struct node {
	uint64_t launch, start_ns, end_ns;
};

ORDER(compare_nodes, struct node, UP(launch) ?: UP(start_ns))

/* The median time between two nodes of a launch; CALIBRATION_UNKNOWN: there are none. */
static uint64_t find_latency(struct node *nodes, size_t count, int64_t *between_ns)
{
	size_t found = 0;

	qsort(nodes, count, sizeof(*nodes), compare_nodes);
	for (size_t i = 1; i < count; i++)
		if (nodes[i].launch == nodes[i - 1].launch)
			between_ns[found++] = (int64_t)(nodes[i].start_ns - nodes[i - 1].end_ns);
	qsort(between_ns, found, sizeof(*between_ns), order_i64);
	return found ? (uint64_t)MAX(between_ns[found / 2], 0) : CALIBRATION_UNKNOWN;
}

/* Counts the kernels outside of graphs, and finds the time between nodes. */
static int read_kernels(struct trace *t, uint64_t *kernels, uint64_t *latency_ns)
{
	const struct kernel_columns *k = kernel_columns(t);
	const uint8_t *is_node = trace_valid(t, TABLE_kernel, COLUMN_kernel_graph_node),
		      *begins = trace_valid(t, TABLE_kernel, COLUMN_kernel_start_ns),
		      *ends = trace_valid(t, TABLE_kernel, COLUMN_kernel_end_ns);
	uint64_t rows = trace_rows(t, TABLE_kernel);
	_cleanup_free_ struct node *nodes = calloc(rows + 1, sizeof(*nodes));
	_cleanup_free_ int64_t *between_ns = calloc(rows + 1, sizeof(*between_ns));
	size_t count = 0;

	if (!nodes || !between_ns)
		return -ENOMEM;
	for (uint64_t row = 0; row < rows; row++) {
		if (!column_has(is_node, row))
			++*kernels;
		else if (column_has(begins, row) && column_has(ends, row))
			nodes[count++] = (struct node){ k->correlation[row], k->start_ns[row],
							k->end_ns[row] };
	}
	*latency_ns = find_latency(nodes, count, between_ns);
	return 0;
}

/* Otherwise the two would differ by nothing, or by too little. */
static int check_recorded(const struct context *c, const char *folder, uint64_t *latency_ns)
{
	struct trace_options trace_options = { .threads = 0 };
	struct trace *trace = NULL;
	struct error e = { 0 };
	uint64_t kernels = 0;
	int rc = trace_open(folder, &trace_options, &trace, &e);

	if (rc >= 0)
		rc = trace_load(trace, TABLE_kernel,
				COLUMN_BITS(kernel, start_ns, end_ns, correlation, graph_node), &e);
	if (rc >= 0 && read_kernels(trace, &kernels, latency_ns) < 0)
		rc = error_set(&e, -ENOMEM, "out of memory");
	trace_free(trace);
	if (rc < 0)
		return cli_fail(c, &e);
	if (kernels < CALL_TIMING_LAUNCHES)
		return cli_failf(c,
				 "the recording has %llu kernel%s of the loops' %u, so nothing can "
				 "be compared; `pitot doctor` shows what is missing",
				 (unsigned long long)kernels, plural(kernels),
				 CALL_TIMING_LAUNCHES);
	return EXIT_DONE;
}

/* --- all of them --- */

/* What is measured in both processes of each round; bare: 0, or where that is stored itself. */
static const struct cost {
	size_t ns, spread_ns, bare_ns;
} costs[] = {
#define AT(member) offsetof(struct calibration, member)
	{ AT(launch_ns), AT(launch_spread_ns), 0 },
	{ AT(synchronize_ns), AT(synchronize_spread_ns), 0 },
	{ AT(graph_launch_ns), AT(graph_launch_spread_ns), AT(graph_launch_bare_ns) },
	{ AT(node_call_ns), AT(node_call_spread_ns), AT(node_call_bare_ns) },
	{ AT(node_gap_ns), AT(node_gap_spread_ns), AT(node_gap_bare_ns) },
	{ AT(eager_ns), AT(eager_spread_ns), AT(eager_bare_ns) },
#undef AT
};

struct round {
	struct calibration with, without;
	uint64_t latency_ns; /* between recorded nodes */
};

static uint64_t *member_at(const struct calibration *c, size_t offset)
{
	return (uint64_t *)(void *)((char *)(uintptr_t)c + offset);
}

/* The lower quartile, and half of the distance between the eighths around it. */
static int64_t lower_quartile(int64_t *ns, size_t count, double *spread)
{
	qsort(ns, count, sizeof(*ns), order_i64);
	*spread = (double)(ns[count * 3 / 8] - ns[count / 8]) / 2;
	return ns[count / 4];
}

static void summarize(const struct round *rounds, size_t count, const struct cost *cost,
		      struct calibration *out)
{
	int64_t with[ROUNDS_MAX], without[ROUNDS_MAX], with_ns, without_ns;
	double spread_with, spread_without;

	for (size_t i = 0; i < count; i++) {
		with[i] = (int64_t)*member_at(&rounds[i].with, cost->ns);
		without[i] = (int64_t)*member_at(&rounds[i].without, cost->ns);
	}
	with_ns = lower_quartile(with, count, &spread_with);
	without_ns = lower_quartile(without, count, &spread_without);
	*member_at(out, cost->ns) = (uint64_t)MAX(with_ns - without_ns, 0);
	*member_at(out, cost->spread_ns) =
		(uint64_t)sqrt(spread_with * spread_with + spread_without * spread_without);
	if (cost->bare_ns)
		*member_at(out, cost->bare_ns) = (uint64_t)without_ns;
}

/* Of the recorded time between nodes, what recording adds is none. */
static void summarize_latency(const struct round *rounds, size_t count, struct calibration *out)
{
	int64_t ns[ROUNDS_MAX], latency_ns;
	double spread, added_spread = (double)out->node_gap_spread_ns;

	for (size_t i = 0; i < count; i++) {
		if (rounds[i].latency_ns == CALIBRATION_UNKNOWN)
			return;
		ns[i] = (int64_t)rounds[i].latency_ns;
	}
	latency_ns = lower_quartile(ns, count, &spread) - (int64_t)out->node_gap_ns;
	out->node_latency_ns = (uint64_t)MAX(latency_ns, 0);
	out->node_latency_spread_ns = (uint64_t)sqrt(spread * spread + added_spread * added_spread);
}

static int measure_round(const struct context *c, const char *folder, struct round *out)
{
	const char *const recorded[] = { "pitot",        "record",    "-q",     "-f",
					 "--no-symbols", "-o",        folder,   "--",
					 OWN_PROGRAM,    "calibrate", "--loop", NULL };
	const char *const alone[] = { "pitot", "calibrate", "--loop", NULL };
	int status = run_program(c, alone, &out->without);

	if (status == EXIT_DONE)
		status = run_program(c, recorded, &out->with);
	return status == EXIT_DONE ? check_recorded(c, folder, &out->latency_ns) : status;
}

static int measure(const struct context *c, const char *folder, struct calibration *out)
{
	_cleanup_free_ struct round *rounds = calloc(option_rounds, sizeof(*rounds));
	int64_t floor_ns[ROUNDS_MAX];
	double ignored;

	if (!rounds)
		return cli_failf(c, "out of memory");
	for (size_t i = 0; i < option_rounds; i++) {
		int status = measure_round(c, folder, &rounds[i]);

		if (status != EXIT_DONE)
			return status;
		floor_ns[i] = (int64_t)rounds[i].without.replay_floor_ns;
	}
	*out = rounds[option_rounds - 1].without;
	out->rounds = option_rounds;
	for (size_t i = 0; i < ARRAY_SIZE(costs); i++)
		summarize(rounds, option_rounds, &costs[i], out);
	summarize_latency(rounds, option_rounds, out);
	out->replay_floor_ns = (uint64_t)lower_quartile(floor_ns, option_rounds, &ignored);
	return EXIT_DONE;
}

static int calibrate(const struct context *c)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct error e = { 0 }, ignored;
	struct calibration found;
	char *folder = symbolize_make_temporary(&e);
	int status;

	if (!folder)
		return cli_fail(c, &e);
	status = measure(c, folder, &found);
	if (recording_dir_remove(folder, &(struct folder_id){ 0 }, &ignored) < 0)
		rmdir(folder);
	free(folder);
	if (status != EXIT_DONE)
		return status;
	if (calibration_write(&found, &path, &e) < 0)
		return cli_failf(c, "cannot write '%s': %s", strbuf_text(&path), e.text);
	return print(c, &found, strbuf_text(&path));
}

static int run(struct context *c, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	if (option_loop)
		return run_loop(c);
	if (getenv("CUDA_INJECTION64_PATH"))
		return cli_failf(c, "CUDA_INJECTION64_PATH is set, so calls without a recorder "
				    "cannot be measured; unset it");
	terminal_catch_signals();
	return calibrate(c);
}

const struct command cmd_calibrate = {
	.name = "calibrate",
	.group = COMMAND_MACHINE,
	.summary = "measure what recorded calls and graphs cost, for what-if",
	.usage = "[options]",
	.description =
		"Launches short kernels and CUDA graphs in loops, in turns with and without "
		"recording, and stores the differences in $XDG_CACHE_HOME/pitot/calibration.json "
		"(~/.cache without that variable). `pitot what-if` takes them off calls of "
		"recordings that were made "
		"on the same host, GPU and driver, and its predictions are then less uncertain; "
		"what a graph costs is from there where a recording has none. "
		"Needs a GPU, some seconds, and no other load.",
	.options = options,
	.examples = examples,
	.no_names = true,
	.run = run,
};
