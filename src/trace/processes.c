/*
 * processes.c: builds the list of processes, from the process rows of all sessions.
 *
 * A recorded process writes its own row, once at its start and again at its end, with the end time.
 * `pitot record` writes rows about the processes that it started or observed: these add what a
 * process cannot know or had no time to write (its exit status), and the processes that never wrote
 * a segment.
 */
#include "base/search.h"
#include "trace/trace_state.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* A process image that `pitot record` observed. */
struct seen {
	struct trace_process process;
	bool has_end;
	size_t shown; /* index of the process that represents it in the list, or SIZE_MAX */
	uint64_t shown_start_ns;
};

struct building {
	struct trace *t;
	VEC(struct trace_process) processes;
	VEC(struct seen) seen;
	struct map seen_index; /* image_key -> index in `seen` */
	VEC(size_t) first_seen; /* by session: item of `seen` for its first row, or SIZE_MAX */
};

static uint64_t value_of(const struct trace *t, int column, uint64_t row, uint64_t otherwise)
{
	bool missing;
	uint64_t value = trace_value(t, TABLE_process, column, row, &missing);

	return missing ? otherwise : value;
}

static const char *text_of(const struct trace *t, int column, uint64_t row, const char *otherwise)
{
	uint32_t id = (uint32_t)value_of(t, column, row, STRING_EMPTY);

	return id == STRING_EMPTY || id == STRING_LOST ? otherwise : trace_string(t, id);
}

static uint32_t boot_id_of(const struct trace *t, uint64_t row, uint32_t otherwise)
{
	uint32_t id = (uint32_t)value_of(t, COLUMN_process_boot_id, row, STRING_EMPTY);

	return id == STRING_EMPTY || id == STRING_LOST ? otherwise : id;
}

/* Overwrites the members for which the row has values. */
static void read_row(const struct trace *t, uint64_t row, struct trace_process *p, bool *has_end)
{
	uint64_t end = value_of(t, COLUMN_process_end_ns, row, 0);

	p->pid = (uint32_t)value_of(t, COLUMN_process_pid, row, p->pid);
	p->parent_pid = (uint32_t)value_of(t, COLUMN_process_parent_pid, row, p->parent_pid);
	p->start_ns = value_of(t, COLUMN_process_start_ns, row, p->start_ns);
	p->command = text_of(t, COLUMN_process_command, row, p->command);
	p->executable = text_of(t, COLUMN_process_executable, row, p->executable);
	p->host = text_of(t, COLUMN_process_host, row, p->host);
	p->boot_id = boot_id_of(t, row, p->boot_id);
	p->exit_status = (int)(int64_t)value_of(t, COLUMN_process_exit_status, row,
						(uint64_t)(int64_t)p->exit_status);
	p->rank = (uint32_t)value_of(t, COLUMN_process_rank, row, p->rank);
	p->local_rank = (uint32_t)value_of(t, COLUMN_process_local_rank, row, p->local_rank);
	p->world_size = (uint32_t)value_of(t, COLUMN_process_world_size, row, p->world_size);
	p->node_rank = (uint32_t)value_of(t, COLUMN_process_node_rank, row, p->node_rank);
	p->job = text_of(t, COLUMN_process_job, row, p->job);
	p->launcher = (int)(int64_t)value_of(t, COLUMN_process_launcher, row,
					     (uint64_t)(int64_t)p->launcher);
	if (end == 0)
		return;
	p->end_ns = end;
	*has_end = true;
}

static struct trace_process blank_process(uint32_t pid)
{
	return (struct trace_process){ .pid = pid,
				       .command = "",
				       .executable = "",
				       .host = "",
				       .exit_status = -1,
				       .rank = TRACE_NO_RANK,
				       .local_rank = TRACE_NO_RANK,
				       .world_size = TRACE_NO_RANK,
				       .node_rank = TRACE_NO_RANK,
				       .job = "",
				       .launcher = -1 };
}

/* Identifies a process image; collisions are rare and harmless. */
static uint64_t image_key(uint32_t pid, uint64_t start_ns, uint32_t boot_id)
{
	return hash_u64(start_ns ^ (uint64_t)boot_id << 32) ^ pid;
}

/* Process ids are unique on one host only. */
static bool may_share_host(const struct trace_process *a, const struct trace_process *b)
{
	return a->boot_id == b->boot_id || !a->boot_id || !b->boot_id;
}

