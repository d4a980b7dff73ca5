/* gpufl_live.h: gpufl's logs while a program runs. */
#ifndef PITOT_CAPTURE_GPUFL_LIVE_H
#define PITOT_CAPTURE_GPUFL_LIVE_H

#include "format/sink.h"
#include "schema/settings.h"

/*
 * A sink that writes into settings->log_path, a session of its own. NULL: that cannot be; the log
 * says why.
 */
struct sink *gpufl_live_open(const struct settings *settings) MUST_USE;

#endif
