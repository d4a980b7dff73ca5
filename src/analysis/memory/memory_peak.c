#include "analysis/memory/memory_peak.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/steps.h"

struct owners {
	GROUPS(struct memory_part) parts; /* key: group << 32 | key */
	struct nvtx_cursor cursor;
};

uint32_t memory_call(const struct report *r, uint32_t row)
{
	return row == TRACE_NO_ROW || !r->allocation_calls ? TRACE_NO_ROW
							   : r->allocation_calls[row];
}

uint32_t memory_line(const struct report *r, const struct memory_block *b)
{
	if (b->row == TRACE_NO_ROW)
		return MEMORY_BEFORE;
	return callers_of_call(&r->callers, r->memory_use->items[b->group].process,
			       memory_call(r, b->row));
}

const struct step_loop *memory_loop(const struct report *r, size_t process)
{
	process = trace_process(r->trace, process)->subject;

	for (size_t i = 0; i < r->steps->loop_count; i++)
		if (r->steps->loops[i].process == process && r->steps->loops[i].count)
			return &r->steps->loops[i];
	return NULL;
}

/* The step in which a block was allocated, as an item of steps.items. */
static uint32_t step_of(const struct report *r, const struct memory_group *g, uint32_t row)
{
	const struct step_loop *loop = memory_loop(r, g->process);
	const struct step *step =
		loop ? steps_at(r->steps, loop, allocation_columns(r->trace)->time_ns[row]) : NULL;

	return step ? (uint32_t)(step - r->steps->items) : MEMORY_NONE;
}

/*
 * The scope of an allocation. What the sampler has seen of a process has calls of its threads; the
 * process itself has the scopes.
 */
static int find_scope(struct owners *o, const struct report *r, size_t process, uint32_t row,
		      uint32_t *path)
{
	const struct api_call_columns *calls = api_call_columns(r->trace);
	size_t subject = trace_process(r->trace, process)->subject;
	uint32_t call = memory_call(r, row), range;
	int code;

	*path = nvtx_path_of_call(&r->ranges, call);
	if (subject == process || call == TRACE_NO_ROW)
		return 0;
	code = nvtx_cursor_at(&o->cursor, subject, calls->thread[call], calls->start_ns[call],
			      &range);
	if (code == 0)
		*path = nvtx_path(&r->ranges, range);
	return code;
}

static int find_key(struct owners *o, const struct report *r, const struct memory_block *b,
		    enum memory_by by, uint32_t *key)
{
	const struct memory_group *g = &r->memory_use->items[b->group];

	*key = b->bytes ? 63u - (uint32_t)__builtin_clzll(b->bytes) : MEMORY_NONE;
	if (by == MEMORY_BY_SIZE)
		return 0;
	*key = MEMORY_BEFORE;
	if (b->row == TRACE_NO_ROW)
		return 0;
	if (by == MEMORY_BY_SCOPE)
		return find_scope(o, r, g->process, b->row, key);
	*key = by == MEMORY_BY_STEP ? step_of(r, g, b->row) : memory_line(r, b);
	return 0;
}

static int add_block(struct owners *o, const struct report *r, const struct memory_block *b,
		     enum memory_by by)
{
	struct memory_part *part;
	uint32_t key;
	int code = find_key(o, r, b, by, &key);

	if (code < 0)
		return code;
	part = groups_at(&o->parts, (uint64_t)b->group << 32 | key, .group = b->group, .key = key,
			 .by = (uint8_t)by);

	if (!part)
		return -ENOMEM;
	part->bytes += b->bytes;
	part->count++;
	return 0;
}

ORDER(largest_first, struct memory_part, UP(group) ?: DOWN(bytes) ?: DOWN(count) ?: UP(key))

/* Adds up what is live at the peak of each group, or at the end. */
static int find_parts(const struct report *r, enum memory_by by, bool at_end,
		      struct memory_parts *out)
{
	const struct memory_use *u = r->memory_use;
	struct owners o = { .parts = GROUPS_INIT, .cursor = { .ranges = &r->ranges } };
	int code = 0;

