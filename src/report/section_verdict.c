/* section_verdict.c: what bounds the program, and the evidence. */
#include "report/section.h"

#include <string.h>

#include "analysis/busy.h"
#include "analysis/capabilities.h"
#include "analysis/cost.h"
#include "analysis/cpu_use.h"
#include "analysis/idle_lines.h"
#include "analysis/verdict.h"
#include "base/human.h"
#include "report/words.h"

/* What follows a slow start-up is judged by itself. */
static void add_later(const struct report *r, struct strbuf *out)
{
	const struct verdict *whole = &r->verdicts->whole, *later = &r->verdicts->later;

	strbuf_adds(out, "start-up: the first ");
	human_percent(out, whole->start_up.pieces, whole->pieces);
	strbuf_adds(out, " of its work take ");
	human_duration(out, whole->start_up.length_ns);
	strbuf_adds(out, " (without it: --since ");
	report_since_text(whole->start_up.end_ns - r->span_start_ns, out);
	strbuf_adds(out, "); after it ");
	verdict_sentence(later, out);
	strbuf_addc(out, '\n');
	if (later->kind != whole->kind && *verdict_advice(later->kind))
		strbuf_addf(out, "what helps then: %s\n", verdict_advice(later->kind));
}

/* Where the launching thread was while the GPU idled: at most three lines, that explain a tenth of the gaps each. */
static void add_idle_lines(const struct report *r, struct strbuf *out)
{
	const struct idle_lines *l = r->idle_lines;
	bool sampled = l->source == IDLE_SOURCE_SAMPLES;
	size_t shown = 0;

	for (size_t i = 0; i < l->count && shown < 3; i++) {
		const struct idle_line *line = &l->items[i];

		if (line->ns < l->gaps_ns / 10 || line->caller == CALLER_NONE)
			continue;
		strbuf_adds(out, shown++   ? ", "
				 : sampled ? "meanwhile its launching thread is at "
					   : "it waits for launches from ");
		report_line_text(r, line->caller, line->callee, out);
		report_share_text(line->ns, r->verdicts->whole.span_ns, out);
	}
	if (!shown)
		return;
	if (sampled) {
		strbuf_adds(out, ", by ");
		report_count_text(l->samples, "sample", out);
	}
	strbuf_addc(out, '\n');
}

static void print_verdict(const struct report_view *v)
{
	const struct verdict *verdict = &v->report->verdicts->whole;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t window = v->report->end_ns - v->report->start_ns;

	strbuf_addc(v->out, '\n');
	style_add(v->out, v->color, STYLE_BOLD, "verdict  ");
	style_add(v->out, v->color, verdict->kind == VERDICT_GPU ? STYLE_GREEN : STYLE_YELLOW,
		  verdict_name(verdict->kind));
	if (verdict->start_up.pieces && v->report->verdicts->later.kind != verdict->kind)
		strbuf_addf(v->out, "; after its start-up %s",
			    verdict_name(v->report->verdicts->later.kind));
	strbuf_addc(v->out, '\n');
	if (verdict->kind == VERDICT_NO_WORK && v->report->busy->untimed) {
		human_count(&text, v->report->busy->untimed);
		strbuf_adds(&text, v->report->busy->untimed == 1
					   ? " piece of GPU work ran, without times\n"
					   : " pieces of GPU work ran, without times\n");
	} else if (v->report->no_gpu->why.length) {
		text_safe(&text, strbuf_text(&v->report->no_gpu->why),
			  v->report->no_gpu->why.length);
		strbuf_addc(&text, '\n');
	} else {
		verdict_sentence(verdict, &text);
		strbuf_addc(&text, '\n');
	}
	add_idle_lines(v->report, &text);
	if (verdict->before_ns + verdict->after_ns > window / 4) {
		strbuf_adds(&text, "no GPU work in the first ");
		human_duration(&text, verdict->before_ns);
		strbuf_adds(&text, " and the last ");
		human_duration(&text, verdict->after_ns);
		strbuf_adds(&text, " of ");
		human_duration(&text, window);
		strbuf_addc(&text, '\n');
	}
	if (*verdict_advice(verdict->kind))
		strbuf_addf(&text, "what helps: %s\n", verdict_advice(verdict->kind));
	if (verdict->start_up.pieces)
		add_later(v->report, &text);
	text_fold(v->out, strbuf_text(&text), 2, v->width);
}

