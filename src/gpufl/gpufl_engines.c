/*
 * gpufl_engines.c: measurements of engines beyond the trace: PC samples and SASS metrics, which
 * share a batch, hardware counters over time, and those of kernels.
 *
 * The published analyzer names a PC sample by stall_reason, and has another API's names for numbers
 * below 14. From STALL_FIRST on it prints the number; metric_id always has the name.
 */
#include <math.h>
#include <stdio.h>

#include "gpufl/gpufl_sink_state.h"
#include "schema/event_words.h"

#define STALL_FIRST 100u
enum { KIND_PC, KIND_SASS };

/* Returns the id of a function's name in the dictionary; 0: out of memory. */
static uint32_t function_name(struct gpufl_sink *s, uint32_t mangled)
{
	uint64_t *slot = map_at(&s->sampled, mangled, UINT64_MAX);
	const struct interned *name;

	s->log.lost += !slot;
	if (!slot)
		return 0;
	if (*slot == UINT64_MAX)
		*slot = gpufl_label(s, 0, gpufl_kernel_name(s, gpufl_text(s, mangled)));
	name = &s->labels.items[*slot];
	return gpufl_name(&s->log, DICTIONARY_function, name->text, name->length);
}

static uint32_t metric_name(struct gpufl_sink *s, uint32_t text)
{
	struct bytes_value name = gpufl_text(s, text);

	return gpufl_name(&s->log, DICTIONARY_metric, name.data, name.length);
}

void gpufl_pc_reading(struct gpufl_sink *s, const struct row_pc_reading *r)
{
	s->reading = *r;
	s->last_ns = MAX(s->last_ns, r->end_ns);
}

/* A sample has the time of its reading, whose row precedes it. */
void gpufl_pc_sample(struct gpufl_sink *s, const struct row_pc_sample *p)
{
	uint32_t metric = metric_name(s, p->reason);

	if (s->reading.id != p->reading)
		return;
	GPUFL_ROW(&s->log, profile_sample, gpufl_time(s, s->reading.end_ns), NULL, 0,
		  s->reading.device, function_name(s, p->function), p->offset, metric, p->samples,
		  STALL_FIRST + metric, KIND_PC, 0, 0, 0, 0);
}

/* The logs number kernels in corr_id themselves; true_corr_id has CUPTI's correlation id. */
void gpufl_sass_value(struct gpufl_sink *s, const struct row_sass_value *v)
{
	const struct row_metric *metric = definitions_row(&s->definitions, TABLE_metric, v->metric);

	if (!metric)
		return;
	s->last_ns = MAX(s->last_ns, v->time_ns);
	GPUFL_ROW(&s->log, profile_sample, gpufl_time(s, v->time_ns), NULL, 0, v->device,
		  function_name(s, v->function), v->offset, metric_name(s, metric->name), v->value,
		  0, KIND_SASS, 0, 0, 0, v->correlation);
}

/* ---- counters over time ---- */

/* A value of s->pm_counters: label of the name | decimals << 32 | real << 40. */
bool gpufl_pm_counter(struct gpufl_sink *s, const struct row_counter *c, bool real)
{
	struct bytes_value name = gpufl_text(s, c->name);
	uint64_t label;

	if (!counter_is_hardware(name.data) || c->decimals >= 19)
		return false;
	label = gpufl_label(s, 0, name);
	s->log.lost += map_put(&s->pm_counters, c->id,
			       label | (uint64_t)c->decimals << 32 | (uint64_t)real << 40) < 0;
	return true;
}

bool gpufl_pm_sample(struct gpufl_sink *s, const struct row_counter_sample *c)
{
	double real;
	uint64_t how, unit = 1, value = c->value < 0 ? -(uint64_t)c->value : (uint64_t)c->value;
	const struct interned *name;
	unsigned decimals;
	char text[64];

	if (c->missing >> COLUMN_counter_sample_device & 1 ||
	    !map_get(&s->pm_counters, c->counter, &how))
		return false;
	memcpy(&real, &c->value, sizeof(real));
	decimals = how >> 32 & 0x1f;
	for (unsigned i = 0; i < decimals; i++)
		unit *= 10;
	if (how >> 40 && !isfinite(real))
		return true;
	if (how >> 40)
		json_double_text(text, real);
	else
		snprintf(text, sizeof(text), "%s%llu.%0*llu", c->value < 0 ? "-" : "",
			 (unsigned long long)(value / unit), (int)MAX(decimals, 1),
			 (unsigned long long)(value % unit));
	name = &s->labels.items[how & UINT32_MAX];
	s->pm_index += c->time_ns != s->pm_ns;
	s->pm_ns = c->time_ns;
	s->last_ns = MAX(s->last_ns, c->time_ns);
	gpufl_pm_row(&s->log, s->pm_index, gpufl_time(s, c->time_ns), c->device,
		     gpufl_name(&s->log, DICTIONARY_metric, name->text, name->length), text);
	return true;
}

