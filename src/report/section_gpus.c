/* section_gpus.c: how busy each GPU was. */
#include "report/section.h"

#include <string.h>

#include "analysis/busy.h"
#include "analysis/idle.h"
#include "base/human.h"

static uint64_t gpu_sum(const struct gpu_busy *b)
{
	uint64_t sum = 0;

	for (int i = 0; i < GPU_WORK_KINDS; i++)
		sum += b->sum_ns[i];
	return sum;
}

/* What ran beside what, where more than one kind or more than one stream did. */
static void add_mix(const struct gpu_busy *b, size_t gpu, struct strbuf *out)
{
	if (b->copy_ns && b->compute_ns) {
		strbuf_addf(out, "GPU %zu: kernels alone ", gpu);
		human_duration(out, b->compute_ns - b->overlap_ns);
		strbuf_adds(out, ", copies alone ");
		human_duration(out, b->copy_ns - b->overlap_ns);
		strbuf_adds(out, ", both at once ");
		human_duration(out, b->overlap_ns);
		strbuf_addc(out, '\n');
	}
	if (b->count[GPU_WORK_graph_launch]) {
		strbuf_addf(out, "GPU %zu: besides ", gpu);
		human_count(out, b->count[GPU_WORK_graph_launch]);
		strbuf_adds(out, " graphs that were recorded as a whole, ");
		human_duration(out, b->sum_ns[GPU_WORK_graph_launch]);
		strbuf_addc(out, '\n');
	}
	if (b->max_pieces < 2)
		return;
	strbuf_addf(out, "GPU %zu: streams at once", gpu);
	for (unsigned n = 1; n < BUSY_LEVELS; n++) {
		if (!b->streams_ns[n])
			continue;
		strbuf_addf(out, " %u%s: ", n, n == BUSY_LEVELS - 1 ? "+" : "");
		human_percent(out, b->streams_ns[n], b->union_ns);
		strbuf_addc(out, ',');
	}
	strbuf_addf(out, " at most %llu pieces of work\n", (unsigned long long)b->max_pieces);
}

static const struct gpu_busy *busy_of(const struct report_view *v, const void *gpu)
{
	return &v->report->busy->gpus[(const struct gpu *)gpu - v->report->gpus.items];
}

static void read_index(const struct report_view *v, const void *gpu, struct value *out)
{
	out->n = (uint64_t)((const struct gpu *)gpu - v->report->gpus.items);
}

/* Index n: time with exactly n at once; the last one: or more. */
static void write_levels(struct report_view *v, const char *key, const uint64_t *levels)
{
	size_t count = BUSY_LEVELS;

	while (count > 1 && !levels[count - 1])
		count--;
	report_json_list(v, key);
	for (size_t i = 0; i < count; i++)
		json_u64(&v->json, levels[i]);
	json_end(&v->json);
}

static void write_busy(struct report_view *v, const struct gpu_busy *b)
{
	static const char *const kinds[GPU_WORK_KINDS] = {
		[GPU_WORK_kernel] = "kernels",
		[GPU_WORK_memcpy] = "copies",
		[GPU_WORK_memset] = "sets",
		[GPU_WORK_graph_launch] = "graphs",
	};
	uint64_t sum = 0;

	report_json_object(v, "busy");
	for (int i = 0; i < GPU_WORK_KINDS; i++) {
		report_json_object(v, kinds[i] ? kinds[i] : schema_gpu_work[i]->name);
		json_key_u64(&v->json, "count", b->count[i]);
		json_key_u64(&v->json, "sum_ns", b->sum_ns[i]);
		json_end(&v->json);
		sum += b->sum_ns[i];
	}
	json_key_u64(&v->json, "sum_ns", sum);
	json_key_u64(&v->json, "union_ns", b->union_ns);
	json_key_u64(&v->json, "compute_ns", b->compute_ns);
	json_key_u64(&v->json, "copy_ns", b->copy_ns);
	json_key_u64(&v->json, "overlap_ns", b->overlap_ns);
	report_json_time(v, "first_ns", b->first_ns);
	report_json_time(v, "last_ns", b->last_ns);
	write_levels(v, "streams_ns", b->streams_ns);
	write_levels(v, "pieces_ns", b->pieces_ns);
	json_end(&v->json);
}