/* Adds a row; the rows about one image, written at its start and at its end, share an item. */
static int add_seen(struct building *b, uint64_t row, uint64_t session_end_ns, size_t *index)
{
	uint32_t pid = (uint32_t)value_of(b->t, COLUMN_process_pid, row, 0);
	uint64_t start_ns = value_of(b->t, COLUMN_process_start_ns, row, 0);
	uint32_t boot_id = boot_id_of(b->t, row, 0);
	uint64_t *known = map_at(&b->seen_index, image_key(pid, start_ns, boot_id), b->seen.count);
	struct seen fresh = { .process = blank_process(pid), .shown = SIZE_MAX };
	struct seen *seen;

	if (!known)
		return -ENOMEM;
	*index = *known;
	fresh.process.end_ns = session_end_ns;
	if (*index == b->seen.count && vec_push(&b->seen, fresh) < 0)
		return -ENOMEM;
	seen = &b->seen.data[*index];
	read_row(b->t, row, &seen->process, &seen->has_end);
	seen->process.closed = seen->has_end;
	return 0;
}

/* Whether the session's files have a prefix. No recorded process wrote "record." or "symbols.". */
static bool has_prefix(const struct trace *t, size_t session, const char *prefix)
{
	for (size_t i = 0; i < t->segments.count; i++)
		if (t->segments.data[i].session == session)
			return strncmp(t->segments.data[i].name, prefix, strlen(prefix)) == 0;
	return false;
}

/* Adds the rows of a session: about its own process, or about what `pitot record` observed. */
static int add_session(struct building *b, size_t index)
{
	struct trace *t = b->t;
	struct session *session = &t->sessions.data[index];
	struct trace_process process = blank_process(session->pid);
	uint64_t end = trace_first_row(t, TABLE_process, index + 1);
	size_t first_seen = SIZE_MAX, seen;
	bool has_end = false, has_own = false;

	process.start_ns = session->start_ns;
	process.end_ns = session->end_ns;
	for (uint64_t row = trace_first_row(t, TABLE_process, index); row < end; row++) {
		uint64_t source = value_of(t, COLUMN_process_source, row, process_source_inside);

		if (source != process_source_record) {
			read_row(t, row, &process, &has_end);
			process.imported = source == process_source_import;
			process.sampler = process.imported || source == process_source_sampler;
			has_own = true;
			continue;
		}
		if (add_seen(b, row, session->end_ns, &seen) < 0)
			return -ENOMEM;
		first_seen = MIN(first_seen, seen);
	}
	session->by_record =
		!has_own && (first_seen != SIZE_MAX || has_prefix(t, index, "record.") ||
			     has_prefix(t, index, "symbols."));
	session->process = session->by_record ? SIZE_MAX : b->processes.count;
	process.end_ns = MAX(process.end_ns, process.start_ns);
	process.session = session->id;
	process.inside = true;
	process.segments = session->segments;
	process.missing_segments = session->missing_segments;
	process.closed = session->closed;
	if (!session->by_record && vec_push(&b->processes, process) < 0)
		return -ENOMEM;
	return vec_push(&b->first_seen, first_seen);
}

/*
 * Whether `a` matches a process better than `b`. An equal command is best, because `pitot record`
 * notices an exec late; otherwise the last image that began before the process, or the first.
 */
static bool fits_better(const struct seen *a, const struct seen *b,
			const struct trace_process *process)
{
	bool a_same = !strcmp(a->process.command, process->command),
	     b_same = !strcmp(b->process.command, process->command);
	bool a_before = a->process.start_ns <= process->start_ns,
	     b_before = b->process.start_ns <= process->start_ns;

	if (a_same != b_same)
		return a_same;
	if (a_before != b_before)
		return a_before;
	return a_before ? a->process.start_ns > b->process.start_ns
			: a->process.start_ns < b->process.start_ns;
}

static struct seen *find_seen(struct building *b, const struct trace_process *process)
{
	struct seen *best = NULL;

	for (size_t i = 0; i < b->seen.count; i++) {
		struct seen *s = &b->seen.data[i];

		if (s->process.pid == process->pid && may_share_host(&s->process, process) &&
		    (!best || fits_better(s, best, process)))
			best = s;
	}
	return best;
}

