/*
 * failing_alloc.h: lets the n-th allocation of a test fail. A test that includes it is linked with
 * --wrap=malloc,calloc,realloc (tests/CMakeLists.txt), which reaches Pitot's own code, not the C
 * library's.
 *
 *	FOR_EACH_FAILURE(n)
 *		run_it_and_check();	// ends after the first run in which no allocation failed
 *
 * Under ThreadSanitizer each seventh fails: threads do the same for each.
 */
#ifndef PITOT_TESTS_FAILING_ALLOC_H
#define PITOT_TESTS_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

static long failing_alloc_left = -1; /* allocations that still succeed; below 0: all */
static bool failing_alloc_failed;
static bool failing_alloc_stays; /* what has failed once fails from then on */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool failing_alloc_now(void)
{
	if (failing_alloc_left < 0)
		return false;
	if (failing_alloc_left > 0) {
		failing_alloc_left--;
		return false;
	}
	failing_alloc_left = failing_alloc_stays ? 0 : -1;
	failing_alloc_failed = true;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return failing_alloc_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return failing_alloc_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return failing_alloc_now() ? NULL : __real_realloc(p, size);
}

/* Allocation number `n` from now on fails, and those after it succeed; -1 lets all succeed. */
static void failing_alloc_at(long n)
{
	failing_alloc_left = n;
	failing_alloc_failed = false;
}

/* Ends the loop of FOR_EACH_FAILURE, which must not take part in what it counts. */
static bool failing_alloc_next(long n)
{
	bool more = n == 0 || failing_alloc_failed;

	failing_alloc_at(more ? n : -1);
	return more;
}

#ifdef __SANITIZE_THREAD__
#define FAILURE_STEP 7
#else
#define FAILURE_STEP 1
#endif

#define FOR_EACH_FAILURE(n) for (long n = 0; failing_alloc_next(n); n += FAILURE_STEP)

#endif
