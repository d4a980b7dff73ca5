/* tls_options.h: options of commands that serve pages with TLS. */
#ifndef PITOT_CLI_TLS_OPTIONS_H
#define PITOT_CLI_TLS_OPTIONS_H

#include "base/options.h"
#include "base/tls_server.h"
#include "cli/command.h"

struct tls_options {
	const char *certificate, *key; /* paths; certificate NULL: no TLS */
	bool has_certificate, has_key; /* the command line has them */
};

#define TLS_OPTIONS(o)                                                                             \
	OPTION(STRING, "tls", 0, (o).certificate, "FILE",                                          \
	       "serve with TLS: FILE has the chain of certificates, PEM", .is_path = true,         \
	       .given = &(o).has_certificate),                                                     \
		OPTION(STRING, "tls-key", 0, (o).key, "FILE",                                      \
		       "file with its key, PEM, without a password (default: that of --tls)",      \
		       .is_path = true, .given = &(o).has_key)

/*
 * Sets *out, NULL without --tls; the options must outlive it. Warns if clients will refuse the
 * certificate. Returns 0 or a negative code.
 */
int tls_options_open(const struct context *c, const struct tls_options *o, struct tls_server **out,
		     struct error *e) MUST_USE;

#endif
