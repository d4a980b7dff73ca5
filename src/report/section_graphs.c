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

static const struct field graph_fields[] = {
	FIELD("pid", NULL, PID, GRAPH(process)),
	FIELD("graph", NULL, ID, GRAPH(graph)),
	FIELD(NULL, "", TEXT, .value = read_name, FLEXIBLE_COLUMN),
	FIELD("launches", "launches", COUNT, GRAPH(launches)),
	FIELD(NULL, "nodes/launch", COUNT, GRAPH(nodes), PER(struct graph_group, node_launches),
	      COUNTED(struct graph_group, nodes)),
	FIELD(NULL, "replay median", NS, GRAPH(replay.median_ns),
	      COUNTED(struct graph_group, replay.count)),
	FIELD(NULL, "p99", NS, GRAPH(replay.p99_ns), COUNTED(struct graph_group, replay.count),
	      OPTIONAL_COLUMN),
	FIELD(NULL, "total", NS, GRAPH(replay.total_ns), COUNTED(struct graph_group, replay.count),
	      OPTIONAL_COLUMN),
	FIELD("nodes", NULL, COUNT, GRAPH(nodes)),
	FIELD("node_ns", "node time", NS, GRAPH(node_ns), COUNTED(struct graph_group, nodes)),
	FIELD("replay", NULL, STATS, GRAPH(replay)),
};

static const struct field fields[] = {
	LIST("graphs", ITEMS(struct graphs, items, count), graph_fields),
};

static void add_cost(const struct report_view *v, struct strbuf *out)
{
	const struct graphs *g = v->report->graphs;

	if (graphs_nodes_are_expensive(g))
		sentence_add(out, WORDS("recording each node took up to "),
			     PERCENT(g->node_cost_ns, g->node_span_ns),
			     WORDS(" of the time with graphs; to record whole graphs: pitot record "
				   "--graphs launch\n"));
}

const struct section section_graphs = {
	.title = "CUDA graphs",
	RESULT(graphs),
	FIELDS(fields),
	.after = add_cost,
};
