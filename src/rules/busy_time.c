#include "rules/busy_time.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/search.h"

#define SPANS_MAX ((size_t)1 << 20)

/* Index of the first span that ends at `start_ns` or later; work mostly comes in order. */
static size_t find(const struct busy_time *b, uint64_t start_ns)
{
	size_t count = b->spans.count;

	if (count && b->spans.data[count - 1].end_ns < start_ns)
		return count;
	return sorted_prefix(count, i, b->spans.data[i].end_ns < start_ns);
}

static void remove_spans(struct busy_time *b, size_t at, size_t count)
{
	b->spans.count -= count;
	memmove(b->spans.data + at, b->spans.data + at + count,
		(b->spans.count - at) * sizeof(b->spans.data[0]));
}

int busy_time_add(struct busy_time *b, uint64_t start_ns, uint64_t end_ns)
{
	struct busy_span span = { start_ns, end_ns };
	size_t at = find(b, start_ns), until = at;

	for (; until < b->spans.count && b->spans.data[until].start_ns <= end_ns; until++) {
		span.start_ns = MIN(span.start_ns, b->spans.data[until].start_ns);
		span.end_ns = MAX(span.end_ns, b->spans.data[until].end_ns);
	}
	if (until > at) {
		b->spans.data[at] = span;
		remove_spans(b, at + 1, until - at - 1);
		return 0;
	}
	if (b->spans.count >= SPANS_MAX)
		return E_LIMIT;
	if (vec_push(&b->spans, span) < 0)
		return -ENOMEM;
	memmove(b->spans.data + at + 1, b->spans.data + at,
		(b->spans.count - 1 - at) * sizeof(span));
	b->spans.data[at] = span;
	return 0;
}

uint64_t busy_time_take(struct busy_time *b, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t busy_ns = 0;
	size_t done = 0;

	for (size_t i = 0; i < b->spans.count && b->spans.data[i].start_ns < end_ns; i++) {
		const struct busy_span *s = &b->spans.data[i];
		uint64_t from = MAX(s->start_ns, start_ns), until = MIN(s->end_ns, end_ns);

		busy_ns += until > from ? until - from : 0;
		done += s->end_ns <= end_ns;
	}
	remove_spans(b, 0, done);
	return busy_ns;
}

void busy_time_release(struct busy_time *b)
{
	vec_release(&b->spans);
}
