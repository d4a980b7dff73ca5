/*
 * dump_peers.h: asks all agents of a fleet for what they hold of a job (job_dump.h), at once, and
 * writes a recording of each that has something. Answers are not trusted before their code is
 * checked: until then their recordings have another name.
 */
#ifndef PITOT_AGENT_DUMP_PEERS_H
#define PITOT_AGENT_DUMP_PEERS_H

#include <signal.h>

#include "agent/peer_auth.h"

#define PEERS_MAX 16384u

struct peer_dump {
	char *peer; /* HOST:PORT */
	bool has_tls;
	char *recording; /* its name in the folder; NULL: there is none */
	unsigned files;
	uint64_t bytes;
	struct error error; /* code 0: none. It has answered if there is neither */
};

struct peer_dumps {
	VEC(struct peer_dump) all;
};

struct peer_request {
	const char *job;
	uint64_t from_ns, until_ns; /* CLOCK_REALTIME */
	int folder; /* into which recordings are written */
	const struct peer_secret *secret;
	uint64_t timeout_ns; /* for each */
	const char *ca_file; /* for peers with TLS; NULL: the machine's authorities */
	const volatile sig_atomic_t *stop;
};

/* Reads a file with [https://]HOST:PORT on each line. Returns 0 or a negative code. */
int peer_dumps_read(const char *path, struct peer_dumps *out, struct error *e) MUST_USE;
/* Asks them. Returns 0, or a negative code if none could be asked. */
int peer_dumps_ask(struct peer_dumps *d, const struct peer_request *r, struct error *e) MUST_USE;
void peer_dumps_release(struct peer_dumps *d);

#endif
