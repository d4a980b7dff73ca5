#include "analysis/last_words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/report.h"
#include "base/search.h"

#define ANY_STREAM UINT32_MAX

/* A stream, and until when the work that was launched on it is known to have ended. */
struct stream_end {
	uint32_t process, context, stream;
	uint64_t until_ns;
};

/* An event's last record. */
struct event_record {
	uint32_t context, stream;
	uint64_t time_ns;
};

struct finding {
	const struct report *report;
	struct last_words *out;
	struct map stream_of; /* hash of process, context and stream -> item of streams */
	VEC(struct stream_end) streams;
	struct map call_of; /* hash of process and correlation -> row of api_call + 1 */
	struct map record_of; /* handle of an event of one process -> item of records */
	VEC(struct event_record) records;
	struct map first_of; /* as stream_of -> item of out->works */
	struct map unread_of; /* hash of process and correlation -> whether its record is unread */
	struct last_process current;
	uint64_t first_call; /* lowest correlation id of the process's calls */
	/* start of its last call that waited for the GPU and returned, and for all of its work */
	uint64_t waited_ns, waited_for_all_ns;
	uint32_t context; /* of its work and waits; 0: none yet */
	bool has_contexts; /* several */
	bool has_gaps; /* records are missing of which it is not known whose they are */
	bool is_held; /* streams may wait for something else than work, or for unrecorded copies */
	uint64_t unread_ns; /* end of the first launch that is unread */
	int failed;
};

static uint64_t key_of(uint32_t process, uint64_t a, uint64_t b)
{
	return hash_u64(a ^ hash_u64(b ^ hash_u64(process + UINT64_C(1))));
}

/* --- what is known to have ended --- */

static struct stream_end *stream_at(struct finding *f, uint32_t process, uint32_t context,
				    uint32_t stream)
{
	uint64_t *at = map_at(&f->stream_of, key_of(process, (uint64_t)context << 32 | stream, 0),
			      f->streams.count);

	if (!at ||
	    (*at == f->streams.count &&
	     vec_push(&f->streams, ((struct stream_end){ process, context, stream, 0 })) < 0)) {
		f->failed = -ENOMEM;
		return NULL;
	}
	return &f->streams.data[*at];
}

static void ended(struct finding *f, uint32_t process, uint32_t context, uint32_t stream,
		  uint64_t until_ns)
{
	struct stream_end *s = stream_at(f, process, context, stream);

	f->has_contexts |= context && f->context && context != f->context;
	f->context = context ? context : f->context;
	if (s)
		s->until_ns = MAX(s->until_ns, until_ns);
}

static uint64_t ended_until(struct finding *f, uint32_t process, uint32_t context, uint32_t stream)
{
	uint64_t until_ns = 0, at;

	if (map_get(&f->stream_of, key_of(process, (uint64_t)context << 32 | stream, 0), &at))
		until_ns = f->streams.data[at].until_ns;
	return until_ns;
}

/* Contexts are numbered from 1: 0 stands for all. */
static bool has_ended(struct finding *f, uint32_t process, uint32_t context, uint32_t stream,
		      uint64_t launched_ns)
{
	return launched_ns <= ended_until(f, process, context, stream) ||
	       launched_ns <= ended_until(f, process, context, ANY_STREAM) ||
	       launched_ns <= ended_until(f, process, 0, ANY_STREAM);
}

static void note_record(struct finding *f, uint32_t row)
{
	const struct api_call_columns *c = api_call_columns(f->report->trace);
	struct event_record record = { c->context[row], c->stream[row], c->start_ns[row] };
	uint64_t *at;

	at = map_at(&f->record_of, c->event[row], f->records.count);
	if (!at || vec_push(&f->records, record) < 0)
		f->failed = -ENOMEM;
	else
		*at = f->records.count - 1;
}

