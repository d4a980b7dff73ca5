/* cmd_capture.c: `pitot capture`: a recording of a few whole steps of a running program. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "cli/ui.h"
#include "record/capture.h"
#include "record/symbolize.h"

#define POLL_NS (50 * NS_PER_MS)
#define LISTED_MAX 8u

static uint64_t steps = 1, timeout_ns = 60 * NS_PER_S;
static const char *output, *range_name;
static bool force, symbols = true;
static struct option_list rules;
static int engine = SETTING_ENGINE_TRACE;
static const char *metrics, *kernels;
static struct settings measured = SETTINGS_INIT;

static const struct option options[] = {
	OPTION(U64, "steps", 'n', steps, "N", "whole steps to capture (default 1)",
	       .positive = true, .most = STEPS_MAX),
	OPTION(STRING, "name", 0, range_name, "NAME",
	       "steps are the NVTX ranges and scopes called NAME (default: those that are named "
	       "like steps, such as step, train_step and batch)"),
	OPTION(LIST, "when", 0, rules, "RULE",
	       "wait until RULE holds, such as 'gpu-idle > 500ms', and capture the steps after "
	       "that; "
	       "`pitot rules` lists what rules can say; may be given several times"),
	OPTION(ENUM, "engine", 0, engine, "ENGINE",
	       "of a prepared process: measure the steps with an engine, pm-sampling (hardware "
	       "counters over time) or range-profiler (of each kernel, which makes it slow)",
	       .choices = setting_engine_names),
	OPTION(STRING, "metrics", 0, metrics, "METRICS",
	       "--engine: comma-separated metrics and sets of metrics (see `pitot metrics`)"),
	OPTION(STRING, "kernels", 0, kernels, "PATTERN",
	       "--engine range-profiler: measure only kernels whose mangled name matches"),
	OPTION(DURATION, "timeout", 0, timeout_ns, "TIME",
	       "wait so long for the steps (default 1m)", .positive = true),
	OPTION(STRING, "output", 'o', output, "DIR",
	       "write into DIR (default: capture-DATE-TIME.pitot)", .is_path = true),
	FLAG("force", 'f', force, "replace DIR if it is a recording"),
	FLAG("symbols", 0, symbols, "symbolize call stacks (default)", .negatable = true),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot capture --steps 3", "the next three steps of the only program that is recorded" },
	{ "pitot capture 4711 -o step.pitot", "the next step of process 4711" },
	{ "pitot capture --when 'step-time > 2x median' --timeout 1h 4711",
	  "the step after a slow one" },
	{ "pitot capture --engine pm-sampling 4711", "with hardware counters of just this step" },
	{ NULL, NULL },
};

static int read_rules(const struct context *c, struct rule_list *list)
{
	struct error e = { 0 };

	for (unsigned i = 0; i < rules.count; i++) {
		if (list->count + 1 >= RULES_MAX)
			return cli_usage(c, "--when can be given %u times", RULES_MAX - 1);
		if (rule_list_add(list, rules.items[i], &e) < 0)
			return cli_fail(c, &e);
		if (list->rules[i].deepen)
			return cli_usage(c, "rule '%s': captures measure with --engine",
					 rules.items[i]);
		if (list->rules[i].has_before || list->rules[i].has_after)
			return cli_usage(c,
					 "rule '%s': a capture has whole steps, and no times "
					 "before and after; use --steps",
					 rules.items[i]);
		if (rule_metrics[list->rules[i].metric].family == RULE_OF_OUTSIDE)
			return cli_usage(c,
					 "rule '%s' belongs to `pitot record --ring`, which "
					 "watches files and receives signals",
					 rules.items[i]);
	}
	return EXIT_DONE;
}

/* Sets how the steps are measured; *out is NULL without --engine. */
static int read_engine(const struct context *c, const struct settings **out)
{
	const char *why = setting_engine_needs_start(engine);
	struct error e = { 0 };

	*out = NULL;
	if (engine <= SETTING_ENGINE_TRACE)
		return metrics || kernels
			       ? cli_usage(c,
					   "--metrics and --kernels need --engine pm-sampling or "
					   "range-profiler")
			       : EXIT_DONE;
	if (why)
		return cli_usage(c,
				 "engine %s cannot begin in a running process: %s; pm-sampling and "
				 "range-profiler can",
				 setting_engine_names[engine], why);
	settings_put(&measured, SETTING_ID_engine, (uint64_t)engine, SETTING_BY_CODE);
	settings_put(&measured, SETTING_ID_kernel_count, 0, SETTING_BY_CODE); /* all */
	if ((metrics && settings_set(&measured, SETTING_ID_metrics, metrics, SETTING_BY_CODE,
				     "--metrics", &e) < 0) ||
	    (kernels && settings_set(&measured, SETTING_ID_kernels, kernels, SETTING_BY_CODE,
				     "--kernels", &e) < 0))
		return cli_fail(c, &e);
	*out = &measured;
	return EXIT_DONE;
}

