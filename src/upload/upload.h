/*
 * upload.h: uploads a folder of gpufl's logs to its backend (docs/upload.md). Each window is one
 * request with the file as its body. The cursor records each accepted window before the next is
 * sent. After all windows of a session that has ended, the session is reported complete. An
 * interrupted upload resumes after the last accepted window.
 */
#ifndef PITOT_UPLOAD_UPLOAD_H
#define PITOT_UPLOAD_UPLOAD_H

#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"

#define UPLOAD_API_PATH "/api/v1"
/* An address with one of these is refused, and not printed: a user, a password or a query. */
#define UPLOAD_URL_SECRETS "@?#\\"
#define UPLOAD_TIMEOUT_NS (300 * NS_PER_S)

struct upload_options {
	const char *path; /* a folder of sessions, or the folder of one session */
	const char *cursor; /* NULL: in the folder of sessions */
	const char *session; /* an id, or "newest"; NULL: all */
	const char *url; /* of the host: https://… */
	const char *api_path; /* NULL: UPLOAD_API_PATH */
	const char *api_key; /* NULL: none */
	const char *ca_file; /* NULL: the machine's authorities */
	const char *ca_setting; /* by which the user names it; NULL: --ca-file */
	/* of the whole upload; 0: none. Below UPLOAD_TIMEOUT_NS it also shortens all delays */
	uint64_t timeout_ns;
	uint64_t retries; /* per request */
	bool force; /* send again what the cursor records as sent */
	bool dry_run; /* send and change nothing */
	const volatile sig_atomic_t *cancel; /* may be NULL */
	void (*warn)(void *user, const char *text);
	void (*progress)(void *user, uint64_t done, uint64_t total); /* in bytes */
	void *user;
};

struct upload_result {
	uint64_t sessions; /* with something to send or to complete */
	uint64_t completed; /* in this run */
	/* not reported complete: running, lossy, or with a file that was not accepted */
	uint64_t unfinished;
	uint64_t files, bytes, records; /* accepted in this run; with dry_run: to be sent */
	uint64_t known_files; /* sent before */
	uint64_t refused_files; /* not accepted, or unsendable */
	uint64_t rejected_records; /* in accepted files */
	uint64_t retries;
};

/* Whether it is the address of a backend: 0 or E_USAGE. Errors have no passwords. */
int upload_check_url(const char *url, struct error *e) MUST_USE;
/*
 * Returns 0 if every file was offered to the server; *result describes the outcome. Returns a
 * negative code and *e if the upload ended early.
 */
int upload_run(const struct upload_options *options, struct upload_result *result,
	       struct error *e) MUST_USE;

#endif
