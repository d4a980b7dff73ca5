/*
 * record_prepare.h: a recording as `pitot record` makes it, and what comes before anything is recorded: the folder, the
 * writer of what `pitot` itself sees, how the CPU is to be sampled, and what the recorder inside is told.
 */
#ifndef PITOT_CLI_RECORD_PREPARE_H
#define PITOT_CLI_RECORD_PREPARE_H

#include "cli/command.h"
#include "cli/process_command.h"
#include "cli/record_cpu.h"
#include "cli/record_inject.h"
#include "cli/record_json.h"
#include "cli/record_request.h"
#include "cli/record_spawn.h"
#include "cli/record_threads.h"
#include "cli/record_watch.h"

struct recording {
	const struct context *context;
	const struct record_request *asked;
	char *directory; /* absolute */
	char *shown; /* as the user would name it */
	char *library;
	struct strbuf name, options;
	struct record_cpu cpu;
	struct process_command running; /* with --pid */
	bool is_python; /* the command */
	bool has_other_loader; /* the command: record_python.h */
	enum record_preload preload;
	struct record_identity identity;
	struct writer *writer;
	struct watch *watch;
	struct record_threads threads;
	struct spawn spawn;
};

/* Folder, recording.json, writer, watch. 0 or a negative code, and then there is no folder. */
int record_prepare(struct recording *r, int argc, char **argv, struct error *e) MUST_USE;
/* Sets `options`: what the recorder inside the command is told. Again once it is known whether it has to sample. */
void record_make_options(struct recording *r);
/* To those who want to hear more. */
void record_tell_cpu(const struct recording *r);
/* Nothing was recorded: stops sampling, removes the folder. */
void record_undo(struct recording *r);
void record_release(struct recording *r);

#endif
