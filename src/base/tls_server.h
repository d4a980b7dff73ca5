/*
 * tls_server.h: the server's side of TLS by the machine's OpenSSL, loaded when it is needed, so
 * that security fixes are the machine's. Works on bytes: whoever uses it sends and receives them,
 * and nothing here waits. TLS 1.2 and newer. Single-threaded.
 */
#ifndef PITOT_BASE_TLS_SERVER_H
#define PITOT_BASE_TLS_SERVER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

struct tls_server;
struct tls_session; /* of a connection */

/*
 * Reads a chain of certificates (PEM), and its key, without a password, from the same file if
 * key_path is NULL. *expired: clients will refuse the certificate. The paths must outlive it: files
 * that have changed are read again. Returns 0 or a negative code.
 */
int tls_server_open(struct tls_server **out, const char *path, const char *key_path, bool *expired,
		    struct error *e) MUST_USE;
void tls_server_free(struct tls_server *t); /* may be NULL */

/* NULL: no memory. */
struct tls_session *tls_session_new(struct tls_server *t) MUST_USE;
/*
 * Appends what arrived in received bytes to *plain, and what is to be sent for them to *out.
 * Returns 0, or a negative code: the connection is over, when *out is sent.
 */
int tls_receive(struct tls_session *s, const void *bytes, size_t length, struct strbuf *plain,
		struct strbuf *out) MUST_USE;
/* Appends the last text of a session, encrypted, to *out. Returns 0 or a negative code. */
int tls_finish(struct tls_session *s, const struct strbuf *text, struct strbuf *out) MUST_USE;
void tls_session_free(struct tls_session *s); /* may be NULL */

#endif
