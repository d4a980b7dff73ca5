/* record_end.c: the last lines of `pitot record`. */
#include "cli/record_end.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/busy.h"
#include "analysis/cost.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "cli/ui.h"

static int count_launches(struct trace *t, struct record_end *end, struct error *e)
{
	const uint32_t *functions;
	const uint8_t *kinds;
	uint64_t rows = trace_rows(t, TABLE_api_call);
	int r = trace_load(t, TABLE_api_function, COLUMN_BIT(api_function, kind), e);

	if (r >= 0)
		r = trace_load(t, TABLE_api_call, COLUMN_BIT(api_call, function), e);
	if (r < 0)
		return r;
	functions = trace_u32(t, TABLE_api_call, COLUMN_api_call_function);
	kinds = trace_u8(t, TABLE_api_function, COLUMN_api_function_kind);
	for (uint64_t i = 0; functions && kinds && i < rows; i++) {
		if (functions[i] != TRACE_NO_ROW)
			end->launches += kinds[functions[i]] == api_kind_launch ||
					 kinds[functions[i]] == api_kind_graph_launch;
	}
	return 0;
}

static int add_busy(struct trace *t, struct record_end *end, struct error *e)
{
	struct filter filter = FILTER_ALL;
	struct selection selection = { 0 };
	struct gpus gpus = { 0 };
	struct busy busy = { 0 };
	int r = gpus_init(&gpus, t, e);

	if (r >= 0)
		r = gpu_walk_load(t, e);
	if (r >= 0)
		r = selection_init(&selection, t, &filter, NULL, e);
	if (r >= 0 && busy_analyze(&gpus, &selection, &busy) < 0)
		r = error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < busy.count; i++) {
		end->gpus += busy.gpus[i].last_ns != 0;
		end->busy_ns += busy.gpus[i].union_ns;
		end->gpu_span_ns += busy.gpus[i].last_ns - busy.gpus[i].first_ns;
	}
	busy_release(&busy);
	selection_release(&selection);
	gpus_release(&gpus);
	return r;
}

static int add_costs(struct trace *t, struct record_end *end, struct error *e)
{
	struct cost cost;
	uint64_t most = 0;
	int r = cost_analyze(t, &cost, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < cost.loss_count; i++) {
		uint64_t lost = MAX(cost.losses[i].count, cost.losses[i].rows);

		end->lost += lost;
		if (lost > most)
			snprintf(end->lost_most, sizeof(end->lost_most), "%s",
				 loss_reason_name(cost.losses[i].reason));
		most = MAX(most, lost);
	}
	end->callbacks = cost.kinds[cost_kind_callback].count;
	end->callback_ns = cost.kinds[cost_kind_callback].total_ns;
	end->collector_ns = cost.kinds[cost_kind_collector].total_ns;
	end->setup_ns = cost.kinds[cost_kind_setup].total_ns;
	end->exit_ns = cost.kinds[cost_kind_exit].total_ns;
	end->sampler_ns = cost.kinds[cost_kind_sampler].total_ns;
	cost_release(&cost);
	return 0;
}

/* What the recorder in the command said about CUPTI. */
static int read_cupti(struct trace *t, struct record_end *end, struct error *e)
{
	uint64_t rows = trace_rows(t, TABLE_capability);
	int r = trace_load(t, TABLE_capability, 0, e);
	const uint32_t *names = trace_u32(t, TABLE_capability, COLUMN_capability_name);
	const uint8_t *states = trace_u8(t, TABLE_capability, COLUMN_capability_state);
	const uint32_t *reasons = trace_u32(t, TABLE_capability, COLUMN_capability_reason);

	for (uint64_t i = 0; r >= 0 && names && states && reasons && i < rows; i++) {
		if (strcmp(trace_string(t, names[i]), "cupti") != 0)
			continue;
		if (states[i] == capability_state_on)
			end->cupti_on = true;
		else
			snprintf(end->cupti_reason, sizeof(end->cupti_reason), "%s",
				 trace_string(t, reasons[i]));
	}
	return r;
}

static int add_samples(struct trace *t, struct record_end *end, struct error *e)
{
	int r = trace_load(t, TABLE_cpu_sample, COLUMN_BIT(cpu_sample, weight_ns), e);
	const uint64_t *weights;

	if (r < 0)
		return r;
	end->cpu_samples = trace_rows(t, TABLE_cpu_sample);
	weights = trace_u64(t, TABLE_cpu_sample, COLUMN_cpu_sample_weight_ns);
	for (uint64_t i = 0; weights && i < end->cpu_samples; i++)
		end->cpu_ns += weights[i];
	return 0;
}

/* Processes, without counting those twice that were sampled from outside. */
static void count_processes(const struct trace *t, struct record_end *end)
{
	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->of != i)
			continue;
		end->processes++;
		end->inside += p->inside && !p->sampler;
	}
}

int record_end_read(const char *directory, struct record_end *end, struct error *e)
{
	struct trace_options options = { 0 };
	struct trace *t;
	int r = trace_open(directory, &options, &t, e);

	if (r < 0)
		return r;
	end->bytes = trace_file_bytes(t);
	end->kernels = trace_rows(t, TABLE_kernel);
	end->copies = trace_rows(t, TABLE_memcpy);
	end->sets = trace_rows(t, TABLE_memset);
	end->graph_launches = trace_rows(t, TABLE_graph_launch);
	count_processes(t, end);
	r = add_costs(t, end, e);
	if (r >= 0)
		r = add_samples(t, end, e);
	if (r >= 0)
		r = count_launches(t, end, e);
	if (r >= 0)
		r = add_busy(t, end, e);
	if (r >= 0)
		r = read_cupti(t, end, e);
	trace_free(t);
	return r;
}

