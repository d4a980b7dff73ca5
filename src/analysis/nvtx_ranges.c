/*
 * nvtx_ranges.c: one pass over the events of each process. The open pushed ranges of a thread are a
 * doubly linked list whose top is in a map. The ranges of a thread and domain also form a stack, so
 * a pop finds its push in constant time wherever it is in the thread's list.
 *
 * Pushes and pops may be lost, which levels reveal. A push ends all ranges that are still open at
 * its level or above. A pop ends all ranges that are open above its level, and is unmatched unless
 * the top range then has its level. An unknown level counts as the highest, so such a pop ends the
 * top range.
 */
#include "analysis/nvtx_ranges.h"

#include <errno.h>

#include <string.h>

#include "analysis/filter.h"
#include "analysis/stacks_names.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "trace/columns.h"

#define NO_LEVEL UINT8_MAX

struct links {
	uint32_t below, above; /* neighbours in the thread's list */
	uint32_t below_in_domain;
	uint8_t level;
};

struct pairing {
	VEC(struct nvtx_range) ranges;
	VEC(struct links) links;
	struct map top; /* thread -> range */
	struct map domain_top; /* domain << 32 | thread -> range */
	struct map started; /* range id -> range */
	struct map tokens; /* token -> range, or NVTX_NO_RANGE */
	struct map pitot; /* set of the ids of Pitot's domain */
	uint64_t unmatched;
};

static uint64_t domain_key(uint32_t domain, uint32_t thread)
{
	return (uint64_t)domain << 32 | thread;
}

static void end_range(struct pairing *p, uint64_t index, uint64_t time_ns)
{
	p->ranges.data[index].end_ns = MAX(time_ns, p->ranges.data[index].start_ns);
	p->ranges.data[index].open = false;
}

/* Slots in p->top and p->domain_top for the thread and domain of an event. */
struct tops {
	uint64_t *thread, *domain;
};

static int find_tops(struct pairing *p, const struct nvtx_range *event, struct tops *tops)
{
	tops->thread = map_at(&p->top, event->thread, NVTX_NO_RANGE);
	tops->domain =
		map_at(&p->domain_top, domain_key(event->domain, event->thread), NVTX_NO_RANGE);
	return tops->thread && tops->domain ? 0 : -ENOMEM;
}

static void end_top(struct pairing *p, const struct tops *tops, uint64_t time_ns)
{
	const struct links *l = &p->links.data[*tops->domain];

	end_range(p, *tops->domain, time_ns);
	if (l->above != NVTX_NO_RANGE)
		p->links.data[l->above].below = l->below;
	else
		*tops->thread = l->below;
	if (l->below != NVTX_NO_RANGE)
		p->links.data[l->below].above = l->above;
	*tops->domain = l->below_in_domain;
}

/* Ends ranges at `level` and above, whose pops were lost. */
static void end_from(struct pairing *p, const struct tops *tops, unsigned level, uint64_t time_ns)
{
	while (*tops->domain != NVTX_NO_RANGE && p->links.data[*tops->domain].level >= level)
		end_top(p, tops, time_ns);
}

static int push(struct pairing *p, struct nvtx_range range, uint8_t level)
{
	uint32_t index = (uint32_t)p->ranges.count;
	struct links links = { .above = NVTX_NO_RANGE, .level = level };
	struct tops tops;

	if (index == NVTX_NO_RANGE || find_tops(p, &range, &tops) < 0)
		return -ENOMEM;
	if (level != NO_LEVEL)
		end_from(p, &tops, level, range.start_ns);
	range.parent = links.below = (uint32_t)*tops.thread;
	if (!range.carried)
		range.outer = range.parent;
	links.below_in_domain = (uint32_t)*tops.domain;
	if (vec_push(&p->ranges, range) < 0 || vec_push(&p->links, links) < 0)
		return -ENOMEM;
	if (links.below != NVTX_NO_RANGE)
		p->links.data[links.below].above = index;
	*tops.thread = *tops.domain = index;
	return 0;
}

static int pop(struct pairing *p, const struct nvtx_range *event, uint8_t level)
{
	struct tops tops;

	if (find_tops(p, event, &tops) < 0)
		return -ENOMEM;
	end_from(p, &tops, level + 1u, event->start_ns);
	if (*tops.domain != NVTX_NO_RANGE && p->links.data[*tops.domain].level == level)
		end_top(p, &tops, event->start_ns);
	else
		p->unmatched++;
	return 0;
}

