/*
 * measuring.h: when Pitot itself delayed a process: while it started, set up an engine, measured a
 * launch or range, and while CUPTI patched code or made room. What the program did at such a time
 * is not the program's own behaviour.
 */
#ifndef PITOT_ANALYSIS_MEASURING_H
#define PITOT_ANALYSIS_MEASURING_H

#include "analysis/calls.h"
#include "base/vec.h"

struct measuring_time {
	uint32_t process;
	uint64_t start_ns, end_ns;
	uint64_t before_ns; /* length of all earlier times of the process */
	uint64_t count; /* of measured launches and ranges in it */
};

struct measuring {
	VEC(struct measuring_time) times; /* by process and start; they do not overlap */
};

/* Loads what it needs besides table `kernel`. 0 or a negative code. */
int measuring_init(struct measuring *m, struct trace *t, const struct calls *calls,
		   struct error *e) MUST_USE;
void measuring_release(struct measuring *m);

/* How much of a time Pitot measured in that process. */
uint64_t measuring_within(const struct measuring *m, uint32_t process, uint64_t start_ns,
			  uint64_t end_ns);
/* Number of launches and ranges of all processes whose measurement began in the time. */
uint64_t measuring_count(const struct measuring *m, uint64_t start_ns, uint64_t end_ns);

#endif