/*
 * Whether `process` represents the observed image better than seen->shown: its own segments are
 * better than a sampler's, and a later image is better than an earlier one.
 */
static bool better_shown(const struct building *b, const struct trace_process *process,
			 const struct seen *seen)
{
	const struct trace_process *shown = &b->processes.data[seen->shown];

	if (shown->sampler != process->sampler)
		return shown->sampler;
	return seen->shown_start_ns <= process->start_ns;
}

static void copy_rank(struct trace_process *to, const struct trace_process *from)
{
	to->rank = from->rank;
	to->local_rank = from->local_rank;
	to->world_size = from->world_size;
	to->node_rank = from->node_rank;
	to->job = from->job;
	to->launcher = from->launcher;
}

/*
 * The ranks of worse launchers count their own processes, not those of the job. Imported processes
 * have ranks without a launcher.
 */
static void choose_launcher(struct building *b)
{
	int best = -1;

	for (size_t i = 0; i < b->processes.count; i++) {
		int launcher = b->processes.data[i].launcher;

		if (launcher >= 0 && (best < 0 || launcher < best))
			best = launcher;
	}
	for (size_t i = 0; i < b->processes.count; i++)
		if (b->processes.data[i].launcher != best)
			b->processes.data[i].rank = TRACE_NO_RANK;
}

/* Adds what processes do not record themselves. The exit status goes to the last image of a pid. */
static void match_seen(struct building *b)
{
	for (size_t i = 0; i < b->processes.count; i++) {
		struct trace_process *process = &b->processes.data[i];
		struct seen *seen = find_seen(b, process);

		if (!seen)
			continue;
		if (process->parent_pid == 0)
			process->parent_pid = seen->process.parent_pid;
		if (!*process->command)
			process->command = seen->process.command;
		if (!*process->executable)
			process->executable = seen->process.executable;
		if (!*process->host)
			process->host = seen->process.host;
		if (process->launcher < 0)
			copy_rank(process, &seen->process);
		if (seen->shown != SIZE_MAX && !better_shown(b, process, seen))
			continue;
		seen->shown = i;
		seen->shown_start_ns = process->start_ns;
	}
	for (size_t i = 0; i < b->seen.count; i++) {
		const struct seen *seen = &b->seen.data[i];

		if (seen->shown != SIZE_MAX && b->processes.data[seen->shown].exit_status < 0)
			b->processes.data[seen->shown].exit_status = seen->process.exit_status;
	}
}

