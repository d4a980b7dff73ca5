/*
 * correlation.h: CUPTI's correlation ids are 32 bits and wrap (after 13 hours of eager training); those in rows are 64. An id
 * belongs to the epoch in which it is nearest to the latest one: what is in flight at a time is less than half of all ids.
 * Collector's thread.
 */
#ifndef PITOT_CAPTURE_CUDA_CORRELATION_H
#define PITOT_CAPTURE_CUDA_CORRELATION_H

#include "base/compiler.h"

extern uint64_t correlation_latest;

/* 0 stays 0: there is none. */
static inline uint64_t correlation_widen(uint32_t id)
{
	uint64_t wide = correlation_latest + (uint64_t)(int64_t)(int32_t)(id - (uint32_t)correlation_latest);

	if (id == 0)
		return 0;
	if (correlation_latest == 0)
		wide = id; /* the first of all may be anything */
	else if ((int64_t)wide < 0)
		return id; /* of before the first */
	if (wide > correlation_latest)
		correlation_latest = wide;
	return wide;
}

#endif
