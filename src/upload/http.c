#include "upload/http.h"

#include <errno.h>
#include <string.h>

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
	F(slist_free_all)

struct http {
	struct http_options options;
	CURL *curl;
#define MEMBER(name) __typeof__(curl_##name) *name;
	CURL_FUNCTIONS(MEMBER)
	char problem[CURL_ERROR_SIZE];
	/* Of the current request. */
	struct http_response *response;
	size_t received;
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

	strbuf_add(&h->response->body, bytes, MIN(length, BODY_KEPT - MIN(kept, BODY_KEPT)));
	h->received += length;
	return h->received > BODY_MAX ? 0 : length;
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
	h->easy_setopt(h->curl, CURLOPT_POST, 1L);
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

/* Returns -EIO if a retry may succeed. */
static int failure(struct http *h, CURLcode code, struct error *e)
{
	const char *what = *h->problem ? h->problem : h->easy_strerror(code);

	if (h->options.cancel && *h->options.cancel)
		return error_set(e, -ECANCELED, "stopped by a signal");
	switch (code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return error_set(e, -EPROTO,
				 "%s: if you trust the server, give the file with its certificate "
				 "or its authority's with --ca-file",
				 what);
	case CURLE_SSL_CACERT_BADFILE:
		return error_set(e, -EPROTO, "%s: give another file with --ca-file", what);
	case CURLE_URL_MALFORMAT:
		return error_set(e, E_USAGE, "%s", what);
	case CURLE_OUT_OF_MEMORY:
		return error_set(e, -ENOMEM, "out of memory");
	case CURLE_WRITE_ERROR:
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

int http_post(struct http *h, const char *url, const char *const *headers,
	      const struct strbuf *body, uint64_t timeout_ns, struct http_response *response,
	      struct error *e)
{
	struct curl_slist *list = NULL;
	int r = add_headers(h, h->options.headers, &list);
	CURLcode code = CURLE_OUT_OF_MEMORY;

	*response = (struct http_response){ 0 };
	h->response = response;
	h->received = h->transferred = 0;
	h->transferred_ns = clock_monotonic_ns();
	h->stalled = false;
	h->problem[0] = '\0';
	if (r == 0)
		r = add_headers(h, headers, &list);
	if (r == 0) {
		h->easy_setopt(h->curl, CURLOPT_URL, url);
		h->easy_setopt(h->curl, CURLOPT_HTTPHEADER, list);
		h->easy_setopt(h->curl, CURLOPT_POSTFIELDS, strbuf_text(body));
		h->easy_setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->length);
		h->easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, milliseconds(timeout_ns));
		code = h->easy_perform(h->curl);
	}
	r = code == CURLE_OK ? 0 : failure(h, code, e);
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

int http_post(struct http *h, const char *url, const char *const *headers,
	      const struct strbuf *body, uint64_t timeout_ns, struct http_response *response,
	      struct error *e)
{
	(void)h;
	(void)url;
	(void)headers;
	(void)body;
	(void)timeout_ns;
	(void)response;
	return error_set(e, E_UNSUPPORTED, "built without libcurl");
}

void http_free(struct http *h)
{
	(void)h;
}

#endif

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
