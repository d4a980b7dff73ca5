/*
 * report_lines.h: the sections of the report that name lines of the program: who launched, who
 * waited, what the CPU did.
 */
#ifndef PITOT_CLI_REPORT_LINES_H
#define PITOT_CLI_REPORT_LINES_H

#include "base/json.h"
#include "cli/report_text.h"

/*
 * Appends "train.py:57 step -> DataLoader.__next__"; safe for a terminal. callee: CALLER_NONE for
 * none.
 */
void report_line_text(const struct report *r, uint32_t caller, uint32_t callee,
		      struct strbuf *out);
/*
 * Appends "from train.py:60 step (98.2%), …", the lines that launched most of a hotspot; nothing
 * without any.
 */
void report_callers_text(const struct report_view *v, const struct hotspot *h, struct strbuf *out);
/*
 * Appends a sentence and a newline for the verdict: where the launching thread was while the GPU
 * idled.
 */
void report_idle_sentence(const struct report *r, struct strbuf *out);

/* Sections; each prints nothing when it has no data. */
void report_print_idle_lines(const struct report_view *v);
void report_print_blocked(const struct report_view *v);
void report_print_cpu(const struct report_view *v);

/* The same as JSON: keys of the object that is open. docs/report.md describes them. */
void report_json_idle_lines(struct json *j, const struct report *r, uint64_t top);
void report_json_blocked(struct json *j, const struct report *r, uint64_t top);
void report_json_cpu(struct json *j, const struct report *r, uint64_t top);
/* "caller": {…} or null. */
void report_json_caller(struct json *j, const struct report *r, const char *key, uint32_t caller);
void report_json_callers(struct json *j, const struct report *r, const struct hotspot *h,
			 uint64_t most);

#endif
