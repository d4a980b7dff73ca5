#include "serve/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "serve/serve_pages.h"

#define LIMIT_NS (120 * NS_PER_S * PITOT_SLOWNESS) /* for an answer */
#define LOOKED_AT_NS (10 * NS_PER_S) /* the list is, after it was asked for */
#define AGAIN_NS (5 * NS_PER_S) /* between summaries of a recording that grows */
#define MEASURE_NS (50 * NS_PER_MS) /* between readings of what workers need */
#define QUEUE_MAX HTTP_CONNECTIONS

static const char *const types[] = {
	[SERVE_summary] = "application/json",          [SERVE_report] = "text/html; charset=utf-8",
	[SERVE_timeline] = "text/html; charset=utf-8", [SERVE_slices] = "application/octet-stream",
	[SERVE_flame] = "text/html; charset=utf-8",    [SERVE_source] = "text/html; charset=utf-8",
	[SERVE_diff] = "text/html; charset=utf-8",     [SERVE_programs] = "application/json",
};

bool pool_is_busy(const struct serve *s)
{
	for (size_t i = 0; i < SERVE_WORKERS; i++)
		if (s->workers[i].is_busy)
			return true;
	return false;
}

/* --- ends of workers --- */

static void store_summary(struct serve *s, uint64_t id, const struct recording_stamp *of,
			  const char *text, size_t length)
{
	struct served_recording *item = recordings_find(&s->recordings, id);
	char *copy = item ? strndup(text, length) : NULL;

	if (!copy)
		return;
	free(item->summary);
	item->summary = copy;
	item->summarized = of ? *of : item->stamp;
	item->summary_ns = clock_monotonic_ns();
}

/* `of`: what was read; NULL: the recording as it was seen last. */
static void refuse(struct serve *s, const struct worker_request *request, unsigned status,
		   uint64_t id, const struct recording_stamp *of, const char *text)
{
	_cleanup_strbuf_ struct strbuf summary = STRBUF_INIT;
	struct json j = JSON_INIT(&summary);

	if (request->connection)
		serve_problem(s, request->connection, status, text);
	if (request->connection || request->ask.view != SERVE_summary)
		return;
	json_object(&j);
	json_key_string(&j, "problem", text);
	json_end(&j);
	store_summary(s, id, of, strbuf_text(&summary), summary.length);
}

/* Answers everybody who waits for a worker with a problem, and ends it. */
static void fail_worker(struct serve *s, struct worker *w, unsigned status, const char *text)
{
	for (size_t i = 0; i < w->queue.count; i++)
		refuse(s, &w->queue.data[i], status, w->ids[0], &w->stamps[0], text);
	worker_end(w);
}

/* `rc` says what failed: -EPIPE if the worker has ended by itself. */
static void fail_with(struct serve *s, struct worker *w, int rc)
{
	char text[128];
	siginfo_t info = { .si_pid = 0 };

	snprintf(text, sizeof(text), "%s", rc == -EPIPE ? "its reader has ended" : "out of memory");
	if (rc == -EPIPE && waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
	    info.si_pid && info.si_code != CLD_EXITED)
		snprintf(text, sizeof(text), "its reader was ended by signal %d", info.si_status);
	fail_worker(s, w, 500, text);
}

/* Ends the idle worker that was used least recently. Returns false if there is none. */
static bool end_idle(struct serve *s)
{
	struct worker *oldest = NULL;

	for (size_t i = 0; i < SERVE_WORKERS; i++) {
		struct worker *w = &s->workers[i];

		if (w->pid && !w->is_busy && (!oldest || w->used_ns < oldest->used_ns))
			oldest = w;
	}
	if (oldest)
		worker_end(oldest);
	return oldest != NULL;
}

/* --- requests --- */

static struct worker *find_worker(struct serve *s, enum serve_view page, unsigned count,
				  const uint64_t ids[2])
{
	for (size_t i = 0; i < SERVE_WORKERS; i++) {
		struct worker *w = &s->workers[i];

		if (w->pid && w->page == page && w->count == count &&
		    !memcmp(w->ids, ids, count * sizeof(*ids)))
			return w;
	}
	return NULL;
}

static struct worker *find_room(struct serve *s)
{
	for (int turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < SERVE_WORKERS; i++)
			if (!s->workers[i].pid)
				return &s->workers[i];
		if (!end_idle(s))
			break;
	}
	return NULL;
}

