#include "agent/metrics_page.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/options.h"
#include "base/starts_with.h"

#define PATIENCE_NS (5 * NS_PER_S) /* for a connection, from its beginning to its end */
#define PAGE_TYPE "text/plain; version=0.0.4; charset=utf-8"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* --- addresses --- */

/* Numbers only: a name would be looked up, and could be that of another machine later. */
static int parse_address(const char *text, union address *out, socklen_t *size, struct error *e)
{
	const char *colon = strrchr(text, ':');
	uint64_t port = UINT64_MAX;
	char host[64];
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (length > 2 && text[0] == '[' && text[length - 1] == ']')
		snprintf(host, sizeof(host), "%.*s", (int)length - 2, text + 1);
	else
		snprintf(host, sizeof(host), "%.*s", (int)length, text);
	*out = (union address){ .any.sa_family = AF_UNSPEC };
	if (colon && parse_u64(colon + 1, &port) == 0 && port <= UINT16_MAX) {
		if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
			out->v4.sin_family = AF_INET;
			out->v4.sin_port = htons((uint16_t)port);
			*size = sizeof(out->v4);
			return 0;
		}
		if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1) {
			out->v6.sin6_family = AF_INET6;
			out->v6.sin6_port = htons((uint16_t)port);
			*size = sizeof(out->v6);
			return 0;
		}
	}
	return error_set(e, E_USAGE,
			 "'%s' is no address and port: use 127.0.0.1:9464 or [::1]:9464", text);
}

static bool is_loopback(const union address *a)
{
	return a->any.sa_family == AF_INET ? ntohl(a->v4.sin_addr.s_addr) >> 24 == 127
					   : IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static void name_address(struct metrics_page *p)
{
	union address a = { .any.sa_family = AF_UNSPEC };
	socklen_t size = sizeof(a);
	char host[64] = "";

	if (getsockname(p->fd, &a.any, &size) < 0)
		return;
	if (a.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host));
		snprintf(p->address, sizeof(p->address), "%s:%u", host, ntohs(a.v4.sin_port));
	} else {
		inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host));
		snprintf(p->address, sizeof(p->address), "[%s]:%u", host, ntohs(a.v6.sin6_port));
	}
}

int metrics_page_open(struct metrics_page *p, const char *address, struct error *e)
{
	union address a;
	socklen_t size = 0;
	int rc = parse_address(address, &a, &size, e), on = 1;

	for (size_t i = 0; i < METRICS_CONNECTIONS; i++)
		p->connections[i].fd = -1;
	p->fd = -1;
	if (rc < 0)
		return rc;
	p->is_loopback = is_loopback(&a);
	rc = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	p->fd = rc < 0 ? -1 : io_above_standard(rc);
	if (p->fd >= 0 && setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(p->fd, &a.any, size) == 0 && listen(p->fd, METRICS_CONNECTIONS) == 0) {
		name_address(p);
		return 0;
	}
	rc = error_errno(e, errno, "cannot listen on %s: choose another port with --listen",
			 address);
	metrics_page_close(p);
	return rc;
}

/* --- a request --- */

static void answer(struct metrics_connection *c, const char *status, const char *more,
		   const struct strbuf *page, bool has_body)
{
	strbuf_addf(&c->answer,
		    "HTTP/1.1 %s\r\n%sContent-Type: " PAGE_TYPE "\r\nContent-Length: %zu\r\n"
		    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
		    "Connection: close\r\n\r\n",
		    status, more, page->length);
	if (has_body)
		strbuf_add(&c->answer, strbuf_text(page), page->length);
}

/* Finds the value of a header in a request, without blanks around it. */
static bool find_header(const char *request, const char *name, char *value, size_t size)
{
	size_t length = strlen(name);

	for (const char *line = request; (line = strstr(line, "\r\n"));) {
		line += 2;
		if (strncasecmp(line, name, length) != 0 || line[length] != ':')
			continue;
		line += length + 1;
		line += strspn(line, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(line, " \t\r\n"), line);
		return true;
	}
	return false;
}

