#include "agent/s3.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/s3_credentials.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/options.h"
#include "base/starts_with.h"
#include "base/xml_pull.h"
#include "upload/http.h"

#define REGION_DEFAULT "us-east-1"
#define REQUEST_NS (600 * NS_PER_S) /* S3_STALL_NS is what ends a slow one */
#define ATTEMPTS 4u
#define PAUSE_NS (100 * NS_PER_MS) /* before the second attempt; doubles */
#define PATIENT_NS (2 * NS_PER_S) /* an attempt that took longer is not repeated at once */
#define PAGE_KEYS "500" /* of a list: at most 600 KiB */
#define KEYS_MAX 1000000u
#define PAGES_MAX 100000u /* a server may send short ones, but not for ever */

struct s3 {
	struct http *http;
	struct s3_options options;
	char bucket[64], scope[96];
	struct strbuf base; /* ENDPOINT/BUCKET */
	struct strbuf prefix; /* "" or "…/" */
	struct strbuf address; /* of the prefix */
};

/* --- opening --- */

static const char *from_environment(const char *option, const char *const *names)
{
	for (; !option && *names; names++) {
		option = getenv(*names);
		option = option && *option ? option : NULL;
	}
	return option;
}

/* Of names in URLs and the scope of a signature. */
static bool is_name(const char *text, size_t most)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-._");

	return length && !text[length] && length <= most && *text != '.';
}

static int set_endpoint(struct s3 *s, const char *region, struct error *e)
{
	static const char *const names[] = { "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL };
	const char *endpoint = from_environment(s->options.endpoint, names);
	size_t length = endpoint ? strlen(endpoint) : 0;

	if (!endpoint) {
		strbuf_addf(&s->base, "https://s3.%s.amazonaws.com/%s", region, s->bucket);
		return 0;
	}
	while (length && endpoint[length - 1] == '/')
		length--;
	if (strpbrk(endpoint, "@?#\\") || !http_is_header_text(endpoint) ||
	    (strncasecmp(endpoint, "https://", 8) != 0 && strncasecmp(endpoint, "http://", 7) != 0))
		return error_set(e, E_USAGE,
				 "the endpoint of object storage is https://HOST or "
				 "https://HOST:PORT, without a user, a password and a query");
	if (!strncasecmp(endpoint, "http://", 7) && !http_is_loopback(endpoint))
		return error_set(e, E_USAGE,
				 "'%s' is not encrypted, and bodies are not signed: use https://",
				 endpoint);
	strbuf_addf(&s->base, "%.*s/%s", (int)length, endpoint, s->bucket);
	return 0;
}

static void add_encoded(struct strbuf *out, const char *text, bool is_path)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    strchr("-._~", c) || (is_path && c == '/'))
			strbuf_addc(out, (char)c);
		else
			strbuf_addf(out, "%%%02X", c);
	}
}

static int set_place(struct s3 *s, const char *url, struct error *e)
{
	static const char *const regions[] = { "AWS_REGION", "AWS_DEFAULT_REGION", NULL };
	const char *region = from_environment(s->options.region, regions) ?: REGION_DEFAULT;
	const char *rest = url + strlen(S3_SCHEME);
	size_t bucket = strcspn(rest, "/");
	int rc;

	if (bucket >= sizeof(s->bucket))
		bucket = 0;
	snprintf(s->bucket, sizeof(s->bucket), "%.*s", (int)bucket, rest);
	rest += bucket + strspn(rest + bucket, "/");
	if (!is_name(s->bucket, sizeof(s->bucket) - 1))
		return error_set(e, E_USAGE, "'%s' names no bucket: use s3://BUCKET/PREFIX", url);
	if (strlen(rest) > S3_KEY_MAX / 2 || strstr(rest, "//") || !http_is_header_text(rest))
		return error_set(e, E_USAGE,
				 "the prefix in '%s' is too long, or has blanks or '//'", url);
	if (!is_name(region, 40))
		return error_set(e, E_USAGE, "'%s' is no region of object storage", region);
	snprintf(s->scope, sizeof(s->scope), "aws:amz:%s:s3", region);
	strbuf_adds(&s->prefix, rest);
	if (*rest && rest[strlen(rest) - 1] != '/')
		strbuf_addc(&s->prefix, '/');
	rc = set_endpoint(s, region, e);
	strbuf_addf(&s->address, "%s/", strbuf_text(&s->base));
	add_encoded(&s->address, strbuf_text(&s->prefix), true);
	s->address.data[--s->address.length] = '\0';
	return rc;
}

