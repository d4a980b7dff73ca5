#include "serve/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/options.h"
#include "serve/pool.h"
#include "serve/serve_pages.h"

#define JSON_TYPE "application/json"
#define HTML_TYPE "text/html; charset=utf-8"
#define TICK_NS (100 * NS_PER_MS) /* while a worker is busy */
#define PIXELS_MAX 20000u

/* --- who may --- */

static int make_secret(char text[33])
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -errno;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* Takes the same time wherever the difference is. */
static bool is_secret(const char *text, const char secret[33])
{
	unsigned difference = 0;

	if (strlen(text) != 32)
		return false;
	for (size_t i = 0; i < 32; i++)
		difference |= (unsigned char)(text[i] ^ secret[i]);
	return difference == 0;
}

/* A request that another site makes has its own Origin. */
static bool is_own_origin(const struct serve *s, const struct http_request *r)
{
	const char *scheme = s->http.tls ? "https://" : "http://";

	return !r->origin || (!strncmp(r->origin, scheme, strlen(scheme)) &&
			      !strcmp(r->origin + strlen(scheme), r->host));
}

/* --- routes --- */

static void answer_text(struct serve *s, uint64_t connection, const char *type, const char *headers,
			const struct strbuf *text)
{
	if (text->failed)
		serve_problem(s, connection, 503, "out of memory");
	else
		http_answer(&s->http, connection,
			    &(struct http_answer){ .status = 200,
						   .type = type,
						   .headers = headers,
						   .body = strbuf_text(text),
						   .length = text->length });
}

static void enter(struct serve *s, uint64_t connection)
{
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;
	char headers[128];

	snprintf(headers, sizeof(headers),
		 "Set-Cookie: %s=%s; Path=/; HttpOnly; SameSite=Strict%s\r\n", s->cookie,
		 s->session, s->http.tls ? "; Secure" : "");
	serve_enter_page(s, &page);
	answer_text(s, connection, HTML_TYPE, headers, &page);
}

static uint64_t number_of(const struct http_request *r, const char *name)
{
	uint64_t number = 0;
	char text[24];

	return http_parameter(r, name, text, sizeof(text)) && parse_u64(text, &number) == 0 ? number
											    : 0;
}

/* Parses 16 hexadecimal digits. */
static bool parse_id(const char *text, size_t length, uint64_t *id)
{
	char copy[17] = "", *end;

	if (length != 16 || strspn(text, "0123456789abcdef") < 16)
		return false;
	memcpy(copy, text, 16);
	*id = strtoull(copy, &end, 16);
	return true;
}

/* /r/ID/VIEW */
static bool ask_for_view(struct serve *s, uint64_t connection, const struct http_request *r)
{
#define VIEW_NAME(name, recordings) [SERVE_##name] = recordings == 1 ? #name : "",
	static const char *const names[] = { SERVE_VIEWS(VIEW_NAME) };
	const char *path = r->path + strlen("/r/");
	size_t length = strcspn(path, "/");
	struct serve_ask ask = { .view = SERVE_VIEW_COUNT };
	uint64_t ids[2] = { 0 };

	if (!parse_id(path, length, &ids[0]) || path[length] != '/')
		return false;
	for (size_t v = 0; v < ARRAY_SIZE(names); v++)
		if (*names[v] && v != SERVE_summary && !strcmp(path + length + 1, names[v]))
			ask.view = (enum serve_view)v;
	if (ask.view == SERVE_VIEW_COUNT)
		return false;
	if (ask.view == SERVE_slices) {
		ask.from_ns = number_of(r, "from");
		ask.until_ns = number_of(r, "until");
		ask.correlation = number_of(r, "correlation");
		ask.instance = number_of(r, "instance");
		ask.sums = number_of(r, "sums") != 0;
		ask.pixels = (uint32_t)MIN(number_of(r, "pixels"), PIXELS_MAX);
	}
	pool_ask(s, connection, &ask, 1, ids);
	return true;
}

static bool ask_for_diff(struct serve *s, uint64_t connection, const struct http_request *r)
{
	char a[17], b[17];
	uint64_t ids[2];

	if (!http_parameter(r, "a", a, sizeof(a)) || !http_parameter(r, "b", b, sizeof(b)) ||
	    !parse_id(a, strlen(a), &ids[0]) || !parse_id(b, strlen(b), &ids[1]))
		return false;
	pool_ask(s, connection, &(struct serve_ask){ .view = SERVE_diff }, 2, ids);
	return true;
}

