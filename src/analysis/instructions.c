#include "analysis/instructions.h"

#include "analysis/report.h"
#include "analysis/sentence.h"
#include "base/path.h"
#include "names/demangle.h"

size_t instruction_hints(const struct stalls *s,
			 struct instruction_hint hints[INSTRUCTION_HINTS_MAX])
{
	const struct stall_places *places = s->source.count ? &s->source : &s->instructions;
	size_t n = 0;

	for (size_t i = 0; i < places->count; i++) {
		const struct stall_place *p = &places->items[i];

		if (n < INSTRUCTION_HINTS_MAX && sass_is_divergent(&p->sass, &s->sass))
			hints[n++] = (struct instruction_hint){ true, p, &s->sass };
		if (n < INSTRUCTION_HINTS_MAX && sass_is_uncoalesced(&p->sass, &s->sass))
			hints[n++] = (struct instruction_hint){ false, p, &s->sass };
	}
	return n;
}

const char *instruction_hint_kind(const struct instruction_hint *h)
{
	return h->is_divergent ? "divergent" : "uncoalesced";
}

void instruction_hint_text(const struct instruction_hint *h, struct strbuf *out)
{
	const struct stall_place *p = h->place;

	strbuf_addf(out, "%s: ", instruction_hint_kind(h));
	if (h->is_divergent) {
		sass_threads_text(&p->sass, out);
		strbuf_addf(out, " of %u threads, ", SASS_THREADS_MOST);
	} else {
		sass_sectors_text(&p->sass, out);
		strbuf_adds(out, " sectors instead of 1.0, ");
	}
	if (p->file) {
		strbuf_addf(out, "%s:%u", base_name(p->file), p->line);
	} else {
		kernel_name_text(p->kernel_name, false, out);
		strbuf_addf(out, "+0x%llx", (unsigned long long)p->offset);
	}
}

void instruction_hint_evidence(const struct instruction_hint *h, struct strbuf *out)
{
	const uint64_t *of = h->place->sass.of, *whole = h->whole->of;

	if (h->is_divergent)
		sentence_add(out, NUMBER(of[SASS_EXECUTED]), WORDS(" warp instructions, "),
			     PERCENT(of[SASS_EXECUTED], whole[SASS_EXECUTED]), WORDS(" of all"));
	else
		sentence_add(out, NUMBER(of[SASS_RATED]), WORDS(" sectors instead of "),
			     NUMBER(of[SASS_IDEAL]), WORDS(", "),
			     PERCENT(of[SASS_RATED], whole[SASS_RATED]), WORDS(" of all"));
}

static int run(struct report *r, void *result)
{
	struct instructions *out = result;
	int rc;

	if (!trace_rows(r->trace, TABLE_sass_value))
		return 0;
	rc = stalls_init(&out->stalls, &r->selection, STALLS_SASS);
	if (rc == 0)
		out->hint_count = instruction_hints(&out->stalls, out->hints);
	return rc;
}

static void release(void *result)
{
	stalls_release(&((struct instructions *)result)->stalls);
}

/* In addition to the tables of stalls. */
const struct analysis analysis_instructions = {
	.size = sizeof(struct instructions),
	.needs = { { TABLE_metric, 0 }, { TABLE_sass_value, 0 } },
	.run = run,
	.release = release,
};
