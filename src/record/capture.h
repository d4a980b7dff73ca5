/*
 * capture.h: captures whole steps of a process that is being recorded, or that is prepared and then
 * records itself meanwhile: a recording of its own with what belongs to these steps.
 *
 * The rows that the process writes anyway are followed (live_segment.h, rules/rule_feed.h); the
 * process does nothing for it. A step that begins after the capture counts (rules/step_watch.h).
 * After the last one, the end of its GPU work is waited for: each launch until then has an end, or
 * the program goes on and there is none. Then the window is cut out (segment_cut.h), exactly, with
 * what was alive at its begin. Nothing is written before.
 *
 * Single-threaded, prints nothing, and never waits: capture_poll() is called several times a
 * second.
 */
#ifndef PITOT_RECORD_CAPTURE_H
#define PITOT_RECORD_CAPTURE_H

#include "record/live_attach.h"
#include "record/live_segment.h"
#include "record/recording.h"
#include "record/segment_cut.h"
#include "rules/rule_feed.h"
#include "rules/rule_list.h"
#include "rules/step_watch.h"

struct capture_request {
	size_t steps; /* wanted */
	uint64_t first; /* number of the first one, from 1, in the process; 0: the next one */
	/* Steps go from one collective of a communicator to the next; else ranges are steps. */
	bool by_collectives;
	const char *name; /* of the ranges that are steps; NULL: those that are named like steps */
	const struct settings *engine; /* that measures them, and how; NULL: none */
	struct rule_list when; /* steps count after one of these has held; none: from the begin */
};

/* A segment of the process; the last one is being written. */
struct followed_segment {
	struct live_segment live;
	struct rule_segment *rows;
};

struct capture {
	const struct capture_request *request;
	pid_t pid;
	int process; /* pidfd */
	struct process_command command; /* argv NULL: unknown */
	bool is_attached;
	struct live_attach attach;
	const struct segment_ring *ring; /* has its segments; NULL: /proc shows them */
	uint64_t session; /* in the ring; 0: the newest one */
	struct rule_list rules; /* the first one is about steps */
	struct rule_watch *watch;
	struct rule_feed *feed;
	VEC(struct followed_segment) segments;
	uint64_t start_ns, looked_ns, closed_ns; /* looked: for the process's segment */
	uint64_t read_from_ns; /* older rows are not read; 0: all are */
	uint64_t known_ns; /* all facts until then were passed on */
	unsigned dropped; /* segments, for lack of room */
	char over[64]; /* why no more steps come; "": they do */

	struct step_watch steps;
	const struct step_thread
		*thread; /* whose steps these are; NULL: there are not enough yet */
	struct rule_firing fired; /* by which the capture began; evidence "": by none */
	/* GPU work: */
	struct map launches; /* correlation id -> time, of those that have no end */
	struct map early; /* correlation ids of work that seems to have ended before its launch */
	unsigned into_graphs; /* captures of graphs */
	uint64_t collectives; /* seen, of NCCL */
	uint64_t lead_ns; /* longest time from a launch to the end of its work */
	uint64_t arrived_ns; /* the last end of work of the window */
	bool goes_on; /* work that was launched after the window has ended */
};

/* What a capture has. */
struct capture_result {
	char *path; /* absolute */
	struct folder_id folder;
	struct cut_window window;
	struct cut_counts counts;
	unsigned segments; /* files of the process */
	unsigned missing; /* its segments that were dropped before they were read */
	uint64_t without_end; /* launches in the window whose work has no end */
	bool knows_begin; /* the state at the begin: all segments since the recording began */
};

/*
 * Begins to follow a process. Returns 0, or a negative code; *e says why it cannot be captured. In
 * both cases capture_close() must be called.
 */
int capture_open(struct capture *c, pid_t pid, const struct capture_request *request,
		 struct error *e) MUST_USE;
/*
 * The same of a process image that is recorded into a ring of ours since it began. The ring must
 * outlive the capture.
 */
int capture_open_ring(struct capture *c, pid_t pid, const struct segment_ring *ring,
		      uint64_t session, const struct capture_request *request,
		      struct error *e) MUST_USE;
/* Returns 1 when the steps can be written, 0 while they cannot, or negative: they never can. */
int capture_poll(struct capture *c, struct error *e) MUST_USE;
/*
 * Ends waiting for steps; `why` is a phrase about the program. Returns 1 if there are some to be
 * written, fewer than wanted, or a negative code with what to do.
 */
int capture_end(struct capture *c, const char *why, struct error *e) MUST_USE;
/* The number of steps that will be written. */
size_t capture_steps(const struct capture *c);
/* Frees all, and lets an attached process end its recording, within three seconds. */
void capture_close(struct capture *c);

/*
 * Writes the recording into a new folder (see recording_dir_create). Returns 0 and *out, whose path
 * the caller frees, or a negative code; then there is no folder.
 */
int capture_write(struct capture *c, const char *output, bool force, struct capture_result *out,
		  struct error *e) MUST_USE;
/*
 * Writes only the process's segments, into a folder in which their files have numbers from `first`
 * on.
 * Returns 0 and *out, without a path, or a negative code.
 */
int capture_write_segments(const struct capture *c, int folder, uint32_t first,
			   struct capture_result *out) MUST_USE;

/* --- capture_target.c --- */

struct capture_targets {
	VEC(pid_t) pids;
};
/*
 * Finds the processes that can be captured: that one, or else those below it; 0: of all that this
 * user may see. Returns 0 or a negative code.
 */
int capture_find_targets(pid_t pid, struct capture_targets *out, struct error *e) MUST_USE;

#endif
