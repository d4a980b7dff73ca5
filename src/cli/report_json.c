#include "cli/report_json.h"

#include <string.h>

#include "analysis/occupancy.h"
#include "base/json.h"
#include "cli/report_lines.h"
#include "symbol/demangle.h"

struct view {
	struct json j;
	const struct report *r;
	uint64_t origin_ns; /* start of the recording: times are given from there */
	uint64_t top, callers;
};

static void key_time(struct view *v, const char *key, uint64_t time_ns)
{
	json_key_u64(&v->j, key, time_ns - MIN(time_ns, v->origin_ns));
}

static void key_name(struct view *v, const char *key, enum table_id table, int column,
		     uint8_t value)
{
	const char *name = schema_value_name(&schema_table(table)->columns[column], value);

	json_key_string(&v->j, key, name ? name : "unknown");
}

static void key_list(struct view *v, const char *key)
{
	json_key(&v->j, key);
	json_array(&v->j);
}

static void key_object(struct view *v, const char *key)
{
	json_key(&v->j, key);
	json_object(&v->j);
}

static void key_stats(struct view *v, const char *key, const struct duration_stats *s)
{
	key_object(v, key);
	json_key_u64(&v->j, "count", s->count);
	if (s->count) {
		json_key_u64(&v->j, "total_ns", s->total_ns);
		json_key_u64(&v->j, "mean_ns", stats_mean_ns(s));
		json_key_u64(&v->j, "median_ns", s->median_ns);
		json_key_u64(&v->j, "p99_ns", s->p99_ns);
		json_key_u64(&v->j, "min_ns", s->min_ns);
		json_key_u64(&v->j, "max_ns", s->max_ns);
	}
	json_end(&v->j);
}

static void key_thread(struct view *v, uint32_t process, uint32_t thread)
{
	json_key_u64(&v->j, "pid", trace_process(v->r->trace, process)->pid);
	json_key_u64(&v->j, "thread", thread);
	json_key_string(&v->j, "thread_name", report_thread_name(v->r, process, thread));
}

/* Whether a sampler outside wrote about the process. */
static bool is_sampled(const struct trace *t, size_t process)
{
	for (size_t i = 0; i < trace_process_count(t); i++)
		if (trace_process(t, i)->of == process && trace_process(t, i)->sampler)
			return true;
	return false;
}

static void write_identity(struct view *v, const char *path)
{
	const struct trace *t = v->r->trace;

	json_key_string(&v->j, "recording", path);
	json_key_i64(&v->j, "start_unix_ns", trace_unix_ns(t, v->origin_ns));
	json_key_u64(&v->j, "duration_ns", v->r->span_end_ns - v->origin_ns);
	key_object(v, "window");
	key_time(v, "start_ns", v->r->start_ns);
	key_time(v, "end_ns", v->r->end_ns);
	json_end(&v->j);
	key_list(v, "processes");
	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->of != i)
			continue;
		json_object(&v->j);
		json_key_u64(&v->j, "pid", p->pid);
		json_key_u64(&v->j, "parent_pid", p->parent_pid);
		json_key_string(&v->j, "command", p->command);
		json_key_string(&v->j, "host", p->host);
		json_key_bool(&v->j, "recorded", p->inside && !p->sampler);
		json_key_bool(&v->j, "sampled", is_sampled(t, i));
		json_end(&v->j);
	}
	json_end(&v->j);
}

static const char *verdict_key(enum verdict_kind kind)
{
	static const char *const keys[VERDICT_KINDS] = {
		[VERDICT_NO_WORK] = "no_work",  [VERDICT_GPU] = "gpu",
		[VERDICT_LAUNCH] = "launch",    [VERDICT_COPY] = "copy",
		[VERDICT_SYNC] = "synchronize", [VERDICT_LATENCY] = "latency",
		[VERDICT_HOST] = "host",        [VERDICT_IDLE] = "idle",
	};

	return keys[kind];
}

