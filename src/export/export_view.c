#include "export/export_view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/memory/memory_use.h"
#include "base/path.h"
#include "base/search.h"
#include "trace/columns.h"

/* Added to process ids that are already in use. Exceeds every Linux pid (at most 4194304). */
#define PID_STEP 10000000

#define GPU_PIDS 16 /* readers reserve at least this many ids for GPUs */

/* Columns of single exporters, in addition to those common to all work and to SHOWN ones. */
static const struct {
	enum table_id table;
	uint64_t columns;
} details[] = {
	{ TABLE_kernel, COLUMN_BITS(kernel, config) },
	{ TABLE_memcpy,
	  COLUMN_BITS(memcpy, kind, source_kind, destination_kind, async, source_device,
		      source_context, destination_device, destination_context) },
	{ TABLE_memset, COLUMN_BITS(memset, memory_kind, async) },
	{ TABLE_synchronization, COLUMN_BITS(synchronization, kind, event_record) },
};

static enum table_id work_table(int kind)
{
	return kind == WORK_SYNC ? TABLE_synchronization : schema_gpu_work[kind]->id;
}

static int load_work(struct export_view *v, int kind, struct error *e)
{
	enum table_id table = work_table(kind);
	struct trace *t = v->trace;
	const uint32_t *launches;
	int r = events_load(t, table,
			    ROLES_TIMES | ROLES_PLACE | ROLES_GRAPH | 1u << ROLE_CORRELATION |
				    1u << ROLE_LABEL,
			    e);

	if (r >= 0 && schema_table(table)->shown)
		r = trace_load(t, table, schema_table(table)->shown, e);
	for (size_t i = 0; i < ARRAY_SIZE(details) && r >= 0; i++)
		if (details[i].table == table)
			r = trace_load(t, table, details[i].columns, e);
	if (r >= 0 && schema_table(table)->launching_kinds && trace_rows(t, table))
		r = trace_launches(t, table, &launches, e);
	if (r >= 0)
		v->work[kind] = events_of(t, table);
	return r;
}

static int load_calls(struct export_view *v, struct error *e)
{
	struct trace *t = v->trace;
	bool stacks = !v->options->no_stacks && trace_rows(t, TABLE_stack);
	int r = trace_load(
		t, TABLE_api_call,
		COLUMN_BITS(api_call, start_ns, end_ns, function, thread, correlation, result) |
			(stacks ? COLUMN_BITS(api_call, stack) : 0),
		e);

	if (r >= 0)
		r = trace_load(t, TABLE_api_function, 0, e);
	if (r < 0)
		return r;
	v->calls = trace_rows(t, TABLE_api_call);
	v->call = api_call_columns(t);
	v->function = api_function_columns(t);
	v->with_stacks = stacks;
	return 0;
}

/* Loads small tables with all their columns. */
static int load_small_tables(struct export_view *v, struct error *e)
{
	static const enum table_id tables[] = {
		TABLE_kernel_config, TABLE_process,        TABLE_thread,
		TABLE_context,       TABLE_stream,         TABLE_nvtx,
		TABLE_nvtx_domain,   TABLE_nvtx_category,  TABLE_overhead,
		TABLE_counter,       TABLE_counter_sample, TABLE_clock,
		TABLE_cuda_event,    TABLE_allocation,     TABLE_external_correlation,
		TABLE_capability,
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		int r = trace_load(v->trace, tables[i], 0, e);

		if (r < 0)
			return r;
	}
	return metric_values_load(v->trace, e);
}

/*
 * Readers identify a process by its id alone, so of several images that exec() put into one process
 * the last keeps the pid.
 */
static bool pid_is_free(const struct export_view *v, size_t process, uint32_t pid)
{
	for (size_t i = process + 1; i < v->process_count; i++)
		if (v->processes[i].owner == i && v->processes[i].pid == pid)
			return false;
	return true;
}

static bool overlap_with_same_pid(const struct trace_process *p, const struct trace_process *q)
{
	return p->pid == q->pid && p->start_ns < q->end_ns && q->start_ns < p->end_ns;
}

