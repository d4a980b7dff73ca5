#include "capture/cuda/graph_nodes.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "capture/cuda/correlation.h"
#include "capture/stack/stack_capture.h"

enum { HAS_GRAPH = 1, HAS_ORIGINAL = 2, IS_EDGE = 4, IS_REMOVED = 8 }; /* ring_event.flags */

#define SLOTS 2u

_Static_assert((int)graph_node_kind_release == (int)CU_GRAPH_NODE_TYPE_MEM_FREE,
	       "the driver's numbers");

static __typeof__(cuptiGetGraphId) *graph_id;
static __typeof__(cuptiGetGraphNodeId) *node_id;

static atomic_bool exist; /* graphs were instantiated, or may have been */

static bool watch(const struct hub_client *c, CUpti_CallbackId id)
{
	return hub_set_callback(c, true, CUPTI_CB_DOMAIN_RESOURCE, id) == CUPTI_SUCCESS;
}

void graph_nodes_watch_graphs(const struct hub_client *c)
{
	if (!watch(c, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING))
		atomic_store(&exist, true); /* perhaps */
}

bool graph_nodes_start(const struct hub_client *c, const struct cupti *cupti)
{
	graph_id = cupti->GetGraphId;
	node_id = cupti->GetGraphNodeId;
	if (!node_id)
		return false;
	return watch(c, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) &&
	       watch(c, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) &&
	       watch(c, CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED) &&
	       watch(c, CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING) &&
	       watch(c, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED);
}

void graph_nodes_stop(const struct hub_client *c)
{
	static const CUpti_CallbackId watched[] = {
		CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING,
		CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
		CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
		CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED,
		CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING,
		CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
	};

	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		hub_set_callback(c, false, CUPTI_CB_DOMAIN_RESOURCE, watched[i]);
}

bool graph_nodes_graphs_exist(void)
{
	return atomic_load(&exist);
}

void graph_nodes_graphs_unseen(void)
{
	atomic_store(&exist, true);
}

/* A failed instantiation has no end event: nodes made in another graph after it are not its own. */
static bool is_of_executable(const struct ring *r, const CUpti_GraphData *data)
{
	return r->instantiating && (!r->executable || (uintptr_t)data->graph == r->executable);
}

static void append_node(const CUpti_GraphData *data, bool cloned)
{
	struct ring *r = ring_get();
	struct ring_event event[SLOTS] = { {
		.a = clock_monotonic_ns(),
		.d = (uint32_t)data->nodeType,
		.kind = RING_GRAPH_NODE,
	} };

	if (!r || node_id(data->node, &event[0].b) != CUPTI_SUCCESS)
		return;
	if (graph_id && data->graph && graph_id(data->graph, &event[0].c) == CUPTI_SUCCESS)
		event[0].flags |= HAS_GRAPH;
	if (cloned && node_id(data->originalNode, &event[1].a) == CUPTI_SUCCESS)
		event[0].flags |= HAS_ORIGINAL;
	/* The instantiating code did not make the node. */
	if (!cloned && !is_of_executable(r, data))
		event[0].e = stack_capture_call(r);
	if (!cloned)
		r->launch.node = event[0].b;
	event[1].c = r->outer_correlation;
	ring_push(r, event, SLOTS);
	ring_count_call(r, event[0].a);
}

static void append_edge(const CUpti_GraphData *data, bool removed)
{
	struct ring *r = ring_get();
	struct ring_event event[SLOTS] = { {
		.a = clock_monotonic_ns(),
		.kind = RING_GRAPH_NODE,
		.flags = IS_EDGE | (removed ? IS_REMOVED : 0),
	} };

	if (!r || node_id(data->node, &event[0].b) != CUPTI_SUCCESS ||
	    node_id(data->dependency, &event[1].a) != CUPTI_SUCCESS)
		return;
	if (graph_id && data->graph && graph_id(data->graph, &event[0].c) == CUPTI_SUCCESS)
		event[0].flags |= HAS_GRAPH;
	ring_push(r, event, SLOTS);
	ring_count_call(r, event[0].a);
}

static void follow_instantiation(bool begins, const CUpti_GraphData *data)
{
	struct ring *r = ring_get();

	if (r) {
		r->instantiating = begins;
		r->executable = data ? (uintptr_t)data->graphExec : 0;
	}
	if (begins)
		atomic_store(&exist, true);
}

void graph_nodes_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING:
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED:
		follow_instantiation(cbid == CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING,
				     data ? data->resourceDescriptor : NULL);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED:
	case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
		if (node_id && data && data->resourceDescriptor)
			append_node(data->resourceDescriptor,
				    cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED:
	case CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING:
		if (node_id && data && data->resourceDescriptor)
			append_edge(data->resourceDescriptor,
				    cbid != CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED);
		break;
	default:
		break;
	}
}

static void write_edge(struct writer *w, const struct ring_event *event, uint64_t dependency)
{
	struct row_graph_edge row = {
		.time_ns = event->a,
		.node = event->b,
		.dependency = dependency,
		.graph = event->c,
		.removed = 1,
	};

	ROW_MISSING_IF(&row, graph_edge, graph, !(event->flags & HAS_GRAPH));
	ROW_MISSING_IF(&row, graph_edge, removed, !(event->flags & IS_REMOVED));
	writer_append(w, TABLE_graph_edge, &row);
}

uint64_t graph_nodes_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position), *more = ring_slot(r, position + 1);
	struct row_graph_node row = {
		.time_ns = event->a,
		.node = event->b,
		.graph = event->c,
		.kind = (uint8_t)event->d,
		.original = more->a,
		.thread = r->tid,
		.correlation = correlation_widen(more->c, event->a),
		.stack = event->e,
	};

	if (event->flags & IS_EDGE) {
		write_edge(w, event, more->a);
		return SLOTS;
	}
	ROW_MISSING_IF(&row, graph_node, graph, !(event->flags & HAS_GRAPH));
	ROW_MISSING_IF(&row, graph_node, original, !(event->flags & HAS_ORIGINAL));
	ROW_MISSING_IF(&row, graph_node, correlation, !more->c);
	ROW_MISSING_IF(&row, graph_node, stack, !event->e);
	writer_append(w, TABLE_graph_node, &row);
	return SLOTS;
}
