/*
 * recording_json.h: recording.json, which says who recorded what, where and when; for people and
 * scripts.
 */
#ifndef PITOT_RECORD_RECORDING_JSON_H
#define PITOT_RECORD_RECORDING_JSON_H

#include <stdbool.h>

#include "base/error.h"

struct record_identity {
	const char *name;
	char **command; /* ends with NULL */
	const char *options; /* text of PITOT_OPTIONS */
	const char *library; /* path of libpitot.so */
	uint64_t start_monotonic_ns, start_realtime_ns;
	uint64_t end_monotonic_ns; /* 0: still recording */
	int exit_status; /* of the command, once it has ended */
};

/* Writes directory/recording.json; the old one is replaced as a whole. 0 or a negative code. */
int recording_json_write(const char *directory, const struct record_identity *identity,
		      struct error *e) MUST_USE;

/* Whether `pitot record` has not completed the recording: it goes on, or pitot was killed. */
bool recording_json_is_unfinished(const char *directory);

#endif
