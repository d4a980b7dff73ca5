/* record_command.h: `pitot record` with a command: it is started, with the recorder where that is to be. */
#ifndef PITOT_CLI_RECORD_COMMAND_H
#define PITOT_CLI_RECORD_COMMAND_H

#include "cli/record_prepare.h"

/* EXIT_DONE when it runs; else the status to end with, and what was wrong has been said. */
int record_command(struct recording *r, int argc, char **argv);

#endif
