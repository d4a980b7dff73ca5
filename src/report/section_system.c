/*
 * section_system.c: readings of the GPUs and the machine, while the GPUs were busy and while they
 * were idle.
 */
#include "report/section.h"

#include <string.h>

#include "analysis/busy.h"
#include "analysis/capabilities.h"
#include "analysis/system_use.h"
#include "base/clock.h"
#include "base/human.h"
#include "report/words.h"
#include "schema/event_words.h"
#include "system/metrics.h"
#include "system/throttle.h"

#define COUNTER(member) MEMBER(struct system_counter, member)

static const char *text_of(const struct report_view *v, const uint32_t *ids, uint32_t row)
{
	return trace_string(v->report->trace, ids[row]);
}

ROW_IF(is_of_gpu, struct system_counter, row->gpu != UINT32_MAX)
ROW_IF(is_of_host, void, !is_of_gpu(v, row))
ROW_IF(is_sum, struct system_counter, row->kind == counter_kind_sum)
ROW_IF(has_time, struct system_counter, row->known_ns)
ROW_IF(is_level, void, !is_sum(v, row))

/* How much a sum grew while the GPU was busy is unknown. */
ROW_IF(has_busy, struct system_counter, is_level(v, row) && row->busy_ns)
ROW_IF(has_idle, struct system_counter,
       is_level(v, row) && is_of_gpu(v, row) && row->known_ns > row->busy_ns)

ROW_IF(has_range, void, is_level(v, row) || has_time(v, row))

static bool is_of_all_processors(uint32_t id)
{
	return id == METRIC_host_cpu_busy || id == METRIC_host_cpu_io_wait ||
	       id == METRIC_process_cpu;
}

/*
 * Appends a value in thousandths of its unit: "512 W", "1.2 GiB", for sums "12.3 MB/s", "31.0%"
 * of the time, or "1.50 CPUs".
 */
static void add_amount(const struct report_view *v, const struct system_counter *c, int64_t milli,
		       struct strbuf *out)
{
	const char *unit = text_of(v, counter_columns(v->report->trace)->unit, c->row);
	bool sum = c->kind == counter_kind_sum;
	uint64_t amount = (uint64_t)(milli < 0 ? -(milli + 1) + UINT64_C(1) : (uint64_t)milli);

	if (milli >= 0 && report_amount_text(unit, (double)milli / 1000, out))
		return;
	strbuf_adds(out, milli < 0 ? "-" : "");
	if (!strcmp(unit, "bytes") && sum) {
		human_rate(out, amount, 1000 * NS_PER_S);
		return;
	}
	if (!strcmp(unit, "bytes")) {
		human_bytes(out, amount / 1000);
		return;
	}
	if (!strcmp(unit, "s") && sum && is_of_all_processors(c->id)) {
		strbuf_addf(out, "%llu.%02llu CPUs", (unsigned long long)(amount + 5) / 1000,
			    (unsigned long long)(amount + 5) / 10 % 100);
		return;
	}
	if (!strcmp(unit, "s") && sum) {
		human_percent(out, amount, 1000);
		return;
	}
	if (amount < 99950)
		strbuf_addf(out, "%llu.%llu", (unsigned long long)(amount + 50) / 1000,
			    (unsigned long long)(amount + 50) / 100 % 10);
	else
		human_count(out, amount / 1000 + (amount % 1000 >= 500));
	if (*unit)
		strbuf_addf(out, "%s", *unit == '%' ? "" : " ");
	text_safe(out, unit, strlen(unit));
	strbuf_adds(out, sum ? "/s" : "");
}

/* Converts a value from the counter's own decimals to thousandths. */
static int64_t to_milli(const struct report_view *v, const struct system_counter *c, int64_t value)
{
	uint32_t decimals = counter_columns(v->report->trace)->decimals[c->row];

	for (; decimals > 3; decimals--)
		value /= 10;
	for (; decimals < 3; decimals++)
		if (__builtin_mul_overflow(value, 10, &value))
			return INT64_MAX;
	return value;
}

/* Converts the minimum or maximum of a counter to thousandths, which those of sums are in. */
static int64_t limit_milli(const struct report_view *v, const struct system_counter *c,
			   int64_t value)
{
	return is_sum(v, c) ? value : to_milli(v, c, value);
}

static void read_name(const struct report_view *v, const void *row, struct value *out)
{
	const struct system_counter *c = row;
	const char *name = text_of(v, counter_columns(v->report->trace)->name, c->row);

	strbuf_adds(&out->text, name);
}

static void read_shown_name(const struct report_view *v, const void *row, struct value *out)
{
	const struct system_counter *c = row;
	const char *name = text_of(v, counter_columns(v->report->trace)->name, c->row);
	_cleanup_strbuf_ struct strbuf whole = STRBUF_INIT;
	bool is_hardware = counter_is_hardware(name);

	if (c->gpu != UINT32_MAX)
		strbuf_addf(&whole, "GPU %u %s", c->gpu,
			    name + (!is_hardware && !strncmp(name, "gpu_", 4) ? 4 : 0));
	else
		strbuf_adds(&whole, name);
	if (c->gpu == UINT32_MAX && !strncmp(name, "process_", 8))
		strbuf_addf(&whole, " (pid %u)", trace_process(v->report->trace, c->process)->pid);
	for (size_t i = 0; i < whole.length && !is_hardware; i++)
		if (whole.data[i] == '_')
			whole.data[i] = ' ';
	text_safe(&out->text, strbuf_text(&whole), whole.length);
}

ROW_READ(read_unit, struct system_counter,
	 strbuf_adds(&out->text, text_of(v, counter_columns(v->report->trace)->unit, row->row)))

