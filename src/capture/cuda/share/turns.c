#include "capture/cuda/share/turns.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "capture/capability_notes.h"
#include "capture/collector.h"
#include "capture/cuda/share/client.h"
#include "capture/cuda/share/client_records.h"
#include "capture/pause.h"
#include "capture/vendor_thread.h"
#include "schema/event_words.h"

#define QUIET_NS (100 * NS_PER_MS)
#define LIMIT_NS (PITOT_SLOWNESS * 3 * NS_PER_S)
#define POLL_NS (200 * NS_PER_US)
#define AGAIN_NS (10 * NS_PER_MS)
#define GAPS 16u /* that can wait for the collector */
#define PART_NS (250 * NS_PER_MS) /* of a gap per row, which is what a SIGKILL may lose */

static atomic_bool yields;
static atomic_bool is_clients_turn; /* the client has CUPTI, or is about to get it */
static atomic_bool moving; /* CUPTI may change hands */
static atomic_uint calls; /* the client's calls in progress */
static atomic_uint_fast64_t last_call_ns;
/* whether this thread may be moving CUPTI */
static __thread bool is_mover __attribute__((tls_model("initial-exec")));

/* Added by the vendor thread or the one that starts the recorder; written by the collector. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held only briefly */
static struct gap {
	uint64_t since_ns, until_ns; /* until_ns 0: the gap is open */
} gaps[GAPS];
static unsigned begun, written;
static struct {
	uint64_t ns, count, until_ns; /* until_ns: end of the rows written so far */
} sum; /* the collector's */

void turns_set_yield(bool on)
{
	atomic_store(&yields, on);
}

bool turns_yield(void)
{
	return atomic_load(&yields);
}

const char *turns_mode(void)
{
	return turns_yield() ? "yield" : "share";
}

/* --- the client --- */

bool turns_is_work(CUpti_CallbackDomain domain)
{
	return domain != CUPTI_CB_DOMAIN_RESOURCE && domain != CUPTI_CB_DOMAIN_STATE;
}

static bool client_is_working(void)
{
	bool any = party_kinds(PARTY_CLIENT) != 0;

	for (unsigned domain = 1; domain < CUPTI_CB_DOMAIN_SIZE && !any; domain++)
		any = turns_is_work((CUpti_CallbackDomain)domain) &&
		      party_has_any(PARTY_CLIENT, (CUpti_CallbackDomain)domain);
	return any;
}

/* A thread that may be inside CUPTI must not wait. */
static bool may_wait(void)
{
	return !is_mover && !client_is_inside() && !copies_is_inside();
}

bool turns_pause(uint64_t begun_ns, uint64_t limit_ns)
{
	collector_wake();
	pause_ns(POLL_NS);
	return collector_running() && clock_machine_ns() - begun_ns < limit_ns;
}

bool turns_begin_call(void)
{
	uint64_t since = clock_machine_ns();

	if (!atomic_load(&yields))
		return false;
	atomic_fetch_add(&calls, 1);
	while (atomic_load(&moving) && may_wait() && turns_pause(since, LIMIT_NS))
		;
	return true;
}

void turns_end_call(const bool *is_counted)
{
	if (!*is_counted)
		return;
	atomic_store(&last_call_ns, clock_machine_ns());
	atomic_fetch_sub(&calls, 1);
	if (atomic_load(&is_clients_turn) && !client_is_working())
		vendor_thread_request(VENDOR_FLUSH);
}

void turns_request(bool (*is_recorders)(void))
{
	uint64_t since = clock_machine_ns();
	unsigned round;

	if (!atomic_load(&yields))
		return;
	atomic_store(&is_clients_turn, true);
	if (!is_recorders() || !may_wait())
		return;
	round = vendor_thread_request(VENDOR_FLUSH);
	while (!vendor_thread_done(round) && (is_recorders() || atomic_load(&moving)) &&
	       turns_pause(since, LIMIT_NS))
		;
}

/* --- the recorder --- */

static uint64_t quiet_ns(void)
{
	return clock_machine_ns() - atomic_load(&last_call_ns);
}

bool turns_are_clients(bool recorder_comes)
{
	if (!atomic_load(&yields))
		return false;
	is_mover = recorder_comes || atomic_load(&is_clients_turn);
	atomic_store(&moving, is_mover);
	if (!atomic_load(&calls) && !client_is_working() && quiet_ns() >= QUIET_NS)
		atomic_store(&is_clients_turn, false);
	return atomic_load(&is_clients_turn);
}

void turns_settle(void)
{
	is_mover = false;
	atomic_store(&moving, false);
}

uint64_t turns_wait_ns(void)
{
	uint64_t quiet = quiet_ns();

	if (!turns_yield() || !atomic_load(&is_clients_turn) || client_is_working())
		return UINT64_MAX;
	return quiet < QUIET_NS ? QUIET_NS - quiet : AGAIN_NS;
}

/* --- gaps --- */

static struct gap *latest_open(void)
{
	struct gap *latest = begun ? &gaps[(begun - 1) % GAPS] : NULL;

	return latest && !latest->until_ns ? latest : NULL;
}

void turns_gap(uint64_t since_ns)
{
	struct gap *open;
	bool begins, ends;

	pthread_mutex_lock(&lock);
	open = latest_open();
	begins = since_ns && !open && begun - written < GAPS;
	ends = !since_ns && open;
	if (begins)
		gaps[begun++ % GAPS] = (struct gap){ since_ns, 0 };
	else if (ends)
		open->until_ns = clock_monotonic_ns();
	pthread_mutex_unlock(&lock);
	if (begins)
		capability_note("own_profiler", capability_state_degraded, turns_mode(), "none",
				"another client has CUPTI to itself: nothing is recorded of the "
				"GPU until it is done");
	else if (ends)
		capability_note("own_profiler", capability_state_on, turns_mode(), turns_mode(),
				"the other client of CUPTI is done");
}

/*
 * The number of launches in a gap is unknown, because none were seen. A gap has several rows, each
 * beginning where the previous one ends.
 */
static void write_gap(struct writer *w, uint64_t since_ns, uint64_t until_ns)
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

/* Returns the oldest gap that lacks rows, or false. `finished`: the one before has all its rows. */
static bool next_gap(bool finished, struct gap *gap)
{
	bool any;

	pthread_mutex_lock(&lock);
	written += finished;
	any = written != begun;
	if (any)
		*gap = gaps[written % GAPS];
	pthread_mutex_unlock(&lock);
	return any;
}

void turns_write(struct writer *w)
{
	uint64_t now = clock_monotonic_ns();
	struct gap g = { 0 };

	while (next_gap(g.until_ns != 0, &g)) {
		if (g.until_ns || now - MAX(g.since_ns, sum.until_ns) >= PART_NS)
			write_gap(w, g.since_ns, g.until_ns ? g.until_ns : now);
		if (!g.until_ns)
			break;
	}
}

bool turns_end(struct writer *w, struct strbuf *text)
{
	struct gap *open;
	bool any;

	pthread_mutex_lock(&lock);
	open = latest_open();
	if (open)
		open->until_ns = clock_monotonic_ns();
	pthread_mutex_unlock(&lock);
	turns_write(w);
	any = sum.count != 0;
	if (any)
		own_profiler_windows(text, sum.ns, sum.count);
	sum.ns = sum.count = 0;
	return any;
}

void turns_after_fork(void)
{
	atomic_store(&is_clients_turn, false);
	atomic_store(&moving, false);
	atomic_store(&calls, 0);
	pthread_mutex_init(&lock, NULL);
	begun = written = 0;
	sum.ns = sum.count = 0;
}
