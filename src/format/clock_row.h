/* clock_row.h: a reading of all clocks, which every segment has. */
#ifndef PITOT_FORMAT_CLOCK_ROW_H
#define PITOT_FORMAT_CLOCK_ROW_H

#include "format/writer.h"

/* Reads the clocks and appends the row. cupti_ns: what CUPTI's said a moment ago; 0: nothing. */
void clock_row_append(struct writer *w, uint64_t cupti_ns);

#endif
