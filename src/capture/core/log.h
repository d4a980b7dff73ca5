/*
 * log.h: messages from inside the target, for people who debug Pitot itself. Silent unless
 * PITOT_LOG names a file ("stderr" is allowed). Async-signal-safe: formats each line into a fixed
 * buffer and writes it with one write(2).
 */
#ifndef PITOT_CAPTURE_LOG_H
#define PITOT_CAPTURE_LOG_H

#include "base/compiler.h"

void log_open(void);
/* Does nothing if the log is not open. */
void log_line(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
