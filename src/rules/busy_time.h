/*
 * busy_time.h: for how long a GPU was busy in each second: the union of its pieces of work, which
 * may come in any order as long as their second has not been taken.
 */
#ifndef PITOT_RULES_BUSY_TIME_H
#define PITOT_RULES_BUSY_TIME_H

#include <stdint.h>

#include "base/vec.h"

struct busy_span {
	uint64_t start_ns, end_ns;
};

/* All zeros: nothing was busy. */
struct busy_time {
	VEC(struct busy_span) spans; /* ascending, apart from each other */
};

/* Returns 0; or -ENOMEM or E_LIMIT, and then the busy time is not known any more. */
int busy_time_add(struct busy_time *b, uint64_t start_ns, uint64_t end_ns) MUST_USE;
/* Returns the busy time between two times, and forgets all work until `end_ns`. */
uint64_t busy_time_take(struct busy_time *b, uint64_t start_ns, uint64_t end_ns);
void busy_time_release(struct busy_time *b);

#endif
