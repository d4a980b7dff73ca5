/*
 * log.h: messages from inside the target, for people who debug Pitot itself. Silent unless
 * PITOT_LOG names a file ("stderr" is allowed). Async-signal-safe: formats into a fixed buffer, one
 * write(2) a line.
 */
#ifndef PITOT_CAPTURE_LOG_H
#define PITOT_CAPTURE_LOG_H

#include "base/compiler.h"

void log_open(void);
/* does nothing when the log is not open */
void log_line(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
