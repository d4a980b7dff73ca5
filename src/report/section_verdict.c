/* section_verdict.c: what bounds the program, and the evidence for it. */
#include "report/section.h"

#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/cost.h"
#include "analysis/cpu_use.h"
#include "analysis/idle_lines.h"
#include "analysis/stalls.h"
#include "analysis/verdict.h"
#include "base/path.h"
#include "report/words.h"
#include "names/demangle.h"

#define TAIL_SHARE 10 /* 1/10 of the kernel time */
#define TAIL_WAVES 4
#define STALL_SAMPLES_MIN 100 /* of a kernel, so that the share of a wait is known within 10 % */

/* Appends the verdict on the time after a slow start-up. */
static void add_later(const struct report *r, struct strbuf *out)
{
	const struct verdict *whole = &r->verdicts->whole, *later = &r->verdicts->later;
	const char *advice;

	sentence_add(out, WORDS("start-up: the first "),
		     PERCENT(whole->start_up.pieces, whole->pieces), WORDS(" of the work takes "),
		     DURATION(whole->start_up.length_ns), WORDS(" (exclude it with --since "));
	report_since_text(whole->start_up.end_ns - r->span_start_ns, out);
	strbuf_adds(out, "); after it ");
	verdict_sentence(later, out);
	strbuf_addc(out, '\n');
	advice = verdict_advice(later->kind, gpus_are_amd(&r->gpus));
	if (later->kind != whole->kind && *advice)
		strbuf_addf(out, "what helps after it: %s\n", advice);
}

/* Appends at most three lines to which at least a tenth of the idle time is attributed each. */
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
				 : sampled ? "in the gaps the launching thread was at "
					   : "the gaps ended with launches from ");
		report_line_text(r, line->caller, line->callee, out);
		sentence_add(out, WORDS(" ("), DURATION(line->ns), WORDS(")"));
	}
	if (!shown)
		return;
	if (sampled)
		sentence_add(out, WORDS(", from "), COUNTED_AS(l->samples, "sample"));
	strbuf_addc(out, '\n');
}

/* Appends what the kernel with most samples waited for, if one wait has more than half of them. */
static void add_stalls(const struct report *r, struct strbuf *out)
{
	const struct stall_place *top = r->stalls->kernels.count ? r->stalls->kernels.items : NULL;
	const struct stall_count *wait = top ? stalls_first_wait(top) : NULL;

	if (!wait || top->samples < STALL_SAMPLES_MIN || wait->samples <= top->samples / 2)
		return;
	kernel_name_short(top->kernel_name, out);
	strbuf_addf(out, " has the most samples: its warps were mostly ");
	text_safe(out, wait->what.words, strlen(wait->what.words));
	sentence_add(out, WORDS(" ("), PERCENT(wait->samples, top->samples), WORDS(" of "),
		     COUNTED_AS(top->samples, "sample"), WORDS(")"));
	if (top->hottest) {
		strbuf_adds(out, ", hottest line ");
		text_safe(out, base_name(top->hottest->file),
			  strlen(base_name(top->hottest->file)));
		strbuf_addf(out, ":%u", top->hottest->line);
		sentence_add(out, WORDS(" ("), PERCENT(top->hottest->samples, top->samples),
			     WORDS(")"));
	}
	sentence_add(out, WORDS("; waits are named that have more than half of at least "),
		     NUMBER(STALL_SAMPLES_MIN), WORDS(" samples\n"));
}

/* From theoretical occupancy. */
void report_tail_text(const struct report *r, uint32_t device, uint32_t config, struct strbuf *out)
{
	const struct kernel_config_columns *c = kernel_config_columns(r->trace);
	uint64_t blocks, slots, last;
	struct occupancy o;
	uint32_t units;

	if (occupancy_of_rows(r->trace, device, config, &o) < 0 || !o.waves_milli)
		return;
	units = device_columns(r->trace)->multiprocessors[device];
	blocks = (uint64_t)c->grid_x[config] * c->grid_y[config] * c->grid_z[config];
	slots = (uint64_t)units * o.blocks;
	last = blocks % slots;
	if (blocks >= slots && blocks / slots <= TAIL_WAVES && last && last < slots / 2)
		sentence_add(out, COUNTED_AS(blocks, "block"), WORDS(" on "), NUMBER(units),
			     WORDS(" SMs x "), COUNTED_AS(o.blocks, "slot"), WORDS(", the last "),
			     NUMBER(last), WORDS(" fill "), PERCENT(last, slots),
			     WORDS(" of the slots"));
}

