/* cmd_record.c: `pitot record`: runs a command and keeps what it does on the GPU. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "cli/checks.h"
#include "cli/process_command.h"
#include "cli/record_cpu.h"
#include "cli/record_dir.h"
#include "cli/record_end.h"
#include "cli/record_follow.h"
#include "cli/record_inject.h"
#include "cli/record_json.h"
#include "cli/record_spawn.h"
#include "cli/record_threads.h"
#include "cli/record_watch.h"
#include "cli/symbolize.h"
#include "cli/ui.h"

#define CPU_HZ 99
#define CPU_HZ_MAX 10000
#define LOOK_MS 100
#define LIVE_NS NS_PER_S

static const char *option_output, *option_name;
static bool option_off_cpu, option_gpu_only, option_cpu_only, cpu_given, pid_given;
static int option_via;
static uint64_t option_hz = CPU_HZ, option_pid;
static bool option_force, option_force_injection, option_memory, option_sync, option_symbols = true;
static int option_graphs, option_api, option_stacks;
static uint64_t option_delay_ns, option_duration_ns, option_max_bytes;
static uint64_t option_counters_ns = 500 * NS_PER_MS;

static const char *const graphs_choices[] = { "node", "launch", NULL };
static const char *const api_choices[] = { "launches", "all", NULL };

static const struct option options[] = {
	{ .name = "output",
	  .letter = 'o',
	  .type = OPTION_STRING,
	  .value = &option_output,
	  .argument = "DIR",
	  .help = "folder to record into (default: NAME-DATE-TIME.pitot)" },
	{ .name = "force",
	  .letter = 'f',
	  .type = OPTION_FLAG,
	  .value = &option_force,
	  .help = "replace DIR if it is a recording" },
	{ .name = "name",
	  .type = OPTION_STRING,
	  .value = &option_name,
	  .argument = "NAME",
	  .help = "name of the recording (default: from the command)" },
	{ .name = "delay",
	  .type = OPTION_DURATION,
	  .value = &option_delay_ns,
	  .argument = "TIME",
	  .help = "start recording so long after the command's start (10s, 250ms)" },
	{ .name = "duration",
	  .type = OPTION_DURATION,
	  .value = &option_duration_ns,
	  .argument = "TIME",
	  .help = "record for so long; the command goes on" },
	{ .name = "graphs",
	  .type = OPTION_ENUM,
	  .value = &option_graphs,
	  .argument = "node|launch",
	  .choices = graphs_choices,
	  .help = "CUDA graphs: every node, or one record per launch (cheaper)" },
	{ .name = "sync",
	  .type = OPTION_FLAG,
	  .value = &option_sync,
	  .negatable = true,
	  .help = "CUPTI's records of synchronizations and events too (dear)" },
	{ .name = "memory",
	  .type = OPTION_FLAG,
	  .value = &option_memory,
	  .help = "record allocations and memory pools" },
	{ .name = "counters",
	  .type = OPTION_DURATION,
	  .value = &option_counters_ns,
	  .argument = "TIME",
	  .bare = "500ms",
	  .negatable = true,
	  .help = "read the GPUs' utilization, clocks, power and so on that often (500ms)" },
	{ .name = "api",
	  .type = OPTION_ENUM,
	  .value = &option_api,
	  .argument = "launches|all",
	  .choices = api_choices,
	  .help = "CUDA calls to record: launches (copies and synchronizations too), or all" },
	{ .name = "stacks",
	  .type = OPTION_ENUM,
	  .value = &option_stacks,
	  .argument = "all|native|python|none",
	  .choices = record_stacks_names,
	  .help = "call stacks of the recorded calls: native and Python frames" },
	{ .name = "cpu",
	  .type = OPTION_U64,
	  .value = &option_hz,
	  .given = &cpu_given,
	  .argument = "HZ",
	  .bare = "99",
	  .negatable = true,
	  .help = "look that often what each thread does on the CPU (99)" },
	{ .name = "cpu-via",
	  .type = OPTION_ENUM,
	  .value = &option_via,
	  .argument = "auto|ebpf|perf|timer",
	  .choices = record_via_names,
	  .help = "how the CPU is sampled (auto: the first of them that is allowed)" },
	{ .name = "off-cpu",
	  .type = OPTION_FLAG,
	  .value = &option_off_cpu,
	  .help = "record where threads wait, too (needs eBPF)" },
	{ .name = "gpu-only",
	  .type = OPTION_FLAG,
	  .value = &option_gpu_only,
	  .help = "no CPU samples: the same as --no-cpu" },
	{ .name = "cpu-only",
	  .type = OPTION_FLAG,
	  .value = &option_cpu_only,
	  .help = "CPU samples alone: nothing is put into the command; no GPU is needed" },
	{ .name = "pid",
	  .letter = 'p',
	  .type = OPTION_U64,
	  .value = &option_pid,
	  .given = &pid_given,
	  .argument = "PID",
	  .help = "CPU samples of a process that runs already, and of what it starts; no command" },
	{ .name = "symbols",
	  .type = OPTION_FLAG,
	  .value = &option_symbols,
	  .negatable = true,
	  .help = "name the call stacks when the command has ended (on unless --no-symbols)" },
	{ .name = "max-size",
	  .type = OPTION_SIZE,
	  .value = &option_max_bytes,
	  .argument = "SIZE",
	  .help = "stop recording a process after so many bytes (10G)" },
	{ .name = "force-injection",
	  .type = OPTION_FLAG,
	  .value = &option_force_injection,
	  .help = "take CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH from another tool" },
	OPTION_END,
};

struct recording {
	const struct context *context;
	char *directory; /* absolute */
	char *shown; /* as the user would name it */
	char *library;
	struct strbuf name, options;
	struct record_cpu cpu;
	struct process_command running; /* with --pid */
	struct record_identity identity;
	struct writer *writer;
	struct watch *watch;
	struct record_threads threads;
	struct spawn spawn;
};

