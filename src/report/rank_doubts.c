#include "report/rank_doubts.h"

#include "analysis/rank_times.h"
#include "report/text.h"
#include "report/words.h"

static uint32_t number_of(const struct report *r, size_t rank)
{
	return r->collectives->ranks[rank].number;
}

#define ABSENT_SHOWN 8

void ranks_add_absent(const struct report *r, struct strbuf *out)
{
	const struct collectives *c = r->collectives;
	_cleanup_strbuf_ struct strbuf list = STRBUF_INIT;
	uint32_t absent = 0, next = 0;

	for (size_t i = 0; i <= c->rank_count; i++) {
		uint32_t rank = i < c->rank_count ? c->ranks[i].number : c->world;
		uint32_t end = MIN(rank, c->world);

		for (; next < end && absent < ABSENT_SHOWN; next++, absent++)
			strbuf_addf(&list, "%s%u", list.length ? ", " : "", next);
		absent += end - MIN(next, end);
		next = MAX(next, rank + 1);
	}
	if (absent)
		sentence_add(out, COUNTED_AS(absent, "rank"), WORDS(" of "), NUMBER(c->world),
			     WORDS(" without collectives in the recording: "),
			     WORDS(strbuf_text(&list)),
			     WORDS(absent > ABSENT_SHOWN ? " and others\n" : "\n"));
}

void ranks_add_host(const struct report *r, const struct job_host *h, struct strbuf *out)
{
	const struct interned *name = &r->collectives->texts.items[h->name];

	text_safe(out, name->text, name->length);
}

/* "; CLOCK_REALTIME of node7 is not synchronized: …" */
static void add_unsynchronized(const struct report *r, struct strbuf *out)
{
	const struct collectives *c = r->collectives;
	const char *before = "; CLOCK_REALTIME of ";

	for (size_t i = 0; i < c->host_count; i++) {
		if (!c->hosts[i].realtime.unsynchronized)
			continue;
		strbuf_adds(out, before);
		ranks_add_host(r, &c->hosts[i], out);
		before = ", ";
	}
	strbuf_adds(out, *before == ',' ? " is not synchronized: start chronyd there\n" : "\n");
}

/* "the clocks of the hosts could not be aligned: CLOCK_REALTIME of node7 was not set …" */
static void add_unaligned(const struct report *r, struct strbuf *out)
{
	const struct collectives *c = r->collectives;
	const char *before = ": CLOCK_REALTIME of ";

	strbuf_adds(out, "the clocks of the hosts could not be aligned");
	for (size_t i = 0; i < c->host_count; i++) {
		if (c->hosts[i].has_realtime)
			continue;
		strbuf_adds(out, before);
		ranks_add_host(r, &c->hosts[i], out);
		before = ", ";
	}
	strbuf_adds(out, *before == ',' ? " was not set or not recorded, and too few collectives "
					  "of all of them bound it"
					: "");
	add_unsynchronized(r, out);
}

void ranks_add_unknown(const struct report *r, struct strbuf *out)
{
	const struct collectives *c = r->collectives;

	strbuf_adds(out, "ranks cannot be compared: ");
	if (c->mixed && c->repeated)
		sentence_add(
			out, WORDS("rank "), NUMBER(number_of(r, c->repeated)),
			WORDS(" is there more than once: the recording has several runs; record "
			      "each into a folder of its own\n"));
	else if (c->mixed)
		strbuf_adds(out,
			    "they are of several jobs, or of runs of several sizes (pitot view "
			    "RECORDING process)\n");
	else if (c->uncertainty_ns == UINT64_MAX)
		add_unaligned(r, out);
	else if (!c->whole)
		strbuf_adds(out, "no collective has the parts of all of its ranks\n");
	else if (r->rank_times->contradicted)
		sentence_add(out, WORDS("their critical path is mostly on rank "),
			     NUMBER(number_of(r, r->rank_times->path_rank)),
			     WORDS(", but the others wait mostly for rank "),
			     NUMBER(number_of(r, r->rank_times->rank)), WORDS("\n"));
	else if (r->rank_times->uncertain)
		sentence_add(out, WORDS("they arrive at "), NUMBER(r->rank_times->uncertain),
			     WORDS(" of "), COUNTED_AS(r->rank_times->compared, "collective"),
			     WORDS(" within the uncertainty of their clocks, "),
			     DURATION(c->uncertainty_ns), WORDS("\n"));
	else
		strbuf_adds(out, "too few collectives after the start-up\n");
}

/* Ranks are in the order of their numbers. */
void ranks_add_restarted(const struct collectives *c, struct strbuf *out)
{
	const struct job_rank *ranks = c->ranks;
	uint32_t number = ranks[c->repeated].number;
	size_t count = 0;

	for (size_t i = 1; i < c->rank_count; i++)
		count += ranks[i].number == ranks[i - 1].number &&
			 (i < 2 || ranks[i - 2].number != ranks[i].number);
	if (count == 1)
		strbuf_addf(out, "rank %u was restarted\n", number);
	else
		sentence_add(out, COUNTED_AS(count, "rank"),
			     WORDS(" were restarted, such as rank "), NUMBER(number), WORDS("\n"));
}
