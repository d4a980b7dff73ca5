#include "record/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

/* Rows are written within a quarter of a second after they are known; others are later. */
#define LAG_NS NS_PER_S
#define LOOK_NS NS_PER_S
#define BEGIN_NS (PITOT_SLOWNESS * 5 * NS_PER_S) /* an attached process writes its first segment */
#define BEFORE_NS (10 * NS_PER_S) /* of events before the capture that are read */
/* Work that is not recorded is waited for so long after the last end, and if nothing ends. */
#define QUIET_NS (3 * NS_PER_S)
#define HUNG_NS (30 * NS_PER_S)
#define HELD_BYTES_MAX ((uint64_t)256 << 20) /* of ended segments in memory */
#define LAUNCHES_MAX ((size_t)1 << 20)
#define STEP_RULE 1u /* bit of the first rule */
#define SEGMENT_BYTES ((uint64_t)8 << 20) /* of a process that records itself for us */

static struct followed_segment *current(const struct capture *c)
{
	return c->segments.count ? &c->segments.data[c->segments.count - 1] : NULL;
}

/* --- facts --- */

static void launched(struct capture *c, const struct fact *f)
{
	uint64_t before;

	if (c->thread || c->into_graphs)
		return;
	c->steps.last_call = MAX(c->steps.last_call, f->value);
	if (f->kind == FACT_COPY || map_remove(&c->early, f->value, &before))
		return;
	/* Near the first block that is read, the work of a launch may be in one that is not. */
	if (c->read_from_ns && f->time_ns < c->read_from_ns + BEFORE_NS / 2)
		return;
	if (c->launches.count >= LAUNCHES_MAX)
		map_clear(&c->launches);
	(void)!map_put(&c->launches, f->value, f->time_ns);
}

static void work_ended(struct capture *c, const struct fact *f)
{
	uint64_t launched_ns = f->other_ns;
	bool is_known = map_remove(&c->launches, f->value, &launched_ns);

	/* Clocks of the GPU and of the host differ by a little. */
	if (!is_known && !c->thread && f->value > c->steps.last_call &&
	    c->early.count < LAUNCHES_MAX)
		(void)!map_put(&c->early, f->value, 1);
	launched_ns = MIN(launched_ns, f->other_ns);
	c->lead_ns = MAX(c->lead_ns, f->time_ns - MIN(launched_ns, f->time_ns));
	step_watch_work(&c->steps, f->value, f->time_ns);
	if (c->thread && f->value <= c->thread->last_call)
		c->arrived_ns = clock_monotonic_ns();
	else if (c->thread)
		c->goes_on = true;
}

/* A collective ends the step before it, of its communicator, and begins the next one. */
static void collective_begins(struct capture *c, const struct fact *f)
{
	struct fact step = { .kind = FACT_CLOSES,
			     .time_ns = f->time_ns - 1,
			     .thread = f->thread,
			     .rules = STEP_RULE,
			     .value = f->thread };

	uint64_t last_call = c->steps.last_call;

	c->collectives++;
	if (!c->request->by_collectives || !f->other_ns || c->thread)
		return;
	c->steps.last_call = MIN(last_call, f->value - 1); /* its own launch may be known */
	step_watch_add(&c->steps, &step);
	c->steps.last_call = last_call;
	step.kind = FACT_OPENS;
	step.time_ns = f->time_ns;
	step_watch_add(&c->steps, &step);
}

static void fact_seen(void *user, const struct fact *f)
{
	struct capture *c = user;

	switch ((enum fact_kind)f->kind) {
	case FACT_LAUNCH:
	case FACT_COPY:
		launched(c, f);
		break;
	case FACT_CAPTURE:
		c->into_graphs += f->value ? 1 : c->into_graphs ? -1u : 0;
		break;
	case FACT_WORK_ENDS:
		work_ended(c, f);
		break;
	case FACT_OPENS:
	case FACT_CLOSES:
		if (!c->thread && !c->request->by_collectives)
			step_watch_add(&c->steps, f);
		break;
	case FACT_COLLECTIVE:
		collective_begins(c, f);
		break;
	default:
		break;
	}
}

/* A rule of --when: steps count from then on. */
static void on_firing(void *user, const struct rule_firing *firing)
{
	struct capture *c = user;

	if (!firing->rule || *c->fired.evidence)
		return;
	c->fired = *firing;
	c->steps.since_ns = firing->time_ns;
}

