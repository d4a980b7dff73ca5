/* nccl_source.c: rows of communicators and collectives, from the events of nccl_plugin.c. */
#include "capture/core/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/cuda/correlation.h"
#include "capture/nccl/nccl_nvtx.h"
#include "capture/nccl/nccl_plugin.h"
#include "capture/nccl/nccl_registry.h"
#include "format/rows.h"

static struct {
	bool is_written[NCCL_COMMUNICATORS_MAX + 1]; /* by number */
	uint32_t first_unwritten;
	struct map replayed; /* handles of calls whose collective has been written */
	bool is_noted; /* that there are collectives */
	bool has_other_plugin;
	uint64_t refused_reported;
} self = { .replayed = MAP_INIT };

/* --- communicators --- */

static void write_communicator(struct writer *w, uint32_t number)
{
	const struct nccl_communicator *c = nccl_communicator_at(number);
	struct row_communicator row;

	if (!c || self.is_written[number])
		return;
	row = (struct row_communicator){ .id = number,
					 .hash = c->hash,
					 .name = rows_text(w, c->name),
					 .ranks = c->ranks,
					 .nodes = c->nodes,
					 .rank = c->rank };
	ROW_MISSING_IF(&row, communicator, name, !c->name[0]);
	ROW_MISSING_IF(&row, communicator, ranks, c->ranks == NCCL_UNKNOWN);
	ROW_MISSING_IF(&row, communicator, nodes, c->nodes == NCCL_UNKNOWN);
	ROW_MISSING_IF(&row, communicator, rank, c->rank == NCCL_UNKNOWN);
	self.is_written[number] = true;
	writer_append(w, TABLE_communicator, &row);
}

static void note_interface(struct writer *w)
{
	static const char *const names[] = {
		[4] = "profiler plug-in 4", [5] = "profiler plug-in 5", [6] = "profiler plug-in 6"
	};
	unsigned interface = nccl_plugin_interface();

	if (!interface || self.is_noted)
		return;
	self.is_noted = true;
	rows_capability(w, feature_collectives, capability_state_on, "profiler plug-in",
			names[interface], NULL);
}

static void note_nvtx(struct writer *w, const struct ring_event *event)
{
	if (!(event->flags & NCCL_EVENT_NVTX) || self.is_noted)
		return;
	self.is_noted = true;
	rows_capability(
		w, feature_collectives, capability_state_degraded, "profiler plug-in", "NVTX",
		self.has_other_plugin
			? "NCCL_PROFILER_PLUGIN names another plug-in, so data type, "
			  "algorithm and protocol are unknown"
			: "NCCL has not loaded Pitot's plug-in, so data type, algorithm and "
			  "protocol are unknown: it is older than 2.27, or "
			  "NCCL_PROFILER_PLUGIN did not name libpitot.so when it started");
}

static uint64_t collect(struct writer *w, uint64_t now_ns)
{
	uint32_t first = self.first_unwritten;

	(void)now_ns;
	note_interface(w);
	while (self.first_unwritten <= nccl_communicator_count() &&
	       nccl_communicator_at(self.first_unwritten))
		write_communicator(w, self.first_unwritten++);
	return self.first_unwritten - first;
}

/* --- collectives --- */

static bool has_root(enum collective_function function)
{
	switch (function) {
	case collective_function_broadcast:
	case collective_function_reduce:
	case collective_function_gather:
	case collective_function_scatter:
		return true;
	default:
		return false;
	}
}

/* Sets the columns that are texts of NCCL or follow from them. */
static void set_texts(struct writer *w, struct row_collective *row, const struct ring_event *event)
{
	const struct nccl_text *datatype = nccl_text_at((uint8_t)(event[1].c >> 8)),
			       *algorithm = nccl_text_at((uint8_t)(event[1].c >> 16)),
			       *protocol = nccl_text_at((uint8_t)(event[1].c >> 24));
	const char *by = event->flags & NCCL_EVENT_COPY ? "CE" : algorithm->text;

	row->function = (uint8_t)nccl_text_at((uint8_t)event[1].c)->function;
	row->datatype = (uint8_t)datatype->datatype;
	row->algorithm = rows_text(w, by);
	row->protocol = rows_text(w, protocol->text);
	ROW_MISSING_IF(row, collective, datatype, !datatype->is_datatype);
	ROW_MISSING_IF(row, collective, algorithm, !*by);
	ROW_MISSING_IF(row, collective, protocol, !protocol->text[0]);
	ROW_MISSING_IF(
		row, collective, bytes,
		!datatype->is_datatype ||
			__builtin_mul_overflow(row->count, datatype->datatype_bytes, &row->bytes));
}