/* What a call that waits and has returned says about the work before it. */
static void note_wait(struct finding *f, uint32_t process, uint32_t row, unsigned waits_for)
{
	const struct api_call_columns *c = api_call_columns(f->report->trace);
	bool has_context = column_has(c->valid.context, row);
	uint64_t start_ns = c->start_ns[row], at;

	f->waited_ns = MAX(f->waited_ns, start_ns);
	if (waits_for == synchronization_kind_stream && has_context &&
	    column_has(c->valid.stream, row)) {
		ended(f, process, c->context[row], c->stream[row], start_ns);
	} else if (waits_for == synchronization_kind_context && has_context) {
		ended(f, process, c->context[row], ANY_STREAM, start_ns);
		f->waited_for_all_ns = MAX(f->waited_for_all_ns, start_ns);
	} else if (waits_for == synchronization_kind_event && column_has(c->valid.event, row) &&
		   map_get(&f->record_of, c->event[row], &at)) {
		const struct event_record *r = &f->records.data[at];

		ended(f, process, r->context, r->stream, r->time_ns);
	} else {
		ended(f, process, 0, ANY_STREAM, start_ns);
		f->waited_for_all_ns = MAX(f->waited_for_all_ns, start_ns);
	}
}

static void read_call(struct finding *f, uint32_t process, uint32_t row)
{
	const struct report *r = f->report;
	const struct api_call_columns *c = api_call_columns(r->trace);
	const struct api_function_columns *functions = api_function_columns(r->trace);
	uint32_t function = c->function[row];
	unsigned waits_for = 0;
	uint64_t *call;

	if (c->correlation[row])
		f->first_call = MIN(f->first_call, c->correlation[row]);
	if (map_get(&f->call_of, key_of(process, c->correlation[row], 1), &(uint64_t){ 0 })) {
		call = map_at(&f->call_of, key_of(process, c->correlation[row], 1), 0);
		*call = (uint64_t)row + 1;
	}
	if (function >= r->calls.function_count ||
	    (column_has(c->valid.result, row) && c->result[row]))
		return;
	if (column_has(functions->valid.waits_for, function))
		waits_for = functions->waits_for[function];
	if (functions->kind[function] == api_kind_synchronize)
		note_wait(f, process, row, waits_for);
	else if (functions->kind[function] == api_kind_event && !waits_for &&
		 column_has(c->valid.event, row) && column_has(c->valid.stream, row) &&
		 column_has(c->valid.context, row))
		note_record(f, row);
}

/* Nodes of graphs run beside each other: they say nothing about others of their stream. */
static void read_ended_work(struct finding *f, uint32_t process)
{
	const struct report *r = f->report;

	for (unsigned work = 0; work < GPU_WORK_KINDS; work++) {
		enum table_id table = schema_gpu_work[work]->id;
		struct event_columns e = events_of(r->trace, table);

		for (struct row_walk w = process_rows(r->trace, table, process);
		     row_walk_next(&w);) {
			uint32_t call = calls_launch(&r->calls, (enum gpu_work)work, w.row);

			if (call == TRACE_NO_ROW || !column_has(e.end_valid, w.row) ||
			    calls_kind(&r->calls, call) == api_kind_graph_launch)
				continue;
			ended(f, process, e.context[w.row], e.stream[w.row],
			      r->calls.start_ns[call]);
		}
	}
}

/* --- what is not --- */

static bool died(const struct trace *t, uint32_t process)
{
	const struct capability_columns *c = capability_columns(t);

	for (struct row_walk w = process_rows(t, TABLE_capability, process); row_walk_next(&w);)
		if (c->name[w.row] == feature_last_moments)
			return true;
	return false;
}

/* When the last core file of its GPU was written; 0: there is none. */
static uint64_t core_ns(const struct finding *f, uint32_t process)
{
	const uint64_t *time_ns = gpu_core_columns(f->report->trace)->time_ns;
	uint64_t last_ns = 0;

	for (size_t i = 0; i < f->out->cores.count; i++)
		if (f->out->cores.data[i].process == process)
			last_ns = MAX(last_ns, time_ns[f->out->cores.data[i].row]);
	return last_ns;
}

static uint64_t died_ns(const struct trace *t, uint32_t process)
{
	const struct capability_columns *c = capability_columns(t);
	uint64_t time_ns = 0;

	for (struct row_walk w = process_rows(t, TABLE_capability, process); row_walk_next(&w);)
		if (c->name[w.row] == feature_last_moments)
			time_ns = MAX(time_ns, c->time_ns[w.row]);
	return time_ns;
}

