/* record_output.c: what `pitot record` prints on standard error. */
#include "cli/record_output.h"

#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/io.h"
#include "base/json.h"
#include "cli/ui.h"
#include "record/summary.h"

#define KEYS_HINT "  ? for keys"

static void print_message(void *user, enum record_message kind, const char *text)
{
	const struct record_output *out = user;

	if (kind == RECORD_WARNING)
		cli_warn(out->context, "%s", text);
	else if (kind == RECORD_NOTE || out->context->verbose)
		cli_note(out->context, "%s", text);
}

/* Writing would stop a background job, or overwrite the output of another program. */
static bool may_show_live_line(const struct context *c)
{
	return !c->quiet && !c->json && isatty(STDERR_FILENO) &&
	       tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void show_live_line(void *user, const char *directory, uint64_t elapsed_ns)
{
	struct record_output *out = user;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	unsigned width = terminal_width(STDERR_FILENO);
	struct follow_state state;

	if (!may_show_live_line(out->context))
		return;
	if (!out->follow)
		out->follow = follow_new(directory);
	if (!out->follow)
		return;
	follow_step(out->follow, &state);
	strbuf_adds(&line, "\r");
	strbuf_adds(&line, style_begin(out->context->color_errors, STYLE_DIM));
	follow_line(&state, out->cpu_only, elapsed_ns, width > 1 ? width - 1 : 1, &line);
	if (out->keys.is_open && width > line.length + strlen(KEYS_HINT))
		strbuf_adds(&line, KEYS_HINT);
	strbuf_adds(&line, style_begin(out->context->color_errors, STYLE_NONE));
	/* The cursor returns to the start, so that output of the command overwrites the line. */
	strbuf_adds(&line, "\033[K\r");
	if (!line.failed)
		io_write_all(STDERR_FILENO, line.data, line.length);
	out->shown = true;
}

static void clear_line(void *user)
{
	struct record_output *out = user;

	if (out->shown)
		io_write_all(STDERR_FILENO, "\r\033[K", strlen("\r\033[K"));
	out->shown = false;
}

static const struct live_key keys[] = {
	{ 'm', LIVE_MARK, "mark" },
	{ 'd', LIVE_DUMP, "dump the last 30 s of its ring" },
	{ 'c', LIVE_CAPTURE, "capture a step" },
	{ 'e', LIVE_DEEPEN, "measure hardware counters for 10 s" },
	{ 'q', LIVE_LEAVE, "leave the process" },
	{ 0 },
};

static enum record_wish poll_keys(void *user, struct writer *w)
{
	struct record_output *out = user;

	if (!out->keys.keys || !may_show_live_line(out->context))
		return RECORD_GO_ON;
	if (!live_keys_poll(&out->keys, clock_monotonic_ns(), w))
		return RECORD_LEAVE;
	if (!out->keys.deepens)
		return RECORD_GO_ON;
	out->keys.deepens = false;
	return RECORD_DEEPEN;
}

void record_output_keys(struct record_output *out, const char *pid)
{
	out->keys = (struct live_keys){ .context = out->context,
					.keys = keys,
					.target = pid,
					.clear = clear_line,
					.user = out };
	sigprocmask(SIG_SETMASK, NULL, &out->keys.signals);
}

struct record_listener record_output_listener(struct record_output *out)
{
	return (struct record_listener){ out, print_message, show_live_line, poll_keys };
}

void record_output_clear(struct record_output *out)
{
	live_keys_close(&out->keys);
	clear_line(out);
	follow_free(out->follow);
	out->follow = NULL;
}

static void label(struct strbuf *out, bool color, const char *text)
{
	strbuf_adds(out, "  ");
	strbuf_adds(out, style_begin(color, STYLE_BOLD));
	strbuf_addf(out, "%-10s", text);
	strbuf_adds(out, style_begin(color, STYLE_NONE));
}

static void seen_line(const struct record_summary *end, struct strbuf *out)
{
	uint64_t all = end->kernels + end->graph_launches + end->copies + end->sets + end->launches;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (all) { /* otherwise the line about the GPU has the reason */
		cli_add_count(&line, ", ", end->kernels, "kernel", "kernels");
		if (end->graph_launches)
			cli_add_count(&line, ", ", end->graph_launches, "graph", "graphs");
		cli_add_count(&line, ", ", end->copies + end->sets, "copy or memory set",
			      "copies and memory sets");
		cli_add_count(&line, ", ", end->launches, "launch", "launches");
	}
	if (end->cpu_samples) {
		cli_add_count(&line, ", ", end->cpu_samples, "CPU sample of ", "CPU samples of ");
		human_duration(&line, end->cpu_ns);
	}
	cli_add_count(&line, ", ", end->processes, "process", "processes");
	if (end->inside && end->inside != end->processes)
		strbuf_addf(&line, " (%zu with Pitot inside)", end->inside);
	strbuf_adds(out, strbuf_text(&line));
}

/* Appends a part of the line, such as "12.3 ms at start", if that cost is known. */
static void add_cost(struct strbuf *line, const struct cost_sum *cost, const char *what)
{
	if (!cost->any)
		return;
	strbuf_adds(line, line->length ? ", " : "");
	human_duration(line, cost->total_ns);
	strbuf_addf(line, " %s", what);
}

static void cost_line(const struct record_summary *end, struct strbuf *out)
{
	const struct cost_sum *costs = end->costs, *callback = &costs[cost_kind_callback];
	bool known = callback->any || costs[cost_kind_collector].any || costs[cost_kind_setup].any;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (callback->count) {
		human_duration(&line, callback->total_ns / callback->count);
		strbuf_adds(&line, " per call");
		add_cost(&line, callback, "on its threads");
	}
	add_cost(&line, &costs[cost_kind_collector], "CPU time of the recorder's own threads");
	add_cost(&line, &costs[cost_kind_setup], "at start");
	add_cost(&line, &costs[cost_kind_exit], "at exit");
	if (!known)
		strbuf_adds(&line, end->of_steps ? "unknown: processes say it when they end"
				   : end->inside
					   ? "unknown inside the command: its cost rows are lost"
					   : "nothing inside the command");
	add_cost(&line, &costs[cost_kind_sampler], "CPU sampling");
	add_cost(&line, &costs[cost_kind_timer_sample], "CPU sampling inside");
	if (known && end->kernels)
		strbuf_addf(&line, ", %" PRIu64 ".%" PRIu64 " bytes per kernel",
			    end->bytes / end->kernels, end->bytes * 10 / end->kernels % 10);
	strbuf_adds(out, strbuf_text(&line));
}

/* Appends "53 records dropped by CUPTI, 99 losses in all (see `pitot report`)". */
static void add_loss(struct strbuf *out, const struct record_summary *end)
{
	strbuf_adds(out, end->lost_text);
	if (end->lost > end->lost_most) {
		strbuf_adds(out, ", ");
		human_count(out, end->lost);
		strbuf_adds(out, " losses in all");
	}
	strbuf_addf(out, "%s (see `pitot report`)",
		    end->loss_effect == LOSS_CHANGES_NOTHING ? "; no figure changes"
		    : end->loss_effect == LOSS_UNSAFE        ? "; the figures are not safe"
							     : "");
}

/* Quotes a name as one word for a shell. */
static void shell_word(struct strbuf *out, const char *word)
{
	if (word[0] &&
	    !word[strspn(
		    word,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+,:@%")]) {
		strbuf_adds(out, word);
		return;
	}
	strbuf_addc(out, '\'');
	for (; *word; word++)
		*word == '\'' ? strbuf_adds(out, "'\\''") : strbuf_addc(out, *word);
	strbuf_addc(out, '\'');
}

static void gpu_line(const struct record_summary *end, const char *why, struct strbuf *out)
{
	if (why) {
		strbuf_adds(out, "no GPU data: ");
		text_safe(out, why, strlen(why));
		strbuf_addc(out, '\n');
		return;
	}
	strbuf_adds(out, "utilization ");
	human_percent(out, end->busy_ns, end->gpu_span_ns);
	strbuf_adds(out, " over ");
	human_duration(out, end->gpu_span_ns);
	strbuf_adds(out, " (first to last GPU work");
	if (end->gpus > 1)
		strbuf_addf(out, ", sum of %zu GPUs", end->gpus);
	strbuf_addc(out, ')');
	if (end->refused) {
		strbuf_adds(out, "; no data of ");
		cli_add_count(out, "", end->refused, "process", "processes");
		strbuf_addf(out, ": %s", end->refused_why);
	}
	strbuf_addc(out, '\n');
}

/* directory: NULL: it will be gone */
static void summary_text(const struct record_summary *end, const char *directory, const char *why,
			 bool color, struct strbuf *out)
{
	if (directory) {
		label(out, color, "recording");
		shell_word(out, directory);
		strbuf_adds(out, ", ");
		human_bytes(out, end->bytes);
		strbuf_adds(out, ", ");
		human_duration(out, end->duration_ns);
		strbuf_addc(out, '\n');
	}
	label(out, color, "seen");
	seen_line(end, out);
	strbuf_addc(out, '\n');
	if (!end->cpu_only) {
		label(out, color, "GPU");
		gpu_line(end, why, out);
	}
	if (end->no_samples[0]) {
		label(out, color, "CPU");
		strbuf_addf(out, "no samples: %s\n", end->no_samples);
	}
	if (end->no_off_cpu[0]) {
		label(out, color, "off-CPU");
		strbuf_addf(out, "not recorded: %s\n", end->no_off_cpu);
	}
	if (end->own_profiler[0]) {
		label(out, color, "profiler");
		strbuf_addf(out, "%s\n", end->own_profiler);
	}
	for (size_t i = 0; i < ENGINE_LIMITS && end->engine[i][0]; i++) {
		label(out, color, i ? "" : "engine");
		strbuf_addf(out, "%s\n", end->engine[i]);
	}
	if (end->sink[0]) {
		label(out, color, "sinks");
		text_safe(out, end->sink, strlen(end->sink));
		strbuf_addc(out, '\n');
	}
	label(out, color, "loss");
	if (end->lost) {
		strbuf_adds(out, style_begin(color, end->loss_effect == LOSS_UNSAFE ? STYLE_RED
						    : end->loss_effect              ? STYLE_YELLOW
										    : STYLE_NONE));
		add_loss(out, end);
		strbuf_adds(out, style_begin(color, STYLE_NONE));
	} else {
		strbuf_adds(out, "none");
	}
	strbuf_addc(out, '\n');
	label(out, color, "cost");
	cost_line(end, out);
	strbuf_addc(out, '\n');
	if (end->node_cost_ns) {
		label(out, color, "graphs");
		strbuf_adds(out, "recording every node took up to ");
		human_percent(out, end->node_cost_ns, end->node_span_ns);
		strbuf_adds(out,
			    " of the time with graphs; cheaper: pitot record --graphs launch\n");
	}
	if (!directory)
		return;
	label(out, color, "next");
	strbuf_adds(out, "pitot report ");
	shell_word(out, directory);
	strbuf_addc(out, '\n');
}

static void costs_json(struct json *json, const struct cost_sum *costs)
{
	static const struct {
		const char *key;
		enum cost_kind kind;
	} times[] = {
		{ "callback_ns", cost_kind_callback },
		{ "collector_ns", cost_kind_collector },
		{ "setup_ns", cost_kind_setup },
		{ "exit_ns", cost_kind_exit },
		{ "sampler_ns", cost_kind_sampler },
		{ "timer_sample_ns", cost_kind_timer_sample },
	};

	json_key_object(json, "cost");
	json_key_known(json, "callbacks", costs[cost_kind_callback].any,
		       costs[cost_kind_callback].count);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		json_key_known(json, times[i].key, costs[times[i].kind].any,
			       costs[times[i].kind].total_ns);
	json_end(json);
}

static void summary_json(const struct record_summary *end, const struct recording *r,
			 const char *why, struct strbuf *out)
{
	struct json json = JSON_INIT(out);

	json_object(&json);
	json_key_string(&json, "recording", r->shown);
	json_key_known(&json, "exit_status", !r->request->pid_count, (uint64_t)r->spawn.status);
	json_key_u64(&json, "elapsed_ns", end->elapsed_ns);
	json_key_u64(&json, "duration_ns", end->duration_ns);
	json_key_u64(&json, "bytes", end->bytes);
	json_key_u64(&json, "kernels", end->kernels);
	json_key_u64(&json, "copies", end->copies);
	json_key_u64(&json, "memory_sets", end->sets);
	json_key_u64(&json, "cpu_samples", end->cpu_samples);
	json_key_u64(&json, "cpu_ns", end->cpu_ns);
	json_key_u64(&json, "graph_launches", end->graph_launches);
	json_key_u64(&json, "launches", end->launches);
	json_key_u64(&json, "processes", end->processes);
	json_key_u64(&json, "processes_inside", end->inside);
	json_key_u64(&json, "gpus", end->gpus);
	json_key_known(&json, "gpu_busy_ns", !why && !end->cpu_only, end->busy_ns);
	json_key_u64(&json, "lost", end->lost);
	json_key_string(&json, "loss_effect", loss_effect_name(end->loss_effect));
	costs_json(&json, end->costs);
	json_key(&json, "graph_nodes");
	if (end->node_cost_ns) {
		json_object(&json);
		json_key_u64(&json, "cost_ns", end->node_cost_ns);
		json_key_u64(&json, "span_ns", end->node_span_ns);
		json_end(&json);
	} else {
		json_null(&json);
	}
	json_key_string(&json, "no_gpu_data", why);
	json_key_u64(&json, "processes_without_gpu_data", end->refused);
	json_key_string(&json, "no_samples", end->no_samples[0] ? end->no_samples : NULL);
	json_key_string(&json, "no_off_cpu", end->no_off_cpu[0] ? end->no_off_cpu : NULL);
	json_key_string(&json, "own_profiler", end->own_profiler[0] ? end->own_profiler : NULL);
	json_key_string(&json, "sink_not_opened", end->sink[0] ? end->sink : NULL);
	json_key_array(&json, "engine");
	for (size_t i = 0; i < ENGINE_LIMITS && end->engine[i][0]; i++)
		json_string(&json, end->engine[i]);
	json_end(&json);
	json_finish(&json);
}

/* Appends how the command ended. */
static void headline(const struct recording *r, struct strbuf *out)
{
	const char *signal = sigabbrev_np(r->spawn.killed_by);
	const char *done = r->request->cpu_only ? "sampled" : "recorded";

	strbuf_adds(out, "pitot record: ");
	if (r->request->pid_count > 1)
		strbuf_addf(out, "%zu processes were %s\n", r->request->pid_count, done);
	else if (r->request->pid_count)
		strbuf_addf(out, "process %d was %s\n", (int)r->request->pids[0], done);
	else if (signal)
		strbuf_addf(out, "the command was killed by SIG%s\n", signal);
	else if (r->spawn.killed_by)
		strbuf_addf(out, "the command was killed by signal %d\n", r->spawn.killed_by);
	else
		strbuf_addf(out, "the command ended with status %d\n", r->spawn.status);
}

void record_output_end(const struct record_output *out, const struct recording *r)
{
	const struct context *c = out->context;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct record_summary end = { .elapsed_ns = r->spawn.end_ns - r->spawn.start_ns };
	struct error e = { 0 };
	const char *why;

	if (c->quiet && !c->json)
		return;
	if (!r->directory) {
		cli_note(c, "no recording was made%s%s",
			 r->log_path ? "; gpufl's logs are in " : "",
			 r->log_path ? r->log_path : "");
		return;
	}
	if (record_summary_read(r->directory, &end, &e) < 0) {
		cli_warn(c, "%s", e.text);
		return;
	}
	end.of_steps = r->request->steps.count > 0;
	why = end.no_gpu[0] ? end.no_gpu : NULL;
	if (c->json) {
		summary_json(&end, r, why, &text);
	} else {
		headline(r, &text);
		summary_text(&end, out->temporary ? NULL : r->shown, why, c->color_errors, &text);
	}
	if (!text.failed)
		io_write_all(STDERR_FILENO, text.data, text.length);
}