static bool answer_own(struct serve *s, uint64_t connection, const char *path)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *type = HTML_TYPE;

	if (!strcmp(path, "/")) {
		serve_list_page(s, &text);
	} else if (!strcmp(path, "/live")) {
		serve_live_page(s, &text);
	} else if (!strcmp(path, "/recordings")) {
		s->listed_ns = clock_monotonic_ns();
		serve_list(s, &text);
		type = JSON_TYPE;
	} else {
		return false;
	}
	answer_text(s, connection, type, NULL, &text);
	return true;
}

static void handle(void *user, uint64_t connection, const struct http_request *r)
{
	struct serve *s = user;
	char secret[40];
	bool is_done = true;

	if (!is_own_origin(s, r)) {
		serve_problem(s, connection, 403, "requests of other pages are not answered");
	} else if (!strcmp(r->path, "/") && http_parameter(r, "token", secret, sizeof(secret)) &&
		   is_secret(secret, s->token)) {
		enter(s, connection);
	} else if (!http_cookie(r, s->cookie, secret, sizeof(secret)) ||
		   !is_secret(secret, s->session)) {
		serve_problem(s, connection, 403,
			      "open the address that `pitot serve` has printed, with its token");
	} else if (!strncmp(r->path, "/r/", strlen("/r/"))) {
		is_done = ask_for_view(s, connection, r);
	} else if (!strcmp(r->path, "/diff")) {
		is_done = ask_for_diff(s, connection, r);
	} else if (!strcmp(r->path, "/programs")) {
		pool_ask(s, connection, &(struct serve_ask){ .view = SERVE_programs }, 0,
			 (uint64_t[2]){ 0 });
	} else {
		is_done = answer_own(s, connection, r->path);
	}
	if (!is_done)
		serve_problem(s, connection, 404, "there is no such page");
}

/* --- the server --- */

static int choose_secrets(struct serve *s, struct error *e)
{
	int rc = make_secret(s->token);

	rc = rc < 0 ? rc : make_secret(s->session);
	rc = rc < 0 ? rc : make_secret(s->nonce);
	return rc < 0 ? error_set(e, rc, "no random numbers: %s", error_code_text(rc)) : 0;
}

int serve_open(struct serve *s, const struct serve_options *options, struct error *e)
{
	const char *address = options->address ? options->address : "127.0.0.1";
	char text[80];
	int rc;

	*s = (struct serve){ .options = *options,
			     .http = { .fd = -1,
				       .option = "--port",
				       .tls = options->tls,
				       .handle = handle,
				       .user = s } };
	for (size_t i = 0; i < SERVE_WORKERS; i++)
		s->workers[i].fd = -1;
	snprintf(text, sizeof(text), strchr(address, ':') ? "[%s]:%u" : "%s:%u", address,
		 options->port);
	rc = recordings_open(&s->recordings, options->path, e);
	if (rc >= 0)
		rc = choose_secrets(s, e);
	if (rc >= 0)
		rc = http_server_open(&s->http, text, e);
	if (rc >= 0 && !s->http.is_loopback && !s->http.tls)
		rc = error_set(e, E_USAGE, "other machines could read what is sent: %s needs --tls",
			       address);
	if (rc < 0)
		return rc;
	snprintf(s->cookie, sizeof(s->cookie), "pitot-%u", s->http.port);
	strbuf_addf(&s->url, "%s://%s/?token=%s", s->http.tls ? "https" : "http", s->http.address,
		    s->token);
	strbuf_addf(&s->headers,
		    "Content-Security-Policy: default-src 'none'; script-src 'nonce-%s'; "
		    "style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri "
		    "'none'; form-action 'none'; frame-ancestors 'none'\r\n"
		    "Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\n"
		    "Cross-Origin-Resource-Policy: same-origin\r\n",
		    s->nonce);
	s->http.headers = strbuf_text(&s->headers);
	return s->url.failed || s->headers.failed ? error_set(e, -ENOMEM, "out of memory") : 0;
}

unsigned serve_poll(const struct serve *s, struct pollfd *polled, uint64_t *until_ns)
{
	unsigned count = http_server_poll(&s->http, polled);

	for (size_t i = 0; i < SERVE_WORKERS; i++)
		if (s->workers[i].fd >= 0)
			polled[count++] =
				(struct pollfd){ .fd = s->workers[i].fd, .events = POLLIN };
	*until_ns = clock_monotonic_ns() + (pool_is_busy(s) ? TICK_NS : NS_PER_S);
	return count;
}

void serve_step(struct serve *s)
{
	http_server_serve(&s->http);
	pool_step(s);
}

void serve_close(struct serve *s)
{
	http_server_close(&s->http);
	pool_close(s);
	recordings_close(&s->recordings);
	strbuf_release(&s->url);
	strbuf_release(&s->headers);
}
