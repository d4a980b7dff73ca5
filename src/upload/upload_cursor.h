/*
 * upload_cursor.h: what of a folder of logs the server has: the file that gpufl's uploader keeps
 * too, so that either goes on where the other was. It is replaced as a whole after each file that
 * the server has accepted.
 *
 *	{"schema_version":2,"uploaded_files":["<session>/device.1.log.gz"],
 *	 "completed_sessions":{"<session>":{"completed_at":"2026-05-26T15:30:00Z","events":1234}}}
 */
#ifndef PITOT_UPLOAD_UPLOAD_CURSOR_H
#define PITOT_UPLOAD_UPLOAD_CURSOR_H

#include <stdbool.h>

#include "base/error.h"
#include "base/vec.h"

#define UPLOAD_CURSOR ".gpufl-upload-cursor.json"

struct completed_session {
	char *id, *at;
	uint64_t events;
};

struct upload_cursor {
	char *path;
	int lock; /* descriptor of "<path>.lock"; -1: only read */
	VEC(char *) files;
	VEC(struct completed_session) completed;
};

/*
 * Reads it; none is an empty one. `lock`: nobody else has it until the release (-EBUSY: somebody
 * has).
 */
int upload_cursor_open(struct upload_cursor *c, const char *path, bool lock,
		       struct error *e) MUST_USE;
/* With or without .gz: a log that was compressed later is the same. */
bool upload_cursor_has_file(const struct upload_cursor *c, const char *session, const char *name);
bool upload_cursor_has_session(const struct upload_cursor *c, const char *session);
/* The file on disk says so when they return 0. */
int upload_cursor_add_file(struct upload_cursor *c, const char *session, const char *name,
			   struct error *e) MUST_USE;
int upload_cursor_add_session(struct upload_cursor *c, const char *session, uint64_t events,
			      struct error *e) MUST_USE;
void upload_cursor_release(struct upload_cursor *c);

#endif
