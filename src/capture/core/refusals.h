/*
 * refusals.h: what the sources cannot deliver of what the session that is being started requests.
 *
 * A source learns that while it starts, on the vendor thread after that, or in a callback; so it is
 * no return value of its operations, but one value that each of them may set. The rows for readers
 * are capability_note()'s.
 */
#ifndef PITOT_CAPTURE_REFUSALS_H
#define PITOT_CAPTURE_REFUSALS_H

enum refused {
	REFUSAL_LIBRARY, /* the vendor's library, and with it all GPU work */
	REFUSAL_ENGINE, /* the engine that was requested */
	REFUSALS,
};

/* Sets the reason, unless there is one already. Any thread; never waits. */
void refusal_set(enum refused what, const char *why);

/* The reason, or NULL. It stays readable until refusals_clear(). */
const char *refusal_find(enum refused what);

/* Called before sources are started or extended, one thread at a time. */
void refusals_clear(void);

/* Called in the child of a fork, whose parent may have been setting one. */
void refusals_after_fork(void);

#endif
