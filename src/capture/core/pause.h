/*
 * pause.h: short waits of threads of the program, which must not be cancelled in the middle of a
 * CUDA, CUPTI or NVTX call.
 */
#ifndef PITOT_CAPTURE_PAUSE_H
#define PITOT_CAPTURE_PAUSE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Sleeps for less than a second. Not a cancellation point; errno stays. */
static inline void pause_ns(uint64_t ns)
{
	struct timespec t = { .tv_nsec = (long)ns };
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	pthread_setcancelstate(cancel, NULL);
}

#endif