static int push_carried(struct pairing *p, struct nvtx_range range, uint64_t token, uint8_t level)
{
	uint64_t outer = NVTX_NO_RANGE;

	map_get(&p->tokens, token, &outer);
	if (outer != NVTX_NO_RANGE)
		outer = nvtx_scope(p->ranges.data, (uint32_t)outer);
	range.outer = (uint32_t)outer;
	range.carried = true;
	return push(p, range, level);
}

/* Binds a token to the thread's top range, or to none; replaces an earlier binding. */
static int bind_token(struct pairing *p, uint32_t thread, uint64_t token)
{
	uint64_t top = NVTX_NO_RANGE;

	map_get(&p->top, thread, &top);
	return map_put(&p->tokens, token, top);
}

static int begin_started(struct pairing *p, struct nvtx_range range, const uint64_t *id)
{
	struct links unused = { 0 };

	if (p->ranges.count >= NVTX_NO_RANGE ||
	    (id && map_put(&p->started, *id, p->ranges.count) < 0))
		return -ENOMEM;
	return vec_push(&p->ranges, range) < 0 || vec_push(&p->links, unused) < 0 ? -ENOMEM : 0;
}

static int end_started(struct pairing *p, const uint64_t *id, uint64_t time_ns)
{
	uint64_t *index = id ? map_at(&p->started, *id, NVTX_NO_RANGE) : NULL;

	if (id && !index)
		return -ENOMEM;
	if (!index || *index == NVTX_NO_RANGE) {
		p->unmatched++;
		return 0;
	}
	end_range(p, *index, time_ns);
	*index = NVTX_NO_RANGE;
	return 0;
}

static int add_event(struct pairing *p, const struct nvtx_columns *c, uint64_t row,
		     uint32_t process)
{
	uint64_t unused;
	struct nvtx_range range = {
		.start_ns = c->time_ns[row],
		.row = (uint32_t)row,
		.process = process,
		.thread = c->thread[row],
		.domain = c->domain[row],
		.message = column_has(c->valid.message, row) ? c->message[row] : 0,
		.parent = NVTX_NO_RANGE,
		.outer = NVTX_NO_RANGE,
		.path = SCOPE_NONE,
		.pushed = c->kind[row] == nvtx_kind_push,
		.open = true,
		.pitot = p->pitot.count && map_get(&p->pitot, c->domain[row], &unused),
	};
	const uint64_t *id = column_has(c->valid.range, row) ? &c->range[row] : NULL;
	uint8_t level = column_has(c->valid.level, row) ? c->level[row] : NO_LEVEL;

	switch (c->kind[row]) {
	case nvtx_kind_push:
		return id ? push_carried(p, range, *id, level) : push(p, range, level);
	case nvtx_kind_token:
		return id ? bind_token(p, range.thread, *id) : 0;
	case nvtx_kind_pop:
		return pop(p, &range, level);
	case nvtx_kind_start:
		return begin_started(p, range, id);
	case nvtx_kind_end:
		return end_started(p, id, range.start_ns);
	default:
		return 0;
	}
}

/* Sets of_call for the calls from *call to `end` that begin before time_ns, and advances *call. */
static void find_calls(const struct pairing *p, const struct api_call_columns *calls,
		       uint64_t *call, uint64_t end, uint64_t time_ns, uint32_t *of_call)
{
	uint64_t top = NVTX_NO_RANGE;
	uint32_t thread = 0;
	bool known = false;

	for (; *call < end && calls->start_ns[*call] < time_ns; ++*call) {
		if (!known || calls->thread[*call] != thread) {
			thread = calls->thread[*call];
			top = NVTX_NO_RANGE;
			map_get(&p->top, thread, &top);
			known = true;
		}
		of_call[*call] = (uint32_t)top;
	}
}

static int find_domains(struct pairing *p, const struct trace *t, uint32_t process)
{
	const struct nvtx_domain_columns *domains = nvtx_domain_columns(t);

	map_clear(&p->pitot);
	for (struct row_walk w = process_rows(t, TABLE_nvtx_domain, process); row_walk_next(&w);)
		if (!strcmp(trace_string(t, domains->name[w.row]), SCOPE_DOMAIN) &&
		    map_put(&p->pitot, domains->id[w.row], 1) < 0)
			return -ENOMEM;
	return 0;
}

