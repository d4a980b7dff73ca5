/*
 * section_counters.c: hardware counters: what bounds kernels and, with --counters, all metrics and
 * the roofline.
 */
#include "report/section.h"

#include <math.h>
#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/counters.h"
#include "base/human.h"
#include "report/words.h"
#include "names/demangle.h"

#define HINTS_SHOWN 3 /* without --counters */
#define BOUND_PERCENT 60 /* share of a peak at which a unit bounds a kernel */

static bool is_asked_for(const struct report_view *v)
{
	return v->report->options.counters;
}

/* Without --counters, only the hints are shown. */
ROW_IF(is_short, void, !is_asked_for(v))
ROW_IF(is_timed, struct counted_kernel, row->timed)
ROW_IF(is_kernel, struct counted_kernel, row->kind == COUNTED_KERNEL)
ROW_IF(is_range, struct counted_kernel, row->kind != COUNTED_KERNEL)
ROW_IF(has_no_occupancy, struct counted_kernel, !row->occupancy.warps)

static size_t count_of_kernels(const struct report_view *v)
{
	return v->report->counters->kernel_count - v->report->counters->range_count;
}

/* Whether the kernel, or the range, is one of the first --top. */
static bool is_shown(const struct report_view *v, uint32_t number)
{
	size_t kernels = count_of_kernels(v);

	return (number < kernels ? number : number - kernels) < v->top;
}

static void add_name(const struct report_view *v, uint32_t name, struct strbuf *out)
{
	kernel_name_text(trace_string(v->report->trace, name), v->full_names, out);
}

static void add_counted_name(const struct report_view *v, const struct counted_kernel *k,
			     struct strbuf *out)
{
	if (k->kind == COUNTED_KERNEL)
		add_name(v, k->name, out);
	else
		strbuf_adds(out, trace_string(v->report->trace, k->name));
}

static const struct counted_kernel *counted_of(const struct report_view *v,
					       const struct counter_of_kernel *c)
{
	return &v->report->counters->kernels[c->number];
}

/* --- kernels --- */

/* "memory-bound: DRAM 87.0% of peak, SM 31.0%" */
static void add_bound(const double *percent, struct strbuf *out)
{
	double sm = percent[SHARE_SM], memory = percent[SHARE_MEMORY];
	enum counter_share unit = percent[SHARE_DRAM] >= 0.95 * memory ? SHARE_DRAM
				  : percent[SHARE_L2] >= 0.95 * memory ? SHARE_L2
								       : SHARE_MEMORY;
	const char *name = unit == SHARE_DRAM ? "DRAM" : unit == SHARE_L2 ? "L2" : "memory";

	if (isnan(sm) || isnan(memory))
		return;
	if (MAX(sm, memory) < BOUND_PERCENT)
		strbuf_addf(out, "neither SM nor memory reaches %d%% of its peak: ", BOUND_PERCENT);
	else
		strbuf_adds(out, memory > sm ? "memory-bound: " : "compute-bound: ");
	if (memory > sm)
		strbuf_addf(out, "%s %.1f%% of peak, SM %.1f%%", name, percent[unit], sm);
	else
		strbuf_addf(out, "SM %.1f%% of peak, %s %.1f%%", sm, name, percent[unit]);
}

/* Appends what bounds a kernel; nothing if the necessary metrics were not measured. */
static void add_hint(const struct report_view *v, const struct counted_kernel *k,
		     struct strbuf *out)
{
	double achieved = k->percent[SHARE_OCCUPANCY], fits = k->percent[SHARE_THEORETICAL];
	_cleanup_strbuf_ struct strbuf tail = STRBUF_INIT;

	add_bound(k->percent, out);
	if (!isnan(achieved))
		strbuf_addf(out, "%soccupancy %.1f%%", out->length ? "; " : "", achieved);
	if (!isnan(achieved + fits))
		strbuf_addf(out, " of theoretical %.1f%% (limited by %s)", fits,
			    occupancy_limiter_name(k->occupancy.limiter));
	if (k->kind == COUNTED_KERNEL)
		report_tail_text(v->report, k->device, k->config, &tail);
	if (out->length && tail.length)
		strbuf_addf(out, "; tail: %s", strbuf_text(&tail));
}

