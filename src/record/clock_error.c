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
	row->unsynchronized = (t->status & STA_UNSYNC) != 0;
	row->offset_ns = (int64_t)t->offset * (t->status & STA_NANO ? 1 : (int64_t)NS_PER_US);
	row->tai_s = t->tai;
	ROW_PRESENT(row, clock, unsynchronized);
	ROW_PRESENT(row, clock, offset_ns);
	if (t->tai)
		ROW_PRESENT(row, clock, tai_s);
	if (t->maxerror < 0 || t->esterror < 0)
		return;
	row->max_error_ns = (uint64_t)t->maxerror * NS_PER_US;
	row->estimated_error_ns = (uint64_t)t->esterror * NS_PER_US;
	ROW_PRESENT(row, clock, max_error_ns);
	ROW_PRESENT(row, clock, estimated_error_ns);
}

void record_write_clock(struct writer *w)
{
	struct row_clock row = rows_read_clocks();
	struct timex t = { .modes = 0 };

	if (adjtimex(&t) >= 0)
		add_error(&row, &t);
	writer_append(w, TABLE_clock, &row);
}