/* A copy to the host has ended when a call that waits for it has returned. */
static bool has_returned(const struct finding *f, const struct last_work *work, uint32_t row,
			 uint32_t call)
{
	const struct unfinished_columns *u = unfinished_columns(f->report->trace);
	size_t length;
	const char *name;

	if (work->kind != unfinished_kind_memcpy || u->copy_kind[row] != copy_kind_DtoH ||
	    call == TRACE_NO_ROW || f->report->calls.functions[call] == TRACE_NO_ROW)
		return false;
	name = calls_function_name(f->report->trace, f->report->calls.functions[call], &length);
	return !memmem(name, length, "Async", 5);
}

static struct last_work work_of(struct finding *f, uint32_t process, uint32_t row, uint32_t *call)
{
	const struct unfinished_columns *u = unfinished_columns(f->report->trace);
	const struct report *r = f->report;
	uint64_t found = 0;

	(void)!map_get(&f->call_of, key_of(process, u->correlation[row], 1), &found);
	*call = found ? (uint32_t)(found - 1) : TRACE_NO_ROW;
	return (struct last_work){ .process = process,
				   .device = u->device[row],
				   .context = u->context[row],
				   .stream = u->stream[row],
				   .kind = u->kind[row],
				   .config = column_has(u->valid.config, row) ? u->config[row]
									      : TRACE_NO_ROW,
				   .caller = callers_of_call(&r->callers, process, *call),
				   .correlation = u->correlation[row],
				   .launched_ns = found ? r->calls.start_ns[*call] : 0,
				   .seen_ns = u->time_ns[row],
				   .collective = TRACE_NO_ROW };
}

/* Work whose launch is older than all calls that are left (of a ring) is old, too. */
static bool is_old(const struct finding *f, const struct last_work *work)
{
	return work->launched_ns ? work->seen_ns >= work->launched_ns + LAST_WORDS_AGE_NS
				 : work->correlation < f->first_call;
}

static void add_work(struct finding *f, uint32_t process, uint32_t row, bool lives)
{
	struct last_words *out = f->out;
	uint32_t call;
	struct last_work new = work_of(f, process, row, &call), *first;
	uint64_t *at;
	bool is_first;

	if (call != TRACE_NO_ROW &&
	    (has_returned(f, &new, row, call) ||
	     has_ended(f, process, new.context, new.stream, f->report->calls.end_ns[call]))) {
		f->current.undelivered++;
		return;
	}
	if (lives && !is_old(f, &new))
		return;
	at = map_at(&f->first_of, key_of(process, (uint64_t) new.context << 32 | new.stream, 2),
		    out->works.count);
	is_first = at && *at == out->works.count;
	if (!at || (is_first && vec_push(&out->works, new) < 0))
		f->failed = -ENOMEM;
	f->current.works += is_first;
	if (!at || is_first)
		return;
	first = &out->works.data[*at];
	new.behind = first->behind + 1;
	first->behind++;
	if (new.correlation < first->correlation)
		*first = new;
}

static void add_wait(struct finding *f, uint32_t process, uint32_t row, bool lives)
{
	const struct unfinished_columns *u = unfinished_columns(f->report->trace);
	struct callers *callers = (struct callers *)(uintptr_t)&f->report->callers;
	struct caller_place place = { CALLER_NONE, CALLER_NONE, false };
	struct last_wait wait = { .process = process,
				  .thread = u->thread[row],
				  .function = u->function[row],
				  .start_ns = u->start_ns[row],
				  .seen_ns = u->time_ns[row] };

	if (lives && wait.seen_ns < wait.start_ns + LAST_WORDS_AGE_NS)
		return;
	if (column_has(u->valid.stack, row) &&
	    callers_place(callers, process, u->stack[row], &place) < 0)
		f->failed = -ENOMEM;
	wait.caller = place.caller;
	if (vec_push(&f->out->waits, wait) < 0)
		f->failed = -ENOMEM;
	f->current.waits++;
}

