/*
 * refusals.h: why something that was requested cannot be delivered. The first reason stays until it
 * is cleared. A source finds out while it starts, on the vendor thread after that, or in a
 * callback; so a reason is no return value of its operations, but a value that each may set.
 *
 * `refusals` are of the session that is being started. An engine has one of its own, which also
 * counts for later sessions. The rows for readers are capability_note()'s.
 */
#ifndef PITOT_CAPTURE_REFUSALS_H
#define PITOT_CAPTURE_REFUSALS_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"

enum refusal_state { REFUSAL_NONE, REFUSAL_BEING_SET, REFUSAL_SET };

struct refusal {
	_Atomic(enum refusal_state) state;
	char why[400];
};

/* Sets the reason. Returns false if there is one already. Any thread; never waits. */
bool refusal_set(struct refusal *r, const char *format, ...) PRINTF_LIKE(2, 3);
bool refusal_set_with(struct refusal *r, const char *format, va_list args);

/* Returns the reason, or NULL. It stays readable until it is cleared. */
static inline const char *refusal_text(const struct refusal *r)
{
	return atomic_load(&r->state) == REFUSAL_SET ? r->why : NULL;
}

/* Whether there is a reason, which another thread may still be writing. */
static inline bool refusal_exists(const struct refusal *r)
{
	return atomic_load(&r->state) != REFUSAL_NONE;
}

void refusal_clear(struct refusal *r);

enum refused {
	REFUSAL_LIBRARY, /* the vendor's library, and with it all GPU work */
	REFUSAL_ENGINE, /* the engine that was requested */
	REFUSALS,
};
extern struct refusal refusals[REFUSALS];

/* Called before sources are started or extended, one thread at a time. */
void refusals_clear(void);

/* Called in the child of a fork, whose parent may have been setting one. */
void refusals_after_fork(void);

#endif
