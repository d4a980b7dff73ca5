#include "import/nested_ranges.h"

#include <errno.h>

#define LEVEL_MAX 30u
#define OPEN_MAX 4096u /* ranges of a thread */

struct nested_open {
	uint64_t end_ns;
	uint32_t domain, level;
};

int nested_append(struct nested_ranges *r, struct database_process *p, const struct row_nvtx *row)
{
	p->first_ns = p->first_ns ? MIN(p->first_ns, row->time_ns) : row->time_ns;
	p->last_ns = MAX(p->last_ns, row->time_ns);
	return database_append(r->import, p, TABLE_nvtx, row, r->e);
}

struct row_nvtx nested_row(enum nvtx_kind kind, uint64_t time_ns, uint32_t thread, uint32_t domain)
{
	return (struct row_nvtx){ .missing = schema_missing(TABLE_nvtx),
				  .kind = (uint8_t)kind,
				  .time_ns = time_ns,
				  .thread = thread,
				  .domain = domain };
}

static void set_level(struct row_nvtx *row, uint32_t level)
{
	row->level = (uint8_t)MIN(level, LEVEL_MAX);
	row->missing &= ~(UINT64_C(1) << COLUMN_nvtx_level);
}

void nested_set_range(struct row_nvtx *row, uint64_t range)
{
	row->range = range;
	row->missing &= ~(UINT64_C(1) << COLUMN_nvtx_range);
}

static int pop(struct nested_ranges *r, struct nested_thread *t, uint64_t time_ns)
{
	struct nested_open o = t->open.data[--t->open.count];
	struct row_nvtx row = nested_row(nvtx_kind_pop, time_ns, t->tid, o.domain);

	set_level(&row, o.level);
	return nested_append(r, t->process, &row);
}

/*
 * Writes the ends of ranges before a time. A range without an end remains open, but not longer than
 * the one around it.
 */
static int pop_until(struct nested_ranges *r, struct nested_thread *t, uint64_t time_ns)
{
	int rc = 0;

	while (rc >= 0 && t->open.count) {
		size_t i = t->open.count - 1;
		uint64_t end_ns;

		while (i && t->open.data[i].end_ns == RANGE_OPEN)
			i--;
		end_ns = t->open.data[i].end_ns;
		if (end_ns > time_ns)
			break;
		while (rc >= 0 && t->open.count > i)
			rc = pop(r, t, end_ns);
	}
	return rc;
}

struct nested_thread *nested_thread(struct nested_ranges *r, struct database_process *p,
				    uint64_t key, uint32_t tid)
{
	uint64_t *item = map_at(&r->thread_of, key, r->threads.count);

	if (!item)
		return NULL;
	if (*item == r->threads.count &&
	    vec_push(&r->threads, ((struct nested_thread){ .process = p, .tid = tid })) < 0)
		return NULL;
	return &r->threads.data[*item];
}

int nested_push(struct nested_ranges *r, struct nested_thread *t, struct row_nvtx *row,
		uint64_t end_ns)
{
	struct nested_open o = { .end_ns = end_ns, .domain = row->domain };
	struct row_nvtx end = *row;
	int rc = pop_until(r, t, row->time_ns);
	size_t count = t->open.count;

	if (rc < 0)
		return rc;
	if (end_ns != RANGE_OPEN &&
	    (count >= OPEN_MAX || (count && t->open.data[count - 1].end_ns < end_ns))) {
		row->kind = nvtx_kind_start;
		nested_set_range(row, ++r->next_range);
		rc = nested_append(r, t->process, row);
		end = nested_row(nvtx_kind_end, end_ns, row->thread, row->domain);
		nested_set_range(&end, row->range);
		return rc < 0 ? rc : nested_append(r, t->process, &end);
	}
	for (size_t i = 0; i < count; i++)
		o.level += t->open.data[i].domain == o.domain;
	if (vec_push(&t->open, o) < 0)
		return -ENOMEM;
	set_level(row, o.level);
	return nested_append(r, t->process, row);
}

int nested_pop(struct nested_ranges *r, struct nested_thread *t, uint64_t time_ns)
{
	int rc = pop_until(r, t, time_ns);

	if (rc < 0 || (t->open.count && t->open.data[t->open.count - 1].end_ns == RANGE_OPEN))
		return rc < 0 ? rc : pop(r, t, time_ns);
	database_loss(r->import, loss_reason_damaged_file, 1, "pops of ranges without a push");
	return 0;
}

int nested_end(struct nested_ranges *r, int rc)
{
	for (size_t i = 0; i < r->threads.count; i++) {
		if (rc >= 0)
			rc = pop_until(r, &r->threads.data[i], RANGE_OPEN - 1);
		vec_release(&r->threads.data[i].open);
	}
	vec_release(&r->threads);
	map_release(&r->thread_of);
	return rc;
}
