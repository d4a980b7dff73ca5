/*
 * output_pump.h: bytes on their way to a descriptor, in pieces of several megabytes: while one is
 * filled the ones before it are compressed (by as many threads as there are processors) and written
 * (in order). Small pieces would cost: the kernel's part of a write is several times more expensive
 * below a megabyte.
 *
 * Threads are started with the second piece; without them, or when they cannot be had, the caller's
 * thread does it all.
 */
#ifndef PITOT_BASE_OUTPUT_PUMP_H
#define PITOT_BASE_OUTPUT_PUMP_H

#include "base/strbuf.h"

struct output_pump;

/*
 * The descriptor stays the caller's, and must stay open until output_pump_free. is_new_file: an
 * ordinary file that is empty and nobody else's. NULL without memory.
 */
struct output_pump *output_pump_new(int fd, bool gzip, bool is_new_file) MUST_USE;
/* Waits for what is being written, drops the rest. NULL is fine. */
void output_pump_free(struct output_pump *p);

void output_pump_write(struct output_pump *p, const void *bytes, size_t length);
/* Takes what a buffer holds, without copying it: the buffer gets other memory, and is empty. */
void output_pump_take(struct output_pump *p, struct strbuf *s);
/*
 * The errno of the first failure so far, or 0. What was taken lately may not have been tried yet.
 */
int output_pump_error(const struct output_pump *p);
/* Writes what is left; nothing may be written after it. 0, or the errno of the first failure. */
int output_pump_end(struct output_pump *p);

#endif
