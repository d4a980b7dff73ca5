/* section_graphs.c: CUDA graphs. */
#include "report/section.h"

#include "analysis/graphs.h"
#include "report/words.h"

#define GRAPH(member) MEMBER(struct graph_group, member)

static void read_name(const struct report_view *v, const void *row, struct value *out)
{
	const struct graph_group *g = row;

	strbuf_addf(&out->text, "graph %u", g->graph);
	report_of_process(v->report, g->process, &out->text);
}

static void read_nodes_each(const struct report_view *v, const void *row, struct value *out)
{
	const struct graph_group *g = row;

	(void)v;
	out->n = g->nodes ? (g->nodes + g->launches / 2) / g->launches : 0;
	out->state = g->nodes ? VALUE_KNOWN : VALUE_UNKNOWN;
}

static const struct field graph_fields[] = {
	{ .key = "pid", .unit = UNIT_PID, GRAPH(process) },
	{ .key = "graph", .unit = UNIT_ID, GRAPH(graph) },
	{ .head = "", .unit = UNIT_TEXT, .layout = LAYOUT_FLEXIBLE, .value = read_name },
	{ .key = "launches", .head = "launches", GRAPH(launches) },
	{ .head = "nodes each", .value = read_nodes_each },
	{ .head = "replay median",
	  .unit = UNIT_NS,
	  GRAPH(replay.median_ns),
	  COUNTED(struct graph_group, replay.count) },
	{ .head = "p99",
	  .unit = UNIT_NS,
	  .layout = LAYOUT_OPTIONAL,
	  GRAPH(replay.p99_ns),
	  COUNTED(struct graph_group, replay.count) },
	{ .head = "total",
	  .unit = UNIT_NS,
	  .layout = LAYOUT_OPTIONAL,
	  GRAPH(replay.total_ns),
	  COUNTED(struct graph_group, replay.count) },
	{ .key = "nodes", GRAPH(nodes) },
	{ .key = "node_ns",
	  .head = "sum of nodes",
	  .unit = UNIT_NS,
	  GRAPH(node_ns),
	  COUNTED(struct graph_group, nodes) },
	{ .key = "replay", .unit = UNIT_STATS, GRAPH(replay) },
};

static const struct field fields[] = {
	{ .key = "graphs",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ ITEMS(struct graphs, items, count),
					FIELDS(graph_fields) } },
};

const struct section section_graphs = { .title = "CUDA graphs", RESULT(graphs), FIELDS(fields) };