static void recording_release(struct recording *r)
{
	watch_free(r->watch);
	record_threads_release(&r->threads);
	writer_abandon(&r->writer);
	process_command_release(&r->running);
	free(r->directory);
	free(r->shown);
	free(r->library);
	strbuf_release(&r->name);
	strbuf_release(&r->options);
}

static int check_foreign_injection(const struct context *c)
{
	const char *value, *variable = record_foreign_injection(&value);

	if (!variable)
		return EXIT_DONE;
	if (!option_force_injection)
		return cli_failf(c,
				 "another tool owns %s='%s': unset it, or take it over with "
				 "--force-injection",
				 variable, value);
	cli_note(c, "taking %s from '%s'", variable, value);
	return EXIT_DONE;
}

/* The folder relative to the current one where that is shorter to type. */
static char *shown_path(const char *absolute)
{
	char *here = realpath(".", NULL);
	size_t length = here ? strlen(here) : 0;
	bool inside =
		here && length > 1 && !strncmp(absolute, here, length) && absolute[length] == '/';

	free(here);
	return strdup(inside ? absolute + length + 1 : absolute);
}

static void capability(struct recording *r, const char *name, enum capability_state state,
		       const char *got, const char *reason)
{
	struct row_capability row = {
		.time_ns = clock_monotonic_ns(),
		.name = writer_string(r->writer, name, strlen(name)),
		.state = (uint8_t)state,
		.got = writer_string(r->writer, got ? got : "", got ? strlen(got) : 0),
		.reason =
			writer_string(r->writer, reason ? reason : "", reason ? strlen(reason) : 0),
	};

	ROW_MISSING(&row, capability, asked);
	if (!got)
		ROW_MISSING(&row, capability, got);
	if (!reason)
		ROW_MISSING(&row, capability, reason);
	writer_append(r->writer, TABLE_capability, &row);
}

/* What the recorder inside the command is told, if there is one: whether it has to sample is known late. */
static void make_options(struct recording *r)
{
	struct record_settings settings = {
		.graph_nodes = option_graphs == 0,
		.synchronization = option_sync,
		.memory = option_memory,
		.all_api_calls = option_api == 1,
		.stacks = (enum record_stacks)option_stacks,
		.window = { r->identity.start_monotonic_ns, option_delay_ns, option_duration_ns },
		.max_bytes = option_max_bytes,
		.counters_ns = option_counters_ns,
		.cpu_hz = r->cpu.timer ? r->cpu.hz : 0,
		.preload = r->cpu.timer && option_cpu_only,
		.no_cuda = option_cpu_only,
	};

	strbuf_clear(&r->options);

	record_options_text(&settings, &r->options);
	r->identity.options = strbuf_text(&r->options);
}