int s3_open(struct s3 **out, const char *url, const struct s3_options *options, struct error *e)
{
	static const char *const headers[] = { NULL };
	struct http_options http = { .stall_timeout_ns = S3_STALL_NS,
				     .headers = headers,
				     .ca_setting = "AWS_CA_BUNDLE" };
	struct s3 *s = calloc(1, sizeof(*s));
	const char *bundle = getenv("AWS_CA_BUNDLE");
	int rc;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->options = *options;
	rc = set_place(s, url, e);
	if (rc == 0 && (s->base.failed || s->prefix.failed || s->address.failed))
		rc = error_set(e, -ENOMEM, "out of memory");
	if (rc == 0) {
		http.no_proxy = http_is_loopback(strbuf_text(&s->base));
		http.ca_file = bundle && *bundle ? bundle : NULL;
		rc = http_open(&http, &s->http, e);
	}
	if (rc < 0)
		s3_free(s);
	else
		*out = s;
	return rc;
}

void s3_free(struct s3 *s)
{
	if (!s)
		return;
	http_free(s->http);
	strbuf_release(&s->base);
	strbuf_release(&s->prefix);
	strbuf_release(&s->address);
	free(s);
}

const char *s3_address(const struct s3 *s)
{
	return strbuf_text(&s->address);
}

/* --- requests --- */

/* Sets *out to what is between the tags of an element in a short answer; "": there is none. */
static void find_element(const struct http_response *a, const char *open, char *out, size_t size)
{
	const char *at = strstr(strbuf_text(&a->body), open);

	*out = '\0';
	if (!at)
		return;
	at += strlen(open);
	snprintf(out, size, "%.*s", (int)strcspn(at, "<"), at);
	http_make_printable(out);
}

/* What a response without success means. */
static int refusal(const struct s3 *s, const struct http_response *a, struct error *e)
{
	char code[64], region[64];

	find_element(a, "<Code>", code, sizeof(code));
	find_element(a, "<Region>", region, sizeof(region));
	if (!strcmp(code, "NoSuchBucket"))
		return error_set(e, -ENOENT,
				 "bucket '%s' does not exist: make it, or correct the path, the "
				 "endpoint or the region",
				 s->bucket);
	if (a->status == 404)
		return error_set(e, -ENOENT, "there is no such object (HTTP 404%s%s)",
				 *code ? ", " : "", code);
	if (a->status == 401 || a->status == 403)
		return error_set(e, -EACCES,
				 "access is denied (HTTP %ld%s%s): check the credentials, their "
				 "permissions and the clock of this machine",
				 a->status, *code ? ", " : "", code);
	if (a->status >= 300 && (a->status < 400 || *region))
		return error_set(e, -EPROTO,
				 "the bucket is elsewhere (HTTP %ld%s%s): give its region with "
				 "--s3-region, or its --s3-endpoint",
				 a->status, *region ? ", region " : "", region);
	if (a->status >= 500 || a->status == 429 || a->status == 408 || a->status == 409)
		return error_set(e, -EAGAIN, "the server answers HTTP %ld%s%s", a->status,
				 *code ? ", " : "", code);
	return error_set(e, -EPROTO, "the server answers HTTP %ld%s%s", a->status,
			 *code ? ", " : "", code);
}

/* A random half of it keeps many machines from trying again at the same moment. */
static void pause_after(unsigned attempt)
{
	uint64_t longest = PAUSE_NS << attempt, random = 0;
	struct timespec nap;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
		random = clock_machine_ns();
	longest -= random % (longest / 2 + 1);
	nap.tv_sec = (time_t)(longest / NS_PER_S);
	nap.tv_nsec = (long)(longest % NS_PER_S);
	nanosleep(&nap, NULL);
}

/* Where the body of an object goes. */
struct target {
	int file; /* -1: text */
	struct strbuf *text;
	size_t max; /* of the text */
};

static int receive(void *user, const void *bytes, size_t length)
{
	const struct target *to = user;

	if (to->file >= 0)
		return io_write_all(to->file, bytes, length);
	if (length > to->max - to->text->length)
		return E_LIMIT;
	strbuf_add(to->text, bytes, length);
	return to->text->failed ? -ENOMEM : 0;
}

/* What an attempt before has received is not the beginning of this one. */
static int empty(const struct target *to, struct error *e)
{
	if (to->file < 0) {
		strbuf_clear(to->text);
		return 0;
	}
	return lseek(to->file, 0, SEEK_SET) < 0 || ftruncate(to->file, 0) < 0
		       ? error_errno(e, errno, "cannot write the file")
		       : 0;
}