static void write_start_up(struct view *v)
{
	const struct verdict *verdict = &v->r->verdict, *later = &v->r->later;
	struct strbuf sentence = STRBUF_INIT;

	if (!verdict->start_up.pieces) {
		json_key_string(&v->j, "start_up", NULL);
		return;
	}
	verdict_sentence(later, &sentence);
	key_object(v, "start_up");
	json_key_u64(&v->j, "pieces", verdict->start_up.pieces);
	json_key_u64(&v->j, "all_pieces", verdict->pieces);
	json_key_u64(&v->j, "length_ns", verdict->start_up.length_ns);
	json_key_u64(&v->j, "end_ns", verdict->start_up.end_ns - v->r->span_start_ns);
	json_key_string(&v->j, "later_kind", verdict_key(later->kind));
	json_key_string(&v->j, "later_evidence", strbuf_text(&sentence));
	json_end(&v->j);
	strbuf_release(&sentence);
}

static void write_verdict(struct view *v)
{
	const struct verdict *verdict = &v->r->verdict;
	struct strbuf sentence = STRBUF_INIT;

	verdict_sentence(verdict, &sentence);
	key_object(v, "verdict");
	json_key_string(&v->j, "kind", verdict_key(verdict->kind));
	json_key_string(&v->j, "text", verdict_name(verdict->kind));
	json_key_string(&v->j, "evidence", strbuf_text(&sentence));
	json_key_string(&v->j, "advice", verdict_advice(verdict->kind));
	json_key_string(&v->j, "no_gpu_data",
			v->r->no_gpu.length ? strbuf_text(&v->r->no_gpu) : NULL);
	if (verdict->kind != VERDICT_NO_WORK) {
		json_key_u64(&v->j, "gpu", verdict->gpu);
		json_key_u64(&v->j, "span_ns", verdict->span_ns);
		json_key_u64(&v->j, "busy_ns", verdict->busy_ns);
		json_key_u64(&v->j, "exposed_copy_ns", verdict->exposed_copy_ns);
		json_key_u64(&v->j, "pauses", verdict->pauses);
		json_key_u64(&v->j, "pause_ns", verdict->pause_ns);
		json_key_u64(&v->j, "synchronize_ns", verdict->part_ns[IDLE_PART_SYNC]);
		json_key_u64(&v->j, "copy_ns", verdict->part_ns[IDLE_PART_COPY]);
		json_key_u64(&v->j, "launch_ns", verdict->part_ns[IDLE_PART_LAUNCH]);
		json_key_u64(&v->j, "latency_ns", verdict->part_ns[IDLE_PART_LATENCY]);
		json_key_u64(&v->j, "host_ns", verdict->part_ns[IDLE_PART_HOST]);
		json_key_u64(&v->j, "unknown_ns", verdict->part_ns[IDLE_PART_UNKNOWN]);
		write_start_up(v);
	}
	json_end(&v->j);
	strbuf_release(&sentence);
}

/* Index n: time with exactly n at once; the last one: or more. */
static void key_levels(struct view *v, const char *key, const uint64_t *levels)
{
	size_t count = BUSY_LEVELS;

	while (count > 1 && !levels[count - 1])
		count--;
	key_list(v, key);
	for (size_t i = 0; i < count; i++)
		json_u64(&v->j, levels[i]);
	json_end(&v->j);
}

