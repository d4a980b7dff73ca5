/*
 * app_counters.c: counters of pitot/scope.h. Each thread adds to a sum of its own, which the
 * collector reads at each tick, and which the thread puts into its ring when its range changes
 * (app_additions.h). An addition costs two additions in memory, no clock and no event; none is
 * lost, and the number of rows is bounded by ticks and ranges. (An event per addition is five times
 * as expensive.) The sum of all threads is a row of counter_sample at each tick. Gauges are events.
 *
 * One counter is two in the recording, each defined when it gets its first value: 2 n for sums,
 * 2 n + 1 for gauges.
 */
#include "pitot/pitot.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/app/app_additions.h"
#include "capture/app/app_external.h"
#include "capture/nvtx/nvtx_calls.h"
#include "capture/nvtx/nvtx_event.h"
#include "system/metrics.h"

#define COUNTERS_MAX RING_COUNTERS
#define FIRST_ID METRIC_END /* ids before it are metrics of GPUs and the machine */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to add a counter */
static atomic_uint count;
static struct counter {
	const struct nvtx_name *name, *unit, *description;
	/* used by the collector */
	int64_t sum, written;
	bool defined[2]; /* enum counter_reading */
} counters[COUNTERS_MAX];

/* --- the program's threads --- */

static const struct nvtx_name *text_of(const char *text)
{
	return nvtx_name_in(NVTX_NAMED_STRING, NULL, 0, NVTX_MESSAGE_TEXT, text ? text : "");
}

static uint32_t find_or_add(const struct counter *key)
{
	uint32_t i = 0, n = atomic_load_explicit(&count, memory_order_relaxed);

	while (i < n && counters[i].name != key->name)
		i++;
	if (i < n)
		return i + 1;
	if (n == COUNTERS_MAX)
		return 0;
	counters[n].name = key->name;
	counters[n].unit = key->unit;
	counters[n].description = key->description;
	atomic_store_explicit(&count, n + 1, memory_order_release);
	return n + 1;
}

uint32_t pitot_counter(const char *name, const char *unit, const char *description)
{
	struct counter key = { .name = name ? text_of(name) : NULL,
			       .unit = text_of(unit),
			       .description = text_of(description) };
	uint32_t counter;

	if (!key.name || !key.unit || !key.description || !nvtx_enter())
		return 0;
	pthread_mutex_lock(&lock);
	counter = find_or_add(&key);
	pthread_mutex_unlock(&lock);
	nvtx_leave();
	return counter;
}

static inline bool is_off_for(uint32_t counter)
{
	return atomic_load_explicit(&nvtx_calls_off, memory_order_relaxed) ||
	       counter - 1 >= atomic_load_explicit(&count, memory_order_relaxed);
}

/* Within a claim or an event, which a signal handler interrupts, no ring can be claimed. */
static NOINLINE void add_first(uint32_t counter, int64_t by)
{
	struct ring *r = NULL;

	if (!nvtx_thread.busy && nvtx_enter()) {
		r = ring_try_claim();
		nvtx_leave();
	}
	if (r)
		additions_add(r, counter, by);
	else
		additions_without_ring(counter, by);
}

/* Wakes an idle collector, as ring_push does. */
void pitot_counter_add(uint32_t counter, int64_t by)
{
	if (is_off_for(counter))
		return;
	if (likely(ring_of_thread))
		additions_add(ring_of_thread, counter - 1, by);
	else
		add_first(counter - 1, by);
	if (unlikely(atomic_load_explicit(&collector_idle, memory_order_relaxed)))
		collector_wake();
}

void pitot_gauge(uint32_t counter, double value)
{
	struct ring_event event = { .kind = RING_GAUGE, .c = counter - 1 };
	struct ring *r;

	if (is_off_for(counter) || !nvtx_enter())
		return;
	r = ring_get();
	if (r) {
		event.a = quick_clock_ns(&r->clock);
		memcpy(&event.b, &value, sizeof(value));
		ring_push(r, &event, 1);
		ring_count_call(r, event.a);
	}
	nvtx_leave();
}

/* --- the collector's thread --- */

static uint32_t define(struct writer *w, uint32_t n, enum counter_reading reading)
{
	struct counter *c = &counters[n];
	struct row_counter row = { .id = FIRST_ID + 2 * n + reading,
				   .reading = reading,
				   .kind = reading == counter_reading_integer
						   ? counter_kind_sum
						   : counter_kind_level };

	if (!c->defined[reading]) {
		row.name = writer_string(w, c->name->text, c->name->length);
		row.unit = writer_string(w, c->unit->text, c->unit->length);
		row.description = writer_string(w, c->description->text, c->description->length);
		writer_append(w, TABLE_counter, &row);
		c->defined[reading] = true;
	}
	return row.id;
}

static uint64_t on_gauge(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	struct row_counter_sample row = { .time_ns = event->a,
					  .counter = define(w, event->c, counter_reading_real),
					  .value = (int64_t)event->b,
					  .thread = r->tid };

	ROW_MISSING(&row, counter_sample, device);
	writer_append(w, TABLE_counter_sample, &row);
	return 1;
}

/* Without a writer it only adds to the sum of all threads. */
static void write_additions(struct writer *w, uint32_t counter, uint32_t tid, uint64_t time_ns,
			    int64_t sum, uint64_t additions)
{
	struct row_counter_addition row = {
		.time_ns = time_ns, .thread = tid, .value = sum, .count = additions
	};

	counters[counter].sum += sum;
	if (!w)
		return;
	row.counter = define(w, counter, counter_reading_integer);
	ROW_MISSING_IF(&row, counter_addition, thread, !tid);
	writer_append(w, TABLE_counter_addition, &row);
}

static uint64_t on_additions(struct writer *w, const struct ring *r, uint64_t position)
{
	additions_event(w, r, position, write_additions);
	return 1;
}

static uint64_t collect(struct writer *w, uint64_t now_ns)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire);
	uint64_t changed = additions_collect(w, now_ns, n, write_additions);

	for (uint32_t i = 0; i < n; i++) {
		struct row_counter_sample row = { .time_ns = now_ns, .value = counters[i].sum };

		if (row.value == counters[i].written)
			continue;
		row.counter = define(w, i, counter_reading_integer);
		ROW_MISSING(&row, counter_sample, device);
		ROW_MISSING(&row, counter_sample, thread);
		writer_append(w, TABLE_counter_sample, &row);
		counters[i].written = row.value;
		changed++;
	}
	return changed;
}

static void start(const struct source_start *how)
{
	(void)how;
	additions_forget(atomic_load_explicit(&count, memory_order_acquire), write_additions);
}

/* A new recording has no definitions of the counters. */
static void begin(struct writer *w, const struct source_start *how)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_acquire);

	(void)w;
	(void)how;
	for (uint32_t i = 0; i < n; i++)
		memset(counters[i].defined, 0, sizeof(counters[i].defined));
}

static void after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}

const struct source app_source = {
	.name = "app",
	.start = start,
	.begin = begin,
	.collect = collect,
	.after_fork = after_fork,
	.handlers = { { RING_GAUGE, on_gauge },
		      { RING_ADDITIONS, on_additions },
		      { RING_EXTERNAL, app_external_event } },
	.handler_count = 3,
};
