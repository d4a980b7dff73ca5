#include <string.h>

#include "analysis/sentence.h"
#include "base/human.h"
#include "base/json.h"
#include "compare/determinism.h"
#include "report/text_table.h"

#define DIFFERENCES_SHOWN 8u
#define FRAMES_SHOWN 8u

static const struct {
	const char *key, *text;
} levels[] = {
#define LEVEL(name_, text_) { #name_, text_ },
	DETERMINISM_LEVELS(LEVEL)
#undef LEVEL
};
static const char *const states[] = { "same", "different", "unknown" };

static const struct launch_sequence *sequence_of(const struct launch_order *o,
						 const struct order_difference *d)
{
	if (d->level == LEVEL_allocations)
		return &o->allocations;
	if (d->level == LEVEL_threads)
		return d->sequence < o->threads.count ? &o->threads.data[d->sequence] : NULL;
	return d->sequence < o->streams.count ? &o->streams.data[d->sequence] : NULL;
}

/* The step at which the sequences differ; NULL: the run's has ended. */
static const struct launch_step *step_of(const struct launch_order *o,
					 const struct order_difference *d)
{
	const struct launch_sequence *s = sequence_of(o, d);

	return s && d->at < s->steps.count ? &s->steps.data[d->at] : NULL;
}

static void add_what(const struct launch_order *o, const struct order_difference *d,
		     const struct launch_step *s, struct strbuf *out)
{
	const struct allocation_columns *a = allocation_columns(o->report.trace);

	if (!s)
		strbuf_adds(out, "nothing: it has ended");
	else if (d->level != LEVEL_allocations)
		launch_step_text(o, s, out);
	else
		sentence_add(out,
			     WORDS(a->operation[s->task] == memory_operation_release
					   ? "release of "
					   : "allocation of "),
			     COUNTED_AS(a->bytes[s->task], "byte"));
}

/* Calls visit(user, frame) for the frames of the call, innermost first. 0 or -ENOMEM. */
static int visit_stack(struct launch_order *o, const struct order_difference *d,
		       const struct launch_step *s, void (*visit)(void *user, const char *frame),
		       void *user)
{
	struct callers *c = &o->report.callers;
	uint32_t call = s && d->level != LEVEL_allocations ? launch_step_call(o, s) : TRACE_NO_ROW,
		 node = TRACE_NO_ROW;
	enum stack_end end;
	int code = 0;

	if (call != TRACE_NO_ROW && c->call_stacks && column_has(c->call_stacks_valid, call))
		code = stacks_find(&c->stacks, o->process, c->call_stacks[call], &node, &end);
	while (code >= 0 && node != TRACE_NO_ROW) {
		int64_t id = stacks_expand(&c->stacks, o->process, node);
		const struct stack_expansion *x;

		if (id < 0)
			return -ENOMEM;
		x = &c->stacks.expansions.data[id];
		for (uint32_t i = x->count; i-- > 0;)
			visit(user, stacks_text(&c->stacks,
						c->stacks.frames
							.data[c->stacks.expanded.data[x->first + i]]
							.name));
		code = stacks_parent(&c->stacks, o->process, node, &node);
	}
	return code;
}

/* --- text --- */

struct frames {
	struct strbuf *out;
	unsigned count;
};

static void print_frame(void *user, const char *frame)
{
	struct frames *f = user;

	if (f->count++ >= FRAMES_SHOWN)
		return;
	strbuf_adds(f->out, "        ");
	text_safe(f->out, frame, strlen(frame));
	strbuf_addc(f->out, '\n');
}

static void print_side(struct launch_order *o, const char *side, const struct order_difference *d,
		       struct strbuf *out)
{
	const struct launch_step *s = step_of(o, d);
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT;
	struct frames frames = { out, 0 };
	uint32_t number = s && d->level != LEVEL_allocations ? launch_step_number(o, s) : 0;

	add_what(o, d, s, &what);
	strbuf_addf(out, "    %s  ", side);
	text_safe(out, strbuf_text(&what), what.length);
	if (number)
		strbuf_addf(out, ", in step %u", number);
	strbuf_addc(out, '\n');
	if (visit_stack(o, d, s, print_frame, &frames) < 0)
		out->failed = true;
}

static void print_difference(const struct determinism *d, const struct order_difference *x,
			     struct strbuf *out)
{
	const struct launch_sequence *a = sequence_of(d->a, x), *b = sequence_of(d->b, x);
	const struct launch_sequence *known = a ? a : b;

