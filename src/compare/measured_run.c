/* measured_run.c: the container; measure_run.c fills it. */
#include "compare/measured_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROW(row_name, row_unit, of, parts, row_meaning)                                            \
	[QUANTITY_##row_name] = { .name = #row_name,                                               \
				  .unit = QUANTITY_##row_unit,                                     \
				  .values = QUANTITY_OF_##of,                                      \
				  .has_parts = parts,                                              \
				  .meaning = row_meaning },
const struct quantity_type quantity_types[QUANTITY_KINDS] = { QUANTITIES(ROW) };
#undef ROW

#define TEXT(name, text) [RUN_FACT_##name] = text,
#define NAME(name, text) [RUN_FACT_##name] = #name,
const char *const run_fact_texts[RUN_FACT_COUNT] = { RUN_FACTS(TEXT) };
const char *const run_fact_names[RUN_FACT_COUNT] = { RUN_FACTS(NAME) };
#undef TEXT
#undef NAME

uint64_t quantity_key(enum quantity_kind kind, const char *name)
{
	return hash_bytes(name, strlen(name)) * QUANTITY_KINDS + kind;
}

const struct quantity *measured_run_find(const struct measured_run *run, enum quantity_kind kind,
					 const char *name)
{
	uint64_t at;

	return map_get(&run->index, quantity_key(kind, name), &at) ? &run->quantities.data[at - 1]
								   : NULL;
}

struct quantity *measured_run_at(struct measured_run *run, enum quantity_kind kind,
				 const char *name)
{
	bool per_step = quantity_types[kind].values == QUANTITY_OF_STEP;
	uint64_t *at = map_at(&run->index, quantity_key(kind, name), 0);
	struct quantity q = { .kind = kind };

	if (at && *at)
		return &run->quantities.data[*at - 1];
	q.name = arena_strndup(&run->memory, name, strlen(name));
	if (per_step)
		q.steps = arena_alloc(&run->memory, (run->step_count + 1) * sizeof(*q.steps));
	if (!at || !q.name || (per_step && !q.steps) || vec_push(&run->quantities, q) < 0)
		return NULL;
	if (per_step)
		memset(q.steps, 0, (run->step_count + 1) * sizeof(*q.steps));
	*at = run->quantities.count;
	return &run->quantities.data[*at - 1];
}

int measured_run_finish(struct measured_run *run)
{
	double steps = (double)(run->step_count + !run->step_count);

	for (size_t i = 0; i < run->quantities.count; i++) {
		struct quantity *q = &run->quantities.data[i];

		q->count /= steps;
		if (!q->steps)
			continue;
		if (q->kind == QUANTITY_step) {
			if (sample_median((struct sample){ q->steps, run->step_count }, &q->value) <
			    0)
				return -ENOMEM;
			continue;
		}
		for (size_t k = 0; k < run->step_count; k++)
			q->value += q->steps[k] / steps;
	}
	return 0;
}

void measured_run_release(struct measured_run *run)
{
	vec_release(&run->quantities);
	vec_release(&run->order);
	map_release(&run->index);
	arena_release(&run->memory);
}
