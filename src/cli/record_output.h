/*
 * record_output.h: what `pitot record` prints on standard error: messages, the live line, the lines
 * at the end.
 */
#ifndef PITOT_CLI_RECORD_OUTPUT_H
#define PITOT_CLI_RECORD_OUTPUT_H

#include "cli/command.h"
#include "record/follow.h"
#include "record/recording.h"

struct record_output {
	const struct context *context;
	struct follow *follow; /* of the live line, once it is shown */
	bool shown; /* the live line is on the screen */
};

/* Prints what the recording reports. `out` must live as long as the recording. */
struct record_listener record_output_listener(struct record_output *out);
/* Removes the live line; there will be no other. */
void record_output_clear(struct record_output *out);
/* Reads the recording and prints the lines at its end; with --json one object. */
void record_output_end(const struct record_output *out, const struct recording *r);

#endif
