/*
 * cmd_record.c: `pitot record`: its options, the checks for contradictions between them, and the
 * stages of a recording.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/starts_with.h"
#include "cli/flame_print.h"
#include "cli/record_output.h"
#include "cli/record_windows.h"
#include "cli/ui.h"
#include "cli/window.h"
#include "cupti/profiler_host.h"
#include "format/recording_dir.h"
#include "record/inject_remote/inject_remote.h"
#include "record/kept_dumps.h"
#include "record/notify.h"
#include "record/recording.h"
#include "record/start_time.h"
#include "rules/rule_plan.h"
#include "rules/step_watch.h"

static struct record_request request = {
	.recording = true,
	.symbols = true,
	.hz = RECORD_CPU_HZ,
	.settings = SETTINGS_INIT,
	.before_ns = PLAN_BEFORE_NS,
	.after_ns = PLAN_AFTER_NS,
	.dumps_bytes = KEPT_DUMPS_BYTES,
};

#define STEPS_RING "64M" /* of a process, before its steps */

static struct option_list pids, rules;
static bool usual_rules = true;
static struct record_windows windows = { .keep = 60 };
static bool keep_given;
static const char *start_at, *steps, *steps_by;
static struct flame_request flame; /* output NULL: none */

static bool given[SETTINGS_COUNT];
static int choice[SETTINGS_COUNT];

