/* toy_source.h: what the toy source saw. */
#ifndef PITOT_TESTS_TOY_SOURCE_H
#define PITOT_TESTS_TOY_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TOY_COUNTER 77u

extern struct toy_source {
	atomic_bool open;
	_Atomic(const char *) no_library, no_engine; /* what it refuses when extended */
	atomic_uint starts, windows; /* times that it was told */
	atomic_uint_fast64_t stacks, counters_ns, perf; /* wanted together */
	atomic_int_fast64_t samples; /* the last value */
} toy;

extern atomic_bool toy_sink_hangs; /* while it opens toy:hangs */
extern struct counting_sink *toy_sink; /* the last one that was opened by its name */

#endif
