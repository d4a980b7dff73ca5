/*
 * layouts.h: where activity records keep their times and correlation ids, and how long they are in
 * which CUPTI.
 */
#ifndef PITOT_TESTS_STANDIN_LAYOUTS_H
#define PITOT_TESTS_STANDIN_LAYOUTS_H

#include "base/compiler.h"

#define KINDS_MAX 64 /* CUPTI's kinds are below */
#define RECORD_GROWTH_MAX 256 /* what record_size_in adds at most */

/* Calls visit(record + offset, user) for each 64-bit time of a record, start before end. */
void record_times(uint8_t *record, size_t size, void (*visit)(uint8_t *time, void *user),
		  void *user);
/* Adds to each 32-bit correlation id. */
void record_shift_correlation(uint8_t *record, size_t size, uint32_t shift);
/* The highest of them. */
uint32_t record_correlation(const uint8_t *record, size_t size);
/* Offset of the start; the end follows it. 0: the kind has no such pair. */
unsigned record_start_offset(uint32_t kind);

/*
 * Size of a record of that kind in the CUPTI of cuptiGetVersion `version`. `recorded`, its size on
 * the tape, where that is not known. Versions after 13.0 were not seen: there every family is 8
 * bytes longer with each minor version.
 */
size_t record_size_in(uint32_t kind, uint32_t version, size_t recorded);

const char *kind_name(uint32_t kind); /* "KIND_7" for unnamed ones: not for several at once */

#endif
