#include "analysis/collective_groups.h"

#include <errno.h>
#include <string.h>

#include "analysis/collectives.h"
#include "analysis/groups.h"
#include "analysis/machine_links.h"
#include "analysis/report.h"

struct grouping {
	const struct report *report;
	GROUPS(struct collective_group) groups; /* key: communicator, function, power of two */
	uint32_t *last; /* by group and rank: how often it was the last */
	uint64_t *ends; /* of one match */
};

/* Bytes that algorithm bandwidth divides; 0: unknown. */
static uint64_t size_of(const struct report *r, const struct collective_part *p, uint32_t ranks)
{
	const struct collective_columns *c = collective_columns(r->trace);

	if (p->row == UINT32_MAX || !column_has(c->valid.bytes, p->row) || p->fused > 1)
		return 0;
	switch ((enum collective_function)p->function) {
	case collective_function_all_gather:
	case collective_function_reduce_scatter:
	case collective_function_all_to_all:
	case collective_function_gather:
	case collective_function_scatter:
		return c->bytes[p->row] * ranks;
	default:
		return c->bytes[p->row];
	}
}

/* Bytes that each link carries. */
static uint64_t bus_bytes(uint8_t function, uint64_t bytes, uint32_t ranks)
{
	double share = (double)(ranks - 1) / ranks;

	switch ((enum collective_function)function) {
	case collective_function_all_reduce:
		return (uint64_t)(2 * share * (double)bytes);
	case collective_function_all_gather:
	case collective_function_reduce_scatter:
	case collective_function_all_to_all:
	case collective_function_gather:
	case collective_function_scatter:
		return (uint64_t)(share * (double)bytes);
	default:
		return bytes;
	}
}

static struct collective_group *find_group(struct grouping *x, const struct collective_part *p,
					   const struct collective_match *m, uint64_t bytes)
{
	const struct communicator_columns *c = communicator_columns(x->report->trace);
	const struct collective_columns *rows = collective_columns(x->report->trace);
	uint32_t communicator = p->row == UINT32_MAX ? TRACE_NO_ROW : rows->communicator[p->row];
	uint64_t hash = communicator == TRACE_NO_ROW ? p->communicator : c->hash[communicator];
	unsigned power = bytes ? 64 - (unsigned)__builtin_clzll(bytes) : 0;
	uint64_t key = hash_u64(
		hash ^ hash_u64((uint64_t)p->function << 8 | power | (uint64_t)m->parts << 16));

	return groups_at(&x->groups, key, .communicator = hash,
			 .name = communicator == TRACE_NO_ROW ? 0 : c->name[communicator],
			 .ranks = m->parts, .function = p->function,
			 .inferred = communicator == TRACE_NO_ROW, .caller = CALLER_NONE);
}

/* Bandwidth of the links of the ranks; 0: unknown. */
static uint64_t link_bandwidth(const struct report *r, const struct collective_part *p,
			       uint32_t parts)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t a = 0; a < parts; a++) {
		for (uint32_t b = a + 1; b < parts; b++) {
			const struct machine_link *l = machine_links_of_ranks(
				r->machine_links, r->collectives, p[a].rank, p[b].rank);

			if (!l || !row_has(&l->row, COLUMN_topology_link_bytes_per_s) ||
			    (parts > 2 && !l->row.by_switch))
				return 0;
			least = MIN(least, l->row.bytes_per_s);
		}
	}
	return least;
}

static void add_times(struct grouping *x, struct collective_group *g,
		      const struct collective_part *p, uint32_t parts)
{
	size_t group = (size_t)(g - x->groups.items.data);
	uint64_t first_ns = UINT64_MAX, kernels_ns = 0;
	const struct collective_part *last = p;
	uint32_t *count;

	for (uint32_t i = 0; i < parts; i++) {
		first_ns = MIN(first_ns, p[i].start_ns);
		kernels_ns += p[i].end_ns - p[i].start_ns;
		x->ends[i] = p[i].end_ns;
		if (p[i].start_ns > last->start_ns)
			last = &p[i];
	}
	qsort(x->ends, parts, sizeof(*x->ends), order_u64);
	g->compared++;
	g->kernel_ns += kernels_ns / parts;
	g->transfer_ns += x->ends[parts / 2] - MIN(last->start_ns, x->ends[parts / 2]);
	g->skew_ns += last->start_ns - first_ns;
	g->max_skew_ns = MAX(g->max_skew_ns, last->start_ns - first_ns);
	count = &x->last[group * x->report->collectives->rank_count + last->rank];
	if (last->start_ns - first_ns <= x->report->collectives->uncertainty_ns ||
	    ++*count <= g->last_count)
		return;
	g->last_count = *count;
	g->last = last->rank;
	g->caller = callers_of_call(&x->report->callers,
				    x->report->collectives->ranks[last->rank].process,
				    calls_launch(&x->report->calls, GPU_WORK_kernel, last->kernel));
}

static int add_match(struct grouping *x, const struct collective_match *m)
{
	const struct collectives *c = x->report->collectives;
	const struct collective_part *p = &c->parts.data[m->first];
	uint64_t bytes = size_of(x->report, p, m->parts);
	size_t before = x->groups.items.count;
	struct collective_group *g = find_group(x, p, m, bytes);

	if (!g)
		return -ENOMEM;
	if (x->groups.items.count > before) {
		size_t ranks = c->rank_count;
		uint32_t *grown = realloc(x->last, (before + 1) * ranks * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		x->last = grown;
		memset(&grown[before * ranks], 0, ranks * sizeof(*grown));
	}
	g->count++;
	if (m->parts < 2 || c->mixed || !collective_is_whole(c->parts.data, m))
		return 0;
	if (!g->compared) /* the others of the group have the same ranks */
		g->link_bytes_per_s = link_bandwidth(x->report, p, m->parts);
	g->bytes += bytes;
	g->bus_bytes += bus_bytes(p->function, bytes, m->parts);
	add_times(x, g, p, m->parts);
	return 0;
}

ORDER(compare_groups, struct collective_group,
      ORDER_OF(b->skew_ns + b->transfer_ns, a->skew_ns + a->transfer_ns) ?: UP(communicator) ?: UP(function) ?: UP(bytes))

static int run(struct report *r, void *result)
{
	struct collective_groups *out = result;
	struct grouping x = { .report = r, .groups = GROUPS_INIT };
	const struct collectives *c = r->collectives;
	int rc = 0;

	x.ends = calloc(c->rank_count + 1, sizeof(*x.ends));
	if (!x.ends)
		return -ENOMEM;
	for (size_t i = 0; i < c->matches.items.count && rc >= 0; i++)
		rc = add_match(&x, &c->matches.items.data[i]);
	groups_take(&x.groups, compare_groups, &out->items, &out->count);
	free(x.ends);
	free(x.last);
	return rc;
}

const struct analysis analysis_collective_groups = {
	.size = sizeof(struct collective_groups),
	.run = run,
	.owned = { OWNS(struct collective_groups, items) },
	.reads_others = true,
};
