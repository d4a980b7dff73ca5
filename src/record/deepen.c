#include "record/deepen.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/timed_work.h"
#include "record/live_attach.h"

#define LEAVE_NS (PITOT_SLOWNESS * 4 * NS_PER_S)
#define POLL_MS 50

/* The thread's and ours. */
struct measuring {
	struct deepen_request request;
	struct strbuf options;
	atomic_bool stops;
	struct error e;
};

struct deepening {
	struct timed_work *work;
	struct measuring *measuring; /* lives as long as work is ours */
};

static void release(void *context)
{
	struct measuring *m = context;

	strbuf_release(&m->options);
	free(m);
}

static void attach(struct measuring *m, struct live_attach *l)
{
	for (size_t i = 0; i < m->request.count && !atomic_load(&m->stops); i++) {
		struct error e = { 0 };
		pid_t pid = m->request.pids[i];

		l->answer = (struct attach_answer){ 0 };
		if (live_attach_add(l, pid, strbuf_text(&m->options), &e) >= 0 && *l->answer.text)
			error_set(&e, E_UNSUPPORTED, "process %d: %s", (int)pid, l->answer.text);
		if (!m->e.code)
			m->e = e;
	}
}

static void run(void *context)
{
	struct measuring *m = context;
	struct live_attach l = LIVE_ATTACH_INIT;
	uint64_t end_ns;

	attach(m, &l);
	end_ns = clock_monotonic_ns() + m->request.duration_ns;
	while (l.attached.count && !atomic_load(&m->stops) && clock_monotonic_ns() < end_ns) {
		struct pollfd polled = { .fd = l.server.fd, .events = POLLIN };

		poll(&polled, 1, POLL_MS);
		live_attach_serve(&l);
	}
	live_attach_close(&l);
}

/* Its own segments are nobody's: the recording has the rows. */
static void make_options(const struct recording *r, int engine, struct strbuf *out)
{
	struct settings s = r->request->settings;

	s.engine = engine;
	s.delay_ns = s.duration_ns = s.counters_ns = 0;
	s.stacks = SETTING_STACKS_NONE;
	s.segment_bytes = 2 << 20;
	settings_text(&s, out);
}

struct deepening *deepen_begin(const struct recording *r, const struct deepen_request *request)
{
	struct deepening *d = calloc(1, sizeof(*d));
	struct measuring *m = calloc(1, sizeof(*m));

	if (d && m) {
		m->request = *request;
		m->options = (struct strbuf)STRBUF_INIT;
		make_options(r, request->engine, &m->options);
		d->measuring = m;
		d->work = m->options.failed ? NULL : timed_work_start(run, release, m);
	}
	if (d && d->work)
		return d;
	if (m)
		release(m);
	free(d);
	return NULL;
}

bool deepen_end(struct deepening *d, bool stop, struct error *e)
{
	bool has_ended;

	if (stop)
		atomic_store(&d->measuring->stops, true);
	has_ended = timed_work_await(d->work, stop ? clock_monotonic_ns() + LEAVE_NS : 0);
	if (has_ended)
		*e = d->measuring->e;
	if (!has_ended && !stop)
		return false;
	timed_work_leave(d->work);
	free(d);
	return has_ended;
}