static void write_busy(struct view *v, const struct gpu_busy *b)
{
	static const char *const kinds[GPU_WORK_KINDS] = {
		[GPU_WORK_kernel] = "kernels",
		[GPU_WORK_memcpy] = "copies",
		[GPU_WORK_memset] = "sets",
		[GPU_WORK_graph_launch] = "graphs",
	};
	uint64_t sum = 0;

	key_object(v, "busy");
	for (int i = 0; i < GPU_WORK_KINDS; i++) {
		key_object(v, kinds[i]);
		json_key_u64(&v->j, "count", b->count[i]);
		json_key_u64(&v->j, "sum_ns", b->sum_ns[i]);
		json_end(&v->j);
		sum += b->sum_ns[i];
	}
	json_key_u64(&v->j, "sum_ns", sum);
	json_key_u64(&v->j, "union_ns", b->union_ns);
	json_key_u64(&v->j, "compute_ns", b->compute_ns);
	json_key_u64(&v->j, "copy_ns", b->copy_ns);
	json_key_u64(&v->j, "overlap_ns", b->overlap_ns);
	key_time(v, "first_ns", b->first_ns);
	key_time(v, "last_ns", b->last_ns);
	key_levels(v, "streams_ns", b->streams_ns);
	key_levels(v, "pieces_ns", b->pieces_ns);
	json_end(&v->j);
}

static void write_idle(struct view *v, const struct gpu_idle *g)
{
	key_object(v, "idle");
	json_key_u64(&v->j, "total_ns", g->total_ns);
	key_object(v, "cause_ns");
	for (int i = 0; i < IDLE_CAUSES; i++)
		json_key_u64(&v->j, idle_cause_name((enum idle_cause)i), g->cause_ns[i]);
	json_end(&v->j);
	key_list(v, "gaps");
	for (int i = 0; i < IDLE_SIZES; i++) {
		json_object(&v->j);
		json_key(&v->j, "below_ns");
		if (idle_size_limits_ns[i] == UINT64_MAX)
			json_null(&v->j);
		else
			json_u64(&v->j, idle_size_limits_ns[i]);
		json_key_u64(&v->j, "count", g->gaps[i]);
		json_key_u64(&v->j, "total_ns", g->gaps_ns[i]);
		json_end(&v->j);
	}
	json_end(&v->j);
	json_key_u64(&v->j, "after_synchronize", g->after_sync);
	json_key_u64(&v->j, "after_copy", g->after_copy);
	key_list(v, "longest");
	for (int i = 0; i < IDLE_LONGEST && g->longest[i].length_ns; i++) {
		json_object(&v->j);
		key_time(v, "start_ns", g->longest[i].start_ns);
		json_key_u64(&v->j, "length_ns", g->longest[i].length_ns);
		json_end(&v->j);
	}
	json_end(&v->j);
	json_end(&v->j);
}

static void write_gpus(struct view *v)
{
	const struct report *r = v->r;

	key_list(v, "gpus");
	for (size_t i = 0; i < r->gpus.count; i++) {
		json_object(&v->j);
		json_key_u64(&v->j, "gpu", i);
		json_key_u64(&v->j, "ordinal", r->gpus.items[i].ordinal);
		json_key_string(&v->j, "name", r->gpus.items[i].name);
		json_key_string(&v->j, "uuid", r->gpus.items[i].uuid);
		if (r->busy.gpus[i].last_ns) {
			write_busy(v, &r->busy.gpus[i]);
			write_idle(v, &r->idle.gpus[i]);
		}
		json_end(&v->j);
	}
	json_end(&v->j);
	json_key_u64(&v->j, "untimed", r->busy.untimed);
}

static uint64_t config_value(const struct report *r, uint32_t config, int column)
{
	return trace_value(r->trace, TABLE_kernel_config, column, config, NULL);
}

