/* array.h: arrays of one value per row, on huge pages if they are large; freed with free(). */
#ifndef PITOT_TRACE_ARRAY_H
#define PITOT_TRACE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* NULL: out of memory. */
void *array_new(uint64_t count, size_t width) MUST_USE;
/* Like array_new, but zeroed; pages that are never written take no memory. */
void *array_zeroed(uint64_t count, size_t width) MUST_USE;

#endif
