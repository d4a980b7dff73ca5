/*
 * pager.h: results that are longer than the terminal is high go through a pager, so that reading
 * begins at their first line.
 */
#ifndef PITOT_CLI_PAGER_H
#define PITOT_CLI_PAGER_H

#include "base/strbuf.h"
#include "cli/command.h"

/*
 * The file descriptor that this part of the result belongs to. Standard output is a terminal, the
 * text is longer than it is high, c->pager holds and there is one: a pager's, which has then been
 * started ($PITOT_PAGER, $PAGER, or less). All that follows goes there, too, and exit() waits for
 * it. Else standard output.
 */
int pager_output(const struct context *c, const struct strbuf *text);
/* Whether writing failed because whoever reads has seen enough. */
bool pager_has_quit(int write_error);

#endif
