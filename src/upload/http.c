#include "upload/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#ifdef PITOT_HAVE_CURL

#include <curl/curl.h>
#include <dlfcn.h>

#include "base/clock.h"

#define BODY_KEPT ((size_t)1 << 20)
#define BODY_MAX ((size_t)4 << 20) /* longer responses fail */

#define CURL_FUNCTIONS(F)                                                                          \
	F(global_init)                                                                             \
	F(easy_init)                                                                               \
	F(easy_setopt)                                                                             \
	F(easy_getinfo)                                                                            \
	F(easy_perform)                                                                            \
	F(easy_strerror)                                                                           \
	F(easy_cleanup)                                                                            \
	F(slist_append)                                                                            \
	F(slist_free_all)                                                                          \
	F(version_info)

#define SIGNS_PUT 0x075800 /* 7.88.0: bodies of files are signed as unsigned payload */

struct http {
	struct http_options options;
	CURL *curl;
#define MEMBER(name) __typeof__(curl_##name) *name;
	CURL_FUNCTIONS(MEMBER)
	char problem[CURL_ERROR_SIZE];
	/* Of the current request. */
	const struct http_request *request;
	struct http_response *response;
	size_t received;
	uint64_t read; /* bytes of request->file */
	int receive_code; /* of request->receive */
	uint64_t transferred,
		transferred_ns; /* bytes in both directions, and when the number last changed */
	bool stalled;
};

/* The library remains loaded, because its own dependencies (TLS) cannot all be unloaded. */
static int load(struct http *h, struct error *e)
{
	static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
	void *library = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library)
		return error_set(e, E_UNSUPPORTED,
				 "cannot load libcurl.so.4: install it with apt-get install "
				 "libcurl4 or dnf install libcurl");
#define FIND(name)                                                                                 \
	*(void **)&h->name = dlsym(library, "curl_" #name);                                        \
	if (!h->name)                                                                              \
		return error_set(e, E_UNSUPPORTED, "libcurl.so.4 has no curl_" #name);
	CURL_FUNCTIONS(FIND)
	return 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
	struct http *h = user;
	size_t length = size * count, kept = h->response->body.length;
	long status = 0;

	h->easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
	if (h->request->receive && status == 200) {
		h->receive_code = h->request->receive(h->request->user, bytes, length);
		return h->receive_code < 0 ? 0 : length;
	}
	strbuf_add(&h->response->body, bytes, MIN(length, BODY_KEPT - MIN(kept, BODY_KEPT)));
	h->received += length;
	return h->received > BODY_MAX ? 0 : length;
}

static size_t on_read(char *bytes, size_t size, size_t count, void *user)
{
	struct http *h = user;
	uint64_t left = h->request->file_bytes - h->read;
	ssize_t n = pread(h->request->file, bytes, MIN(size * count, left), (off_t)h->read);

	if (n < 0)
		return CURL_READFUNC_ABORT;
	h->read += (uint64_t)n;
	return (size_t)n;
}

/* A nonzero result ends the request. Called at least once a second. */
static int on_progress(void *user, curl_off_t unused, curl_off_t received, curl_off_t total,
		       curl_off_t sent)
{
	struct http *h = user;
	uint64_t now = clock_monotonic_ns(), moved = (uint64_t)(received + sent);

	(void)unused;
	(void)total;
	if (moved != h->transferred) {
		h->transferred = moved;
		h->transferred_ns = now;
	}
	h->stalled = now - h->transferred_ns > h->options.stall_timeout_ns;
	if (h->options.progress)
		h->options.progress(h->options.user, (uint64_t)sent);
	return h->stalled || (h->options.cancel && *h->options.cancel);
}

static long milliseconds(uint64_t ns)
{
	return (long)MIN(MAX(ns / NS_PER_MS, 1), INT32_MAX);
}

int http_open(const struct http_options *options, struct http **out, struct error *e)
{
	struct http *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return error_set(e, -ENOMEM, "out of memory");
	h->options = *options;
	r = load(h, e);
	if (r == 0 && (h->global_init(CURL_GLOBAL_DEFAULT) || !(h->curl = h->easy_init())))
		r = error_set(e, E_UNSUPPORTED, "libcurl cannot be used");
	if (r < 0) {
		http_free(h);
		return r;
	}
	h->easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
	h->easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->problem);
	h->easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, on_body);
	h->easy_setopt(h->curl, CURLOPT_WRITEDATA, h);
	h->easy_setopt(h->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	h->easy_setopt(h->curl, CURLOPT_XFERINFODATA, h);
	h->easy_setopt(h->curl, CURLOPT_NOPROGRESS, 0L);
	h->easy_setopt(h->curl, CURLOPT_READFUNCTION, on_read);
	h->easy_setopt(h->curl, CURLOPT_READDATA, h);
	/* libcurl would resend on a reused connection that has been closed meanwhile. */
	h->easy_setopt(h->curl, CURLOPT_FORBID_REUSE, 1L);
	if (options->no_proxy)
		h->easy_setopt(h->curl, CURLOPT_NOPROXY, "*");
	if (options->ca_file)
		h->easy_setopt(h->curl, CURLOPT_CAINFO, options->ca_file);
	*out = h;
	return 0;
}