/*
 * Returns the process under which a session is shown. A sampler's session belongs to the process
 * that it sampled, and a session that only `pitot record` saw belongs to the recorded process with
 * that pid. A sampler may sample an image for a while after exec() has replaced it; that is not
 * another process either.
 */
static size_t owner_of(const struct export_view *v, size_t session)
{
	const struct trace_process *p = trace_process(v->trace, session), *other;

	for (size_t i = 0; i < v->process_count && !p->inside; i++) {
		other = trace_process(v->trace, i);
		if (!other->inside || !overlap_with_same_pid(p, other))
			continue;
		session = i;
		p = other;
	}
	for (size_t i = session + 1; i < v->process_count && p->sampler && p->subject == session;
	     i++) {
		other = trace_process(v->trace, i);
		if (!other->sampler || !overlap_with_same_pid(p, other))
			continue;
		session = i;
		p = other;
	}
	return p->sampler && p->subject < v->process_count ? p->subject : session;
}

static int assign_pids(struct export_view *v, uint32_t pid_min)
{
	v->process_count = trace_process_count(v->trace);
	v->processes = calloc(v->process_count + 1, sizeof(*v->processes));
	if (!v->processes)
		return -ENOMEM;
	for (size_t i = v->process_count; i-- > 0;) {
		const struct trace_process *p = trace_process(v->trace, i);
		struct export_process *x = &v->processes[i];
		char rank[24] = "";

		x->owner = (uint32_t)owner_of(v, i);
		x->pid = p->pid;
		while (x->pid <= UINT32_MAX - PID_STEP && x->owner == i &&
		       (x->pid < pid_min || !pid_is_free(v, i, x->pid)))
			x->pid += PID_STEP;
		x->name = capability_app_name(v->trace, p);
		if (!*x->name)
			x->name = base_name(p->executable);
		x->end_ns = p->end_ns;
		if (p->rank != TRACE_NO_RANK)
			snprintf(rank, sizeof(rank), "rank %u: ", p->rank);
		snprintf(x->label, sizeof(x->label), "%s%.40s", rank, x->name);
		snprintf(x->title, sizeof(x->title), "%s %u", x->label, p->pid);
	}
	for (size_t i = 0; i < v->process_count; i++)
		v->processes[i].pid = v->processes[v->processes[i].owner].pid;
	return 0;
}

static bool uses_gpu(const struct export_view *v, size_t process)
{
	for (int k = 0; k < WORK_KINDS; k++)
		if (v->work[k].rows &&
		    trace_first_row(v->trace, v->work[k].table, process) <
			    trace_first_row(v->trace, v->work[k].table, process + 1))
			return true;
	return false;
}

static void find_gpu_process(struct export_view *v)
{
	size_t users = 0;

	v->gpu_process = v->process_count ? v->processes[0].owner : NO_PROCESS;
	for (size_t i = 0; i < v->process_count; i++)
		if (uses_gpu(v, i) && users++ == 0)
			v->gpu_process = v->processes[i].owner;
	if (users > 1)
		v->gpu_process = NO_PROCESS;
}

static uint64_t largest(const uint64_t *values, uint64_t row, uint64_t end)
{
	uint64_t max = 0;

	for (; row < end; row++)
		max = MAX(max, values[row]);
	return max;
}

/* Correlation ids are unique per process only; consecutive ranges make them unique in the trace. */
static void assign_correlation_bases(struct export_view *v)
{
	uint64_t base = 0;

	for (size_t p = 0; p < v->process_count; p++) {
		uint64_t max = 0;

		v->processes[p].correlation_base = base;
		for (int k = 0; k < WORK_KINDS; k++)
			if (v->work[k].rows && v->work[k].correlation)
				max = MAX(max,
					  largest(v->work[k].correlation,
						  trace_first_row(v->trace, v->work[k].table, p),
						  trace_first_row(v->trace, v->work[k].table,
								  p + 1)));
		if (v->calls)
			max = MAX(max, largest(v->call->correlation,
					       trace_first_row(v->trace, TABLE_api_call, p),
					       trace_first_row(v->trace, TABLE_api_call, p + 1)));
		base += max;
	}
}

