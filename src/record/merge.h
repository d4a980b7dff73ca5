/*
 * merge.h: makes one recording of several, such as those of the hosts of a job.
 *
 * Ids of strings, configurations and functions are local to a session, so that segments need no
 * changes: they are linked into the new folder, or copied where that is impossible. Their names
 * get the number of their recording, because process ids are unique on one host only.
 */
#ifndef PITOT_RECORD_MERGE_H
#define PITOT_RECORD_MERGE_H

#include <signal.h>

#include "base/error.h"
#include "base/strbuf.h"

struct merge_request {
	char **recordings;
	size_t count;
	const char *output; /* a new folder */
	bool force; /* or a recording, which is replaced */
	char **command; /* for recording.json */
	const volatile sig_atomic_t *stop; /* nonzero: give up with -ECANCELED */
	/* reports the number of recordings that were merged; may be NULL */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *progress_user;
};

struct merge_result {
	uint64_t segments, linked, bytes;
	uint64_t unreadable; /* segments without a valid header, which the result has as well */
	uint64_t other_cubins; /* files of device code that differ from one of the same name */
	size_t processes, hosts, ranks;
	/* "; rank 3 of 8 was not recorded", and hosts that are on no common clock; may be empty */
	struct strbuf remarks;
};

/*
 * The result appears at once and complete, or not at all. Refuses a process that is in two
 * recordings. Links below the recordings are not followed. Release *result in either case.
 */
int merge_recordings(const struct merge_request *request, struct merge_result *result,
		     struct error *e) MUST_USE;

#endif
