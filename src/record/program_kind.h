/*
 * program_kind.h: whether a command runs a CPython, so that the recorder can be in it from the start, and whether the
 * recorder can be in it at all.
 */
#ifndef PITOT_RECORD_PROGRAM_KIND_H
#define PITOT_RECORD_PROGRAM_KIND_H

#include <stdbool.h>

/*
 * Whether this command (argv, NULL at its end), looked for in PATH, is a Python interpreter for 64-bit x86 with the GNU C
 * library, or a script of one, perhaps behind `timeout 60`, `numactl -N 0` and the like. Links are followed, and so are the
 * first lines of scripts. By its name: what it is not told of here is not harmed.
 */
bool program_is_python(char **command);

/*
 * Whether it is for another C library (musl) or another kind of processor (32 bits): its loader would refuse the recorder, and
 * the program with it, or complain.
 */
bool program_has_other_loader(const char *command);

#endif
