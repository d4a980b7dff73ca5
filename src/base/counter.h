/*
 * counter.h: counters with any number of readers and one writer, which needs no locked instruction.
 */
#ifndef PITOT_BASE_COUNTER_H
#define PITOT_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

static inline void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

#endif
