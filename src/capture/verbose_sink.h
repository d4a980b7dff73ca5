/* verbose_sink.h: a sink that prints GPU work to standard output: INJECTION_VERBOSE. */
#ifndef PITOT_CAPTURE_VERBOSE_SINK_H
#define PITOT_CAPTURE_VERBOSE_SINK_H

#include "format/sink.h"

/*
 * Returns a sink that writes one line of JSON for each kernel, copy, memory set and metric of a
 * launch, as they are recorded. It does not wait for the reader of standard output, but at the end:
 * a tenth of a second for each piece. Lines beyond 4 MiB that nobody reads are counted as lost
 * rows. NULL: no memory.
 */
struct sink *verbose_sink_new(void);

#endif
