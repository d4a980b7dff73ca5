/*
 * collectives.c: lists ranks and parts, gives inferred keys to the parts that have none, matches
 * them by CLOCK_REALTIME, and then aligns the clocks of hosts by the matches.
 */
#include "analysis/collectives.h"

#include <errno.h>
#include <string.h>

#include "analysis/collective_rows.h"
#include "analysis/groups.h"
#include "analysis/report.h"
#include "ranks/collective_name.h"

#define NOT_COMMUNICATION UINT8_MAX

/* A rank before the ranks are ordered. */
struct found_rank {
	struct job_rank rank;
	struct rank_window window; /* by the clock of its host */
	uint64_t booted_ns; /* of its host, by CLOCK_REALTIME; 0: unknown */
	uint32_t item; /* its index before the order */
	uint32_t attempt; /* how often this rank had ended before */
	uint32_t run; /* item of collectives.texts: its job with a restart's number; or NO_JOB */
};

struct gathering {
	const struct job_source *source;
	struct collectives *out;
	VEC(struct found_rank) found;
	VEC(struct communicator_rank) members;
	struct rank_window *windows; /* by rank */
	struct map gpus; /* hash of a uuid, or of where a GPU without one is -> its number */
	VEC(struct host_meeting) meetings;
	/* of the report that is open */
	struct report *report;
	uint32_t item; /* its number */
	size_t first_rank; /* item of `found` */
	uint8_t *functions; /* by row of kernel_config: enum collective_function */
	struct map ranks; /* process << 32 | device -> item of `found` */
	struct map streams; /* rank << 32 | stream -> its number among the rank's streams */
	struct map stream_counts; /* rank -> number of streams */
	struct collective_rows rows;
};

/* Returns whether there are kernels of collectives, or -ENOMEM. */
static int classify(struct gathering *x)
{
	const struct trace *t = x->report->trace;
	const struct kernel_config_columns *c = kernel_config_columns(t);
	uint64_t rows = trace_rows(t, TABLE_kernel_config);
	enum collective_function function;
	bool any = false;

	x->functions = malloc(rows + 1);
	if (!x->functions)
		return -ENOMEM;
	for (uint64_t i = 0; i < rows; i++) {
		x->functions[i] = NOT_COMMUNICATION;
		if (!collective_name_parse(trace_string(t, c->name[i]), &function))
			continue;
		x->functions[i] = (uint8_t)function;
		any = true;
	}
	return any;
}

/* Advances to the next kernel of a collective. */
static bool next_kernel(const struct gathering *x, struct row_walk *w, uint8_t *function)
{
	const struct kernel_columns *c = kernel_columns(x->report->trace);

	while (row_walk_next(w)) {
		uint32_t config = c->config[w->row];

		*function = config == TRACE_NO_ROW ? NOT_COMMUNICATION : x->functions[config];
		if (*function != NOT_COMMUNICATION)
			return true;
	}
	return false;
}

static struct row_walk kernels_of(const struct gathering *x)
{
	return selection_rows(&x->report->selection, TABLE_kernel);
}

