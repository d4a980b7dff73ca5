/* event_records.h: finds the cudaEventRecord call that a synchronization waited for. */
#ifndef PITOT_EXPORT_EVENT_RECORDS_H
#define PITOT_EXPORT_EVENT_RECORDS_H

#include "base/vec.h"
#include "export/export_view.h"

struct cuda_event_key {
	uint64_t process, context, event, correlation, row;
};

struct event_records {
	const struct export_view *view;
	/* of the rows of table cuda_event, sorted in the order of the members */
	VEC(struct cuda_event_key) keys;
};

struct event_record {
	int64_t stream, correlation; /* -1: unknown; the correlation id is unique in the trace */
};

int event_records_init(struct event_records *r,
		       const struct export_view *v) MUST_USE; /* Returns 0 or -ENOMEM. */
void event_records_release(struct event_records *r);
/* Returns the latest record of the synchronization's event, by correlation id, before the row. */
struct event_record event_records_find(const struct event_records *r, size_t process,
				       uint64_t sync_row);

/*
 * Returns the number of the work that ended last while the row of table synchronization waited for
 * its stream or context, or NO_WORK if none ended during the wait. Examines only the last rows that
 * started before the end of the wait.
 */
uint32_t sync_dependency(const struct export_view *v, size_t process, uint64_t sync_row);

#endif
