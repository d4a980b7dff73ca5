/*
 * clock_error.c: what the OS kernel knows of the error of CLOCK_REALTIME. The recorder asks it in
 * its own process only: filters of system calls of recorded programs may kill them for it.
 */
#include "record/recording.h"

#include <sys/timex.h>

#include "base/clock.h"
#include "format/rows.h"

static void add_error(struct row_clock *row, const struct timex *t)
{
	ROW_SET(row, clock, unsynchronized, (t->status & STA_UNSYNC) != 0);
	ROW_SET(row, clock, offset_ns,
		(int64_t)t->offset * (t->status & STA_NANO ? 1 : (int64_t)NS_PER_US));
	ROW_SET_IF(row, clock, tai_s, t->tai);
	if (t->maxerror < 0 || t->esterror < 0)
		return;
	ROW_SET(row, clock, max_error_ns, (uint64_t)t->maxerror * NS_PER_US);
	ROW_SET(row, clock, estimated_error_ns, (uint64_t)t->esterror * NS_PER_US);
}

void record_write_clock(struct writer *w)
{
	struct row_clock row = rows_read_clocks();
	struct timex t = { .modes = 0 };

	if (adjtimex(&t) >= 0)
		add_error(&row, &t);
	writer_append(w, TABLE_clock, &row);
}
