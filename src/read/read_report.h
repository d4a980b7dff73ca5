/* read_report.h: the report for programs. */
#ifndef PITOT_READ_READ_REPORT_H
#define PITOT_READ_READ_REPORT_H

#include "analysis/report.h"
#include "pitot/read.h"

/*
 * E_USAGE, naming what there is, when the filter is for a process or a GPU that is not in the
 * recording.
 */
int report_check_place(const struct report *r, struct error *e) MUST_USE;

/*
 * JSON of the report; since_ns and until_ns are CLOCK_MONOTONIC. *json is to be freed. 0 or a
 * negative code.
 */
int read_report(struct trace *t, const char *path, const struct pitot_read_report *options,
		char **json, struct error *e) MUST_USE;

#endif
