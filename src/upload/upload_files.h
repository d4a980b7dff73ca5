/*
 * upload_files.h: the sessions of a folder of gpufl's logs, their windows in the order in which
 * they are sent, and a window as the body of a request.
 *
 *	<folder>/<session>/{device,scope,system,sass,kernel}[.N].log[.gz]
 *	<folder>/<prefix>.{device,scope,system,sass,kernel}[.N].log[.gz]
 *		of gpufl 1.1: the first line has the session
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
	char *path; /* of its logs */
	uint64_t start_ns; /* of its job_start; 0: there is none */
	bool running; /* something writes it, or has left what cannot be published */
	bool lossy; /* has a loss marker */
	VEC(struct gpufl_window) windows;
};

struct upload_sessions {
	VEC(struct upload_session) all; /* the oldest first */
};

/* Whether the folder itself is one session's. */
bool upload_is_session(const char *path);

/* All sessions in `log_path` that have a file, or of them that one, or "newest". */
int upload_sessions_list(const char *log_path, const char *only, struct upload_sessions *out,
			 struct error *e) MUST_USE;
void upload_sessions_release(struct upload_sessions *s);

/*
 * A window as it is sent, and what its sidecar says of it; or some lines of a log that is plain or
 * too large.
 */
struct upload_body {
	struct strbuf gzip; /* as it is on disk, or compressed */
	uint64_t lines;
	bool is_last;
	char window_id[UPLOAD_ID_BYTES]; /* "" without a sidecar */
	uint64_t sequence, crc;
};

struct upload_reader {
	const struct upload_session *session;
	const struct gpufl_window *window;
	struct gzFile_s *in; /* of a log in parts */
	struct strbuf rest; /* read, but not sent */
};

/*
 * The next body, up to the last. E_FORMAT and E_LIMIT: it cannot be sent, *e says why; other codes
 * are the machine's.
 */
int upload_reader_next(struct upload_reader *r, struct upload_body *out,
		       struct error *e) MUST_USE;
void upload_reader_release(struct upload_reader *r);
void upload_body_release(struct upload_body *b);

#endif
