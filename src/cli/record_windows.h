/*
 * record_windows.h: `pitot record --every 60s --for 1s`: recordings of running processes (-p) or of
 * a command, one after another, each a folder of its own.
 *
 * Windows begin at multiples of the period of the wall clock, so that those of all hosts are the
 * same. Between them nothing is attached: the processes are as if they had not been recorded. A
 * command is started prepared, and a child of this process records it as -p does, so that signals
 * reach the command at any time.
 */
#ifndef PITOT_CLI_RECORD_WINDOWS_H
#define PITOT_CLI_RECORD_WINDOWS_H

#include "cli/command.h"
#include "record/recording.h"

struct record_windows {
	uint64_t every_ns, for_ns;
	uint64_t keep; /* recordings; older ones are removed */
	bool is_command; /* which may not have used a GPU yet */
};

/* Records until the processes have ended or a signal comes. Returns an exit status. */
int record_windows(const struct context *c, struct record_request *request,
		   const struct record_windows *how);

/* Starts a command, and does the same until it has ended. Returns its status. */
int record_windows_of_command(const struct context *c, struct record_request *request,
			      const struct record_windows *how, char **argv);

#endif
