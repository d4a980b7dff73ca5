/*
 * cmd_calibrate.c: `pitot calibrate`: what recording adds to calls on this machine.
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
		     WORDS(") to a synchronizing one\nmeasured in "),
		     COUNTED_AS(found->rounds, "round"), WORDS(" on "));
	text_safe(&out, found->gpu, strlen(found->gpu));
	strbuf_addf(&out, "; `pitot what-if` uses it for recordings of this machine\nstored in ");
	text_safe(&out, path, strlen(path));
	strbuf_addc(&out, '\n');
	return cli_print(c, &out);
}

static int run_loop(const struct context *c)
{
	struct calibration found = { .version = PITOT_VERSION, .rounds = 1 };
	struct utsname name = { 0 };
	struct error e = { 0 };

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

/* Otherwise the two would differ by nothing, or by too little. */
static int check_recorded(const struct context *c, const char *folder)
{
	struct trace_options trace_options = { .threads = 0 };
	struct trace *trace = NULL;
	struct error e = { 0 };
	uint64_t kernels = 0;
	int rc = trace_open(folder, &trace_options, &trace, &e);

	if (rc >= 0)
		rc = trace_load(trace, TABLE_kernel, COLUMN_BIT(kernel, stream), &e);
	if (rc >= 0)
		kernels = trace_rows(trace, TABLE_kernel);
	trace_free(trace);
	if (rc < 0)
		return cli_fail(c, &e);
	if (kernels < CALL_TIMING_LAUNCHES)
		return cli_failf(c,
				 "the recording has %llu kernel%s of the loop's %u, so nothing can "
				 "be compared; `pitot doctor` shows what is missing",
				 (unsigned long long)kernels, plural(kernels),
				 CALL_TIMING_LAUNCHES);
	return EXIT_DONE;
}

/* --- all of them --- */

static int compare_ns(const void *a, const void *b)
{
	return ORDER_OF(*(const int64_t *)a, *(const int64_t *)b);
}

/* What a call took in each round. */
struct took {
	int64_t with[ROUNDS_MAX], without[ROUNDS_MAX];
};

/* The lower quartile, and half of the distance between the eighths around it. */
static int64_t lower_quartile(int64_t *ns, size_t count, double *spread)
{
	qsort(ns, count, sizeof(*ns), compare_ns);
	*spread = (double)(ns[count * 3 / 8] - ns[count / 8]) / 2;
	return ns[count / 4];
}

static void summarize(struct took *t, size_t count, uint64_t *cost, uint64_t *spread)
{
	double spread_with, spread_without;
	int64_t ns = lower_quartile(t->with, count, &spread_with) -
		     lower_quartile(t->without, count, &spread_without);

	*cost = (uint64_t)MAX(ns, 0);
	*spread = (uint64_t)sqrt(spread_with * spread_with + spread_without * spread_without);
}

static int measure(const struct context *c, const char *folder, struct calibration *out)
{
	const char *const recorded[] = { "pitot",        "record",    "-q",     "-f",
					 "--no-symbols", "-o",        folder,   "--",
					 OWN_PROGRAM,    "calibrate", "--loop", NULL };
	const char *const alone[] = { "pitot", "calibrate", "--loop", NULL };
	struct took launch, synchronize;
	int status = EXIT_DONE;

	for (size_t i = 0; i < option_rounds && status == EXIT_DONE; i++) {
		struct calibration without, with;

		status = run_program(c, alone, &without);
		if (status == EXIT_DONE)
			status = run_program(c, recorded, &with);
		if (status == EXIT_DONE)
			status = check_recorded(c, folder);
		if (status != EXIT_DONE)
			return status;
		launch.with[i] = (int64_t)with.launch_ns;
		launch.without[i] = (int64_t)without.launch_ns;
		synchronize.with[i] = (int64_t)with.synchronize_ns;
		synchronize.without[i] = (int64_t)without.synchronize_ns;
		*out = with;
	}
	out->rounds = option_rounds;
	summarize(&launch, option_rounds, &out->launch_ns, &out->launch_spread_ns);
	summarize(&synchronize, option_rounds, &out->synchronize_ns, &out->synchronize_spread_ns);
	return status;
}

static int calibrate(const struct context *c)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct error e = { 0 }, ignored;
	struct calibration found = { .rounds = 0 };
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
	.summary = "measure what recording adds to calls, for what-if",
	.usage = "[options]",
	.description =
		"Launches a short kernel in a loop, in turns with and without recording, and "
		"stores the difference in $XDG_CACHE_HOME/pitot/calibration.json (~/.cache without "
		"that variable). `pitot what-if` takes it off calls of recordings that were made "
		"on the same host, GPU and driver, and its predictions are then less uncertain. "
		"Needs a GPU, some seconds, and no other load.",
	.options = options,
	.examples = examples,
	.no_names = true,
	.run = run,
};
