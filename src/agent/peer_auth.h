/*
 * peer_auth.h: how agents and those that ask them know each other: by a secret that all machines of
 * a fleet have in a file. A request has the time, a random number and a code of both (HMAC-SHA256),
 * so it cannot be forged, changed, sent again, or sent to another machine; an answer has one, too.
 *
 * TLS is only needed to keep others from reading. The secret is in no message, error or command
 * line.
 */
#ifndef PITOT_AGENT_PEER_AUTH_H
#define PITOT_AGENT_PEER_AUTH_H

#include "base/error.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "base/vec.h"

#define PEER_ANSWER_BYTES_MAX ((size_t)64 << 20)
#define PEER_SKEW_S 60u /* clocks may differ by so much */
#define PEER_NONCE 32u /* digits */
#define PEER_CODE (2 * SHA256_BYTES) /* digits */

struct peer_secret {
	uint8_t bytes[256];
	size_t length;
};

/* Reads a file that only its owner may read. Returns 0 or a negative code. */
int peer_secret_read(const char *path, struct peer_secret *out, struct error *e) MUST_USE;
void peer_secret_forget(struct peer_secret *s);

/* Makes a random number. Returns 0 or a negative code. */
int peer_nonce(char out[PEER_NONCE + 1], struct error *e) MUST_USE;
/* Begins the code of an answer to the request with that number. */
void peer_answer_begin(const struct peer_secret *s, const char *nonce, struct hmac *h);
void peer_code_end(struct hmac *h, char out[PEER_CODE + 1]);
/* Appends time, number and code to "/path?query", which is asked of a host ("HOST:PORT"). */
void peer_sign(const struct peer_secret *s, const char *host, uint64_t now_s, const char *nonce,
	       struct strbuf *path_and_query);

/* Requests that were answered, so that none is answered twice. All zeros: none. */
struct peer_seen {
	VEC(struct peer_seen_nonce {
		char nonce[PEER_NONCE + 1];
		uint64_t time_s;
	})
	nonces;
};

/*
 * Checks a request. `host` is what it says that it is asked of, which must be an address or the
 * name of this machine, with the port. Sets the number. Returns the status to refuse it with, or 0.
 */
unsigned peer_check(const struct peer_secret *s, struct peer_seen *seen, const char *host,
		    uint16_t port, const char *path, const char *query, uint64_t now_s,
		    char nonce[PEER_NONCE + 1]);
void peer_seen_release(struct peer_seen *seen);

#endif
