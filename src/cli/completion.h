/* completion.h: shell completion, made from the declarations of the commands. */
#ifndef PITOT_CLI_COMPLETION_H
#define PITOT_CLI_COMPLETION_H

#include "cli/command.h"

/* Each appends a script to be loaded by that shell. */
void completion_bash(struct strbuf *out);
void completion_zsh(struct strbuf *out);
void completion_fish(struct strbuf *out);

#endif
