#include <inttypes.h>
#include <math.h>

#include "base/human.h"
#include "compare/comparison_print.h"

void comparison_value_text(enum quantity_kind kind, double value, struct strbuf *out)
{
	uint64_t whole = value > 0 ? (uint64_t)llround(value) : 0;

	switch (quantity_types[kind].unit) {
	case QUANTITY_NS:
		human_duration(out, whole);
		break;
	case QUANTITY_BYTES:
		human_bytes(out, whole);
		break;
	case QUANTITY_COUNT:
		human_real(out, value);
		break;
	}
}

void comparison_change_text(enum quantity_kind kind, double value, struct strbuf *out)
{
	bool is_zero = quantity_types[kind].unit != QUANTITY_COUNT && fabs(value) < 0.5;

	strbuf_adds(out, is_zero || value == 0 ? "" : value > 0 ? "+" : "-");
	comparison_value_text(kind, fabs(value), out);
}

static void add_ratio(double ratio, struct strbuf *out)
{
	/* Never "-0.0%". */
	strbuf_addf(out, fabs(ratio) < 0.0005 ? "0.0%%" : "%+.1f%%", 100 * ratio);
}

void comparison_ratio_text(const struct comparison_row *row, struct strbuf *out)
{
	if (!row->in_a && row->in_b)
		strbuf_adds(out, "new");
	else if (row->in_a && !row->in_b)
		strbuf_adds(out, "gone");
	else if (isfinite(row->difference.ratio))
		add_ratio(row->difference.ratio, out);
	else
		strbuf_adds(out, "-");
}

void comparison_interval_text(const struct sample_difference *d, struct strbuf *out)
{
	if (!isfinite(d->low) || !isfinite(d->high)) {
		strbuf_adds(out, "-");
		return;
	}
	add_ratio(d->low, out);
	strbuf_adds(out, " to ");
	add_ratio(d->high, out);
}

void comparison_part_text(const struct comparison_row *row, struct strbuf *out)
{
	strbuf_adds(out, row->name);
	if (row->was)
		strbuf_addf(out, " (was %s)", row->was);
}

void comparison_name_text(const struct comparison_row *row, struct strbuf *out)
{
	strbuf_adds(out, quantity_types[row->kind].name);
	if (quantity_types[row->kind].has_parts) {
		strbuf_addc(out, ':');
		comparison_part_text(row, out);
	}
}

/* "+3.4% (95% +2.9% to +3.9%, p 0.008)" */
static void add_evidence(enum quantity_kind kind, const struct sample_difference *d,
			 struct strbuf *out)
{
	if (!isfinite(d->ratio)) {
		comparison_value_text(kind, d->a, out);
		strbuf_adds(out, " in A and ");
		comparison_value_text(kind, d->b, out);
		strbuf_adds(out, " in B");
		return;
	}
	add_ratio(d->ratio, out);
	strbuf_adds(out, " (");
	if (isfinite(d->low)) {
		strbuf_adds(out, "95% ");
		comparison_interval_text(d, out);
		strbuf_adds(out, ", ");
	}
	strbuf_addf(out, "p %.2g)", d->p);
}

/* "a step takes 12.3 ms in B and 11.9 ms in A, +3.4% (95% +2.9% to +3.9%, p 0.008)" */
static void add_step(const struct sample_difference *d, struct strbuf *out)
{
	strbuf_adds(out, "a step takes ");
	comparison_value_text(QUANTITY_step, d->b, out);
	strbuf_adds(out, " in B and ");
	comparison_value_text(QUANTITY_step, d->a, out);
	strbuf_adds(out, " in A, ");
	add_evidence(QUANTITY_step, d, out);
}

void comparison_unsettled_text(const struct comparison *c, struct strbuf *out)
{
	add_step(&comparison_row_of(c, QUANTITY_step)->difference, out);
	strbuf_addf(out, ", which may be chance with so few runs: record %s%zu of each side",
		    c->runs_needed >= COMPARISON_RUNS_MAX ? "more than "
		    : c->runs_needed > SAMPLES_FEW        ? "about "
							  : "",
		    c->runs_needed);
}

void comparison_few_text(const struct comparison *c, struct strbuf *out)
{
	const struct sample_difference *d = &comparison_row_of(c, QUANTITY_step)->difference;

	strbuf_addf(out,
		    "few runs: with fewer than %u of a side, how much runs of one program differ "
		    "is hardly known, and no change of a step below %.1f%% is called a difference",
		    SAMPLES_FEW, d->a > 0 ? 100 * sample_least_change(d, COMPARISON_P) / d->a : 0);
}

void comparison_verdict_text(const struct comparison *c, struct strbuf *out)
{
	static const char *const texts[] = {
		[VERDICT_SAME] = "no difference is shown: ",
		[VERDICT_SLOWER] = "B is slower: ",
		[VERDICT_FASTER] = "B is faster: ",
		[VERDICT_INCONCLUSIVE] = "inconclusive: ",
	};

	strbuf_adds(out, texts[c->verdict]);
	if (c->runs_needed)
		comparison_unsettled_text(c, out);
	else if (c->verdict != VERDICT_INCONCLUSIVE)
		add_step(&comparison_row_of(c, QUANTITY_step)->difference, out);
	for (size_t i = 0; i < c->reasons.count; i++)
		strbuf_addf(out, "%s%s", i ? "; " : "", c->reasons.data[i]);
}

void comparison_condition_text(const struct condition *c, struct strbuf *out)
{
	strbuf_addf(out, "%s: %s", c->text, condition_states[c->state]);
	if (!c->parts) {
		strbuf_adds(out, ", no run has such a quantity");
		return;
	}
	strbuf_adds(out, ", ");
	add_evidence(c->kind, &c->difference, out);
}