/* Adds processes without segments, and assigns the rows of `pitot record` to a process. */
static int add_others(struct building *b)
{
	struct trace *t = b->t;

	for (size_t i = 0; i < b->seen.count; i++) {
		if (b->seen.data[i].shown != SIZE_MAX)
			continue;
		b->seen.data[i].shown = b->processes.count;
		if (vec_push(&b->processes, b->seen.data[i].process) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < t->sessions.count; i++) {
		struct session *session = &t->sessions.data[i];
		struct trace_process process = blank_process(session->pid);

		if (!session->by_record)
			continue;
		if (b->first_seen.data[i] != SIZE_MAX) {
			session->process = b->seen.data[b->first_seen.data[i]].shown;
			continue;
		}
		/* rows of table symbol name their process, so any will do */
		if (b->processes.count && has_prefix(t, i, "symbols.")) {
			session->process = 0;
			continue;
		}
		session->process = b->processes.count;
		process.start_ns = session->start_ns;
		process.end_ns = session->end_ns;
		process.closed = session->closed;
		if (vec_push(&b->processes, process) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int compare_processes(const void *a, const void *b, void *processes)
{
	const struct trace_process *all = processes, *x = &all[*(const size_t *)a],
				   *y = &all[*(const size_t *)b];

	/* Processes without a rank, which started the others, come first. */
	return ORDER_OF(x->rank + 1, y->rank + 1)
		       ?: ORDER_OF(x->start_ns, y->start_ns)
		       ?: ORDER_OF(x->pid, y->pid)
		       ?: ORDER_OF(x->session, y->session);
}

/* Finds the process that each sampler's view is about. */
static void match_samplers(struct trace *t)
{
	for (size_t i = 0; i < t->processes.count; i++) {
		struct trace_process *p = &t->processes.data[i];

		p->subject = i;
		for (size_t j = 0; j < t->processes.count && p->sampler; j++) {
			const struct trace_process *q = &t->processes.data[j];

			if (q->pid == p->pid && q->boot_id == p->boot_id && q->inside &&
			    !q->sampler && q->start_ns <= p->end_ns && p->start_ns <= q->end_ns)
				p->subject = j;
		}
	}
}

/* Stores the processes in the trace, in order of rank and time. */
static int store_processes(struct building *b)
{
	struct trace *t = b->t;
	size_t count = b->processes.count, *order = malloc(2 * count * sizeof(*order)), *place;

	t->processes.count = 0;
	if (!order || vec_reserve(&t->processes, count) < 0) {
		free(order);
		return -ENOMEM;
	}
	place = order + count;
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), compare_processes, b->processes.data);
	for (size_t i = 0; i < count; i++) {
		place[order[i]] = i;
		t->processes.data[t->processes.count++] = b->processes.data[order[i]];
	}
	for (size_t i = 0; i < t->sessions.count; i++)
		t->sessions.data[i].process = place[t->sessions.data[i].process];
	free(order);
	match_samplers(t);
	return 0;
}

/* Lists the hosts whose `pitot record` says that its recording is the end of a ring. */
static int find_rings(struct trace *t, struct map *hosts, struct error *e)
{
	int rc = trace_load(t, TABLE_capability, COLUMN_BITS(capability, name), e);

	for (uint64_t row = 0; rc >= 0 && row < trace_rows(t, TABLE_capability); row++) {
		size_t process = trace_row_process(t, TABLE_capability, row);

		if (capability_columns(t)->name[row] == feature_ring)
			rc = map_add(hosts, t->processes.data[process].boot_id);
	}
	return rc;
}

/*
 * Only a ring has no first segments, unless they are missing. The id of a host may be missing with
 * them.
 */
static int mark_rings(struct trace *t, struct error *e)
{
	_cleanup_(map_release) struct map hosts = MAP_INIT;
	bool any = false;
	int rc;

	for (size_t i = 0; i < t->sessions.count; i++)
		any |= t->sessions.data[i].first_number != 0;
	rc = any ? find_rings(t, &hosts, e) : 0;
	for (size_t i = 0; any && rc >= 0 && i < t->sessions.count; i++) {
		struct session *s = &t->sessions.data[i];
		struct trace_process *p = &t->processes.data[s->process];
		uint64_t known;

		s->is_ring = hosts.count && (!p->boot_id || map_get(&hosts, p->boot_id, &known) ||
					     map_get(&hosts, 0, &known));
		if (s->is_ring && p->session == s->id)
			p->missing_segments -= s->first_number;
	}
	return rc < 0 ? rc : 0;
}

/* Loads the process rows; until the list is built, each session is a process. */
static int load_rows(struct trace *t, struct error *e)
{
	t->processes.count = 0;
	if (vec_reserve(&t->processes, t->sessions.count) < 0 || catalog_blocks(t) < 0)
		return error_errno(e, ENOMEM, "cannot list processes");
	for (size_t i = 0; i < t->sessions.count; i++)
		t->processes.data[t->processes.count++] = blank_process(0);
	return trace_load(t, TABLE_process, 0, e);
}

/* The oldest process that `pitot record` observed is its command. */
static uint64_t command_start(const struct building *b)
{
	uint64_t start_ns = UINT64_MAX;

	for (size_t i = 0; i < b->seen.count; i++)
		start_ns = MIN(start_ns, b->seen.data[i].process.start_ns);
	return start_ns;
}

int processes_build(struct trace *t, struct error *e)
{
	struct building b = { .t = t };
	int result = load_rows(t, e);

	if (result < 0)
		return result;
	for (size_t i = 0; i < t->sessions.count && result == 0; i++)
		result = add_session(&b, i);
	if (result == 0) {
		t->command_ns = command_start(&b);
		match_seen(&b);
		result = add_others(&b);
	}
	choose_launcher(&b);
	if (result == 0)
		result = store_processes(&b);
	if (result == 0)
		result = catalog_blocks(t);
	vec_release(&b.processes);
	vec_release(&b.seen);
	map_release(&b.seen_index);
	vec_release(&b.first_seen);
	if (result < 0)
		return error_errno(e, -result, "cannot list processes");
	return mark_rings(t, e);
}
