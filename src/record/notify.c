#include "record/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/starts_with.h"
#include "base/timed_work.h"
#include "upload/http.h"

#define LIMIT_NS (10 * NS_PER_S)

struct notice {
	char *url;
	struct strbuf body;
	int rc;
	struct error e;
};

/* Who is notified: the rest of a URL is often the key to it. */
static int host_length(const char *url)
{
	const char *host = strstr(url, "://");

	host = host ? host + strlen("://") : url;
	return (int)(host - url + (ptrdiff_t)strcspn(host, "/?#"));
}

int notify_check(const char *url, struct error *e)
{
	const char *host = url + (starts_with(url, "https://") ? 8 : 7);

	if (!starts_with(url, "http://") && !starts_with(url, "https://"))
		return error_set(e, E_USAGE, "--notify takes a URL, such as https://host/path");
	if (!*host || *host == '/' || strcspn(url, " \t\r\n") < strlen(url) ||
	    memchr(host, '@', strcspn(host, "/?#")))
		return error_set(e, E_USAGE,
				 "--notify takes the URL of a server, without user and password");
	return 0;
}

static void add_body(struct strbuf *out, const char *rule, const struct rule_firing *firing,
		     const char *dump)
{
	struct json json = JSON_PRETTY(out);
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	json_object(&json);
	json_key_string(&json, "rule", rule);
	json_key_string(&json, "evidence", firing->evidence);
	json_key_known(&json, "process", firing->pid, firing->pid);
	json_key_string(&json, "host", host);
	json_key_string(&json, "dump", dump);
	json_key_u64(&json, "unix_ns",
		     clock_read_ns(CLOCK_REALTIME) -
			     (clock_monotonic_ns() - MIN(clock_monotonic_ns(), firing->time_ns)));
	json_finish(&json);
}

static void send_notice(void *context)
{
	static const char *const headers[] = { "Content-Type: application/json", NULL };
	static const char *const none[] = { NULL };
	const struct http_options options = { .stall_timeout_ns = LIMIT_NS, .headers = headers };
	struct notice *n = context;
	const struct http_request request = { .method = HTTP_POST,
					      .url = n->url,
					      .headers = none,
					      .body = &n->body,
					      .timeout_ns = LIMIT_NS };
	_cleanup_(http_response_release) struct http_response response = { 0 };
	struct http *http;

	n->rc = http_open(&options, &http, &n->e);
	if (n->rc < 0)
		return;
	n->rc = http_send(http, &request, &response, &n->e);
	if (n->rc == 0 && (response.status < 200 || response.status > 299))
		n->rc = error_set(&n->e, -EPROTO, "it answered %ld", response.status);
	http_free(http);
}

static void release(void *context)
{
	struct notice *n = context;

	free(n->url);
	strbuf_release(&n->body);
	free(n);
}

struct timed_work *notify_begin(const char *url, const char *rule, const struct rule_firing *firing,
				const char *dump)
{
	struct notice *n = calloc(1, sizeof(*n));
	struct timed_work *work = NULL;

	if (!n)
		return NULL;
	n->body = (struct strbuf)STRBUF_INIT;
	n->url = strdup(url);
	add_body(&n->body, rule, firing, dump);
	if (n->url && !n->body.failed)
		work = timed_work_start(send_notice, release, n);
	if (!work)
		release(n);
	return work;
}

int notify_end(struct timed_work *w, uint64_t end_ns, struct error *e)
{
	struct notice *n = w ? timed_work_context(w) : NULL;
	int rc = 0;

	if (!w)
		return 0;
	if (!timed_work_await(w, end_ns))
		rc = error_set(e, -ETIMEDOUT, "the server to notify has not answered");
	else if (n->rc < 0)
		rc = error_set(e, n->rc, "cannot notify %.*s: %.200s", host_length(n->url), n->url,
			       n->e.text);
	timed_work_leave(w);
	return rc;
}
