/* record_run.h: `pitot record` while the command runs. */
#ifndef PITOT_CLI_RECORD_RUN_H
#define PITOT_CLI_RECORD_RUN_H

#include "cli/record_prepare.h"

/* Follows its processes, passes signals on, shows the live line; returns when it has ended, or the window of -p is over. */
void record_run(struct recording *r);

#endif