static void choose_cpu(struct recording *r)
{
	uint64_t start_ns = r->identity.start_monotonic_ns + option_delay_ns;

	r->cpu.hz = option_gpu_only ? 0 : (unsigned)option_hz;
	r->cpu.via = (enum record_via)option_via;
	r->cpu.off_cpu = option_off_cpu;
	r->cpu.start_ns = option_delay_ns ? start_ns : 0;
	r->cpu.end_ns = option_duration_ns ? start_ns + option_duration_ns : 0;
	r->cpu.max_bytes = option_max_bytes;
}

/* Folder, recording.json, writer, watch. */
static int prepare(struct recording *r, int argc, char **argv, struct error *e)
{
	struct writer_options writer_options = { .prefix = "record" };
	int err;

	r->library = record_find_library(e);
	if (!r->library && !option_cpu_only)
		return e->code;
	if (option_name)
		record_name(1, (char *[]){ (char *)option_name, NULL }, &r->name);
	else
		record_name(argc, argv, &r->name);
	r->identity.start_monotonic_ns = clock_monotonic_ns();
	r->identity.start_realtime_ns = clock_read_ns(CLOCK_REALTIME);
	choose_cpu(r);
	make_options(r);
	if (r->name.failed || r->options.failed)
		return error_set(e, -ENOMEM, "out of memory");
	r->directory = record_dir_create(option_output, r->name.data, option_force, e);
	if (!r->directory)
		return e->code;
	r->shown = shown_path(r->directory);
	r->identity.name = option_name ? option_name : r->name.data;
	r->identity.command = argv;
	r->identity.library = r->library;
	writer_options.directory = r->directory;
	err = record_json_write(r->directory, &r->identity, e);
	if (err >= 0)
		err = writer_open(&writer_options, &r->writer, e);
	if (err >= 0)
		r->watch = watch_new(r->writer);
	if (err >= 0 && (!r->watch || !r->shown))
		err = error_set(e, -ENOMEM, "out of memory");
	if (err < 0)
		record_dir_remove(r->directory, NULL);
	return err;
}

static void tell_cpu(const struct recording *r)
{
	const struct record_cpu *cpu = &r->cpu;

	if (!r->context->verbose || !cpu->hz)
		return;
	if (!cpu->sampler)
		cli_note(r->context, "sampling the CPU by a timer inside%s%s",
			 cpu->why_not.code ? ": " : "", cpu->why_not.code ? cpu->why_not.text : "");
	else
		cli_note(r->context, "sampling the CPU by %s%s%s",
			 cpu_way_name(cpu_sampler_way(cpu->sampler)),
			 *cpu_sampler_reason(cpu->sampler) ? ": " : "",
			 cpu_sampler_reason(cpu->sampler));
}

/* The command waits for its exec: sampling starts, and then it is known what the recorder inside has to do. */
static int prepare_child(void *user, pid_t pid, struct strbuf *environment, struct error *e)
{
	struct recording *r = user;
	struct record_injection injection = {
		.library = r->library,
		.directory = r->directory,
		.cuda = !option_cpu_only,
	};
	int err = record_cpu_start(&r->cpu, r->directory, pid, false, e);

	if (err < 0)
		return err;
	if (r->cpu.timer && !r->library)
		return record_find_library(e) ? 0 : e->code;
	make_options(r);
	injection.options = strbuf_text(&r->options);
	injection.preload = option_cpu_only && r->cpu.timer;
	record_environment(&injection, environment);
	tell_cpu(r);
	if (r->context->verbose && environment->length)
		cli_note(r->context, "injecting %s with %s", r->library, injection.options);
	return 0;
}

/* Nothing was recorded. */
static void undo(struct recording *r)
{
	cpu_sampler_stop(&r->cpu.sampler, NULL, NULL);
	writer_abandon(&r->writer);
	record_dir_remove(r->directory, NULL);
}

