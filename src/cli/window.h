/*
 * window.h: options shared by several commands, and the resolution of --since and --until.
 *
 *	static struct window_options option_window;
 *	static const struct option options[] = { …, WINDOW_OPTIONS(option_window), OPTION_END };
 */
#ifndef PITOT_CLI_WINDOW_H
#define PITOT_CLI_WINDOW_H

#include "cli/command.h"
#include "trace/trace.h"

struct report;

/* Times from the start of the recording. */
struct window_options {
	uint64_t since_ns, until_ns;
	bool since_given, until_given;
};

#define WINDOW_OPTIONS(window)                                                                     \
	OPTION(DURATION, "since", 0, (window).since_ns, "TIME",                                    \
	       "start TIME after the start of the recording, such as 1.5s",                        \
	       .given = &(window).since_given),                                                    \
		OPTION(DURATION, "until", 0, (window).until_ns, "TIME",                            \
		       "end TIME after the start of the recording",                                \
		       .given = &(window).until_given)

/* `value` is a const char *, for window_of_steps. */
#define STEP_OPTION(value)                                                                         \
	OPTION(STRING, "step", 0, value, "N[..M]",                                                 \
	       "only this step, or these, of all ranks (pitot report --steps numbers them)",       \
	       .group = "selection")

/* Selects kernels; `value` is a const char *. */
#define KERNEL_OPTION(value)                                                                       \
	OPTION(STRING, "kernel", 'k', value, "GLOB",                                               \
	       "only kernels whose name matches; without * ? [ a part of the name is enough")

/* The stack that kernels of CUDA graphs belong to; `value` is an int, 1 for "capture". */
#define GRAPHS_OPTION(value, help)                                                                 \
	OPTION(ENUM, "graph-stacks", 0, value, "WHICH", help, .choices = graph_choices,            \
	       .group = "stacks and names")
extern const char *const graph_choices[];

/* Selects scopes; `value` is a const char *. */
#define SCOPE_OPTION(value)                                                                        \
	OPTION(STRING, "scope", 0, value, "GLOB",                                                  \
	       "only what was done inside of matching scopes or NVTX ranges; 'step/forward' is "   \
	       "forward directly inside of step")

/* Parses "17" or "17..19", which count from 1. */
bool steps_parse(const char *text, uint64_t *first, uint64_t *last);

/*
 * Converts the window to CLOCK_MONOTONIC of the recorded machine; the defaults are 0 and
 * UINT64_MAX. Returns EXIT_DONE, or EXIT_USAGE after printing that the window is empty.
 */
int window_resolve(const struct context *c, const struct trace *t, const struct window_options *w,
		   uint64_t *since_ns, uint64_t *until_ns) MUST_USE;

/*
 * Sets the window to steps of `whole`, which has options.steps: from the begin of the first on the
 * rank that comes first to the end of the last on the rank that comes last. Returns EXIT_DONE, or
 * EXIT_USAGE after printing that there are no such steps.
 */
int window_of_steps(const struct context *c, const struct report *whole, const char *text,
		    uint64_t *since_ns, uint64_t *until_ns) MUST_USE;

#endif
