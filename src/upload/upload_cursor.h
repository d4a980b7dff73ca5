/*
 * upload_cursor.h: the record of what the server has of a folder of logs. It is the same file that
 * gpufl's uploader uses, so either can continue an upload of the other. It is replaced as a whole
 * after each file that the server has accepted.
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
	int folder; /* descriptor of its folder */
	int lock; /* descriptor of "<path>.lock"; -1: read only */
	VEC(char *) files;
	VEC(struct completed_session) completed;
};

/*
 * Reads the cursor; a missing file is an empty cursor. `lock`: locks it until the release (-EBUSY
 * if another process has it locked).
 */
int upload_cursor_open(struct upload_cursor *c, const char *path, bool lock,
		       struct error *e) MUST_USE;
/* Ignores a suffix .gz, because a log may have been compressed since. */
bool upload_cursor_has_file(const struct upload_cursor *c, const char *session, const char *name);
bool upload_cursor_has_session(const struct upload_cursor *c, const char *session);
/* When these return 0, the change is on disk. */
int upload_cursor_add_file(struct upload_cursor *c, const char *session, const char *name,
			   struct error *e) MUST_USE;
int upload_cursor_add_session(struct upload_cursor *c, const char *session, uint64_t events,
			      struct error *e) MUST_USE;
void upload_cursor_release(struct upload_cursor *c);

#endif
