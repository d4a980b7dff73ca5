#include "upload/upload.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/json_read.h"
#include "base/path.h"
#include "base/plural.h"
#include "gpufl/gpufl_files.h"
#include "upload/http.h"
#include "upload/upload_cursor.h"
#include "upload/upload_files.h"

#define CLIENT_VERSION "1.3.0" /* of gpufl, whose logs and protocol these are */
#define WIRE_VERSION "1"
#define DELAY_MAX_NS (30 * NS_PER_S)
#define RETRY_AFTER_MAX_S 600 /* a longer Retry-After ends this upload */
#define POLL_NS (50 * NS_PER_MS)
#define REASONS_SHOWN 3 /* rejected lines per file that cause a warning */
#define HEADER_BYTES 512

struct upload {
	const struct upload_options *options;
	struct upload_result *result;
	struct error *error;
	char log_path[PATH_MAX];
	char only[UPLOAD_ID_BYTES]; /* a session, or "" */
	struct upload_cursor cursor;
	struct upload_sessions sessions;
	struct http *http;
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint64_t request_timeout_ns; /* 5 minutes, or the upload's timeout if that is shorter */
	uint64_t done, total; /* in bytes of files, for the progress */
	char api[1024]; /* "https://host/api/v1/events/" */
	char authorization[HEADER_BYTES], hostname[HEADER_BYTES];
	const char *headers[8];
};

static void PRINTF_LIKE(2, 3) warn(const struct upload *u, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (u->options->warn)
		u->options->warn(u->options->user, text);
}

/* ---- evaluation of responses ---- */

enum verdict {
	ACCEPTED,
	RETRY,
	REFUSED, /* this file; others may be accepted */
	FATAL, /* for any file */
};

static enum verdict classify(const struct http_response *a, bool is_window, bool has_identity)
{
	const char *body = strbuf_text(&a->body);
	struct json_found found;
	long s = a->status;
	int r;

	if (s == 429 || s == 408 || s >= 500)
		return RETRY;
	if (s == 409 && has_identity) /* the server has this window, or another one with its name */
		return strstr(body, "window_identity_conflict") ? RETRY : ACCEPTED;
	if (s == 401 || s == 403 || s == 404 || (s >= 300 && s < 400))
		return FATAL;
	if (s < 200 || s >= 300)
		return REFUSED;
	if (!is_window)
		return ACCEPTED;
	r = json_find(body, a->body.length, "accepted_for_processing", &found, NULL);
	if (r == 0 || r == -ENOENT)
		return r == 0 && found.kind == JSON_FALSE ? RETRY : ACCEPTED;
	/*
	 * Any web server may answer 200. Partial JSON counts as no response, unless a long body was
	 * cut here.
	 */
	return *body == '{' && a->is_cut ? ACCEPTED : *body == '{' || !*body ? RETRY : FATAL;
}

/* Sets an error that names the problem and the remedy. */
static int set_response_error(struct upload *u, const char *url, const struct http_response *a)
{
	switch (a->status) {
	case 401:
	case 403:
		return error_set(u->error, -EACCES,
				 "'%s' rejects the key (HTTP %ld): put the workspace's key into "
				 "PITOT_API_KEY or a file for --api-key-file",
				 url, a->status);
	case 404:
		return error_set(u->error, -ENOENT,
				 "'%s' does not exist (HTTP 404): the backend is too old, --url "
				 "contains more than its host, or it needs another --api-path",
				 url);
	default:
		if (a->status >= 300 && a->status < 400)
			return error_set(u->error, -EIO,
					 "'%s' redirects to '%s' (HTTP %ld), and redirects are not "
					 "followed: give that host with --url",
					 url, a->location, a->status);
		if (a->status < 300)
			return error_set(u->error, -EPROTO,
					 "'%s' does not confirm that it accepts the logs (HTTP "
					 "%ld): give the host of a gpufl backend with --url",
					 url, a->status);
		return error_set(u->error, -EIO, "'%s' answers HTTP %ld", url, a->status);
	}
}

/* ---- requests ---- */

static bool is_cancelled(const struct upload *u)
{
	return u->options->cancel && *u->options->cancel;
}

static uint64_t time_left_ns(const struct upload *u)
{
	uint64_t now = clock_monotonic_ns();

	return now < u->deadline_ns ? u->deadline_ns - now : 0;
}

static int set_timeout_error(struct upload *u)
{
	const struct error last = *u->error;

	return error_set(u->error, -ETIMEDOUT,
			 "the upload timed out%s%s; run it again to continue, or give more time "
			 "with --timeout",
			 *last.text ? ": " : "", last.text);
}

