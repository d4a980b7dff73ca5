/*
 * tape_session.h: libpitot-tape.so, which records what passes on both sides of the recorder: it is
 * the libcupti that the recorder loads (tape_cupti.c), the injection library that the driver and
 * NVTX load (tape_injection.c), and NCCL's profiler plug-in (tape_nccl.c). It queries the driver
 * and NVML itself (tape_devices.c).
 *
 * Environment: PITOT_TAPE, the file; PITOT_TAPE_RECORDER, the libpitot.so to inject;
 * PITOT_TAPE_CUPTI, the real libcupti, by default found as by the recorder. Without PITOT_TAPE it
 * only forwards calls.
 */
#ifndef PITOT_TESTS_STANDIN_TAPE_SESSION_H
#define PITOT_TESTS_STANDIN_TAPE_SESSION_H

#include "capture/cuda/vendor.h"
#include "tape/tape_writer.h"

/*
 * Begins the process's tape if the environment names one and it has not begun. Must be called
 * before the recorder registers exit handlers, so that the tape ends after them.
 */
void tape_begin(void);
bool tape_running(void);

/*
 * Returns the number of tapes of this process and of the processes that it was forked from. When it
 * changes, everything written once per tape must be written again.
 */
unsigned tape_number(void);

/* Returns NULL before the first tape has begun. A stopped tape ignores what it is given. */
struct tape_writer *tape_writer(void);

/* Returns the calling thread, introduced to the tape if it is new, and CLOCK_MONOTONIC. */
struct tape_mark tape_here(void);

/* Writes a call; its duration is the time since `at`. Failed calls have no output. */
void tape_note(enum tape_function function, struct tape_mark at, int result, const void *output,
	       size_t length, const uint64_t *arguments, unsigned argument_count);

/* NOTE(cuptiGetVersion, at, result, output, length, argument…) */
#define NOTE(name, at, result, output, length, ...)                                                \
	tape_note(TAPE_##name, at, (int)(result), output, length, ARGUMENTS(__VA_ARGS__) + 1,      \
		  (unsigned)(sizeof(ARGUMENTS(__VA_ARGS__)) / sizeof(uint64_t) - 1))
#define ARGUMENTS(...) ((const uint64_t[]){ 0, ##__VA_ARGS__ })

/* Returns a function of the real CUPTI by its name; NULL: it has none. */
void *tape_real_function(const char *name);

/*
 * Writes all answers of the driver and NVML about each device, once per tape, and NVML's counters,
 * at most every 100 ms. Called on the recorder's own threads, where it makes such queries itself.
 */
void tape_look_at_devices(void);

#endif
