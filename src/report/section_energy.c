/* section_energy.c: the energy of kernels, scopes and steps, and what they cost. */
#include "report/section.h"

#include "analysis/energy.h"
#include "report/words.h"

#define PART(member) MEMBER(struct energy_part, member)
#define LOOP(member) MEMBER(struct energy_loop, member)
#define ENERGY(member) MEMBER(struct energy, member)

#define NS_PER_HOUR 3.6e12

/* What GPU time costs, in the price's currency. */
static double cost_of(const struct report_view *v, double ns)
{
	return ns / NS_PER_HOUR * (double)v->report->options.price_millionths / 1e6;
}

static void add_joules(double joules, struct strbuf *out)
{
	static const char *const units[] = { "mJ", "J", "kJ", "MJ" };
	size_t i = 0;

	for (joules *= 1e3; joules >= 1e3 && i + 1 < ARRAY_SIZE(units); i++)
		joules /= 1e3;
	strbuf_addf(out, "%.*f %s", joules >= 100 ? 0 : joules >= 10 ? 1 : 2, joules, units[i]);
}

static const char *price_head(const struct report_view *v)
{
	return v->report->options.price_millionths ? "cost" : NULL;
}

static const char *step_price_head(const struct report_view *v)
{
	return v->report->options.price_millionths ? "cost of 1,000" : NULL;
}

static double loop_cost(const struct report_view *v, const struct energy_loop *l)
{
	return cost_of(v, l->ns * (double)l->gpus);
}

static void read_real(struct value *out, double real)
{
	memcpy(&out->n, &real, sizeof(out->n));
}

ROW_IF(has_price, void, v->report->options.price_millionths)

ROW_READ(read_share, struct energy_part,
	 (out->n = (uint64_t)(row->joules * 1e6),
	  out->whole = (uint64_t)(v->report->energy->joules * 1e6)))
ROW_READ(read_energy, struct energy_part, add_joules(row->joules, &out->text))
ROW_READ(read_ns, struct energy_part, out->n = (uint64_t)row->ns)
ROW_READ(read_cost, struct energy_part, strbuf_addf(&out->text, "%.4g", cost_of(v, row->ns)))
ROW_READ(read_cost_number, struct energy_part, read_real(out, cost_of(v, row->ns)))
ROW_READ(read_place, struct energy_part, report_place_text(v, row->place, &out->text))
ROW_IF(is_inside, struct energy_part, row->path != SCOPE_NONE)
ROW_READ(read_path, struct energy_part,
	 scope_path_text(&v->report->ranges, v->report->trace, row->path, &out->text))

static void read_scope(const struct report_view *v, const void *row, struct value *out)
{
	if (is_inside(v, row))
		read_path(v, row, out);
	else
		strbuf_adds(&out->text, "(outside any scope)");
}

#define PART_FIELDS                                                                                \
	FIELD(NULL, "share", SHARE, .value = read_share),                                          \
		FIELD("joules", NULL, REAL, PART(joules)),                                         \
		FIELD(NULL, "energy", TEXT, .value = read_energy, .layout = LAYOUT_RIGHT),         \
		FIELD("gpu_ns", "GPU time", NS, .value = read_ns),                                 \
		FIELD("count", "count", COUNT, PART(count), OPTIONAL_COLUMN),                      \
		FIELD("cost", NULL, REAL, .value = read_cost_number, .when = has_price),           \
		FIELD(NULL, NULL, TEXT, .value = read_cost, .head_of = price_head,                 \
		      .layout = LAYOUT_RIGHT)

static const struct field family_fields[] = {
	PART_FIELDS,
	FIELD("name", "kernel", CODE, .value = read_place, FLEXIBLE_COLUMN),
};

static const struct field scope_fields[] = {
	PART_FIELDS,
	FIELD("path", NULL, CODE, .value = read_path, .when = is_inside, .null = true),
	FIELD(NULL, "scope", CODE, .value = read_scope, FLEXIBLE_COLUMN),
};