static void write_config(struct view *v, const struct hotspot *h)
{
	static const int dimensions[] = {
		COLUMN_kernel_config_grid_x,  COLUMN_kernel_config_grid_y,
		COLUMN_kernel_config_grid_z,  COLUMN_kernel_config_block_x,
		COLUMN_kernel_config_block_y, COLUMN_kernel_config_block_z
	};
	const struct report *r = v->r;
	struct occupancy o;

	key_object(v, "config");
	json_key_u64(&v->j, "count", h->config_count);
	for (int i = 0; i < 6; i++) {
		if (i % 3 == 0)
			key_list(v, i ? "block" : "grid");
		json_u64(&v->j, config_value(r, h->config, dimensions[i]));
		if (i % 3 == 2)
			json_end(&v->j);
	}
	json_key_u64(&v->j, "registers",
		     config_value(r, h->config, COLUMN_kernel_config_registers));
	json_key_u64(&v->j, "static_shared_bytes",
		     config_value(r, h->config, COLUMN_kernel_config_static_shared_bytes));
	json_key_u64(&v->j, "dynamic_shared_bytes",
		     config_value(r, h->config, COLUMN_kernel_config_dynamic_shared_bytes));
	if (occupancy_of_rows(r->trace, r->gpus.items[h->device].row, h->config, &o) == 0) {
		key_object(v, "occupancy");
		json_key_u64(&v->j, "warps", o.warps);
		json_key_u64(&v->j, "max_warps", o.max_warps);
		json_key_u64(&v->j, "blocks", o.blocks);
		json_key_string(&v->j, "limiter", occupancy_limiter_name(o.limiter));
		json_key_fixed(&v->j, "waves", (int64_t)o.waves_milli, 3);
		json_end(&v->j);
	}
	json_end(&v->j);
}

/* What the group is, by the key that its kind has. */
static void write_group_keys(struct view *v, const struct hotspot *h)
{
	const struct report *r = v->r;
	enum hotspot_by by = r->hotspots.by;
	const char *name;
	struct strbuf text = STRBUF_INIT;

	report_hotspot_name(r, h, false, &text);
	json_key_string(&v->j, "label", strbuf_text(&text));
	strbuf_clear(&text);
	if ((by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG) && h->config != TRACE_NO_ROW) {
		name = trace_string(
			r->trace, (uint32_t)config_value(r, h->config, COLUMN_kernel_config_name));
		demangle(name, &text);
		json_key_string(&v->j, "name", strbuf_text(&text));
		json_key_string(&v->j, "symbol", name);
	} else if (by == HOTSPOT_STREAM) {
		json_key_u64(&v->j, "pid", trace_process(r->trace, h->process)->pid);
		json_key_u64(&v->j, "stream", h->key);
	} else if (by == HOTSPOT_DEVICE) {
		json_key_u64(&v->j, "gpu", h->key);
	} else if (by == HOTSPOT_THREAD && h->key != HOTSPOT_NO_KEY) {
		key_thread(v, h->process, h->key);
	} else if (by == HOTSPOT_NVTX && h->key != HOTSPOT_NO_KEY) {
		json_key_string(&v->j, "range", trace_string(r->trace, h->key));
	} else if (by == HOTSPOT_CALLER) {
		report_json_caller(&v->j, r, "caller", h->key);
	}
	strbuf_release(&text);
}

static void write_hotspots(struct view *v)
{
	static const char *const names[HOTSPOT_KINDS] = { "kernel", "config", "stream", "device",
							  "thread", "nvtx",   "caller" };
	const struct hotspots *h = &v->r->hotspots;

	key_object(v, "hotspots");
	json_key_string(&v->j, "by", names[h->by]);
	json_key_u64(&v->j, "kernels", h->kernels);
	json_key_u64(&v->j, "untimed", h->untimed);
	json_key_u64(&v->j, "total_ns", h->total_ns);
	json_key_u64(&v->j, "groups", h->count);
	key_list(v, "items");
	for (size_t i = 0; i < MIN(h->count, v->top); i++) {
		json_object(&v->j);
		write_group_keys(v, &h->items[i]);
		key_stats(v, "time", &h->items[i].time);
		json_key_u64(&v->j, "untimed", h->items[i].untimed);
		if ((h->by == HOTSPOT_KERNEL || h->by == HOTSPOT_CONFIG) &&
		    h->items[i].config != TRACE_NO_ROW)
			write_config(v, &h->items[i]);
		if (v->callers && h->items[i].caller_count)
			report_json_callers(&v->j, v->r, &h->items[i], v->callers);
		json_end(&v->j);
	}
	json_end(&v->j);
	json_end(&v->j);
}

