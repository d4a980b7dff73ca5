/*
 * switch_frames.h: the kernel frames of a thread that leaves its processor, without those of
 * tracers. The BPF program runs inside the kernel's function that switches threads, and between
 * them stand a number of frames that depends on how many tracers have that tracepoint: the stack of
 * the thread begins with the function itself.
 */
#ifndef PITOT_SAMPLER_EBPF_SWITCH_FRAMES_H
#define PITOT_SAMPLER_EBPF_SWITCH_FRAMES_H

#include <stdint.h>

/* Where the kernel's function is; both 0: unknown. */
struct switch_function {
	uint64_t start, end;
};

/*
 * Finds the function in a file like /proc/kallsyms; unknown where kernel.kptr_restrict hides its
 * addresses.
 */
struct switch_function switch_function_find(const char *path);

/*
 * How many of the innermost frames are of tracers. Where the function is unknown, or in none of the
 * frames, it is the two that there are when nobody else traces.
 */
unsigned switch_frames_of_tracers(const struct switch_function *f, const uint64_t *frames,
				  unsigned count);

#endif
