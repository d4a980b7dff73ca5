/*
 * metrics_page.h: an HTTP server with one page, GET /metrics, for Prometheus. Never waits: its
 * descriptors are polled by the caller. Not for untrusted networks: it has no TLS.
 *
 * On a loopback address, requests need a Host that is one: a page in a browser of this machine
 * could otherwise read the answer under a name of its own (DNS rebinding).
 */
#ifndef PITOT_AGENT_METRICS_PAGE_H
#define PITOT_AGENT_METRICS_PAGE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

#define METRICS_CONNECTIONS 8u
#define METRICS_REQUEST_MAX 8192u
#define METRICS_DESCRIPTORS (1 + METRICS_CONNECTIONS)

struct metrics_connection {
	int fd; /* -1: free */
	struct strbuf request, answer;
	size_t sent;
	uint64_t end_ns; /* CLOCK_MONOTONIC: it is closed then, whatever it does */
};

struct metrics_page {
	int fd; /* -1: there is none */
	bool is_loopback;
	char address[80]; /* as the system says, with the port */
	struct metrics_connection connections[METRICS_CONNECTIONS];
	/* Appends the page. */
	void (*render)(void *user, struct strbuf *out);
	void *user;
};

/* Listens on ADDRESS:PORT or [ADDRESS]:PORT; port 0: any. Returns 0, E_USAGE or -errno. */
int metrics_page_open(struct metrics_page *p, const char *address, struct error *e) MUST_USE;
/* Sets what is to be polled, at most METRICS_DESCRIPTORS. Returns how many. */
unsigned metrics_page_poll(const struct metrics_page *p, struct pollfd *polled);
/* Serves who is ready. */
void metrics_page_serve(struct metrics_page *p);
void metrics_page_close(struct metrics_page *p);

#endif
