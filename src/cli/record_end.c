/* record_end.c: the last lines of `pitot record`. */
#include "cli/record_end.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/busy.h"
#include "analysis/calls.h"
#include "analysis/capabilities.h"
#include "analysis/cost.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "cli/ui.h"
#include "sampler/cpu_sampler.h"

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
		if (lost <= most)
			continue;
		most = lost;
		end->lost_most = cost.losses[i].count;
		end->lost_text = loss_reason_text(cost.losses[i].reason, cost.losses[i].count);
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

static int read_no_gpu(struct trace *t, struct record_end *end, struct error *e)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	int r = capability_no_gpu(t, &why, e);

	snprintf(end->no_gpu, sizeof(end->no_gpu), "%s", strbuf_text(&why));
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

/* Time off the CPU, if it was asked for and the way of sampling has none. */
static int check_off_cpu(struct trace *t, struct record_end *end, struct error *e)
{
	struct capability_note cpu;
	int r = capability_find(t, "cpu", &cpu, e);
	const char *way = cpu_way_name(CPU_WAY_EBPF);

	if (r >= 0 && strstr(cpu.asked, "off-CPU") && strncmp(cpu.got, way, strlen(way)) != 0)
		end->no_off_cpu = "it needs eBPF (see `pitot doctor`)";
	return r;
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
		r = check_off_cpu(t, end, e);
	if (r >= 0)
		r = calls_count_launches(t, &end->launches, e);
	if (r >= 0)
		r = add_busy(t, end, e);
	if (r >= 0)
		r = read_no_gpu(t, end, e);
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

static void add_gpu_counts(const struct record_end *end, struct strbuf *out)
{
	uint64_t all = end->kernels + end->graph_launches + end->copies + end->sets + end->launches;

	/* the next line says that there are none, and why */
	if (!all && end->cpu_samples)
		return;
	add_count(out, end->kernels, "kernel, ", "kernels, ");
	if (end->graph_launches)
		add_count(out, end->graph_launches, "graph, ", "graphs, ");
	add_count(out, end->copies + end->sets, "copy or memory set, ", "copies and memory sets, ");
	add_count(out, end->launches, "launch, ", "launches, ");
}

static void seen_line(const struct record_end *end, struct strbuf *out)
{
	add_gpu_counts(end, out);
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
		strbuf_adds(out,
			    end->inside ? "not known inside the command: the rows about it are lost"
					: "nothing inside the command");
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

/* "53 records dropped by CUPTI (99 losses in all: see `pitot report`)" */
static void add_loss(struct strbuf *out, const struct record_end *end)
{
	if (end->lost_most)
		human_count(out, end->lost_most);
	else
		strbuf_adds(out, "some");
	strbuf_addf(out, " %s (", end->lost_text);
	if (end->lost > MAX(end->lost_most, 1)) {
		human_count(out, end->lost);
		strbuf_adds(out, " losses in all: ");
	}
	strbuf_adds(out, "see `pitot report`)");
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
	if (end->no_off_cpu) {
		label(out, color, "off-CPU");
		strbuf_addf(out, "not recorded: %s\n", end->no_off_cpu);
	}
	label(out, color, "loss");
	if (end->lost) {
		strbuf_adds(out, style_begin(color, STYLE_YELLOW));
		add_loss(out, end);
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
	json_key_string(&json, "no_off_cpu", end->no_off_cpu);
	json_end(&json);
	strbuf_addc(out, '\n');
}