/* Doubles each time; a random half of it keeps many machines from retrying simultaneously. */
static uint64_t delay_ns(const struct upload *u, uint64_t attempt, const struct http_response *a)
{
	uint64_t longest = MIN(u->request_timeout_ns / 300 << MIN(attempt, 30), DELAY_MAX_NS),
		 random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = clock_machine_ns();
	return MAX(longest - random % (longest / 2 + 1),
		   MIN(a->retry_after_s, UINT32_MAX) * NS_PER_S);
}

static int pause_ns(struct upload *u, uint64_t ns)
{
	uint64_t end = clock_monotonic_ns() + ns, now;

	if (ns >= time_left_ns(u))
		return set_timeout_error(u);
	while (!is_cancelled(u) && (now = clock_monotonic_ns()) < end) {
		struct timespec nap = { .tv_nsec = (long)MIN(end - now, POLL_NS) };

		nanosleep(&nap, NULL);
	}
	return is_cancelled(u) ? error_set(u->error, -ECANCELED, "stopped by a signal") : 0;
}

static int give_up(struct upload *u, uint64_t attempt, struct http_response *a)
{
	const struct error last = *u->error;
	char pause[64] = "";

	if (a->retry_after_s)
		snprintf(pause, sizeof(pause), " (the server asks for a pause of %llu s)",
			 (unsigned long long)a->retry_after_s);
	http_response_release(a);
	return error_set(u->error, last.code,
			 "%s%s (attempt %llu); run the upload again to continue", last.text, pause,
			 (unsigned long long)attempt + 1);
}

/*
 * Sends until the verdict is not RETRY. Returns the verdict with *a, or a negative code; u->error
 * describes the failure of the last attempt.
 */
static int send_request(struct upload *u, const char *what, const char *const *headers,
			const struct upload_body *body, bool is_window, struct http_response *a)
{
	char url[sizeof(u->api) + 32];
	struct http_request request = {
		.method = HTTP_POST, .url = url, .headers = headers, .body = &body->gzip
	};
	int r;

	snprintf(url, sizeof(url), "%s%s", u->api, what);
	u->error->text[0] = '\0';
	for (uint64_t attempt = 0;; attempt++) {
		int verdict = RETRY;

		if (!time_left_ns(u))
			return set_timeout_error(u);
		request.timeout_ns = time_left_ns(u);
		r = http_send(u->http, &request, a, u->error);
		if (r < 0 && r != -EIO)
			return error_prefix(u->error, "cannot send to '%s'", url);
		if (r == 0)
			verdict = classify(a, is_window, body->window_id[0]);
		if (r < 0)
			error_prefix(u->error, "cannot send to '%s'", url);
		else if (verdict != ACCEPTED)
			set_response_error(u, url, a);
		if (verdict != RETRY)
			return verdict == FATAL ? u->error->code : verdict;
		if (attempt == u->options->retries || a->retry_after_s > RETRY_AFTER_MAX_S)
			return give_up(u, attempt, a);
		r = pause_ns(u, delay_ns(u, attempt, a));
		http_response_release(a);
		if (r < 0)
			return r;
		u->result->retries++;
	}
}

/* ---- a window ---- */

static void warn_rejected_line(const struct upload *u, const char *name, const char *item,
			       size_t length)
{
	static const char *const keys[] = { "line", "type", "reason" };
	struct json_found found[ARRAY_SIZE(keys)];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (json_find(item, length, keys[i], &found[i], NULL) < 0)
			snprintf(found[i].text, sizeof(found[i].text), "?");
		http_make_printable(found[i].text);
	}
	warn(u, "the server rejected line %s (%s) of '%s': %s", found[0].text, found[1].text, name,
	     found[2].text);
}

/*
 * Reads {"accepted":n,"rejected":n,"errors":[{"line":…,"type":…,"reason":…}]}; a long response may
 * be cut.
 */
static void read_rejected(struct upload *u, const char *name, const struct http_response *a)
{
	_cleanup_members_ struct json_members m =
		JSON_MEMBERS(strbuf_text(&a->body), a->body.length);
	uint64_t rejected = 0;

	while (json_members_next(&m, NULL) > 0) {
		_cleanup_members_ struct json_members items = JSON_ITEMS(m.value, m.value_length);

		if (!strcmp(strbuf_text(&m.key), "rejected"))
			rejected = strtoull(strbuf_text(&m.text), NULL, 10);
		for (unsigned i = 0; !strcmp(strbuf_text(&m.key), "errors") && i < REASONS_SHOWN &&
				     json_members_next(&items, NULL) > 0;
		     i++)
			warn_rejected_line(u, name, items.value, items.value_length);
	}
	if (rejected)
		warn(u, "the server rejected %llu line%s of '%s'", (unsigned long long)rejected,
		     plural(rejected), name);
	u->result->rejected_records += rejected;
}

