/* section_steps.c: the steps of each process (--steps), and what was different in slow ones. */
#include "report/section.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/steps.h"
#include "report/words.h"

#define LOOP(member) MEMBER(struct step_loop, member)
#define TIMED(member) LOOP(member), .when = has_steps, .null = true
#define STEP(member) MEMBER(struct step, member)
#define SLOW(member) MEMBER(struct slow_step, member)

static const char *source_name(unsigned source)
{
	static const char *const names[] = { [STEPS_NONE] = "none",
					     [STEPS_SCOPES] = "scopes",
					     [STEPS_RANGES] = "ranges",
					     [STEPS_LAUNCHES] = "launches",
					     [STEPS_GRAPHS] = "graphs" };

	return names[source];
}

static const char *reason_name(unsigned reason)
{
	static const char *const names[] = {
#define REASON(name, text) #name,
		STEP_REASONS(REASON)
#undef REASON
	};

	return names[reason];
}

const char *report_steps_reason(unsigned reason)
{
	static const char *const texts[] = {
#define REASON(name, text) text,
		STEP_REASONS(REASON)
#undef REASON
	};

	return texts[reason];
}

void report_steps_source(const struct report *r, const struct step_loop *l, struct strbuf *out)
{
	const char *name = trace_string(r->trace, l->name);

	switch ((enum step_source)l->source) {
	case STEPS_SCOPES:
		strbuf_adds(out, "scopes like ");
		text_safe(out, name, strlen(name));
		break;
	case STEPS_RANGES:
		strbuf_adds(out, "NVTX ranges like ");
		text_safe(out, name, strlen(name));
		break;
	case STEPS_LAUNCHES:
		strbuf_adds(out, "launches that repeat");
		break;
	case STEPS_GRAPHS:
		strbuf_adds(out, "launches of a graph");
		break;
	case STEPS_NONE:
		break;
	}
}

static void add_source(const struct report_view *v, const struct step_loop *l, struct strbuf *out)
{
	report_steps_source(v->report, l, out);
	report_of_process(v->report, l->process, out);
}

ROW_READ(read_source, struct step_loop, add_source(v, row, &out->text))

ROW_IF(has_steps, struct step_loop, row->count)
ROW_IF(has_none, struct step_loop, !row->count)
ROW_IF(can_be_slow, struct step_loop, row->slow_ns)
ROW_IF(has_name, struct step_loop, row->name)
ROW_IF(has_breaks, struct step_loop, row->source == STEPS_LAUNCHES)

static const struct field loop_fields[] = {
	FIELD("pid", NULL, PID, LOOP(process)),
	FIELD("source", NULL, CHOICE, LOOP(source), .names = source_name),
	FIELD("reason", NULL, CHOICE, LOOP(reason), .names = reason_name),
	FIELD("name", NULL, STRING, LOOP(name), .when = has_name, .null = true),
	FIELD("count", "steps", COUNT, LOOP(count)),
	FIELD("median_ns", "median", NS, TIMED(time.median_ns)),
	FIELD("p90_ns", "p90", NS, TIMED(p90_ns)),
	FIELD("p99_ns", "p99", NS, TIMED(time.p99_ns)),
	FIELD("mad_ns", "MAD", NS, TIMED(mad_ns)),
	FIELD("min_ns", NULL, NS, TIMED(time.min_ns)),
	FIELD("max_ns", NULL, NS, TIMED(time.max_ns)),
	FIELD("total_ns", NULL, NS, LOOP(time.total_ns)),
	FIELD("span_ns", NULL, NS, LOOP(span_ns)),
	FIELD("breaks", NULL, COUNT, LOOP(breaks), .when = has_breaks, .null = true),
	FIELD("slow_count", "slow", COUNT, LOOP(slow_count), .when = can_be_slow, .null = true),
	FIELD("slow_limit_ns", "above", NS, LOOP(slow_ns), .when = can_be_slow, .null = true,
	      OPTIONAL_COLUMN),
	FIELD("usual_ns", NULL, NS, TIMED(usual_ns)),
	FIELD("usual_launches", "launches", COUNT, LOOP(usual_launches), .when = has_steps,
	      .null = true, OPTIONAL_COLUMN),
	FIELD("usual_work_ns", "GPU work", NS, TIMED(usual_work_ns), OPTIONAL_COLUMN),
	FIELD(NULL, "found by", TEXT, .value = read_source, FLEXIBLE_COLUMN),
};

