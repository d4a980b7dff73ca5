/* option_file.h: options of a command from a file, a JSON object; keys are their long names. */
#ifndef PITOT_CLI_OPTION_FILE_H
#define PITOT_CLI_OPTION_FILE_H

#include "base/options.h"

/*
 * Sets the options that the file has, and that were not given before (option.given, which all have
 * but OPTION_LIST: these are added to). Texts stay valid. Returns 0, E_USAGE or another negative
 * code.
 */
int option_file_read(const char *path, const struct option *options, struct error *e) MUST_USE;

#endif