static int start(struct recording *r, char **argv, struct error *e)
{
	int err = spawn_start(&r->spawn, argv, prepare_child, r, e);

	if (err >= 0) {
		r->threads.pid = r->spawn.pid;
		watch_command(r->watch, r->spawn.pid, r->spawn.start_ns);
		return 0;
	}
	undo(r);
	return err;
}

/* A process that runs already. */
static int attach(struct recording *r, struct error *e)
{
	int err = spawn_attach(&r->spawn, (pid_t)option_pid, e);

	if (err >= 0)
		err = record_cpu_start(&r->cpu, r->directory, r->spawn.pid, true, e);
	if (err < 0) {
		undo(r);
		return err;
	}
	tell_cpu(r);
	watch_command(r->watch, r->spawn.pid, r->spawn.start_ns);
	return 0;
}

static void on_end(void *user, pid_t pid, int status)
{
	struct recording *r = user;

	watch_ended(r->watch, pid, status);
}

static bool may_show_live_line(const struct context *c)
{
	/* A background job would be stopped by writing, or write over what another program shows. */
	return !c->quiet && !c->json && isatty(STDERR_FILENO) &&
	       tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void show_live_line(const struct recording *r, struct follow *follow)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	struct follow_state state;
	unsigned width = terminal_width(STDERR_FILENO);

	follow_step(follow, &state);
	strbuf_adds(&line, "\r");
	strbuf_adds(&line, style_begin(r->context->color_errors, STYLE_DIM));
	follow_line(&state, clock_monotonic_ns() - r->spawn.start_ns, width > 1 ? width - 1 : 1,
		    &line);
	strbuf_adds(&line, style_begin(r->context->color_errors, STYLE_NONE));
	/* The cursor goes back, so that what the command prints takes the line's place. */
	strbuf_adds(&line, "\033[K\r");
	if (!line.failed)
		io_write_all(STDERR_FILENO, line.data, line.length);
}

/* Of a process that is not ours, when the window has closed. */
static bool is_over(struct recording *r)
{
	uint64_t now = clock_monotonic_ns();

	if (!pid_given || !r->cpu.end_ns || now < r->cpu.end_ns)
		return false;
	r->spawn.end_ns = now;
	return true;
}

/* Until the command has ended. */
static void run(struct recording *r)
{
	struct follow *follow = may_show_live_line(r->context) ? follow_new(r->directory) : NULL;
	uint64_t shown_ns = r->spawn.start_ns, now;
	bool shown = false;

	while (spawn_wait(&r->spawn, LOOK_MS, on_end, r)) {
		if (is_over(r))
			break;
		if (watch_look(r->watch, false))
			record_threads_look(&r->threads);
		now = clock_monotonic_ns();
		if (now - shown_ns < LIVE_NS)
			continue;
		shown_ns = now;
		writer_flush(r->writer);
		if (follow && may_show_live_line(r->context)) {
			show_live_line(r, follow);
			shown = true;
		}
	}
	watch_look(r->watch, true);
	if (shown)
		io_write_all(STDERR_FILENO, "\r\033[K", strlen("\r\033[K"));
	follow_free(follow);
}

static void note_capabilities(struct recording *r)
{
	char reason[512];

	if (!option_cpu_only || r->cpu.timer)
		capability(r, "injection", capability_state_on, r->library, NULL);
	else
		capability(r, "injection", capability_state_off, NULL, "--cpu-only");
	if (watch_can_follow(r->watch))
		capability(r, "processes", capability_state_on, NULL, NULL);
	else
		capability(r, "processes", capability_state_degraded, "the command only",
			   "the kernel does not tell who is whose child (CONFIG_PROC_CHILDREN)");
	if (checks_no_gpu_reason(reason, sizeof(reason)))
		capability(r, "gpu", capability_state_unavailable, NULL, reason);
}

