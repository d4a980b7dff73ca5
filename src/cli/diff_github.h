/* diff_github.h: `pitot diff --github`: a comparison for GitHub's runner. */
#ifndef PITOT_CLI_DIFF_GITHUB_H
#define PITOT_CLI_DIFF_GITHUB_H

#include "cli/ui.h"
#include "compare/comparison_print.h"

/*
 * Prints the result that v->out has, and workflow commands after it: an error for what makes the
 * exit status 1, else a warning or a notice. Names of a recording in the result are no commands,
 * whatever they are. With --json the commands go to stderr, which the runner reads as well.
 *
 * Appends the result as Markdown to $GITHUB_STEP_SUMMARY, if that is the path of a regular file; no
 * link is followed. Prints errors; returns an exit status.
 */
int diff_github(const struct context *c, const struct comparison_view *v);

#endif
