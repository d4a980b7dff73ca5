/* serve_state.h: the server and what it has open; shared by serve.c, pool.c and serve_pages.c. */
#ifndef PITOT_SERVE_SERVE_STATE_H
#define PITOT_SERVE_SERVE_STATE_H

#include "base/http_server.h"
#include "serve/worker.h"

#define SERVE_WORKERS 32u
#define SERVE_DESCRIPTORS (HTTP_DESCRIPTORS + SERVE_WORKERS)

struct serve_options {
	const char *path; /* a folder of recordings, a lake, or a recording */
	const char *address; /* a number; NULL: 127.0.0.1. Another machine's only with TLS */
	uint16_t port; /* 0: any */
	struct tls_server *tls; /* of the caller; NULL: there is none */
	uint64_t memory_bytes; /* of all workers together */
	serve_render *render; /* called in workers */
};

struct serve {
	struct serve_options options;
	struct http_server http;
	struct recordings recordings;
	struct worker workers[SERVE_WORKERS];
	char token[33], session[33], nonce[33]; /* random; of the URL, the cookie, the policy */
	char cookie[32]; /* its name, with the port: browsers do not tell ports apart */
	struct strbuf url, headers;
	uint64_t listed_ns; /* when somebody has asked for the list */
	uint64_t measured_ns; /* when the workers' memory was read */
};

#endif
