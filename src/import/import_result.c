/* import_result.c: what an import says at its end. */
#include <stdio.h>

#include "base/path.h"
#include "base/plural.h"
#include "base/search.h"
#include "import/importer.h"

void import_result_release(struct import_result *result)
{
	vec_release(&result->parts);
	strbuf_release(&result->notes);
}

void import_note(struct import_result *result, const char *format, ...)
{
	struct strbuf *notes = &result->notes;
	size_t start;
	va_list args;

	if (notes->length)
		strbuf_addc(notes, '\n');
	start = notes->length;
	va_start(args, format);
	strbuf_vaddf(notes, format, args);
	va_end(args);
	for (size_t i = start; i < notes->length; i++) /* of names of files */
		if (notes->data[i] == '\n')
			notes->data[i] = ' ';
}

int import_add_part(struct import_result *result, const char *path, int64_t rank, int64_t ranks,
		    uint64_t start_ns, uint64_t end_ns, struct error *e)
{
	struct import_part part = {
		.rank = rank, .ranks = ranks, .start_ns = start_ns, .end_ns = end_ns
	};

	snprintf(part.name, sizeof(part.name), "%s", base_name(path));
	return vec_push(&result->parts, part) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}

ORDER(compare_parts, struct import_part, UP(rank) ?: UP(start_ns))

static bool overlap(const struct import_part *a, const struct import_part *b)
{
	return a->start_ns < b->end_ns && b->start_ns < a->end_ns;
}

/* Notes what is wrong with two neighbours in the order of ranks. */
static void compare(struct import_result *result, const struct import_part *a,
		    const struct import_part *b)
{
	if (a->rank == b->rank)
		import_note(result, "rank %lld is in two files, '%s' and '%s', %s",
			    (long long)a->rank, a->name, b->name,
			    overlap(a, b) ? "at the same time: it is counted twice; import one of "
					    "them"
					  : "one after the other");
	else if (!overlap(a, b))
		import_note(result,
			    "ranks %lld and %lld did not run at the same time: '%s' and '%s' may "
			    "be of different runs",
			    (long long)a->rank, (long long)b->rank, a->name, b->name);
	if (a->ranks != b->ranks && a->ranks >= 0 && b->ranks >= 0)
		import_note(result,
			    "'%s' is of a run of %lld rank%s, '%s' of one of %lld: they are of "
			    "different runs",
			    a->name, (long long)a->ranks, plural((uint64_t)a->ranks), b->name,
			    (long long)b->ranks);
}

#define MISSING_SHOWN 8

/* Appends the first ranks that no part has; the parts are in the order of ranks. */
static void add_missing(const struct import_result *result, int64_t ranks, struct strbuf *out)
{
	const struct import_part *p = result->parts.data;
	size_t i = 0, missing = 0;

	for (int64_t rank = 0; rank < ranks && missing <= MISSING_SHOWN; rank++) {
		while (i < result->parts.count && p[i].rank < rank)
			i++;
		if (i < result->parts.count && p[i].rank == rank)
			continue;
		if (missing++ < MISSING_SHOWN)
			strbuf_addf(out, "%s%lld", missing > 1 ? ", " : "", (long long)rank);
		else
			strbuf_adds(out, " and others");
	}
}

void import_note_ranks(struct import_result *result)
{
	const struct import_part *p = result->parts.data;
	_cleanup_strbuf_ struct strbuf missing = STRBUF_INIT;
	size_t count = result->parts.count, ranks = 0;

	vec_sort(&result->parts, compare_parts);
	for (size_t i = 0; i < count; i++) {
		ranks += p[i].rank >= 0 && (!i || p[i].rank != p[i - 1].rank);
		if (i && p[i - 1].rank >= 0)
			compare(result, &p[i - 1], &p[i]);
	}
	if (!ranks || p[count - 1].ranks <= (int64_t)ranks)
		return;
	add_missing(result, p[count - 1].ranks, &missing);
	import_note(result, "%zu of %lld rank%s; missing: %s", ranks, (long long)p[count - 1].ranks,
		    plural((uint64_t)p[count - 1].ranks), strbuf_text(&missing));
}
