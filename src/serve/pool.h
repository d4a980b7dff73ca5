/* pool.h: which worker answers what, and what they may use. */
#ifndef PITOT_SERVE_POOL_H
#define PITOT_SERVE_POOL_H

#include "serve/serve_state.h"

/* Answers, now or later, with a view of so many recordings. */
void pool_ask(struct serve *s, uint64_t connection, const struct serve_ask *ask, unsigned count,
	      const uint64_t ids[2]);
/* Reads answers, ends what takes too long or too much, and makes summaries for the list. */
void pool_step(struct serve *s);
bool pool_is_busy(const struct serve *s);
void pool_close(struct serve *s);

#endif
