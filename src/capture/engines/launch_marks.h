/*
 * launch_marks.h: times of measured launches by their 32-bit correlation ids, kept until CUPTI's
 * record of the kernel comes. Each is a time of the call, which tells the launch from one that has
 * the same id 2^32 calls later. Any thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_MARKS_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_MARKS_H

#include <stdbool.h>
#include <stdint.h>

enum launch_mark {
	LAUNCH_PATCHED, /* the call's begin; the kernel runs with patched code */
	LAUNCH_START, /* begin of the kernel's last run */
	LAUNCH_END, /* its end */
	LAUNCH_MARKS,
};

/* false: there are too many of the kind, or no memory. */
bool launch_marks_add(enum launch_mark kind, uint32_t correlation, uint64_t time_ns);
/*
 * Removes a mark. false: there is none, or it is of an earlier launch than the one of that id that
 * was in flight at began_ns (CORRELATION_NOW: the latest).
 */
bool launch_marks_take(enum launch_mark kind, uint32_t correlation, uint64_t began_ns,
		       uint64_t *time_ns);
void launch_marks_clear(enum launch_mark kind);
void launch_marks_after_fork(void);

#endif
