/* compiler.h: attributes and small macros that every file uses. */
#ifndef PITOT_BASE_COMPILER_H
#define PITOT_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define MUST_USE __attribute__((warn_unused_result))
#define EXPORT __attribute__((visibility("default")))
/* For what is compiled for each constant argument, or is measurably faster so. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* For what is rare, and would take registers from what is not. */
#define NOINLINE __attribute__((noinline))

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Closes a descriptor unless it is negative, which it is then. */
static inline void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Locals that are cleaned up at the end of their scope: _cleanup_free_ char *s = NULL; */
#define _cleanup_(function) __attribute__((cleanup(function)))
#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(fd_close)

#endif
