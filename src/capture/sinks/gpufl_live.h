/* gpufl_live.h: writes gpufl's logs while a program runs. */
#ifndef PITOT_CAPTURE_GPUFL_LIVE_H
#define PITOT_CAPTURE_GPUFL_LIVE_H

#include "format/sink.h"
#include "schema/settings.h"

/*
 * Returns a sink that writes one session's logs into settings->log_path. NULL: it could not be
 * opened; the log says why.
 */
struct sink *gpufl_live_open(const struct settings *settings) MUST_USE;

#endif
