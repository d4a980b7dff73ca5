#include "trace/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

void *array_new(uint64_t count, size_t width)
{
	size_t size;
	void *array;

	if (__builtin_mul_overflow(count, width, &size) || size > SIZE_MAX / 2)
		return NULL;
	if (size < 2 * HUGE_PAGE)
		return malloc(MAX(size, 1u));
	array = aligned_alloc(HUGE_PAGE, (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	if (array)
		madvise(array, size, MADV_HUGEPAGE);
	return array;
}

void *array_zeroed(uint64_t count, size_t width)
{
	uint8_t *array = calloc(MAX(count, 1u), width);
	uintptr_t start = ((uintptr_t)array + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);

	if (array && (uintptr_t)array + count * width > start)
		madvise((void *)start, (uintptr_t)array + count * width - start, MADV_HUGEPAGE);
	return array;
}
