/* nccl_source.c: rows of communicators and collectives, from the events of nccl_plugin.c. */
#include "capture/core/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "capture/cuda/correlation.h"
#include "capture/nccl/nccl_nvtx.h"
#include "capture/nccl/nccl_plugin.h"
#include "capture/nccl/nccl_rows.h"

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
	row = nccl_communicator_row(w, number, c);
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
	const struct nccl_text *texts[NCCL_TEXTS];
	struct row_collective row;

	for (unsigned i = 0; i < NCCL_TEXTS; i++)
		texts[i] = nccl_text_at(nccl_event_text(event, i));
	write_communicator(w, event->c);
	row = nccl_collective_row(w, event, r->tid, correlation_widen(event->e, event->a), texts);
	note_nvtx(w, event);
	ROW_MISSING_IF(&row, collective, communicator, !nccl_communicator_at(event->c));
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
	nccl_registry_share();
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
