/*
 * capabilities.h: what was asked for, what was got, and why: table capability, for those who
 * explain an empty view.
 */
#ifndef PITOT_ANALYSIS_CAPABILITIES_H
#define PITOT_ANALYSIS_CAPABILITIES_H

#include "base/strbuf.h"
#include "trace/trace.h"

/* Texts belong to the trace; "" where there is none. */
struct capability_note {
	bool known; /* there is a row */
	enum capability_state state;
	bool has_method; /* of "cpu", where CPUs were sampled */
	enum sampling_method method;
	const char *asked, *got, *reason;
};

/* The latest row with this name, such as "cpu"; the table must be loaded. */
void capability_read(const struct trace *t, const char *name, struct capability_note *out);
/* Loads the table, and reads it. 0 or a negative code. */
int capability_find(struct trace *t, const char *name, struct capability_note *out,
		    struct error *e) MUST_USE;
/*
 * The first reason why any process could not do `name`, or not all of it; "": there is none. The
 * table must be loaded.
 */
const char *capability_refusal(const struct trace *t, const char *name);
/*
 * Why a recording has no CPU samples, from its row "cpu"; nothing where that is not known. What a
 * way of sampling cannot do is no reason: where it looked, nothing ran for long enough.
 */
void capability_no_samples(const struct capability_note *cpu, struct strbuf *out);

/* Whether nothing but CPUs was to be recorded. 0 or a negative code. */
int capability_cpu_only(struct trace *t, bool *cpu_only, struct error *e) MUST_USE;

/*
 * Appends why the recording has nothing that ran on a GPU; nothing where it has something.
 * 0 or a negative code.
 */
int capability_no_gpu(struct trace *t, struct strbuf *why, struct error *e) MUST_USE;

/* Result of analysis_no_gpu. */
struct no_gpu {
	bool not_wanted; /* nothing but CPUs was to be recorded */
	/* there is nothing that ran on a GPU; empty: there is something, or not_wanted */
	struct strbuf why;
};

#endif
