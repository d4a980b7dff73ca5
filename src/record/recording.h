/*
 * recording.h: makes a recording of a command, or of a process that already runs.
 *
 * The stages, in this order: record_launch or record_attach, record_run, record_finish, and recording_release in any
 * case. Nothing here prints: what a person should know goes through struct record_listener.
 */
#ifndef PITOT_RECORD_RECORDING_H
#define PITOT_RECORD_RECORDING_H

#include "record/cpu_sampling.h"
#include "record/inject.h"
#include "record/process_command.h"
#include "record/process_tree.h"
#include "record/recording_json.h"
#include "record/request.h"
#include "record/spawn.h"
#include "record/thread_names.h"

enum record_message {
	RECORD_DETAIL, /* what was chosen and why, for who asks for it */
	RECORD_NOTE, /* worth knowing, but no failure */
	RECORD_WARNING, /* needed to trust the recording */
};

/* Who listens to a recording. Called on the thread that runs the stages; a member that is NULL is not called. */
struct record_listener {
	void *user;
	/* One line, without its end. */
	void (*message)(void *user, enum record_message kind, const char *text);
	/* Once a second while the command runs, after what is known so far was written to `directory`. */
	void (*tick)(void *user, const char *directory, uint64_t elapsed_ns);
};

/* The caller sets the first two members; RECORDING_INIT is what the others start with. */
enum command_kind {
	COMMAND_OTHER, /* the recorder cannot be in it: static, setuid, another C library or processor */
	COMMAND_PROGRAM,
	COMMAND_MAY_START_PYTHON, /* or is one */
};

struct recording {
	const struct record_request *request;
	struct record_listener listener;
	char *directory; /* absolute */
	char *shown; /* as the user would name it */
	char *library;
	struct strbuf name, options;
	struct cpu_sampling cpu;
	struct process_command running; /* with --pid */
	enum command_kind command_kind;
	char *preload_library; /* NULL: there is none */
	enum record_preload preload;
	struct record_identity identity;
	struct writer *writer;
	struct process_tree *tree;
	struct thread_names threads;
	struct spawn spawn;
};

#define RECORDING_INIT .name = STRBUF_INIT, .options = STRBUF_INIT

/*
 * Starts argv (NULL at argv[argc]) and begins to record it. 0, or a negative code, and then nothing runs and there is no
 * folder. r->spawn.status is then what a shell would return where the command itself cannot be run: 127 when there is
 * none, else 126; and 0 for any other failure.
 */
int record_launch(struct recording *r, int argc, char **argv, struct error *e) MUST_USE;
/* Begins to sample process request->pid. 0 or a negative code, and then there is no folder. */
int record_attach(struct recording *r, struct error *e) MUST_USE;
/* Follows the processes and passes signals on, until the command has ended or the window of an attached process is over. */
void record_run(struct recording *r);
/* Stops sampling, closes the recording and names its stacks. What fails here is a warning. */
void record_finish(struct recording *r);
void recording_release(struct recording *r);

/* --- between the stages --- */

void record_say(const struct recording *r, enum record_message kind, const char *format, ...) PRINTF_LIKE(3, 4);
/* Folder, recording.json, writer, tree. 0 or a negative code, and then there is no folder. */
int record_prepare(struct recording *r, int argc, char **argv, struct error *e) MUST_USE;
/* Sets `options`: what the recorder inside the command is told. Again once it is known whether it has to sample. */
void record_make_options(struct recording *r);
/* Reports how the CPU is sampled, as a detail. */
void record_say_cpu(const struct recording *r);
/* Nothing was recorded: stops sampling, removes the folder. */
void record_undo(struct recording *r);

#endif
