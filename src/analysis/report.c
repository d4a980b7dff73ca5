#include "analysis/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "analysis/capabilities.h"
#include "analysis/gpu_walk.h"
#include "trace/events.h"

struct entry {
	const struct analysis *analysis;
	size_t result; /* offset of the pointer in struct report */
};

#define ENTRY(name) { &analysis_##name, offsetof(struct report, name) },
static const struct entry entries[] = { ANALYSES(ENTRY) };
#undef ENTRY

/* What comparing ranks needs of a report: results, and columns besides theirs. */
static const struct analysis *const for_ranks[] = { &analysis_busy, &analysis_idle,
						    &analysis_system_use, &analysis_collectives,
						    &analysis_rank_times };
#define RUN_FOR_RANKS 3 /* the first of these; job_report.h runs the others on all processes */

/* What a look at the last seconds of a program needs. */
static const struct analysis *const for_now[] = { &analysis_hotspots, &analysis_busy,
						  &analysis_launches, &analysis_last_words };

static bool is_among(const struct analysis *const *list, size_t count, const struct analysis *a)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == a)
			return true;
	return false;
}

static bool is_needed(const struct report *r, const struct analysis *a, size_t of_ranks)
{
	if (r->options.now)
		return is_among(for_now, ARRAY_SIZE(for_now), a);
	return !r->options.ranks || is_among(for_ranks, of_ranks, a);
}

static bool is_loaded(const struct report *r, const struct analysis *a)
{
	return is_needed(r, a, ARRAY_SIZE(for_ranks));
}

static bool is_run(const struct report *r, const struct analysis *a)
{
	return is_needed(r, a, r->options.steady ? RUN_FOR_RANKS : 0);
}

static void **result_of(struct report *r, const struct entry *entry)
{
	return (void **)(void *)((char *)r + entry->result);
}

/* Frees a result, which may be NULL. */
static void release(const struct analysis *a, void *result)
{
	if (result && a->release)
		a->release(result);
	for (size_t i = 0; result && i < OWNED_MAX && a->owned[i]; i++)
		free(*(void **)(void *)((char *)result + a->owned[i] - 1));
	free(result);
}

/* Adds an analysis's columns, as bits by table. */
static void add_needs(uint64_t *columns, const struct analysis *a)
{
	for (size_t i = 0; i < COLUMN_NEEDS_MAX && a->needs[i].table; i++) {
		const struct column_need *n = &a->needs[i];
		uint64_t all = (UINT64_C(1) << schema_table(n->table)->column_count) - 1;

		columns[n->table] |= n->columns ? n->columns : all;
	}
}

/*
 * Loads the columns of all analyses with one pass per table, because each pass parses all blocks
 * and decodes the columns on which differences are based.
 */
static int load_needs(struct report *r, struct error *e)
{
	struct trace *t = r->trace;

	uint64_t columns[TABLE_END] = {
		[TABLE_api_call] = CALLS_COLUMNS | COLUMN_BIT(api_call, stack),
	};
	int code = trace_load(t, TABLE_thread, 0, e);

	if (code >= 0)
		code = trace_load(t, TABLE_capability, 0, e);
	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		columns[schema_gpu_work[i]->id] =
			events_columns(schema_gpu_work[i]->id, GPU_WALK_ROLES | 1u << ROLE_GRAPH);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (is_loaded(r, entries[i].analysis))
			add_needs(columns, entries[i].analysis);
	for (uint32_t table = 1; table < TABLE_END && code >= 0; table++)
		if (columns[table])
			code = trace_load(t, (enum table_id)table, columns[table], e);
	for (size_t i = 0; i < ARRAY_SIZE(entries) && code >= 0; i++)
		if (entries[i].analysis->load && is_loaded(r, entries[i].analysis))
			code = entries[i].analysis->load(t, e);
	return code;
}

static bool needs_causes(const struct report *r)
{
	return !r->options.ranks || r->options.critical_path;
}

/* Loads everything before the analyses get pointers to columns. */
static int load(struct report *r, struct error *e)
{
	const struct filter *f = &r->options.filter;
	int code = !r->options.memory
			   ? 0
			   : trace_launches(r->trace, TABLE_allocation, &r->allocation_calls, e);

	if (code >= 0)
		code = calls_join(r->trace, e);
	if (code >= 0)
		code = load_needs(r, e);
	if (code >= 0)
		code = gpus_init(&r->gpus, r->trace, e);
	if (code >= 0 && (f->scope || r->options.by == HOTSPOT_SCOPE || r->options.scope_tree ||
			  r->options.steps))
		code = nvtx_ranges_init(&r->ranges, r->trace, r->options.scopes, true, e);
	if (code >= 0)
		code = callers_init(&r->callers, r->trace, true, e);
	if (code >= 0 && r->options.captures)
		code = callers_captures(&r->callers, r->trace, e);
	if (code >= 0)
		code = calls_load(r->trace, &r->calls, e);
	if (code >= 0 && needs_causes(r))
		code = causes_load(r->trace, e);
	if (code >= 0)
		code = measuring_init(&r->measuring, r->trace, &r->calls, e);
	if (code >= 0)
		code = selection_init(&r->selection, r->trace, f, &r->ranges, e);
	if (!r->options.ranks)
		trace_load_done(r->trace);
	return code;
}

