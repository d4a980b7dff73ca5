/* kineto_begun.c: ranges whose beginning and end are events of their own. */
#include "import/kineto/kineto.h"

int kineto_begin_range(struct kineto *k, uint64_t key, uint32_t tid, const struct kineto_span *span)
{
	uint64_t *last = map_at(&k->begun, key, 0);
	struct kineto_begun begun = { .span = *span, .tid = tid };

	if (!last)
		return -ENOMEM;
	if (k->all_begun.count >= KINETO_WORK_MAX) {
		kineto_count(k, KINETO_NO_ROOM_COUNT);
		return 0;
	}
	begun.before = *last;
	if (vec_push(&k->all_begun, begun) < 0)
		return -ENOMEM;
	*last = k->all_begun.count;
	return 0;
}

static void end_range(struct kineto *k, struct kineto_begun *begun, uint64_t end_ns)
{
	begun->span.end_ns = MAX(begun->span.start_ns, end_ns);
	kineto_add_span(k, begun->tid, &begun->span);
	begun->has_ended = true;
}

void kineto_end_range(struct kineto *k, uint64_t key, uint64_t end_ns)
{
	uint64_t none = 0, *last = map_at(&k->begun, key, 0);
	struct kineto_begun *begun;

	if (!last)
		last = &none;
	if (!*last) {
		kineto_count(k, KINETO_UNPAIRED_COUNT);
		return;
	}
	begun = &k->all_begun.data[*last - 1];
	*last = begun->before;
	end_range(k, begun, end_ns);
	while (k->all_begun.count && k->all_begun.data[k->all_begun.count - 1].has_ended)
		k->all_begun.count--;
}

void kineto_end_ranges(struct kineto *k)
{
	for (size_t i = 0; i < k->all_begun.count; i++) {
		if (k->all_begun.data[i].has_ended)
			continue;
		kineto_count(k, KINETO_UNENDED_COUNT);
		end_range(k, &k->all_begun.data[i], k->last_ns);
	}
}