/* What a worker is to open. */
struct opened {
	int folders[2];
	const char *names[2];
	struct recording_stamp stamps[2];
};

static void close_folders(struct opened *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(o->folders); i++)
		if (o->folders[i] >= 0)
			close(o->folders[i]);
}
#define _cleanup_opened_ _cleanup_(close_folders)

/* Returns 0, or a negative code with a text for people. */
static int open_recordings(struct serve *s, unsigned count, const uint64_t ids[2], struct opened *o,
			   struct error *e)
{
	for (unsigned i = 0; i < count; i++) {
		struct served_recording *item = recordings_find(&s->recordings, ids[i]);

		if (!item)
			return error_set(e, -ENOENT,
					 "this recording is not there: it was removed or renamed");
		o->folders[i] = recordings_enter(&s->recordings, item);
		if (o->folders[i] < 0)
			return error_set(e, o->folders[i], "'%s' cannot be opened: %s", item->name,
					 error_code_text(o->folders[i]));
		o->names[i] = item->name;
		o->stamps[i] = item->stamp;
	}
	return 0;
}

static bool has_changed(const struct worker *w, const struct opened *o)
{
	for (unsigned i = 0; i < w->count; i++)
		if (!stamps_equal(&w->stamps[i], &o->stamps[i]))
			return true;
	return false;
}

/* Returns the worker of these recordings as they are now, or NULL and the error. */
static struct worker *get_worker(struct serve *s, const struct serve_ask *ask, unsigned count,
				 const uint64_t ids[2], struct error *e)
{
	_cleanup_opened_ struct opened o = { .folders = { -1, -1 } };
	struct worker *w = find_worker(s, worker_page_of(ask->view), count, ids);

	if (open_recordings(s, count, ids, &o, e) < 0)
		return NULL;
	/* slices are of the page that asks for them, also if the recording has grown since */
	if (w && (w->is_busy || ask->view == SERVE_slices || !has_changed(w, &o)))
		return w;
	if (w)
		worker_end(w);
	w = find_room(s);
	if (!w) {
		error_set(e, -EAGAIN, "too many recordings are being read: try again");
		return NULL;
	}
	w->page = worker_page_of(ask->view);
	w->count = count;
	memcpy(w->ids, ids, sizeof(w->ids));
	memcpy(w->stamps, o.stamps, sizeof(w->stamps));
	return worker_start(w, s->options.render, o.folders, o.names, s->nonce, e) < 0 ? NULL : w;
}

void pool_ask(struct serve *s, uint64_t connection, const struct serve_ask *ask, unsigned count,
	      const uint64_t ids[2])
{
	struct error e = { 0 };
	struct worker *w = get_worker(s, ask, count, ids, &e);
	struct worker_request request = { .connection = connection, .ask = *ask };
	int rc;

	if (!w)
		refuse(s, &request, e.code == -EAGAIN || e.code == -ENOMEM ? 503 : 404, ids[0],
		       NULL, e.text);
	else if (w->queue.count >= QUEUE_MAX)
		serve_problem(s, connection, 503, "too many requests wait for this recording");
	else if ((rc = worker_ask(w, &request)) < 0)
		fail_with(s, w, rc);
}

/* --- answers --- */

static unsigned status_of(int64_t code)
{
	return code == E_MOVED ? 409 : code == -ENODATA ? 404 : code == -ENOMEM ? 503 : 500;
}

static void pass_answer(struct serve *s, struct worker *w)
{
	const struct worker_request *request = &w->queue.data[0];
	const char *body = w->answer.data + sizeof(struct worker_head);
	size_t length = w->answer.length - sizeof(struct worker_head);
	struct worker_head head;

	memcpy(&head, w->answer.data, sizeof(head));
	if (head.code < 0) {
		_cleanup_free_ char *text = strndup(body, length);

		refuse(s, request, status_of(head.code), w->ids[0], &w->stamps[0],
		       text ? text : "out of memory");
	} else if (request->connection) {
		http_answer(&s->http, request->connection,
			    &(struct http_answer){ .status = 200,
						   .type = types[request->ask.view],
						   .body = body,
						   .length = length });
	} else if (request->ask.view == SERVE_summary) {
		store_summary(s, w->ids[0], &w->stamps[0], body, length);
	}
}

