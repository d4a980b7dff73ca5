/*
 * layouts.h: offsets of times and correlation ids in activity records, and sizes of records by
 * CUPTI version.
 */
#ifndef PITOT_TESTS_STANDIN_LAYOUTS_H
#define PITOT_TESTS_STANDIN_LAYOUTS_H

#include "base/compiler.h"

#define KINDS_MAX 64 /* CUPTI's kinds are below */
#define RECORD_GROWTH_MAX 256 /* most bytes that record_size_in() adds */

/* Calls visit(record + offset, user) for each 64-bit time of a record, start before end. */
void record_times(uint8_t *record, size_t size, void (*visit)(uint8_t *time, void *user),
		  void *user);
/* Adds `shift` to each 32-bit correlation id. */
void record_shift_correlation(uint8_t *record, size_t size, uint32_t shift);
/* Returns the highest correlation id. */
uint32_t record_correlation(const uint8_t *record, size_t size);
/* Returns the offset of the start, which the end follows; 0: the kind has no such pair. */
unsigned record_start_offset(uint32_t kind);

/*
 * Returns the size of a record of that kind in the CUPTI with cuptiGetVersion `version`, or
 * `recorded`, its size on the tape, if that is unknown. After 13.0 each family is assumed to grow
 * by 8 bytes per minor version.
 */
size_t record_size_in(uint32_t kind, uint32_t version, size_t recorded);

const char *kind_name(uint32_t kind); /* "KIND_7" for unnamed kinds, in a static buffer */

#endif
