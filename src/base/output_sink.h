/*
 * output_sink.h: writes a large new file with direct I/O where that is faster than the page cache.
 *
 * For a file of gigabytes the page cache costs CPU time: the kernel has to allocate, map and later
 * write back every page. With O_DIRECT a fast disk takes the same bytes with a tenth of the CPU
 * time; a slow or remote one does not. So both methods are tried on the file itself, and the one
 * that was faster lately is used. A file of less than SINK_TRIAL_BYTES is written through the page
 * cache.
 *
 * Measured on 2 virtual processors with a load of 15, 1.5 GB of JSON in four runs: 5.1 to 8.0 s and
 * 1.4 to 1.7 s of CPU time; through the page cache alone 11.0 to 17.4 s and 2.4 to 4.5 s.
 */
#ifndef PITOT_BASE_OUTPUT_SINK_H
#define PITOT_BASE_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_TRIAL_BYTES ((uint64_t)64 << 20) /* length of a trial */
/* bytes written with the faster method before the other one is tried again */
#define SINK_RUN_BYTES ((uint64_t)1 << 30)

struct output_sink {
	int fd;
	bool may_be_direct;
	bool direct; /* O_DIRECT is set */
	uint64_t offset; /* bytes passed to write(2) */
	unsigned char *block; /* direct I/O: bytes that do not yet fill a block */
	size_t block_used;
	uint64_t bytes, time_ns; /* since the last decision */
	/* bytes until the next decision: `limit` is one of the other two */
	uint64_t trial_bytes, run_bytes, limit;
	/* picoseconds per byte when last measured, [0] page cache, [1] direct; 0: not measured */
	uint64_t cost[2];
};

/* may_be_direct: fd is an ordinary, empty file written by nobody else. The caller owns fd. */
void output_sink_init(struct output_sink *s, int fd, bool may_be_direct);
/* Both return 0 or -errno. */
int output_sink_write(struct output_sink *s, const void *bytes, size_t length);
int output_sink_end(struct output_sink *s); /* writes the incomplete block */
void output_sink_release(struct output_sink *s);

#endif