static void add_hints(const struct report_view *v, struct strbuf *out)
{
	const struct counters *c = v->report->counters;
	uint64_t most = is_asked_for(v) ? v->top : HINTS_SHOWN, shown = 0;

	for (size_t i = 0; i < c->kernel_count && shown < most; i++) {
		_cleanup_strbuf_ struct strbuf hint = STRBUF_INIT, name = STRBUF_INIT;

		add_hint(v, &c->kernels[i], &hint);
		if (!hint.length)
			continue;
		shown++;
		add_counted_name(v, &c->kernels[i], &name);
		text_safe(out, strbuf_text(&name), name.length);
		strbuf_addf(out, ": %s\n", strbuf_text(&hint));
	}
}

ROW_READ(read_name, struct counted_kernel, add_counted_name(v, row, &out->text))
ROW_READ(read_mean, struct counted_kernel,
	 out->n = (uint64_t)(MIN(row->total_ns / (double)row->timed, 1e18) + 0.5))

ROW_READ(read_hint, struct counted_kernel, add_hint(v, row, &out->text))
ROW_IF(has_theoretical, struct counted_kernel, !isnan(row->percent[SHARE_THEORETICAL]))

#define KERNEL(member) MEMBER(struct counted_kernel, member)

static const struct field range_fields[] = {
	FIELD("range", "range", TEXT, .value = read_name, FLEXIBLE_COLUMN),
	FIELD("kind", "kind", CHOICE, KERNEL(kind), .names = counted_kind_name, LEFT_COLUMN),
	FIELD("measurements", "measured", COUNT, KERNEL(launches)),
	FIELD("occurrences", "in", COUNT, KERNEL(passes), .wide = true),
	FIELD("mean_ns", "time", NS, .value = read_mean, .when = is_timed, .null = true),
	FIELD("sm_percent", "SM", PERCENT, KERNEL(percent[SHARE_SM])),
	FIELD("memory_percent", "memory", PERCENT, KERNEL(percent[SHARE_MEMORY])),
	FIELD("dram_percent", "DRAM", PERCENT, KERNEL(percent[SHARE_DRAM])),
	FIELD("l2_percent", "L2", PERCENT, KERNEL(percent[SHARE_L2])),
	FIELD("l1_percent", "L1", PERCENT, KERNEL(percent[SHARE_L1])),
	FIELD("occupancy_percent", "occupancy", PERCENT, KERNEL(percent[SHARE_OCCUPANCY])),
	FIELD("hint", NULL, TEXT, .value = read_hint),
};

