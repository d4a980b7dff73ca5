/* agent_state.h: the state file of the agent: where it has read to, as JSON. */
#ifndef PITOT_AGENT_AGENT_STATE_H
#define PITOT_AGENT_AGENT_STATE_H

#include "agent/agent_sources.h"
#include "agent/spool.h"

/* Appends the state after the next batch. */
void agent_state_render(const struct spool *spool, const struct sources *sources,
			struct strbuf *out);
/*
 * Sets spool->agent and ->batch, and the sources. The file is the agent's own, so one that cannot
 * be read is an error. Returns 0 or a negative code.
 */
int agent_state_read(const struct strbuf *text, struct spool *spool, struct sources *sources,
		     struct error *e) MUST_USE;

#endif
