#include "analysis/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "analysis/capabilities.h"

static int load_device_columns(struct report *r, struct error *e)
{
	int code = gpus_init(&r->gpus, r->trace, e);

	if (code >= 0)
		code = gpu_walk_load(r->trace, e);
	if (code >= 0)
		code = calls_load(r->trace, &r->calls, e);
	if (code >= 0)
		code = hotspots_load(r->trace, e);
	return code;
}

static int load_rest(struct report *r, struct error *e)
{
	int code = copies_load(r->trace, e);

	if (code >= 0)
		code = syncs_load(r->trace, e);
	if (code >= 0)
		code = launches_load(r->trace, e);
	if (code >= 0)
		code = graphs_load(r->trace, e);
	if (code >= 0)
		code = memory_use_load(r->trace, e);
	if (code >= 0)
		code = trace_load(r->trace, TABLE_thread, 0, e);
	if (code >= 0)
		code = cpu_use_load(r->trace, &r->cpu, e);
	if (code >= 0)
		code = cost_analyze(r->trace, &r->cost, e);
	if (code >= 0)
		code = capability_no_gpu(r->trace, &r->no_gpu, e);
	return code;
}

/* Pointers to columns are only taken once nothing more is loaded. */
static int load(struct report *r, struct error *e)
{
	const struct filter *f = &r->options.filter;
	int code = load_device_columns(r, e);

	if (code >= 0)
		code = load_rest(r, e);
	if (code >= 0 && (f->nvtx || r->options.by == HOTSPOT_NVTX))
		code = nvtx_ranges_init(&r->ranges, r->trace, true, e);
	if (code >= 0)
		code = callers_init(&r->callers, r->trace, true, e);
	if (code >= 0 && r->options.captures)
		code = callers_captures(&r->callers, r->trace, e);
	if (code >= 0)
		code = calls_load(r->trace, &r->calls, e);
	if (code >= 0)
		code = selection_init(&r->selection, r->trace, f, &r->ranges, e);
	return code;
}

/* trace_span knows when the last event started; this is when the last one ended. */
static uint64_t last_end(const struct trace *t, enum table_id table, int column, uint64_t end_ns)
{
	const uint64_t *ends = trace_u64(t, table, column);
	const uint8_t *valid = trace_valid(t, table, column);
	uint64_t rows = ends ? trace_rows(t, table) : 0;

	for (uint64_t row = 0; row < rows; row++)
		if (ends[row] > end_ns && (!valid || valid[row]))
			end_ns = ends[row];
	return end_ns;
}

/* From the first event to the end of the last, or of the last process. */
static void find_window(struct report *r)
{
	const struct filter *f = &r->options.filter;
	uint64_t end_ns;

	trace_span(r->trace, &r->span_start_ns, &end_ns);
	end_ns = last_end(r->trace, TABLE_kernel, COLUMN_kernel_end_ns, end_ns);
	end_ns = last_end(r->trace, TABLE_memcpy, COLUMN_memcpy_end_ns, end_ns);
	end_ns = last_end(r->trace, TABLE_memset, COLUMN_memset_end_ns, end_ns);
	end_ns = last_end(r->trace, TABLE_graph_launch, COLUMN_graph_launch_end_ns, end_ns);
	end_ns = last_end(r->trace, TABLE_api_call, COLUMN_api_call_end_ns, end_ns);
	for (size_t i = 0; i < trace_process_count(r->trace); i++)
		end_ns = MAX(end_ns, trace_process(r->trace, i)->end_ns);
	r->span_end_ns = end_ns;
	r->start_ns = MAX(r->span_start_ns, f->since_ns);
	r->end_ns = MAX(MIN(r->span_end_ns, f->until_ns), r->start_ns);
}

static int run_busy(struct report *r)
{
	return busy_analyze(&r->gpus, &r->selection, &r->busy);
}

static int run_idle(struct report *r)
{
	return idle_analyze(&r->gpus, &r->selection, &r->calls, r->start_ns, r->end_ns, &r->idle);
}

static int run_hotspots(struct report *r)
{
	struct hotspot_options options = { .by = r->options.by,
					   .ranges = &r->ranges,
					   .callers = &r->callers,
					   .callers_of = r->options.callers_of };

	return hotspots_analyze(&r->selection, &r->gpus, &r->calls, &options, &r->hotspots);
}

static int run_launches(struct report *r)
{
	return launches_analyze(&r->selection, &r->calls, &r->launches);
}

static int run_graphs(struct report *r)
{
	return graphs_analyze(&r->selection, &r->graphs);
}

static int run_syncs(struct report *r)
{
	return syncs_analyze(&r->selection, &r->calls, &r->syncs);
}

static int run_blocked(struct report *r)
{
	return blocked_analyze(&r->selection, &r->calls, &r->callers, &r->blocked);
}

/* The only one that adds to `callers` while the others read of_call. */
static int run_cpu(struct report *r)
{
	return cpu_use_analyze(&r->selection, &r->callers, &r->cpu);
}

static int run_copies(struct report *r)
{
	return copies_analyze(&r->selection, &r->calls, &r->copies);
}

