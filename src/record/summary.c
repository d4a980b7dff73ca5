/* summary.c: reads the figures at the end of `pitot record`. */
#include "record/summary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/busy.h"
#include "analysis/calls.h"
#include "analysis/capabilities.h"
#include "analysis/cost.h"
#include "analysis/graphs.h"
#include "schema/event_words.h"

static int add_graphs(struct trace *t, const struct selection *s, struct record_summary *end,
		      struct error *e)
{
	_cleanup_(graphs_release) struct graphs graphs = { 0 };
	int r = graphs_load(t, e);

	if (r >= 0 && graphs_analyze(s, &graphs) < 0)
		r = error_set(e, -ENOMEM, "out of memory");
	if (r >= 0 && graphs_nodes_are_expensive(&graphs)) {
		end->node_cost_ns = graphs.node_cost_ns;
		end->node_span_ns = graphs.node_span_ns;
	}
	return r;
}

/* Adds how busy the GPUs were, and the recording's length: the last work may end after all else. */
static int add_busy(struct trace *t, struct record_summary *end, struct error *e)
{
	uint64_t start_ns, end_ns;
	struct filter filter = FILTER_ALL;
	_cleanup_(selection_release) struct selection selection = { 0 };
	_cleanup_(gpus_release) struct gpus gpus = { 0 };
	_cleanup_(busy_release) struct busy busy = { 0 };
	int r = gpus_init(&gpus, t, e);

	if (r >= 0)
		r = gpu_walk_load(t, e);
	if (r >= 0)
		r = selection_init(&selection, t, &filter, NULL, e);
	if (r >= 0)
		r = add_graphs(t, &selection, end, e);
	if (r >= 0 && busy_analyze(&gpus, &selection, &busy) < 0)
		r = error_set(e, -ENOMEM, "out of memory");
	trace_span(t, &start_ns, &end_ns);
	for (size_t i = 0; r >= 0 && i < busy.count; i++) {
		end_ns = MAX(end_ns, busy.gpus[i].last_ns);
		end->gpus += busy.gpus[i].last_ns != 0;
		end->busy_ns += busy.gpus[i].union_ns;
		end->gpu_span_ns += busy.gpus[i].last_ns - busy.gpus[i].first_ns;
	}
	end->duration_ns = end_ns - start_ns;
	return r;
}

/* Describes what the command's own profiler got, if it has one; windows of all processes count. */
static void add_own_profiler(const struct cost *c, struct record_summary *end)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct capability_note *own = &c->own_profiler;

	for (size_t i = 0; i < c->loss_count; i++)
		if (c->losses[i].reason == loss_reason_own_profiler)
			own_profiler_windows(&text, c->losses[i].length_ns, c->losses[i].rows);
	if (!text.length && own->known && own->state != capability_state_off)
		strbuf_adds(&text, own->reason);
	snprintf(end->own_profiler, sizeof(end->own_profiler), "%s", strbuf_text(&text));
}

static int add_costs(struct trace *t, struct record_summary *end, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct loss_sum *worst;
	struct cost cost;
	int r = cost_analyze(t, &cost, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < cost.loss_count; i++)
		add_lost(&end->lost, MAX(cost.losses[i].count, cost.losses[i].rows));
	worst = cost_worst_loss(&cost);
	if (worst) {
		end->lost_most = MAX(worst->count, worst->rows);
		loss_sum_text(worst, &text);
	}
	end->loss_effect = cost.effect;
	snprintf(end->lost_text, sizeof(end->lost_text), "%s", strbuf_text(&text));
	add_own_profiler(&cost, end);
	memcpy(end->costs, cost.kinds, sizeof(end->costs));
	cost_release(&cost);
	return 0;
}

/* Adds what could not be done as requested. The caller has loaded table `capability`. */
static void add_refusals(const struct trace *t, struct record_summary *end)
{
	static const enum feature names[ENGINE_LIMITS] = { feature_engine, feature_metrics,
							   feature_graph_metrics,
							   feature_sampling_interval };
	size_t n = 0;

	snprintf(end->sink, sizeof(end->sink), "%s", capability_refusal(t, feature_session));
	for (size_t i = 0; i < ENGINE_LIMITS; i++) {
		const char *why = capability_refusal(t, names[i]);

		if (*why)
			snprintf(end->engine[n++], sizeof(end->engine[0]), "%s", why);
	}
}

static int read_no_gpu(struct trace *t, struct record_summary *end, struct error *e)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	struct refused_processes refused = { 0 };
	int r = capability_cpu_only(t, &end->cpu_only, e);

	if (r >= 0)
		r = capability_no_gpu(t, &why, e);
	snprintf(end->no_gpu, sizeof(end->no_gpu), "%s", strbuf_text(&why));
	if (r < 0 || why.length)
		return r;
	if (capability_refused_processes(t, &refused) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	end->refused = refused.count;
	snprintf(end->refused_why, sizeof(end->refused_why), "%s", refused.why);
	return 0;
}

static int add_samples(struct trace *t, struct record_summary *end, struct error *e)
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

/* Sets no_samples. The caller has called read_no_gpu. */
static int check_samples(struct trace *t, struct record_summary *end, struct error *e)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	struct capability_note cpu;
	int r = capability_find(t, feature_cpu, &cpu, e);

	if (r < 0 || !end->cpu_only || end->cpu_samples)
		return r;
	capability_no_samples(t, &cpu, &why);
	snprintf(end->no_samples, sizeof(end->no_samples), "%s", strbuf_text(&why));
	return 0;
}

/* Sets no_off_cpu if time off the CPU was requested, but the sampling method has none. */
static int check_off_cpu(struct trace *t, struct record_summary *end, struct error *e)
{
	struct capability_note off_cpu;
	int r = capability_find(t, feature_off_cpu, &off_cpu, e);

	if (off_cpu.known && off_cpu.state != capability_state_on)
		snprintf(end->no_off_cpu, sizeof(end->no_off_cpu), "%s", off_cpu.reason);
	return r;
}

/* Counts processes; one that was sampled from outside has two sessions and counts once. */
static void count_processes(const struct trace *t, struct record_summary *end)
{
	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->subject != i)
			continue;
		end->processes++;
		end->inside += p->inside && !p->sampler;
	}
}

int record_summary_read(const char *directory, struct record_summary *end, struct error *e)
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
		add_refusals(t, end);
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
	if (r >= 0)
		r = check_samples(t, end, e);
	trace_free(t);
	return r;
}
