/*
 * recording_json.h: recording.json describes who recorded what, where and when; for people and
 * scripts.
 */
#ifndef PITOT_FORMAT_RECORDING_JSON_H
#define PITOT_FORMAT_RECORDING_JSON_H

#include <stdbool.h>

#include "base/error.h"
#include "base/folder.h"

struct recording_identity {
	struct folder_id folder; /* of the recording */
	const char *name;
	bool by_program; /* a program that records itself */
	const char *recorded_by; /* if not by_program; NULL: pitot record */
	char **command; /* NULL-terminated */
	const char *engine; /* value of the setting */
	const char *options; /* text of PITOT_OPTIONS */
	const char *library; /* path of libpitot.so */
	uint64_t start_monotonic_ns, start_realtime_ns;
	uint64_t end_monotonic_ns; /* 0: still recording */
	/* of the command after its end; unused for a program that records itself */
	int exit_status;
};

/* Writes directory/recording.json, replacing it atomically. Returns 0 or a negative code. */
int recording_json_write(const char *directory, const struct recording_identity *identity,
			 struct error *e) MUST_USE;

/*
 * Whether the recording has no function names yet: it is still running, its recorder was killed, or
 * the program recorded itself.
 */
bool recording_json_is_unfinished(const char *directory);
/* Whether it is still running according to the file; the recorder may have been killed. */
bool recording_json_is_recording(const char *directory);

#endif