static int add_headers(struct http *h, const char *const *headers, struct curl_slist **list)
{
	for (; *headers; headers++) {
		struct curl_slist *longer = h->slist_append(*list, *headers);

		if (!longer)
			return -ENOMEM;
		*list = longer;
	}
	return 0;
}

/* X509_V_ERR_UNSPECIFIED, _CERT_NOT_YET_VALID and _CERT_HAS_EXPIRED of OpenSSL. */
#define UNSPECIFIED 1
#define NOT_YET_VALID 9
#define EXPIRED 10

/* A certificate was refused: says what to do about it. */
static int refused_certificate(struct http *h, const char *what, struct error *e)
{
	const char *library = h->version_info(CURLVERSION_NOW)->ssl_version;
	const char *setting = h->options.ca_setting ? h->options.ca_setting : "--ca-file";
	long result = -1;

	/* Other libraries do not say why. */
	if (library && strstr(library, "OpenSSL"))
		h->easy_getinfo(h->curl, CURLINFO_SSL_VERIFYRESULT, &result);
	if (result == NOT_YET_VALID || result == EXPIRED)
		return error_set(e, -EPROTO,
				 "%s: renew the certificate of the server, or set the clock of "
				 "this machine if it is wrong",
				 what);
	if (result == 0 || result == UNSPECIFIED) /* trusted; its names are compared before */
		return error_set(e, -EPROTO,
				 "%s: use a host name or an address that the certificate of the "
				 "server has",
				 what);
	return error_set(e, -EPROTO,
			 "%s: if you trust the server, give the file with its certificate or its "
			 "authority's with %s",
			 what, setting);
}

/* Returns -EIO if a retry may succeed. */
static int failure(struct http *h, CURLcode code, struct error *e)
{
	const char *what = *h->problem ? h->problem : h->easy_strerror(code);

	if (h->options.cancel && *h->options.cancel)
		return error_set(e, -ECANCELED, "stopped by a signal");
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return refused_certificate(h, what, e);
	case CURLE_SSL_CACERT_BADFILE:
		return error_set(e, -EPROTO, "%s: give another file with %s", what,
				 h->options.ca_setting ? h->options.ca_setting : "--ca-file");
	case CURLE_URL_MALFORMAT:
		return error_set(e, E_USAGE, "%s", what);
	case CURLE_OUT_OF_MEMORY:
		return error_set(e, -ENOMEM, "out of memory");
	case CURLE_WRITE_ERROR:
		if (h->receive_code < 0)
			return error_set(e, h->receive_code, "%s",
					 error_code_text(h->receive_code));
		return error_set(e, -EIO, "the response is longer than 4 MiB");
	default:
		if (h->stalled)
			what = "nothing was sent or received for too long";
		return error_set(e, -EIO, "%s", what);
	}
}

static void read_response(struct http *h, struct http_response *response)
{
	curl_off_t after = 0;
	char *location = NULL;

	h->easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &response->status);
	h->easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &after);
	h->easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &location);
	response->is_cut = h->received > response->body.length;
	response->retry_after_s = after > 0 ? (uint64_t)after : 0;
	if (location) {
		size_t length = MIN(strlen(location), sizeof(response->location) - 1);

		memcpy(response->location, location, length);
		response->location[length] = '\0';
		http_make_printable(response->location);
	}
}