static int pair_process(struct pairing *p, const struct trace *t, const struct nvtx_columns *c,
			uint32_t process, uint32_t *of_call)
{
	struct row_walk w = process_rows(t, TABLE_nvtx, process);
	const struct api_call_columns *calls = api_call_columns(t);
	uint64_t call = of_call ? trace_first_row(t, TABLE_api_call, process) : 0;
	uint64_t last_call = of_call ? trace_first_row(t, TABLE_api_call, process + 1) : 0;
	int rc = find_domains(p, t, process);

	map_clear(&p->top);
	map_clear(&p->domain_top);
	map_clear(&p->started);
	map_clear(&p->tokens);
	while (rc >= 0 && row_walk_next(&w)) {
		find_calls(p, calls, &call, last_call, c->time_ns[w.row], of_call);
		rc = add_event(p, c, w.row, process);
	}
	find_calls(p, calls, &call, last_call, UINT64_MAX, of_call);
	return rc;
}

static int pair_all(struct pairing *p, const struct trace *t, uint32_t *of_call)
{
	const struct nvtx_columns *c = nvtx_columns(t);
	uint64_t start_ns, end_ns;
	int rc = 0;

	trace_span(t, &start_ns, &end_ns);
	for (size_t i = 0; i < trace_process_count(t) && rc >= 0; i++) {
		size_t first = p->ranges.count;

		rc = pair_process(p, t, c, (uint32_t)i, of_call);
		for (; first < p->ranges.count; first++)
			if (p->ranges.data[first].open)
				p->ranges.data[first].end_ns =
					MAX(end_ns, p->ranges.data[first].start_ns);
	}
	return rc;
}

void nvtx_ranges_release(struct nvtx_ranges *n)
{
	free(n->items);
	free(n->of_call);
	free(n->paths);
	*n = (struct nvtx_ranges){ 0 };
}

/* Number of ranges of earlier processes. */
static size_t first_of_process(const struct nvtx_ranges *n, size_t process)
{
	return sorted_prefix(n->count, i, n->items[i].process < process);
}

int nvtx_cursor_at(struct nvtx_cursor *c, size_t process, uint32_t thread, uint64_t time_ns,
		   uint32_t *range)
{
	const struct nvtx_range *items = c->ranges->items;
	uint64_t *last;

	if (c->process != process || time_ns < c->time_ns) {
		map_clear(&c->last);
		c->next = first_of_process(c->ranges, process);
		c->process = (uint32_t)process;
	}
	c->time_ns = time_ns;
	for (; c->next < c->ranges->count && items[c->next].process == c->process &&
	       items[c->next].start_ns <= time_ns;
	     c->next++)
		if (items[c->next].pushed && map_put(&c->last, items[c->next].thread, c->next) < 0)
			return -ENOMEM;
	last = map_at(&c->last, thread, NVTX_NO_RANGE);
	if (!last)
		return -ENOMEM;
	/* drop ranges that have ended; any range still open was open when *last began */
	while (*last != NVTX_NO_RANGE && !items[*last].open && items[*last].end_ns <= time_ns)
		*last = items[*last].parent;
	*range = (uint32_t)*last;
	return 0;
}

/* Open outermost ranges of all threads but autograd's: a heap by end. */
struct roots {
	VEC(uint32_t) open;
	struct map workers; /* set of the autograd threads of this process */
	struct nvtx_ranges *ranges;
};

static uint64_t end_of(const struct roots *r, uint32_t index)
{
	const struct nvtx_range *range = &r->ranges->items[index];

	return range->open ? UINT64_MAX : range->end_ns;
}

static int add_root(struct roots *r, uint32_t range)
{
	if (vec_push(&r->open, range) < 0)
		return -ENOMEM;
	heap_up(r->open.data, r->open.count - 1, a, b, end_of(r, *a) < end_of(r, *b));
	return 0;
}

static void remove_root(struct roots *r)
{
	r->open.data[0] = r->open.data[--r->open.count];
	heap_down(r->open.data, r->open.count, 0, a, b, end_of(r, *a) < end_of(r, *b));
}

static bool is_worker(const struct roots *r, uint32_t thread)
{
	uint64_t unused;

	return map_get(&r->workers, thread, &unused);
}

/* Finds the innermost range that an autograd thread works for at a time, or NVTX_NO_RANGE. */
static int adopt(struct roots *r, struct nvtx_cursor *cursor, uint64_t time_ns, uint32_t *range)
{
	*range = NVTX_NO_RANGE;
	while (r->open.count && end_of(r, r->open.data[0]) <= time_ns)
		remove_root(r);
	return r->open.count != 1
		       ? 0
		       : nvtx_cursor_at(cursor, r->ranges->items[r->open.data[0]].process,
					r->ranges->items[r->open.data[0]].thread, time_ns, range);
}

