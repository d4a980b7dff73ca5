/* record_finish.h: the end of a recording: what was got, the names of stacks, the lines on standard error. */
#ifndef PITOT_CLI_RECORD_FINISH_H
#define PITOT_CLI_RECORD_FINISH_H

#include "cli/record_prepare.h"

/* Stops sampling and closes the recording. What fails here is said, but the command's status counts. */
void record_finish(struct recording *r);

#endif