/* Returns a verdict or a negative code. */
static int send_window(struct upload *u, const struct upload_session *s,
		       const struct gpufl_window *w, const struct upload_body *body)
{
	char texts[5][HEADER_BYTES], name[PATH_MAX];
	const char *headers[] = { "Content-Type: application/x-ndjson",
				  "Content-Encoding: gzip",
				  texts[0],
				  texts[1],
				  texts[2],
				  texts[3],
				  texts[4],
				  NULL };
	_cleanup_(http_response_release) struct http_response a = { 0 };
	int r;

	snprintf(name, sizeof(name), "%s/%s", s->id, base_name(w->path));
	snprintf(texts[0], HEADER_BYTES, "X-GpuFlight-Session-Id: %s", s->id);
	if (body->window_id[0]) {
		snprintf(texts[1], HEADER_BYTES, "X-GpuFlight-Window-Id: %s", body->window_id);
		snprintf(texts[2], HEADER_BYTES, "X-GpuFlight-Window-Channel: %s",
			 gpufl_channel_names[w->channel]);
		snprintf(texts[3], HEADER_BYTES, "X-GpuFlight-Window-Sequence: %llu",
			 (unsigned long long)body->sequence);
		snprintf(texts[4], HEADER_BYTES, "X-GpuFlight-Window-CRC32: %llu",
			 (unsigned long long)body->crc);
	} else {
		headers[3] = NULL;
	}
	r = send_request(u, "stream", headers, body, true, &a);
	if (r == ACCEPTED) {
		read_rejected(u, name, &a);
		u->result->records += body->lines;
	} else if (r == REFUSED) {
		warn(u, "'%s' was not accepted and is skipped: %s", name, u->error->text);
	}
	return r;
}

static bool was_sent(const struct upload *u, const struct upload_session *s, const char *name)
{
	return !u->options->force && upload_cursor_has_file(&u->cursor, s->id, name);
}

/* Returns the cursor's name of a part while other parts are missing. */
static const char *part_name(char name[PATH_MAX], const struct gpufl_window *w, unsigned part)
{
	snprintf(name, PATH_MAX, "%s#%u", base_name(w->path), part);
	return name;
}

/* Returns 0 if the server has the window, 1 if it was left out, or a negative code. */
static int upload_window(struct upload *u, const struct upload_session *s,
			 const struct gpufl_window *w, uint64_t *lines)
{
	_cleanup_(upload_reader_release) struct upload_reader reader = { .sessions = &u->sessions,
									 .session = s,
									 .window = w };
	struct upload_body body = { 0 };
	char name[PATH_MAX];
	int r = ACCEPTED;

	for (unsigned part = 1; r == ACCEPTED && !body.is_last; part++) {
		r = upload_reader_next(&reader, &body, u->error);
		if (r == E_FORMAT || r == E_LIMIT) {
			warn(u, "%s; skipped", u->error->text);
			r = REFUSED;
		} else if (r == 0 && !was_sent(u, s, part_name(name, w, part))) {
			r = send_window(u, s, w, &body);
			*lines += r == ACCEPTED ? body.lines : 0;
			if (r == ACCEPTED)
				r = upload_cursor_add_file(&u->cursor, s->id,
							   body.is_last ? base_name(w->path) : name,
							   u->error);
		}
		upload_body_release(&body);
	}
	return r == REFUSED ? 1 : r;
}

/* ---- a session ---- */

static bool is_completed(const struct upload *u, const struct upload_session *s)
{
	return !u->options->force && upload_cursor_has_session(&u->cursor, s->id);
}

static int complete_session(struct upload *u, const struct upload_session *s, uint64_t lines)
{
	char text[HEADER_BYTES];
	const char *const headers[] = { text, NULL };
	const struct upload_body empty = { 0 };
	struct http_response a = { 0 };
	int r;

	snprintf(text, sizeof(text), "X-GpuFlight-Session-Id: %s", s->id);
	r = send_request(u, "session-complete", headers, &empty, false, &a);
	http_response_release(&a);
	if (r == REFUSED) {
		warn(u, "session %s was not completed: %s", s->id, u->error->text);
		u->result->unfinished++;
		return 0;
	}
	if (r == ACCEPTED) {
		u->result->completed++;
		r = upload_cursor_add_session(&u->cursor, s->id, lines, u->error);
	}
	return r;
}