#define SETTING_OPTION(key_, type_, join_, initial, ...)                                           \
	{ .key = #key_,                                                                            \
	  .type = OPTION_##type_,                                                                  \
	  .value = &request.settings.key_,                                                         \
	  .given = &given[SETTING_ID_##key_],                                                      \
	  .choice = &choice[SETTING_ID_##key_],                                                    \
	  __VA_ARGS__ },

static const struct option options[] = {
	OPTION(STRING, "output", 'o', request.output, "DIR",
	       "record into DIR (default: NAME-DATE-TIME.pitot)", .is_path = true),
	FLAG("force", 'f', request.force, "replace DIR if it is a recording"),
	OPTION(STRING, "name", 0, request.name, "NAME",
	       "name of the recording (default: from the command)", .group = "output"),
	OPTION(STRING, "ring", 0, request.ring, "SIZE|TIME",
	       "keep only the end of the recording, in memory: SIZE a process, such as 256M, or "
	       "TIME, such as 10m, of at most 64M; `pitot dump` writes it while the command runs"),
	OPTION(LIST, "when", 0, rules, "RULE",
	       "--ring: dump it when RULE holds, such as 'step-time > 2x median'; `pitot rules` "
	       "lists "
	       "what rules can say, and those that are on anyway; may be given several times",
	       .group = "rules"),
	FLAG("rules", 0, usual_rules,
	     "--ring: with the usual rules, too: hangs, errors that end a context, Xids, fatal "
	     "signals (default)",
	     .negatable = true, .group = "rules"),
	OPTION(DURATION, "pre", 0, request.before_ns, "TIME",
	       "what a rule's dump has from before its moment (default 30s)", .positive = true,
	       .group = "rules"),
	OPTION(DURATION, "post", 0, request.after_ns, "TIME",
	       "how long after its moment the dump is made (default 5s)", .group = "rules"),
	OPTION(SIZE, "max-dumps", 0, request.dumps_bytes, "SIZE",
	       "remove the oldest dumps of rules beyond SIZE, but never the first one of a rule "
	       "(default 16G)",
	       .positive = true, .group = "rules"),
	OPTION(STRING, "on-trigger", 0, request.on_trigger, "COMMAND",
	       "run COMMAND by sh after a rule's dump; PITOT_DUMP is its path, PITOT_RULE the rule",
	       .group = "rules"),
	OPTION(STRING, "notify", 0, request.notify, "URL",
	       "POST to URL, as JSON, what held and where a rule's dump is (default: PITOT_NOTIFY, "
	       "which other users do not see)",
	       .group = "rules"),
	OPTION(STRING, "log", 0, request.log, "gpufl[=DIR]",
	       "write gpufl's logs while the command runs, into DIR (default: NAME.gpufl beside "
	       "the recording)",
	       .group = "output"),
	OPTION(STRING, "flame", 0, flame.output, "FILE",
	       "at the end write a flame graph, as `pitot flame -o FILE` does (x.folded, x.svg, "
	       "x.html, x.pb.gz, …). Without -o the recording is then removed",
	       .is_path = true),
	FLAG("xpu-perf-compat", 0, flame.xpu_perf,
	     "--flame x.folded: as xpu-perf writes it: samples at 50 Hz below [GPU_Kernel] frames",
	     .group = "output"),
	FLAG("recording", 0, request.recording,
	     "make a recording (default); --no-recording writes only the logs of --log gpufl=DIR",
	     .negatable = true, .group = "output"),
	OPTION(STRING, "perfetto", 0, request.perfetto, "SOCKET",
	       "also register with Perfetto's tracing service, whose sessions can then trace the "
	       "command live",
	       .bare = "1", .group = "output"),
	OPTION(STRING, "startup-wait", 0, request.startup_wait, "SOURCES",
	       "make the command's first use of CUDA wait until these data sources are traced, "
	       "such as gpu.renderstages; at most 30 s (implies --perfetto)",
	       .group = "output"),
	/* clang-format off */
	SETTINGS_REQUESTED(SETTING_OPTION)
	/* clang-format on */
	OPTION(STRING, "steps", 0, steps, "N[..M]",
	       "record only these steps of each process, counted from 1 since it began, and so the "
	       "same ones of all ranks, on all hosts",
	       .group = "windows"),
	OPTION(STRING, "steps-by", 0, steps_by, "NAME",
	       "--steps: they are the NVTX ranges and scopes called NAME, or with `collectives` "
	       "from one collective of NCCL to the next (default: ranges and scopes that are named "
	       "like steps, such as step, train_step and batch)",
	       .group = "windows"),
	OPTION(STRING, "start-at", 0, start_at, "TIME",
	       "start recording at this time of the day, on several hosts at once: 12:30, "
	       "12:30:15, "
	       "2026-01-31T12:30:15 (with Z: UTC), or /10s: the next multiple of 10 s"),
	OPTION(DURATION, "every", 0, windows.every_ns, "TIME",
	       "a recording in each multiple of TIME of the wall clock, such as 60s; between them "
	       "the process or command is left alone (needs --for)",
	       .positive = true, .group = "windows"),
	OPTION(DURATION, "for", 0, windows.for_ns, "TIME", "length of the recordings of --every",
	       .positive = true, .group = "windows"),
	OPTION(U64, "keep", 0, windows.keep, "N",
	       "--every: remove the oldest recordings of more than N (default 60)",
	       .positive = true, .given = &keep_given, .group = "windows"),
	OPTION(U64, "cpu", 0, request.hz, "HZ", "CPU samples per second and thread (default 99)",
	       .given = &request.hz_given, .most = SETTING_CPU_HZ_MAX, .bare = "99",
	       .negatable = true),
	OPTION(ENUM, "cpu-via", 0, request.method, NULL,
	       "CPU sampling method; auto: the first that is allowed, and beside perf a timer for "
	       "Python frames",
	       .choices = cpu_method_options, .group = "CPU samples"),
	FLAG("off-cpu", 0, request.off_cpu,
	     "also record the time that threads spend off the CPU (needs eBPF)",
	     .group = "CPU samples"),
	FLAG("gpu-only", 0, request.gpu_only, "no CPU samples; same as --no-cpu"),
	FLAG("cpu-only", 0, request.cpu_only, "CPU samples only; needs no GPU"),
	OPTION(LIST, "pid", 'p', pids, "PID",
	       "record a running process and its descendants instead of a command: CPU samples, "
	       "and GPU work where the process was started with PITOT_IDLE=1; may be given several "
	       "times"),
	FLAG("gpu", 0, request.gpu, "--pid: fail where GPU work cannot be recorded"),
	FLAG("inject", 0, request.inject,
	     "--pid: load the recorder into processes that use CUDA and were not prepared, by "
	     "their "
	     "CPython (from 3.14 on) or through a thread that sleeps (implies --gpu)"),
	FLAG("gpu-coredump", 0, request.gpu_coredump,
	     "have NVIDIA's driver write a core file of the GPU when a kernel causes an exception: "
	     "the report then has kernel, block, thread and line, but no other GPU work, because "
	     "the driver does not do both; it ends the program after it",
	     .group = "CUDA"),
	FLAG("symbols", 0, request.symbols,
	     "symbolize call stacks after the command has ended (default)", .negatable = true,
	     .group = "output"),
	FLAG("force-injection", 0, request.force_injection,
	     "replace another tool's CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH",
	     .group = "CUDA"),
	OPTION_END,
};

static void add_pid(pid_t pid)
{
	for (size_t i = 0; i < request.pid_count; i++)
		if (request.pids[i] == pid)
			return;
	request.pids[request.pid_count++] = pid;
}

static int read_pids(const struct context *c)
{
	_Static_assert(ARRAY_SIZE(pids.items) <= SPAWN_ATTACHED_MAX, "room for each --pid");
	for (unsigned i = 0; i < pids.count; i++) {
		uint64_t pid;

		if (parse_u64(pids.items[i], &pid) < 0 || pid == 0 || pid > INT_MAX)
			return cli_usage(c, "option '--pid' takes the id of a process, not '%s'",
					 pids.items[i]);
		add_pid((pid_t)pid);
	}
	return EXIT_DONE;
}

static int check_ring(const struct context *c)
{
	uint64_t bytes, age_ns;

	if (segment_ring_parse(request.ring, &bytes, &age_ns) < 0)
		return cli_usage(c,
				 "--ring takes a size of at least 64K, such as 256M, or a time, "
				 "such as 10m, not '%s'",
				 request.ring);
	if (pids.count || request.cpu_only || !request.recording ||
	    (request.hz_given && request.hz))
		return cli_usage(c, "--ring keeps what a command records of its GPU work; leave "
				    "out --pid, --cpu, --cpu-only and --no-recording");
	return EXIT_DONE;
}

static int read_rules(const struct context *c)
{
	const char *more = secure_getenv("PITOT_RULES"), *url = secure_getenv("PITOT_NOTIFY");
	struct error e = { 0 };
	int rc = 0;

	if (!request.ring)
		return rules.count || request.on_trigger || request.notify
			       ? cli_usage(c, "--when, --on-trigger and --notify need --ring, of "
					      "which rules make dumps: --ring 10m")
			       : EXIT_DONE;
	if (!request.notify && url) {
		request.notify = strdup(url); /* until we end; the command does not get it */
		unsetenv("PITOT_NOTIFY");
	}
	if (request.notify)
		rc = notify_check(request.notify, &e);
	for (unsigned i = 0; i < rules.count && rc == 0; i++)
		rc = rule_list_add(&request.rules, rules.items[i], &e);
	if (rc == 0 && more)
		rc = rule_list_add_all(&request.rules, more, &e);
	if (rc < 0)
		return cli_fail(c, &e);
	if (usual_rules)
		rule_list_add_usual(&request.rules);
	return EXIT_DONE;
}

/* Refuses options that contradict each other. */
static int check_options(const struct context *c, int argc)
{
	bool alone;

	request.cpu_only |= request.gpu_coredump; /* the driver writes no core files beside CUPTI */
	alone = pids.count || request.cpu_only;
	if (pids.count && argc > 1)
		return cli_usage(c, "--pid samples a running process and takes no command");
	if (pids.count && request.method == CPU_METHOD_TIMER)
		return cli_usage(
			c,
			"--cpu-via timer needs a command: a running process has no timer inside");
	if (!pids.count && argc < 2)
		return cli_usage(c, "no command given: pitot record [options] -- COMMAND");
	if (request.cpu_only && request.gpu_only)
		return cli_usage(c, "%s and --gpu-only leave nothing to record",
				 request.gpu_coredump ? "--gpu-coredump" : "--cpu-only");
	if (request.gpu_only && request.hz_given && request.hz)
		return cli_usage(c, "--gpu-only records no CPU samples; leave out --cpu");
	if (request.log && strcmp(request.log, "gpufl") &&
	    (strncmp(request.log, "gpufl=", 6) || !request.log[6]))
		return cli_usage(c, "--log takes gpufl or gpufl=DIR, not '%s'", request.log);
	if (request.startup_wait && !request.perfetto)
		request.perfetto = "1";
	if (request.perfetto && strcmp(request.perfetto, "1") && !strchr(request.perfetto, '/'))
		return cli_usage(c, "--perfetto takes the path of a socket, such as ./%s",
				 request.perfetto);
	if (request.perfetto && (pids.count || request.cpu_only))
		return cli_usage(
			c, "--perfetto needs GPU work, which --pid and --cpu-only do not record");
	request.gpu |= request.inject;
	if (request.gpu && (!pids.count || request.cpu_only))
		return cli_usage(c, "%s belongs to --pid, and contradicts --cpu-only",
				 request.inject ? "--inject" : "--gpu");
	if (request.gpu_coredump &&
	    (pids.count || !request.recording || windows.every_ns || request.ring))
		return cli_usage(c, "--gpu-coredump needs a command and its recording; leave out "
				    "--pid, --ring, --no-recording and --every");
	if (request.log && alone)
		return cli_usage(c, "--log gpufl needs a command and its GPU work; leave out --pid "
				    "and --cpu-only");
	if (given[SETTING_ID_engine] && request.settings.engine != SETTING_ENGINE_TRACE &&
	    request.cpu_only)
		return cli_usage(c, "--engine needs GPU work; leave out --cpu-only");
	if (given[SETTING_ID_engine] && (pids.count || windows.every_ns) &&
	    setting_engine_needs_start(request.settings.engine))
		return cli_usage(c,
				 "engine %s cannot begin in a running process: %s; pm-sampling and "
				 "range-profiler can",
				 setting_engine_names[request.settings.engine],
				 setting_engine_needs_start(request.settings.engine));
	if (!request.recording && !*request.settings.sinks &&
	    (!request.log || !strchr(request.log, '=')))
		return cli_usage(c, "--no-recording needs --log gpufl=DIR or --sinks, or nothing "
				    "would be written");
	if (!request.recording &&
	    (request.output || request.hz_given || request.off_cpu || c->json))
		return cli_usage(
			c, "-o, --cpu, --off-cpu and --json have no effect with --no-recording");
	request.ring = request.ring ? request.ring : secure_getenv("PITOT_RING");
	if (request.ring && !*request.ring)
		request.ring = NULL;
	if ((request.ring && check_ring(c) != EXIT_DONE) || read_rules(c) != EXIT_DONE)
		return EXIT_USAGE;
	request.allocator = choice[SETTING_ID_memory] != 0;
	if (request.allocator && (request.ring || !request.recording))
		return cli_usage(c, "--memory=torch records from outside, into a folder; leave out "
				    "--ring and --no-recording");
	if (request.gpu_only || !request.recording || request.ring)
		request.hz = 0;
	if (request.cpu_only && !request.hz && !request.allocator && !request.gpu_coredump)
		return cli_usage(c, "--cpu-only without CPU samples leaves nothing to record");
	if (request.off_cpu && !request.hz)
		return cli_usage(c,
				 "--off-cpu needs CPU samples; leave out --no-cpu and --gpu-only");
	return read_pids(c);
}

static int choose_start(const struct context *c)
{
	struct error e = { 0 };

	if (!start_at)
		return EXIT_DONE;
	if (given[SETTING_ID_delay_ns])
		return cli_usage(c, "--start-at and --delay contradict each other");
	if (start_time_parse(start_at, clock_read_ns(CLOCK_REALTIME), &request.start_at_ns, &e) < 0)
		return cli_usage(c, "--start-at: %s", e.text);
	return EXIT_DONE;
}

static int check_windows(const struct context *c)
{
	if (!windows.every_ns)
		return windows.for_ns || keep_given
			       ? cli_usage(c, "--for and --keep need --every, such as: --every 60s "
					      "--for 1s")
			       : EXIT_DONE;
	if (!windows.for_ns || windows.for_ns * 2 > windows.every_ns)
		return cli_usage(c, "--every needs --for TIME, at most half of it");
	if (request.output || flame.output || start_at || given[SETTING_ID_delay_ns] ||
	    given[SETTING_ID_duration_ns])
		return cli_usage(c,
				 "--every records into folders with the time in their names; leave "
				 "out -o, --flame, --start-at, --delay and --duration");
	if (request.ring || request.log || request.perfetto || request.method == CPU_METHOD_TIMER)
		return cli_usage(c, "--every attaches to the command for each window; leave out "
				    "--ring, --log, --perfetto and --cpu-via timer");
	return EXIT_DONE;
}

/* Steps are cut out of a ring, so that nothing else of the run needs room on the disk. */
static int check_steps(const struct context *c)
{
	struct requested_steps *s = &request.steps;
	uint64_t last;

	if (!steps)
		return steps_by
			       ? cli_usage(c, "--steps-by needs --steps, such as: --steps 100..110")
			       : EXIT_DONE;
	if (!steps_parse(steps, &s->first, &last) || last - s->first >= STEPS_MAX)
		return cli_usage(
			c,
			"--steps takes a number, such as 100, or two, such as 100..110, of "
			"at most %u steps, not '%s'",
			STEPS_MAX, steps);
	if (request.ring || pids.count || request.cpu_only || !request.recording ||
	    (request.hz_given && request.hz) || request.off_cpu || request.allocator)
		return cli_usage(c, "--steps records the GPU work of a command, in a ring of its "
				    "own; leave out --ring, --pid, --cpu, --off-cpu, --cpu-only, "
				    "--memory=torch and --no-recording");
	if (windows.every_ns || start_at || given[SETTING_ID_delay_ns] ||
	    given[SETTING_ID_duration_ns])
		return cli_usage(c,
				 "--steps is a window of its own; leave out --every, --start-at, "
				 "--delay and --duration");
	s->count = (size_t)(last - s->first) + 1;
	s->by_collectives = steps_by && !strcmp(steps_by, "collectives");
	s->name = s->by_collectives ? NULL : steps_by;
	request.ring = STEPS_RING;
	request.hz = 0;
	return EXIT_DONE;
}

static int check_flame(const struct context *c)
{
	if (!flame.output)
		return flame.xpu_perf ? cli_usage(c, "--xpu-perf-compat needs --flame FILE.folded")
				      : EXIT_DONE;
	if (!request.recording)
		return cli_usage(c, "--flame needs a recording; leave out --no-recording");
	flame.gpu_only = request.gpu_only;
	flame.cpu_only = request.cpu_only;
	flame.overwrite = request.force;
	return flame_prepare(c, &flame);
}

/* Writes the flame graph; without -o nothing else remains. Returns the command's status, or 1. */
static int write_flame(struct context *c, const struct recording *r, int status)
{
	struct error e = { 0 };

	if (flame_write_recording(c, r->directory) != EXIT_DONE) {
		if (!request.output)
			cli_note(c, "the recording is kept: %s", r->shown);
		return status ? status : EXIT_FAILED;
	}
	if (!request.output && recording_dir_remove(r->directory, &r->identity.folder, &e) < 0)
		cli_warn(c, "%s", e.text);
	return status;
}

/* --sinks names all that is written; -o, --log and --no-recording count first. */
static int take_sinks(struct error *e)
{
	static char output[SETTINGS_PATH_MAX], log[SETTINGS_PATH_MAX + sizeof("gpufl=")];
	struct settings *s = &request.settings;

	if (!given[SETTING_ID_sinks])
		return 0;
	if (settings_place_sinks(s, e) < 0)
		return e->code;
	snprintf(output, sizeof(output), "%s", s->directory);
	snprintf(log, sizeof(log), "gpufl=%s", s->log_path);
	request.recording &= request.output || *output;
	request.output = request.output || !*output ? request.output : output;
	request.log = request.log || !*s->log_path ? request.log : log;
	return 0;
}

/* Reads settings that are not on the command line from environment and configuration file. */
static int read_settings(struct error *e)
{
	struct settings s = SETTINGS_INIT;
	int err;

#define S(key_, ...)                                                                               \
	if (given[SETTING_ID_##key_])                                                              \
		settings_put(&s, SETTING_ID_##key_, (uint64_t)request.settings.key_,               \
			     SETTING_BY_CODE);
	SETTINGS_REQUESTED(S)
#undef S
	err = settings_read(&s, NULL, true, e);
	request.settings = s;
	if (!request.name && *s.name)
		request.name = request.settings.name;
	return err;
}

/* Rules about what only `--system all` reads would never hold without it. */
static void choose_readings(void)
{
	for (unsigned i = 0; i < request.rules.count && !given[SETTING_ID_system]; i++) {
		const struct rule *rule = &request.rules.rules[i];

		if (rule->metric == RULE_ecc ||
		    (rule->metric == RULE_counter &&
		     (starts_with(rule->key, "gpu_") || starts_with(rule->key, "host_") ||
		      starts_with(rule->key, "process_"))))
			request.settings.system = SETTING_SYSTEM_ALL;
	}
}

/* Whether the requested engine has the setting, one of SETTING_JOIN_ENGINE. */
static bool engine_has(int setting)
{
	const unsigned launches = 1u << SETTING_ENGINE_RANGE_PROFILER |
				  1u << SETTING_ENGINE_SASS_METRICS | 1u << SETTING_ENGINE_DEEP;
	unsigned engines = launches;

	if (setting == SETTING_ID_pc_period)
		engines = 1u << SETTING_ENGINE_PC_SAMPLING | 1u << SETTING_ENGINE_DEEP;
	else if (setting == SETTING_ID_pm_interval_ns)
		engines = 1u << SETTING_ENGINE_PM_SAMPLING;
	else if (setting == SETTING_ID_measure)
		engines = 1u << SETTING_ENGINE_RANGE_PROFILER;
	else if (setting == SETTING_ID_metrics)
		engines |= 1u << SETTING_ENGINE_PM_SAMPLING;
	return !request.cpu_only && engines >> request.settings.engine & 1;
}

/*
 * Only warns: the command may select an engine itself, and the options then apply. They also apply
 * to live sessions (--perfetto), which measure without --engine, and to the key that measures.
 */
static void warn_of_options_without_engine(const struct context *c)
{
	int engine = request.settings.engine;
	char when[100] = "without GPU work";

	if (request.perfetto || rule_list_deepens(&request.rules) ||
	    (pids.count && !request.cpu_only && isatty(STDIN_FILENO)))
		return;
	if (!request.cpu_only && engine > SETTING_ENGINE_TRACE)
		snprintf(when, sizeof(when),
			 "with --engine %s, unless COMMAND starts another engine",
			 setting_engine_names[engine]);
	else if (!request.cpu_only)
		snprintf(when, sizeof(when), "without --engine, unless COMMAND starts an engine");
#define S(key_, type, join_, initial, ...)                                                         \
	if (SETTING_JOIN_##join_ == SETTING_JOIN_ENGINE && given[SETTING_ID_##key_] &&             \
	    !engine_has(SETTING_ID_##key_))                                                        \
		cli_warn(c, "--%s has no effect %s", (struct option){ __VA_ARGS__ }.name, when);
	SETTINGS_REQUESTED(S)
#undef S
}

/* Whether a GPU has a metric is known only where it is; but all names of metrics have "__". */
static void warn_of_unknown_metrics(const struct context *c)
{
	char word[OPTION_TEXT_MAX];

	for (const char *at = given[SETTING_ID_metrics] ? request.settings.metrics : ""; *at;) {
		size_t length = strcspn(at, ",");
		struct error e;

		snprintf(word, sizeof(word), "%.*s", (int)length, at);
		at += length + (at[length] == ',');
		if (!*word || strstr(word, "__") || strpbrk(word, "*?") || metric_set_named(word))
			continue;
		error_set(&e, E_USAGE, "'%s' is neither a metric nor a set of metrics", word);
		error_suggest(&e, word, metric_set_names, "; `pitot metrics` lists them");
		cli_warn(c, "--metrics: %s", e.text);
	}
}

/* Runs the command without recording it, because recording is switched off. */
static int run_alone(const struct context *c, int argc, char **argv)
{
	struct error e = { 0 };

	cli_note(c,
		 "recording is switched off (PITOT_DISABLED, GPUFL_DISABLED or the configuration "
		 "file): nothing is recorded");
	if (argc < 2)
		return EXIT_DONE;
	execvp(argv[1], argv + 1);
	error_errno(&e, errno, "cannot run '%s'", argv[1]);
	cli_fail(c, &e);
	return e.code == -ENOENT ? 127 : 126;
}

static void note_injected(void *context, pid_t pid, const struct inject_thread *thread)
{
	if (thread->python)
		cli_note(
			context,
			"process %d was not prepared: its CPython 3.%u has loaded the recorder, in "
			"thread %d '%s'",
			(int)pid, thread->python, (int)thread->tid, thread->name);
	else
		cli_note(context,
			 "process %d was not prepared: the recorder was loaded through thread %d "
			 "'%s', which slept in %s",
			 (int)pid, (int)thread->tid, thread->name, thread->call);
}

/* Chooses whether running processes record their GPU work: where they are prepared for it. */
static int choose_gpu(struct context *c)
{
	struct error e = { 0 };

	if (request.inject &&
	    inject_unprepared(request.pids, request.pid_count, note_injected, c, &e) < 0)
		return cli_fail(c, &e);
	if (!pids.count || request.cpu_only ||
	    record_can_attach(request.pids, request.pid_count, &e) == 0)
		return EXIT_DONE;
	if (request.gpu || !request.hz)
		return cli_fail(c, &e);
	request.cpu_only = true;
	if (attach_uses_cuda(request.pids[0]))
		cli_note(c, "GPU work is not recorded: %s", e.text);
	return EXIT_DONE;
}

/* Returns the status of a shell for a command that cannot be run. */
static int cannot_record(const struct context *c, const struct recording *r, const struct error *e)
{
	int status = cli_fail(c, e);

	return r->spawn.status ? r->spawn.status : status;
}

static int run_record(struct context *c, int argc, char **argv)
{
	struct record_output output = { .context = c };
	struct recording r = { .request = &request,
			       .listener = record_output_listener(&output),
			       RECORDING_INIT };
	struct error e = { 0 };
	int status, err;

	if (take_sinks(&e) < 0)
		return cli_fail(c, &e);
	status = check_options(c, argc);
	if (status != EXIT_DONE)
		return status;
	if (read_settings(&e) < 0)
		return cli_fail(c, &e);
	if (request.settings.disabled)
		return run_alone(c, argc, argv);
	choose_readings();
	status = choose_start(c);
	if (status == EXIT_DONE)
		status = check_steps(c);
	if (status != EXIT_DONE)
		return status;
	status = choose_gpu(c);
	if (status != EXIT_DONE)
		return status;
	output.cpu_only = request.cpu_only;
	if (pids.count)
		record_output_keys(&output, pids.items[0]);
	status = check_flame(c);
	if (status != EXIT_DONE)
		return status;
	output.temporary = flame.output && !request.output;
	warn_of_options_without_engine(c);
	warn_of_unknown_metrics(c);
	if (check_windows(c) != EXIT_DONE)
		return EXIT_USAGE;
	/* If stderr has no reader any more, the command continues, and its status is returned. */
	signal_to_error(SIGPIPE);
	if (windows.every_ns)
		return pids.count ? record_windows(c, &request, &windows)
				  : record_windows_of_command(c, &request, &windows, argv + 1);
	err = pids.count ? record_attach(&r, &e) : record_launch(&r, argc - 1, argv + 1, &e);
	if (err < 0) {
		status = cannot_record(c, &r, &e);
	} else {
		record_run(&r);
		record_output_clear(&output);
		record_finish(&r);
		record_output_end(&output, &r);
		status = r.spawn.status;
		if (flame.output)
			status = write_flame(c, &r, status);
	}
	recording_release(&r);
	return status;
}

static const struct command_example examples[] = {
	{ "pitot record -- python train.py", "record a training run; then see `pitot report`" },
	{ "pitot record --delay 30s --duration 10s -- ./server",
	  "record ten seconds of a long run" },
	{ "pitot record -o step.pitot --graphs launch --max-size 2G -- torchrun --nproc-per-node 2 "
	  "train.py",
	  "two processes in one recording, one record per graph launch" },
	{ "pitot record --flame train.svg -- python train.py", "only a flame graph, in one step" },
	{ "srun pitot record --start-at /1m --duration 10s -- python train.py",
	  "the same ten seconds on all hosts" },
	{ "pitot record --steps 100..110 -- torchrun --nproc-per-node 8 train.py",
	  "the same steps of all ranks" },
	{ "pitot record --pid 1234 --duration 10s", "record ten seconds of a running process" },
	{ "pitot record --every 60s --for 1s -- python train.py",
	  "a second of each minute, for days" },
	{ "pitot record --log gpufl=/var/log/gpufl -- ./server",
	  "beside the recording, logs for gpufl's agent" },
	{ NULL, NULL },
};

const struct command cmd_record = {
	.name = "record",
	.group = COMMAND_RECORD,
	.alias = "profile",
	.summary = "run a command and record what it does on the GPU",
	.usage = "[options] -- COMMAND [ARGUMENT...]",
	.description = "Runs COMMAND and records into a folder what all its processes do on the "
		       "GPU and on the CPU. COMMAND keeps its standard input, output and error, "
		       "its environment and its working directory; its exit status is returned.\n\n"
		       "The recording can be read while it grows, and after a crash. When COMMAND "
		       "ends, a summary is printed on standard error: where the recording is, what "
		       "was recorded, how busy the GPU was, what was lost and what recording cost. "
		       "With --json it is one JSON object.",
	.options = options,
	.examples = examples,
	.notes = "ENVIRONMENT\n\n"
		 "COMMAND gets PITOT_RECORDING, PITOT_LAUNCHER, PITOT_OPTIONS, with --log "
		 "PITOT_GPUFL, and the "
		 "path of libpitot.so in CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH. If "
		 "another tool has set one of the latter two, pitot record stops, unless "
		 "--force-injection is given. To sample Python from inside the process, LD_PRELOAD "
		 "names libpitot-preload.so, which removes itself from the environment before the "
		 "program starts.\n\n"
		 "A setting that is not on the command line can be given by a variable "
		 "(PITOT_GRAPHS=launch, PITOT_COUNTERS=100ms), or in the JSON file that "
		 "PITOT_CONFIG_FILE names. PITOT_DISABLED=1 runs COMMAND without recording it.\n\n"
		 "PITOT_LIBRARY names another libpitot.so, PITOT_CUPTI another libcupti. PITOT_LOG "
		 "names a file for the recorder's own messages, or stderr.\n\n"
		 "KEYS\n\n"
		 "With --pid, on a terminal: m sets a numbered mark, d dumps the last 30 s of the "
		 "process's ring (of a `pitot record --ring`), c captures the next step as `pitot "
		 "capture` does, e measures hardware counters for ten seconds, q ends the "
		 "recording and leaves the process, ? lists the keys. COMMAND owns the terminal, "
		 "so that there are none with it.\n\n"
		 "SIGNALS\n\n"
		 "Ctrl-C, Ctrl-Backslash and Ctrl-Z on the terminal reach COMMAND directly; pitot "
		 "waits until it ends and completes the recording. SIGTERM, SIGHUP, SIGINT, "
		 "SIGQUIT, SIGUSR1, SIGUSR2 and SIGALRM that are sent to pitot are passed on to "
		 "COMMAND.\n\n"
		 "EXIT STATUS\n\n"
		 "The status of COMMAND, or 128 + n if signal n killed it; 127 if COMMAND was not "
		 "found, 126 if it could not be started, 1 if recording could not begin, or if "
		 "COMMAND succeeded and the file of --flame could not be written; 2 for wrong "
		 "usage.",
	.stop_at_operand = true,
	.run = run_record,
};
