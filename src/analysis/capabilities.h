/*
 * capabilities.h: what was asked for, what was got, and why: table capability, for those who
 * explain an empty view.
 */
#ifndef PITOT_ANALYSIS_CAPABILITIES_H
#define PITOT_ANALYSIS_CAPABILITIES_H

#include "trace/trace.h"

/* Texts belong to the trace; "" where there is none. */
struct capability_note {
	bool known; /* there is a row */
	enum capability_state state;
	const char *asked, *got, *reason;
};

/* The latest row with this name, such as "cpu". 0 or a negative code. */
int capability_find(struct trace *t, const char *name, struct capability_note *out,
		    struct error *e) MUST_USE;

#endif