static int upload_session(struct upload *u, const struct upload_session *s)
{
	uint64_t lines = 0, refused = 0;
	int r = 0;

	for (size_t i = 0; i < s->windows.count && r >= 0; i++) {
		const struct gpufl_window *w = &s->windows.data[i];

		if (was_sent(u, s, base_name(w->path))) {
			u->result->known_files++;
			continue;
		}
		r = u->options->dry_run ? 0 : upload_window(u, s, w, &lines);
		u->done += w->bytes;
		refused += r > 0;
		if (r == 0) {
			u->result->files++;
			u->result->bytes += w->bytes;
		}
	}
	u->result->refused_files += refused;
	if (r < 0)
		return r;
	if (s->running && s->unpublished)
		warn(u,
		     "session %s has windows that its process has not published: upload it again "
		     "in "
		     "five minutes, as the session's user",
		     s->id);
	else if (s->running)
		warn(u, "session %s is still being written: upload it again after it has ended",
		     s->id);
	if (s->lossy)
		warn(u,
		     "session %s has lost records, according to a loss marker: it is never "
		     "reported complete",
		     s->id);
	if (!s->running && !s->lossy && !refused)
		return u->options->dry_run ? 0 : complete_session(u, s, lines);
	u->result->unfinished++;
	return 0;
}

static int upload_sessions(struct upload *u)
{
	int r = 0;

	for (size_t i = 0; i < u->sessions.all.count; i++) {
		const struct upload_session *s = &u->sessions.all.data[i];

		for (size_t n = 0; n < s->windows.count && !is_completed(u, s); n++)
			u->total += was_sent(u, s, base_name(s->windows.data[n].path))
					    ? 0
					    : s->windows.data[n].bytes;
	}
	for (size_t i = 0; i < u->sessions.all.count && r >= 0; i++) {
		const struct upload_session *s = &u->sessions.all.data[i];

		if (is_completed(u, s)) {
			u->result->known_files += s->windows.count;
			continue;
		}
		u->result->sessions++;
		r = upload_session(u, s);
	}
	return r;
}

/* ---- all ---- */

static void on_sent(void *user, uint64_t sent)
{
	struct upload *u = user;

	if (u->options->progress)
		u->options->progress(u->options->user, u->done + sent, u->total);
}

static bool has_scheme(const char *url, const char *scheme)
{
	return !strncasecmp(url, scheme, strlen(scheme));
}

int upload_check_url(const char *url, struct error *e)
{
	if (!url || !*url)
		return error_set(e, E_USAGE,
				 "no backend: give its host with --url or PITOT_BACKEND_URL");
	if (strpbrk(url, UPLOAD_URL_SECRETS))
		return error_set(
			e, E_USAGE,
			"the address of a backend must not contain a user, a password or a "
			"query: give https://HOST or http://HOST:PORT, and the key by "
			"PITOT_API_KEY or --api-key-file");
	if ((!has_scheme(url, "https://") && !has_scheme(url, "http://")) ||
	    !http_is_header_text(url))
		return error_set(e, E_USAGE,
				 "'%s' is not the address of a backend: give https://HOST or "
				 "http://HOST:PORT",
				 url);
	return 0;
}

static int set_url(struct upload *u)
{
	const struct upload_options *o = u->options;
	const char *api = o->api_path && *o->api_path ? o->api_path : UPLOAD_API_PATH;
	size_t url, path = strlen(api);
	int n = upload_check_url(o->url, u->error);

	if (n < 0)
		return n;
	if (!http_is_header_text(api))
		return error_set(
			u->error, E_USAGE,
			"'%s' is not a path: give one without blanks, such as " UPLOAD_API_PATH
			", with --api-path",
			api);
	for (url = strlen(o->url); url && o->url[url - 1] == '/'; url--)
		;
	for (; path && api[path - 1] == '/'; path--)
		;
	n = snprintf(u->api, sizeof(u->api), "%.*s%s%.*s/events/", (int)url, o->url,
		     *api == '/' ? "" : "/", (int)path, api);
	return n < (int)sizeof(u->api)
		       ? 0
		       : error_set(u->error, E_USAGE, "the address is longer than %zu bytes",
				   sizeof(u->api));
}