static const struct step_loop *loop_of(const struct report_view *v, const struct step *step)
{
	return &v->report->steps->loops[step->loop];
}

ROW_READ(read_process, struct step, out->n = loop_of(v, row)->process)
ROW_READ(read_time, struct step, out->n = row->end_ns - row->start_ns)

static const struct field step_fields[] = {
	FIELD("pid", NULL, PID, .value = read_process),
	FIELD("number", NULL, COUNT, STEP(number)),
	FIELD("start_ns", NULL, TIME, STEP(start_ns)),
	FIELD("duration_ns", NULL, NS, .value = read_time),
	FIELD("host_start_ns", NULL, TIME, STEP(host_start_ns)),
	FIELD("host_end_ns", NULL, TIME, STEP(host_end_ns)),
	FIELD("launches", NULL, COUNT, STEP(launches)),
	FIELD("work_ns", NULL, NS, STEP(work_ns)),
	FIELD("slow", NULL, FLAG, STEP(is_slow)),
};

static const struct step *step_of(const struct report_view *v, const struct slow_step *slow)
{
	return &v->report->steps->items[slow->step];
}

static void add_owner(const struct report_view *v, const struct step_difference *d,
		      struct strbuf *out)
{
	static const char *const rest[] = {
		[PATH_KERNEL] = "other kernels",
		[PATH_COPY] = "other copies",
		[PATH_MEMSET] = "other memory sets",
		[PATH_GRAPH] = "other graphs",
		[PATH_LAUNCH] = "other launch latency",
		[PATH_GAP] = "other gaps between work",
		[PATH_RETURN] = "other returns of calls",
		[PATH_LATE] = "other latency longer than usual",
		[PATH_CALL] = "other calls",
		[PATH_HOST] = "other host code",
		[PATH_UNKNOWN] = "unknown",
	};

	if (d->is_rest)
		strbuf_adds(out, rest[d->place.class]);
	else
		report_place_text(v, d->place, out);
}

static void add_signed(struct strbuf *out, int64_t ns)
{
	strbuf_addc(out, ns < 0 ? '-' : '+');
	sentence_add(out, DURATION((uint64_t)llabs(ns)), WORDS(" "));
}

/* "+38.1 ms host before train.py:57, 3 memory calls (1 in others), clock 1,200 MHz (1,980)" */
static void add_different(const struct report_view *v, const struct slow_step *slow,
			  struct strbuf *out)
{
	size_t before = out->length;

	for (size_t i = 0; i < slow->difference_count; i++) {
		strbuf_adds(out, i ? ", " : "");
		add_signed(out, slow->differences[i].ns);
		add_owner(v, &slow->differences[i], out);
	}
	if (slow->calls != slow->usual_calls)
		sentence_add(out, WORDS(out->length > before ? ", " : ""),
			     COUNTED_AS(slow->calls, "call"),
			     WORDS(" that allocate or release memory (others: "),
			     NUMBER(slow->usual_calls), WORDS(")"));
	if (slow->clock_mhz && slow->clock_mhz < slow->usual_clock_mhz / 100 * 97)
		sentence_add(out, WORDS(out->length > before ? ", " : ""), WORDS("clock "),
			     NUMBER(slow->clock_mhz), WORDS(" MHz (others: "),
			     NUMBER(slow->usual_clock_mhz), WORDS(")"));
	if (slow->losses)
		sentence_add(out, WORDS(out->length > before ? ", " : ""),
			     WORDS("events are missing"));
}

ROW_READ(read_slow_pid, struct slow_step, out->n = loop_of(v, step_of(v, row))->process)
ROW_READ(read_slow_number, struct slow_step, out->n = step_of(v, row)->number)
ROW_READ(read_slow_start, struct slow_step, out->n = step_of(v, row)->start_ns)
ROW_READ(read_slow_time, struct slow_step,
	 out->n = step_of(v, row)->end_ns - step_of(v, row)->start_ns)
ROW_READ(read_launches, struct slow_step, out->n = step_of(v, row)->launches)
ROW_READ(read_work, struct slow_step, out->n = step_of(v, row)->work_ns)
ROW_READ(read_different, struct slow_step, add_different(v, row, &out->text))

