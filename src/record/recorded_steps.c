/*
 * recorded_steps.c: --steps N..M: a recording of these steps of each process, and of nothing else.
 *
 * The processes record into a ring, from their begin on, so that each counts all of its steps. They
 * are followed as `pitot capture` follows one (capture.h), each in its own time: ranks need not be
 * at the same step at the same moment. When a process has passed its last step and the GPU work of
 * it, the window is cut out of its segments into the recording, and the process's recorder is told
 * to end. What ranks count by, and which of them lack steps, is said at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "format/rows.h"
#include "record/capture.h"
#include "record/recording.h"
#include "recover/recover.h"
#include "system/job_rank.h"

#define SOURCE_MAX 120u
#define PROCESSES_MAX 4096u

/* A process image that records. */
struct step_process {
	struct capture capture;
	pid_t pid;
	uint64_t session;
	uint32_t header_pid; /* as it sees itself */
	uint32_t files; /* of it, in the recording, and those that are missing between them */
	uint32_t rank; /* or JOB_RANK_UNKNOWN */
	bool is_done; /* and its capture is closed */
	size_t steps; /* in the recording */
	uint64_t seen; /* steps that it has ended, by then */
	uint64_t collectives; /* that it has begun, by then */
	bool uses_gpu;
	uint64_t forgotten; /* events for which there was no room: the count may be wrong */
	char source[SOURCE_MAX]; /* what it counted by; "": it has not */
	uint32_t communicator; /* hash of the one whose collectives it counted; 0: none */
	char over[64]; /* why no more steps came; "": it has all */
};

struct recorded_steps {
	struct recording *recording;
	struct capture_request request;
	VEC(struct step_process *) processes;
	uint64_t from_ns, until_ns; /* of all windows; from_ns 0: there is none */
	bool is_incomplete; /* there was no room for a process */
};

static void add_name(const struct step_process *p, char out[64])
{
	if (p->rank == JOB_RANK_UNKNOWN)
		snprintf(out, 64, "process %d", (int)p->pid);
	else
		snprintf(out, 64, "rank %u (process %d)", p->rank, (int)p->pid);
}

/* --- processes that are new --- */

static struct step_process *find_process(const struct recorded_steps *s, pid_t pid,
					 uint64_t session)
{
	for (size_t i = s->processes.count; i-- > 0;) {
		struct step_process *p = s->processes.data[i];

		if (p->pid == pid && (!session || p->session == session))
			return p;
	}
	return NULL;
}

static void add_process(struct recorded_steps *s, pid_t pid, uint64_t session)
{
	struct step_process *p = calloc(1, sizeof(*p));
	struct job_rank rank;
	struct error e = { 0 };

	if (!p || s->processes.count >= PROCESSES_MAX || vec_push(&s->processes, p) < 0) {
		free(p);
		s->is_incomplete = true;
		return;
	}
	p->pid = pid;
	p->session = session;
	job_rank_read_process(&rank, pid);
	p->rank = rank.launched ? rank.rank : JOB_RANK_UNKNOWN;
	if (capture_open_ring(&p->capture, pid, &s->recording->segments.ring, session, &s->request,
			      &e) >= 0)
		return;
	capture_close(&p->capture);
	p->is_done = true;
	record_emit(s->recording, RECORD_WARNING, "the steps of process %d are missing: %s",
		    (int)pid, e.text);
}