/* What bounds a program that used no GPU, by its samples. */
enum cpu_verdict { CPU_WAITING, CPU_IN_KERNEL, CPU_SINGLE_THREADED, CPU_WORKING };

static const struct {
	const char *key, *text;
} cpu_verdicts[] = {
	[CPU_WAITING] = { "waiting", "waiting" },
	[CPU_IN_KERNEL] = { "os_kernel", "in the operating system's kernel" },
	[CPU_SINGLE_THREADED] = { "single_threaded", "CPU-bound, single-threaded" },
	[CPU_WORKING] = { "cpu", "CPU-bound" },
};

static enum cpu_verdict judge_cpu(const struct report *r)
{
	const struct cpu_use *c = r->cpu_use;

	if (c->total_ns < (r->end_ns - r->start_ns) / 2)
		return CPU_WAITING;
	if (c->kernel_ns > c->total_ns / 2)
		return CPU_IN_KERNEL;
	if (c->threads[0].total_ns > c->total_ns - c->total_ns / 5)
		return CPU_SINGLE_THREADED;
	return CPU_WORKING;
}

static void add_cpu_sentence(const struct report *r, struct strbuf *out)
{
	const struct cpu_use *c = r->cpu_use;
	uint64_t window = r->end_ns - r->start_ns;

	human_duration(out, c->total_ns);
	strbuf_adds(out, " on the CPU in ");
	human_duration(out, window);
	if (window)
		strbuf_addf(out, ", %llu.%02llu CPUs on average",
			    (unsigned long long)(c->total_ns / window),
			    (unsigned long long)(c->total_ns % window * 100 / window));
	if (c->kernel_ns) {
		strbuf_adds(out, ", ");
		human_percent(out, c->kernel_ns, c->total_ns);
		strbuf_adds(out, " of it in the operating system's kernel");
	}
	strbuf_adds(out, ", ");
	human_percent(out, c->threads[0].total_ns, c->total_ns);
	strbuf_adds(out, " in one thread");
}

static void print_cpu_verdict(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_addc(v->out, '\n');
	style_add(v->out, v->color, STYLE_BOLD, "verdict  ");
	style_add(v->out, v->color, STYLE_YELLOW, cpu_verdicts[judge_cpu(v->report)].text);
	strbuf_addc(v->out, '\n');
	add_cpu_sentence(v->report, &text);
	text_fold(v->out, strbuf_text(&text), 2, v->width);
}

static void write_cpu(struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!v->report->cpu_use->samples) {
		json_key_string(&v->json, "cpu", NULL);
		return;
	}
	add_cpu_sentence(v->report, &text);
	report_json_object(v, "cpu");
	json_key_string(&v->json, "kind", cpu_verdicts[judge_cpu(v->report)].key);
	json_key_string(&v->json, "evidence", strbuf_text(&text));
	json_end(&v->json);
}

static void print_no_gpu(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_adds(&line, "no data: ");
	text_safe(&line, strbuf_text(&v->report->no_gpu->why), v->report->no_gpu->why.length);
	strbuf_addc(v->out, '\n');
	report_labelled(v, STYLE_YELLOW, "GPU", strbuf_text(&line));
}

/* A context that failed, and more loss than a reader may overlook. */
static void print_warnings(const struct report_view *v)
{
	const struct cost *c = v->report->cost;
	_cleanup_strbuf_ struct strbuf failure = STRBUF_INIT, loss = STRBUF_INIT;

	report_failure_text(v->report, &failure);
	if (c->lost * 20 >= c->lost + c->recorded && c->lost) {
		strbuf_adds(&loss, c->lost_least ? "at least " : "");
		human_percent(&loss, c->lost, c->lost + c->recorded);
		strbuf_adds(&loss,
			    " of the events are missing, as said under loss: what follows is "
			    "about the rest");
	}
	if (failure.length || loss.length)
		strbuf_addc(v->out, '\n');
	if (failure.length)
		report_labelled(v, STYLE_RED, "failed", strbuf_text(&failure));
	if (loss.length)
		report_labelled(v, STYLE_RED, "loss", strbuf_text(&loss));
}

