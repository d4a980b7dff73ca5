/*
 * counters_source.h: readings of GPUs, of the machine and of the process (src/system), taken on the
 * vendor thread, as rows of the tables counter (its id is the metric's) and counter_sample.
 */
#ifndef PITOT_CAPTURE_COUNTERS_COUNTERS_SOURCE_H
#define PITOT_CAPTURE_COUNTERS_COUNTERS_SOURCE_H

#include "capture/source.h"

#define COUNTERS_NO_DEVICE UINT32_MAX

extern const struct source counters_source;

/* Hands a reading to the collector. Any thread. */
void counters_push(uint32_t id, uint32_t device, uint64_t time_ns, int64_t value);

/*
 * Of the processes that record into one directory the first reads what they share: it has the name
 * of the pair in the abstract namespace of sockets, which the kernel frees when the process ends,
 * however it ends.
 */
struct counters_claim {
	char what[32]; /* "": nothing */
	int fd;
};
/* Claims `what` as claims[i]. true: it is ours, also when another of these claims has it. */
bool counters_claim(struct counters_claim *claims, size_t count, size_t i, const char *directory,
		    const char *what);
/*
 * In the child of a fork: the claims are the parent's, but a descriptor that the child holds as
 * well would keep them for longer than that lives.
 */
void counters_disclaim(const struct counters_claim *claims, size_t count);

#endif