static bool is_loopback_host(const char *host)
{
	static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]" };

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		size_t length = strlen(hosts[i]);

		if (strncasecmp(host, hosts[i], length) == 0 &&
		    (!host[length] ||
		     (host[length] == ':' &&
		      strspn(host + length + 1, "0123456789") == strlen(host + length + 1))))
			return true;
	}
	return false;
}

static void handle(struct metrics_page *p, struct metrics_connection *c)
{
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;
	const char *request = strbuf_text(&c->request);
	bool is_head = starts_with(request, "HEAD "), is_get = starts_with(request, "GET ");
	const char *path = request + (is_head ? 5 : 4);
	size_t length = strcspn(path, " ?\r\n");
	char host[256];

	if (strlen(request) != c->request.length)
		answer(c, "400 Bad Request", "", &page, true);
	else if (!is_get && !is_head)
		answer(c, "405 Method Not Allowed", "Allow: GET, HEAD\r\n", &page, true);
	else if (p->is_loopback &&
		 (!find_header(request, "Host", host, sizeof(host)) || !is_loopback_host(host)))
		answer(c, "421 Misdirected Request", "", &page, true);
	else if (length != strlen("/metrics") || strncmp(path, "/metrics", length) != 0)
		answer(c, "404 Not Found", "", &page, true);
	else {
		p->render(p->user, &page);
		answer(c, page.failed ? "503 Service Unavailable" : "200 OK", "", &page, is_get);
	}
}

/* --- connections --- */

static void end(struct metrics_connection *c)
{
	close(c->fd);
	c->fd = -1;
	c->sent = 0;
	strbuf_release(&c->request);
	strbuf_release(&c->answer);
}

static void read_request(struct metrics_page *p, struct metrics_connection *c)
{
	char bytes[2048];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || c->request.length + (size_t)n > METRICS_REQUEST_MAX) {
		end(c);
		return;
	}
	strbuf_add(&c->request, bytes, (size_t)n);
	if (c->request.failed)
		end(c);
	else if (memmem(c->request.data, c->request.length, "\r\n\r\n", 4))
		handle(p, c);
}

static void send_answer(struct metrics_connection *c)
{
	ssize_t n = send(c->fd, strbuf_text(&c->answer) + c->sent, c->answer.length - c->sent,
			 MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->sent += n > 0 ? (size_t)n : 0;
	if (n <= 0 || c->sent == c->answer.length)
		end(c);
}

static void accept_all(struct metrics_page *p, uint64_t now)
{
	for (size_t i = 0; i < METRICS_CONNECTIONS; i++) {
		struct metrics_connection *c = &p->connections[i];
		int fd;

		if (c->fd >= 0)
			continue;
		fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		*c = (struct metrics_connection){ .fd = fd, .end_ns = now + PATIENCE_NS };
	}
}

unsigned metrics_page_poll(const struct metrics_page *p, struct pollfd *polled)
{
	unsigned count = 0;
	bool is_full = true;

	if (p->fd < 0)
		return 0;
	for (size_t i = 0; i < METRICS_CONNECTIONS; i++) {
		const struct metrics_connection *c = &p->connections[i];

		is_full &= c->fd >= 0;
		if (c->fd >= 0)
			polled[count++] =
				(struct pollfd){ .fd = c->fd,
						 .events = c->answer.length ? POLLOUT : POLLIN };
	}
	if (!is_full)
		polled[count++] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
	return count;
}

void metrics_page_serve(struct metrics_page *p)
{
	uint64_t now = clock_monotonic_ns();

	if (p->fd < 0)
		return;
	accept_all(p, now);
	for (size_t i = 0; i < METRICS_CONNECTIONS; i++) {
		struct metrics_connection *c = &p->connections[i];

		if (c->fd >= 0 && !c->answer.length)
			read_request(p, c);
		if (c->fd >= 0 && c->answer.length)
			send_answer(c);
		if (c->fd >= 0 && now >= c->end_ns)
			end(c);
	}
}

void metrics_page_close(struct metrics_page *p)
{
	for (size_t i = 0; i < METRICS_CONNECTIONS; i++)
		if (p->connections[i].fd >= 0)
			end(&p->connections[i]);
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}
