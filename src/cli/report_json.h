/* report_json.h: the report for scripts. docs/report.md describes the keys; they only ever grow. */
#ifndef PITOT_CLI_REPORT_JSON_H
#define PITOT_CLI_REPORT_JSON_H

#include "analysis/report.h"
#include "base/strbuf.h"

/* One JSON object and a newline; at most `top` items of each list, and `callers` of each kernel. */
void report_print_json(const struct report *r, const char *path, uint64_t top, uint64_t callers,
		       struct strbuf *out);

#endif