/* Extends end_ns, the last start from trace_span, to the end of the last event of a table. */
static uint64_t last_end(const struct trace *t, enum table_id table, uint64_t end_ns)
{
	struct event_columns c = events_of(t, table);
	uint64_t rows = c.end_ns ? c.rows : 0;

	for (uint64_t row = 0; row < rows; row++)
		if (c.end_ns[row] > end_ns && column_has(c.end_valid, row))
			end_ns = c.end_ns[row];
	return end_ns;
}

/* The end of the last work or call; 0: there is none. */
static uint64_t last_work(const struct trace *t)
{
	uint64_t end_ns = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		end_ns = last_end(t, schema_gpu_work[i]->id, end_ns);
	return last_end(t, TABLE_api_call, end_ns);
}

static uint64_t first_work(const struct trace *t, uint64_t start_ns)
{
	for (size_t i = 0; i < GPU_WORK_KINDS; i++) {
		struct event_columns c = events_of(t, schema_gpu_work[i]->id);

		for (uint64_t row = 0; row < c.rows; row++)
			if (event_is_timed(&c, row))
				start_ns = MIN(start_ns, c.start_ns[row]);
	}
	return start_ns;
}

/* Work may begin just before a recorder's window has opened, and end after it has closed. */
static void find_recorded(struct report *r, uint64_t last_ns)
{
	uint64_t opened_ns, closed_ns;

	capability_window(r->trace, &opened_ns, &closed_ns);
	r->recorded_start_ns = r->span_start_ns;
	if (opened_ns > r->span_start_ns)
		r->recorded_start_ns = first_work(r->trace, MIN(opened_ns, r->span_end_ns));
	closed_ns = MAX(closed_ns, MAX(r->recorded_start_ns, last_ns));
	r->recorded_end_ns = MIN(r->span_end_ns, closed_ns);
}

static void find_window(struct report *r)
{
	const struct filter *f = &r->options.filter;
	uint64_t end_ns, last_ns = last_work(r->trace);

	trace_span(r->trace, &r->span_start_ns, &end_ns);
	r->span_end_ns = MAX(end_ns, last_ns);
	find_recorded(r, last_ns);
	r->start_ns = MAX(r->recorded_start_ns, f->since_ns);
	r->end_ns = MAX(MIN(r->recorded_end_ns, f->until_ns), r->start_ns);
}

struct work {
	struct report *report;
	atomic_size_t next;
	atomic_int failed; /* 0 or the first negative code */
};

/* Runs the analyses that do not read the results of others. */
static void *run_analyses(void *user)
{
	struct work *work = user;

	for (;;) {
		size_t i = atomic_fetch_add(&work->next, 1);
		int code;

		if (i >= ARRAY_SIZE(entries) || atomic_load(&work->failed))
			return NULL;
		if (entries[i].analysis->reads_others || !is_run(work->report, entries[i].analysis))
			continue;
		code = entries[i].analysis->run(work->report,
						*result_of(work->report, &entries[i]));
		if (code < 0)
			atomic_store(&work->failed, code);
	}
}

static int analyze(struct report *r)
{
	struct work work = { .report = r };
	bool helped;
	pthread_t other;
	int code;

	helped = r->options.threads != 1 && pthread_create(&other, NULL, run_analyses, &work) == 0;
	run_analyses(&work);
	if (helped)
		pthread_join(other, NULL);
	code = atomic_load(&work.failed);
	for (size_t i = 0; i < ARRAY_SIZE(entries) && code >= 0; i++)
		if (entries[i].analysis->reads_others && is_run(r, entries[i].analysis))
			code = entries[i].analysis->run(r, *result_of(r, &entries[i]));
	return code;
}

static int make_results(struct report *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		void *result = calloc(1, entries[i].analysis->size);

		if (!result)
			return -ENOMEM;
		*result_of(r, &entries[i]) = result;
	}
	return 0;
}

int report_init(struct report *r, struct trace *t, const struct report_options *options,
		struct error *e)
{
	int code;

	*r = (struct report){ .trace = t, .options = *options };
	r->options.steps |= options->memory;
	code = load(r, e);
	if (code >= 0) {
		find_window(r);
		code = make_results(r);
		if (code >= 0 && needs_causes(r))
			code = causes_build(&r->causes, t);
		if (code >= 0)
			code = thread_names_init(&r->thread_names, t);
		if (code >= 0)
			code = analyze(r);
		if (code < 0)
			error_set(e, code, "out of memory");
	}
	if (code < 0)
		report_release(r);
	return code < 0 ? code : 0;
}

void report_release(struct report *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		void **result = result_of(r, &entries[i]);

		release(entries[i].analysis, *result);
		*result = NULL;
	}
	thread_names_release(&r->thread_names);
	gpus_release(&r->gpus);
	selection_release(&r->selection);
	nvtx_ranges_release(&r->ranges);
	callers_release(&r->callers);
	measuring_release(&r->measuring);
	causes_release(&r->causes);
}

size_t report_process_count(const struct report *r)
{
	size_t count = 0;

	for (size_t p = 0; p < trace_process_count(r->trace); p++)
		count += trace_process(r->trace, p)->subject == p;
	return count;
}
