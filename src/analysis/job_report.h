/*
 * job_report.h: compares the ranks of a recording while only one process of it is open, so that a
 * job of thousands of ranks fits into memory. Each process is read twice: for its collectives, and
 * when it is known for how long they waited. With options.critical_path each is read once more, for
 * what its work waited for, and again if the path leads through it.
 */
#ifndef PITOT_ANALYSIS_JOB_REPORT_H
#define PITOT_ANALYSIS_JOB_REPORT_H

#include "analysis/report.h"

/*
 * Fills a report that has only `collectives`, `rank_times`, `rank_path` and `rank_waits`, and no
 * trace. *is_damaged: parts of the recording cannot be read, or are missing. 0 or a negative code;
 * then *out needs no release.
 */
int job_report_init(struct report *out, const char *path, const struct report_options *options,
		    bool *is_damaged, struct error *e) MUST_USE;

#endif