/* Appends the tail of the kernel with most time, if most of its launches are alike. */
static void add_tail(const struct report *r, struct strbuf *out)
{
	const struct hotspot *h = r->hotspots->count ? r->hotspots->items : NULL;
	_cleanup_strbuf_ struct strbuf tail = STRBUF_INIT;

	if (!h || r->hotspots->by > HOTSPOT_CONFIG || h->config == TRACE_NO_ROW ||
	    h->time.total_ns < r->hotspots->total_ns / TAIL_SHARE ||
	    h->config_count <= (h->time.count + h->untimed) / 2)
		return;
	report_tail_text(r, r->gpus.items[h->device].row, h->config, &tail);
	if (!tail.length)
		return;
	strbuf_adds(out, "tail of ");
	report_kernel_text(r, h->config, false, out);
	strbuf_addf(out, ": %s", strbuf_text(&tail));
	sentence_add(out, WORDS("; shown below 50%, after at most "), NUMBER(TAIL_WAVES),
		     WORDS(" full waves, from 10% of the kernel time\n"));
}

static void add_hints(const struct report *r, struct strbuf *out)
{
	add_stalls(r, out);
	add_tail(r, out);
}

/* Appends what helps. Where calls could not be recorded, that is the reason. */
static void add_advice(const struct report *r, const struct verdict *verdict, struct strbuf *out)
{
	const char *no_calls = verdict_is(verdict, BOUND_UNKNOWN)
				       ? capability_refusal(r->trace, feature_api_call)
				       : "";

	if (*no_calls) {
		strbuf_adds(out, "a recording made with `pitot record`: ");
		text_safe(out, no_calls, strlen(no_calls));
	} else {
		strbuf_adds(out, verdict_advice(verdict->kind, gpus_are_amd(&r->gpus)));
	}
}

static void print_verdict(const struct report_view *v)
{
	const struct verdict *verdict = &v->report->verdicts->whole;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, later = STRBUF_INIT,
				       advice = STRBUF_INIT, job = STRBUF_INIT;
	uint64_t window = v->report->end_ns - v->report->start_ns;

	if (report_job_text(v->report, &job, &text)) {
		report_verdict(v, STYLE_YELLOW, strbuf_text(&job), "");
		report_paragraph(v, 2, strbuf_text(&text));
		return;
	}
	if (verdict->start_up.pieces && v->report->verdicts->later.kind != verdict->kind)
		strbuf_addf(&later, "; after its start-up %s",
			    verdict_name(v->report->verdicts->later.kind));
	report_verdict(v, verdict_is(verdict, BOUND_GPU) ? STYLE_GREEN : STYLE_YELLOW,
		       verdict_name(verdict->kind), strbuf_text(&later));
	if (v->report->no_gpu->why.length) {
		text_safe(&text, strbuf_text(&v->report->no_gpu->why),
			  v->report->no_gpu->why.length);
		strbuf_addc(&text, '\n');
	} else {
		verdict_sentence(verdict, &text);
		strbuf_addc(&text, '\n');
	}
	add_idle_lines(v->report, &text);
	if (verdict_is(verdict, BOUND_GPU) || verdict->kind == VERDICT_UNDECIDED)
		add_hints(v->report, &text);
	if (verdict->before_ns + verdict->after_ns > window / 4)
		sentence_add(&text, WORDS("no GPU work in the first "),
			     DURATION(verdict->before_ns), WORDS(" and the last "),
			     DURATION(verdict->after_ns), WORDS(" of "), DURATION(window),
			     WORDS("\n"));
	add_advice(v->report, verdict, &advice);
	if (advice.length)
		strbuf_addf(&text, "what helps: %s\n", strbuf_text(&advice));
	if (verdict->start_up.pieces)
		add_later(v->report, &text);
	report_paragraph(v, 2, strbuf_text(&text));
}

static void add_cpu_sentence(const struct report *r, struct strbuf *out)
{
	const struct cpu_load *l = &r->commands->whole;

	sentence_add(out, DURATION(l->total_ns), WORDS(" on the CPU in "), DURATION(l->elapsed_ns),
		     WORDS(", "));
	report_ratio_text(l->total_ns, l->elapsed_ns, out);
	strbuf_adds(out, " CPUs on average");
	if (l->kernel_ns)
		sentence_add(out, WORDS(", "), PERCENT(l->kernel_ns, l->total_ns),
			     WORDS(" of it in the operating system's kernel"));
	sentence_add(out, WORDS(", "), PERCENT(l->busiest_ns, l->total_ns),
		     WORDS(" in the busiest thread"));
	if (l->ready_ns >= l->elapsed_ns / 20 && l->ready_ns)
		sentence_add(out, WORDS(", ready to run without a processor for "),
			     DURATION(l->ready_ns));
	if (l->throttled_ns)
		sentence_add(out, WORDS(", the CPU quota of its control group used up for "),
			     DURATION(l->throttled_ns));
	if (l->stolen_ns >= l->elapsed_ns / 20 && l->stolen_ns)
		sentence_add(out, WORDS(", "), DURATION(l->stolen_ns),
			     WORDS(" of the machine taken by its hypervisor"));
}

