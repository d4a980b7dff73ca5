/* nsys_calls.c: what programs did: calls, with their stacks, overhead, nodes of graphs, samples. */
#include <stdio.h>
#include <string.h>

#include "import/nsys/nsys.h"

#define API_DRIVER 1
#define API_RUNTIME 2
#define API_SYSTEM 3 /* functions of the C library that Nsight Systems traces */
#define CLASS_DRIVER 1 /* ENUM_NSYS_EVENT_CLASS */
#define FRAMES_MAX ((size_t)64 << 20) /* of all stacks */
#define DEPTH_MAX 1024u

/* ---- stacks ---- */

/* Reads the frames of all stacks. The number of a stack is in column `id`. */
static int read_chains(struct database_import *m, struct nsys_chains *c, const char *table,
		       struct error *e)
{
	static const char *const columns[] = { "id", "symbol", "module" };
	struct query q;
	int rc = query_open(&q, &m->db, table, columns, 3, "ORDER BY id, stackDepth", e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		uint64_t id = (uint64_t)query_number(&q, 0, -1);
		uint64_t *chain = map_at(&c->chains, id, c->frames.count << 16);
		uint64_t frame = (uint64_t)query_number(&q, 1, 0) << 32 |
				 (uint32_t)query_number(&q, 2, UINT32_MAX);

		if (!chain)
			rc = -ENOMEM;
		else if ((*chain & 0xffff) >= DEPTH_MAX || c->frames.count >= FRAMES_MAX)
			database_loss(m, loss_reason_stack_limit, 1, table);
		else if (vec_push(&c->frames, frame) < 0)
			rc = -ENOMEM;
		else
			++*chain;
	}
	database_query_end(m, &q, table);
	return rc < 0 && !e->code ? error_set(e, rc, "%s", error_code_text(rc)) : rc;
}

/* Returns the id of a stack for a row of the process; 0: there is none. */
static uint32_t stack_of(struct database_import *m, struct database_process *p,
			 const struct nsys_chains *c, int64_t number)
{
	uint64_t chain, frames[DEPTH_MAX];
	unsigned count;

	if (number < 0 || !map_get(&c->chains, (uint64_t)number, &chain))
		return 0;
	count = chain & 0xffff;
	for (unsigned i = 0; i < count; i++) {
		uint64_t frame = c->frames.data[(chain >> 16) + i];

		frames[i] = database_frame(m, p, frame >> 32, (uint32_t)frame);
	}
	return count ? stack_tree_id(&p->stacks, p->writer, frames, count, stack_end_complete, NULL)
		     : 0;
}

/* ---- calls ---- */

static const struct field call_fields[] = {
	FIELD(api_call, start_ns, TIME, "start"),
	FIELD(api_call, end_ns, TIME, "end"),
	FIELD(api_call, correlation, NUMBER, "correlationId"),
	FIELD(api_call, result, NUMBER_OR_0, "returnValue"),
};
static const struct field call_more[] = {
	{ .from = "globalTid" },
	{ .from = "nameId" },
	{ .from = "callchainId" },
	{ .from = "eventClass" },
};

static bool finish_api(struct database_import *m, struct database_process *p,
		       struct row_api_call *r, const struct query *q, int at, uint32_t api)
{
	const struct nsys *n = m->own;

	r->thread = nsys_tid((uint64_t)query_number(q, at, 0));
	r->function = database_function(m, p, api, (uint64_t)query_number(q, at + 1, -1));
	r->stack = stack_of(m, p, &n->calls, query_number(q, at + 2, -1));
	if (r->stack)
		r->missing &= ~(UINT64_C(1) << COLUMN_api_call_stack);
	return true;
}

static bool finish_call(struct database_import *m, struct database_process *p, void *row,
			const struct query *q, int at)
{
	((struct nsys *)m->own)->has_calls = true;
	return finish_api(m, p, row, q, at,
			  query_number(q, at + 3, 0) == CLASS_DRIVER ? API_DRIVER : API_RUNTIME);
}

/* Its correlation ids are not CUDA's, and its return values are no errors of CUDA. */
static bool finish_system(struct database_import *m, struct database_process *p, void *row,
			  const struct query *q, int at)
{
	struct row_api_call *call = row;

	call->correlation = 0;
	ROW_MISSING(call, api_call, result);
	return finish_api(m, p, row, q, at, API_SYSTEM);
}

/* ---- overhead ---- */

static const struct field overhead_fields[] = {
	FIELD(overhead, start_ns, TIME, "start"),
	FIELD(overhead, end_ns, TIME, "end"),
	FIELD_MAPPED(overhead, kind, "overheadType", nsys_enums[NSYS_OVERHEAD]),
	FIELD(overhead, correlation, NUMBER_OR_0, "correlationId"),
};
static const struct field thread_more[] = { { .from = "globalTid" } };