ROW_READ(read_loop_energy, struct energy_loop, add_joules(row->joules, &out->text))
ROW_READ(read_loop_ns, struct energy_loop, out->n = (uint64_t)row->ns)
ROW_READ(read_loop_cost_number, struct energy_loop, read_real(out, loop_cost(v, row)))
ROW_READ(read_loop_cost, struct energy_loop,
	 strbuf_addf(&out->text, "%.4g", 1000 * loop_cost(v, row)))

static const struct field loop_fields[] = {
	FIELD("pid", "pid", PID, LOOP(process)),
	FIELD("steps", "steps", COUNT, LOOP(steps)),
	FIELD("gpus", "GPUs", COUNT, LOOP(gpus)),
	FIELD("duration_ns", "median step", NS, .value = read_loop_ns),
	FIELD("joules", NULL, REAL, LOOP(joules)),
	FIELD(NULL, "energy", TEXT, .value = read_loop_energy, .layout = LAYOUT_RIGHT),
	FIELD("cost", NULL, REAL, .value = read_loop_cost_number, .when = has_price),
	FIELD(NULL, NULL, TEXT, .value = read_loop_cost, .head_of = step_price_head,
	      .layout = LAYOUT_RIGHT),
};

ROW_IF(is_outside, struct energy_part, v->report->energy->scope_count == 1)

static const struct field fields[] = {
	FIELD("readings", NULL, COUNT, ENERGY(readings)),
	FIELD("joules", NULL, REAL, ENERGY(joules)),
	FIELD("idle_joules", NULL, REAL, ENERGY(idle_joules)),
	FIELD("uncertainty", NULL, REAL, ENERGY(uncertainty)),
	FIELD("part_uncertainty", NULL, REAL, ENERGY(part_uncertainty)),
	FIELD("known_gpu_ns", NULL, REAL, ENERGY(known_ns)),
	FIELD("gpu_ns", NULL, REAL, ENERGY(all_ns)),
	LIST("steps", ITEMS(struct energy, loops, loop_count), loop_fields),
	LIST("kernels", ITEMS(struct energy, families, family_count), family_fields),
	LIST("scopes", ITEMS(struct energy, scopes, scope_count), scope_fields,
	     .hidden = is_outside),
};

static bool is_shown(const struct report_view *v)
{
	return v->report->energy->joules > 0;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct energy *e = v->report->energy;

	add_joules(e->joules, out);
	strbuf_addf(out, " +/- %.0f%%, an estimate", e->uncertainty * 100);
	if (v->report->options.price_millionths)
		strbuf_addf(out, "; costs at %.6g for a GPU and hour",
			    (double)v->report->options.price_millionths / 1e6);
}

static void add_notes(const struct report_view *v, struct strbuf *out)
{
	const struct energy *e = v->report->energy;

	add_joules(e->idle_joules, out);
	sentence_add(out, WORDS(" while no work ran; from "), COUNTED_AS(e->readings, "reading"),
		     WORDS(" of the boards' power, divided by time; rows are certain within "));
	strbuf_addf(out, "%.0f%%\n", e->part_uncertainty * 100);
	if (e->known_ns < e->all_ns)
		sentence_add(out, WORDS("the power is known for "),
			     PERCENT((uint64_t)e->known_ns, (uint64_t)e->all_ns),
			     WORDS(" of the GPU time\n"));
}

static void print_none(const struct report_view *v)
{
	if (v->report->options.price_millionths)
		report_title(v, "energy", "unknown: no readings of the GPUs' power beside work");
}

const struct section section_energy = {
	.key = "energy",
	.title = "energy",
	RESULT(energy),
	FIELDS(fields),
	.shown = is_shown,
	.computed = is_shown,
	.remark = add_remark,
	.after = add_notes,
	.empty = print_none,
};
