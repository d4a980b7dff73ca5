/*
 * upload.h: sends a folder of gpufl's logs to its backend (docs/upload.md). A window is one
 * request, whose body is the file; what was accepted is in the cursor before the next is sent.
 * After all windows of a session that has ended, the session is reported complete. Whatever ends an
 * upload, the next goes on behind the last window that was accepted.
 */
#ifndef PITOT_UPLOAD_UPLOAD_H
#define PITOT_UPLOAD_UPLOAD_H

#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"

#define UPLOAD_API_PATH "/api/v1"
#define UPLOAD_TIMEOUT_NS (300 * NS_PER_S)

struct upload_options {
	const char *path; /* a folder of sessions, or a session's */
	const char *cursor; /* NULL: in the folder of sessions */
	const char *session; /* an id, or "newest"; NULL: all */
	const char *url; /* of the host: https://… */
	const char *api_path; /* NULL: UPLOAD_API_PATH */
	const char *api_key; /* NULL: none */
	const char *ca_file; /* NULL: the machine's authorities */
	/* of all; 0: none. Of less than UPLOAD_TIMEOUT_NS all pauses are shorter, too */
	uint64_t timeout_ns;
	uint64_t retries; /* of a request */
	bool force; /* what was sent is sent again */
	bool dry_run; /* nothing is sent, and nothing changed */
	const volatile sig_atomic_t *cancel; /* may be NULL */
	void (*warn)(void *user, const char *text);
	void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes */
	void *user;
};

struct upload_result {
	uint64_t sessions; /* with something to send or to complete */
	uint64_t completed; /* now */
	/* running, lossy, or with a file that was not accepted: not reported complete */
	uint64_t unfinished;
	uint64_t files, bytes, records; /* accepted now; with dry_run: to be sent */
	uint64_t known_files; /* sent before */
	uint64_t refused_files; /* not accepted, or not to be sent */
	uint64_t rejected_records; /* in files that were accepted */
	uint64_t retries;
};

/*
 * 0: the server has been asked to take everything; *result says what became of it. Negative: it has
 * ended before, *e says why.
 */
int upload_run(const struct upload_options *options, struct upload_result *result,
	       struct error *e) MUST_USE;

#endif