/* --- segments --- */

/* Takes what live_segment_find() has found. */
static int follow(struct capture *c, struct live_segment *found, struct error *e)
{
	struct followed_segment new = { .live = *found };
	int rc = rule_segment_open(c->feed, found->segment.path, &new.rows, e);

	if (rc >= 0 && vec_push(&c->segments, new) < 0) {
		rule_segment_free(new.rows);
		rc = error_set(e, -ENOMEM, "out of memory");
	}
	if (rc < 0)
		live_segment_release(found);
	else if (c->segments.count == 1)
		rule_segment_skip(c->feed, new.rows, c->read_from_ns);
	c->closed_ns = 0;
	return rc < 0 ? rc : 0;
}

/* The place of a segment in the ring; SIZE_MAX: it was dropped. */
static size_t place_in_ring(const struct capture *c, const struct followed_segment *s)
{
	struct stat st;

	for (size_t i = c->ring->segments.count; i-- > 0;)
		if (fstat(c->ring->segments.data[i].fd, &st) == 0 &&
		    st.st_ino == s->live.segment.inode)
			return i;
	return SIZE_MAX;
}

/* The process's next segment. */
static int find_in_ring(const struct capture *c, struct live_segment *out)
{
	const struct followed_segment *last = current(c);
	uint64_t session = last ? last->live.segment.header.session : c->session;

	for (size_t i = last ? place_in_ring(c, last) + 1 : 0; i < c->ring->segments.count; i++) {
		const struct ring_segment *segment = &c->ring->segments.data[i];

		if (segment->writer != c->pid ||
		    live_segment_open(fcntl(segment->fd, F_DUPFD_CLOEXEC, 3), out) < 0)
			continue;
		if ((!session || out->segment.header.session == session) &&
		    (!last || out->segment.header.number > last->live.segment.header.number))
			return 0;
		live_segment_release(out);
	}
	return -ESRCH;
}

static int find_segment(const struct capture *c, struct live_segment *out)
{
	const struct followed_segment *last = current(c);

	return c->ring ? find_in_ring(c, out)
		       : live_segment_find(c->pid, last ? last->live.segment.header.session : 0,
					   out);
}

/* Of a process that has executed another program nobody has the segment open. */
static bool is_written(const struct capture *c, const struct followed_segment *s)
{
	size_t place;

	if (!c->ring || c->is_attached)
		return live_segment_is_written(&s->live, c->pid);
	place = place_in_ring(c, s);
	return place != SIZE_MAX && !c->ring->segments.data[place].is_ended;
}

/* Returns 1 if the process has begun another segment, 0, or a negative code. */
static int look_for_segment(struct capture *c, struct error *e)
{
	const struct followed_segment *last = current(c);
	struct live_segment found;
	int rc = find_segment(c, &found);

	c->looked_ns = clock_monotonic_ns();
	if (rc < 0)
		return rc == -ENOMEM ? error_set(e, rc, "out of memory") : 0;
	if (last && (found.segment.header.session != last->live.segment.header.session ||
		     found.segment.header.number <= last->live.segment.header.number)) {
		live_segment_release(&found);
		return 0;
	}
	rc = follow(c, &found, e);
	return rc < 0 ? rc : 1;
}

/*
 * Segments in memory belong to the process, which must not lack it because of us. Before the first
 * step the ring's own limit is enough.
 */
static void limit_held(struct capture *c)
{
	bool is_waiting = c->request->first && !step_watch_has_begun(&c->steps);
	uint64_t bytes = 0, most = is_waiting ? RING_BYTES : HELD_BYTES_MAX;

	for (size_t i = c->segments.count ? c->segments.count - 1 : 0; i-- > 0;) {
		struct followed_segment *s = &c->segments.data[i];

		bytes += rule_segment_blocks(s->rows)->size;
		if (bytes <= most || !live_segment_is_memory(&s->live))
			continue;
		rule_segment_free(s->rows);
		live_segment_release(&s->live);
		memmove(s, s + 1, (--c->segments.count - i) * sizeof(*s));
		c->dropped++;
	}
}

static bool has_ended(const struct capture *c)
{
	return c->process < 0 || process_has_ended(c->process);
}

