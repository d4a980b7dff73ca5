/*
 * worker.h: processes that read recordings for `pitot serve`, one for each page of a recording that
 * is looked at, so that no page waits for another. A worker answers one request after the other,
 * and keeps what it has made for the next ones. A recording that breaks its reader ends a worker
 * and not the server; ending a worker gives all of its memory back.
 *
 * The server and its workers are one program: what they exchange are structs, then bytes.
 */
#ifndef PITOT_SERVE_WORKER_H
#define PITOT_SERVE_WORKER_H

#include <poll.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "serve/recordings.h"

/* What is rendered; V(name, recordings that it is of). */
#define SERVE_VIEWS(V)                                                                             \
	V(summary, 1)                                                                              \
	V(report, 1)                                                                               \
	V(timeline, 1)                                                                             \
	V(slices, 1)                                                                               \
	V(flame, 1)                                                                                \
	V(source, 1)                                                                               \
	V(diff, 2)                                                                                 \
	V(programs, 0)
#define SERVE_VIEW(name, recordings) SERVE_##name,
enum serve_view { SERVE_VIEWS(SERVE_VIEW) SERVE_VIEW_COUNT };

struct serve_ask {
	enum serve_view view;
	/* slices: see timeline_served.h */
	uint64_t from_ns, until_ns, correlation, instance;
	uint32_t pixels;
	bool sums;
};

/* In a worker: its recordings. `paths` can be opened; `names` are for people. */
struct serve_target {
	unsigned count;
	const char *paths[2], *names[2];
	void *state; /* of the renderer; ends with the worker */
};

/* Appends a page, or data. Returns 0 or a negative code; E_MOVED: of another instance. */
typedef int serve_render(struct serve_target *t, const struct serve_ask *ask, struct strbuf *out,
			 struct error *e);

struct worker_request {
	uint64_t connection; /* 0: nobody's: a summary for the list, or in advance */
	struct serve_ask ask;
};

struct worker {
	pid_t pid; /* 0: there is none */
	int fd;
	enum serve_view page; /* that it makes, with what belongs to it: see worker_page_of() */
	unsigned count;
	uint64_t ids[2];
	struct recording_stamp stamps[2];
	VEC(struct worker_request) queue; /* the first one was sent, if is_busy */
	bool is_busy;
	uint64_t asked_ns, used_ns; /* CLOCK_MONOTONIC */
	uint64_t memory_bytes; /* resident, when it was last seen */
	struct strbuf answer; /* as far as it is there */
};

/* What begins an answer; then so many bytes. */
struct worker_head {
	int64_t code; /* negative: the bytes are the text of an error */
	uint64_t length;
};

/* A summary is made with the report, and slices are of the timeline. */
static inline enum serve_view worker_page_of(enum serve_view view)
{
	return view == SERVE_summary ? SERVE_report : view == SERVE_slices ? SERVE_timeline : view;
}

#define WORKER_ANSWER_MAX ((uint64_t)1 << 30)

/*
 * Starts a worker for recordings, whose folders are open. nonce: see html_serve(). Returns 0 or a
 * negative code.
 */
int worker_start(struct worker *w, serve_render *render, const int folders[2],
		 const char *const names[2], const char *nonce, struct error *e) MUST_USE;
/* Adds a request. Returns 0 or a negative code. */
int worker_ask(struct worker *w, const struct worker_request *request) MUST_USE;
/*
 * Reads what is there of an answer. Returns 1 if it is complete: worker_answered() follows; 0; or a
 * negative code: the worker has ended.
 */
int worker_read(struct worker *w) MUST_USE;
/* Removes the request that was answered, and sends the next one. Returns 0 or a negative code. */
int worker_answered(struct worker *w) MUST_USE;
/* Reads how much memory the worker has. */
void worker_measure(struct worker *w);
/* Ends the worker, whatever it does. Returns its status, as of wait(2). */
int worker_end(struct worker *w);

#endif