static int set_headers(struct upload *u)
{
	const struct upload_options *o = u->options;
	char host[256] = "";
	size_t n = 0;

	u->headers[n++] = "User-Agent: gpufl-client/" CLIENT_VERSION
			  " (deferred-upload) pitot/" PITOT_VERSION;
	u->headers[n++] = "X-GpuFlight-Client-Version: " CLIENT_VERSION;
	u->headers[n++] = "X-GpuFlight-Wire-Version: " WIRE_VERSION;
	/* a server that ignores it would delay each request by a second */
	u->headers[n++] = "Expect:";
	if (gethostname(host, sizeof(host) - 1) == 0 && *host && http_is_header_text(host)) {
		snprintf(u->hostname, HEADER_BYTES, "X-GpuFlight-Hostname: %s", host);
		u->headers[n++] = u->hostname;
	}
	if (!o->api_key || !*o->api_key)
		return 0;
	if (!http_is_header_text(o->api_key) ||
	    snprintf(u->authorization, HEADER_BYTES, "Authorization: Bearer %s", o->api_key) >=
		    HEADER_BYTES)
		return error_set(
			u->error, E_USAGE,
			"the key is too long, or contains blanks or other invalid characters");
	u->headers[n++] = u->authorization;
	if (o->url && has_scheme(o->url, "http://") && !http_is_loopback(o->url))
		warn(u, "'%s' is not encrypted: the key can be read on the way; use https://",
		     o->url);
	return 0;
}

/* The cursor of one session's folder is in its parent, as if all sessions were sent. */
static int set_path(struct upload *u)
{
	const struct upload_options *o = u->options;
	char path[PATH_MAX];
	char *slash;

	if (!realpath(o->path, path))
		return error_errno(u->error, errno, "cannot read '%s'", o->path);
	slash = strrchr(path, '/');
	memcpy(u->log_path, path, sizeof(path));
	if (!upload_is_session(path) || strlen(slash + 1) >= sizeof(u->only))
		return 0;
	snprintf(u->only, sizeof(u->only), "%s", slash + 1);
	u->log_path[slash > path ? slash - path : 1] = '\0';
	return 0;
}

static int open_cursor(struct upload *u)
{
	const struct upload_options *o = u->options;
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

	if (o->cursor)
		strbuf_adds(&path, o->cursor);
	else
		strbuf_addf(&path, "%s/" UPLOAD_CURSOR, u->log_path);
	if (path.failed)
		return error_set(u->error, -ENOMEM, "out of memory");
	return upload_cursor_open(&u->cursor, path.data, !o->dry_run, u->error);
}

static int list_sessions(struct upload *u)
{
	const struct upload_options *o = u->options;
	const char *only = *u->only ? u->only : o->session;
	int r;

	if (!o->dry_run)
		gpufl_files_salvage(u->log_path);
	r = upload_sessions_list(u->log_path, only, &u->sessions, u->error);
	if (r == 0 && !u->sessions.all.count)
		r = error_set(u->error, -ENOENT,
			      only && !*u->only ? "'%s' contains no session '%s' with a log"
						: "no session with gpufl's logs in '%s': create "
						  "one with `pitot export --format gpufl`",
			      o->path, only);
	return r;
}

static int run(struct upload *u)
{
	const struct upload_options *o = u->options;
	struct http_options http = { .ca_file = o->ca_file,
				     .ca_setting = o->ca_setting,
				     .stall_timeout_ns = u->request_timeout_ns / 10,
				     .headers = u->headers,
				     .cancel = o->cancel,
				     .progress = on_sent,
				     .user = u };
	int r = o->dry_run && !o->url ? 0 : set_url(u);

	if (r == 0)
		r = set_headers(u);
	if (r == 0)
		r = set_path(u);
	if (r == 0)
		r = open_cursor(u);
	if (r == 0)
		r = list_sessions(u);
	if (r == 0 && !o->dry_run) {
		http.no_proxy = http_is_loopback(o->url);
		r = http_open(&http, &u->http, u->error);
	}
	return r == 0 ? upload_sessions(u) : r;
}

int upload_run(const struct upload_options *options, struct upload_result *result, struct error *e)
{
	struct upload *u = calloc(1, sizeof(*u));
	struct error unused = { 0 };
	int r;

	*result = (struct upload_result){ 0 };
	if (!u)
		return error_set(e, -ENOMEM, "out of memory");
	u->options = options;
	u->result = result;
	u->error = e ? e : &unused;
	u->cursor.lock = u->cursor.folder = u->sessions.folder = -1;
	u->deadline_ns = clock_monotonic_ns();
	/* 0 wraps around to the longest times. */
	u->deadline_ns += MIN(options->timeout_ns - 1, UINT64_MAX - 1 - u->deadline_ns) + 1;
	u->request_timeout_ns = MIN(options->timeout_ns - 1, UPLOAD_TIMEOUT_NS - 1) + 1;
	r = run(u);
	http_free(u->http);
	upload_sessions_release(&u->sessions);
	upload_cursor_release(&u->cursor);
	free(u);
	return r;
}
