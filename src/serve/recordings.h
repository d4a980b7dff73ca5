/*
 * recordings.h: the recordings below a folder: *.pitot in it, and the windows of a lake. They are
 * found by listing, and named by ids: no path comes from a request. The folder is opened once, and
 * no link is followed below it.
 */
#ifndef PITOT_SERVE_RECORDINGS_H
#define PITOT_SERVE_RECORDINGS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/vec.h"

/* What a recording is made of; it differs when it has grown, or is another one. */
struct recording_stamp {
	uint64_t device, inode, files, bytes, newest_ns;
};

struct served_recording {
	uint64_t id; /* of its path: the same after a restart */
	char *path; /* below the folder; "": the folder itself */
	const char *name; /* its last part */
	struct recording_stamp stamp;
	bool is_listed; /* it was there when they were last read */
	char *summary; /* JSON; NULL: not known yet */
	struct recording_stamp summarized; /* what it is of */
	uint64_t summary_ns; /* CLOCK_MONOTONIC: when it was made */
};

struct recordings {
	int folder; /* -1: none */
	const char *path;
	char *name; /* of the folder, if it is a recording itself */
	VEC(struct served_recording) items; /* by path */
	uint64_t read_ns;
	bool has_more; /* than RECORDINGS_MAX */
};

#define RECORDINGS_MAX 5000u

/* Opens a folder, and lists what is in it. Returns 0 or a negative code. */
int recordings_open(struct recordings *r, const char *path, struct error *e) MUST_USE;
/* Lists again, at most once a second. Items move, and what is gone is removed. 0 or -ENOMEM. */
int recordings_read(struct recordings *r) MUST_USE;
struct served_recording *recordings_find(struct recordings *r, uint64_t id);
/* Opens a recording, and sets its stamp. Returns a descriptor or a negative code. */
int recordings_enter(struct recordings *r, struct served_recording *item) MUST_USE;
void recordings_close(struct recordings *r);

static inline bool stamps_equal(const struct recording_stamp *a, const struct recording_stamp *b)
{
	return a->device == b->device && a->inode == b->inode && a->files == b->files &&
	       a->bytes == b->bytes && a->newest_ns == b->newest_ns;
}

#endif
