/* measure_recording.h: the runs of `pitot diff` and `pitot baseline`. */
#ifndef PITOT_CLI_MEASURE_RECORDING_H
#define PITOT_CLI_MEASURE_RECORDING_H

#include "cli/ui.h"
#include "compare/measured_run.h"

#define RUNS_MAX 64u /* of a comparison */

/* Measures a recording that a command names. Prints errors; returns an exit status. */
int measure_recording(const struct context *c, const char *recording, struct measured_run *run);

#endif
