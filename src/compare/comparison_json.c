#include "compare/comparison_print.h"

static const char *const unit_names[] = {
	[QUANTITY_NS] = "ns",
	[QUANTITY_COUNT] = "",
	[QUANTITY_BYTES] = "bytes",
};

static void add_number(struct json *j, const char *key, double value)
{
	json_key(j, key);
	json_double(j, value);
}

static void add_difference(struct json *j, const struct sample_difference *d)
{
	add_number(j, "a", d->a);
	add_number(j, "b", d->b);
	add_number(j, "ratio", d->ratio);
	add_number(j, "low", d->low);
	add_number(j, "high", d->high);
	add_number(j, "shift", d->shift);
	add_number(j, "p", d->p);
}

void comparison_runs_json(struct json *j, const char *key, struct run_side side)
{
	json_key_array(j, key);
	for (size_t i = 0; i < side.count; i++) {
		const struct measured_run *run = &side.runs[i];

		json_object(j);
		json_key_string(j, "recording", run->path);
		json_key_u64(j, "pid", run->pid);
		json_key_u64(j, "steps", run->step_count);
		json_key_u64(j, "slow_steps", run->slow_steps);
		json_key_string(j, "no_steps", *run->no_steps ? run->no_steps : NULL);
		for (unsigned fact = 0; fact < RUN_FACT_COUNT; fact++)
			json_key_string(j, run_fact_names[fact],
					*run->facts[fact] ? run->facts[fact] : NULL);
		json_key(j, "clock_mhz");
		if (run->clock_mhz > 0)
			json_double(j, run->clock_mhz);
		else
			json_null(j);
		json_key_string(j, "loss", *run->loss ? run->loss : NULL);
		json_end(j);
	}
	json_end(j);
}

static void add_texts(struct json *j, const char *key, const struct comparison_texts *texts)
{
	json_key_array(j, key);
	for (size_t i = 0; i < texts->count; i++)
		json_string(j, texts->data[i]);
	json_end(j);
}

static void add_row(struct json *j, const struct comparison_row *row)
{
	const struct quantity_type *type = &quantity_types[row->kind];

	json_object(j);
	json_key_string(j, "quantity", type->name);
	json_key_string(j, "name", type->has_parts ? row->name : NULL);
	json_key_string(j, "was", row->was);
	json_key_string(j, "unit", unit_names[type->unit]);
	add_difference(j, &row->difference);
	add_number(j, "false_discovery_rate", row->rate);
	json_key_bool(j, "significant", row->is_significant);
	add_number(j, "mean_a", row->mean_a);
	add_number(j, "mean_b", row->mean_b);
	add_number(j, "count_a", row->count_a);
	add_number(j, "count_b", row->count_b);
	json_key_bool(j, "in_a", row->in_a);
	json_key_bool(j, "in_b", row->in_b);
	json_end(j);
}

static void add_condition(struct json *j, const struct condition *c)
{
	json_object(j);
	json_key_string(j, "condition", c->text);
	json_key_string(j, "state", condition_states[c->state]);
	json_key_u64(j, "parts", c->parts);
	add_difference(j, &c->difference);
	json_end(j);
}

static void add_reasons(struct json *j, const struct comparison *c)
{
	_cleanup_strbuf_ struct strbuf unsettled = STRBUF_INIT;

	if (!c->runs_needed) {
		add_texts(j, "reasons", &c->reasons);
		return;
	}
	comparison_unsettled_text(c, &unsettled);
	json_key_array(j, "reasons");
	json_string(j, strbuf_text(&unsettled));
	json_end(j);
}

void comparison_print_json(const struct comparison_view *v)
{
	const struct comparison *c = v->comparison;
	struct json j = JSON_PRETTY(v->out);

	json_object(&j);
	json_key_string(&j, "verdict", comparison_verdicts[c->verdict]);
	json_key_bool(&j, "few_runs", c->is_few);
	json_key_known(&j, "runs_needed", c->runs_needed != 0, c->runs_needed);
	add_reasons(&j, c);
	add_texts(&j, "notes", &c->notes);
	comparison_runs_json(&j, "a", c->a);
	comparison_runs_json(&j, "b", c->b);
	json_key_array(&j, "conditions");
	for (size_t i = 0; i < v->condition_count; i++)
		add_condition(&j, &v->conditions[i]);
	json_end(&j);
	json_key_array(&j, "rows");
	for (size_t i = 0; i < c->rows.count; i++)
		add_row(&j, &c->rows.data[i]);
	json_finish(&j);
}
