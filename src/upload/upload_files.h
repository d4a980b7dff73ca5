/*
 * upload_files.h: the sessions of a folder of gpufl's logs, their windows in the order in which they are sent, and a window as the body
 * of a request.
 *
 *	<folder>/<session>/{device,scope,system,sass,kernel}[.N].log[.gz]
 */
#ifndef PITOT_UPLOAD_UPLOAD_FILES_H
#define PITOT_UPLOAD_UPLOAD_FILES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"

#define UPLOAD_NAME_BYTES 64
#define UPLOAD_PACKED_MAX ((size_t)30 << 20) /* what the service takes, less headers */
#define UPLOAD_RAW_MAX ((size_t)128 << 20)

struct upload_file {
	char name[UPLOAD_NAME_BYTES];
	unsigned channel;
	uint64_t number; /* UINT64_MAX: the one without, which is the last */
	bool packed; /* .gz */
	uint64_t bytes;
};

struct upload_session {
	char id[UPLOAD_NAME_BYTES];
	char *path;
	uint64_t start_ns; /* of its job_start; 0: there is none */
	bool running; /* something writes it, or has left what cannot be published */
	bool lossy; /* has a loss marker */
	VEC(struct upload_file) files;
};

struct upload_sessions {
	VEC(struct upload_session) all; /* the oldest first */
};

/* Whether the folder itself is one session's. */
bool upload_is_session(const char *path);

/* All sessions in `log_path` that have a file, or with `only` that one. */
int upload_sessions_list(const char *log_path, const char *only, struct upload_sessions *out,
			 struct error *e) MUST_USE;
void upload_sessions_keep_newest(struct upload_sessions *s);
void upload_sessions_release(struct upload_sessions *s);

/* A window as it is sent, and what its sidecar says of it. */
struct upload_body {
	struct strbuf gzip; /* as it is on disk, or compressed */
	uint64_t lines;
	char window_id[UPLOAD_NAME_BYTES]; /* "" without a sidecar */
	uint64_t sequence, crc;
};

/* E_FORMAT and E_LIMIT: it cannot be sent, *e says why; -ENOENT: it has gone; other codes are the machine's. */
int upload_body_read(const struct upload_session *s, const struct upload_file *f,
		     struct upload_body *out, struct error *e) MUST_USE;
void upload_body_release(struct upload_body *b);

const char *upload_channel_name(const struct upload_file *f);

#endif