static void set_body(struct http *h, const struct http_request *request)
{
	h->easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST,
		       request->method == HTTP_DELETE ? "DELETE" : NULL);
	switch (request->method) {
	case HTTP_POST:
		h->easy_setopt(h->curl, CURLOPT_POST, 1L);
		h->easy_setopt(h->curl, CURLOPT_POSTFIELDS, strbuf_text(request->body));
		h->easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE,
			       (curl_off_t)request->body->length);
		break;
	case HTTP_PUT:
		h->easy_setopt(h->curl, CURLOPT_UPLOAD, 1L);
		h->easy_setopt(h->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->file_bytes);
		break;
	case HTTP_GET:
	case HTTP_DELETE:
		h->easy_setopt(h->curl, CURLOPT_HTTPGET, 1L);
	}
}

static int set_signer(struct http *h, const struct http_signer *signer, struct error *e)
{
	if (signer && h->version_info(CURLVERSION_NOW)->version_num < SIGNS_PUT)
		return error_set(e, E_UNSUPPORTED,
				 "this libcurl cannot sign requests to object storage: version "
				 "7.88 or a newer one is needed");
	h->easy_setopt(h->curl, CURLOPT_AWS_SIGV4, signer ? signer->scope : NULL);
	h->easy_setopt(h->curl, CURLOPT_USERNAME, signer ? signer->key : NULL);
	h->easy_setopt(h->curl, CURLOPT_PASSWORD, signer ? signer->secret : NULL);
	return 0;
}

static void begin(struct http *h, const struct http_request *request,
		  struct http_response *response)
{
	*response = (struct http_response){ 0 };
	h->request = request;
	h->response = response;
	h->received = h->transferred = h->read = 0;
	h->receive_code = 0;
	h->transferred_ns = clock_monotonic_ns();
	h->stalled = false;
	h->problem[0] = '\0';
}

int http_send(struct http *h, const struct http_request *request, struct http_response *response,
	      struct error *e)
{
	struct curl_slist *list = NULL;
	int r = add_headers(h, h->options.headers, &list);
	CURLcode code = CURLE_OUT_OF_MEMORY;

	begin(h, request, response);
	if (r == 0)
		r = add_headers(h, request->headers, &list);
	if (r < 0)
		error_set(e, r, "out of memory");
	else
		r = set_signer(h, request->signer, e);
	if (r == 0) {
		h->easy_setopt(h->curl, CURLOPT_URL, request->url);
		h->easy_setopt(h->curl, CURLOPT_HTTPHEADER, list);
		h->easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, milliseconds(request->timeout_ns));
		set_body(h, request);
		code = h->easy_perform(h->curl);
		r = code == CURLE_OK ? 0 : failure(h, code, e);
	}
	if (r == 0)
		read_response(h, response);
	else
		http_response_release(response);
	h->slist_free_all(list);
	return r;
}

void http_free(struct http *h)
{
	if (h && h->curl)
		h->easy_cleanup(h->curl);
	free(h);
}

#else

int http_open(const struct http_options *options, struct http **out, struct error *e)
{
	(void)options;
	(void)out;
	return error_set(e, E_UNSUPPORTED,
			 "this pitot was built without libcurl and cannot upload: install "
			 "libcurl4-openssl-dev and rebuild it");
}

int http_send(struct http *h, const struct http_request *request, struct http_response *response,
	      struct error *e)
{
	(void)h;
	(void)request;
	(void)response;
	return error_set(e, E_UNSUPPORTED, "built without libcurl");
}

void http_free(struct http *h)
{
	(void)h;
}

#endif

bool http_is_header_text(const char *text)
{
	for (; *text; text++)
		if (*text < '!' || *text > '~')
			return false;
	return true;
}

bool http_is_loopback(const char *url)
{
	const char *colon = strstr(url, "://"), *host = colon ? colon + 3 : url;
	size_t length = strcspn(host, host[0] == '[' ? "]" : ":/");

	return (length == 9 && !strncasecmp(host, "localhost", 9)) ||
	       (!strncmp(host, "[::1]", 5) && strchr(":/", host[5])) ||
	       (!strncmp(host, "127.", 4) && strspn(host, "0123456789.") == length);
}

void http_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

void http_response_release(struct http_response *response)
{
	strbuf_release(&response->body);
}
