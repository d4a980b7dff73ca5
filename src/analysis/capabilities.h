/*
 * capabilities.h: reads table capability (what was requested, what was provided, and why), to
 * explain missing data.
 */
#ifndef PITOT_ANALYSIS_CAPABILITIES_H
#define PITOT_ANALYSIS_CAPABILITIES_H

#include "base/strbuf.h"
#include "trace/trace.h"

/* A row of table capability. The trace owns the texts; "" if there is none. */
struct capability_note {
	bool known; /* the recording has a row with this name */
	enum capability_state state;
	bool has_method; /* of "cpu", if the CPU was sampled */
	enum sampling_method method;
	const char *requested, *actual, *reason;
};

/* The name of the feature that a row of the loaded table is about. */
const char *capability_name(const struct trace *t, uint64_t row);
/* Reads the latest row with this name; the table must be loaded. */
void capability_read(const struct trace *t, enum feature name, struct capability_note *out);
/* The same, and loads the table. 0 or a negative code. */
int capability_find(struct trace *t, enum feature name, struct capability_note *out,
		    struct error *e) MUST_USE;
/*
 * Returns the name that a process gave itself, such as pitot_options.app_name, or "". The table
 * must be loaded.
 */
const char *capability_app_name(const struct trace *t, const struct trace_process *process);
/*
 * Returns the first reason that a process recorded for not providing `name`, or not all of it; "":
 * none. The table must be loaded.
 */
const char *capability_refusal(const struct trace *t, enum feature name);
/* The same for an engine, such as "pc-sampling". */
const char *capability_engine_refusal(const struct trace *t, const char *engine);
/*
 * Appends why a recording has no CPU samples: it had a window and that was missed, or what its row
 * "cpu" says; nothing if unknown. A limitation of the sampling method is not a reason: if the
 * method worked, nothing ran long enough. The table must be loaded.
 */
void capability_no_samples(const struct trace *t, const struct capability_note *cpu,
			   struct strbuf *out);

/* Whether only the CPU was to be recorded. 0 or a negative code. */
int capability_cpu_only(struct trace *t, bool *cpu_only, struct error *e) MUST_USE;

/* Appends why the recording has no GPU work; nothing if it has some. 0 or a negative code. */
int capability_no_gpu(struct trace *t, struct strbuf *why, struct error *e) MUST_USE;

/*
 * Returns when the window of --delay opened and that of --duration closed; 0, UINT64_MAX: never.
 * The table must be loaded.
 */
void capability_window(const struct trace *t, uint64_t *opened_ns, uint64_t *closed_ns);

/* Processes in which CUPTI never worked, and why in the first of them. */
struct refused_processes {
	size_t count;
	const char *why; /* belongs to the trace; "" without such a process */
};

/* The table must be loaded. Returns 0 or -ENOMEM. */
int capability_refused_processes(const struct trace *t, struct refused_processes *out) MUST_USE;

/* Result of analysis_no_gpu. */
struct no_gpu {
	bool cpu_only; /* only the CPU was to be recorded */
	struct strbuf why; /* why there is no GPU work; empty: there is some, or cpu_only */
	struct refused_processes refused; /* none if there is no GPU work at all, or cpu_only */
};

#endif