	strbuf_adds(out, "\n  ");
	if (x->level == LEVEL_allocations)
		strbuf_adds(out, "allocations");
	else
		strbuf_addf(out, "%s %u", x->level == LEVEL_threads ? "thread" : "stream",
			    known->id);
	strbuf_adds(out, " from number ");
	human_count(out, x->at + 1);
	sentence_add(out, WORDS(x->is_limited ? " on: at least " : " on: "), NUMBER(x->inserted),
		     WORDS(" inserted, "), NUMBER(x->deleted), WORDS(" deleted\n"));
	print_side(d->a, "A", x, out);
	print_side(d->b, "B", x, out);
}

void determinism_text(const struct determinism *d, const char *path_a, const char *path_b,
		      unsigned width, bool color, struct strbuf *out)
{
	static const struct text_column columns[] = { RIGHT("level"), LEFT(""), FLEXIBLE("") };
	struct text_table t = TEXT_TABLE_INIT(columns);
	size_t shown = 0;

	style_add(out, color, STYLE_BOLD, "determinism");
	strbuf_adds(out, "  A ");
	text_safe(out, path_a, strlen(path_a));
	strbuf_adds(out, ", B ");
	text_safe(out, path_b, strlen(path_b));
	if (d->reached < 0)
		strbuf_adds(out, ": no level is reached\n");
	else
		strbuf_addf(out, ": level %d of %d is reached\n", d->reached, LEVEL_COUNT - 1);
	for (unsigned i = 0; i < LEVEL_COUNT; i++) {
		text_table_count(&t, i);
		text_table_add(&t, states[d->levels[i]]);
		text_table_add(&t, levels[i].text);
	}
	text_table_print(&t, 2, width, color, out);
	text_table_release(&t);
	if (d->levels[LEVEL_allocations] == LEVEL_UNKNOWN)
		strbuf_adds(out, "  allocations are recorded with --memory\n");
	if (d->only_a || d->only_b) {
		strbuf_adds(out, "  ");
		sentence_add(out, COUNTED_AS(d->only_a, "kernel"), WORDS(" only in A, "),
			     NUMBER(d->only_b), WORDS(" only in B\n"));
	}
	for (size_t i = 0; i < d->differences.count && shown < DIFFERENCES_SHOWN; i++, shown++)
		print_difference(d, &d->differences.data[i], out);
	if (shown < d->differences.count)
		strbuf_addf(out, "\n  and %zu more, see --json\n", d->differences.count - shown);
}

/* --- JSON --- */

static void add_frame(void *user, const char *frame)
{
	json_string(user, frame);
}

static void add_side(struct json *j, const char *key, struct launch_order *o,
		     const struct order_difference *d)
{
	const struct launch_step *s = step_of(o, d);
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT;
	uint32_t number = s && d->level != LEVEL_allocations ? launch_step_number(o, s) : 0;

	json_key(j, key);
	if (!s) {
		json_null(j);
		return;
	}
	add_what(o, d, s, &what);
	json_object(j);
	json_key_string(j, "what", strbuf_text(&what));
	json_key_known(j, "step", number != 0, number);
	json_key_array(j, "stack");
	if (visit_stack(o, d, s, add_frame, j) < 0)
		j->out->failed = true;
	json_end(j);
	json_end(j);
}

static void add_id(struct json *j, const char *key, const struct launch_sequence *s)
{
	json_key_known(j, key, s != NULL, s ? s->id : 0);
}

void determinism_json(const struct determinism *d, const char *path_a, const char *path_b,
		      struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_string(&j, "a", path_a);
	json_key_string(&j, "b", path_b);
	json_key_known(&j, "level", d->reached >= 0, (uint64_t)d->reached);
	json_key_object(&j, "levels");
	for (unsigned i = 0; i < LEVEL_COUNT; i++)
		json_key_string(&j, levels[i].key, states[d->levels[i]]);
	json_end(&j);
	json_key_u64(&j, "kernels_only_a", d->only_a);
	json_key_u64(&j, "kernels_only_b", d->only_b);
	json_key_u64(&j, "masked_names", MAX(d->a->masked, d->b->masked));
	json_key_array(&j, "differences");
	for (size_t i = 0; i < d->differences.count; i++) {
		const struct order_difference *x = &d->differences.data[i];

		json_object(&j);
		json_key_string(&j, "level", levels[x->level].key);
		add_id(&j, "id_a", sequence_of(d->a, x));
		add_id(&j, "id_b", sequence_of(d->b, x));
		json_key_u64(&j, "at", x->at + 1);
		json_key_u64(&j, "inserted", x->inserted);
		json_key_u64(&j, "deleted", x->deleted);
		json_key_bool(&j, "at_least", x->is_limited);
		add_side(&j, "in_a", d->a, x);
		add_side(&j, "in_b", d->b, x);
		json_end(&j);
	}
	json_finish(&j);
}