ROW_IF(has_clock, struct slow_step, row->clock_mhz)
ROW_IF(has_usual_clock, struct slow_step, row->usual_clock_mhz)

#define DIFFERENCE(member) MEMBER(struct step_difference, member)

static const char *class_name(unsigned class)
{
	return path_class_names[class];
}

ROW_READ(read_owner, struct step_difference, add_owner(v, row, &out->text))

static const struct field difference_fields[] = {
	FIELD("class", NULL, CHOICE, DIFFERENCE(place.class), .names = class_name),
	FIELD("name", NULL, CODE, .value = read_owner),
	FIELD("difference_ns", NULL, UNIX, DIFFERENCE(ns)),
};

static const void *difference_at(const struct report_view *v, const void *row, size_t i)
{
	const struct slow_step *slow = row;

	(void)v;
	return i < slow->difference_count ? &slow->differences[i] : NULL;
}

static const struct field slow_fields[] = {
	FIELD("pid", NULL, PID, .value = read_slow_pid),
	FIELD("number", "slow step", COUNT, .value = read_slow_number),
	FIELD("start_ns", "start", TIME, .value = read_slow_start),
	FIELD("duration_ns", "time", NS, .value = read_slow_time),
	FIELD("launches", "launches", COUNT, .value = read_launches, OPTIONAL_COLUMN),
	FIELD("work_ns", "GPU work", NS, .value = read_work, OPTIONAL_COLUMN),
	FIELD("memory_calls", NULL, COUNT, SLOW(calls)),
	FIELD("usual_memory_calls", NULL, COUNT, SLOW(usual_calls)),
	FIELD("losses", NULL, COUNT, SLOW(losses)),
	FIELD("clock_mhz", NULL, COUNT, SLOW(clock_mhz), .when = has_clock, .null = true),
	FIELD("usual_clock_mhz", NULL, COUNT, SLOW(usual_clock_mhz), .when = has_usual_clock,
	      .null = true),
	LIST("differences", .item = difference_at, difference_fields, .all = true),
	FIELD(NULL, "more than in others", TEXT, .value = read_different, FLEXIBLE_COLUMN),
};

static const struct field fields[] = {
	LIST("loops", ITEMS(struct steps, loops, loop_count), loop_fields, .hidden = has_none),
	LIST("slow", ITEMS(struct steps, slow, slow_count), slow_fields),
	LIST("items", ITEMS(struct steps, items, count), step_fields, .all = true),
};

static bool is_computed(const struct report_view *v)
{
	return v->report->options.steps;
}

/* Why processes have no steps, and what helps. */
static void add_reasons(const struct report_view *v, struct strbuf *out)
{
	const struct steps *s = v->report->steps;
	unsigned said = 0;

	for (size_t i = 0; i < s->loop_count; i++) {
		const struct step_loop *l = &s->loops[i];

		if (l->count || said & 1u << l->reason)
			continue;
		said |= 1u << l->reason;
		strbuf_addf(out, "no steps%s: %s\n", s->count ? " in other processes" : "",
			    report_steps_reason(l->reason));
	}
	if (said & ~(1u << STEP_REASON_window))
		strbuf_adds(out,
			    "what helps: mark steps in the program with pitot.scope(\"step\"), "
			    "pitot.steps(), pitot_scope_begin(\"step\") or an NVTX range "
			    "\"step\"\n");
}

static void add_notes(const struct report_view *v, struct strbuf *out)
{
	const struct steps *s = v->report->steps;
	uint64_t breaks = 0;

	for (size_t i = 0; i < s->loop_count; i++)
		breaks += s->loops[i].breaks;
	if (breaks)
		sentence_add(out, COUNTED_AS(breaks, "time"),
			     WORDS(" something else was launched between steps\n"));
	add_reasons(v, out);
}

static void print_none(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!v->report->options.steps)
		return;
	report_title(v, "steps",
		     v->report->steps->loop_count ? "none found" : "no GPU work in the window");
	add_reasons(v, &text);
	report_paragraph(v, 2, strbuf_text(&text));
}

const struct section section_steps = {
	.key = "steps",
	.title = "steps",
	RESULT(steps),
	FIELDS(fields),
	.computed = is_computed,
	.after = add_notes,
	.empty = print_none,
};
