#include "capture/cuda/cupti_gap.h"

#include <pthread.h>

#include "base/clock.h"
#include "schema/event_words.h"

#define PART_NS (250 * NS_PER_MS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held only briefly */
/* until_ns 0: it is open. A gap that begins before the one before it was written extends that. */
static struct {
	uint64_t since_ns, until_ns;
} gap;
static struct {
	uint64_t ns, count, until_ns; /* until_ns: end of the rows written so far */
} sum; /* the collector's */

void cupti_gap(uint64_t since_ns)
{
	pthread_mutex_lock(&lock);
	if (since_ns && !gap.since_ns)
		gap.since_ns = since_ns;
	if (gap.since_ns)
		gap.until_ns = since_ns ? 0 : gap.until_ns ?: clock_monotonic_ns();
	pthread_mutex_unlock(&lock);
}

static void write_until(struct writer *w, uint64_t since_ns, uint64_t until_ns)
{
	struct row_loss row = { .reason = loss_reason_own_profiler, .end_ns = until_ns };

	row.start_ns = MAX(since_ns, sum.until_ns);
	if (row.start_ns >= until_ns)
		return;
	sum.count += since_ns > sum.until_ns;
	ROW_MISSING(&row, loss, detail);
	writer_append(w, TABLE_loss, &row);
	sum.ns += until_ns - row.start_ns;
	sum.until_ns = until_ns;
}

void cupti_gap_write(struct writer *w)
{
	uint64_t now = clock_monotonic_ns(), since, until;

	pthread_mutex_lock(&lock);
	since = gap.since_ns;
	until = gap.until_ns;
	if (until)
		gap.since_ns = gap.until_ns = 0;
	pthread_mutex_unlock(&lock);
	if (until || (since && now - MAX(since, sum.until_ns) >= PART_NS))
		write_until(w, since, until ?: now);
}

bool cupti_gap_end(struct writer *w, struct strbuf *text)
{
	bool any;

	cupti_gap(0);
	cupti_gap_write(w);
	any = sum.count != 0;
	if (any)
		own_profiler_windows(text, sum.ns, sum.count);
	sum.ns = sum.count = 0;
	return any;
}

void cupti_gap_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	gap.since_ns = gap.until_ns = 0;
	sum.ns = sum.count = 0;
}