/* Text of a value in thousandths. */
#define SHOWN(name, milli)                                                                         \
	ROW_READ(name, struct system_counter, add_amount(v, row, milli, &out->text))
SHOWN(show_mean, row->mean)
SHOWN(show_busy, row->busy_mean)
SHOWN(show_idle, row->idle_mean)
SHOWN(show_min, limit_milli(v, row, row->min))
SHOWN(show_max, limit_milli(v, row, row->max))

#define MILLI(name, milli) ROW_READ(name, struct system_counter, out->n = (uint64_t)milli)
MILLI(read_min, limit_milli(v, row, row->min))
MILLI(read_max, limit_milli(v, row, row->max))
MILLI(read_total, to_milli(v, row, row->total))

static const struct field counter_fields[] = {
	FIELD("gpu", NULL, ID, COUNTER(gpu), .when = is_of_gpu),
	FIELD("pid", NULL, PID, COUNTER(process), .when = is_of_host),
	FIELD("name", NULL, TEXT, .value = read_name),
	FIELD("unit", NULL, TEXT, .value = read_unit),
	FIELD("kind", NULL, NAME, COUNTER(kind), ENUM(counter, kind)),
	FIELD(NULL, "", TEXT, .value = read_shown_name, FLEXIBLE_COLUMN),
	FIELD("readings", "readings", COUNT, COUNTER(readings), OPTIONAL_COLUMN),
	FIELD("known_ns", NULL, NS, COUNTER(known_ns)),
	FIELD("busy_ns", NULL, NS, COUNTER(busy_ns), .when = is_of_gpu),
	FIELD("mean", NULL, MILLI, COUNTER(mean), .when = has_time),
	FIELD("busy_mean", NULL, MILLI, COUNTER(busy_mean), .when = has_busy),
	FIELD("idle_mean", NULL, MILLI, COUNTER(idle_mean), .when = has_idle),
	FIELD("least", NULL, MILLI, .value = read_min, .when = has_range),
	FIELD("most", NULL, MILLI, .value = read_max, .when = has_range),
	FIELD("total", NULL, MILLI, .value = read_total, .when = is_sum),
	FIELD(NULL, "mean", TEXT, .value = show_mean, .when = has_time, .layout = LAYOUT_RIGHT),
	FIELD(NULL, "GPU busy", TEXT, .value = show_busy, .when = has_busy, .layout = LAYOUT_RIGHT),
	FIELD(NULL, "GPU idle", TEXT, .value = show_idle, .when = has_idle, OPTIONAL_COLUMN),
	FIELD(NULL, "min", TEXT, .value = show_min, .when = has_range, OPTIONAL_COLUMN),
	FIELD(NULL, "max", TEXT, .value = show_max, .when = has_range, .layout = LAYOUT_RIGHT),
};

/* Counters of single processors may be hundreds; they come last. */
ROW_IF(is_of_a_core, struct system_counter, row->id >= SYSTEM_CORES)

static void read_reason(const struct report_view *v, const void *row, struct value *out)
{
	const struct system_throttling *t = row;
	const char *reason = throttle_reason(t->reason);

	(void)v;
	if (reason)
		strbuf_adds(&out->text, reason);
	else
		strbuf_addf(&out->text, "reason %u", t->reason);
}

static const struct field throttled_fields[] = {
	FIELD("gpu", "GPU", ID, MEMBER(struct system_throttling, gpu)),
	FIELD("reason", "throttled by", TEXT, .value = read_reason, FLEXIBLE_COLUMN),
	FIELD("total_ns", "time", NS, MEMBER(struct system_throttling, total_ns)),
	FIELD("busy_ns", "GPU busy", NS, MEMBER(struct system_throttling, busy_ns)),
};

static const struct field error_fields[] = {
	FIELD("gpu", "GPU", ID, MEMBER(struct system_error, gpu)),
	FIELD("xid", "Xid", ID, MEMBER(struct system_error, code)),
	FIELD("time_ns", "at", TIME, MEMBER(struct system_error, time_ns)),
};

static const struct field fields[] = {
	LIST("throttled", ITEMS(struct system_use, throttled, throttled_count), throttled_fields,
	     .all = true),
	LIST("errors", ITEMS(struct system_use, errors, error_count), error_fields, .all = true),
	LIST("counters", ITEMS(struct system_use, counters, counter_count), counter_fields,
	     .all = true, .ends = is_of_a_core),
};

/* Shown on request, and if there is nothing else: in a recording of `pitot monitor`. */
static bool is_shown(const struct report_view *v)
{
	bool any = v->report->selection.windowed;

	for (size_t i = 0; i < v->report->busy->count; i++)
		any |= v->report->busy->gpus[i].last_ns != 0;
	return v->report->system_use->counter_count && (v->system || !any);
}

static void print_none(const struct report_view *v)
{
	const char *refusal = capability_engine_refusal(v->report->trace, "pm-sampling");
	struct capability_note engine;

	capability_read(v->report->trace, feature_engine, &engine);
	if (v->system && !v->report->system_use->counter_count)
		report_title(v, "system", *refusal ? refusal : "no readings");
	else if (!v->system && strcmp(engine.requested, "pm-sampling") == 0 &&
		 engine.state == capability_state_on)
		report_title(v, "system",
			     "hardware counters were sampled over time; to show "
			     "their means: pitot report --system");
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	(void)v;
	strbuf_adds(out, "readings of the GPUs and the machine");
}

const struct section section_system = {
	.key = "system",
	.title = "system",
	RESULT(system_use),
	FIELDS(fields),
	.shown = is_shown,
	.empty = print_none,
	.remark = add_remark,
};