static const char *why_over(const struct capture *c, uint64_t now)
{
	if (has_ended(c))
		return "the process ended";
	if (!c->segments.count)
		return now > c->start_ns + BEGIN_NS ? "it does not begin to record" : NULL;
	if (c->closed_ns && now > c->closed_ns + LAG_NS)
		return "its recording ended";
	return NULL;
}

/* What was launched while the thread was judged is waited for, too. */
static void find_steps(struct capture *c)
{
	if (c->thread)
		return;
	c->thread = step_watch_find(&c->steps, false, c->known_ns);
	c->arrived_ns = clock_monotonic_ns();
}

static int read_segments(struct capture *c, struct error *e)
{
	uint64_t now = clock_monotonic_ns();
	bool shows_more = c->ring || !has_ended(c);
	struct followed_segment *last;
	const char *over;
	int rc = 1;

	live_attach_serve(&c->attach);
	while (rc > 0 && (last = current(c)) && rule_segment_read(c->feed, last->rows) == 0) {
		bool is_closed = rule_segment_blocks(last->rows)->closed;

		if (!is_closed && !has_ended(c) && now < c->looked_ns + LOOK_NS)
			break;
		rc = shows_more ? look_for_segment(c, e) : 0;
		if (rc == 0 && (is_closed || !is_written(c, last)))
			c->closed_ns = c->closed_ns ? c->closed_ns : now;
	}
	if (rc >= 0 && !current(c) && shows_more)
		rc = look_for_segment(c, e);
	if (rc < 0)
		return rc;
	limit_held(c);
	over = why_over(c, now);
	if (over && !*c->over)
		snprintf(c->over, sizeof(c->over), "%s", over);
	c->known_ns = *c->over ? UINT64_MAX : now - LAG_NS;
	rule_feed_pass(c->feed, c->known_ns);
	find_steps(c);
	if (!*c->over)
		rule_watch_advance(c->watch, c->known_ns);
	return 0;
}

/* --- stages --- */

static int attach(struct capture *c, struct error *e)
{
	struct settings s =
		c->request->engine ? *c->request->engine : (struct settings)SETTINGS_INIT;
	_cleanup_strbuf_ struct strbuf options = STRBUF_INIT;
	int fd = attach_connect(c->pid, e), rc;

	if (fd < 0)
		return fd;
	close(fd);
	s.segment_bytes = SEGMENT_BYTES;
	settings_text(&s, &options);
	rc = live_attach_add(&c->attach, c->pid, strbuf_text(&options), e);
	c->is_attached = rc >= 0;
	c->ring = c->is_attached ? &c->attach.server.ring : NULL;
	return rc;
}

/* Why the process does not measure with the engine that was requested. */
static int check_engine(const struct capture *c, struct error *e)
{
	const struct attach_answer *answer = &c->attach.answer;

	if (!c->request->engine)
		return 0;
	if (!c->is_attached) {
		error_prefix(e, "--engine");
		return e->code;
	}
	return *answer->text
		       ? error_set(e, E_UNSUPPORTED, "process %d: %s", (int)c->pid, answer->text)
		       : 0;
}

static int make_rules(struct capture *c, struct error *e)
{
	char text[RULE_TEXT_MAX];
	const char *name = c->request->name;
	int rc;

	snprintf(text, sizeof(text), name ? "range-time %s >= 1ns" : "step-time >= 1ns", name);
	rc = rule_list_add(&c->rules, text, e);
	for (unsigned i = 0; i < c->request->when.count && rc >= 0; i++)
		c->rules.rules[c->rules.count++] = c->request->when.rules[i];
	return rc;
}

static int begin(struct capture *c, pid_t pid, const struct capture_request *request,
		 struct error *e)
{
	int rc;

	*c = (struct capture){ .request = request,
			       .pid = pid,
			       .process = (int)syscall(SYS_pidfd_open, pid, 0),
			       .attach = LIVE_ATTACH_INIT,
			       .start_ns = clock_monotonic_ns(),
			       .steps.rules = STEP_RULE,
			       .steps.first = request->first,
			       .steps.wanted = request->steps };
	c->steps.since_ns = UINT64_MAX; /* none yet */
	rc = make_rules(c, e);
	if (rc < 0)
		return rc;
	c->watch = rule_watch_new(c->rules.rules, c->rules.count, on_firing, c);
	c->feed = c->watch ? rule_feed_new(c->rules.rules, c->rules.count, c->watch) : NULL;
	if (!c->feed)
		return error_set(e, -ENOMEM, "out of memory");
	rule_feed_observe(c->feed, fact_seen, c);
	return 0;
}