static void list_targets(const struct capture_targets *t, struct error *e)
{
	char list[200] = "";
	size_t at = 0;

	for (size_t i = 0; i < MIN(t->pids.count, LISTED_MAX); i++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%d", i ? ", " : "",
				       (int)t->pids.data[i]);
	error_set(e, E_USAGE,
		  "there are %zu such processes: %s%s; name one of them: pitot capture %d",
		  t->pids.count, list, t->pids.count > LISTED_MAX ? ", …" : "",
		  (int)t->pids.data[0]);
}

/* Returns the process, or a negative code. */
static int choose(const char *text, struct error *e)
{
	struct capture_targets found = { 0 };
	uint64_t pid = 0;
	int rc;

	if (text && (parse_u64(text, &pid) < 0 || !pid || pid > INT_MAX))
		return error_set(e, E_USAGE, "'%s' is not the id of a process", text);
	rc = capture_find_targets((pid_t)pid, &found, e);
	if (rc == 0 && found.pids.count > 1)
		list_targets(&found, e);
	if (rc == 0)
		rc = found.pids.count == 1 ? found.pids.data[0] : e->code;
	vec_release(&found.pids);
	return rc;
}

/* Waits for the steps. Returns 1, 0 after a signal, or a negative code. */
static int await(struct capture *capture, struct error *e)
{
	uint64_t now = clock_monotonic_ns(), end_ns = now + timeout_ns;
	struct pollfd polled;
	int rc;

	while ((rc = capture_poll(capture, e)) == 0) {
		now = clock_monotonic_ns();
		if (now >= end_ns && !capture->thread) {
			_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

			human_duration(&why, timeout_ns);
			strbuf_adds(&why, " have passed");
			return capture_end(capture, strbuf_text(&why), e);
		}
		polled = (struct pollfd){ .fd = capture->attach.server.fd, .events = POLLIN };
		if (!terminal_wait(now + POLL_NS, &polled, 1))
			return 0;
	}
	return rc;
}

static void name_stacks(const struct context *c, const struct capture_result *r)
{
	const struct symbolizer_options how = { 0 };
	struct symbolize_result result;
	struct error e = { 0 };

	if (!symbols)
		return;
	if (symbolize_recording(r->path, &r->folder, &how, &result, &e) < 0)
		cli_warn(c, "call stacks have no names: %s; try: pitot symbolize %s", e.text,
			 r->path);
	else
		symbolize_release(&result);
}

static void print_text(const struct context *c, const struct capture *capture,
		       const struct capture_result *r)
{
	size_t count = capture_steps(capture);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_addf(&text, "%s: %zu %s of thread %u, ", r->path, count,
		    plural_of(count, "step", "steps"), capture->thread->thread);
	human_duration(&text, r->window.host_until_ns - r->window.from_ns);
	strbuf_adds(&text, ", ");
	cli_add_count(&text, "", r->counts.work, "piece of GPU work", "pieces of GPU work");
	if (r->counts.live) {
		strbuf_adds(&text, "; live at the begin: ");
		cli_add_count(&text, "; live at the begin: ", r->counts.live, "allocation",
			      "allocations");
		strbuf_adds(&text, " of ");
		human_bytes(&text, r->counts.live_bytes);
	}
	cli_note(c, "%s", strbuf_text(&text));
	cli_note(c, "next: pitot report %s", r->path);
}

static int print_json(const struct context *c, const struct capture *capture,
		      const struct capture_result *r)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct json j = JSON_INIT(&text);

	json_object(&j);
	json_key_string(&j, "recording", r->path);
	json_key_u64(&j, "process", (uint64_t)capture->pid);
	json_key_u64(&j, "thread", capture->thread->thread);
	json_key_u64(&j, "start_monotonic_ns", r->window.from_ns);
	json_key_u64(&j, "end_monotonic_ns", r->window.until_ns);
	json_key_array(&j, "steps");
	for (size_t i = 0; i < capture_steps(capture); i++) {
		const struct whole_step *step = &capture->thread->steps.data[i];

		json_object(&j);
		json_key_u64(&j, "start_ns", step->start_ns - r->window.from_ns);
		json_key_u64(&j, "duration_ns", step->end_ns - step->start_ns);
		json_end(&j);
	}
	json_end(&j);
	json_key_u64(&j, "gpu_work", r->counts.work);
	json_key_u64(&j, "running_at_begin", r->counts.running);
	json_key_u64(&j, "live_at_begin", r->counts.live);
	json_key_u64(&j, "live_bytes_at_begin", r->counts.live_bytes);
	json_key_bool(&j, "begin_is_known", r->knows_begin);
	json_key_u64(&j, "launches_without_end", r->without_end);
	json_key_u64(&j, "missing_segments", r->missing);
	json_end(&j);
	json_finish(&j);
	return cli_print(c, &text);
}

