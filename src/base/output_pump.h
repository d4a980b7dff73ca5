/*
 * output_pump.h: writes bytes to a descriptor in pieces of several megabytes. While one piece is
 * filled, earlier ones are compressed (by as many threads as there are processors) and written in
 * order. The pieces are large because the kernel's share of a write is several times more expensive
 * below a megabyte.
 *
 * Threads are started with the second piece. Without threads the caller's thread does all the work.
 */
#ifndef PITOT_BASE_OUTPUT_PUMP_H
#define PITOT_BASE_OUTPUT_PUMP_H

#include "base/strbuf.h"

#define OUTPUT_PIECE_BYTES ((size_t)8 << 20) /* bytes per write */

struct output_pump;

/*
 * The caller owns the descriptor and must keep it open until output_pump_free(). Returns NULL
 * when there is no memory.
 */
struct output_pump *output_pump_new(int fd, bool gzip) MUST_USE;
/* Waits for the write in progress and drops the rest. p may be NULL. */
void output_pump_free(struct output_pump *p);

void output_pump_write(struct output_pump *p, const void *bytes, size_t length);
/* Hands a buffer over without copying; *s gets other memory and is empty. */
void output_pump_move(struct output_pump *p, struct strbuf *s);
/* Returns the errno of the first failure so far, or 0. Recent pieces may still be pending. */
int output_pump_error(const struct output_pump *p);
/* Writes the rest; no write may follow. Returns 0 or the errno of the first failure. */
int output_pump_end(struct output_pump *p);

#endif
