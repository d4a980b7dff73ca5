/*
 * toy_source.c: a source that makes a sample of a counter at each tick of the collector. Beside
 * this file it is a line in sources.c.
 */
#include "unit/capture/toy_source.h"

#include "base/clock.h"
#include "capture/core/capability_notes.h"
#include "capture/core/refusals.h"
#include "capture/core/source.h"
#include "format/rows.h"

struct toy_source toy;

static void start(const struct source_start *how)
{
	(void)how;
	atomic_fetch_add(&toy.starts, 1);
}

/* Says so much that the note of its refusal is dropped. */
static void extend(const struct source_start *how)
{
	const char *no_library = atomic_load(&toy.no_library),
		   *no_engine = atomic_load(&toy.no_engine);

	(void)how;
	for (unsigned i = 0; (no_library || no_engine) && i < 2 * CAPABILITY_NOTES_MAX; i++)
		capability_note(feature_counters, capability_state_on, NULL, NULL, "%u", i);
	if (no_library)
		refusal_set(&refusals[REFUSAL_LIBRARY], "%s", no_library);
	if (no_engine)
		refusal_set(&refusals[REFUSAL_ENGINE], "%s", no_engine);
}

static void window(const struct settings *wanted, struct writer *w)
{
	(void)w;
	atomic_fetch_add(&toy.windows, 1);
	atomic_store(&toy.open, wanted != NULL);
	atomic_store(&toy.stacks, wanted ? wanted->stacks : 0);
	atomic_store(&toy.counters_ns, wanted ? wanted->counters_ns : 0);
	atomic_store(&toy.perf, wanted ? wanted->perf : 0);
}

static uint64_t collect(struct writer *w, uint64_t now_ns)
{
	struct row_counter_sample row = { .time_ns = now_ns, .counter = TOY_COUNTER };

	if (!atomic_load(&toy.open))
		return 0;
	row.value = atomic_fetch_add(&toy.samples, 1) + 1;
	writer_append(w, TABLE_counter_sample, &row);
	return 1;
}

static void stop(struct writer *w)
{
	(void)w;
	atomic_store(&toy.open, false);
}

static void begin(struct writer *w, const struct source_start *start)
{
	struct row_counter row = { .id = TOY_COUNTER, .name = rows_text(w, "toy") };

	(void)start;
	writer_append(w, TABLE_counter, &row);
	capability_note(feature_counters, capability_state_on, NULL, "samples", "%s", "");
}

const struct source toy_source = {
	.name = "toy",
	.start = start,
	.extend = extend,
	.begin = begin,
	.window = window,
	.collect = collect,
	.stop = stop,
};