static bool finish_overhead(struct database_import *m, struct database_process *p, void *row,
			    const struct query *q, int at)
{
	struct row_overhead *overhead = row;
	int64_t thread;

	(void)m, (void)p;
	if (query_value(q, at, &thread) == QUERY_INTEGER) {
		overhead->thread = nsys_tid((uint64_t)thread);
		overhead->missing &= ~(UINT64_C(1) << COLUMN_overhead_thread);
	}
	return true;
}

/* ---- nodes of graphs ---- */

static const struct field node_fields[] = {
	FIELD(graph_node, time_ns, TIME, "start|timestamp"),
	FIELD(graph_node, node, NUMBER, "graphNodeId"),
	FIELD(graph_node, graph, NUMBER_OR_0, "graphId"),
	FIELD(graph_node, original, NUMBER_OR_0, "originalGraphNodeId"),
	FIELD(graph_node, correlation, NUMBER_OR_0, "correlationId"),
};
static const struct field node_more[] = { { .from = "globalTid" }, { .from = "nameId" } };

/* The call that made the node says what it does; in a capture, that is the call captured. */
static bool finish_node(struct database_import *m, struct database_process *p, void *row,
			const struct query *q, int at)
{
	static const struct {
		const char *part;
		enum graph_node_kind kind;
	} parts[] = {
		{ "Memcpy", graph_node_kind_memcpy },
		{ "Memset", graph_node_kind_memset },
		{ "HostNode", graph_node_kind_host },
		{ "LaunchHostFunc", graph_node_kind_host },
		{ "ChildGraph", graph_node_kind_graph },
		{ "EmptyNode", graph_node_kind_empty },
		{ "EventRecord", graph_node_kind_record_event },
		{ "EventWait", graph_node_kind_wait_event },
		{ "WaitEvent", graph_node_kind_wait_event },
		{ "MemAlloc", graph_node_kind_allocate },
		{ "MallocAsync", graph_node_kind_allocate },
		{ "MemFree", graph_node_kind_release },
		{ "FreeAsync", graph_node_kind_release },
		{ "Kernel", graph_node_kind_kernel },
	};
	const struct interned *name = database_text(m, (uint64_t)query_number(q, at + 1, -1));
	struct row_graph_node *node = row;

	(void)p;
	node->thread = nsys_tid((uint64_t)query_number(q, at, 0));
	for (size_t i = 0; i < ARRAY_SIZE(parts) && name; i++)
		if (strstr(name->text, parts[i].part)) {
			node->kind = (uint8_t)parts[i].kind;
			return true;
		}
	database_loss(m, loss_reason_unknown_record, 1, "nodes of graphs of unknown kinds");
	return false;
}

/* ---- samples ---- */

static const struct field sample_fields[] = {
	FIELD(cpu_sample, time_ns, TIME, "start|timestamp"),
	FIELD(cpu_sample, cpu, NUMBER, "cpu"),
};
static const struct field sample_more[] = { { .from = "globalTid" }, { .from = "id" } };

static bool finish_sample(struct database_import *m, struct database_process *p, void *row,
			  const struct query *q, int at)
{
	const struct nsys *n = m->own;
	struct row_cpu_sample *sample = row;

	sample->thread = nsys_tid((uint64_t)query_number(q, at, 0));
	sample->weight_ns = n->sample_ns;
	sample->stack = stack_of(m, p, &n->samples, query_number(q, at + 1, -1));
	if (sample->stack)
		sample->missing &= ~(UINT64_C(1) << COLUMN_cpu_sample_stack);
	return true;
}

#define CONVERSION(name, table_to, columns, further, completes)                                    \
	{                                                                                          \
		.from.table = name, .process = "globalTid", .process_mask = NSYS_PROCESS_MASK,     \
		.to = TABLE_##table_to, .fields = columns, .field_count = ARRAY_SIZE(columns),     \
		.more = further, .more_count = ARRAY_SIZE(further), .finish = completes            \
	}

int nsys_convert_calls(struct nsys *n, struct error *e)
{
	static const struct conversion conversions[] = {
		CONVERSION("CUPTI_ACTIVITY_KIND_RUNTIME", api_call, call_fields, call_more,
			   finish_call),
		CONVERSION("OSRT_API", api_call, call_fields, call_more, finish_system),
		CONVERSION("CUPTI_ACTIVITY_KIND_OVERHEAD", overhead, overhead_fields, thread_more,
			   finish_overhead),
		CONVERSION("PROFILER_OVERHEAD", overhead, overhead_fields, thread_more,
			   finish_overhead),
		CONVERSION("CUDA_GRAPH_NODE_EVENTS", graph_node, node_fields, node_more,
			   finish_node),
		CONVERSION("COMPOSITE_EVENTS", cpu_sample, sample_fields, sample_more,
			   finish_sample),
	};
	int rc = read_chains(&n->import, &n->calls, "CUDA_CALLCHAINS", e);

	if (rc >= 0)
		rc = read_chains(&n->import, &n->samples, "SAMPLING_CALLCHAINS", e);
	for (size_t i = 0; i < ARRAY_SIZE(conversions) && rc >= 0; i++)
		rc = database_convert(&n->import, &conversions[i], e);
	return rc;
}