static void label(struct strbuf *out, bool color, const char *text)
{
	strbuf_adds(out, "  ");
	strbuf_adds(out, style_begin(color, STYLE_BOLD));
	strbuf_addf(out, "%-10s", text);
	strbuf_adds(out, style_begin(color, STYLE_NONE));
}

static void add_count(struct strbuf *out, uint64_t n, const char *one, const char *many)
{
	human_count(out, n);
	strbuf_addf(out, " %s", n == 1 ? one : many);
}

static void seen_line(const struct record_end *end, struct strbuf *out)
{
	add_count(out, end->kernels, "kernel, ", "kernels, ");
	if (end->graph_launches)
		add_count(out, end->graph_launches, "graph, ", "graphs, ");
	add_count(out, end->copies + end->sets, "copy or memory set, ", "copies and memory sets, ");
	add_count(out, end->launches, "launch, ", "launches, ");
	if (end->cpu_samples) {
		add_count(out, end->cpu_samples, "CPU sample of ", "CPU samples of ");
		human_duration(out, end->cpu_ns);
		strbuf_adds(out, ", ");
	}
	add_count(out, end->processes, "process", "processes");
	if (end->inside && end->inside != end->processes)
		strbuf_addf(out, " (%zu with Pitot inside)", end->inside);
}

static void add_sampler(struct strbuf *out, const struct record_end *end)
{
	if (!end->sampler_ns)
		return;
	strbuf_adds(out, ", ");
	human_duration(out, end->sampler_ns);
	strbuf_adds(out, " CPU sampling");
}

static void cost_line(const struct record_end *end, struct strbuf *out)
{
	if (!end->callbacks && !end->collector_ns && !end->setup_ns) {
		strbuf_adds(out, "nothing inside the command");
		add_sampler(out, end);
		return;
	}
	if (end->callbacks) {
		human_duration(out, end->callback_ns / end->callbacks);
		strbuf_adds(out, " a call, ");
	}
	human_duration(out, end->callback_ns);
	strbuf_adds(out, " on its threads, ");
	human_duration(out, end->collector_ns);
	strbuf_adds(out, " CPU beside, ");
	human_duration(out, end->setup_ns);
	strbuf_adds(out, " at start, ");
	human_duration(out, end->exit_ns);
	strbuf_adds(out, " at exit");
	add_sampler(out, end);
	if (end->kernels) {
		strbuf_addf(out, ", %" PRIu64 ".%" PRIu64 " bytes a kernel",
			    end->bytes / end->kernels, end->bytes * 10 / end->kernels % 10);
	}
}

/* A name as one word for a shell. */
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

void record_end_text(const struct record_end *end, const char *directory, const char *why,
		     bool color, struct strbuf *out)
{
	label(out, color, "recording");
	shell_word(out, directory);
	strbuf_adds(out, ", ");
	human_bytes(out, end->bytes);
	strbuf_adds(out, ", ");
	human_duration(out, end->elapsed_ns);
	strbuf_addc(out, '\n');
	label(out, color, "seen");
	seen_line(end, out);
	strbuf_addc(out, '\n');
	label(out, color, "GPU busy");
	if (why) {
		strbuf_addf(out, "no GPU data: %s", why);
	} else {
		human_percent(out, end->busy_ns, end->gpu_span_ns);
		strbuf_adds(out, ": ");
		human_duration(out, end->busy_ns);
		strbuf_adds(out, " of the ");
		human_duration(out, end->gpu_span_ns);
		strbuf_adds(out, " from the first to the last GPU work");
		if (end->gpus > 1)
			strbuf_addf(out, ", %zu GPUs added", end->gpus);
	}
	strbuf_addc(out, '\n');
	label(out, color, "loss");
	if (end->lost) {
		strbuf_adds(out, style_begin(color, STYLE_YELLOW));
		human_count(out, end->lost);
		strbuf_addf(out, " events, most of them: %s (see `pitot info`)", end->lost_most);
		strbuf_adds(out, style_begin(color, STYLE_NONE));
	} else {
		strbuf_adds(out, "none");
	}
	strbuf_addc(out, '\n');
	label(out, color, "cost");
	cost_line(end, out);
	strbuf_addc(out, '\n');
	label(out, color, "next");
	strbuf_adds(out, "pitot report ");
	shell_word(out, directory);
	strbuf_addc(out, '\n');
}

void record_end_json(const struct record_end *end, const char *directory, const char *why,
		     int status, struct strbuf *out)
{
	struct json json = JSON_INIT(out);

	json_object(&json);
	json_key_string(&json, "recording", directory);
	json_key_i64(&json, "exit_status", status);
	json_key_u64(&json, "elapsed_ns", end->elapsed_ns);
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
	json_key_u64(&json, "gpu_busy_ns", end->busy_ns);
	json_key_u64(&json, "lost", end->lost);
	json_key(&json, "cost");
	json_object(&json);
	json_key_u64(&json, "callbacks", end->callbacks);
	json_key_u64(&json, "callback_ns", end->callback_ns);
	json_key_u64(&json, "collector_ns", end->collector_ns);
	json_key_u64(&json, "setup_ns", end->setup_ns);
	json_key_u64(&json, "exit_ns", end->exit_ns);
	json_end(&json);
	json_key_string(&json, "no_gpu_data", why);
	json_end(&json);
	strbuf_addc(out, '\n');
}
