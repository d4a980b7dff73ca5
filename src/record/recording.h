/*
 * recording.h: makes a recording of a command, or of running processes.
 *
 * The stages, in this order: record_launch or record_attach, record_run, record_finish, and
 * recording_release in any case. Nothing here prints: messages for the user go through struct
 * record_listener.
 */
#ifndef PITOT_RECORD_RECORDING_H
#define PITOT_RECORD_RECORDING_H

#include "record/attach_client.h"
#include "record/cpu_sampling.h"
#include "record/inject.h"
#include "record/process_tree.h"
#include "format/recording_json.h"
#include "record/request.h"
#include "record/segment_server.h"
#include "record/spawn.h"

/* The command line of a running process. */
struct process_command {
	struct strbuf text; /* arguments, a NUL after each */
	char **argv; /* into text; NULL at the end */
	size_t argc; /* at least 1 */
};

/*
 * Reads /proc; the command of a kernel thread is its name. Returns 0, or a negative code, and then
 * there is nothing to release.
 */
int process_command_read(struct process_command *command, pid_t pid, struct error *e) MUST_USE;
void process_command_release(struct process_command *command); /* may be zeroed */

enum record_message {
	RECORD_DETAIL, /* choices and their reasons, for --verbose */
	RECORD_NOTE, /* useful to know, but not a failure */
	RECORD_WARNING, /* needed to trust the recording */
};

/* Of the user, while it is recorded. */
enum record_wish {
	RECORD_GO_ON,
	RECORD_DEEPEN, /* measure hardware counters for ten seconds */
	RECORD_LEAVE, /* end the recording */
};

/*
 * Receives the messages of a recording, on the thread that runs the stages. Each function may be
 * NULL.
 */
struct record_listener {
	void *user;
	/* One line, without its end. */
	void (*message)(void *user, enum record_message kind, const char *text);
	/* Called once a second while the command runs, after a flush to `directory`. */
	void (*tick)(void *user, const char *directory, uint64_t elapsed_ns);
	/*
	 * Called ten times a second while attached processes are recorded, with the writer of the
	 * recording's own segment.
	 */
	enum record_wish (*poll)(void *user, struct writer *w);
};

enum command_kind {
	/* Cannot load the recorder: static, setuid, another C library or processor. */
	COMMAND_OTHER,
	COMMAND_PROGRAM,
	COMMAND_MAY_START_PYTHON, /* or is a Python */
};

/* The caller sets the first two members, and the others with RECORDING_INIT. */
struct recording {
	const struct record_request *request;
	struct record_listener listener;
	char *directory; /* absolute; NULL (like writer and tree): only gpufl's logs are written */
	char *shown; /* directory as shown to the user */
	char *library;
	char *log_path; /* absolute folder of gpufl's logs; NULL: none */
	struct strbuf name, options;
	struct cpu_sampling cpu;
	struct process_command running; /* with --pid */
	VEC(struct attached) attached; /* running processes that record for us */
	enum command_kind command_kind;
	char *preload_library; /* path; NULL: none */
	int preload; /* SETTING_PRELOAD_ */
	struct recording_identity identity;
	struct writer *writer;
	struct process_tree *tree;
	struct segment_server segments;
	struct gpu_cores *gpu_cores; /* --gpu-coredump; NULL: none are collected */
	struct triggers *triggers; /* of a ring; NULL: none */
	struct recorded_steps *steps; /* --steps; NULL: all is recorded */
	struct deepening *deepening; /* that the user wishes; NULL: none */
	struct topology_reading *topology; /* that is under way; NULL: none */
	struct spawn spawn;
};

#define RECORDING_INIT .name = STRBUF_INIT, .options = STRBUF_INIT, .segments = SEGMENT_SERVER_INIT

/*
 * Starts argv (NULL at argv[argc]) and begins to record it. Returns 0, or a negative code, and then
 * nothing runs and there is no folder. If the command itself cannot be run, r->spawn.status is then
 * the status of a shell: 127 if there is no such command, else 126. It is 0 after other failures.
 */
int record_launch(struct recording *r, int argc, char **argv, struct error *e) MUST_USE;
/*
 * Starts a command that can be attached to (r->spawn), and records nothing of it. Returns 0 or a
 * negative code as record_launch() does.
 */
int record_launch_idle(struct recording *r, char **argv, struct error *e) MUST_USE;
/*
 * Whether one of these processes or their descendants can record its GPU work. Returns 0, or a
 * negative code; *e says why the first of them cannot.
 */