static int map_threads(struct export_view *v)
{
	uint64_t rows = trace_rows(v->trace, TABLE_thread);
	const uint32_t *tids = thread_columns(v->trace)->tid;

	for (uint64_t row = 0; row < rows; row++) {
		size_t session = trace_row_process(v->trace, TABLE_thread, row);
		uint64_t process = v->processes[session].owner, known;

		/* Names recorded by the process itself override names seen by a sampler. */
		if (process != session &&
		    map_get(&v->thread_names, process << 32 | tids[row], &known))
			continue;
		if (map_put(&v->thread_names, process << 32 | tids[row], row) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int map_contexts(struct export_view *v)
{
	uint64_t rows = trace_rows(v->trace, TABLE_context);
	const uint32_t *ids = context_columns(v->trace)->id;
	const uint32_t *devices = context_columns(v->trace)->device;
	_cleanup_(map_release) struct map contexts =
		MAP_INIT; /* process << 32 | device -> first context + 1 */
	int r = 0;

	for (uint64_t row = 0; row < rows && r >= 0; row++) {
		uint64_t process = trace_row_process(v->trace, TABLE_context, row), other = 0;

		r = map_put(&v->context_devices, process << 32 | ids[row], devices[row]);
		if (map_get(&contexts, process << 32 | devices[row], &other))
			v->many_contexts |= other != ids[row] + UINT64_C(1);
		else if (r >= 0)
			r = map_put(&contexts, process << 32 | devices[row],
				    ids[row] + UINT64_C(1));
	}
	return MIN(r, 0);
}

static int map_external(struct export_view *v)
{
	const struct trace *t = v->trace;
	uint64_t rows = trace_rows(t, TABLE_external_correlation);
	const uint64_t *ids = external_correlation_columns(t)->id;
	const uint64_t *correlations = external_correlation_columns(t)->correlation;

	for (uint64_t row = 0; row < rows; row++) {
		size_t process = trace_row_process(t, TABLE_external_correlation, row);

		if (map_put(&v->external, export_correlation(v, process, correlations[row]),
			    ids[row]) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int compute_range_ends(struct export_view *v)
{
	uint64_t rows = trace_rows(v->trace, TABLE_nvtx);
	const uint64_t *time_ns = nvtx_columns(v->trace)->time_ns;
	const uint8_t *kind = nvtx_columns(v->trace)->kind;

	v->nvtx_end_ns = calloc(rows + 1, sizeof(*v->nvtx_end_ns));
	if (!v->nvtx_end_ns)
		return -ENOMEM;
	for (size_t i = 0; i < v->ranges.count; i++) {
		const struct nvtx_range *range = &v->ranges.items[i];

		v->nvtx_end_ns[range->row] = range->open ? NVTX_OPEN : range->end_ns;
	}
	for (uint64_t row = 0; row < rows; row++)
		if (kind[row] == nvtx_kind_mark)
			v->nvtx_end_ns[row] = time_ns[row];
	v->result->unpaired = v->ranges.unmatched;
	return 0;
}

/*
 * Builds each call's list of launched work, in table order. Rows are prepended, so iterate
 * backwards.
 */
static int link_work(struct export_view *v, struct error *e)
{
	uint64_t count = 0;

	for (int k = 0; k < WORK_KINDS; k++) {
		v->work_base[k] = (uint32_t)count;
		count += v->work[k].rows;
		if (count >= NO_WORK)
			return error_set(e, E_LIMIT, "more than %u rows of GPU work", NO_WORK - 1);
	}
	v->first_work = malloc((v->calls + 1) * sizeof(*v->first_work));
	v->next_work = malloc((count + 1) * sizeof(*v->next_work));
	if (!v->first_work || !v->next_work)
		return error_set(e, -ENOMEM, "out of memory");
	memset(v->first_work, 0xff, v->calls * sizeof(*v->first_work));
	for (int k = WORK_KINDS; k-- > 0;) {
		const struct event_columns *w = &v->work[k];

		for (uint64_t row = w->rows; row-- > 0;) {
			uint32_t call;

			if (!work_is_selected(v, w, row))
				continue;
			call = work_call(v, w, row);
			if (call == TRACE_NO_ROW)
				continue;
			v->next_work[work_number(v, w, row)] = v->first_work[call];
			v->first_work[call] = work_number(v, w, row);
		}
	}
	return 0;
}

static int load_all(struct export_view *v, struct error *e)
{
	struct filter filter = FILTER_ALL;
	int r;

	filter.since_ns = v->options->since_ns;
	filter.until_ns = v->options->until_ns;
	filter.kernel = v->options->kernel;
	filter.scope = v->options->scope;
	r = load_calls(v, e);
	if (r >= 0)
		r = nvtx_ranges_init(&v->ranges, v->trace, SCOPES_ALL,
				     trace_rows(v->trace, TABLE_nvtx) > 0, e);
	if (r >= 0)
		r = selection_init(&v->selection, v->trace, &filter, &v->ranges, e);
	for (int k = 0; k < WORK_KINDS && r >= 0; k++)
		r = load_work(v, k, e);
	if (r >= 0 && trace_rows(v->trace, TABLE_range_value))
		r = trace_launches(v->trace, TABLE_range_value, &v->range_launches, e);
	trace_launches_done(v->trace);
	if (r >= 0)
		r = load_small_tables(v, e);
	if (r >= 0)
		r = gpus_init(&v->gpus, v->trace, e);
	return r;
}

static int add_level(void *levels, uint64_t row, uint64_t bytes)
{
	((uint64_t *)levels)[row] = bytes;
	return 0;
}

static int find_memory_levels(struct export_view *v)
{
	size_t size = trace_rows(v->trace, TABLE_allocation) * sizeof(*v->memory_levels);
	struct memory_use use;
	int r;

	v->memory_levels = malloc(size + 1);
	if (!v->memory_levels)
		return -ENOMEM;
	memset(v->memory_levels, 0xff, size); /* NO_LEVEL */
	r = memory_use_find(&use, v->trace, &v->selection);
	for (size_t i = 0; i < use.count && r == 0; i++)
		r = memory_curve(&use, i, add_level, v->memory_levels);
	memory_use_release(&use);
	return r;
}

void export_memory_name(const struct export_view *v, uint32_t process, uint64_t row,
			struct strbuf *out)
{
	const struct allocation_columns *a = allocation_columns(v->trace);
	const char *kind = schema_value_name(
		&schema_table(TABLE_allocation)->columns[COLUMN_allocation_kind], a->kind[row]);

	strbuf_addf(out, "memory: %s, GPU %zu", kind ? kind : "?",
		    gpus_find(&v->gpus, process, a->device[row]));
}

int export_view_init(struct export_view *v, struct trace *t, const struct export_options *options,
		     struct export_result *result, bool gpu_pids, struct error *e)
{
	int r;

	*v = (struct export_view){ .trace = t, .options = options, .result = result };
	r = load_all(v, e);
	if (r < 0)
		goto fail;
	r = assign_pids(v, gpu_pids ? MAX((uint32_t)v->gpus.count, GPU_PIDS) : 0);
	if (r >= 0)
		r = map_contexts(v);
	if (r >= 0)
		r = map_threads(v);
	if (r >= 0)
		r = nvtx_names_init(&v->names, v->trace);
	if (r >= 0) {
		find_gpu_process(v);
		assign_correlation_bases(v);
		r = map_external(v);
	}
	if (r >= 0)
		r = compute_range_ends(v);
	if (r >= 0)
		r = metric_values_init(&v->metrics, v->trace);
	if (r >= 0)
		r = range_values_init(v);
	if (r >= 0)
		r = find_memory_levels(v);
	if (r < 0) {
		error_set(e, r, "out of memory");
		goto fail;
	}
	r = link_work(v, e);
	if (r < 0)
		goto fail;
	return 0;
fail:
	export_view_release(v);
	return r;
}

void export_view_release(struct export_view *v)
{
	selection_release(&v->selection);
	gpus_release(&v->gpus);
	free(v->memory_levels);
	map_release(&v->context_devices);
	map_release(&v->thread_names);
	map_release(&v->external);
	metric_values_release(&v->metrics);
	map_release(&v->range_slices);
	nvtx_names_release(&v->names);
	nvtx_ranges_release(&v->ranges);
	strbuf_release(&v->scope_text);
	free(v->processes);
	free(v->first_work);
	free(v->next_work);
	free(v->nvtx_end_ns);
	*v = (struct export_view){ 0 };
}

size_t work_gpu(const struct export_view *v, const struct event_columns *w, size_t process,
		uint64_t row)
{
	uint64_t device = 0;

	if (w->device)
		device = w->device[row];
	else
		map_get(&v->context_devices, (uint64_t)process << 32 | w->context[row], &device);
	return gpus_find(&v->gpus, process, (uint32_t)device);
}

/* Returns the string id of a STRING column; 0 if the value is missing. */
static uint32_t export_string(const struct export_view *v, enum table_id table, int column,
			      uint64_t row)
{
	const uint32_t *ids = trace_u32(v->trace, table, column);
	const uint8_t *valid = trace_valid(v->trace, table, column);

	return ids && (!valid || valid[row]) ? ids[row] : 0;
}

const char *export_text(const struct export_view *v, enum table_id table, int column, uint64_t row,
			size_t *length)
{
	uint32_t id = export_string(v, table, column, row);

	*length = trace_string_length(v->trace, id);
	return trace_string(v->trace, id);
}

bool export_range(const struct export_view *v, uint32_t process, uint64_t row,
		  struct export_range *range)
{
	const struct nvtx_columns *c = nvtx_columns(v->trace);
	const struct nvtx_ranges *n = &v->ranges;
	size_t length, i = sorted_prefix(n->count, k, n->items[k].row < row);
	bool is_range = i < n->count && n->items[i].row == row;

	*range = (struct export_range){ .text = export_string(v, TABLE_nvtx, COLUMN_nvtx_message,
							      row),
					.continues = SCOPE_NONE };
	if (is_range && nvtx_scope(n->items, (uint32_t)i) != i) {
		range->continues = n->items[i].path;
		if (range->continues != SCOPE_NONE)
			range->text = n->paths[range->continues].message;
	}
	if (column_has(c->valid.payload_kind, row) && c->payload_kind[row] == nvtx_payload_runs &&
	    column_has(c->valid.payload, row))
		range->runs = c->payload[row];
	return !strcmp(nvtx_domain_name(&v->names, process, c->domain[row], &length), SCOPE_DOMAIN);
}

const char *export_scope(struct export_view *v, uint32_t path, size_t *length)
{
	if (path != v->scope || !v->scope_text.length) {
		strbuf_clear(&v->scope_text);
		scope_path_text(&v->ranges, v->trace, path, &v->scope_text);
		v->scope = path;
	}
	*length = v->scope_text.length;
	return strbuf_text(&v->scope_text);
}

int export_view_load_samples(struct export_view *v, struct error *e)
{
	int r;

	if (v->options->no_stacks)
		return 0;
	r = trace_load(v->trace, TABLE_cpu_sample, 0, e);
	if (r >= 0)
		r = trace_load(v->trace, TABLE_off_cpu, 0, e);
	v->with_samples = r >= 0;
	return r;
}

/* Returns the name of a thread, or NULL if it has none. */
static const char *export_thread_name(const struct export_view *v, uint32_t process,
				      uint32_t thread, size_t *length)
{
	uint64_t row;

	if (!map_get(&v->thread_names, (uint64_t)process << 32 | thread, &row))
		return NULL;
	return export_text(v, TABLE_thread, COLUMN_thread_name, row, length);
}

void export_thread_title(const struct export_view *v, uint32_t process, uint32_t thread,
			 struct strbuf *out)
{
	size_t length = 0;
	const char *name = export_thread_name(v, process, thread, &length);

	strbuf_addf(out, "thread %u", thread);
	if (!length)
		return;
	strbuf_adds(out, " (");
	strbuf_add(out, name, length);
	strbuf_addc(out, ')');
}
