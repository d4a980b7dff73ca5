/*
 * play_clock.h: the clock of tape-play. It exports clock_gettime, so that all libraries in the
 * process, including the recorder, see the tape's time on CLOCK_MONOTONIC, CLOCK_REALTIME and
 * CLOCK_BOOTTIME.
 *
 * A thread that plays a record sees the record's time. Other threads see the latest record's time,
 * which advances at the real pace, but not past the next record. Waiting for the clock works: time
 * also advances for a player that stays in one record for more than 100 ms of real time, and for
 * all after the tape's end.
 */
#ifndef PITOT_TESTS_STANDIN_PLAY_CLOCK_H
#define PITOT_TESTS_STANDIN_PLAY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct play_clock_setup {
	uint64_t start_ns; /* before the first record */
	uint64_t first_ns; /* time of the first record */
	int64_t realtime_ns, boottime_ns; /* these clocks minus CLOCK_MONOTONIC */
	int64_t (*step_ns)(void); /* returns what is added to CLOCK_REALTIME */
};

void play_clock_start(const struct play_clock_setup *setup);

/* The calling thread plays a record at `time`; the next record's time is `next`. */
void play_clock_at(uint64_t time, uint64_t next);
/* The tape has ended. */
void play_clock_end(void);

uint64_t play_clock_real(clockid_t clock);

#endif
