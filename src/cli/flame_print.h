/*
 * flame_print.h: what `pitot flame` says besides the graph itself: JSON for scripts, and what is
 * missing, for people.
 */
#ifndef PITOT_CLI_FLAME_PRINT_H
#define PITOT_CLI_FLAME_PRINT_H

#include "analysis/capabilities.h"
#include "analysis/flame/flame.h"
#include "base/strbuf.h"

/* One JSON object and a newline: docs/flame.md. */
void flame_print_json(const struct flame *f, struct strbuf *out);

/*
 * Work without times, work without a launch, calls and samples without a stack; and why there are no
 * CPU samples: if `cpu_wanted` that there are none in any case. cpu: NULL where CPU time is not
 * shown. "" when nothing is missing.
 */
void flame_print_gaps(const struct flame *f, const struct capability_note *cpu, bool cpu_wanted,
		      struct strbuf *out);

#endif