static void write_copies(struct view *v)
{
	key_list(v, "copies");
	for (size_t i = 0; i < MIN(v->r->copies.count, v->top); i++) {
		const struct copy_group *g = &v->r->copies.items[i];

		json_object(&v->j);
		json_key_bool(&v->j, "set", g->set);
		if (!g->set) {
			key_name(v, "kind", TABLE_memcpy, COLUMN_memcpy_kind, g->kind);
			key_name(v, "source", TABLE_memcpy, COLUMN_memcpy_source_kind, g->source);
		}
		key_name(v, "destination", TABLE_memset, COLUMN_memset_memory_kind, g->destination);
		json_key_u64(&v->j, "count", g->count);
		json_key_u64(&v->j, "bytes", g->bytes);
		json_key_u64(&v->j, "async", g->async);
		json_key_u64(&v->j, "timed", g->timed);
		json_key_u64(&v->j, "timed_bytes", g->timed_bytes);
		json_key_u64(&v->j, "total_ns", g->total_ns);
		json_end(&v->j);
	}
	json_end(&v->j);
}

static void write_syncs(struct view *v)
{
	const struct syncs *s = &v->r->syncs;
	const struct column_schema *kind =
		&schema_table(TABLE_api_function)->columns[COLUMN_api_function_kind];

	key_list(v, "calls");
	for (size_t i = 0; i < MIN(s->count, v->top); i++) {
		const struct call_group *g = &s->items[i];
		size_t length;
		const char *name = calls_function_name(v->r->trace, g->function, &length);

		json_object(&v->j);
		json_key(&v->j, "function");
		json_bytes(&v->j, name, length);
		json_key_string(&v->j, "kind", schema_value_name(kind, g->kind));
		key_thread(v, g->process, g->thread);
		json_key_u64(&v->j, "count", g->count);
		json_key_u64(&v->j, "total_ns", g->total_ns);
		json_key_u64(&v->j, "max_ns", g->max_ns);
		json_end(&v->j);
	}
	json_end(&v->j);
	key_list(v, "synchronizations");
	for (uint8_t i = 0; i < SYNC_KINDS; i++) {
		if (!s->kinds[i].count)
			continue;
		json_object(&v->j);
		key_name(v, "kind", TABLE_synchronization, COLUMN_synchronization_kind, i);
		json_key_u64(&v->j, "count", s->kinds[i].count);
		json_key_u64(&v->j, "timed", s->kinds[i].timed);
		json_key_u64(&v->j, "total_ns", s->kinds[i].total_ns);
		json_end(&v->j);
	}
	json_end(&v->j);
}

static void write_launches(struct view *v)
{
	const struct launches *l = &v->r->launches;

	key_object(v, "launches");
	key_stats(v, "kernel_calls", &l->kernel_calls);
	key_stats(v, "graph_calls", &l->graph_calls);
	key_stats(v, "queue_delay", &l->delay);
	json_key_u64(&v->j, "started_in_call", l->in_call);
	json_key_u64(&v->j, "started_before_call", l->before_call);
	json_key_u64(&v->j, "kernels_without_call", l->unmatched);
	json_key_u64(&v->j, "failed", l->failed);
	key_list(v, "threads");
	for (size_t i = 0; i < MIN(l->thread_count, v->top); i++) {
		json_object(&v->j);
		key_thread(v, l->threads[i].process, l->threads[i].thread);
		json_key_u64(&v->j, "count", l->threads[i].count);
		json_key_u64(&v->j, "total_ns", l->threads[i].host_ns);
		json_end(&v->j);
	}
	json_end(&v->j);
	json_end(&v->j);
}