/* Appends for what the busiest thread waited, longest first. */
static void add_waits(const struct cpu_load *l, struct strbuf *out)
{
	static const char *const words[OFF_CPU_STATES] = {
		[off_cpu_state_unknown] = " for unknown reasons",
		[off_cpu_state_sleeping] = " sleeping",
		[off_cpu_state_uninterruptible] = " mostly for disks",
		[off_cpu_state_runnable] = " for a processor",
		[off_cpu_state_stopped] = " stopped",
	};
	uint64_t left[OFF_CPU_STATES], sum = 0;

	for (unsigned i = 0; i < OFF_CPU_STATES; i++)
		sum += left[i] = l->off_ns[i];
	if (!sum)
		return;
	sentence_add(out, WORDS("\nthe busiest thread waited for "), DURATION(sum), WORDS(": "));
	for (unsigned n = 0; n < OFF_CPU_STATES; n++) {
		unsigned most = 0;

		for (unsigned i = 1; i < OFF_CPU_STATES; i++)
			if (left[i] > left[most])
				most = i;
		if (!left[most])
			return;
		sentence_add(out, WORDS(n ? ", " : ""), DURATION(left[most]), WORDS(words[most]));
		left[most] = 0;
	}
}

/* Prints the verdict on a program without GPU work, from its CPU samples. */
static void print_cpu_verdict(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	bool any = v->report->cpu_use->samples > 0;

	report_verdict(v, STYLE_YELLOW,
		       any ? report_cpu_verdict(v->report->commands->whole.verdict)
			   : "no CPU samples",
		       "");
	if (any) {
		add_cpu_sentence(v->report, &text);
		add_waits(&v->report->commands->whole, &text);
	}
	if (any && v->report->commands->whole.verdict == CPU_STARVED)
		strbuf_adds(&text, v->report->commands->whole.throttled_ns
					   ? "\nwhat helps: a larger CPU quota, or less work"
					   : "\nwhat helps: fewer programs on these processors, or "
					     "more processors (taskset, cpuset)");
	report_paragraph(v, 2, strbuf_text(&text));
}

static void print_no_gpu(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_adds(&line, "no data: ");
	text_safe(&line, strbuf_text(&v->report->no_gpu->why), v->report->no_gpu->why.length);
	report_gap(v);
	report_labelled(v, STYLE_YELLOW, "GPU", strbuf_text(&line));
}

/* Losses of an unknown number of events, and how each limits the figures. */
static const struct {
	enum loss_reason reason;
	bool gpu; /* of GPU work: without any GPU data the verdict has the reason */
	bool timed; /* the time of its start follows */
	const char *what, *consequence;
} part_losses[] = {
	{ loss_reason_damaged_file, false, false, "parts of the recording are damaged",
	  "all figures cover only the rest" },
	{ loss_reason_missing_segment, false, false, "segments of the recording are missing",
	  "all figures cover only the rest" },
	{ loss_reason_refused_segment, false, false, "a process could not write into the recording",
	  "what it did is missing" },
	{ loss_reason_gpu_runtime_failed, true, true, "the GPU's library failed",
	  "later GPU work is missing in that process, and all figures cover only the rest" },
	{ loss_reason_gpu_hang, true, true, "a call of the GPU's library or driver began to hang",
	  "GPU work that had finished may be missing" },
	{ loss_reason_unreadable_buffer, true, false,
	  "the GPU's library could not read all of its own buffers",
	  "GPU work is missing, and all figures cover only the rest" },
};

static void print_part_losses(const struct report_view *v, bool below)
{
	const struct report *r = v->report;

	for (size_t i = 0; i < ARRAY_SIZE(part_losses); i++) {
		const struct loss_sum *l = cost_find_loss(r->cost, part_losses[i].reason);
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		if (!l || (part_losses[i].gpu && r->no_gpu->why.length))
			continue;
		strbuf_adds(&text, part_losses[i].what);
		if (part_losses[i].timed)
			sentence_add(&text, WORDS(" "),
				     DURATION(l->start_ns - MIN(l->start_ns, r->span_start_ns)),
				     WORDS(" after the start"));
		strbuf_addf(&text, " (see loss below): %s", part_losses[i].consequence);
		if (!below)
			report_gap(v);
		report_labelled(v, STYLE_RED, below ? "" : "loss", strbuf_text(&text));
		below = true;
	}
}

