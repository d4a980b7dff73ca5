/* help.h: help texts and man pages, generated from the declarations of the commands. */
#ifndef PITOT_CLI_HELP_H
#define PITOT_CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"

/* Each prints and returns an exit status. */
int help_overview(const struct context *c, FILE *to);
/* `all`: with the options of its groups, else only with the common ones. */
int help_command(const struct context *c, const struct command *command, bool all);
/* Appends commands and options as JSON. `only` NULL: all commands. */
int help_json(const struct context *c, const struct command *only);

/* Appends the page pitot-<name>(1), or pitot(1) for NULL, as roff. */
void man_page(const struct command *command, struct strbuf *out);

#endif
