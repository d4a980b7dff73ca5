/*
 * recording_json.h: recording.json, which says who recorded what, where and when; for people and
 * scripts.
 */
#ifndef PITOT_FORMAT_RECORDING_JSON_H
#define PITOT_FORMAT_RECORDING_JSON_H

#include <stdbool.h>

#include "base/error.h"

struct recording_identity {
	const char *name;
	bool by_program; /* which records itself */
	const char *recorded_by; /* else; NULL: pitot record */
	char **command; /* ends with NULL */
	const char *engine; /* name of the setting */
	const char *options; /* text of PITOT_OPTIONS */
	const char *library; /* path of libpitot.so */
	uint64_t start_monotonic_ns, start_realtime_ns;
	uint64_t end_monotonic_ns; /* 0: still recording */
	/* of the command, once it has ended; not of a program that records itself */
	int exit_status;
};

/* Writes directory/recording.json; the old one is replaced as a whole. 0 or a negative code. */
int recording_json_write(const char *directory, const struct recording_identity *identity,
		      struct error *e) MUST_USE;

/*
 * Whether the recording has no names of functions yet: it goes on, what recorded was killed, or it
 * was a program that recorded itself.
 */
bool recording_json_is_unfinished(const char *directory);
/* Whether it goes on, as far as the file knows: what recorded may have been killed. */
bool recording_json_is_recording(const char *directory);

#endif