static int find_host(struct gathering *x, uint32_t process, uint32_t *host)
{
	const struct trace *t = x->report->trace;
	uint32_t id = trace_process(t, process)->boot_id;
	const char *own = trace_process(t, process)->host;
	int64_t text =
		interner_add(&x->out->texts, trace_string(t, id), trace_string_length(t, id), NULL);
	int64_t name = interner_add(&x->out->texts, own, strlen(own), NULL);
	struct job_host *grown;

	if (text < 0 || name < 0)
		return -ENOMEM;
	for (*host = 0; *host < x->out->host_count; (*host)++)
		if (x->out->hosts[*host].boot_id == (uint32_t)text)
			return 0;
	grown = realloc(x->out->hosts, (x->out->host_count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	x->out->hosts = grown;
	grown[x->out->host_count++] =
		(struct job_host){ .boot_id = (uint32_t)text, .name = (uint32_t)name };
	return 0;
}

/* Adds what the open report knows of the CLOCK_REALTIME of each of its hosts. */
static void add_realtime_errors(struct gathering *x)
{
	for (uint32_t h = 0; h < x->out->host_count; h++) {
		struct realtime_error *all = &x->out->hosts[h].realtime, own = { 0 };

		for (size_t i = x->first_rank; i < x->found.count && !own.is_known; i++)
			if (x->found.data[i].rank.host == h)
				own = trace_realtime_error(
					x->report->trace,
					trace_process(x->report->trace,
						      x->found.data[i].rank.process)
						->boot_id);
		if (!own.is_known)
			continue;
		own.unsynchronized |= all->unsynchronized;
		own.bound_ns = MAX(own.bound_ns, all->bound_ns);
		*all = own;
	}
}

/* The rank in the job, by the variables of its launcher. */
static bool find_number(const struct trace *t, uint32_t process, uint32_t *number)
{
	const struct process_columns *c = process_columns(t);

	for (struct row_walk w = process_rows(t, TABLE_process, process); row_walk_next(&w);) {
		if (c->rank && column_has(c->valid.rank, w.row)) {
			*number = c->rank[w.row];
			return true;
		}
	}
	return false;
}

/* The job of a process. A restarted job has "#" and a number at the end. */
static int find_job(struct gathering *x, uint32_t process, struct found_rank *found)
{
	const struct trace_process *p = trace_process(x->report->trace, process);
	int64_t text = interner_add(&x->out->texts, p->job, strcspn(p->job, "#"), NULL);
	int64_t run = interner_add(&x->out->texts, p->job, strlen(p->job), NULL);
	struct job_rank *rank = &found->rank;

	if (text < 0 || run < 0)
		return -ENOMEM;
	rank->job = *p->job ? (uint32_t)text : NO_JOB;
	found->run = *p->job ? (uint32_t)run : NO_JOB;
	if (p->rank != TRACE_NO_RANK && p->world_size != TRACE_NO_RANK)
		rank->world = p->world_size;
	x->out->world = MAX(x->out->world, rank->world);
	return 0;
}

/* Reports of one rank each number their GPUs from 0. */
static int number_gpu(struct gathering *x, struct job_rank *rank)
{
	const struct gpus *gpus = &x->report->gpus;
	const char *uuid = rank->gpu < gpus->count ? gpus->items[rank->gpu].uuid : "";
	uint32_t place[] = { rank->source, rank->process, rank->device };
	uint64_t number = map_number(&x->gpus, *uuid ? hash_bytes(uuid, strlen(uuid))
						     : hash_bytes(place, sizeof(place)));

	rank->gpu_number = x->source->count > 1 ? (uint32_t)number - 1 : rank->gpu;
	return number ? 0 : -ENOMEM;
}

static int find_address(struct gathering *x, struct job_rank *rank)
{
	const struct trace *t = x->report->trace;
	const struct gpus *gpus = &x->report->gpus;
	uint32_t row = rank->gpu < gpus->count ? gpus->items[rank->gpu].row : TRACE_NO_ROW;
	uint32_t pci = row == TRACE_NO_ROW ? 0 : device_columns(t)->pci[row];
	int64_t text = interner_add(&x->out->texts, trace_string(t, pci),
				    trace_string_length(t, pci), NULL);

	rank->pci = pci && text >= 0 ? (uint32_t)text : NO_PCI;
	return text < 0 ? -ENOMEM : 0;
}

static int add_rank(struct gathering *x, uint32_t process, uint32_t device)
{
	const struct trace_process *p = trace_process(x->report->trace, process);
	struct found_rank found = {
		.rank = { .source = x->item,
			  .process = process,
			  .device = device,
			  .gpu = (uint32_t)gpus_find(&x->report->gpus, process, device),
			  .pid = p->pid },
		.window = { p->start_ns, p->end_ns },
		.booted_ns = trace_booted_ns(x->report->trace, process),
		.item = (uint32_t)x->found.count,
	};

	found.rank.named = find_number(x->report->trace, process, &found.rank.number);
	if (!found.rank.named)
		found.rank.number = x->source->count > 1 ? found.item : found.rank.gpu;
	if (number_gpu(x, &found.rank) < 0 || find_address(x, &found.rank) < 0 ||
	    find_host(x, process, &found.rank.host) < 0 || find_job(x, process, &found) < 0 ||
	    map_put(&x->ranks, (uint64_t)process << 32 | device, found.item) < 0)
		return -ENOMEM;
	return vec_push(&x->found, found);
}

/* Lists the ranks of the report. */
static int find_ranks(struct gathering *x)
{
	struct event_columns c = events_of(x->report->trace, TABLE_kernel);
	struct row_walk w = kernels_of(x);
	uint64_t key, known, last = UINT64_MAX;
	uint8_t function;
	int rc = 0;

	x->first_rank = x->found.count;
	while (rc >= 0 && next_kernel(x, &w, &function)) {
		key = (uint64_t)w.process << 32 | c.device[w.row];
		if (key != last && !map_get(&x->ranks, key, &known))
			rc = add_rank(x, w.process, c.device[w.row]);
		last = key;
	}
	add_realtime_errors(x);
	return rc;
}

ORDER(compare_ranks, struct found_rank,
      UP(rank.number) ?: UP(rank.source) ?: UP(rank.process) ?: UP(rank.device))

/* Counts the processes that were the same rank before each. */
static void number_attempts(struct gathering *x)
{
	struct found_rank *all = x->found.data;

	for (size_t i = 0; i < x->found.count; i++)
		for (size_t k = i; k-- > 0 && all[k].rank.number == all[i].rank.number;) {
			int64_t gap = (int64_t)(all[i].window.start_ns - all[k].window.start_ns) +
				      (int64_t)(all[i].booted_ns - all[k].booted_ns);

			all[gap > 0 ? i : k].attempt++;
		}
}

/* Orders the ranks by their numbers: those of the job, or of the GPUs. */
static int order_ranks(struct gathering *x)
{
	struct collectives *out = x->out;
	uint32_t *item = calloc(x->found.count + 1, sizeof(*item));

	out->ranks = calloc(x->found.count + 1, sizeof(*out->ranks));
	x->windows = calloc(x->found.count + 1, sizeof(*x->windows));
	if (!item || !out->ranks || !x->windows) {
		free(item);
		return -ENOMEM;
	}
	vec_sort(&x->found, compare_ranks);
	number_attempts(x);
	out->rank_count = x->found.count;
	for (size_t i = 0; i < x->found.count; i++) {
		out->ranks[i] = x->found.data[i].rank;
		item[x->found.data[i].item] = (uint32_t)i;
	}
	for (size_t i = 0; i < out->parts.count; i++)
		out->parts.data[i].rank = item[out->parts.data[i].rank];
	for (size_t i = 0; i < x->members.count; i++)
		x->members.data[i].rank = item[x->members.data[i].rank];
	free(item);
	return 0;
}

/* Times of a kernel that never ended: from the return of its launch. */
static bool times_of(const struct gathering *x, uint64_t row, struct collective_part *part)
{
	struct event_columns c = events_of(x->report->trace, TABLE_kernel);
	uint32_t call = calls_timed(&x->report->calls,
				    calls_launch(&x->report->calls, GPU_WORK_kernel, row));

	if (event_is_timed(&c, row)) {
		part->start_ns = c.start_ns[row];
		part->end_ns = c.end_ns[row];
		return true;
	}
	if (call == TRACE_NO_ROW)
		return false;
	part->start_ns = x->report->calls.end_ns[call];
	return true;
}

static int add_part(struct gathering *x, uint32_t process, uint64_t row, uint8_t function)
{
	struct event_columns c = events_of(x->report->trace, TABLE_kernel);
	struct collective_part part = {
		.kernel = (uint32_t)row,
		.root = -1,
		.member = -1,
		.fused = 1,
		.function = function,
		.mutual = collective_is_mutual((enum collective_function)function),
		.inferred = true,
	};
	uint64_t rank, *stream;

	part.row = UINT32_MAX;
	if (!map_get(&x->ranks, (uint64_t)process << 32 | c.device[row], &rank) ||
	    !times_of(x, row, &part))
		return 0;
	part.rank = (uint32_t)rank;
	if (collective_rows_find(&x->rows, process, (uint32_t)row, &part))
		return vec_push(&x->out->parts, part);
	/* Beside NCCL's rows, a guess would only add confusion: it is a collective of its own. */
	if (x->rows.known[process]) {
		part.communicator = hash_u64(rank << 32 | row);
		return vec_push(&x->out->parts, part);
	}
	stream = map_at(&x->streams, rank << 32 | c.stream[row], UINT64_MAX);
	if (!stream)
		return -ENOMEM;
	if (*stream == UINT64_MAX) {
		uint64_t *count = map_at(&x->stream_counts, rank, 0);

		if (!count)
			return -ENOMEM;
		*stream = (*count)++;
	}
	part.communicator = *stream;
	return vec_push(&x->out->parts, part);
}

/*
 * Adds the ranks of communicators, which may have no part. A process with several GPUs does not
 * tell which one it is about.
 */
static int add_communicators(struct gathering *x)
{
	const struct communicator_columns *c = communicator_columns(x->report->trace);

	for (size_t i = x->first_rank; i < x->found.count; i++) {
		uint32_t process = x->found.data[i].rank.process;
		bool several = false;

		for (size_t k = x->first_rank; k < x->found.count; k++)
			several |= k != i && x->found.data[k].rank.process == process;
		if (several)
			continue;
		for (struct row_walk w =
			     process_rows(x->report->trace, TABLE_communicator, process);
		     row_walk_next(&w);) {
			struct communicator_rank member = { c->hash[w.row], (uint32_t)i,
							    c->ranks[w.row] };

			if (vec_push(&x->members, member) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int gather(struct gathering *x)
{
	struct row_walk w = kernels_of(x);
	uint8_t function;
	int rc = 0;

	while (rc >= 0 && next_kernel(x, &w, &function))
		rc = add_part(x, w.process, w.row, function);
	return rc;
}

/* Aligns the hosts by CLOCK_REALTIME: all times become those of the first rank's host. */
static void align_by_realtime(struct gathering *x)
{
	struct collectives *out = x->out;
	uint64_t first_ns = x->found.data[0].booted_ns;

	for (size_t i = 0; i < out->rank_count; i++) {
		const struct found_rank *found = &x->found.data[i];
		struct job_host *host = &out->hosts[out->ranks[i].host];

		host->has_realtime |= found->booted_ns != 0;
		if (out->ranks[i].host != out->ranks[0].host && found->booted_ns && first_ns)
			host->ahead_ns = (int64_t)(first_ns - found->booted_ns);
		x->windows[i].start_ns = found->window.start_ns - (uint64_t)host->ahead_ns;
		x->windows[i].end_ns = found->window.end_ns - (uint64_t)host->ahead_ns;
	}
	for (size_t i = 0; i < out->parts.count; i++) {
		struct collective_part *p = &out->parts.data[i];
		uint64_t ahead = (uint64_t)out->hosts[out->ranks[p->rank].host].ahead_ns;

		p->start_ns -= ahead;
		p->end_ns -= p->end_ns ? ahead : 0;
	}
}

static bool overlap(const struct rank_window *a, const struct rank_window *b)
{
	return a->start_ns < b->end_ns && b->start_ns < a->end_ns;
}

/* Whether ranks that differ cannot be of one job that was restarted between them. */
static bool is_of_another_run(const struct gathering *x, size_t a, size_t b)
{
	return x->found.data[a].run == NO_JOB || x->found.data[b].run == NO_JOB ||
	       x->found.data[a].run == x->found.data[b].run ||
	       overlap(&x->windows[a], &x->windows[b]);
}

/* A restarted job may have another number of ranks. */
static bool is_of_another_size(const struct gathering *x, size_t i)
{
	const struct job_rank *a = x->out->ranks, *b = &a[i];

	return a->world && b->world && a->world != b->world && is_of_another_run(x, 0, i);
}

/*
 * Whether ranks are of several runs: of several jobs, of jobs of several sizes, or twice and not
 * known to be restarted. A job id that comes again without a restart's number is another run.
 */
static void find_runs(struct gathering *x)
{
	const struct job_rank *r = x->out->ranks;
	uint32_t job = NO_JOB;

	for (size_t i = 0; i < x->out->rank_count; i++) {
		x->out->mixed |= job != NO_JOB && r[i].job != NO_JOB && r[i].job != job;
		x->out->mixed |= is_of_another_size(x, i);
		job = r[i].job == NO_JOB ? job : r[i].job;
		if (!i || !r[i].named || !r[i - 1].named || r[i].number != r[i - 1].number ||
		    (r[i].source == r[i - 1].source && r[i].process == r[i - 1].process))
			continue;
		x->out->repeated = i;
		for (size_t k = i; k-- > 0 && r[k].named && r[k].number == r[i].number;)
			x->out->mixed |=
				(r[k].source != r[i].source || r[k].process != r[i].process) &&
				is_of_another_run(x, k, i);
	}
}

ORDER(compare_lanes, struct collective_part,
      UP(rank) ?: UP(communicator) ?: UP(function) ?: UP(start_ns))

/*
 * How many ranks a communicator of unknown size may have: all of the job, where some of them were
 * not recorded. Any of those may be the one for which the others waited.
 */
static uint32_t size_if_unknown(const struct gathering *x)
{
	const struct found_rank *all = x->found.data; /* ordered by their numbers */
	uint32_t recorded = 0;

	for (size_t i = 0; i < x->found.count; i++)
		recorded += !i || all[i].rank.number != all[i - 1].rank.number;
	return recorded < x->out->world ? x->out->world : 0;
}

/* Numbers the inferred parts of each rank, stream and function in the order of time. */
static int number_parts(struct gathering *x)
{
	struct collective_part *p = x->out->parts.data;
	uint32_t unknown = size_if_unknown(x);

	/* Streams of a restarted rank are others. */
	for (size_t i = 0; i < x->out->parts.count; i++)
		if (p[i].inferred && p[i].row == UINT32_MAX)
			p[i].communicator =
				hash_u64(p[i].communicator) + x->found.data[p[i].rank].attempt;
	vec_sort(&x->out->parts, compare_lanes);
	for (size_t i = 0; i < x->out->parts.count; i++) {
		struct communicator_rank member = { p[i].communicator, p[i].rank,
						    p[i].size ? p[i].size : unknown };
		bool same = i && p[i].rank == p[i - 1].rank &&
			    p[i].communicator == p[i - 1].communicator;

		if (same && p[i].inferred && p[i].function == p[i - 1].function)
			p[i].sequence = p[i - 1].sequence + 1;
		if (!same && vec_push(&x->members, member) < 0)
			return -ENOMEM;
		x->out->inferred |= p[i].inferred;
	}
	return 0;
}

/* What a match was on one host; false: no rank of the host took part. */
static bool part_of_host(const struct gathering *x, const struct collective_match *m, uint32_t host,
			 uint64_t *ends, struct host_times *out)
{
	size_t count = 0;

	*out = (struct host_times){ .first_end_ns = UINT64_MAX };
	for (size_t i = m->first; i < m->first + m->parts; i++) {
		const struct collective_part *p = &x->out->parts.data[i];

		if (x->out->ranks[p->rank].host != host)
			continue;
		out->last_start_ns = MAX(out->last_start_ns, p->start_ns);
		out->first_end_ns = MIN(out->first_end_ns, p->end_ns);
		ends[count++] = p->end_ns;
	}
	if (!count)
		return false;
	qsort(ends, count, sizeof(*ends), order_u64);
	out->median_end_ns = ends[count / 2];
	return true;
}

/* By how much the CLOCK_REALTIME of two hosts may differ; UINT64_MAX: unknown. */
static uint64_t realtime_limit(const struct job_host *a, const struct job_host *b)
{
	return a->has_realtime && a->realtime.is_known && b->has_realtime && b->realtime.is_known &&
			       MAX(a->realtime.bound_ns, b->realtime.bound_ns) < UINT64_MAX / 2
		       ? a->realtime.bound_ns + b->realtime.bound_ns
		       : UINT64_MAX;
}

/* Aligns one host with that of the first rank. */
static int align_host(struct gathering *x, uint32_t host, uint64_t *ends)
{
	struct job_host *h = &x->out->hosts[host];
	uint64_t limit_ns = realtime_limit(h, &x->out->hosts[x->out->ranks[0].host]);
	int rc;

	x->meetings.count = 0;
	for (size_t i = 0; i < x->out->matches.items.count; i++) {
		const struct collective_match *m = &x->out->matches.items.data[i];
		struct host_meeting meeting;

		if (x->out->parts.data[m->first].mutual &&
		    collective_is_whole(x->out->parts.data, m) &&
		    part_of_host(x, m, x->out->ranks[0].host, ends, &meeting.reference) &&
		    part_of_host(x, m, host, ends, &meeting.host) &&
		    vec_push(&x->meetings, meeting) < 0)
			return -ENOMEM;
	}
	rc = host_clock_fit(x->meetings.data, x->meetings.count, limit_ns, &h->clock);
	if (rc <= 0)
		x->out->uncertainty_ns = UINT64_MAX;
	else if (x->out->uncertainty_ns != UINT64_MAX)
		x->out->uncertainty_ns =
			MAX(x->out->uncertainty_ns, GPU_CLOCKS_NS + h->clock.uncertainty_ns);
	return rc;
}

static int align_hosts(struct gathering *x)
{
	uint64_t *ends = calloc(x->out->rank_count + 1, sizeof(*ends));
	int rc = ends ? 0 : -ENOMEM;

	for (uint32_t h = 0; h < x->out->host_count && rc >= 0; h++)
		if (h != x->out->ranks[0].host)
			rc = align_host(x, h, ends);
	free(ends);
	for (size_t i = 0; i < x->out->parts.count && rc >= 0; i++) {
		struct collective_part *p = &x->out->parts.data[i];
		const struct host_clock *c = &x->out->hosts[x->out->ranks[p->rank].host].clock;

		p->start_ns = host_clock_convert(c, p->start_ns);
		p->end_ns = p->end_ns ? host_clock_convert(c, p->end_ns) : 0;
	}
	for (size_t i = 0; i < x->out->rank_count && rc >= 0; i++) {
		const struct host_clock *c = &x->out->hosts[x->out->ranks[i].host].clock;
		struct rank_window *w = &x->windows[i];

		w->start_ns = host_clock_convert(c, w->start_ns);
		w->end_ns = x->out->ranks[i].end_ns = host_clock_convert(c, w->end_ns);
	}
	return rc;
}

#define IMPOSSIBLE_SHARE 50

/* Rejects guesses that the clocks contradict: of a communicator all, if 1 in 50 is impossible. */
static void reject_guesses(struct collectives *out)
{
	struct collective_match *m = out->matches.items.data;
	size_t count = out->matches.items.count;

	for (size_t from = 0, to; from < count; from = to) {
		uint64_t communicator = out->parts.data[m[from].first].communicator;
		size_t impossible = 0;

		for (to = from;
		     to < count && out->parts.data[m[to].first].communicator == communicator; to++)
			impossible += m[to].impossible;
		for (size_t i = from; i < to; i++)
			m[i].impossible |= out->parts.data[m[i].first].inferred &&
					   impossible * IMPOSSIBLE_SHARE > to - from;
	}
}

static int match(struct gathering *x)
{
	struct collectives *out = x->out;
	int rc = number_parts(x);

	if (rc < 0)
		return rc;
	align_by_realtime(x);
	find_runs(x);
	rc = collectives_match(out->parts.data, out->parts.count, x->members.data, x->members.count,
			       x->windows, &out->matches);
	if (rc >= 0)
		rc = align_hosts(x);
	if (rc >= 0 && out->host_count > 1) { /* who is absent depends on the windows */
		collectives_release(&out->matches);
		rc = collectives_match(out->parts.data, out->parts.count, x->members.data,
				       x->members.count, x->windows, &out->matches);
	}
	if (rc < 0)
		return rc;
	collectives_check_times(out->parts.data, &out->matches, out->uncertainty_ns);
	reject_guesses(out);
	for (size_t i = 0; i < out->matches.items.count; i++)
		out->whole += collective_is_whole(out->parts.data, &out->matches.items.data[i]);
	return 0;
}

static int load(struct trace *t, struct error *e)
{
	static const enum table_id tables[] = { TABLE_collective, TABLE_communicator,
						TABLE_process };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && rc >= 0; i++)
		rc = trace_load(t, tables[i], 0, e);
	return rc >= 0 && trace_rows(t, TABLE_collective) ? trace_load(t, TABLE_graph_node, 0, e)
							  : rc;
}

/* Adds the ranks and parts of the open report. */
static int add_report(struct gathering *x)
{
	int rc = classify(x);

	if (rc > 0)
		rc = collective_rows_init(&x->rows, x->report->trace) < 0 ? -ENOMEM : 0;
	if (rc >= 0)
		rc = find_ranks(x);
	if (rc >= 0)
		rc = add_communicators(x);
	if (rc >= 0)
		rc = gather(x);
	free(x->functions);
	map_release(&x->ranks);
	map_release(&x->streams);
	map_release(&x->stream_counts);
	collective_rows_release(&x->rows);
	x->functions = NULL;
	x->rows = (struct collective_rows){ 0 };
	return rc;
}

int collectives_find(const struct job_source *source, struct collectives *out)
{
	struct gathering x = { .source = source, .out = out };
	int rc = 0;

	*out = (struct collectives){ .uncertainty_ns = GPU_CLOCKS_NS };
	interner_init(&out->texts);
	for (x.item = 0; x.item < source->count && rc >= 0; x.item++) {
		rc = source->open(source->user, x.item, &x.report);
		if (rc < 0)
			break;
		rc = add_report(&x);
		source->close(source->user, x.report);
	}
	if (rc >= 0)
		rc = order_ranks(&x);
	if (rc >= 0 && out->rank_count)
		rc = match(&x);
	free(x.windows);
	map_release(&x.gpus);
	vec_release(&x.found);
	vec_release(&x.members);
	vec_release(&x.meetings);
	return rc < 0 ? rc : 0;
}

void collectives_free(void *collectives)
{
	struct collectives *c = collectives;

	free(c->ranks);
	free(c->hosts);
	interner_release(&c->texts);
	vec_release(&c->parts);
	collectives_release(&c->matches);
}

static int open_report(void *user, size_t item, struct report **out)
{
	(void)item;
	*out = user;
	return 0;
}

static void close_report(void *user, struct report *r)
{
	(void)user;
	(void)r;
}

struct job_source job_source_of(struct report *r)
{
	return (struct job_source){ 1, r, open_report, close_report };
}

static int run(struct report *r, void *result)
{
	struct job_source source = job_source_of(r);

	return collectives_find(&source, result);
}

const struct analysis analysis_collectives = {
	.size = sizeof(struct collectives),
	.needs = { { TABLE_kernel, COLUMN_BITS(kernel, config, stream, correlation, graph_node) },
		   { TABLE_kernel_config, COLUMN_BITS(kernel_config, name) },
		   { TABLE_clock, 0 } },
	.load = load,
	.run = run,
	.release = collectives_free,
};