/* The first segment of a process image is in the ring until others have made it full. */
static void find_processes(struct recorded_steps *s)
{
	const struct segment_ring *ring = &s->recording->segments.ring;

	for (size_t i = 0; i < ring->segments.count; i++) {
		const struct ring_segment *segment = &ring->segments.data[i];
		const struct step_process *known = find_process(s, segment->writer, 0);
		struct segment_header header;

		if ((known && !known->is_done) ||
		    pread(segment->fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
		    find_process(s, segment->writer, header.session))
			continue;
		add_process(s, segment->writer, header.session);
	}
}

/* --- the end of a process's window --- */

/* Nothing more of the process is wanted. */
static void end_recorder(const struct recorded_steps *s, pid_t pid)
{
	const struct segment_server *server = &s->recording->segments;

	for (size_t i = 0; i < server->memories.count; i++)
		if (server->memories.data[i].pid == pid)
			recover_end_recording(server->memories.data[i].fd);
}

/* Process ids are unique in a pid namespace, and until a process executes another program. */
static uint32_t next_number(const struct recorded_steps *s, const struct step_process *p)
{
	uint32_t number = 0;

	for (size_t i = 0; i < s->processes.count; i++)
		if (s->processes.data[i]->header_pid == p->header_pid)
			number += s->processes.data[i]->files;
	return number;
}

static void read_source(struct step_process *p, const struct step_thread *t)
{
	const char *name = rule_feed_range_name(p->capture.feed, t->instance);

	if (p->capture.request->by_collectives) {
		p->communicator = t->thread;
		snprintf(p->source, sizeof(p->source), "collectives");
	} else {
		snprintf(p->source, sizeof(p->source), "%s '%s'",
			 t->is_scope ? "scopes" : "NVTX ranges", name);
	}
}

static void write_steps(struct recorded_steps *s, struct step_process *p)
{
	const struct capture *c = &p->capture;
	struct capture_result result;
	int rc = capture_write_segments(c, s->recording->segments.folder, next_number(s, p),
					&result);
	char name[64];

	add_name(p, name);
	if (rc < 0) {
		record_emit(s->recording, RECORD_WARNING, "the steps of %s are missing: %s", name,
			    error_code_text(rc));
		return;
	}
	p->files = result.segments + result.missing;
	p->steps = capture_steps(c);
	s->from_ns = MIN(s->from_ns ? s->from_ns : UINT64_MAX, result.window.from_ns);
	s->until_ns = MAX(s->until_ns, result.window.until_ns);
	if (result.missing)
		record_emit(s->recording, RECORD_WARNING,
			    "%s: %u %s of its steps had to be dropped: they have more than 256 MiB",
			    name, result.missing, plural_of(result.missing, "segment", "segments"));
	if (result.without_end)
		record_emit(s->recording, RECORD_WARNING,
			    "%s: %llu %s until the last step's end %s no GPU work with an end",
			    name, (unsigned long long)result.without_end,
			    plural_of(result.without_end, "launch", "launches"),
			    plural_of(result.without_end, "has", "have"));
}

/* The capture has its steps, or there will be none: rc of capture_poll(). */
static void end_process(struct recorded_steps *s, struct step_process *p, int rc)
{
	const struct step_thread *t = step_watch_main(&p->capture.steps, p->capture.known_ns);

	p->seen = t ? t->seen : 0;
	p->collectives = p->capture.collectives;
	p->uses_gpu = p->capture.steps.last_call > 0;
	p->forgotten = rule_feed_forgotten(p->capture.feed);
	if (p->capture.segments.count)
		p->header_pid = p->capture.segments.data[0].live.segment.header.pid;
	if (t)
		read_source(p, t);
	if (rc > 0)
		write_steps(s, p);
	if (p->steps < s->request.steps)
		snprintf(p->over, sizeof(p->over), "%s",
			 *p->capture.over ? p->capture.over : "it could not be read");
	capture_close(&p->capture);
	p->is_done = true;
	end_recorder(s, p->pid);
}

static void poll_process(struct recorded_steps *s, struct step_process *p)
{
	struct error e = { 0 };
	int rc = p->is_done ? 0 : capture_poll(&p->capture, &e);

	if (rc != 0)
		end_process(s, p, rc);
}

/* --- what is said at the end --- */

static const struct step_process *first_rank(const struct recorded_steps *s)
{
	const struct step_process *first = NULL;

	for (size_t i = 0; i < s->processes.count; i++) {
		const struct step_process *p = s->processes.data[i];

		if (p->steps && (!first || p->rank < first->rank))
			first = p;
	}
	return first;
}

static void add_numbers(uint64_t first, uint64_t count, struct strbuf *out)
{
	strbuf_addf(out, "%s %llu", plural_of(count, "step", "steps"), (unsigned long long)first);
	if (count > 1)
		strbuf_addf(out, "..%llu", (unsigned long long)(first + count - 1));
}

/* What is wrong with the steps of a process; nothing: they are whole, and count as the others'. */
static void add_problem(const struct recorded_steps *s, const struct step_process *p,
			const struct step_process *first, struct strbuf *out)
{
	const struct capture_request *request = &s->request;

	if (p->steps && p->steps < request->steps) {
		strbuf_adds(out, "has only ");
		add_numbers(request->first, p->steps, out);
		strbuf_addf(out, ": %s", p->over);
	} else if (!p->steps && p->seen) {
		strbuf_addf(out, "has none of them: %s after %llu %s", p->over,
			    (unsigned long long)p->seen, plural_of(p->seen, "step", "steps"));
	} else if (!p->steps && request->by_collectives) {
		strbuf_addf(out, "has none of them: %s, and %llu %s of NCCL were seen", p->over,
			    (unsigned long long)p->collectives,
			    plural_of(p->collectives, "collective", "collectives"));
	} else if (!p->steps) {
		strbuf_addf(out, "has none of them: %s, and no range or scope was %s%s%s", p->over,
			    request->name ? "called '" : "named like a step",
			    request->name ? request->name : "", request->name ? "'" : "");
		if (p->collectives)
			strbuf_addf(out,
				    "; it had %llu %s of NCCL, which --steps-by collectives counts",
				    (unsigned long long)p->collectives,
				    plural_of(p->collectives, "collective", "collectives"));
	} else if (strcmp(p->source, first->source) != 0 ||
		   p->communicator != first->communicator) {
		char name[64];

		add_name(first, name);
		strbuf_addf(out, "counted by %s, %s by %s: these may be other steps",
			    p->communicator ? "another communicator's collectives" : p->source,
			    name, first->source);
	}
	if (p->forgotten)
		strbuf_addf(out, "%s%llu %s not read in time: it may have counted wrongly",
			    out->length ? "; " : "", (unsigned long long)p->forgotten,
			    plural_of(p->forgotten, "event was", "events were"));
}

/* Helpers of a rank, and its processes before a restart, need no steps of their own. */
static bool needs_steps(const struct recorded_steps *s, const struct step_process *p)
{
	if (p->steps || (!p->seen && !p->uses_gpu))
		return p->steps;
	for (size_t i = 0; i < s->processes.count && p->rank != JOB_RANK_UNKNOWN; i++)
		if (s->processes.data[i]->rank == p->rank && s->processes.data[i]->steps)
			return false;
	return true;
}

static void write_problems(struct recorded_steps *s, const struct step_process *first,
			   const char *requested)
{
	struct recording *r = s->recording;

	for (size_t i = 0; i < s->processes.count; i++) {
		const struct step_process *p = s->processes.data[i];
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		char name[64];

		if (!needs_steps(s, p))
			continue;
		add_problem(s, p, first, &text);
		if (!text.length)
			continue;
		add_name(p, name);
		record_emit(r, RECORD_WARNING, "%s: %s %s", requested, name, strbuf_text(&text));
		rows_capability(r->writer, feature_window, capability_state_degraded, requested,
				name, strbuf_text(&text));
	}
}

static void write_result(struct recorded_steps *s)
{
	struct recording *r = s->recording;
	const struct step_process *first = first_rank(s);
	_cleanup_strbuf_ struct strbuf requested = STRBUF_INIT, text = STRBUF_INIT;
	size_t whole = 0, wanted = 0;

	add_numbers(s->request.first, s->request.steps, &requested);
	for (size_t i = 0; i < s->processes.count; i++) {
		whole += s->processes.data[i]->steps == s->request.steps;
		wanted += needs_steps(s, s->processes.data[i]);
	}
	write_problems(s, first, strbuf_text(&requested));
	if (s->is_incomplete)
		record_emit(r, RECORD_WARNING,
			    "%s: some processes are missing: there was no room for them",
			    strbuf_text(&requested));
	if (!first) {
		strbuf_addf(&text, "no process %s %s",
			    s->processes.count ? "had" : "used a GPU; none had",
			    strbuf_text(&requested));
		rows_capability(r->writer, feature_window, capability_state_unavailable,
				strbuf_text(&requested), NULL, strbuf_text(&text));
		record_emit(r, RECORD_WARNING,
			    "nothing was recorded: %s; steps are NVTX ranges and scopes that are "
			    "named like steps, or --steps-by says which are",
			    strbuf_text(&text));
		return;
	}
	strbuf_addf(&text, "%s of %zu", strbuf_text(&requested), whole);
	if (whole < wanted)
		strbuf_addf(&text, " of %zu", wanted);
	strbuf_addf(&text, " %s, counted by %s from each one's begin",
		    plural_of(wanted, "process", "processes"), first->source);
	rows_capability_at(r->writer, s->from_ns, feature_window, capability_state_on,
			   strbuf_text(&requested), first->source, strbuf_text(&text));
	rows_capability_at(r->writer, s->until_ns, feature_window, capability_state_off,
			   strbuf_text(&requested), first->source, strbuf_text(&text));
	record_emit(r, RECORD_NOTE, "%s", strbuf_text(&text));
}

/* --- the stages --- */

void recorded_steps_begin(struct recording *r)
{
	struct recorded_steps *s = r->request->steps.count ? calloc(1, sizeof(*s)) : NULL;
	const struct requested_steps *steps = &r->request->steps;

	if (!r->request->steps.count)
		return;
	if (!s) {
		record_emit(r, RECORD_WARNING, "no memory for steps: nothing is recorded");
		return;
	}
	s->recording = r;
	s->request = (struct capture_request){ .first = steps->first,
					       .steps = steps->count,
					       .by_collectives = steps->by_collectives,
					       .name = steps->name };
	r->steps = s;
}

void recorded_steps_step(struct recording *r)
{
	struct recorded_steps *s = r->steps;
	int memory;

	if (!s)
		return;
	find_processes(s);
	for (size_t i = 0; i < s->processes.count; i++)
		poll_process(s, s->processes.data[i]);
	/* What a killed process has left is outside of the steps, or of one that did not end. */
	while ((memory = segment_server_take_memory(&r->segments, false)) >= 0)
		close(memory);
}

bool recorded_steps_finish(struct recording *r)
{
	struct recorded_steps *s = r->steps;

	if (!r->request->steps.count)
		return false;
	recorded_steps_step(r);
	for (size_t i = 0; s && i < s->processes.count; i++) {
		struct step_process *p = s->processes.data[i];

		if (p->is_done)
			continue;
		snprintf(p->capture.over, sizeof(p->capture.over), "the command ended");
		poll_process(s, p);
	}
	if (s)
		write_result(s);
	return true;
}

void recorded_steps_free(struct recorded_steps *s)
{
	for (size_t i = 0; s && i < s->processes.count; i++) {
		if (!s->processes.data[i]->is_done)
			capture_close(&s->processes.data[i]->capture);
		free(s->processes.data[i]);
	}
	if (s)
		vec_release(&s->processes);
	free(s);
}
