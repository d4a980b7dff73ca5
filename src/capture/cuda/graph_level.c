#include "capture/cuda/graph_level.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "format/rows.h"
#include "schema/graph_cost.h"

#define PERIOD_NS NS_PER_S
#define CHEAP_TIMES 5u /* consecutive cheap periods with launches */

static struct {
	uint64_t start_ns, since_ns;
	struct graph_counts since; /* counts at since_ns */
	unsigned cheap;
	bool written;
	unsigned most_percent; /* highest cost that nodes would have had in one period */
} self;

static atomic_bool is_launch = true;
static _Atomic(const char *) refused;

bool graph_level_is_launch(void)
{
	return atomic_load(&is_launch);
}

void graph_level_refused(const char *why)
{
	atomic_store(&is_launch, false);
	atomic_store(&refused, why);
}

void graph_level_begin(uint64_t start_ns)
{
	self = (__typeof__(self)){ .start_ns = start_ns, .since_ns = start_ns };
	if (!atomic_load(&refused))
		atomic_store(&is_launch, true);
}

static void write_level(struct writer *w, const char *level, const char *why)
{
	self.written = true;
	rows_capability(w, "graph_node", capability_state_degraded, "auto", level, why);
}

/* Returns the time that node records of the launches since then would have cost. */
static uint64_t nodes_cost_ns(const struct graph_counts *counts)
{
	uint64_t calls = counts->calls - self.since.calls;

	if (!counts->instantiations) /* unknown: assume as many as a small graph has */
		return calls * 10 * GRAPH_NODE_COST_NS;
	return calls * counts->nodes / counts->instantiations * GRAPH_NODE_COST_NS;
}

static bool evaluate_period(struct writer *w, const struct graph_counts *counts, uint64_t now)
{
	uint64_t elapsed = now - self.since_ns, cost = nodes_cost_ns(counts);
	bool launched = counts->calls > self.since.calls;
	char text[160];

	self.since = *counts;
	self.since_ns = now;
	if (!launched)
		return false;
	self.most_percent = (unsigned)MAX(self.most_percent, MIN(cost * 100 / elapsed, 100));
	self.cheap = cost < elapsed / GRAPH_EXPENSIVE_SHARE ? self.cheap + 1 : 0;
	if (self.cheap < CHEAP_TIMES)
		return false;
	atomic_store(&is_launch, false);
	snprintf(
		text, sizeof(text),
		"one record per launch until %.3f s, then nodes, which cost less than %u %% of the "
		"time",
		(double)(now - self.start_ns) / 1e9, 100 / GRAPH_EXPENSIVE_SHARE);
	write_level(w, "node", text);
	return true;
}

bool graph_level_update(struct writer *w, const struct graph_counts *counts, uint64_t now)
{
	const char *why = atomic_load(&refused);

	if (why && !self.written)
		write_level(w, "node", why);
	if (!graph_level_is_launch() || now - self.since_ns < PERIOD_NS)
		return false;
	return evaluate_period(w, counts, now);
}

void graph_level_end(struct writer *w)
{
	char text[160];

	if (self.written || !graph_level_is_launch())
		return;
	snprintf(text, sizeof(text),
		 "one record per launch: node records would have cost up to %u %% of the time",
		 self.most_percent);
	write_level(w, "launch", text);
}