int record_can_attach(const pid_t *pids, size_t count, struct error *e) MUST_USE;
/*
 * Begins to sample the processes request->pids and their descendants, and to record the GPU work of
 * those that are prepared, unless cpu_only is set. Returns 0, or a negative code, and then there is
 * no folder.
 */
int record_attach(struct recording *r, struct error *e) MUST_USE;
/*
 * Follows the processes and passes signals on, until the command has ended or the window of an
 * attached process is over.
 */
void record_run(struct recording *r);
/* Stops sampling, closes the recording and resolves its stacks. Failures are warnings. */
void record_finish(struct recording *r);
void recording_release(struct recording *r);

/* --- between the stages --- */

void record_emit(const struct recording *r, enum record_message kind, const char *format, ...)
	PRINTF_LIKE(3, 4);
/* Makes folder, recording.json, writer and tree. On failure (negative) there is no folder. */
int record_prepare(struct recording *r, int argc, char **argv, struct error *e) MUST_USE;
/* Sets `options`, the recorder's PITOT_OPTIONS. Called again when the sampling method is chosen. */
void record_make_options(struct recording *r);
/* Emits the method of CPU sampling, as a detail. */
void record_emit_cpu_method(const struct recording *r);
/*
 * Adds what processes have left in their memory: those that have ended, and with `last` also those
 * that have executed another program.
 */
void record_recover(struct recording *r, bool last);
/* Lets the attached processes end their recordings. Takes at most three seconds. */
void record_detach(struct recording *r);
/* dump.c: drops old segments of a ring, makes a requested dump, and returns whether it has. */
bool record_serve_ring(struct recording *r);
/*
 * Writes what the ring has of an interval into a new folder; `why` is a few words. Returns the
 * number of segments or a negative code.
 */
int record_make_dump(struct recording *r, int folder, const struct segment_interval *interval,
		     const char *why) MUST_USE;
/*
 * Writes a loss of unknown size because of `err`: a full disk may have prevented a process, or the
 * sampler, from beginning a segment. The row goes into the reserve of `pitot record`'s own segment.
 */
void record_write_loss(struct recording *r, int err);
/* Appends the clocks, and what adjtimex(2) says of CLOCK_REALTIME: missing if it is forbidden. */
void record_write_clock(struct writer *w);
/* Says in `pitot record`'s own segment that the ring is not in the recording yet. */
void record_note_ring(struct recording *r);
/* Writes the ring's segments into the recording. */
void record_finish_ring(struct recording *r);

/* --- read_topology.c: GPUs, network adapters and links of the machine, if it has GPUs --- */

/* Begins to read them. The PCI bus is read at once, NVML by another thread. */
void record_read_topology(struct recording *r);
/* Writes them when NVML has answered. `last`: waits a second for that at most. */
void record_write_topology(struct recording *r, bool last);

/* --- triggers.c: dumps of a ring that rules make; without rules or a ring they do nothing --- */

void triggers_begin(struct recording *r);
/* Reads what is new, and makes the dump that is due. */
void triggers_step(struct recording *r);
void triggers_process_ended(struct triggers *t, pid_t pid, int status, bool is_oom);
/* Judges what is left, before the ring is written into the recording. */
void triggers_finish(struct recording *r);
/* Runs --on-trigger and notifies if the finished recording is what rules asked for. */
void triggers_end(const struct recording *r);
void triggers_free(struct triggers *t); /* may be NULL */

/* --- recorded_steps.c: only steps of each process, cut out of a ring (--steps) --- */

void recorded_steps_begin(struct recording *r);
/* Counts steps, and writes those of processes that have passed them. */
void recorded_steps_step(struct recording *r);
/* Writes the others, and says what is missing. False: the whole ring is wanted. */
bool recorded_steps_finish(struct recording *r);
void recorded_steps_free(struct recorded_steps *s); /* may be NULL */

/* --- gpu_cores.c: core files that the driver writes of GPUs, with --gpu-coredump --- */

/*
 * Creates the folder, and appends its path. If there is to be none, or the command has its own
 * settings, appends nothing, and says why.
 */
void gpu_cores_open(struct recording *r, struct strbuf *path);
/* Reads files that are complete; `last`: all. */
void gpu_cores_read(struct recording *r, bool last);
void gpu_cores_free(struct gpu_cores *cores); /* may be NULL */

/* Undoes record_prepare if nothing was recorded: stops sampling, removes the folder. */
void record_undo(struct recording *r);

#endif
