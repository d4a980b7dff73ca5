/*
 * segment_cut.h: copies of a segment's blocks into another recording: whole blocks, or exactly the
 * rows of a window.
 *
 * A cut has all definitions of the segment, so that every id in it resolves, and
 *
 *  - GPU work that ran in the window, also if it was launched before, with the calls that launched
 *    it, whenever these were
 *  - of the host, what it did from the window's begin to host_until_ns: the GPU may be behind
 *  - memory that was live at the begin, as allocations without a time (memory_use.h), with their
 *    calls
 *
 * Damaged blocks are left out, and counted. Nothing in segments is trusted.
 */
#ifndef PITOT_RECORD_SEGMENT_CUT_H
#define PITOT_RECORD_SEGMENT_CUT_H

#include "format/reader.h"

struct cut_window {
	uint64_t from_ns, until_ns; /* CLOCK_MONOTONIC */
	uint64_t host_until_ns; /* at most until_ns */
	/* No work that ran in the window had begun before that. */
	uint64_t work_from_ns;
};

struct cut_counts {
	uint64_t work; /* pieces of GPU work */
	uint64_t running; /* of these: those that had begun before the window */
	uint64_t live, live_bytes; /* allocations at the begin */
	uint64_t damaged; /* blocks */
};

struct segment_cut;

/* NULL: no memory. */
struct segment_cut *segment_cut_new(const struct cut_window *window) MUST_USE;
/*
 * Finds what of the segments is in the cut; all segments of the process, in their order, before
 * the first of them is written. Returns 0 or -ENOMEM.
 */
int segment_cut_find(struct segment_cut *c, const struct segment *s) MUST_USE;
/*
 * How many segments between two of a process (`before` NULL: there is none) are missing that may
 * have had rows of the window. Rows are late by at most a second.
 */
uint32_t segment_cut_gap(const struct segment *before, const struct segment *s,
			 const struct cut_window *window);
/*
 * Writes what of a segment is in the cut as a new file, and if that is nothing, only with `always`:
 * a reader knows by the number of a segment how many are missing before it. `number` is that of the
 * new segment. Returns 1, 0 if nothing was written, or a negative code.
 */
int segment_cut_write(struct segment_cut *c, const struct segment *s, int folder, const char *name,
		      uint32_t number, bool always) MUST_USE;
struct cut_counts segment_cut_counts(const struct segment_cut *c);
void segment_cut_free(struct segment_cut *c);

struct copy_interval {
	uint64_t from_ns, until_ns; /* until_ns UINT64_MAX: the copy has no end */
};
/*
 * Copies all blocks of definitions, and those with rows of an interval, into a new file, the
 * segment of that number. Returns 1; 0, and there is no file, if there are no such rows; -ESRCH if
 * the segment is being replaced, E_LIMIT if it is more than 256 MiB or 16 M rows, or another
 * negative code.
 */
int segment_copy_interval(const struct segment *s, const struct copy_interval *interval, int folder,
		 const char *name, uint32_t number) MUST_USE;

/* Sets the time at which a segment began. Returns 0 or a negative code. */
int segment_set_start(int folder, const char *name, uint64_t monotonic_ns) MUST_USE;

#endif
