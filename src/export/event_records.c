#include "export/event_records.h"

#include <errno.h>

#include "base/search.h"
#include "trace/columns.h"

struct record_key {
	uint64_t process, context, event, correlation;
};

static struct record_key key_of(const struct trace *t, uint32_t row)
{
	const struct cuda_event_columns *e = cuda_event_columns(t);
	return (struct record_key){
		trace_row_process(t, TABLE_cuda_event, row),
		e->context[row],
		e->event[row],
		e->correlation[row],
	};
}

static int compare(const struct record_key *a, const struct record_key *b)
{
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->context != b->context)
		return a->context < b->context ? -1 : 1;
	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int by_key(const void *a, const void *b, void *user)
{
	const struct trace *t = user;
	struct record_key x = key_of(t, *(const uint32_t *)a), y = key_of(t, *(const uint32_t *)b);

	return compare(&x, &y);
}

int event_records_init(struct event_records *r, const struct export_view *v)
{
	uint64_t count = trace_rows(v->trace, TABLE_cuda_event);

	*r = (struct event_records){ .view = v, .count = count };
	r->rows = malloc((count + 1) * sizeof(*r->rows));
	if (!r->rows)
		return -ENOMEM;
	for (uint64_t row = 0; row < count; row++)
		r->rows[row] = (uint32_t)row;
	qsort_r(r->rows, count, sizeof(*r->rows), by_key, v->trace);
	return 0;
}

void event_records_release(struct event_records *r)
{
	free(r->rows);
	r->rows = NULL;
}

struct event_record event_records_find(const struct event_records *r, size_t process,
				       uint64_t sync_row)
{
	const struct export_view *v = r->view;
	const struct event_columns *w = &v->work[WORK_SYNC];
	const uint32_t *events = synchronization_columns(v->trace)->event;
	struct event_record none = { -1, -1 };
	struct record_key key, found;
	size_t low;

	if (!column_has(synchronization_columns(v->trace)->valid.event, sync_row))
		return none;
	key = (struct record_key){ process, w->context[sync_row], events[sync_row],
				   w->correlation[sync_row] };
	low = sorted_prefix(r->count, i,
			    (found = key_of(v->trace, r->rows[i]), compare(&found, &key) < 0));
	if (!low)
		return none;
	found = key_of(v->trace, r->rows[low - 1]);
	if (found.process != key.process || found.context != key.context ||
	    found.event != key.event)
		return none;
	return (struct event_record){
		cuda_event_columns(v->trace)->stream[r->rows[low - 1]],
		(int64_t)export_correlation(v, process, found.correlation),
	};
}