/* Warns if 1/20 of the GPU work has no times. If nearly all has none, the verdict says so. */
static void print_untimed(const struct report_view *v)
{
	const struct verdict *verdict = &v->report->verdicts->whole;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!verdict->untimed || verdict->untimed * 20 < verdict->work ||
	    verdict->kind == VERDICT_UNTIMED)
		return;
	sentence_add(
		&text, PERCENT(verdict->untimed, verdict->work),
		WORDS(" of the GPU operations have no times: they are counted, but not included "
		      "in any sum, share or utilization"));
	report_gap(v);
	report_labelled(v, STYLE_YELLOW, "untimed", strbuf_text(&text));
}

/* Warns of processes without GPU data beside others with some. */
static void print_processes(const struct report_view *v)
{
	const struct refused_processes *refused = &v->report->no_gpu->refused;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!refused->count)
		return;
	sentence_add(&text, WORDS("no GPU data of "), COUNTED_AS(refused->count, "process"),
		     WORDS(" ("));
	text_safe(&text, refused->why, strlen(refused->why));
	strbuf_adds(&text, "): all figures are of the others; pitot info shows which");
	report_gap(v);
	report_labelled(v, STYLE_RED, "loss", strbuf_text(&text));
}

/* Warns of a failed GPU context, of losses, and of work without times. */
static void print_warnings(const struct report_view *v)
{
	const struct cost *c = v->report->cost;
	_cleanup_strbuf_ struct strbuf failure = STRBUF_INIT, loss = STRBUF_INIT;

	report_failure_text(v->report, &failure);
	if (lost_share_effect(&c->all) == LOSS_UNSAFE ||
	    lost_share_effect(&c->gpu) == LOSS_UNSAFE) {
		const struct lost_share *l =
			lost_share_effect(&c->all) == LOSS_UNSAFE ? &c->all : &c->gpu;

		sentence_add(&loss, WORDS(l->least ? "at least " : ""),
			     PERCENT(l->lost, l->lost + l->recorded), WORDS(" of the "),
			     WORDS(l == &c->gpu ? "GPU records" : "events"),
			     WORDS(" are missing (see loss below); all figures cover only the "
				   "rest"));
	}
	if (failure.length || loss.length)
		report_gap(v);
	if (failure.length)
		report_labelled(v, STYLE_RED, "failed", strbuf_text(&failure));
	if (loss.length)
		report_labelled(v, STYLE_RED, "loss", strbuf_text(&loss));
	print_part_losses(v, loss.length > 0);
	print_processes(v);
	print_untimed(v);
}

static void print(const struct report_view *v)
{
	print_warnings(v);
	if (v->report->verdicts->whole.kind != VERDICT_NO_WORK ||
	    (!v->report->cpu_use->samples && !v->report->no_gpu->cpu_only)) {
		print_verdict(v);
		return;
	}
	print_cpu_verdict(v);
	if (v->report->no_gpu->why.length)
		print_no_gpu(v);
}

ROW_READ(read_evidence, void, verdict_sentence(row, &out->text))
ROW_READ(read_advice, struct verdicts, add_advice(v->report, &row->whole, &out->text))
ROW_READ(read_cpu_evidence, void, add_cpu_sentence(v->report, &out->text))

static void read_no_gpu(const struct report_view *v, const void *row, struct value *out)
{
	const struct strbuf *why = &v->report->no_gpu->why;

	(void)row;
	strbuf_add(&out->text, strbuf_text(why), why->length);
	out->state = why->length ? VALUE_KNOWN : VALUE_UNKNOWN;
}

ROW_READ(read_refused, void, out->n = v->report->no_gpu->refused.count)
ROW_READ(read_start_up_end, struct verdicts,
	 out->n = row->whole.start_up.end_ns - v->report->span_start_ns)

ROW_IF(has_samples, void, v->report->cpu_use->samples)
ROW_IF(has_work, void, v->report->verdicts->whole.kind != VERDICT_NO_WORK)

ROW_OF(start_up_of, v->report->verdicts->whole.start_up.pieces ? row : NULL)
ROW_OF(later_of, &v->report->verdicts->later)
ROW_OF(load_of, &v->report->commands->whole)

