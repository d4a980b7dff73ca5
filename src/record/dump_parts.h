/*
 * dump_parts.h: what a dump of a ring has besides the ring: what the threads of its processes do,
 * and readings of the GPUs. Both are read from outside, each on a thread of its own, and one that
 * hangs (a process that cannot be read, a driver that does not answer) costs a second and is said.
 */
#ifndef PITOT_RECORD_DUMP_PARTS_H
#define PITOT_RECORD_DUMP_PARTS_H

#include "record/recording.h"

struct timed_work;

struct dump_parts {
	struct timed_work *threads, *gpus; /* NULL: not begun */
	uint64_t begun_ns;
};

/* Begins to read, for a dump into this folder. */
struct dump_parts dump_parts_begin(const struct recording *r, int folder);
/* Waits, and writes the readings and what could not be read into the recording's own segment. */
void dump_parts_finish(struct recording *r, struct dump_parts *parts);

#endif
