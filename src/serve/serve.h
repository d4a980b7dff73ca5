/*
 * serve.h: the server of `pitot serve`. One thread, which never waits for a recording: workers
 * (worker.h) read them. Prints nothing.
 *
 * Only 127.0.0.1, where other users and pages in browsers are, too. So the URL has a token, which
 * is exchanged for a cookie that no script and no other site's request has; a Host or an Origin of
 * elsewhere is refused; all that changes is what the server remembers.
 */
#ifndef PITOT_SERVE_SERVE_H
#define PITOT_SERVE_SERVE_H

#include "serve/serve_state.h"

/* Returns 0 or a negative code; serve_close in any case. */
int serve_open(struct serve *s, const struct serve_options *options, struct error *e) MUST_USE;
/* Sets what is to be polled, at most SERVE_DESCRIPTORS, and until when. Returns how many. */
unsigned serve_poll(const struct serve *s, struct pollfd *polled, uint64_t *until_ns);
/* Does what is to be done. */
void serve_step(struct serve *s);
void serve_close(struct serve *s);

#endif
