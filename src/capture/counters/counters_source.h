/*
 * counters_source.h: readings of GPUs, the machine and the process (src/system), made on the vendor
 * thread, as rows of the tables counter (its id is the metric's) and counter_sample.
 */
#ifndef PITOT_CAPTURE_COUNTERS_COUNTERS_SOURCE_H
#define PITOT_CAPTURE_COUNTERS_COUNTERS_SOURCE_H

#include "capture/core/source.h"

extern const struct source counters_source;

#endif