uint32_t last_words_name(const struct trace *t, uint32_t process, uint64_t correlation)
{
	const struct unfinished_columns *u = unfinished_columns(t);

	for (struct row_walk w = process_rows(t, TABLE_unfinished, process); row_walk_next(&w);)
		if (u->correlation[w.row] == correlation && column_has(u->valid.name, w.row))
			return u->name[w.row];
	return TRACE_NO_ROW;
}

static bool has_loss(const struct trace *t, uint32_t process, enum loss_reason reason)
{
	const struct loss_columns *c = loss_columns(t);

	for (struct row_walk w = process_rows(t, TABLE_loss, process); row_walk_next(&w);)
		if (c->reason[w.row] == reason)
			return true;
	return false;
}

/* --- launches without a record --- */

static bool is_work(uint8_t kind)
{
	return kind == unfinished_kind_kernel || kind == unfinished_kind_memcpy ||
	       kind == unfinished_kind_memset || kind == unfinished_kind_graph_launch;
}

/* What is known of each call of a process, from row `first` on. */
struct launch_times {
	uint64_t first, end;
	uint8_t *has_record;
	struct map recorded_until; /* thread -> start of its last launch with a record */
};

static void mark(struct launch_times *m, const struct calls *calls, uint32_t call)
{
	uint64_t *until_ns;

	if (call == TRACE_NO_ROW || call < m->first || call >= m->end)
		return;
	m->has_record[call - m->first] = 1;
	until_ns = map_at(&m->recorded_until, calls->threads[call], 0);
	if (until_ns)
		*until_ns = MAX(*until_ns, calls->start_ns[call]);
}

/* Returns whether there are records. */
static bool mark_records(struct finding *f, uint32_t process, struct launch_times *m)
{
	const struct report *r = f->report;
	const struct unfinished_columns *u = unfinished_columns(r->trace);
	bool any = false;
	uint64_t call;

	for (unsigned work = 0; work < GPU_WORK_KINDS; work++)
		for (struct row_walk w = process_rows(r->trace, schema_gpu_work[work]->id, process);
		     row_walk_next(&w);) {
			mark(m, &r->calls, calls_launch(&r->calls, (enum gpu_work)work, w.row));
			any = true;
		}
	for (struct row_walk w = process_rows(r->trace, TABLE_unfinished, process);
	     row_walk_next(&w);)
		if (is_work(u->kind[w.row]) &&
		    map_get(&f->call_of, key_of(process, u->correlation[w.row], 1), &call) && call)
			mark(m, &r->calls, (uint32_t)(call - 1));
	return any;
}

/* Whether its record may be among those that could not be read. */
static bool is_unread(const struct finding *f, uint32_t process, uint32_t row)
{
	const struct api_call_columns *c = api_call_columns(f->report->trace);
	uint64_t unread;

	if (map_get(&f->unread_of, key_of(process, c->correlation[row], 1), &unread))
		return unread;
	return !f->current.is_complete;
}

static void add_launch(struct finding *f, uint32_t process, uint32_t row, bool lives)
{
	const struct report *r = f->report;
	struct last_process *p = &f->current;
	bool unread;

	if (r->calls.end_ns[row] <= f->waited_for_all_ns && !f->has_contexts) {
		f->current.undelivered += !lives;
		return;
	}
	if (r->calls.end_ns[row] <= f->waited_ns) {
		f->current.uncertain++;
		return;
	}
	unread = is_unread(f, process, row);
	if (unread)
		f->unread_ns = MIN(f->unread_ns, r->calls.end_ns[row]);
	p->unread += unread;
	p->open += !unread;
	if (unread ? p->unread == 1 && !p->open : p->open == 1) {
		p->open_ns = r->calls.start_ns[row];
		p->open_caller = callers_of_call(&r->callers, process, row);
		p->open_name = last_words_name(r->trace, process,
					       api_call_columns(r->trace)->correlation[row]);
	}
}

/* Copies and sets without a record are not counted, but a call may wait for them. */
static bool may_be_waited_for(enum api_kind kind, bool has_record)
{
	switch (kind) {
	case api_kind_host_function:
	case api_kind_stream_memory:
		return true;
	case api_kind_memcpy:
	case api_kind_memset:
		return !has_record;
	default:
		return false;
	}
}

