#include "export/event_records.h"

#include <errno.h>

#include "base/search.h"
#include "trace/columns.h"

#define LOOK_BACK 256 /* rows examined per table */

ORDER(by_key, struct cuda_event_key, UP(process) ?: UP(context) ?: UP(event) ?: UP(correlation) ?: UP(row))

int event_records_init(struct event_records *r, const struct export_view *v)
{
	const struct cuda_event_columns *c = cuda_event_columns(v->trace);

	*r = (struct event_records){ .view = v };
	for (struct row_walk w = all_rows(v->trace, TABLE_cuda_event); row_walk_next(&w);)
		if (vec_push(&r->keys, ((struct cuda_event_key){
					       w.process, c->context[w.row], c->event[w.row],
					       c->correlation[w.row], w.row })) < 0)
			return -ENOMEM;
	vec_sort(&r->keys, by_key);
	return 0;
}

void event_records_release(struct event_records *r)
{
	vec_release(&r->keys);
}

struct event_record event_records_find(const struct event_records *r, size_t process,
				       uint64_t sync_row)
{
	const struct export_view *v = r->view;
	const struct event_columns *w = &v->work[WORK_SYNC];
	const struct synchronization_columns *c = synchronization_columns(v->trace);
	const struct cuda_event_key *found, *keys = r->keys.data;
	struct cuda_event_key key;
	size_t low;

	if (!column_has(c->valid.event, sync_row))
		return (struct event_record){ -1, -1 };
	key = (struct cuda_event_key){ process, w->context[sync_row], c->event[sync_row],
				       w->correlation[sync_row], 0 };
	low = sorted_prefix(r->keys.count, i, by_key(&keys[i], &key) < 0);
	found = low ? &keys[low - 1] : &key;
	if (!low || found->process != process || found->context != key.context ||
	    found->event != key.event)
		return (struct event_record){ -1, -1 };
	return (struct event_record){
		cuda_event_columns(v->trace)->stream[found->row],
		(int64_t)export_correlation(v, process, found->correlation),
	};
}

struct wait {
	uint64_t start_ns, end_ns;
	uint32_t context, stream;
	bool any_stream;
};

static bool ended_during(const struct event_columns *w, uint64_t row, const struct wait *wait)
{
	return column_has(w->start_valid, row) && column_has(w->end_valid, row) &&
	       w->end_ns[row] >= wait->start_ns && w->end_ns[row] <= wait->end_ns &&
	       w->context[row] == wait->context &&
	       (wait->any_stream || w->stream[row] == wait->stream);
}

uint32_t sync_dependency(const struct export_view *v, size_t process, uint64_t sync_row)
{
	const struct event_columns *sync = &v->work[WORK_SYNC];
	const uint8_t *kinds = synchronization_columns(v->trace)->kind;
	struct wait wait = { sync->start_ns[sync_row], sync->end_ns[sync_row],
			     sync->context[sync_row], sync->stream[sync_row],
			     kinds[sync_row] == synchronization_kind_context };
	uint32_t last = NO_WORK;
	uint64_t last_end_ns = 0;

	if (kinds[sync_row] != synchronization_kind_stream && !wait.any_stream)
		return NO_WORK;
	for (int k = 0; k < WORK_SYNC; k++) {
		const struct event_columns *w = &v->work[k];
		uint64_t first, row;

		if (!w->rows)
			continue;
		first = trace_first_row(v->trace, w->table, process);
		/* Rows without a time precede all others. */
		row = first +
		      sorted_prefix(trace_first_row(v->trace, w->table, process + 1) - first, i,
				    !column_has(w->start_valid, first + i) ||
					    w->start_ns[first + i] <= wait.end_ns);
		for (unsigned n = 0; row-- > first && n < LOOK_BACK; n++) {
			if (!ended_during(w, row, &wait) || w->end_ns[row] < last_end_ns)
				continue;
			last = work_number(v, w, row);
			last_end_ns = w->end_ns[row];
		}
	}
	return last;
}
