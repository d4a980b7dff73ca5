/*
 * job_source.h: where the ranks of a job are read from: one report of all, or a report for each
 * process, of which only one is open, so that memory does not grow with the number of ranks.
 */
#ifndef PITOT_ANALYSIS_JOB_SOURCE_H
#define PITOT_ANALYSIS_JOB_SOURCE_H

#include <stddef.h>

#include "base/compiler.h"
#include "base/error.h"

struct report;

struct job_source {
	size_t count; /* number of reports */
	void *user;
	/* Sets *out, which close() releases; only one is open. 0 or a negative code. */
	int (*open)(void *user, size_t item, struct report **out);
	void (*close)(void *user, struct report *r);
};

#endif