static void find_open_among_unread(struct finding *f)
{
	struct last_process *p = &f->current;
	const struct last_words *l = f->out;

	if (!p->unread || p->open || p->works || p->uncertain || f->is_held)
		return;
	for (size_t i = l->waits.count - p->waits; i < l->waits.count; i++)
		p->is_one_open |=
			l->waits.data[i].start_ns >= f->unread_ns &&
			l->waits.data[i].seen_ns >= l->waits.data[i].start_ns + LAST_WORDS_AGE_NS;
}

/* What a stream captures does not run: process-wide, as it is unknown of which stream. */
static void find_open_launches(struct finding *f, uint32_t process, bool lives)
{
	const struct report *r = f->report;
	const struct api_call_columns *c = api_call_columns(r->trace);
	struct launch_times m = {
		.first = trace_first_row(r->trace, TABLE_api_call, process),
		.end = trace_first_row(r->trace, TABLE_api_call, process + 1),
	};
	uint64_t captures = 0, launches = 0;
	bool has_records;

	m.has_record = calloc(m.end - m.first + 1, 1);
	if (!m.has_record) {
		f->failed = -ENOMEM;
		return;
	}
	has_records = mark_records(f, process, &m);
	for (uint64_t row = m.first; row < m.end; row++) {
		enum api_kind kind = calls_kind(&r->calls, row);
		uint64_t until_ns = 0;

		if (column_has(c->valid.result, row) && c->result[row])
			continue;
		captures += kind == api_kind_begin_capture;
		captures -= kind == api_kind_end_capture && captures;
		f->is_held |= may_be_waited_for(kind, m.has_record[row - m.first]);
		if (kind != api_kind_launch && kind != api_kind_graph_launch)
			continue;
		launches++;
		(void)!map_get(&m.recorded_until, r->calls.threads[row], &until_ns);
		if (!has_records || captures || m.has_record[row - m.first])
			continue;
		if (r->calls.start_ns[row] > until_ns)
			add_launch(f, process, (uint32_t)row, lives);
		else /* perhaps on another stream than the later ones */
			f->is_held = true;
	}
	f->current.has_records = has_records || !launches;
	find_open_among_unread(f);
	free(m.has_record);
	map_release(&m.recorded_until);
}

