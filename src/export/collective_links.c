#include "export/collective_links.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/collectives.h"
#include "analysis/report.h"
#include "ranks/collective_name.h"
#include "ranks/collective_wait.h"
#include "trace/columns.h"

/* Whether there is a kernel of a collective. Returns 1, 0 or a negative code. */
static int has_collectives(struct trace *t, struct error *e)
{
	enum collective_function function;
	int rc = trace_load(t, TABLE_kernel_config, COLUMN_BITS(kernel_config, name), e);
	uint64_t rows = rc < 0 ? 0 : trace_rows(t, TABLE_kernel_config);

	for (uint64_t i = 0; i < rows && rc == 0; i++)
		rc = collective_name_parse(trace_string(t, kernel_config_columns(t)->name[i]),
					   &function);
	return rc;
}

/* Adds the members of a collective whose parts are all known. */
static int add_match(struct collective_links *l, const struct collectives *c,
		     const struct collective_match *m, uint32_t *room)
{
	const struct collective_part *parts = &c->parts.data[m->first];

	if (m->parts < 2 || !collective_is_whole(c->parts.data, m))
		return 0;
	collective_find_needs(c->parts.data, m, room);
	collective_find_last(c->parts.data, m, room, 0, room);
	for (uint32_t i = 0; i < m->parts; i++) {
		const struct collective_part *last = &c->parts.data[room[i]];
		uint64_t wait_ns = last->start_ns - parts[i].start_ns;
		struct collective_link link = {
			.collective = l->collectives,
			.last = last->kernel,
			.wait_ns = wait_ns > c->uncertainty_ns
					   ? MIN(wait_ns, parts[i].end_ns - parts[i].start_ns)
					   : 0,
		};

		if (map_put(&l->of_kernel, parts[i].kernel, l->items.count) < 0 ||
		    vec_push(&l->items, link) < 0)
			return -ENOMEM;
	}
	l->collectives++;
	return 0;
}

static int add_matches(struct collective_links *l, struct report *r, struct error *e)
{
	struct job_source source = job_source_of(r);
	struct collectives c = { 0 };
	_cleanup_free_ uint32_t *room = NULL; /* of the parts of a match */
	int rc = collectives_find(&source, &c);

	if (rc >= 0)
		room = calloc(c.rank_count + 1, sizeof(*room));
	rc = rc >= 0 && !room ? -ENOMEM : rc;
	for (size_t i = 0; i < c.matches.items.count && rc >= 0; i++)
		rc = add_match(l, &c, &c.matches.items.data[i], room);
	collectives_free(&c);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

int collective_links_init(struct collective_links *l, struct trace *t, struct error *e)
{
	struct report_options options = { .filter = FILTER_ALL, .ranks = true };
	struct report report;
	int rc;

	*l = (struct collective_links){ .of_kernel = MAP_INIT };
	rc = has_collectives(t, e);
	if (rc <= 0)
		return rc;
	rc = report_init(&report, t, &options, e);
	if (rc < 0)
		return rc;
	rc = add_matches(l, &report, e);
	report_release(&report);
	return rc;
}

void collective_links_release(struct collective_links *l)
{
	map_release(&l->of_kernel);
	vec_release(&l->items);
}

const struct collective_link *collective_link_of(const struct collective_links *l, uint64_t kernel)
{
	uint64_t item;

	return map_get(&l->of_kernel, kernel, &item) ? &l->items.data[item] : NULL;
}
