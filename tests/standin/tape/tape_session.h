/*
 * tape_session.h: libpitot-tape.so, which stands on both sides of the recorder and writes down what
 * passes: it is the libcupti that the recorder loads (tape_cupti.c) and the injection library that
 * the driver and NVTX load (tape_injection.c). It asks the driver and NVML itself (tape_devices.c).
 *
 * Its environment: PITOT_TAPE, the file; PITOT_TAPE_RECORDER, the libpitot.so to inject;
 * PITOT_TAPE_CUPTI, the real libcupti, or nothing: it is looked for as the recorder looks for it.
 * Without PITOT_TAPE it only hands on.
 */
#ifndef PITOT_TESTS_STANDIN_TAPE_SESSION_H
#define PITOT_TESTS_STANDIN_TAPE_SESSION_H

#include "capture/cuda/vendor.h"
#include "tape/tape_writer.h"

/*
 * Begins the process's tape, if the environment names one and it has not begun. Must be called
 * before the recorder registers what it does at exit: the tape ends after that.
 */
void tape_begin(void);
bool tape_running(void);

/*
 * Counts the tapes of this process and of those it was forked from: what was said once must be said
 * again.
 */
unsigned tape_number(void);

/* NULL before the first tape has begun. A tape that does not run ignores what it is given. */
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
 * Notes down what can be asked of the driver and of NVML about each device, once a tape, and NVML's
 * counters, every 100 ms at most. Called on the recorder's own threads, where it asks for such
 * things itself.
 */
void tape_look_at_devices(void);

#endif
