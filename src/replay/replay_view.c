#include "replay/replay_view.h"

#include <math.h>

#include "analysis/sentence.h"
#include "base/human.h"
#include "base/json.h"
#include "report/text_table.h"

#define STREAMS_SHOWN 16u

const char *const replay_pace_names[] = { "gaps", "recorded", "free", NULL };
const char *const replay_stand_in_names[] = { "deadline", "work", NULL };

struct name {
	const char *key, *text;
};
#define NAME(name_, text_) { #name_, text_ },
static const struct name kinds[] = { REPLAY_KINDS(NAME) };
static const struct name skips[] = { REPLAY_SKIPS(NAME) };
static const struct name substitutions[] = { REPLAY_SUBSTITUTIONS(NAME) };

static uint64_t recorded_ns(const struct replay_view *v)
{
	return v->plan->end_ns - v->plan->start_ns;
}

/* The median of the repeats; 0: none was finished. */
static uint64_t makespan_ns(const struct replay_view *v)
{
	const struct replay_result *r = v->result;
	uint64_t best = 0;

	for (size_t i = 0; r && i < r->makespans_ns.count; i++) {
		size_t shorter = 0;

		for (size_t k = 0; k < r->makespans_ns.count; k++)
			shorter += r->makespans_ns.data[k] < r->makespans_ns.data[i] ||
				   (r->makespans_ns.data[k] == r->makespans_ns.data[i] && k < i);
		if (shorter == (r->makespans_ns.count - 1) / 2)
			best = r->makespans_ns.data[i];
	}
	return best;
}

static const uint64_t *substituted(const struct replay_view *v)
{
	return v->result ? v->result->substituted : v->plan->substituted;
}

/* Kernels' times in a replay at another speed are compared with what they should be. */
static uint64_t wanted_ns(const struct replay_view *v, uint64_t ns)
{
	return (uint64_t)fmin((double)ns / v->settings->speed, 1e18);
}

/* --- text --- */

static void add_change(struct text_table *t, uint64_t from, uint64_t to)
{
	if (from)
		text_table_addf(t, "%+.1f%%", ((double)to - (double)from) * 100 / (double)from);
	else
		text_table_add(t, "-");
}

static void print_table(const struct replay_view *v, struct text_table *t)
{
	text_table_print(t, 2, v->width, v->color, v->out);
	text_table_release(t);
}

static void print_times(const struct replay_view *v)
{
	static const struct text_column columns[] = { LEFT("time"), RIGHT("recorded"),
						      RIGHT("replayed"), RIGHT("change") };
	struct text_table t = TEXT_TABLE_INIT(columns);
	uint64_t ns = makespan_ns(v);

	text_table_add(&t, "from the first call to the end");
	text_table_duration(&t, recorded_ns(v));
	if (ns) {
		text_table_duration(&t, ns);
		add_change(&t, recorded_ns(v), ns);
	} else {
		text_table_add(&t, "-");
	}
	text_table_end_row(&t);
	if (v->plan->simulated_ns) {
		text_table_add(&t, "by the simulator");
		text_table_add(&t, "");
		text_table_duration(&t, v->plan->simulated_ns);
		add_change(&t, recorded_ns(v), v->plan->simulated_ns);
	}
	print_table(v, &t);
}

static void print_streams(const struct replay_view *v)
{
	static const struct text_column columns[] = { RIGHT("stream"),     RIGHT("GPU"),
						      RIGHT("operations"), RIGHT("kernels"),
						      RIGHT("recorded"),   RIGHT("replayed"),
						      RIGHT("change") };
	struct text_table t = TEXT_TABLE_INIT(columns);
	size_t count = MIN(v->plan->streams.count, STREAMS_SHOWN);

	for (size_t i = 0; i < count; i++) {
		const struct replay_stream *s = &v->plan->streams.data[i];

		text_table_count(&t, s->id);
		text_table_count(&t, s->device);
		text_table_count(&t, s->operations);
		text_table_count(&t, s->kernels);
		text_table_duration(&t, s->kernel_ns);
		if (v->result) {
			text_table_duration(&t, v->result->streams[i].kernel_ns);
			add_change(&t, wanted_ns(v, s->kernel_ns), v->result->streams[i].kernel_ns);
		}
		text_table_end_row(&t);
	}
	print_table(v, &t);
	if (count < v->plan->streams.count) {
		strbuf_adds(v->out, "  and ");
		sentence_add(v->out, COUNTED_AS(v->plan->streams.count - count, "other stream"),
			     WORDS(", see --json\n"));
	}
}

static void print_counts(const struct replay_view *v, const char *head, const struct name *names,
			 size_t count, const uint64_t *values)
{
	static const struct text_column columns[] = { RIGHT(""), FLEXIBLE("") };
	struct text_table t = TEXT_TABLE_INIT(columns);

	t.headless = true;
	for (size_t i = 0; i < count; i++)
		if (values[i]) {
			text_table_count(&t, values[i]);
			text_table_add(&t, names[i].text);
		}
	if (text_table_rows(&t)) {
		strbuf_addc(v->out, '\n');
		style_add(v->out, v->color, STYLE_BOLD, head);
		strbuf_addc(v->out, '\n');
	}
	print_table(v, &t);
}

