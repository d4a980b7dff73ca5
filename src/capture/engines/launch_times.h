/*
 * launch_times.h: times of measured launches by their 32-bit correlation ids, until CUPTI's record
 * of the kernel arrives. Each time lies within the call, and so distinguishes the launch from
 * another one with the same id 2^32 calls later. Any thread.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_TIMES_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum launch_time {
	LAUNCH_PATCHED, /* begin of a call whose kernel runs patched code */
	LAUNCH_START, /* begin of the kernel's last run */
	LAUNCH_END, /* end of that run */
	LAUNCH_TIMES,
};

/* Returns false if memory is short. Of many times the oldest is dropped: CUPTI lost its record. */
bool launch_times_add(enum launch_time kind, uint32_t correlation, uint64_t time_ns);
/*
 * Removes a time. Returns false if there is none, or if it belongs to an earlier launch than the
 * one with this id that was in flight at began_ns (CORRELATION_NOW: the latest launch).
 */
bool launch_times_take(enum launch_time kind, uint32_t correlation, uint64_t began_ns,
		       uint64_t *time_ns);
void launch_times_clear(void);
void launch_times_after_fork(void);

#endif