/* What the recording lacks. Returns whether it has all steps. */
static bool warn(const struct context *c, const struct capture *capture,
		 const struct capture_result *r)
{
	size_t count = capture_steps(capture);

	if (r->missing)
		cli_warn(c,
			 "the ring dropped %u %s of the window before %s read: what %s had is "
			 "missing; a larger ring keeps it: pitot record --ring 256M",
			 r->missing, plural_of(r->missing, "segment", "segments"),
			 plural_of(r->missing, "it was", "they were"),
			 plural_of(r->missing, "it", "they"));
	if (r->counts.damaged)
		cli_warn(c, "%llu damaged %s left out", (unsigned long long)r->counts.damaged,
			 plural_of(r->counts.damaged, "block was", "blocks were"));
	if (r->without_end)
		cli_warn(c, "%llu %s until the last step's end %s no GPU work with an end",
			 (unsigned long long)r->without_end,
			 plural_of(r->without_end, "launch", "launches"),
			 plural_of(r->without_end, "has", "have"));
	if (count < steps)
		cli_warn(c, "%s: %zu of %llu step%s", capture->over, count,
			 (unsigned long long)steps, plural(steps));
	return count >= steps;
}

static int write_capture(const struct context *c, struct capture *capture)
{
	struct capture_result result;
	struct error e = { 0 };
	int status = EXIT_DONE;

	if (capture_write(capture, output, force, &result, &e) < 0)
		return cli_fail(c, &e);
	name_stacks(c, &result);
	if (c->json)
		status = print_json(c, capture, &result);
	else
		print_text(c, capture, &result);
	if (!warn(c, capture, &result))
		status = EXIT_FAILED;
	free(result.path);
	return status;
}

static int run_capture(struct context *c, int argc, char **argv)
{
	struct capture_request request = { .steps = (size_t)steps, .name = range_name };
	struct capture capture;
	struct error e = { 0 };
	int pid, rc, status = read_rules(c, &request.when);

	if (status == EXIT_DONE)
		status = read_engine(c, &request.engine);
	if (status != EXIT_DONE)
		return status;
	if (output && !force && access(output, F_OK) == 0)
		return cli_failf(c,
				 "'%s' exists: choose another folder with -o, or replace it with "
				 "--force",
				 output);
	pid = choose(argc > 1 ? argv[1] : NULL, &e);
	if (pid < 0)
		return cli_fail(c, &e);
	terminal_catch_signals();
	signal_to_error(
		SIGPIPE); /* if nobody reads what it says, the recording is made all the same */
	rc = capture_open(&capture, (pid_t)pid, &request, &e);
	if (rc >= 0) {
		cli_note(c, "waiting for %llu %s of process %d", (unsigned long long)steps,
			 plural_of(steps, "step", "steps"), pid);
		rc = await(&capture, &e);
	}
	if (rc > 0)
		status = write_capture(c, &capture);
	capture_close(&capture);
	if (rc == 0)
		return 128 + terminal_stop_signal;
	return rc < 0 ? cli_fail(c, &e) : status;
}

const struct command cmd_capture = {
	.name = "capture",
	.group = COMMAND_RECORD,
	.summary = "record a few whole steps of a running program",
	.usage = "[options] [PID]",
	.description =
		"Waits for the next steps of a program, and writes a recording of exactly these: "
		"what it did from the begin of the first one to the end of the last one, all GPU "
		"work up to the end of theirs, and what was alive at the begin: contexts, streams "
		"and what still ran on them, modules, graphs and, with `pitot record --memory`, "
		"allocations.\n\n"
		"PID is a process that is being recorded, on the disk or with --ring, or one that "
		"was started with PITOT_IDLE=1, which then records itself meanwhile; or the "
		"`pitot record` or another process above it. It can be left out if there is only "
		"one. Steps are "
		"the outermost NVTX ranges or scopes of a thread that are named like steps, as "
		"pitot.steps() makes them.",
	.options = options,
	.operands_max = 1,
	.examples = examples,
	.notes = "EXIT STATUS\n\n0: the recording has all steps. 1: there is no recording, or, if "
		 "the program ended before, one with fewer steps.",
	.run = run_capture,
};