/* Resident blocks if only this resource were limited. */
#define LIMIT(key, head, resource)                                                                 \
	FIELD("blocks_by_" key, head, COUNT, KERNEL(occupancy.limits[OCCUPANCY_##resource]),       \
	      .when = limits_##resource, .null = true)
#define IF_LIMITS(resource)                                                                        \
	ROW_IF(limits_##resource, struct counted_kernel,                                           \
	       row->occupancy.limits[OCCUPANCY_##resource] != UINT32_MAX)
IF_LIMITS(WARPS)
IF_LIMITS(REGISTERS)
IF_LIMITS(SHARED)
IF_LIMITS(BLOCKS)

static void read_active_warps(const struct report_view *v, const void *row, struct value *out)
{
	const struct counted_kernel *k = row;
	double warps = k->percent[SHARE_OCCUPANCY] / 100 * k->occupancy.max_warps;

	(void)v;
	memcpy(&out->n, &warps, sizeof(warps));
	out->state = isnan(warps) ? VALUE_UNKNOWN : VALUE_KNOWN;
}

static const struct field occupancy_fields[] = {
	FIELD("kernel", "kernel", TEXT, .value = read_name, FLEXIBLE_COLUMN),
	FIELD("symbol", NULL, STRING, KERNEL(name)),
	FIELD("active_warps", "active warps", REAL, .value = read_active_warps),
	FIELD("warps", "theoretical", COUNT, KERNEL(occupancy.warps)),
	FIELD("max_warps", "most", COUNT, KERNEL(occupancy.max_warps)),
	FIELD("blocks", "blocks", COUNT, KERNEL(occupancy.blocks)),
	LIMIT("warps", "by warps", WARPS),
	LIMIT("registers", "by regs", REGISTERS),
	LIMIT("shared_memory", "by shared", SHARED),
	LIMIT("blocks", "by blocks", BLOCKS),
};

static const struct field kernel_fields[] = {
	FIELD("kernel", "kernel", TEXT, .value = read_name, FLEXIBLE_COLUMN),
	FIELD("symbol", NULL, STRING, KERNEL(name)),
	FIELD("launches", "launches", COUNT, KERNEL(launches)),
	FIELD("mean_ns", "time", NS, .value = read_mean, .when = is_timed, .null = true),
	FIELD("sm_percent", "SM", PERCENT, KERNEL(percent[SHARE_SM])),
	FIELD("memory_percent", "memory", PERCENT, KERNEL(percent[SHARE_MEMORY])),
	FIELD("dram_percent", "DRAM", PERCENT, KERNEL(percent[SHARE_DRAM])),
	FIELD("l2_percent", "L2", PERCENT, KERNEL(percent[SHARE_L2])),
	FIELD("l1_percent", "L1", PERCENT, KERNEL(percent[SHARE_L1])),
	FIELD("occupancy_percent", "occupancy", PERCENT, KERNEL(percent[SHARE_OCCUPANCY])),
	FIELD("theoretical_percent", "theoretical", PERCENT, KERNEL(percent[SHARE_THEORETICAL])),
	FIELD("limiter", "limited by", CHOICE, KERNEL(occupancy.limiter),
	      .names = occupancy_limiter_name, .when = has_theoretical, .null = true, LEFT_COLUMN),
	FIELD("hint", NULL, TEXT, .value = read_hint),
};

/* --- roofline --- */

#define POINT(member) MEMBER(struct roofline_point, member)

ROW_IF(is_first_point, struct roofline_point,
       row == v->report->counters->roofline.items || row[-1].number != row->number)
ROW_IF(is_first_of_type, struct roofline_point, is_first_point(v, row) || row[-1].type != row->type)
ROW_IF(has_limit, struct roofline_point, row->limit != ROOF_NONE)
ROW_IF(is_hidden_point, struct roofline_point, !is_shown(v, row->number))
ROW_READ(read_point_kernel, struct roofline_point, add_name(v, row->kernel, &out->text))

static const struct field point_fields[] = {
	FIELD(NULL, "kernel", TEXT, .value = read_point_kernel, .when = is_first_point,
	      FLEXIBLE_COLUMN),
	FIELD("kernel", NULL, TEXT, .value = read_point_kernel),
	FIELD("symbol", NULL, STRING, POINT(kernel)),
	FIELD("type", NULL, CHOICE, POINT(type), .names = roof_name),
	FIELD(NULL, "type", CHOICE, POINT(type), .names = roof_name, .when = is_first_of_type,
	      LEFT_COLUMN),
	FIELD("flops", NULL, FLOPS, POINT(flops)),
	FIELD(NULL, "achieved", FLOPS, POINT(flops), .when = is_first_of_type),
	FIELD("peak_flops", NULL, FLOPS, POINT(peak_flops)),
	FIELD(NULL, "peak", FLOPS, POINT(peak_flops), .when = is_first_of_type, .wide = true),
	FIELD("level", "memory", CHOICE, POINT(level), .names = roof_name, LEFT_COLUMN),
	FIELD("bandwidth", "bandwidth", BANDWIDTH, POINT(bandwidth)),
	FIELD("peak_bandwidth", "peak", BANDWIDTH, POINT(peak_bandwidth), .wide = true),
	FIELD("intensity", "FLOP/byte", REAL, POINT(intensity)),
	FIELD("attainable_flops", "attainable", FLOPS, POINT(attainable)),
	FIELD("attainable_percent", "share", PERCENT, POINT(percent)),
	FIELD("limit", "roof", CHOICE, POINT(limit), .names = roof_name, .when = has_limit,
	      .null = true, LEFT_COLUMN),
};

/* Appends the names of roofs after a text: "; no peak for FP32, FP16". */
static void add_roofs(const char *what, uint32_t roofs, struct strbuf *out)
{
	for (unsigned i = 0; i < ROOFS_END; i++)
		if (roofs >> i & 1) {
			strbuf_addf(out, "%s%s", what, roof_name(i));
			what = ", ";
		}
}

static void add_missing(const struct report_view *v, struct strbuf *out)
{
	const struct roofline *f = &v->report->counters->roofline;
	uint32_t simple = (1u << ROOF_TENSOR_FP64) - 1, tensor = ((1u << ROOFS_END) - 1) & ~simple;
	size_t before;

	if (v->top != UINT64_MAX)
		strbuf_adds(out, "metrics that are 0 are not shown; to show them: --top 0\n");
	before = out->length;
	add_roofs("roofline: not measured in every launch: ", simple & ~f->measured, out);
	if (!(f->measured & tensor))
		strbuf_adds(out, out->length > before
					 ? ", tensor"
					 : "roofline: not measured in every launch: tensor");
	add_roofs(out->length > before ? "; no peak for " : "roofline: no peak for ", f->unlimited,
		  out);
	if (out->length > before)
		strbuf_adds(out, "; to measure all: pitot record --engine range-profiler "
				 "--metrics roofline,tensor\n");
}

static void add_picture(const struct report_view *v)
{
	if (is_asked_for(v))
		roofline_picture(v, v->out);
}

/* --- metrics --- */

ROW_IF(is_first, struct counter_of_kernel, row->is_first)
ROW_IF(is_hidden, struct counter_of_kernel,
       v->top != UINT64_MAX && (!is_shown(v, row->number) || (!(row->min < 0) && !(row->max > 0))))
ROW_READ(read_kernel, struct counter_of_kernel, add_counted_name(v, counted_of(v, row), &out->text))
ROW_READ(read_kind, struct counter_of_kernel,
	 strbuf_adds(&out->text, counted_kind_name(counted_of(v, row)->kind)))

/* The kernel's name in its first row, and the group in the first row of each other group. */
static void read_place(const struct report_view *v, const void *row, struct value *out)
{
	const struct counter_of_kernel *c = row;
	const struct counters *all = v->report->counters;

	if (c == &all->items[all->kernels[c->number].first])
		add_counted_name(v, counted_of(v, c), &out->text);
	else
		strbuf_addf(&out->text, "(%s)", counter_group_name(c->group));
}

static const char *place_head(const struct report_view *v)
{
	const struct counters *c = v->report->counters;

	return !c->range_count ? "kernel" : count_of_kernels(v) ? "kernel or range" : "range";
}

static void add_value(const struct report_view *v, const struct counter_of_kernel *c, double value,
		      struct strbuf *out)
{
	if (!report_amount_text(trace_string(v->report->trace, c->unit), value, out))
		human_real(out, value);
}

ROW_READ(read_counter_mean, struct counter_of_kernel, add_value(v, row, row->mean, &out->text))
ROW_READ(read_min, struct counter_of_kernel, add_value(v, row, row->min, &out->text))
ROW_READ(read_max, struct counter_of_kernel, add_value(v, row, row->max, &out->text))

static void read_unit(const struct report_view *v, const void *row, struct value *out)
{
	const struct counter_of_kernel *c = row;
	const char *unit = trace_string(v->report->trace, c->unit);
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT;

	if (!report_amount_text(unit, 0, &shown))
		strbuf_adds(&out->text, unit);
}

#define COUNTER(member) MEMBER(struct counter_of_kernel, member)

static const struct field counter_fields[] = {
	FIELD(NULL, NULL, TEXT, .value = read_place, .when = is_first, .head_of = place_head,
	      FLEXIBLE_COLUMN),
	FIELD("kernel", NULL, TEXT, .value = read_kernel),
	FIELD("kind", NULL, TEXT, .value = read_kind),
	FIELD("symbol", NULL, STRING, COUNTER(kernel)),
	FIELD("group", NULL, CHOICE, COUNTER(group), .names = counter_group_name),
	FIELD("metric", "metric", STRING, COUNTER(metric), FLEXIBLE_COLUMN),
	FIELD("count", "launches", COUNT, COUNTER(count), .wide = true),
	FIELD("mean", NULL, REAL, COUNTER(mean)),
	FIELD("min", NULL, REAL, COUNTER(min)),
	FIELD("max", NULL, REAL, COUNTER(max)),
	FIELD(NULL, "mean", TEXT, .value = read_counter_mean, .layout = LAYOUT_RIGHT),
	FIELD(NULL, "min", TEXT, .value = read_min, .layout = LAYOUT_OPTIONAL, .wide = true),
	FIELD(NULL, "max", TEXT, .value = read_max, .layout = LAYOUT_OPTIONAL, .wide = true),
	FIELD(NULL, "unit", TEXT, .value = read_unit, .layout = LAYOUT_OPTIONAL_LEFT),
	FIELD("unit", NULL, STRING, COUNTER(unit)),
	FIELD("weighted_by_time", NULL, FLAG, COUNTER(is_rate)),
};

static const struct field fields[] = {
	FIELD("launches", NULL, COUNT, MEMBER(struct counters, launches)),
	FIELD("measurements", NULL, COUNT, MEMBER(struct counters, measurements)),
	LIST("kernels", ITEMS(struct counters, kernels, kernel_count), kernel_fields,
	     .hidden = is_range, .ends = is_short),
	LIST("ranges", ITEMS(struct counters, kernels, kernel_count), range_fields,
	     .hidden = is_kernel, .ends = is_short),
	LIST("occupancy", ITEMS(struct counters, kernels, kernel_count), occupancy_fields,
	     .hidden = has_no_occupancy, .ends = is_short),
	LIST("roofline", ITEMS(struct counters, roofline.items, roofline.count), point_fields,
	     .all = true, .hidden = is_hidden_point, .ends = is_short),
	LIST("metrics", ITEMS(struct counters, items, count), counter_fields, .all = true,
	     .hidden = is_hidden, .ends = is_short),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct counters *c = v->report->counters;
	size_t kernels = count_of_kernels(v), most = MAX(kernels, c->range_count);

	if (c->range_count)
		sentence_add(out, COUNTED_AS(c->range_count, "range"), WORDS(" measured "),
			     COUNTED_AS(c->measurements, "time"));
	if (kernels)
		sentence_add(out, WORDS(c->range_count ? "; " : ""),
			     COUNTED_AS(c->launches, "launch"), WORDS(" of "),
			     COUNTED_AS(kernels, "kernel"), WORDS(" measured"));
	if (is_asked_for(v) && most > v->top)
		sentence_add(out, WORDS("; "), NUMBER(v->top), WORDS(" of "), NUMBER(most),
			     WORDS(" shown"));
	sentence_add(out, WORDS(is_asked_for(v) ? "; means of rates and shares are weighted by time"
						: "; for their metrics: pitot report --counters"));
}

static void print_none(const struct report_view *v)
{
	const struct counters *c = v->report->counters;
	const char *why = capability_engine_refusal(v->report->trace, "range-profiler");
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, hints = STRBUF_INIT;

	if (c->launches + c->measurements) {
		add_remark(v, &line);
		add_hints(v, &hints);
		report_title(v, "counters", strbuf_text(&line));
		report_paragraph(v, 2, strbuf_text(&hints));
	} else if (is_asked_for(v) && !c->rows && *why) {
		report_title(v, "counters", why);
	} else if (is_asked_for(v)) {
		report_title(v, "counters",
			     c->rows ? "no measured launch matches the filters"
				     : "no hardware counters were recorded; to record them: pitot "
				       "record --engine range-profiler");
	}
}

const struct section section_counters = {
	.key = "counters",
	.title = "counters",
	RESULT(counters),
	FIELDS(fields),
	.remark = add_remark,
	.before = add_hints,
	.after = add_missing,
	.picture = add_picture,
	.empty = print_none,
};