/* The payloads of NVTX have the bytes alone. */
static void set_bytes(struct row_collective *row, const struct ring_event *event)
{
	if (!(event->flags & NCCL_EVENT_NVTX))
		return;
	row->source = collective_source_nvtx;
	row->bytes = event[1].a;
	ROW_PRESENT(row, collective, bytes);
	ROW_MISSING(row, collective, count);
}

/* A graph's collective is one row, however often the graph is replayed. */
static bool is_repeated(const struct ring_event *event)
{
	uint64_t *times;

	if (!(event->flags & NCCL_EVENT_REPLAY) || !event[1].b)
		return false;
	times = map_at(&self.replayed, event[1].b, 0);
	return times && (*times)++;
}

static void write_collective(struct writer *w, const struct ring *r, const struct ring_event *event)
{
	struct row_collective row = {
		.time_ns = event->a,
		.communicator = event->c,
		.sequence = event->b,
		.count = event[1].a,
		.root = event->d,
		.peer = event->d,
		.channels = event[1].d,
		.thread = r->tid,
		.correlation = correlation_widen(event->e, event->a),
		.captured = (event->flags & NCCL_EVENT_CAPTURED) != 0,
		.graph_node = event[2].a,
		.source = collective_source_plugin,
	};
	bool is_peer = event->flags & NCCL_EVENT_PEER;

	write_communicator(w, event->c);
	set_texts(w, &row, event);
	set_bytes(&row, event);
	note_nvtx(w, event);
	ROW_MISSING_IF(&row, collective, communicator, !nccl_communicator_at(event->c));
	ROW_MISSING_IF(&row, collective, sequence, !(event->flags & NCCL_EVENT_SEQUENCE));
	ROW_MISSING_IF(&row, collective, root,
		       is_peer || !has_root(row.function) || (int32_t)event->d < 0);
	ROW_MISSING_IF(&row, collective, peer, !is_peer || (int32_t)event->d < 0);
	ROW_MISSING_IF(&row, collective, channels, !row.channels);
	ROW_MISSING_IF(&row, collective, correlation, !row.correlation);
	ROW_MISSING_IF(&row, collective, captured,
		       !(event->flags & (NCCL_EVENT_CAPTURED | NCCL_EVENT_NOT_CAPTURED)));
	ROW_MISSING_IF(&row, collective, graph_node, !row.graph_node);
	writer_append(w, TABLE_collective, &row);
}

static uint64_t on_collective(struct writer *w, const struct ring *r, uint64_t position)
{
	struct ring_event event[NCCL_EVENT_SLOTS];

	for (unsigned i = 0; i < NCCL_EVENT_SLOTS; i++)
		event[i] = *ring_slot(r, position + i);
	if (!is_repeated(event))
		write_collective(w, r, event);
	return NCCL_EVENT_SLOTS;
}

/* --- the source --- */

static void start(const struct source_start *start)
{
	const char *plugin = secure_getenv("NCCL_PROFILER_PLUGIN");

	(void)start;
	self.has_other_plugin = plugin && *plugin && !strstr(plugin, "libpitot");
	atomic_store(&nvtx_nccl_reader, &nccl_nvtx_reader);
}

static void begin(struct writer *w, const struct source_start *start)
{
	(void)start;
	memset(self.is_written, 0, sizeof(self.is_written));
	self.first_unwritten = 1;
	self.is_noted = false;
	self.refused_reported = nccl_communicators_refused();
	map_clear(&self.replayed);
	collect(w, 0);
}

static void window(const struct settings *settings, struct writer *w)
{
	(void)w;
	nccl_plugin_record(settings && settings_trace_gpus(settings));
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now_ns)
{
	rows_loss_more(w, loss_reason_thread_limit, nccl_communicators_refused(),
		       &self.refused_reported, since_ns, now_ns, "communicators of NCCL");
}

/* The map's memory is leaked: the collector may have been using it. */
static void after_fork(void)
{
	self.replayed = (struct map)MAP_INIT;
	nccl_plugin_after_fork();
}

const struct source nccl_source = {
	.name = "nccl",
	.start = start,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.after_fork = after_fork,
	.handlers = { { RING_COLLECTIVE, on_collective } },
	.handler_count = 1,
};
