/*
 * http_server.h: an HTTP server for a few pages. Never waits: its descriptors are polled by the
 * caller, and a request may be answered later.
 *
 * Only GET and HEAD, one request for each connection. On a loopback address, requests need a Host
 * that is one: a page in a browser of this machine could otherwise read answers under a name of its
 * own (DNS rebinding). Who is slow to send a request makes room for others.
 */
#ifndef PITOT_BASE_HTTP_SERVER_H
#define PITOT_BASE_HTTP_SERVER_H

#include <poll.h>
#include <stdint.h>

#include "base/error.h"
#include "base/http_request.h"
#include "base/strbuf.h"
#include "base/tls_server.h"

#define HTTP_CONNECTIONS 64u
#define HTTP_DESCRIPTORS (1 + HTTP_CONNECTIONS)
#define HTTP_TEXT "text/plain; charset=utf-8"

struct http_connection {
	int fd; /* -1: free */
	bool is_waiting; /* for its answer */
	bool is_head;
	bool is_answered; /* it ends when all is sent */
	uint64_t number; /* unique in the server */
	struct tls_session *tls; /* NULL: the server has no TLS */
	struct strbuf request, out; /* what is to be sent */
	size_t sent;
	uint64_t end_ns; /* CLOCK_MONOTONIC: it is closed then, unless is_waiting */
};

struct http_server {
	int fd; /* -1: there is none */
	bool is_loopback;
	char address[80]; /* as the system says, with the port */
	uint16_t port;
	struct tls_server *tls; /* of the caller; NULL: there is none */
	uint64_t last; /* number of a connection */
	struct http_connection connections[HTTP_CONNECTIONS];
	const char *option; /* by which the user chooses the address, for errors */
	const char
		*headers; /* further ones of each answer: lines that end with CR LF; NULL: none */
	/* Answers a request with http_answer(), now or later. */
	void (*handle)(void *user, uint64_t connection, const struct http_request *r);
	void *user;
};

/* `headers`: further ones, lines that end with CR LF; NULL: none. */
struct http_answer {
	unsigned status;
	const char *type, *headers, *body;
	size_t length;
};

/* Listens on ADDRESS:PORT or [ADDRESS]:PORT; port 0: any. Returns 0, E_USAGE or -errno. */
int http_server_open(struct http_server *s, const char *address, struct error *e) MUST_USE;
/* Sets what is to be polled, at most HTTP_DESCRIPTORS. Returns how many. */
unsigned http_server_poll(const struct http_server *s, struct pollfd *polled);
/* Serves who is ready. */
void http_server_serve(struct http_server *s);
/* Copies the answer. Does nothing if the connection has ended meanwhile. */
void http_answer(struct http_server *s, uint64_t connection, const struct http_answer *a);
void http_server_close(struct http_server *s);

#endif
