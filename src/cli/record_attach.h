/* record_attach.h: `pitot record -p`: the CPU samples of a process that runs already. */
#ifndef PITOT_CLI_RECORD_ATTACH_H
#define PITOT_CLI_RECORD_ATTACH_H

#include "cli/record_prepare.h"

/* EXIT_DONE when it is sampled; else the status to end with, and what was wrong has been said. */
int record_attach(struct recording *r);

/* Whether the window has closed on such a process. */
bool record_attach_is_over(struct recording *r);

#endif