/* Closes the recording. What fails here is said, but the command's status counts. */
static void finish(struct recording *r)
{
	const struct context *c = r->context;
	struct writer_stats stats;
	struct error e = { 0 };
	int err;

	if (record_cpu_stop(&r->cpu, r->writer, &e) < 0)
		cli_warn(c, "CPU samples are incomplete: %s", e.text);
	e = (struct error){ 0 };
	note_capabilities(r);
	record_threads_write(&r->threads, r->directory, r->writer);
	writer_flush(r->writer);
	writer_stats(r->writer, &stats);
	err = writer_close(&r->writer);
	if (err < 0 || stats.error)
		cli_warn(c, "the list of processes is incomplete: cannot write to '%s': %s",
			 r->shown, strerror(stats.error ? stats.error : -err));
	r->identity.end_monotonic_ns = r->spawn.end_ns;
	r->identity.exit_status = r->spawn.status;
	if (record_json_write(r->directory, &r->identity, &e) < 0)
		cli_warn(c, "%s", e.text);
	if (watch_running(r->watch))
		cli_note(c, "%zu %s of the command still %s; they go on recording by themselves",
			 watch_running(r->watch),
			 watch_running(r->watch) == 1 ? "process" : "processes",
			 watch_running(r->watch) == 1 ? "runs" : "run");
}

/* So that the stacks can be read on another machine. What fails can be tried again. */
static void name_stacks(struct recording *r)
{
	const struct symbolizer_options how = { .no_lines = false };
	struct symbolize_result result = { .addresses = 0 };
	struct error e = { 0 };

	if (!option_symbols || (option_stacks == RECORD_STACKS_NONE && !r->cpu.hz))
		return;
	if (symbolize_recording(r->directory, &how, &result, &e) < 0)
		cli_warn(r->context, "call stacks have no names: %s; try `pitot symbolize %s`",
			 e.text, r->shown);
	else
		symbolize_release(&result);
}

/* NULL when there are GPU data. */
static const char *why_no_gpu_data(const struct record_end *end, char *buffer, size_t size)
{
	if (end->kernels || end->copies || end->sets || end->graph_launches)
		return NULL;
	if (option_cpu_only)
		return "only the CPU was sampled";
	if (end->cupti_reason[0])
		return end->cupti_reason;
	if (end->cupti_on)
		return "the command ran nothing on a GPU while it was recorded";
	return checks_no_gpu_reason(buffer, size) ? buffer : "the command did not use CUDA";
}

static void report_end(struct recording *r)
{
	const struct context *c = r->context;
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct record_end end = { .elapsed_ns = r->spawn.end_ns - r->spawn.start_ns };
	struct error e = { 0 };
	char reason[512];
	const char *why;

	if (c->quiet && !c->json)
		return;
	if (record_end_read(r->directory, &end, &e) < 0) {
		cli_warn(c, "%s", e.text);
		return;
	}
	why = why_no_gpu_data(&end, reason, sizeof(reason));
	if (c->json) {
		record_end_json(&end, r->shown, why, r->spawn.status, &out);
	} else {
		if (pid_given)
			strbuf_addf(&out, "pitot record: process %" PRIu64 " was sampled\n",
				    option_pid);
		else
			strbuf_addf(&out, "pitot record: the command ended with status %d\n",
				    r->spawn.status);
		record_end_text(&end, r->shown, why, c->color_errors, &out);
	}
	if (!out.failed)
		io_write_all(STDERR_FILENO, out.data, out.length);
}

/* What a shell would return. */
static int cannot_run(const struct context *c, int err, const struct error *e)
{
	cli_fail(c, e);
	return err == -ENOENT ? 127 : 126;
}

/* What contradicts itself. */
static int check_options(const struct context *c, int argc)
{
	if (pid_given && argc > 1)
		return cli_usage(c,
				 "--pid is for a process that runs already: leave the command out");
	if (pid_given && (option_pid == 0 || option_pid > INT_MAX))
		return cli_usage(c, "no process has the id %" PRIu64, option_pid);
	if (pid_given && option_via == RECORD_VIA_TIMER)
		return cli_usage(c, "the timer is inside of the process: it is not for one that "
				    "runs already");
	if (!pid_given && argc < 2)
		return cli_usage(c, "no command given: pitot record [options] -- COMMAND");
	if (option_cpu_only && option_gpu_only)
		return cli_usage(c, "--cpu-only and --gpu-only leave nothing to record");
	if (option_gpu_only && cpu_given && option_hz)
		return cli_usage(c, "--gpu-only takes no CPU samples: leave out --cpu");
	if (pid_given)
		option_cpu_only = true;
	if (option_gpu_only)
		option_hz = 0;
	if (option_cpu_only && !option_hz)
		return cli_usage(c, "without CPU samples there is nothing to record");
	if (option_off_cpu && !option_hz)
		return cli_usage(c,
				 "--off-cpu needs CPU samples: leave out --no-cpu and --gpu-only");
	if (option_hz > CPU_HZ_MAX)
		return cli_usage(c, "--cpu=%" PRIu64 " is too often: at most %d", option_hz,
				 CPU_HZ_MAX);
	return EXIT_DONE;
}