/* ---- counters of kernels ---- */

static const struct {
	const char *member, *metric;
	bool is_share;
} kernel_counters[KERNEL_COUNTERS] = {
#define COUNTER(member, metric, share) { #member, metric, share },
	GPUFL_KERNEL_COUNTERS(COUNTER)
#undef COUNTER
};

static void remove_measured(struct gpufl_sink *s, size_t i)
{
	memmove(&s->measured.data[i], &s->measured.data[i + 1],
		(--s->measured.count - i) * sizeof(*s->measured.data));
}

/* Returns the counters of a launch, or NULL if out of memory. */
static struct gpufl_measured *measured(struct gpufl_sink *s, uint64_t correlation)
{
	struct gpufl_measured new = { correlation, s->measured_count, { 0 } };

	for (size_t i = s->measured.count; i-- > 0;)
		if (s->measured.data[i].correlation == correlation)
			return &s->measured.data[i];
	for (size_t i = 0; i < KERNEL_COUNTERS; i++)
		new.values[i] = NAN;
	if (s->measured.count == GPUFL_MEASURED_MAX) { /* its kernel never arrived */
		remove_measured(s, 0);
		s->log.lost++;
	}
	if (vec_push(&s->measured, new) < 0)
		return NULL;
	s->measured_count++;
	return &s->measured.data[s->measured.count - 1];
}

/* Returns the number of a metric's member, or KERNEL_COUNTERS if it has none. */
static size_t find_member(const struct gpufl_sink *s, uint32_t id)
{
	const struct row_metric *metric = definitions_row(&s->definitions, TABLE_metric, id);
	struct bytes_value name = metric ? gpufl_text(s, metric->name) : (struct bytes_value){ 0 };
	size_t i = metric ? 0 : KERNEL_COUNTERS;

	while (i < KERNEL_COUNTERS && strcmp(name.data, kernel_counters[i].metric) != 0)
		i++;
	return i;
}

void gpufl_metric_value(struct gpufl_sink *s, const struct row_metric_value *v)
{
	size_t i = find_member(s, v->metric);
	struct gpufl_measured *m;

	if (i == KERNEL_COUNTERS)
		return;
	m = measured(s, v->correlation);
	s->log.lost += !m;
	if (m && !(v->missing >> COLUMN_metric_value_value & 1))
		memcpy(&m->values[i], &v->value, sizeof(v->value));
}

/* Writes a number without the locale's point; -1 stands for an unknown one. */
static void add_number(struct strbuf *out, const char *member, bool has_decimals, double value)
{
	bool known = value >= 0 && value < 1e14;
	uint64_t n = known ? (uint64_t)(value * (has_decimals ? 10000 : 1) + 0.5) : 1;

	if (has_decimals)
		strbuf_addf(out, ",\"%s\":%s%llu.%04llu", member, known ? "" : "-",
			    (unsigned long long)(known ? n / 10000 : 1),
			    (unsigned long long)(known ? n % 10000 : 0));
	else
		strbuf_addf(out, ",\"%s\":%s%llu", member, known ? "" : "-", (unsigned long long)n);
}

/* Writes the first `count` members. */
static void add_members(struct strbuf *out, const double *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool is_rate = i == KERNEL_l1_hit_rate_pct || i == KERNEL_l2_hit_rate_pct;

		add_number(out, kernel_counters[i].member, kernel_counters[i].is_share,
			   is_rate && values[i] > 100 ? NAN : values[i]);
	}
}