/* `done` is a status that is success as well as 2xx. */
static int send_once(struct s3 *s, struct http_request *request, const char *const *headers,
		     long done, struct http_response *a, struct error *e)
{
	struct s3_credentials c;
	char token[S3_TOKEN_MAX + 32];
	const char *all[8] = { "x-amz-content-sha256: UNSIGNED-PAYLOAD" };
	size_t count = 1;
	int rc = s3_credentials_read(s->options.credentials, &c, e);

	if (rc == 0 && request->receive)
		rc = empty(request->user, e);
	if (rc < 0)
		return rc;
	if (*c.token) {
		snprintf(token, sizeof(token), "x-amz-security-token: %s", c.token);
		all[count++] = token;
	}
	for (; headers && *headers; headers++)
		all[count++] = *headers;
	request->headers = all;
	request->signer =
		&(struct http_signer){ .scope = s->scope, .key = c.key, .secret = c.secret };
	request->timeout_ns = REQUEST_NS;
	rc = http_send(s->http, request, a, e);
	explicit_bzero(&c, sizeof(c));
	explicit_bzero(token, sizeof(token));
	if (rc == -EIO)
		e->code = rc = -EAGAIN;
	if (rc < 0)
		return rc;
	if ((a->status >= 200 && a->status < 300) || a->status == done)
		return 0;
	rc = refusal(s, a, e);
	http_response_release(a);
	return rc;
}

/* Returns 0, and the response, or a negative code. */
static int send_request(struct s3 *s, struct http_request *request, const char *const *headers,
			long done, struct http_response *a, struct error *e)
{
	for (unsigned attempt = 0;; attempt++) {
		uint64_t begun_ns = clock_monotonic_ns();
		int rc = send_once(s, request, headers, done, a, e);

		if (rc == 0)
			*e = (struct error){ 0 };
		if (rc != -EAGAIN || attempt + 1 == ATTEMPTS ||
		    clock_monotonic_ns() - begun_ns > PATIENT_NS)
			return rc;
		pause_after(attempt);
	}
}

/* --- objects --- */

static void add_url(const struct s3 *s, const char *key, struct strbuf *out)
{
	strbuf_addf(out, "%s/", strbuf_text(&s->address));
	add_encoded(out, key, true);
}

static int out_of_memory(struct error *e)
{
	return error_set(e, -ENOMEM, "out of memory");
}

#define EXISTS 412 /* Precondition Failed */
#define NO_SUCH_OBJECT 404

int s3_put(struct s3 *s, int file, const char *key, bool replace, struct error *e)
{
	static const char *const once[] = { "If-None-Match: *", NULL };
	_cleanup_strbuf_ struct strbuf url = STRBUF_INIT;
	struct http_request request = { .method = HTTP_PUT, .file = file };
	struct http_response a;
	struct stat st;
	int rc;

	if (fstat(file, &st) < 0)
		return error_errno(e, errno, "cannot read the file");
	add_url(s, key, &url);
	if (url.failed)
		return out_of_memory(e);
	request.url = strbuf_text(&url);
	request.file_bytes = (uint64_t)st.st_size;
	rc = send_request(s, &request, replace ? NULL : once, replace ? 0 : EXISTS, &a, e);
	if (rc < 0)
		return rc;
	rc = a.status == EXISTS;
	http_response_release(&a);
	return rc;
}

static int request_object(struct s3 *s, struct http_request *request, const char *key, long done,
			  struct error *e)
{
	_cleanup_strbuf_ struct strbuf url = STRBUF_INIT;
	struct http_response a;
	int rc;

	add_url(s, key, &url);
	if (url.failed)
		return out_of_memory(e);
	request->url = strbuf_text(&url);
	rc = send_request(s, request, NULL, done, &a, e);
	if (rc == 0)
		http_response_release(&a);
	return rc;
}

int s3_get(struct s3 *s, const char *key, int file, struct error *e)
{
	struct target to = { .file = file };
	struct http_request request = { .method = HTTP_GET, .receive = receive, .user = &to };

	return request_object(s, &request, key, 0, e);
}

int s3_read(struct s3 *s, const char *key, size_t max, struct strbuf *out, struct error *e)
{
	struct target to = { .file = -1, .text = out, .max = max };
	struct http_request request = { .method = HTTP_GET, .receive = receive, .user = &to };

	return request_object(s, &request, key, 0, e);
}

int s3_remove(struct s3 *s, const char *key, struct error *e)
{
	struct http_request request = { .method = HTTP_DELETE };

	return request_object(s, &request, key, NO_SUCH_OBJECT, e);
}

/* --- lists --- */

struct page {
	struct strbuf token; /* of the next page; "": there is none */
	struct strbuf last; /* the one before */
	uint64_t pages;
	struct strbuf key;
	uint64_t bytes, keys;
	const struct http_response *response;
	size_t read;
};