static void write_graphs(struct view *v)
{
	key_list(v, "graphs");
	for (size_t i = 0; i < MIN(v->r->graphs.count, v->top); i++) {
		const struct graph_group *g = &v->r->graphs.items[i];

		json_object(&v->j);
		json_key_u64(&v->j, "pid", trace_process(v->r->trace, g->process)->pid);
		json_key_u64(&v->j, "graph", g->graph);
		json_key_u64(&v->j, "launches", g->launches);
		json_key_u64(&v->j, "nodes", g->nodes);
		json_key_u64(&v->j, "node_ns", g->node_ns);
		key_stats(v, "replay", &g->replay);
		json_end(&v->j);
	}
	json_end(&v->j);
}

static void write_memory(struct view *v)
{
	key_list(v, "memory");
	for (size_t i = 0; i < MIN(v->r->memory.count, v->top); i++) {
		const struct memory_group *g = &v->r->memory.items[i];

		json_object(&v->j);
		json_key_u64(&v->j, "pid", trace_process(v->r->trace, g->process)->pid);
		json_key_u64(&v->j, "device", g->device);
		key_name(v, "kind", TABLE_allocation, COLUMN_allocation_kind, g->kind);
		json_key_u64(&v->j, "allocations", g->allocations);
		json_key_u64(&v->j, "allocated_bytes", g->allocated_bytes);
		json_key_u64(&v->j, "releases", g->releases);
		json_key_u64(&v->j, "unknown_releases", g->unknown_releases);
		json_key_u64(&v->j, "peak_bytes", g->peak_bytes);
		key_time(v, "peak_time_ns", g->peak_ns);
		json_key_u64(&v->j, "live", g->live);
		json_key_u64(&v->j, "live_bytes", g->live_bytes);
		json_end(&v->j);
	}
	json_end(&v->j);
}

static void write_cost(struct view *v)
{
	const struct cost *c = &v->r->cost;

	key_list(v, "loss");
	for (size_t i = 0; i < c->loss_count; i++) {
		const struct loss_sum *l = &c->losses[i];

		json_object(&v->j);
		json_key_string(&v->j, "reason", loss_reason_name(l->reason));
		json_key_u64(&v->j, "count", l->count);
		json_key_bool(&v->j, "count_is_least", l->unknown);
		json_key_string(&v->j, "detail", l->detail);
		key_time(v, "start_ns", l->start_ns);
		key_time(v, "end_ns", l->end_ns);
		json_end(&v->j);
	}
	json_end(&v->j);
	key_object(v, "cost");
	for (unsigned i = 0; i < COST_KINDS; i++) {
		if (!c->kinds[i].any)
			continue;
		key_object(v, cost_kind_name(i));
		json_key_u64(&v->j, "count", c->kinds[i].count);
		json_key_u64(&v->j, "total_ns", c->kinds[i].total_ns);
		json_key_u64(&v->j, "bytes", c->kinds[i].bytes);
		json_end(&v->j);
	}
	json_key_u64(&v->j, "target_ns", c->target_ns);
	json_key_u64(&v->j, "cupti_overhead_ns", c->overhead_ns);
	json_end(&v->j);
}

void report_print_json(const struct report *r, const char *path, uint64_t top, uint64_t callers,
		       struct strbuf *out)
{
	struct view v = { .j = JSON_PRETTY(out),
			  .r = r,
			  .origin_ns = r->span_start_ns,
			  .top = top,
			  .callers = callers };

	json_object(&v.j);
	write_identity(&v, path);
	write_verdict(&v);
	write_gpus(&v);
	write_hotspots(&v);
	write_copies(&v);
	report_json_idle_lines(&v.j, r, top);
	write_syncs(&v);
	report_json_blocked(&v.j, r, top);
	report_json_cpu(&v.j, r, top);
	write_launches(&v);
	write_graphs(&v);
	write_memory(&v);
	write_cost(&v);
	json_end(&v.j);
	strbuf_addc(out, '\n');
}
