/*
 * pc_rows.h: writes the rows of readings (tables pc_reading and pc_sample) and of the modules that
 * samples refer to (table cubin). Collector's thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_ROWS_H
#define PITOT_CAPTURE_ENGINES_PC_ROWS_H

#include "format/writer.h"

/* Begins a recording. */
void pc_rows_begin(void);
/* Writes rows of all queued readings and new modules. Returns the number of rows. */
uint64_t pc_rows_write(struct writer *w);
void pc_rows_after_fork(void);

#endif