/* Who looks at a report will look at the timeline, which takes time to make. */
static void prepare_timeline(struct serve *s, const struct worker_request *answered,
			     const uint64_t ids[2])
{
	if (answered->connection && answered->ask.view == SERVE_report &&
	    !find_worker(s, SERVE_timeline, 1, ids))
		pool_ask(s, 0, &(struct serve_ask){ .view = SERVE_timeline }, 1, ids);
}

static void read_answers(struct serve *s, struct worker *w)
{
	int rc = worker_read(w);

	if (rc > 0) {
		struct worker_request answered = w->queue.data[0];
		uint64_t ids[2] = { w->ids[0], w->ids[1] };

		pass_answer(s, w);
		rc = worker_answered(w);
		if (rc >= 0)
			prepare_timeline(s, &answered, ids);
	}
	if (rc < 0)
		fail_with(s, w, rc);
}

/* --- what workers may use --- */

static void fail_largest(struct serve *s)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct worker *largest = &s->workers[0];

	for (size_t i = 1; i < SERVE_WORKERS; i++)
		if (s->workers[i].memory_bytes > largest->memory_bytes)
			largest = &s->workers[i];
	strbuf_adds(&text, "it needs more memory than ");
	human_bytes(&text, s->options.memory_bytes);
	strbuf_adds(&text, ": give more with --memory");
	fail_worker(s, largest, 503, strbuf_text(&text));
}

/* Ends a worker that nobody waits for, if others are busy, too; it can do its work later. */
static bool end_unasked(struct serve *s)
{
	struct worker *unasked = NULL;
	unsigned busy = 0;

	for (size_t i = 0; i < SERVE_WORKERS; i++) {
		struct worker *w = &s->workers[i];
		bool is_asked = false;

		for (size_t k = 0; k < w->queue.count; k++)
			is_asked |= w->queue.data[k].connection != 0;
		busy += w->is_busy;
		unasked = w->is_busy && !is_asked ? w : unasked;
	}
	if (!unasked || busy < 2)
		return false;
	worker_end(unasked);
	return true;
}

static void limit_memory(struct serve *s)
{
	uint64_t now_ns = clock_monotonic_ns(), sum;

	if (now_ns < s->measured_ns + MEASURE_NS)
		return;
	s->measured_ns = now_ns;
	do {
		sum = 0;
		for (size_t i = 0; i < SERVE_WORKERS; i++) {
			if (s->workers[i].pid)
				worker_measure(&s->workers[i]);
			sum += s->workers[i].memory_bytes;
		}
		if (sum > s->options.memory_bytes && !end_idle(s) && !end_unasked(s))
			fail_largest(s);
	} while (sum > s->options.memory_bytes);
}

static void limit_time(struct serve *s)
{
	uint64_t now_ns = clock_monotonic_ns();

	for (size_t i = 0; i < SERVE_WORKERS; i++)
		if (s->workers[i].is_busy && now_ns > s->workers[i].asked_ns + LIMIT_NS)
			fail_worker(s, &s->workers[i], 504, "its reader took too long");
}

/* --- summaries for the list --- */

static bool needs_summary(struct served_recording *item, uint64_t now_ns)
{
	if (!item->summary)
		return true;
	return !stamps_equal(&item->summarized, &item->stamp) &&
	       now_ns >= item->summary_ns + AGAIN_NS;
}

/* One after the other, while the list is looked at and nothing else is to be done. */
static void make_summary(struct serve *s)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!s->listed_ns || now_ns > s->listed_ns + LOOKED_AT_NS || pool_is_busy(s))
		return;
	for (size_t i = 0; i < s->recordings.items.count; i++) {
		struct served_recording *item = &s->recordings.items.data[i];
		uint64_t ids[2] = { item->id };

		if (needs_summary(item, now_ns)) {
			pool_ask(s, 0, &(struct serve_ask){ .view = SERVE_summary }, 1, ids);
			return;
		}
	}
}

void pool_step(struct serve *s)
{
	for (size_t i = 0; i < SERVE_WORKERS; i++)
		if (s->workers[i].pid)
			read_answers(s, &s->workers[i]);
	limit_memory(s);
	limit_time(s);
	make_summary(s);
}

void pool_close(struct serve *s)
{
	for (size_t i = 0; i < SERVE_WORKERS; i++)
		worker_end(&s->workers[i]);
}
