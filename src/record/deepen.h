/*
 * deepen.h: lets an engine measure for a while in processes that are being recorded and are
 * prepared, when a rule holds. They are attached to once more; an engine is on for the whole
 * process, so the recording that goes on has its rows, too. Loading an engine takes as long as the
 * driver does, so it happens on a thread of its own.
 */
#ifndef PITOT_RECORD_DEEPEN_H
#define PITOT_RECORD_DEEPEN_H

#include "record/recording.h"

#define DEEPEN_PROCESSES_MAX 16u

struct deepening;

struct deepen_request {
	pid_t pids[DEEPEN_PROCESSES_MAX];
	size_t count;
	int engine;
	uint64_t duration_ns;
};

/* NULL: no memory, or no thread. */
struct deepening *deepen_begin(const struct recording *r,
			       const struct deepen_request *request) MUST_USE;
/*
 * Returns whether it has ended; then *e says what was not measured (code 0: nothing), and it is
 * freed. With `stop` it ends now, and is left to its thread if that takes longer than four seconds.
 */
bool deepen_end(struct deepening *d, bool stop, struct error *e) MUST_USE;

#endif
