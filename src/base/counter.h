/*
 * counter.h: counters with any number of readers and one writer, which needs no locked instruction.
 */
#ifndef PITOT_BASE_COUNTER_H
#define PITOT_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

#include "arch/processor.h"

static inline void counter_add(atomic_uint_fast64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/*
 * These are for values that one thread changes, and signal handlers that interrupt it
 * (arch/processor.h).
 */
#ifdef __SANITIZE_THREAD__
#define COUNTER_CHANGE_(name, here, otherwise)                                                     \
	static inline void name(atomic_uint_fast64_t *value, uint64_t by)                          \
	{                                                                                          \
		otherwise(value, by);                                                              \
	}
#else
#define COUNTER_CHANGE_(name, here, otherwise)                                                     \
	static inline void name(atomic_uint_fast64_t *value, uint64_t by)                          \
	{                                                                                          \
		here(value, by);                                                                   \
	}
#endif
COUNTER_CHANGE_(counter_add_here, ARCH_ADD_HERE, atomic_fetch_add)
COUNTER_CHANGE_(counter_set_bits_here, ARCH_OR_HERE, atomic_fetch_or)
COUNTER_CHANGE_(counter_keep_bits_here, ARCH_AND_HERE, atomic_fetch_and)

#endif