static int adopt_range(struct roots *r, struct nvtx_cursor *cursor, uint32_t index)
{
	struct nvtx_range *range = &r->ranges->items[index];

	int code;

	if (!range->pushed || range->parent != NVTX_NO_RANGE || range->carried)
		return 0;
	if (!is_worker(r, range->thread))
		return add_root(r, index);
	code = adopt(r, cursor, range->start_ns, &range->outer);
	if (range->outer != NVTX_NO_RANGE && range->outer > index) /* both began at this time */
		range->outer = NVTX_NO_RANGE;
	return code;
}

static int adopt_call(struct roots *r, struct nvtx_cursor *cursor,
		      const struct api_call_columns *calls, uint64_t call)
{
	uint32_t *range = &r->ranges->of_call[call];

	return *range != NVTX_NO_RANGE || !is_worker(r, calls->thread[call])
		       ? 0
		       : adopt(r, cursor, calls->start_ns[call], range);
}

/* Visits the ranges and calls of a process in order of time. */
static int adopt_process(struct roots *r, const struct trace *t, size_t process)
{
	const struct api_call_columns *calls = api_call_columns(t);
	uint64_t call = trace_first_row(t, TABLE_api_call, process);
	uint64_t end = trace_first_row(t, TABLE_api_call, process + 1);
	const struct nvtx_range *items = r->ranges->items;
	struct nvtx_cursor cursor = { .ranges = r->ranges };
	bool more = true;
	int code = 0;

	r->open.count = 0;
	for (size_t next = first_of_process(r->ranges, process);
	     code >= 0 && (more || call < end);) {
		more = next < r->ranges->count && items[next].process == process;
		if (more && (call == end || items[next].start_ns <= calls->start_ns[call]))
			code = adopt_range(r, &cursor, (uint32_t)next++);
		else if (call < end)
			code = adopt_call(r, &cursor, calls, call++);
	}
	map_release(&cursor.last);
	return code;
}

static int find_workers(struct roots *r, const struct trace *t, size_t process)
{
	const struct thread_columns *threads = thread_columns(t);

	map_clear(&r->workers);
	for (struct row_walk w = process_rows(t, TABLE_thread, process); row_walk_next(&w);)
		if (is_autograd_thread(trace_string(t, threads->name[w.row])) &&
		    map_put(&r->workers, threads->tid[w.row], 1) < 0)
			return -ENOMEM;
	return 0;
}

static int adopt_all(struct nvtx_ranges *n, const struct trace *t)
{
	struct roots r = { .ranges = n, .workers = MAP_INIT };
	int code = 0;

	for (size_t p = 0; p < trace_process_count(t) && code >= 0; p++) {
		code = find_workers(&r, t, p);
		if (code >= 0 && r.workers.count)
			code = adopt_process(&r, t, p);
	}
	vec_release(&r.open);
	map_release(&r.workers);
	return code;
}

int nvtx_ranges_pair(struct nvtx_ranges *n, const struct trace *t, enum scope_choice scopes,
		     bool with_calls)
{
	struct pairing p = { .top = MAP_INIT };
	int rc;

	*n = (struct nvtx_ranges){ 0 };
	if (with_calls)
		n->of_call = malloc((trace_rows(t, TABLE_api_call) + 1) * sizeof(*n->of_call));
	rc = with_calls && !n->of_call ? -ENOMEM : pair_all(&p, t, n->of_call);
	n->items = p.ranges.data;
	n->count = p.ranges.count;
	n->unmatched = p.unmatched;
	vec_release(&p.links);
	map_release(&p.top);
	map_release(&p.domain_top);
	map_release(&p.started);
	map_release(&p.tokens);
	map_release(&p.pitot);
	if (rc >= 0 && with_calls)
		rc = adopt_all(n, t);
	return rc < 0 ? rc : scope_paths_find(n, scopes);
}

int nvtx_ranges_init(struct nvtx_ranges *n, struct trace *t, enum scope_choice scopes,
		     bool with_calls, struct error *e)
{
	int rc = trace_load(t, TABLE_nvtx, 0, e);

	*n = (struct nvtx_ranges){ 0 };
	if (rc >= 0)
		rc = trace_load(t, TABLE_nvtx_domain, 0, e);
	if (rc >= 0)
		rc = trace_load(t, TABLE_thread, 0, e);
	if (rc >= 0 && with_calls)
		rc = trace_load(t, TABLE_api_call, COLUMN_BITS(api_call, start_ns, thread), e);
	if (rc < 0)
		return rc;
	rc = nvtx_ranges_pair(n, t, scopes, with_calls);
	if (rc < 0) {
		nvtx_ranges_release(n);
		return error_set(e, rc, "out of memory");
	}
	return 0;
}
