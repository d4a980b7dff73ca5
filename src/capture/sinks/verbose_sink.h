/* verbose_sink.h: prints GPU work to standard output: INJECTION_VERBOSE. */
#ifndef PITOT_CAPTURE_VERBOSE_SINK_H
#define PITOT_CAPTURE_VERBOSE_SINK_H

#include "capture/core/session.h"

/* Converts INJECTION_METRICS, names separated by commas or semicolons, to a setting's text. */
void injection_metrics_read(setting_TEXT out, const char *list);

/*
 * Starts a session that lasts as long as the process. Its sink writes one line of JSON for each
 * kernel, copy, memory set and metric of a launch, as they are recorded. It does not wait for the
 * reader of standard output, but at the end: a tenth of a second for each piece. Lines beyond 4 MiB
 * that nobody reads are counted as lost rows. NULL: it cannot start.
 */
struct session *verbose_start(enum session_trigger trigger);

#endif
