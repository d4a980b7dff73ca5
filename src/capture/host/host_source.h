/*
 * host_source.h: rows about the process: itself, its threads, and the modules that it has mapped.
 */
#ifndef PITOT_CAPTURE_HOST_HOST_SOURCE_H
#define PITOT_CAPTURE_HOST_HOST_SOURCE_H

#include "capture/source.h"

extern const struct source host_source;

#endif
