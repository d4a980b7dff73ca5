/*
 * agent_metrics.h: metrics of the agent and of the programs that are being recorded, in the text
 * format of Prometheus, or as JSON of OpenTelemetry's protocol (OTLP). Names of kernels are no
 * labels: there are too many of them.
 */
#ifndef PITOT_AGENT_AGENT_METRICS_H
#define PITOT_AGENT_AGENT_METRICS_H

#include "agent/agent.h"

/* In the format that a client accepts (may be NULL), whose type is returned. */
const char *agent_metrics_render(const struct agent *a, const char *accept, struct strbuf *out);
/* An ExportMetricsServiceRequest. */
void agent_metrics_render_otlp(const struct agent *a, const char *service, struct strbuf *out);

#endif
