/* diff_determinism.h: `pitot diff --determinism A B`. */
#ifndef PITOT_CLI_DIFF_DETERMINISM_H
#define PITOT_CLI_DIFF_DETERMINISM_H

#include "cli/command.h"

/* EXIT_FAILED also if the two recordings differ. */
int diff_determinism(const struct context *c, char **recordings);

#endif