static bool has_all_records(const struct trace *t, uint32_t process)
{
	static const enum loss_reason reasons[] = {
		loss_reason_unknown_record,      loss_reason_no_buffer,
		loss_reason_gpu_records_dropped, loss_reason_unreadable_buffer,
		loss_reason_gpu_runtime_failed,  loss_reason_own_profiler,
		loss_reason_missing_kernels,
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (has_loss(t, process, reasons[i]))
			return false;
	return true;
}

static void read_open_launches(struct finding *f, uint32_t process, bool lives)
{
	const struct trace *t = f->report->trace;
	const struct unfinished_columns *u = unfinished_columns(t);
	struct last_process *p = &f->current;

	p->seen_ns = MAX(lives ? 0 : died_ns(t, process), core_ns(f, process));
	for (struct row_walk w = process_rows(t, TABLE_unfinished, process); row_walk_next(&w);)
		p->seen_ns = MAX(p->seen_ns, u->time_ns[w.row]);
	if (!f->has_gaps)
		find_open_launches(f, process, lives);
	if (lives && !core_ns(f, process) && p->seen_ns < p->open_ns + LAST_WORDS_AGE_NS)
		p->open = p->unread = 0;
}

static int note_launch(struct finding *f, uint32_t process, uint64_t row)
{
	const struct unfinished_columns *u = unfinished_columns(f->report->trace);
	bool unread = u->kind[row] == unfinished_kind_unread_launch;

	if (!unread && u->kind[row] != unfinished_kind_launch)
		return 0;
	return map_put(&f->unread_of, key_of(process, u->correlation[row], 1), unread);
}

/* A process that executed another program, and had nothing under way, has no last words. */
static bool has_words(const struct finding *f, uint32_t process, bool left_work)
{
	const struct last_process *p = &f->current;

	return left_work || p->works || p->waits || p->open || p->unread ||
	       trace_process(f->report->trace, process)->exit_status > 128;
}

static void read_process(struct finding *f, uint32_t process)
{
	const struct trace *t = f->report->trace;
	const struct unfinished_columns *u = unfinished_columns(t);
	uint64_t first = trace_first_row(t, TABLE_unfinished, process),
		 end = trace_first_row(t, TABLE_unfinished, process + 1);
	bool has_cores = core_ns(f, process) != 0;
	bool lives = !died(t, process);

	if (first == end && lives && !has_cores)
		return;
	for (uint64_t row = first; row < end; row++)
		if (!map_at(&f->call_of, key_of(process, u->correlation[row], 1), 0) ||
		    note_launch(f, process, row) < 0)
			f->failed = -ENOMEM;
	map_clear(&f->record_of);
	f->first_call = UINT64_MAX;
	f->waited_ns = f->waited_for_all_ns = 0;
	f->context = 0;
	f->has_contexts = f->is_held = false;
	f->unread_ns = UINT64_MAX;
	f->has_gaps = !has_all_records(t, process);
	f->current = (struct last_process){
		.process = process,
		.is_complete = !f->has_gaps && !has_loss(t, process, loss_reason_unread_records),
		.open_caller = CALLER_NONE,
		.open_name = TRACE_NO_ROW
	};
	for (struct row_walk w = process_rows(t, TABLE_api_call, process); row_walk_next(&w);)
		read_call(f, process, (uint32_t)w.row);
	read_ended_work(f, process);
	for (uint64_t row = first; row < end; row++) {
		if (u->kind[row] == unfinished_kind_call)
			add_wait(f, process, (uint32_t)row, lives);
		else if (is_work(u->kind[row]))
			add_work(f, process, (uint32_t)row, lives);
	}
	read_open_launches(f, process, lives);
	if (has_words(f, process, has_cores || (!lives && first != end)) &&
	    vec_push(&f->out->processes, f->current) < 0)
		f->failed = -ENOMEM;
}

/* --- outstanding collectives --- */

static uint32_t collective_of(const struct trace *t, const struct last_work *work)
{
	const struct collective_columns *c = collective_columns(t);

	for (struct row_walk w = process_rows(t, TABLE_collective, work->process);
	     row_walk_next(&w);)
		if (column_has(c->valid.correlation, w.row) &&
		    c->correlation[w.row] == work->correlation &&
		    column_has(c->valid.sequence, w.row) &&
		    c->communicator[w.row] < trace_rows(t, TABLE_communicator))
			return (uint32_t)w.row;
	return TRACE_NO_ROW;
}

static bool has_called(const struct trace *t, uint32_t process, uint32_t collective)
{
	const struct collective_columns *c = collective_columns(t);
	const uint64_t *hashes = communicator_columns(t)->hash;
	uint64_t hash = hashes[c->communicator[collective]];

	for (struct row_walk w = process_rows(t, TABLE_collective, process); row_walk_next(&w);)
		if (c->function[w.row] == c->function[collective] &&
		    column_has(c->valid.sequence, w.row) &&
		    c->sequence[w.row] >= c->sequence[collective] &&
		    c->communicator[w.row] < trace_rows(t, TABLE_communicator) &&
		    hashes[c->communicator[w.row]] == hash)
			return true;
	return false;
}

/* Sets who has the rank in the communicator, or TRACE_NO_ROW. */
static uint32_t process_of_rank(const struct trace *t, uint64_t hash, uint32_t rank)
{
	const struct communicator_columns *c = communicator_columns(t);

	for (uint64_t row = 0; row < trace_rows(t, TABLE_communicator); row++)
		if (c->hash[row] == hash && column_has(c->valid.rank, row) && c->rank[row] == rank)
			return (uint32_t)trace_row_process(t, TABLE_communicator, row);
	return TRACE_NO_ROW;
}

#define RANKS_MAX 65536u

static void find_late(struct finding *f, struct last_work *work)
{
	struct trace *t = f->report->trace;
	const struct communicator_columns *c = communicator_columns(t);
	uint32_t communicator;

	work->collective = collective_of(t, work);
	work->first_late = f->out->late.count;
	if (work->collective == TRACE_NO_ROW)
		return;
	communicator = collective_columns(t)->communicator[work->collective];
	if (column_has(c->valid.ranks, communicator))
		work->ranks = MIN(c->ranks[communicator], RANKS_MAX);
	for (uint32_t rank = 0; rank < work->ranks; rank++) {
		struct late_rank late = { rank, process_of_rank(t, c->hash[communicator], rank) };

		if (late.process != TRACE_NO_ROW && has_called(t, late.process, work->collective))
			continue;
		/* Collectives may be among the events that could not be read, or had no room. */
		if (late.process != TRACE_NO_ROW &&
		    (has_loss(t, late.process, loss_reason_unread_collective) ||
		     has_loss(t, late.process, loss_reason_ring_full)))
			late.process = TRACE_NO_ROW;
		if (vec_push(&f->out->late, late) < 0)
			f->failed = -ENOMEM;
	}
	work->late_count = f->out->late.count - work->first_late;
}

/* --- the analysis --- */

static bool has_last_words(const struct trace *t)
{
	const struct capability_columns *c = capability_columns(t);

	if (trace_rows(t, TABLE_unfinished) || trace_rows(t, TABLE_gpu_core))
		return true;
	for (struct row_walk w = all_rows(t, TABLE_capability); row_walk_next(&w);)
		if (c->name[w.row] == feature_last_moments)
			return true;
	return false;
}

ORDER(compare_works, struct last_work, UP(process) ?: UP(correlation))

static int run(struct report *r, void *result)
{
	struct finding f = { .report = r,
			     .out = result,
			     .stream_of = MAP_INIT,
			     .call_of = MAP_INIT,
			     .record_of = MAP_INIT,
			     .first_of = MAP_INIT,
			     .unread_of = MAP_INIT };

	if (!has_last_words(r->trace))
		return 0;
	f.failed = last_cores_find(r->trace, f.out);
	for (uint32_t p = 0; p < trace_process_count(r->trace); p++)
		if (r->selection.processes[p])
			read_process(&f, p);
	vec_sort(&f.out->works, compare_works);
	for (size_t i = 0; i < f.out->works.count && !f.failed; i++)
		find_late(&f, &f.out->works.data[i]);
	map_release(&f.stream_of);
	map_release(&f.call_of);
	map_release(&f.record_of);
	map_release(&f.first_of);
	map_release(&f.unread_of);
	vec_release(&f.streams);
	vec_release(&f.records);
	return f.failed;
}

/* Few recordings have last words. */
static int load(struct trace *t, struct error *e)
{
	static const struct column_need needs[] = {
		{ TABLE_unfinished, 0 },
		{ TABLE_api_call,
		  COLUMN_BITS(api_call, correlation, result, stream, event, context) },
		{ TABLE_api_function, 0 },
		{ TABLE_collective,
		  COLUMN_BITS(collective, communicator, function, sequence, correlation) },
		{ TABLE_communicator, 0 },
		{ TABLE_loss, COLUMN_BITS(loss, reason) },
		{ TABLE_gpu_core, 0 },
	};
	int code = 0;

	if (!has_last_words(t))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(needs) && code >= 0; i++)
		code = trace_load(t, needs[i].table, needs[i].columns, e);
	for (unsigned i = 0; i < GPU_WORK_KINDS && code >= 0; i++)
		code = events_load(t, schema_gpu_work[i]->id, ROLES_TIMES | ROLES_PLACE, e);
	return code;
}

const struct analysis analysis_last_words = {
	.size = sizeof(struct last_words),
	.load = load,
	.run = run,
	.owned = { OWNS(struct last_words, processes.data), OWNS(struct last_words, works.data),
		   OWNS(struct last_words, waits.data), OWNS(struct last_words, late.data),
		   OWNS(struct last_words, cores.data) },
	.reads_others = true, /* alone, since it adds to the callers */
};
