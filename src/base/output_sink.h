/*
 * output_sink.h: writes a large new file at the speed of the disk, where the page cache is slower
 * than that.
 *
 * A file of gigabytes pays for pages that nobody asked for: the kernel has to find, map and later
 * write each of them. Past the page cache (O_DIRECT) a fast disk takes the same bytes with a tenth
 * of the processor's time; a slow one, or one behind a network, does not. So both are tried on the
 * file itself, and what was faster lately is used. A file of less than SINK_TRIAL_BYTES is written
 * in the ordinary way.
 *
 * Measured on 2 virtual processors with a load of 15, 1.5 GB of JSON in four turns: 5.1 to 8.0 s
 * and 1.4 to 1.7 s of processor time; all in the ordinary way 11.0 to 17.4 s and 2.4 to 4.5 s.
 */
#ifndef PITOT_BASE_OUTPUT_SINK_H
#define PITOT_BASE_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SINK_TRIAL_BYTES ((uint64_t)64 << 20) /* written to see how long it takes */
/* written in the better way before the other one is tried again */
#define SINK_RUN_BYTES ((uint64_t)1 << 30)

struct output_sink {
	int fd;
	bool may_be_direct;
	bool direct; /* at the moment */
	uint64_t offset; /* what is handed to the kernel */
	unsigned char *block; /* while direct: what waits until it is a whole block */
	size_t block_used;
	uint64_t bytes, time_ns; /* since the last decision */
	/* when to decide again; limit is one of the others */
	uint64_t trial_bytes, run_bytes, limit;
	/* picoseconds a byte when last measured, ordinary and direct; 0: not yet */
	uint64_t cost[2];
};

/* may_be_direct: fd is an ordinary file of ours, and empty. It stays the caller's. */
void output_sink_init(struct output_sink *s, int fd, bool may_be_direct);
/* Both: 0 or -errno. */
int output_sink_write(struct output_sink *s, const void *bytes, size_t length);
int output_sink_end(struct output_sink *s); /* writes what waits */
void output_sink_release(struct output_sink *s);

#endif
