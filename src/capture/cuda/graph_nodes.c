#include "capture/cuda/graph_nodes.h"

#include "base/clock.h"
#include "capture/cuda/correlation.h"
#include "capture/stack_capture.h"

enum { HAS_GRAPH = 1, HAS_ORIGINAL = 2 }; /* ring_event.flags */

#define SLOTS 2u

_Static_assert((int)graph_node_kind_release == (int)CU_GRAPH_NODE_TYPE_MEM_FREE,
	       "the driver's numbers");

static __typeof__(cuptiGetGraphId) *graph_id;
static __typeof__(cuptiGetGraphNodeId) *node_id;

bool graph_nodes_start(const struct cupti *cupti, CUpti_SubscriberHandle subscriber)
{
	static const CUpti_CallbackId wanted[] = {
		CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
		CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
		CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING,
		CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
	};

	graph_id = cupti->GetGraphId;
	node_id = cupti->GetGraphNodeId;
	if (!node_id)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (cupti->EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, wanted[i]) !=
		    CUPTI_SUCCESS)
			return false;
	return true;
}

static void take_node(const CUpti_GraphData *data, bool cloned)
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
	if (!cloned && !r->instantiating) /* who instantiates is not who made it */
		event[0].e = stack_capture_take(r);
	event[1].c = r->outer_correlation;
	ring_push(r, event, SLOTS);
	ring_count_call(r, event[0].a);
}

static void note_instantiation(bool begins)
{
	struct ring *r = ring_get();

	if (r)
		r->instantiating = begins;
}

void graph_nodes_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
	switch (cbid) {
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING:
	case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED:
		note_instantiation(cbid == CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING);
		break;
	case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED:
	case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
		if (node_id && data && data->resourceDescriptor)
			take_node(data->resourceDescriptor,
				  cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
		break;
	default:
		break;
	}
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
		.correlation = correlation_widen(more->c),
		.stack = event->e,
	};

	if (!(event->flags & HAS_GRAPH))
		ROW_MISSING(&row, graph_node, graph);
	if (!(event->flags & HAS_ORIGINAL))
		ROW_MISSING(&row, graph_node, original);
	if (!more->c)
		ROW_MISSING(&row, graph_node, correlation);
	if (!event->e)
		ROW_MISSING(&row, graph_node, stack);
	writer_append(w, TABLE_graph_node, &row);
	return SLOTS;
}
