/*
 * otlp.h: sends metrics to a collector of OpenTelemetry (OTLP over HTTP, as JSON). They are sums
 * since the agent began, so that what a collector has missed is in the next ones.
 */
#ifndef PITOT_AGENT_OTLP_H
#define PITOT_AGENT_OTLP_H

#include "base/error.h"
#include "base/strbuf.h"

struct otlp;

/*
 * `url` is http://HOST:4318, to which /v1/metrics is added. Headers, such as keys, are those of
 * OTEL_EXPORTER_OTLP_HEADERS; with them, another machine is only reached by HTTPS. Sends nothing.
 * Returns 0 or a negative code.
 */
int otlp_open(struct otlp **out, const char *url, struct error *e) MUST_USE;
/* Returns 0 or a negative code. */
int otlp_send(struct otlp *o, const struct strbuf *body, struct error *e) MUST_USE;
void otlp_free(struct otlp *o); /* may be NULL */

#endif
