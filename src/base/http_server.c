#include "base/http_server.h"

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

#define READING_NS (5 * NS_PER_S) /* for a request, from the begin of its connection */
#define SENDING_NS (30 * NS_PER_S) /* for an answer */
#define BACKLOG 128

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

static void name_address(struct http_server *s)
{
	union address a = { .any.sa_family = AF_UNSPEC };
	socklen_t size = sizeof(a);
	char host[64] = "";

	if (getsockname(s->fd, &a.any, &size) < 0)
		return;
	if (a.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof(host));
		s->port = ntohs(a.v4.sin_port);
		snprintf(s->address, sizeof(s->address), "%s:%u", host, s->port);
	} else {
		inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof(host));
		s->port = ntohs(a.v6.sin6_port);
		snprintf(s->address, sizeof(s->address), "[%s]:%u", host, s->port);
	}
}

int http_server_open(struct http_server *s, const char *address, struct error *e)
{
	union address a;
	socklen_t size = 0;
	int rc = parse_address(address, &a, &size, e), on = 1;

	for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
		s->connections[i].fd = -1;
	s->fd = -1;
	if (rc < 0)
		return rc;
	s->is_loopback = is_loopback(&a);
	rc = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	s->fd = rc < 0 ? -1 : io_above_standard(rc);
	if (s->fd >= 0 && setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	    bind(s->fd, &a.any, size) == 0 && listen(s->fd, BACKLOG) == 0) {
		name_address(s);
		return 0;
	}
	rc = error_errno(e, errno, "cannot listen on %s: choose another port with %s", address,
			 s->option);
	http_server_close(s);
	return rc;
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

/* --- answers --- */

static const char *status_text(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} texts[] = {
		{ 200, "OK" },
		{ 400, "Bad Request" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 409, "Conflict" },
		{ 421, "Misdirected Request" },
		{ 431, "Request Header Fields Too Large" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].status == status)
			return texts[i].text;
	return "Internal Server Error";
}

/* Nothing is sent if there is no memory. */
static void answer(const struct http_server *s, struct http_connection *c,
		   const struct http_answer *a)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT;
	struct strbuf *text = c->tls ? &plain : &c->out;

	strbuf_addf(text,
		    "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
		    "Connection: close\r\n%s%s%s\r\n",
		    a->status, status_text(a->status), a->type, a->length,
		    a->status == 405 ? "Allow: GET, HEAD\r\n" : "", s->headers ? s->headers : "",
		    a->headers ? a->headers : "");
	if (!c->is_head)
		strbuf_add(text, a->body, a->length);
	if (c->tls && (plain.failed || tls_finish(c->tls, &plain, &c->out) < 0))
		c->out.failed = true;
	c->is_waiting = false;
	c->is_answered = true;
	c->end_ns = clock_monotonic_ns() + SENDING_NS;
}

static void end(struct http_connection *c)
{
	close(c->fd);
	c->fd = -1;
	tls_session_free(c->tls);
	c->tls = NULL;
	strbuf_release(&c->request);
	strbuf_release(&c->out);
}

void http_answer(struct http_server *s, uint64_t connection, const struct http_answer *a)
{
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		struct http_connection *c = &s->connections[i];

		if (c->fd < 0 || c->number != connection || !c->is_waiting)
			continue;
		answer(s, c, a);
		if (c->out.failed)
			end(c);
	}
}

/* --- connections --- */

static void refuse(const struct http_server *s, struct http_connection *c, unsigned status)
{
	answer(s, c, &(struct http_answer){ .status = status, .type = HTTP_TEXT, .body = "" });
}

static void handle(struct http_server *s, struct http_connection *c, size_t length)
{
	struct http_request r;
	unsigned status = http_request_parse(c->request.data, length, &r);

	c->is_head = r.is_head;
	if (!status && s->is_loopback && !is_loopback_host(r.host))
		status = 421;
	if (status) {
		refuse(s, c, status);
		return;
	}
	c->is_waiting = true;
	s->handle(s->user, c->number, &r);
}

static void read_request(struct http_server *s, struct http_connection *c)
{
	char bytes[2048];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
	size_t length;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		end(c);
		return;
	}
	if (!c->tls)
		strbuf_add(&c->request, bytes, (size_t)n);
	else if (tls_receive(c->tls, bytes, (size_t)n, &c->request, &c->out) < 0)
		c->is_answered = true; /* an alert may be sent */
	if (c->is_answered) {
		if (!c->out.length)
			end(c);
		return;
	}
	length = http_head_length(strbuf_text(&c->request), c->request.length);
	if (c->request.failed)
		end(c);
	else if ((length ? length : c->request.length) > HTTP_REQUEST_MAX)
		refuse(s, c, 431);
	else if (length)
		handle(s, c, length);
}

static void send_answer(struct http_connection *c)
{
	ssize_t n =
		send(c->fd, strbuf_text(&c->out) + c->sent, c->out.length - c->sent, MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	c->sent += n > 0 ? (size_t)n : 0;
	if (n <= 0 || (c->is_answered && c->sent == c->out.length)) {
		end(c);
	} else if (c->sent == c->out.length) {
		strbuf_clear(&c->out);
		c->sent = 0;
	}
}

static bool is_reading(const struct http_connection *c)
{
	return c->fd >= 0 && !c->is_waiting && !c->is_answered;
}

/* Returns a free connection, else the one that has been reading for longest, or NULL. */
static struct http_connection *find_room(struct http_server *s)
{
	struct http_connection *oldest = NULL;

	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		struct http_connection *c = &s->connections[i];

		if (c->fd < 0)
			return c;
		if (is_reading(c) && (!oldest || c->number < oldest->number))
			oldest = c;
	}
	return oldest;
}

static void accept_all(struct http_server *s, uint64_t now)
{
	struct http_connection *c;
	int fd;

	while ((c = find_room(s))) {
		fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		if (c->fd >= 0)
			end(c);
		*c = (struct http_connection){ .fd = fd,
					       .number = ++s->last,
					       .end_ns = now + READING_NS };
		c->tls = s->tls ? tls_session_new(s->tls) : NULL;
		if (s->tls && !c->tls)
			end(c);
		else
			read_request(s, c);
	}
}

unsigned http_server_poll(const struct http_server *s, struct pollfd *polled)
{
	unsigned count = 0;
	bool has_room = false;

	if (s->fd < 0)
		return 0;
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		const struct http_connection *c = &s->connections[i];

		has_room |= c->fd < 0 || is_reading(c);
		if (c->fd >= 0 && !c->is_waiting)
			polled[count++] =
				(struct pollfd){ .fd = c->fd,
						 .events = (short)((c->out.length ? POLLOUT : 0) |
								   (is_reading(c) ? POLLIN : 0)) };
	}
	if (has_room)
		polled[count++] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	return count;
}

void http_server_serve(struct http_server *s)
{
	uint64_t now = clock_monotonic_ns();

	if (s->fd < 0)
		return;
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++) {
		struct http_connection *c = &s->connections[i];

		if (is_reading(c))
			read_request(s, c);
		if (c->fd >= 0 && c->out.length)
			send_answer(c);
		if (c->fd >= 0 && !c->is_waiting && now >= c->end_ns)
			end(c);
	}
	accept_all(s, now);
}

void http_server_close(struct http_server *s)
{
	if (s->fd < 0) /* not open: the connections may be zeros */
		return;
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
		if (s->connections[i].fd >= 0)
			end(&s->connections[i]);
	fd_close(&s->fd);
}
