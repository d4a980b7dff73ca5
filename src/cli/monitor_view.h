/* monitor_view.h: what `pitot monitor` shows. All texts are safe for a terminal. */
#ifndef PITOT_CLI_MONITOR_VIEW_H
#define PITOT_CLI_MONITOR_VIEW_H

#include "record/monitor.h"

/* A table of the GPUs, their processes and a line of the host; no line is wider than `width`. */
void monitor_table(const struct monitor *m, unsigned width, bool color, struct strbuf *out);
/* One line for each GPU, and one for the host. */
void monitor_lines(const struct monitor *m, struct strbuf *out);
/*
 * One JSON object and a newline. Metrics that there is no value of have no key; sums are what they
 * grew in a second.
 */
void monitor_json(const struct monitor *m, struct strbuf *out);

#endif