	for (size_t i = 0; i < u->block_count && code == 0; i++) {
		const struct memory_block *b = &u->blocks[i];

		if (at_end ? b->release == TRACE_NO_ROW
			   : memory_is_live(b, u->items[b->group].peak_row))
			code = add_block(&o, r, b, by);
	}
	map_release(&o.cursor.last);
	groups_take(&o.parts, largest_first, &out->items, &out->count);
	return code;
}

/* --- curves --- */

struct curve_builder {
	const struct report *report;
	struct memory_curve *curve;
	uint64_t start_ns, width_ns;
};

static void add_point(struct memory_curve *c, uint64_t time_ns, uint64_t bytes)
{
	if (c->count < MEMORY_POINTS_MAX)
		c->points[c->count++] = (struct memory_point){ time_ns, bytes };
}

/* Each interval has a point, with its highest level: the peak is among them. */
static int add_level(void *user, uint64_t row, uint64_t bytes)
{
	struct curve_builder *b = user;
	struct memory_curve *c = b->curve;
	uint64_t time_ns = allocation_columns(b->report->trace)->time_ns[row];
	uint64_t number = (time_ns - MIN(b->start_ns, time_ns)) / b->width_ns;
	uint64_t at_ns = b->start_ns + number * b->width_ns;
	const struct memory_point *last = c->count ? &c->points[c->count - 1] : NULL;

	if (last && last->time_ns >= at_ns) {
		c->points[c->count - 1].bytes = MAX(last->bytes, bytes);
	} else {
		if (last && last->bytes != c->after && last->time_ns + b->width_ns < at_ns)
			add_point(c, last->time_ns + b->width_ns, c->after);
		add_point(c, at_ns, MAX(bytes, c->after));
	}
	c->after = bytes;
	return 0;
}

static int find_curve(const struct report *r, size_t group, struct memory_curve *out)
{
	const struct memory_group *g = &r->memory_use->items[group];
	uint64_t span_ns = r->end_ns - r->span_start_ns;
	struct curve_builder b = { r, out, r->span_start_ns,
				   span_ns / (MEMORY_POINTS_MAX - 2) + 1 };

	uint64_t changes = g->allocations + g->releases;

	out->after = g->base_bytes;
	/* Each change of the level makes at most two points. */
	out->points = calloc(MIN(MEMORY_POINTS_MAX, 2 * changes + 1), sizeof(*out->points));
	if (!out->points)
		return -ENOMEM;
	return memory_curve(r->memory_use, group, add_level, &b);
}

static int find_curves(const struct report *r, struct memory_peak *out)
{
	int code = 0;

	out->curves = calloc(r->memory_use->count + 1, sizeof(*out->curves));
	if (!out->curves)
		return -ENOMEM;
	for (; out->curve_count < r->memory_use->count && code == 0; out->curve_count++)
		code = find_curve(r, out->curve_count, &out->curves[out->curve_count]);
	return code;
}

static int run(struct report *r, void *result)
{
	struct memory_peak *out = result;
	int code = 0;

	if (!r->options.memory)
		return 0;
	for (unsigned by = 0; by < MEMORY_BYS && code == 0; by++)
		code = find_parts(r, (enum memory_by)by, false, &out->peak[by]);
	if (code == 0)
		code = find_parts(r, MEMORY_BY_LINE, true, &out->live);
	if (code == 0)
		code = find_curves(r, out);
	if (code == 0)
		code = memory_pools_find(r, out);
	return code == 0 ? memory_unexplained_find(r, out) : code;
}

static void release(void *result)
{
	struct memory_peak *out = result;

	for (unsigned by = 0; by < MEMORY_BYS; by++)
		free(out->peak[by].items);
	free(out->live.items);
	for (size_t i = 0; i < out->curve_count; i++)
		free(out->curves[i].points);
	free(out->curves);
	free(out->pools);
	free(out->gpus);
}

const struct analysis analysis_memory_peak = {
	.size = sizeof(struct memory_peak),
	.needs = { { TABLE_allocation,
		     COLUMN_BITS(allocation, pool_address, pool_bytes, pool_used_bytes, async) },
		   { TABLE_memory_pool, 0 },
		   { TABLE_counter_sample,
		     COLUMN_BITS(counter_sample, time_ns, counter, value, device) } },
	.run = run,
	.release = release,
	.reads_others = true,
};