static ssize_t read_page(void *user, void *bytes, size_t size)
{
	struct page *p = user;
	size_t n = MIN(size, p->response->body.length - p->read);

	memcpy(bytes, strbuf_text(&p->response->body) + p->read, n);
	p->read += n;
	return (ssize_t)n;
}

/* %XX in keys: any bytes. False: it is none that we could have made, such as one with a NUL. */
static bool decode(const char *text, struct strbuf *out)
{
	strbuf_clear(out);
	for (; *text; text++) {
		char digits[3] = "", *end = digits;
		unsigned long value = (unsigned char)*text;

		if (*text == '%') {
			snprintf(digits, sizeof(digits), "%.2s", text + 1);
			value = strtoul(digits, &end, 16);
			if (strlen(digits) != 2 || *end || !value)
				return false;
			text += 2;
		}
		strbuf_addc(out, (char)value);
	}
	return out->length <= S3_KEY_MAX;
}

static int on_element(struct s3 *s, struct page *p, const struct xml_pull *x, s3_visit *visit,
		      void *user)
{
	const char *name = strbuf_text(&x->name), *text = strbuf_text(&x->text);

	if (!strcmp(name, "Key")) {
		if (!decode(text, &p->key))
			strbuf_clear(&p->key);
	} else if (!strcmp(name, "Size")) {
		if (parse_u64(text, &p->bytes) < 0)
			p->bytes = 0;
	} else if (!strcmp(name, "NextContinuationToken")) {
		strbuf_clear(&p->token);
		strbuf_adds(&p->token, text);
	} else if (!strcmp(name, "Contents")) {
		const char *key = strbuf_text(&p->key);
		bool is_ours = starts_with(key, strbuf_text(&s->prefix));
		int rc = p->key.failed ? -ENOMEM : 0;

		if (++p->keys > KEYS_MAX)
			return E_LIMIT;
		if (rc == 0 && is_ours && key[s->prefix.length])
			rc = visit(user, key + s->prefix.length, p->bytes);
		strbuf_clear(&p->key);
		p->bytes = 0;
		return rc;
	}
	return 0;
}

static int parse_page(struct s3 *s, struct page *p, s3_visit *visit, void *user, struct error *e)
{
	struct xml_pull x = { .read = read_page, .user = p };
	int rc, code = 0;

	p->read = 0;
	strbuf_clear(&p->last);
	strbuf_adds(&p->last, strbuf_text(&p->token));
	strbuf_clear(&p->token);
	if (p->response->is_cut)
		return error_set(e, E_LIMIT, "the server's list is longer than it may be");
	while (code == 0 && (rc = xml_pull_next(&x, e)) != XML_END) {
		code = rc < 0 ? rc : rc == XML_CLOSE ? on_element(s, p, &x, visit, user) : 0;
		if (rc >= 0 && code < 0)
			error_set(e, code, "%s", error_code_text(code));
	}
	xml_pull_release(&x);
	if (code == 0 && p->token.length &&
	    (++p->pages == PAGES_MAX || !strcmp(strbuf_text(&p->token), strbuf_text(&p->last))))
		return error_set(e, -EPROTO, "the server's list has no end");
	return code;
}

/* Parameters of a query are in the order of their names, as they are signed. */
static void add_list_url(const struct s3 *s, const char *prefix, const struct page *p,
			 struct strbuf *out)
{
	strbuf_addf(out, "%s?", strbuf_text(&s->base));
	if (p->token.length) {
		strbuf_adds(out, "continuation-token=");
		add_encoded(out, strbuf_text(&p->token), false);
		strbuf_addc(out, '&');
	}
	strbuf_adds(out, "encoding-type=url&list-type=2&max-keys=" PAGE_KEYS "&prefix=");
	add_encoded(out, strbuf_text(&s->prefix), false);
	add_encoded(out, prefix, false);
}

int s3_list(struct s3 *s, const char *prefix, s3_visit *visit, void *user, struct error *e)
{
	struct page p = { .token = STRBUF_INIT };
	int rc;

	do {
		_cleanup_strbuf_ struct strbuf url = STRBUF_INIT;
		struct http_request request = { .method = HTTP_GET };
		struct http_response a;

		add_list_url(s, prefix, &p, &url);
		request.url = strbuf_text(&url);
		rc = url.failed ? out_of_memory(e) : send_request(s, &request, NULL, 0, &a, e);
		if (rc < 0)
			break;
		p.response = &a;
		rc = parse_page(s, &p, visit, user, e);
		http_response_release(&a);
	} while (rc == 0 && p.token.length);
	strbuf_release(&p.token);
	strbuf_release(&p.last);
	strbuf_release(&p.key);
	return rc;
}
