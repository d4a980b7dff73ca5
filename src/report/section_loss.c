/* section_loss.c: known losses. */
#include "report/section.h"

#include <string.h>

#include "analysis/busy.h"
#include "analysis/cost.h"
#include "report/words.h"
#include "schema/event_words.h"

static void print_untimed(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!v->report->busy->untimed)
		return;
	sentence_add(&line, COUNTED_AS(v->report->busy->untimed, "GPU operation"),
		     WORDS(" without times: counted, but not included in any sum"));
	report_gap(v);
	report_labelled(v, STYLE_YELLOW, "untimed", strbuf_text(&line));
}

static const enum style styles[] = {
	[LOSS_CHANGES_NOTHING] = STYLE_GREEN,
	[LOSS_CHANGES_SOME] = STYLE_YELLOW,
	[LOSS_UNSAFE] = STYLE_RED,
};

static void add_loss(struct strbuf *line, const struct loss_sum *l)
{
	loss_sum_text(l, line);
	if (*l->detail) {
		strbuf_adds(line, " (");
		text_safe(line, l->detail, strlen(l->detail));
		strbuf_addc(line, ')');
	}
	if (l->effect == LOSS_CHANGES_NOTHING)
		strbuf_adds(line, "; no figure changes");
}

static void print_losses(const struct report_view *v)
{
	const struct cost *c = v->report->cost;

	report_gap(v);
	if (!c->loss_count) {
		report_labelled(v, STYLE_GREEN, "loss", "nothing lost");
		return;
	}
	for (size_t i = 0; i < MIN(c->loss_count, v->top); i++) {
		const struct loss_sum *l = &c->losses[i];
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		add_loss(&line, l);
		report_labelled(v, styles[l->effect], i ? "" : "loss", strbuf_text(&line));
	}
	if (c->loss_count > v->top) {
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		sentence_add(&line, COUNTED_AS(c->loss_count - v->top, "more kind"),
			     WORDS("; to list them: pitot info"));
		report_labelled(v, styles[c->effect], "", strbuf_text(&line));
	}
}

/* Prints how the program's own profiler shared CUPTI, if that caused no loss. */
static void print_own_profiler(const struct report_view *v)
{
	const struct capability_note *own = &v->report->cost->own_profiler;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!own->known || own->state != capability_state_on)
		return;
	text_safe(&line, own->reason, strlen(own->reason));
	report_labelled(v, STYLE_NONE, "profiler", strbuf_text(&line));
}

static void print(const struct report_view *v)
{
	print_untimed(v);
	print_losses(v);
	print_own_profiler(v);
}

#define LOSS(member) MEMBER(struct loss_sum, member)

static const struct field loss_fields[] = {
	FIELD("reason", NULL, CHOICE, LOSS(reason), .names = loss_name),
	FIELD("effect", NULL, CHOICE, LOSS(effect), .names = loss_effect_name),
	FIELD("count", NULL, COUNT, LOSS(count)),
	FIELD("count_is_least", NULL, FLAG, LOSS(unknown)),
	FIELD("detail", NULL, TEXT, LOSS(detail)),
	FIELD("start_ns", NULL, TIME, LOSS(start_ns)),
	FIELD("end_ns", NULL, TIME, LOSS(end_ns)),
};

static const struct field fields[] = {
	FIELD("loss_effect", NULL, CHOICE, MEMBER(struct cost, effect), .names = loss_effect_name),
	LIST("loss", ITEMS(struct cost, losses, loss_count), loss_fields, .all = true),
};

const struct section section_loss = { RESULT(cost), FIELDS(fields), .text = print };
