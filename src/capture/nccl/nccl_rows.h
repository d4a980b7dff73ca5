/*
 * nccl_rows.h: the row of a collective's event (nccl_plugin.h), for the collector and for recover/,
 * which have NCCL's texts from different memory.
 */
#ifndef PITOT_CAPTURE_NCCL_NCCL_ROWS_H
#define PITOT_CAPTURE_NCCL_NCCL_ROWS_H

#include "capture/nccl/nccl_plugin.h"
#include "capture/nccl/nccl_registry.h"
#include "format/rows.h"

/* Numbers of texts in an event, in this order. */
enum { NCCL_FUNCTION, NCCL_DATATYPE, NCCL_ALGORITHM, NCCL_PROTOCOL, NCCL_TEXTS };

static inline uint8_t nccl_event_text(const struct ring_event *event, unsigned which)
{
	return (uint8_t)(event[1].c >> 8 * which);
}

static inline bool nccl_has_root(unsigned function)
{
	return function == collective_function_broadcast ||
	       function == collective_function_reduce || function == collective_function_gather ||
	       function == collective_function_scatter;
}

/* Sets the columns that are texts of NCCL or follow from them. */
static inline void nccl_set_texts(struct writer *w, struct row_collective *row,
				  const struct ring_event *event,
				  const struct nccl_text *const texts[NCCL_TEXTS])
{
	const struct nccl_text *datatype = texts[NCCL_DATATYPE];
	const char *by = event->flags & NCCL_EVENT_COPY ? "CE" : texts[NCCL_ALGORITHM]->text;

	row->function = (uint8_t)texts[NCCL_FUNCTION]->function;
	row->datatype = (uint8_t)datatype->datatype;
	row->algorithm = rows_text(w, by);
	row->protocol = rows_text(w, texts[NCCL_PROTOCOL]->text);
	ROW_MISSING_IF(row, collective, datatype, !datatype->is_datatype);
	ROW_MISSING_IF(row, collective, algorithm, !*by);
	ROW_MISSING_IF(row, collective, protocol, !texts[NCCL_PROTOCOL]->text[0]);
	ROW_MISSING_IF(
		row, collective, bytes,
		!datatype->is_datatype ||
			__builtin_mul_overflow(row->count, datatype->datatype_bytes, &row->bytes));
}

/* The payloads of NVTX have the bytes alone. */
static inline void nccl_set_bytes(struct row_collective *row, const struct ring_event *event)
{
	if (!(event->flags & NCCL_EVENT_NVTX))
		return;
	row->source = collective_source_nvtx;
	row->bytes = event[1].a;
	ROW_PRESENT(row, collective, bytes);
	ROW_MISSING(row, collective, count);
}

/* Whether the communicator is known is the caller's to say. */
static inline struct row_collective
nccl_collective_row(struct writer *w, const struct ring_event *event, uint32_t thread,
		    uint64_t correlation, const struct nccl_text *const texts[NCCL_TEXTS])
{
	struct row_collective row = {
		.time_ns = event->a,
		.communicator = event->c,
		.sequence = event->b,
		.count = event[1].a,
		.root = event->d,
		.peer = event->d,
		.channels = event[1].d,
		.thread = thread,
		.correlation = correlation,
		.captured = (event->flags & NCCL_EVENT_CAPTURED) != 0,
		.graph_node = event[2].a,
		.source = collective_source_plugin,
	};
	bool is_peer = event->flags & NCCL_EVENT_PEER;

	nccl_set_texts(w, &row, event, texts);
	nccl_set_bytes(&row, event);
	ROW_MISSING_IF(&row, collective, sequence, !(event->flags & NCCL_EVENT_SEQUENCE));
	ROW_MISSING_IF(&row, collective, root,
		       is_peer || !nccl_has_root(row.function) || (int32_t)event->d < 0);
	ROW_MISSING_IF(&row, collective, peer, !is_peer || (int32_t)event->d < 0);
	ROW_MISSING_IF(&row, collective, channels, !row.channels);
	ROW_MISSING_IF(&row, collective, correlation, !row.correlation);
	ROW_MISSING_IF(&row, collective, captured,
		       !(event->flags & (NCCL_EVENT_CAPTURED | NCCL_EVENT_NOT_CAPTURED)));
	ROW_MISSING_IF(&row, collective, graph_node, !row.graph_node);
	return row;
}

static inline struct row_communicator nccl_communicator_row(struct writer *w, uint32_t number,
							    const struct nccl_communicator *c)
{
	struct row_communicator row = { .id = number,
					.hash = c->hash,
					.name = rows_text(w, c->name),
					.ranks = c->ranks,
					.nodes = c->nodes,
					.rank = c->rank };

	ROW_MISSING_IF(&row, communicator, name, !c->name[0]);
	ROW_MISSING_IF(&row, communicator, ranks, c->ranks == NCCL_UNKNOWN);
	ROW_MISSING_IF(&row, communicator, nodes, c->nodes == NCCL_UNKNOWN);
	ROW_MISSING_IF(&row, communicator, rank, c->rank == NCCL_UNKNOWN);
	return row;
}

#endif