static int run_memory(struct report *r)
{
	return memory_use_analyze(&r->selection, &r->memory);
}

/* The longest first, so that two threads end at about the same time. */
static int (*const tasks[])(struct report *r) = {
	run_hotspots, run_idle,  run_busy,    run_launches, run_cpu,
	run_graphs,   run_syncs, run_blocked, run_copies,   run_memory,
};

struct work {
	struct report *report;
	atomic_size_t next;
	atomic_int failed; /* 0 or the first negative code */
};

static void *run_tasks(void *user)
{
	struct work *work = user;

	for (;;) {
		size_t task = atomic_fetch_add(&work->next, 1);
		int code;

		if (task >= ARRAY_SIZE(tasks) || atomic_load(&work->failed))
			return NULL;
		code = tasks[task](work->report);
		if (code < 0)
			atomic_store(&work->failed, code);
	}
}

static int analyze(struct report *r)
{
	struct work work = { .report = r };
	pthread_t other;
	bool helped =
		r->options.threads != 1 && pthread_create(&other, NULL, run_tasks, &work) == 0;

	run_tasks(&work);
	if (helped)
		pthread_join(other, NULL);
	return atomic_load(&work.failed);
}

/* The verdict on what follows a slow start-up. All columns are there: of the filter only the window changes. */
static int judge_later(struct report *r, struct error *e)
{
	struct filter filter = r->options.filter;
	struct selection selection = { 0 };
	struct launches launches = { 0 };
	struct syncs syncs = { 0 };
	struct busy busy = { 0 };
	struct idle idle = { 0 };
	int code;

	filter.since_ns = r->verdict.start_up.end_ns;
	code = selection_init(&selection, r->trace, &filter, &r->ranges, e);
	if (code < 0)
		return code;
	code = busy_analyze(&r->gpus, &selection, &busy);
	if (code >= 0)
		code = idle_analyze(&r->gpus, &selection, &r->calls, filter.since_ns, r->end_ns,
				    &idle);
	if (code >= 0)
		code = launches_analyze(&selection, &r->calls, &launches);
	if (code >= 0)
		code = syncs_analyze(&selection, &r->calls, &syncs);
	if (code >= 0)
		r->later = verdict_of(&busy, &idle, &launches, &syncs, filter.since_ns, r->end_ns);
	else
		error_set(e, code, "out of memory");
	syncs_release(&syncs);
	launches_release(&launches);
	idle_release(&idle);
	busy_release(&busy);
	selection_release(&selection);
	return code;
}

int report_init(struct report *r, struct trace *t, const struct report_options *options,
		struct error *e)
{
	int code;

	*r = (struct report){ .trace = t, .options = *options };
	code = load(r, e);
	if (code >= 0) {
		find_window(r);
		code = analyze(r);
		if (code < 0)
			error_set(e, code, "out of memory");
	}
	if (code >= 0) {
		r->verdict = verdict_of(&r->busy, &r->idle, &r->launches, &r->syncs, r->start_ns,
					r->end_ns);
		code = idle_lines_analyze(&r->gpus, &r->selection, &r->calls, &r->callers, &r->idle,
					  &r->verdict, &r->idle_lines);
		if (code < 0)
			error_set(e, code, "out of memory");
	}
	if (code >= 0 && r->verdict.start_up.pieces)
		code = judge_later(r, e);
	if (code < 0)
		report_release(r);
	return code < 0 ? code : 0;
}

void report_release(struct report *r)
{
	gpus_release(&r->gpus);
	selection_release(&r->selection);
	nvtx_ranges_release(&r->ranges);
	busy_release(&r->busy);
	idle_release(&r->idle);
	hotspots_release(&r->hotspots);
	copies_release(&r->copies);
	blocked_release(&r->blocked);
	cpu_use_release(&r->cpu);
	idle_lines_release(&r->idle_lines);
	callers_release(&r->callers);
	syncs_release(&r->syncs);
	launches_release(&r->launches);
	graphs_release(&r->graphs);
	memory_use_release(&r->memory);
	cost_release(&r->cost);
	strbuf_release(&r->no_gpu);
}

size_t report_process_count(const struct report *r)
{
	size_t count = 0;

	for (size_t p = 0; p < trace_process_count(r->trace); p++)
		count += trace_process(r->trace, p)->of == p;
	return count;
}

const char *report_thread_name(const struct report *r, size_t process, uint32_t thread)
{
	const uint32_t *tids = trace_u32(r->trace, TABLE_thread, COLUMN_thread_tid);
	const uint32_t *names = trace_u32(r->trace, TABLE_thread, COLUMN_thread_name);

	process = trace_process(r->trace, process)->of;
	for (size_t p = 0; p < trace_process_count(r->trace); p++) {
		uint64_t row = trace_first_row(r->trace, TABLE_thread, p);
		uint64_t end = trace_first_row(r->trace, TABLE_thread, p + 1);

		/* The last row of a thread counts. */
		while (end-- > row && trace_process(r->trace, p)->of == process)
			if (tids[end] == thread)
				return trace_string(r->trace, names[end]);
	}
	return "";
}
