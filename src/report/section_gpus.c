/* section_gpus.c: how busy each GPU was. */
#include "report/section.h"

#include <string.h>

#include "analysis/busy.h"
#include "analysis/idle.h"
#include "report/words.h"

/* Appends how kernels, copies and streams overlapped, if there are several. */
static void add_overlap(const struct gpu_busy *b, size_t gpu, struct strbuf *out)
{
	const struct work_sum *graphs = &b->work[GPU_WORK_graph_launch];

	if (b->copy_ns && b->compute_ns)
		sentence_add(out, WORDS("GPU "), NUMBER(gpu), WORDS(": kernels alone "),
			     DURATION(b->compute_ns - b->overlap_ns), WORDS(", copies alone "),
			     DURATION(b->copy_ns - b->overlap_ns), WORDS(", both at once "),
			     DURATION(b->overlap_ns), WORDS("\n"));
	if (graphs->count)
		sentence_add(out, WORDS("GPU "), NUMBER(gpu), WORDS(": "),
			     COUNTED_AS(graphs->count, "graph launch"),
			     WORDS(" recorded as a whole, "), DURATION(graphs->sum_ns),
			     WORDS("\n"));
	if (b->max_pieces < 2)
		return;
	sentence_add(out, WORDS("GPU "), NUMBER(gpu), WORDS(": active streams while busy:"));
	for (unsigned n = 1; n < BUSY_LEVELS; n++) {
		if (!b->streams_ns[n])
			continue;
		strbuf_addf(out, " %u%s for ", n, n == BUSY_LEVELS - 1 ? " or more" : "");
		sentence_add(out, PERCENT(b->streams_ns[n], b->union_ns), WORDS(","));
	}
	sentence_add(out, WORDS(" at most "), COUNTED_AS(b->max_pieces, "operation"),
		     WORDS(" at once\n"));
}

static size_t index_of(const struct report_view *v, const void *gpu)
{
	return (size_t)((const struct gpu *)gpu - v->report->gpus.items);
}

ROW_READ(read_index, void, out->n = index_of(v, row))

ROW_IF(has_work, void, v->report->busy->gpus[index_of(v, row)].last_ns)

ROW_OF(busy_of, &v->report->busy->gpus[index_of(v, row)])
ROW_OF(idle_of, &v->report->idle->gpus[index_of(v, row)])

static const char *work_name(unsigned work)
{
	static const char *const names[GPU_WORK_KINDS] = {
		[GPU_WORK_kernel] = "kernels",
		[GPU_WORK_memcpy] = "copies",
		[GPU_WORK_memset] = "sets",
		[GPU_WORK_graph_launch] = "graphs",
	};

	return names[work] ? names[work] : schema_gpu_work[work]->name;
}

#define BUSY(member) MEMBER(struct gpu_busy, member)
#define IDLE(member) MEMBER(struct gpu_idle, member)

static const struct field sum_fields[] = {
	FIELD("count", NULL, COUNT, MEMBER(struct work_sum, count)),
	FIELD("sum_ns", NULL, NS, MEMBER(struct work_sum, sum_ns)),
};

static const struct field busy_fields[] = {
	LIST(NULL, ARRAY(struct gpu_busy, work), sum_fields, .all = true, .names = work_name),
	FIELD("sum_ns", NULL, NS, BUSY(sum_ns)),
	FIELD("union_ns", NULL, NS, BUSY(union_ns)),
	FIELD("compute_ns", NULL, NS, BUSY(compute_ns)),
	FIELD("copy_ns", NULL, NS, BUSY(copy_ns)),
	FIELD("overlap_ns", NULL, NS, BUSY(overlap_ns)),
	FIELD("first_ns", NULL, TIME, BUSY(first_ns)),
	FIELD("last_ns", NULL, TIME, BUSY(last_ns)),
	FIELD("streams_ns", NULL, NUMBERS, NUMBERS(struct gpu_busy, streams_ns), .trim = true),
	FIELD("pieces_ns", NULL, NUMBERS, NUMBERS(struct gpu_busy, pieces_ns), .trim = true),
};

