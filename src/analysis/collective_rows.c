#include "analysis/collective_rows.h"

#include <errno.h>
#include <stdlib.h>

#include "base/search.h"
#include "ranks/collective_name.h"
#include "trace/columns.h"

/* Node ids have 64 bits, so that keys are hashes. */
static uint64_t key_of(uint32_t process, uint64_t id)
{
	return hash_u64(id ^ hash_u64(process + UINT64_C(1)));
}

/* Adds a row to those of its key: its first row in the upper half, their number in the lower. */
static int add(struct map *map, uint64_t key, uint64_t row)
{
	uint64_t *rows = map_at(map, key, row << 32);

	if (!rows)
		return -ENOMEM;
	++*rows;
	return 0;
}

/* The rows of a launch are together in time and thread, but others may be between. */
struct keyed_row {
	uint64_t key;
	uint32_t row;
};
ORDER(compare_rows, struct keyed_row, UP(key) ?: UP(row))

/* Lists the rows of a launch or node next to each other. */
static int order_rows(struct collective_rows *r)
{
	const struct collective_columns *c = collective_columns(r->trace);
	uint64_t rows = trace_rows(r->trace, TABLE_collective), count = 0;
	struct keyed_row *all = calloc(rows + 1, sizeof(*all));
	int rc = 0;

	r->order = calloc(rows + 1, sizeof(*r->order));
	if (!all || !r->order) {
		free(all);
		return -ENOMEM;
	}
	for (uint64_t row = 0; row < rows; row++) {
		uint32_t process = (uint32_t)trace_row_process(r->trace, TABLE_collective, row);
		bool captured = column_has(c->valid.graph_node, row);

		r->known[process] = true;
		if (!captured && !column_has(c->valid.correlation, row))
			continue;
		all[count].key =
			key_of(process, captured ? c->graph_node[row] : c->correlation[row]) ^
			captured;
		all[count++].row = (uint32_t)row;
	}
	qsort(all, count, sizeof(*all), compare_rows);
	for (uint64_t i = 0; i < count && rc >= 0; i++) {
		r->order[i] = all[i].row;
		rc = add(column_has(c->valid.graph_node, all[i].row) ? &r->captured : &r->launched,
			 all[i].key, i);
	}
	free(all);
	return rc;
}

static int find_originals(struct collective_rows *r)
{
	const struct graph_node_columns *c = graph_node_columns(r->trace);
	uint64_t rows = trace_rows(r->trace, TABLE_graph_node);

	for (uint64_t row = 0; row < rows; row++)
		if (column_has(c->valid.original, row) &&
		    map_put(&r->originals,
			    key_of((uint32_t)trace_row_process(r->trace, TABLE_graph_node, row),
				   c->node[row]),
			    c->original[row]) < 0)
			return -ENOMEM;
	return 0;
}

int collective_rows_init(struct collective_rows *r, const struct trace *t)
{
	*r = (struct collective_rows){
		.trace = t, .launched = MAP_INIT, .captured = MAP_INIT, .originals = MAP_INIT
	};
	r->known = calloc(trace_process_count(t) + 1, sizeof(*r->known));
	if (!r->known || order_rows(r) < 0)
		return -ENOMEM;
	return r->captured.count ? find_originals(r) : 0;
}

void collective_rows_release(struct collective_rows *r)
{
	map_release(&r->launched);
	map_release(&r->captured);
	map_release(&r->originals);
	free(r->order);
	free(r->known);
}

/* The rows of a kernel: *first is an item of r->order. Returns their number. */
static uint32_t rows_of(const struct collective_rows *r, uint32_t process, uint32_t kernel,
			size_t *first, bool *captured)
{
	const struct kernel_columns *c = kernel_columns(r->trace);
	uint64_t node, rows;

	*captured = column_has(c->valid.graph_node, kernel) && c->graph_node;
	if (*captured) {
		node = c->graph_node[kernel];
		for (int clones = 0; clones < 4; clones++)
			if (!map_get(&r->originals, key_of(process, node), &node))
				break;
		if (!map_get(&r->captured, key_of(process, node) ^ 1, &rows))
			return 0;
	} else if (!map_get(&r->launched, key_of(process, c->correlation[kernel]), &rows)) {
		return 0;
	}
	*first = rows >> 32;
	return (uint32_t)rows;
}

static bool is_peer(uint8_t function)
{
	return function == collective_function_send || function == collective_function_recv;
}

/*
 * A kernel with sends and receives is matched by its first pair of ranks, and its direction, which
 * both sides have; if every other rank is a peer, it is an exchange of all.
 */
static void find_pair(const struct collective_rows *r, const uint32_t *rows, uint32_t count,
		      uint32_t own, struct collective_part *part)
{
	const struct collective_columns *c = collective_columns(r->trace);
	uint64_t best = UINT64_MAX;
	uint32_t sends = 0, receives = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t row = rows[i], peer = c->peer[row];
		bool send = c->function[row] == collective_function_send;
		uint64_t pair = send ? (uint64_t)own << 32 | peer : (uint64_t)peer << 32 | own;

		if (!is_peer(c->function[row]) || !column_has(c->valid.peer, row) || peer == own)
			continue;
		sends += send;
		receives += !send;
		if (pair >= best)
			continue;
		best = pair;
		part->sequence = c->sequence[row];
		part->inferred = !column_has(c->valid.sequence, row);
		part->count = c->count[row];
		part->datatype = c->datatype[row];
	}
	part->function = collective_function_send;
	part->mutual = false;
	if (sends && sends + 1 == part->size && receives == sends) {
		part->function = collective_function_all_to_all;
		part->mutual = true;
		part->inferred = true; /* numbered by their order in the communicator */
		part->communicator = hash_u64(part->communicator + 1);
		return;
	}
	part->communicator = hash_u64(part->communicator ^ hash_u64(best));
}

bool collective_rows_find(const struct collective_rows *r, uint32_t process, uint32_t kernel,
			  struct collective_part *part)
{
	const struct collective_columns *c = collective_columns(r->trace);
	const struct communicator_columns *all = communicator_columns(r->trace);
	uint32_t count, row, communicator;
	bool captured;
	size_t first;

	count = rows_of(r, process, kernel, &first, &captured);
	if (!count)
		return false;
	row = r->order[first];
	communicator = c->communicator[row];
	if (!column_has(c->valid.communicator, row) || communicator == TRACE_NO_ROW)
		return false;
	part->size = column_has(all->valid.ranks, communicator) ? all->ranks[communicator] : 0;
	if (column_has(all->valid.rank, communicator))
		part->member = (int32_t)all->rank[communicator];
	part->row = row;
	part->fused = (uint16_t)MIN(count, UINT16_MAX);
	part->function = c->function[row];
	part->mutual = collective_is_mutual((enum collective_function)part->function);
	part->communicator = all->hash[communicator];
	part->sequence = c->sequence[row];
	part->inferred = captured || !column_has(c->valid.sequence, row);
	part->count = c->count[row];
	part->datatype = c->datatype[row];
	part->root = column_has(c->valid.root, row) ? (int32_t)c->root[row] : -1;
	if (is_peer(part->function)) {
		find_pair(r, &r->order[first], count, all->rank[communicator], part);
		part->size = part->mutual ? part->size : 2;
	}
	/* Numbers of captured ones repeat: they are counted by themselves. */
	if (captured)
		part->communicator = hash_u64(part->communicator + 2);
	return true;
}
