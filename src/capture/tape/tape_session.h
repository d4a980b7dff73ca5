/*
 * tape_session.h: what the wrappers of the tables share: the tape that is running, and marks for
 * what happens now.
 */
#ifndef PITOT_CAPTURE_TAPE_TAPE_SESSION_H
#define PITOT_CAPTURE_TAPE_TAPE_SESSION_H

#include "capture/cuda/vendor.h"
#include "capture/tape/tape_writer.h"

/* Never NULL once a tape has been started, then for good. */
struct tape_writer *tape_writer(void);

/* The calling thread (introduced to the tape if it is new there) and CLOCK_MONOTONIC. */
struct tape_mark tape_here(void);

/* Notes one call down; its duration is the time since `at`. Without output when it failed. */
void tape_note(enum tape_function function, struct tape_mark at, int result, const void *output,
	       size_t length, const uint64_t *arguments, unsigned argument_count);

/* NOTE(cuptiGetVersion, at, result, output, length, argument…) */
#define NOTE(name, at, result, output, length, ...)                                                \
	tape_note(TAPE_##name, at, (int)(result), output, length, ARGUMENTS(__VA_ARGS__) + 1,      \
		  (unsigned)(sizeof(ARGUMENTS(__VA_ARGS__)) / sizeof(uint64_t) - 1))
#define ARGUMENTS(...) ((const uint64_t[]){ 0, ##__VA_ARGS__ })

/*
 * Replace the pointers of a table, except those that are NULL; a table that is wrapped already
 * stays as it is.
 */
void tape_wrap_cupti(struct cupti *cupti);
void tape_wrap_driver(struct driver *driver);

#endif
