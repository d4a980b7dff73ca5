/* rank_doubts.h: sentences on what keeps ranks from being compared. Each ends with its line. */
#ifndef PITOT_REPORT_RANK_DOUBTS_H
#define PITOT_REPORT_RANK_DOUBTS_H

#include "analysis/collectives.h"
#include "analysis/report.h"

/* Ranks of the job without collectives; nothing if there are none. */
void ranks_add_absent(const struct report *r, struct strbuf *out);
/* Why nothing can be said about ranks. */
void ranks_add_unknown(const struct report *r, struct strbuf *out);
/* Which ranks were restarted; some were. */
void ranks_add_restarted(const struct collectives *c, struct strbuf *out);

void ranks_add_host(const struct report *r, const struct job_host *h, struct strbuf *out);

#endif
