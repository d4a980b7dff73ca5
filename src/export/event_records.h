/* event_records.h: which recording of a CUDA event a synchronization waited for. */
#ifndef PITOT_EXPORT_EVENT_RECORDS_H
#define PITOT_EXPORT_EVENT_RECORDS_H

#include "export/export_view.h"

struct event_records {
	const struct export_view *view;
	uint32_t *rows; /* of table cuda_event, by process, context, event, correlation */
	size_t count;
};

struct event_record {
	int64_t stream, correlation; /* -1: not known; the correlation id is unique in the trace */
};

int event_records_init(struct event_records *r,
		       const struct export_view *v) MUST_USE; /* 0 or -ENOMEM */
void event_records_release(struct event_records *r);
/* The latest one before a row of table synchronization, by correlation id. */
struct event_record event_records_find(const struct event_records *r, size_t process,
				       uint64_t sync_row);

/*
 * Number of the work that ended last while a row of table synchronization waited for its stream or
 * context, or NO_WORK when none ended during the wait. Only the last work that began before the
 * wait was over is looked at.
 */
uint32_t sync_dependency(const struct export_view *v, size_t process, uint64_t sync_row);

#endif
