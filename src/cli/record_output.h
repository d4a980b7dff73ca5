/*
 * record_output.h: the output of `pitot record` on standard error: messages, the live line, the
 * summary at the end.
 */
#ifndef PITOT_CLI_RECORD_OUTPUT_H
#define PITOT_CLI_RECORD_OUTPUT_H

#include "cli/command.h"
#include "cli/live_keys.h"
#include "record/follow.h"
#include "record/recording.h"

struct record_output {
	const struct context *context;
	bool cpu_only; /* no GPU work is recorded */
	bool temporary; /* the recording is removed at the end */
	struct follow *follow; /* reads the figures of the live line; NULL: not shown yet */
	bool shown; /* the live line is on the screen */
	struct live_keys keys; /* .keys NULL: there are none */
};

/* Returns a listener that prints the messages of a recording; `out` must outlive the recording. */
struct record_listener record_output_listener(struct record_output *out);
/* Lets the user press keys; for running processes, of which one may be captured. */
void record_output_keys(struct record_output *out, const char *pid);
/* Removes the live line for good. */
void record_output_clear(struct record_output *out);
/* Reads the recording and prints the summary; with --json as one object. */
void record_output_end(const struct record_output *out, const struct recording *r);

#endif