int capture_open(struct capture *c, pid_t pid, const struct capture_request *request,
		 struct error *e)
{
	struct error none = { 0 };
	int rc = begin(c, pid, request, e);

	if (rc >= 0 && c->process < 0)
		return error_set(e, -ESRCH, "there is no process %d", (int)pid);
	if (rc < 0)
		return rc;
	c->read_from_ns = c->start_ns - MIN(c->start_ns, BEFORE_NS);
	/* A prepared process gives us a recording of our own, which nobody else ends. */
	rc = attach(c, e);
	if (request->engine && check_engine(c, e) < 0)
		return e->code;
	if (rc < 0) {
		rc = look_for_segment(c, &none);
		if (rc <= 0)
			return rc < 0 ? rc : e->code;
		*e = none;
	}
	if (!request->when.count) /* what began while it was attached to has no whole record */
		c->steps.since_ns = clock_monotonic_ns();
	(void)!process_command_read(&c->command, pid, &none);
	if (process_has_ended(c->process)) /* another one may have had its id */
		return error_set(e, -ESRCH, "process %d has ended", (int)pid);
	return 0;
}

int capture_open_ring(struct capture *c, pid_t pid, const struct segment_ring *ring,
		      uint64_t session, const struct capture_request *request, struct error *e)
{
	int rc = begin(c, pid, request, e);

	if (rc < 0)
		return rc;
	c->ring = ring;
	c->session = session;
	c->steps.since_ns = 0;
	rc = look_for_segment(c, e);
	return rc < 0 ? rc : 0;
}

static bool work_is_complete(const struct capture *c)
{
	uint64_t now = clock_monotonic_ns(), since_ns = now - c->arrived_ns;

	if (*c->over)
		return true;
	if (!c->launches.count)
		return since_ns >= LAG_NS && c->known_ns >= c->thread->work_until_ns;
	return since_ns >= (c->goes_on ? QUIET_NS : HUNG_NS);
}

int capture_poll(struct capture *c, struct error *e)
{
	int rc = read_segments(c, e);

	if (rc < 0)
		return rc;
	if (c->thread)
		return work_is_complete(c);
	return *c->over ? capture_end(c, c->over, e) : 0;
}

int capture_end(struct capture *c, const char *why, struct error *e)
{
	uint64_t open_ns = step_watch_open(&c->steps);

	if (why != c->over)
		snprintf(c->over, sizeof(c->over), "%s", why);
	c->thread = c->thread ? c->thread : step_watch_find(&c->steps, true, clock_monotonic_ns());
	if (c->thread)
		return 1;
	if (c->request->when.count && !*c->fired.evidence)
		return error_set(e, -ETIMEDOUT, "process %d: %s, and the rule did not hold",
				 (int)c->pid, why);
	if (open_ns)
		return error_set(e, -ETIMEDOUT,
				 "process %d: %s, and a step that began %.3g s ago had not ended; "
				 "wait longer with --timeout",
				 (int)c->pid, why,
				 (double)(clock_monotonic_ns() - open_ns) / (double)NS_PER_S);
	if (c->request->name)
		return error_set(e, -ETIMEDOUT,
				 "process %d: %s, and no range or scope called '%s' began",
				 (int)c->pid, why, c->request->name);
	return error_set(e, -ETIMEDOUT,
			 "process %d: %s, and no step began; steps are NVTX ranges or scopes that "
			 "are named like steps: `for batch in pitot.steps(loader)`, or --name NAME "
			 "for others",
			 (int)c->pid, why);
}

size_t capture_steps(const struct capture *c)
{
	return c->thread ? c->thread->steps.count : 0;
}

void capture_close(struct capture *c)
{
	live_attach_close(&c->attach);
	for (size_t i = 0; i < c->segments.count; i++) {
		rule_segment_free(c->segments.data[i].rows);
		live_segment_release(&c->segments.data[i].live);
	}
	vec_release(&c->segments);
	process_command_release(&c->command);
	step_watch_release(&c->steps);
	map_release(&c->launches);
	map_release(&c->early);
	rule_feed_free(c->feed);
	rule_watch_free(c->watch);
	fd_close(&c->process);
}