static void write_counters(struct gpufl_sink *s, const struct row_kernel *k,
			   const struct gpufl_measured *m)
{
	const double *values = m->values;
	const struct row_kernel_config *config =
		definitions_row(&s->definitions, TABLE_kernel_config, k->config);
	struct bytes_value mangled =
		config ? gpufl_text(s, config->name) : (struct bytes_value){ "", 0 };
	struct strbuf *out = gpufl_identified_line(s, GPUFL_DEVICE, "kernel_perf_metric_event");
	double conflicts = values[KERNEL_shared_bank_conflicts],
	       waves = values[KERNEL_shared_wavefronts];

	TEXT_U64(out, "device_id", k->device);
	TEXT_U64(out, "range_index", m->index);
	strbuf_addf(out, ",\"range_name\":\"%llu\"", (unsigned long long)m->index);
	gpufl_key_text(out, "kernel_name", gpufl_kernel_name(s, mangled));
	raw_reserve(out, 0);
	TEXT_U64(out, "launch_ordinal", m->index + 1);
	add_members(out, values, KERNEL_COUNTERS);
	add_number(out, "shared_bank_conflict_overhead_pct", true,
		   waves > 0 ? 100 * conflicts / waves : NAN);
	add_number(out, "shared_bank_conflict_nway", true,
		   waves > conflicts ? waves / (waves - conflicts) : NAN);
	raw_reserve(out, 0);
	TEXT_U64(out, "true_corr_id", k->correlation);
	TEXT(out, "}\n");
}

void gpufl_kernel_counters(struct gpufl_sink *s, const struct row_kernel *k)
{
	for (size_t i = 0; i < s->measured.count; i++) {
		if (s->measured.data[i].correlation != k->correlation)
			continue;
		write_counters(s, k, &s->measured.data[i]);
		remove_measured(s, i);
		return;
	}
}

/* ---- counters of ranges ---- */

#define RANGE_COUNTERS (KERNEL_tensor_active_pct + 1) /* perf_metric_event has the first ones */

/* The outer ranges are not known any more when the measurement arrives. */
static void write_range(struct gpufl_sink *s)
{
	const struct row_range_value *row = &s->range.row;
	struct strbuf *out = gpufl_identified_line(s, GPUFL_SCOPE, "perf_metric_event");
	struct bytes_value name = gpufl_text(s, row->name);

	gpufl_key_text(out, "name", name);
	raw_reserve(out, 0);
	TEXT_U64(out, "start_ns", gpufl_time(s, row->start_ns));
	TEXT_U64(out, "end_ns", gpufl_time(s, row->end_ns));
	TEXT_U64(out, "device_id", row->device);
	add_members(out, s->range.values, RANGE_COUNTERS);
	gpufl_key_text(out, "user_scope", name);
	raw_reserve(out, 0);
	if (!(row->missing >> COLUMN_range_value_level & 1))
		TEXT_U64(out, "scope_depth", row->level);
	TEXT_U64(out, "thread_id", row->thread);
	TEXT_U64(out, "passes", row->passes);
	TEXT_U64(out, "is_scope", row->kind == range_kind_scope);
	TEXT(out, "}\n");
	s->last_ns = MAX(s->last_ns, row->end_ns);
	s->range.has_values = false;
}

static bool is_same_range(const struct row_range_value *a, const struct row_range_value *b)
{
	return a->end_ns == b->end_ns && a->thread == b->thread && a->name == b->name &&
	       a->device == b->device;
}

void gpufl_range_value(struct gpufl_sink *s, const struct row_range_value *v)
{
	size_t i = find_member(s, v->metric);

	if (i >= RANGE_COUNTERS || v->kind == range_kind_graph ||
	    v->missing >> COLUMN_range_value_device & 1)
		return;
	if (s->range.has_values && !is_same_range(&s->range.row, v))
		write_range(s);
	for (size_t k = 0; k < RANGE_COUNTERS && !s->range.has_values; k++)
		s->range.values[k] = NAN;
	s->range.row = *v;
	s->range.has_values = true;
	s->range.before_seal = false;
	if (!(v->missing >> COLUMN_range_value_value & 1))
		memcpy(&s->range.values[i], &v->value, sizeof(v->value));
}

void gpufl_ranges_flush(struct gpufl_sink *s, bool all)
{
	if (s->range.has_values && (all || s->range.before_seal))
		write_range(s);
	s->range.before_seal = true;
}