static const struct field cpu_fields[] = {
	FIELD("kind", NULL, CHOICE, MEMBER(struct cpu_load, verdict), .names = cpu_verdict_name),
	FIELD("evidence", NULL, TEXT, .value = read_cpu_evidence),
	FIELD("ready_ns", NULL, NS, MEMBER(struct cpu_load, ready_ns)),
	FIELD("throttled_ns", NULL, NS, MEMBER(struct cpu_load, throttled_ns)),
	FIELD("stolen_ns", NULL, NS, MEMBER(struct cpu_load, stolen_ns)),
	FIELD("off_cpu_ns", NULL, NUMBERS, NUMBERS(struct cpu_load, off_ns)),
};

static const struct field later_fields[] = {
	FIELD("later_kind", NULL, CHOICE, MEMBER(struct verdict, kind), .names = verdict_key),
	FIELD("later_evidence", NULL, TEXT, .value = read_evidence),
};

#define BOUND_FIELD(key, bound) FIELD(key, NULL, NS, WHOLE_VERDICT(bounds.sums[BOUND_##bound].ns))
#define WHOLE_VERDICT(member) MEMBER(struct verdicts, whole.member)

static const struct field start_up_fields[] = {
	FIELD("pieces", NULL, COUNT, WHOLE_VERDICT(start_up.pieces)),
	FIELD("all_pieces", NULL, COUNT, WHOLE_VERDICT(pieces)),
	FIELD("length_ns", NULL, NS, WHOLE_VERDICT(start_up.length_ns)),
	FIELD("end_ns", NULL, NS, .value = read_start_up_end),
	OBJECT(NULL, later_fields, .of = later_of),
};

static const struct field work_fields[] = {
	FIELD("gpu", NULL, ID, WHOLE_VERDICT(gpu)),
	FIELD("pid", NULL, PID, WHOLE_VERDICT(bounds.process)),
	FIELD("span_ns", NULL, NS, WHOLE_VERDICT(bounds.span_ns)),
	FIELD("busy_ns", NULL, NS, WHOLE_VERDICT(busy_ns)),
	FIELD("exposed_copy_ns", NULL, NS, WHOLE_VERDICT(exposed_copy_ns)),
	FIELD("pauses", NULL, COUNT, WHOLE_VERDICT(pauses)),
	FIELD("pause_ns", NULL, NS, WHOLE_VERDICT(pause_ns)),
	FIELD("measured", NULL, COUNT, WHOLE_VERDICT(measured)),
	FIELD("measuring_ns", NULL, NS, WHOLE_VERDICT(bounds.measuring_ns)),
	FIELD("launches", NULL, COUNT, WHOLE_VERDICT(launches)),
	FIELD("launch_mean_ns", NULL, NS, WHOLE_VERDICT(launch_mean_ns)),
	FIELD("synchronizing_calls", NULL, COUNT, WHOLE_VERDICT(sync_calls)),
	BOUND_FIELD("gpu_ns", GPU),
	BOUND_FIELD("copy_ns", COPY),
	BOUND_FIELD("latency_ns", LATENCY),
	BOUND_FIELD("false_dependency_ns", FALSE_DEPENDENCY),
	BOUND_FIELD("default_stream_ns", DEFAULT_STREAM),
	BOUND_FIELD("host_function_ns", HOST_FUNCTION),
	BOUND_FIELD("wait_ns", WAIT),
	BOUND_FIELD("collective_ns", COLLECTIVE),
	BOUND_FIELD("synchronize_ns", SYNC),
	BOUND_FIELD("launch_ns", LAUNCH),
	BOUND_FIELD("launch_call_ns", CALL),
	BOUND_FIELD("graph_nodes_ns", NODES),
	BOUND_FIELD("allocation_ns", MEMORY),
	BOUND_FIELD("off_cpu_ns", OFF_CPU),
	BOUND_FIELD("host_ns", HOST),
	BOUND_FIELD("unknown_ns", UNKNOWN),
	OBJECT("start_up", start_up_fields, .of = start_up_of, .null = true),
};

static const struct field fields[] = {
	FIELD("kind", NULL, CHOICE, WHOLE_VERDICT(kind), .names = verdict_key),
	FIELD("text", NULL, CHOICE, WHOLE_VERDICT(kind), .names = verdict_name),
	FIELD("evidence", NULL, TEXT, .value = read_evidence), /* of `whole`, the first member */
	FIELD("advice", NULL, TEXT, .value = read_advice),
	FIELD("no_gpu_data", NULL, TEXT, .value = read_no_gpu),
	FIELD("processes_without_gpu_data", NULL, COUNT, .value = read_refused),
	OBJECT("cpu", cpu_fields, .of = load_of, .when = has_samples, .null = true),
	OBJECT(NULL, work_fields, .when = has_work),
};

const struct section section_verdict = {
	.key = "verdict",
	RESULT(verdicts),
	FIELDS(fields),
	.text = print,
};
