/*
 * pc_rows.h: rows of readings (tables pc_reading and pc_sample) and of the code that they lead to
 * (cubin). The collector's thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_ROWS_H
#define PITOT_CAPTURE_ENGINES_PC_ROWS_H

#include "format/writer.h"

/* A new recording. */
void pc_rows_begin(void);
/* Writes what there is. Returns how many rows that was. */
uint64_t pc_rows_write(struct writer *w);
void pc_rows_after_fork(void);

#endif