ROW_IF(has_limit, struct idle_size, row->below_ns != UINT64_MAX)
ROW_IF(is_no_gap, struct idle_gap, !row->length_ns)

static const struct field cause_fields[] = {
	FIELD(NULL, NULL, NS, .size = sizeof(uint64_t)),
};

static const struct field size_fields[] = {
	FIELD("below_ns", NULL, NS, MEMBER(struct idle_size, below_ns), .when = has_limit,
	      .null = true),
	FIELD("count", NULL, COUNT, MEMBER(struct idle_size, count)),
	FIELD("total_ns", NULL, NS, MEMBER(struct idle_size, total_ns)),
};

static const struct field gap_fields[] = {
	FIELD("start_ns", NULL, TIME, MEMBER(struct idle_gap, start_ns)),
	FIELD("length_ns", NULL, NS, MEMBER(struct idle_gap, length_ns)),
};

static const struct field idle_fields[] = {
	FIELD("total_ns", NULL, NS, IDLE(total_ns)),
	LIST("cause_ns", ARRAY(struct gpu_idle, cause_ns), cause_fields, .all = true,
	     .names = idle_cause_name),
	LIST("gaps", ARRAY(struct gpu_idle, gaps), size_fields, .all = true),
	FIELD("after_synchronize", NULL, COUNT, IDLE(after_sync)),
	FIELD("after_copy", NULL, COUNT, IDLE(after_copy)),
	LIST("longest", ARRAY(struct gpu_idle, between.longest), gap_fields, .all = true,
	     .hidden = is_no_gap),
};

static const struct field gpu_fields[] = {
	FIELD("gpu", NULL, ID, .value = read_index),
	FIELD("ordinal", NULL, ID, MEMBER(struct gpu, ordinal)),
	FIELD("name", NULL, TEXT, MEMBER(struct gpu, name)),
	FIELD("uuid", NULL, TEXT, MEMBER(struct gpu, uuid)),
	OBJECT("busy", busy_fields, .of = busy_of, .when = has_work),
	OBJECT("idle", idle_fields, .of = idle_of, .when = has_work),
};

ROW_READ(read_untimed, void, out->n = v->report->busy->untimed)

static const struct field fields[] = {
	LIST("gpus", ITEMS(struct report, gpus.items, gpus.count), gpu_fields, .all = true),
	FIELD("untimed", NULL, COUNT, .value = read_untimed),
};

static void print(const struct report_view *v)
{
	static const struct text_column columns[] = {
		FLEXIBLE("GPU"), OPTIONAL(""),     RIGHT("share"),  RIGHT("busy"),
		RIGHT("sum"),    RIGHT("kernels"), RIGHT("copies"),
	};
	const struct report *r = v->report;
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf overlap = STRBUF_INIT, title = STRBUF_INIT;
	uint64_t window = r->end_ns - r->start_ns;

	for (size_t i = 0; i < r->busy->count; i++) {
		const struct gpu_busy *b = &r->busy->gpus[i];

		if (!b->last_ns)
			continue;
		text_table_addf(&t, "%zu ", i);
		text_safe(&t.text, r->gpus.items[i].name, strlen(r->gpus.items[i].name));
		report_bar(&t, v, b->union_ns, window, 20);
		text_table_percent(&t, b->union_ns, window);
		text_table_duration(&t, b->union_ns);
		text_table_duration(&t, b->sum_ns);
		text_table_count(&t, b->work[GPU_WORK_kernel].count);
		text_table_count(&t,
				 b->work[GPU_WORK_memcpy].count + b->work[GPU_WORK_memset].count);
		add_overlap(b, i, &overlap);
	}
	if (text_table_rows(&t)) {
		sentence_add(&title, WORDS("within "), DURATION(window));
		report_title(v, "GPU busy", strbuf_text(&title));
		report_table(v, &t);
		report_paragraph(v, 2, strbuf_text(&overlap));
	}
}

const struct section section_gpus = { .whole_report = true, FIELDS(fields), .text = print };