static void write_idle(struct report_view *v, const struct gpu_idle *g)
{
	report_json_object(v, "idle");
	json_key_u64(&v->json, "total_ns", g->total_ns);
	report_json_object(v, "cause_ns");
	for (int i = 0; i < IDLE_CAUSES; i++)
		json_key_u64(&v->json, idle_cause_name((enum idle_cause)i), g->cause_ns[i]);
	json_end(&v->json);
	report_json_list(v, "gaps");
	for (int i = 0; i < IDLE_SIZES; i++) {
		json_object(&v->json);
		json_key(&v->json, "below_ns");
		if (idle_size_limits_ns[i] == UINT64_MAX)
			json_null(&v->json);
		else
			json_u64(&v->json, idle_size_limits_ns[i]);
		json_key_u64(&v->json, "count", g->gaps[i]);
		json_key_u64(&v->json, "total_ns", g->gaps_ns[i]);
		json_end(&v->json);
	}
	json_end(&v->json);
	json_key_u64(&v->json, "after_synchronize", g->after_sync);
	json_key_u64(&v->json, "after_copy", g->after_copy);
	report_json_list(v, "longest");
	for (int i = 0; i < IDLE_LONGEST && g->longest[i].length_ns; i++) {
		json_object(&v->json);
		report_json_time(v, "start_ns", g->longest[i].start_ns);
		json_key_u64(&v->json, "length_ns", g->longest[i].length_ns);
		json_end(&v->json);
	}
	json_end(&v->json);
	json_end(&v->json);
}

static void write_work(struct report_view *v, const void *gpu)
{
	const struct gpu_busy *b = busy_of(v, gpu);

	if (!b->last_ns)
		return;
	write_busy(v, b);
	write_idle(v, &v->report->idle->gpus[b - v->report->busy->gpus]);
}

static void read_untimed(const struct report_view *v, const void *report, struct value *out)
{
	(void)report;
	out->n = v->report->busy->untimed;
}

static const struct field gpu_fields[] = {
	FIELD("gpu", NULL, ID, .value = read_index),
	FIELD("ordinal", NULL, ID, MEMBER(struct gpu, ordinal)),
	FIELD("name", NULL, TEXT, MEMBER(struct gpu, name)),
	FIELD("uuid", NULL, TEXT, MEMBER(struct gpu, uuid)),
	{ .json = write_work },
};

static const struct field fields[] = {
	LIST("gpus", ITEMS(struct report, gpus.items, gpus.count), gpu_fields, .all = true),
	FIELD("untimed", NULL, COUNT, .value = read_untimed),
};

static void print(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("GPU"), OPTIONAL(""),     RIGHT("busy"),   RIGHT("union"),
		RIGHT("sum"),    RIGHT("kernels"), RIGHT("copies"),
	};
	const struct report *r = v->report;
	struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf mix = STRBUF_INIT;
	uint64_t window = r->end_ns - r->start_ns;

	for (size_t i = 0; i < r->busy->count; i++) {
		const struct gpu_busy *b = &r->busy->gpus[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		if (!b->last_ns)
			continue;
		text_safe(&name, r->gpus.items[i].name, strlen(r->gpus.items[i].name));
		text_table_addf(&t, "%zu %s", i, strbuf_text(&name));
		report_bar(&t, v, b->union_ns, window, 20);
		text_table_percent(&t, b->union_ns, window);
		text_table_duration(&t, b->union_ns);
		text_table_duration(&t, gpu_sum(b));
		text_table_count(&t, b->count[GPU_WORK_kernel]);
		text_table_count(&t, b->count[GPU_WORK_memcpy] + b->count[GPU_WORK_memset]);
		add_mix(b, i, &mix);
	}
	if (text_table_rows(&t)) {
		report_title(v, "GPU busy", "");
		text_table_print(&t, 2, v->width, v->color, v->out);
		text_fold(v->out, strbuf_text(&mix), 2, v->width);
	}
	text_table_release(&t);
}

const struct section section_gpus = { .whole_report = true, FIELDS(fields), .text = print };