static int record_command(struct recording *r, int argc, char **argv)
{
	struct error e = { 0 };
	int err = spawn_check(argv[0], &e), status;

	if (err < 0)
		return cannot_run(r->context, err, &e);
	status = option_cpu_only ? EXIT_DONE : check_foreign_injection(r->context);
	if (status != EXIT_DONE)
		return status;
	if (prepare(r, argc, argv, &e) < 0)
		return cli_fail(r->context, &e);
	err = start(r, argv, &e);
	if (err == E_UNSUPPORTED)
		return cli_fail(r->context, &e);
	return err < 0 ? cannot_run(r->context, err, &e) : EXIT_DONE;
}

static int record_process(struct recording *r)
{
	struct process_command *command = &r->running;
	struct error e = { 0 };

	if (process_command_read(command, (pid_t)option_pid, &e) < 0 ||
	    prepare(r, (int)command->argc, command->argv, &e) < 0 || attach(r, &e) < 0)
		return cli_fail(r->context, &e);
	return EXIT_DONE;
}

static int run_record(struct context *c, int argc, char **argv)
{
	struct recording r = { .context = c, .name = STRBUF_INIT, .options = STRBUF_INIT };
	int status = check_options(c, argc);

	if (status == EXIT_DONE)
		status = pid_given ? record_process(&r) : record_command(&r, argc - 1, argv + 1);
	if (status == EXIT_DONE) {
		run(&r);
		finish(&r);
		spawn_release(&r.spawn);
		name_stacks(&r);
		report_end(&r);
		status = r.spawn.status;
	}
	recording_release(&r);
	return status;
}

static const struct command_example examples[] = {
	{ "pitot record -- python train.py",
	  "record a training, then look at it with `pitot report`" },
	{ "pitot record --delay 30s --duration 10s -- ./server",
	  "a window of ten seconds of a long run" },
	{ "pitot record -o step.pitot --graphs launch --max-size 2G -- torchrun --nproc-per-node 2 "
	  "train.py",
	  "two processes in one recording, CUDA graphs as a whole" },
	{ NULL, NULL },
};

const struct command cmd_record = {
	.name = "record",
	.alias = "profile",
	.summary = "run a command and record what it does on the GPU",
	.usage = "[options] -- COMMAND [ARGUMENT…]",
	.description =
		"Runs COMMAND with its own standard input, output, error, environment and folder, "
		"and records the GPU "
		"work of all processes that it starts into a folder. The command's exit status is "
		"returned.\n\n"
		"The recording can be read while it grows, and after a crash. When the command "
		"ends, a few lines on "
		"standard error say where the recording is, what was seen, how busy the GPU was, "
		"what was lost and what "
		"recording cost; with --json they are one JSON object on standard error instead.",
	.options = options,
	.examples = examples,
	.notes = "ENVIRONMENT\n\n"
		 "COMMAND is started with CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH naming "
		 "libpitot.so, and with "
		 "PITOT_RECORDING and PITOT_OPTIONS. A value of another tool is an error unless "
		 "--force-injection is "
		 "given. PITOT_LIBRARY names another libpitot.so.\n\n"
		 "SIGNALS\n\n"
		 "Ctrl-C, Ctrl-Backslash and Ctrl-Z reach the command from the terminal; pitot "
		 "waits for its end and "
		 "completes the recording. SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 and "
		 "SIGALRM sent to pitot "
		 "are passed on to the command.\n\n"
		 "EXIT STATUS\n\n"
		 "The command's, or 128 + n when signal n ended it; 127 when it was not found, 126 "
		 "when it could not be "
		 "started; 1 when recording could not begin, 2 for wrong usage.",
	.stop_at_operand = true,
	.run = run_record,
};
