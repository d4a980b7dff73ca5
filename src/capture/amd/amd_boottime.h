/*
 * amd_boottime.h: the SDK's times, which are CLOCK_BOOTTIME's, as CLOCK_MONOTONIC's. Between two
 * suspends of the machine they differ by a constant. The collector's thread.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_BOOTTIME_H
#define PITOT_CAPTURE_AMD_AMD_BOOTTIME_H

#include <stdint.h>

/* Reads both clocks. At each tick: what is converted then is not much older. */
void amd_boottime_read(void);
/* A reading of both, which counts if the machine has slept since the one before. */
void amd_boottime_add(uint64_t monotonic_ns, uint64_t boottime_ns);
uint64_t amd_boottime_convert(uint64_t boottime_ns);

#endif