static void print_outcome(const struct replay_view *v)
{
	const struct replay_result *r = v->result;

	if (r->stopped)
		strbuf_adds(v->out, "  stopped: what was launched is counted\n");
	strbuf_adds(v->out, "  ");
	if (r->order_violations)
		sentence_add(v->out, COUNTED_AS(r->order_violations, "kernel"),
			     WORDS(" out of order, which is a fault of replay\n"));
	else
		strbuf_adds(v->out, "all kernels ran in order\n");
	strbuf_adds(v->out, "  the latest call began ");
	human_duration(v->out, r->late_ns);
	strbuf_adds(v->out, " after it was due\n");
}

void replay_text(const struct replay_view *v)
{
	const struct replay_plan *p = v->plan;

	style_add(v->out, v->color, STYLE_BOLD, "replay");
	strbuf_adds(v->out, "  ");
	sentence_add(v->out, COUNTED_AS(p->streams.count, "stream"), WORDS(" of process "));
	strbuf_addf(v->out, "%u%s\n", v->pid,
		    v->result ? "" : ", not executed (--dry-run): this is the plan");
	print_times(v);
	if (v->result)
		print_outcome(v);
	strbuf_addc(v->out, '\n');
	style_add(v->out, v->color, STYLE_BOLD, "time of kernels");
	strbuf_addc(v->out, '\n');
	print_streams(v);
	print_counts(v, v->result ? "executed" : "to execute", kinds, REPLAY_KIND_COUNT,
		     v->result ? v->result->executed : p->counts);
	print_counts(v, "not replayed", skips, SKIP_COUNT, p->skipped);
	print_counts(v, "replayed by something else", substitutions, SUBSTITUTION_COUNT,
		     substituted(v));
}

/* --- JSON --- */

static void add_counts(struct json *j, const char *key, const struct name *names, size_t count,
		       const uint64_t *values)
{
	json_key_object(j, key);
	for (size_t i = 0; i < count; i++)
		json_key_u64(j, names[i].key, values[i]);
	json_end(j);
}

static void add_streams(struct json *j, const struct replay_view *v)
{
	json_key_array(j, "streams");
	for (size_t i = 0; i < v->plan->streams.count; i++) {
		const struct replay_stream *s = &v->plan->streams.data[i];
		const struct replay_stream_result *r = v->result ? &v->result->streams[i] : NULL;

		json_object(j);
		json_key_u64(j, "id", s->id);
		json_key_u64(j, "device", s->device);
		json_key_i64(j, "priority", s->priority);
		json_key_bool(j, "default", s->is_default);
		json_key_u64(j, "operations", s->operations);
		json_key_u64(j, "kernels", s->kernels);
		json_key_u64(j, "recorded_kernel_ns", s->kernel_ns);
		json_key_known(j, "replayed_kernels", r != NULL, r ? r->kernels : 0);
		json_key_known(j, "replayed_kernel_ns", r != NULL, r ? r->kernel_ns : 0);
		json_end(j);
	}
	json_end(j);
}

static void add_result(struct json *j, const struct replay_result *r)
{
	json_key_array(j, "replayed_ns");
	for (size_t i = 0; r && i < r->makespans_ns.count; i++)
		json_u64(j, r->makespans_ns.data[i]);
	json_end(j);
	json_key_known(j, "order_violations", r != NULL, r ? r->order_violations : 0);
	json_key_known(j, "latest_call_ns", r != NULL, r ? r->late_ns : 0);
	json_key_known(j, "gpus", r != NULL, r ? r->gpus : 0);
	json_key_known(j, "timer_step_ns", r != NULL, r ? r->timer_step_ns : 0);
	json_key_known(j, "kernel_extra_ns", r != NULL, r ? r->extra_ns : 0);
	json_key_bool(j, "stopped", r && r->stopped);
}

void replay_json(const struct replay_view *v)
{
	const struct replay_plan *p = v->plan;
	struct json j = JSON_PRETTY(v->out);

	json_object(&j);
	json_key_string(&j, "recording", v->path);
	json_key_u64(&j, "pid", v->pid);
	json_key_bool(&j, "dry_run", !v->result);
	json_key_string(&j, "pace", replay_pace_names[v->settings->pace]);
	json_key_string(&j, "stand_in", replay_stand_in_names[v->settings->stand_in]);
	json_key(&j, "speed");
	json_double(&j, v->settings->speed);
	json_key_u64(&j, "operations", p->work);
	json_key_u64(&j, "recorded_ns", recorded_ns(v));
	json_key_known(&j, "simulated_ns", p->simulated_ns != 0, p->simulated_ns);
	add_result(&j, v->result);
	add_counts(&j, "planned", kinds, REPLAY_KIND_COUNT, p->counts);
	if (v->result)
		add_counts(&j, "executed", kinds, REPLAY_KIND_COUNT, v->result->executed);
	add_counts(&j, "skipped", skips, SKIP_COUNT, p->skipped);
	add_counts(&j, "substituted", substitutions, SUBSTITUTION_COUNT, substituted(v));
	add_streams(&j, v);
	json_finish(&j);
}