static void print(const struct report_view *v)
{
	print_warnings(v);
	if (v->report->verdicts->whole.kind != VERDICT_NO_WORK || !v->report->cpu_use->samples)
		print_verdict(v);
	else
		print_cpu_verdict(v);
	if (v->report->cpu_use->samples && v->report->no_gpu->why.length &&
	    !v->report->no_gpu->not_wanted)
		print_no_gpu(v);
}

static const char *verdict_key(enum verdict_kind kind)
{
	static const char *const keys[VERDICT_KINDS] = {
		[VERDICT_NO_WORK] = "no_work",  [VERDICT_GPU] = "gpu",
		[VERDICT_LAUNCH] = "launch",    [VERDICT_COPY] = "copy",
		[VERDICT_SYNC] = "synchronize", [VERDICT_LATENCY] = "latency",
		[VERDICT_HOST] = "host",        [VERDICT_IDLE] = "idle",
	};

	return keys[kind];
}

static void write_start_up(struct report_view *v)
{
	const struct verdict *verdict = &v->report->verdicts->whole,
			     *later = &v->report->verdicts->later;
	struct strbuf sentence = STRBUF_INIT;

	if (!verdict->start_up.pieces) {
		json_key_string(&v->json, "start_up", NULL);
		return;
	}
	verdict_sentence(later, &sentence);
	report_json_object(v, "start_up");
	json_key_u64(&v->json, "pieces", verdict->start_up.pieces);
	json_key_u64(&v->json, "all_pieces", verdict->pieces);
	json_key_u64(&v->json, "length_ns", verdict->start_up.length_ns);
	json_key_u64(&v->json, "end_ns", verdict->start_up.end_ns - v->report->span_start_ns);
	json_key_string(&v->json, "later_kind", verdict_key(later->kind));
	json_key_string(&v->json, "later_evidence", strbuf_text(&sentence));
	json_end(&v->json);
	strbuf_release(&sentence);
}

static void write_json(struct report_view *v)
{
	const struct verdict *verdict = &v->report->verdicts->whole;
	struct strbuf sentence = STRBUF_INIT;

	verdict_sentence(verdict, &sentence);
	report_json_object(v, "verdict");
	json_key_string(&v->json, "kind", verdict_key(verdict->kind));
	json_key_string(&v->json, "text", verdict_name(verdict->kind));
	json_key_string(&v->json, "evidence", strbuf_text(&sentence));
	json_key_string(&v->json, "advice", verdict_advice(verdict->kind));
	json_key_string(&v->json, "no_gpu_data",
			v->report->no_gpu->why.length ? strbuf_text(&v->report->no_gpu->why)
						      : NULL);
	write_cpu(v);
	if (verdict->kind != VERDICT_NO_WORK) {
		json_key_u64(&v->json, "gpu", verdict->gpu);
		json_key_u64(&v->json, "span_ns", verdict->span_ns);
		json_key_u64(&v->json, "busy_ns", verdict->busy_ns);
		json_key_u64(&v->json, "exposed_copy_ns", verdict->exposed_copy_ns);
		json_key_u64(&v->json, "pauses", verdict->pauses);
		json_key_u64(&v->json, "pause_ns", verdict->pause_ns);
		json_key_u64(&v->json, "synchronize_ns", verdict->part_ns[IDLE_PART_SYNC]);
		json_key_u64(&v->json, "copy_ns", verdict->part_ns[IDLE_PART_COPY]);
		json_key_u64(&v->json, "launch_ns", verdict->part_ns[IDLE_PART_LAUNCH]);
		json_key_u64(&v->json, "latency_ns", verdict->part_ns[IDLE_PART_LATENCY]);
		json_key_u64(&v->json, "host_ns", verdict->part_ns[IDLE_PART_HOST]);
		json_key_u64(&v->json, "unknown_ns", verdict->part_ns[IDLE_PART_UNKNOWN]);
		write_start_up(v);
	}
	json_end(&v->json);
	strbuf_release(&sentence);
}

const struct section section_verdict = { .text = print, .json = write_json };
