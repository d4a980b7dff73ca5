/*
 * upload_files.h: the sessions of a folder of gpufl's logs, their windows in upload order, and
 * windows as request bodies.
 *
 *	<folder>/<session>/{device,scope,system,sass,kernel}[.N].log[.gz]
 *	<folder>/<prefix>.{device,scope,system,sass,kernel}[.N].log[.gz]
 *		of gpufl 1.1: the first line names the session
 */
#ifndef PITOT_UPLOAD_UPLOAD_FILES_H
#define PITOT_UPLOAD_UPLOAD_FILES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "gpufl/gpufl_folder.h"

#define UPLOAD_ID_BYTES 64

struct upload_session {
	char id[UPLOAD_ID_BYTES];
	uint64_t start_ns; /* of its job_start; 0: none */
	bool running; /* a process is writing it, or it has unpublished windows */
	bool unpublished; /* it has, although no process has it locked */
	bool lossy; /* has a loss marker */
	VEC(struct gpufl_window) windows;
};

struct upload_sessions {
	VEC(struct upload_session) all; /* oldest first */
	int folder; /* descriptor of their folder, -1 if not open; and its path, of the caller */
	const char *path;
};

/* Whether the folder itself is the folder of one session. */
bool upload_is_session(const char *path);

/* Lists all sessions in `log_path` that have a file, or only the given one, or the "newest". */
int upload_sessions_list(const char *log_path, const char *only, struct upload_sessions *out,
			 struct error *e) MUST_USE;
void upload_sessions_release(struct upload_sessions *s);

/*
 * The body of a window and its sidecar's contents; for a log that is plain or too large, some of
 * its lines.
 */
struct upload_body {
	struct strbuf gzip; /* as on disk, or compressed here */
	uint64_t lines;
	bool is_last;
	char window_id[UPLOAD_ID_BYTES]; /* "" without a sidecar */
	uint64_t sequence, crc;
};

struct upload_reader {
	const struct upload_sessions *sessions;
	const struct upload_session *session;
	const struct gpufl_window *window;
	struct gzFile_s *in; /* of a log sent in parts */
	struct strbuf rest; /* read but not yet sent */
};

/*
 * Reads the next body, up to the last. Returns E_FORMAT or E_LIMIT with *e if it cannot be sent;
 * other codes are errors of the machine.
 */
int upload_reader_next(struct upload_reader *r, struct upload_body *out, struct error *e) MUST_USE;
void upload_reader_release(struct upload_reader *r);
void upload_body_release(struct upload_body *b);

#endif
