/*
 * windows.h: recordings of a few seconds, which rules make: of the process in which a rule held,
 * and of those of its job on this machine. A window is what `pitot dump` writes, with the rule in
 * table `trigger`. It is made in the spool, and then shipped whole.
 *
 * A rule that held before the agent was killed holds again when the segments are read again; the
 * window has the same name, and is made once.
 */
#ifndef PITOT_AGENT_WINDOWS_H
#define PITOT_AGENT_WINDOWS_H

#include "agent/agent_sources.h"
#include "agent/spool.h"
#include "rules/rule_list.h"

struct windows;

struct window_counts {
	uint64_t failed; /* windows that could not be made */
};

/* NULL: no memory. The rules, the sources and the spool must outlive it. */
struct windows *windows_new(const struct rule_list *rules, struct sources *sources,
			    struct spool *spool) MUST_USE;
/* For how long segments are needed after they were written. */
uint64_t windows_keep_ns(const struct windows *w);
/* Reads what is new in the segments that are held, and makes windows that are due. */
void windows_step(struct windows *w);
const struct window_counts *windows_counts(const struct windows *w);
void windows_free(struct windows *w); /* may be NULL */

#endif
