/* monitor_view.h: the output of `pitot monitor`. All texts are safe for a terminal. */
#ifndef PITOT_CLI_MONITOR_VIEW_H
#define PITOT_CLI_MONITOR_VIEW_H

#include "base/json.h"
#include "record/monitor.h"

/* Appends a table of the GPUs, their processes and the host; no line is wider than `width`. */
void monitor_table(const struct monitor *m, unsigned width, bool color, struct strbuf *out);
/* Appends one line for each GPU, and one for the host. */
void monitor_lines(const struct monitor *m, struct strbuf *out);
/* Appends the line of a GPU, without its end. */
void monitor_gpu_text(const struct monitor *m, unsigned gpu, struct strbuf *out);
/* Begins an object with the time of day, the monotonic time and the GPUs. */
void monitor_json_begin(const struct monitor *m, struct json *j);
/*
 * Appends one JSON object and a newline. Metrics without a value have no key; sums are shown as
 * growth per second.
 */
void monitor_json(const struct monitor *m, struct strbuf *out);

#endif
