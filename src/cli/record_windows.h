/*
 * record_windows.h: `pitot record -p PID --every 60s --for 1s`: recordings of running processes,
 * one after another, each a folder of its own.
 *
 * Windows begin at multiples of the period of the wall clock, so that those of all hosts are the
 * same. Between them nothing is attached: the processes are as if they had not been recorded.
 */
#ifndef PITOT_CLI_RECORD_WINDOWS_H
#define PITOT_CLI_RECORD_WINDOWS_H

#include "cli/command.h"
#include "record/recording.h"

struct record_windows {
	uint64_t every_ns, for_ns;
	uint64_t keep; /* recordings; older ones are removed */
};

/* Records until the processes have ended or a signal comes. Returns an exit status. */
int record_windows(const struct context *c, struct record_request *request,
		   const struct record_windows *how);

#endif
