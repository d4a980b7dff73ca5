/*
 * big_recording.h: synthetic recordings of any size, for tests and benchmarks of readers. Nothing
 * in them was measured; the process's command says so.
 */
#ifndef PITOT_TESTS_BIG_RECORDING_H
#define PITOT_TESTS_BIG_RECORDING_H

#include <stdint.h>

enum big_pattern {
	BIG_TRAIN, /* steps of 1656 launches, few copies, one synchronization, NVTX ranges */
	BIG_GRAPH, /* replays of a graph of 300 nodes, kernels only */
	BIG_STREAMS, /* four threads with a stream each, whose rows arrive out of order */
	BIG_THREADS, /* a separate thread for each launch */
	BIG_COPIES, /* copies of megabytes in two streams beside kernels in a third */
};

/*
 * Writes a recording with `kernels` kernels in total into a directory that must not exist. Equal
 * arguments make equal rows. Process i has pid 1000 + 100 i and GPU i. Returns 0 or a negative
 * errno.
 */
int big_recording_make(const char *directory, uint64_t kernels, uint32_t processes,
		       enum big_pattern pattern, uint64_t seed);
struct big_recording {
	uint64_t kernels;
	uint32_t processes;
	enum big_pattern pattern;
	uint64_t seed;
	uint32_t stacks; /* distinct call stacks per process; 0: none */
	uint32_t lost_percent; /* share of launches, in bursts of 1000, whose calls are missing */
	uint64_t cpu_samples; /* in all processes; with `stacks` they have stacks, too */
};

/* Same as big_recording_make(), from a description. */
int big_recording_write(const char *directory, const struct big_recording *what);
/* Same, with one of `stacks` distinct call stacks per call; 0: none. */
int big_recording_make_stacks(const char *directory, uint64_t kernels, uint32_t processes,
			      enum big_pattern pattern, uint64_t seed, uint32_t stacks);

#endif
