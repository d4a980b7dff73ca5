/*
 * collector.c: one loop: update the sessions, drain the rings, let the sources write rows, and
 * every COLLECTOR_SEAL_NS seal, if there are new rows. Sealing has two steps: the collector asks
 * the vendor thread to make CUPTI hand over finished work, and once that is done (or takes too
 * long, because the GPU hangs) writes the rows so far to the disk.
 */
#include "capture/core/collector.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "capture/core/capability_notes.h"
#include "base/helper_thread.h"
#include "capture/core/log.h"
#include "capture/core/own_work.h"
#include "capture/core/park.h"
#include "capture/core/session_sinks.h"
#include "capture/core/session_windows.h"
#include "capture/core/shared_area.h"
#include "capture/core/vendor_thread.h"
#include "format/loss_tally.h"
#include "format/rows.h"

/* between two drains while there is work; half-full rings and full buffers wake it earlier */
#define TICK_NS (40 * NS_PER_MS)
#define IDLE_AFTER_TICKS 12 /* ticks without work after which it sleeps until it is woken */
#define GPU_ONLY_SEAL_NS (80 * NS_PER_MS)
#define REREAD_NAMES_NS (2 * NS_PER_S) /* between two readings of the threads' names */
#define STACK_BYTES (512u << 10)
#define PROGRESS_SLOTS 1024 /* slots drained per progress count */
#define PROGRESS_POLL_NS (10 * NS_PER_MS)
#define STALL_LIMIT_NS                                                                             \
	(PITOT_SLOWNESS * NS_PER_S) /* without progress: one write can take long on a busy disk */
/*
 * A CUPTI call takes milliseconds, or hangs with the GPU: none waits for work on the GPU. Sealing
 * waits this long for the vendor thread; the end waits somewhat longer.
 */
#define VENDOR_WAIT_NS (PITOT_SLOWNESS * 40 * NS_PER_MS)
#define VENDOR_END_WAIT_NS (PITOT_SLOWNESS * 200 * NS_PER_MS)
/* the process continues, and its next recording needs a free CUPTI */
#define VENDOR_CLOSE_WAIT_NS (STALL_LIMIT_NS * 3 / 4)
/* How long the end reads rings at least; otherwise half of its limit. */
#define DRAIN_MIN_NS (PITOT_SLOWNESS * 250 * NS_PER_MS)
/* the rest is written on other threads (session_sinks_closing.h) */
#define DISK_CLOSE_WAIT_NS (50 * NS_PER_MS)
/* of a millisecond each, at the end: for threads that are still stopping */
#define FINAL_ROUNDS (PITOT_SLOWNESS * 200u)

enum phase { PHASE_NONE, PHASE_HELD, PHASE_RUNNING, PHASE_STOPPING, PHASE_STOPPED };

atomic_bool collector_idle;
void (*_Atomic collector_at_exit)(void);
atomic_int collector_signal;
struct parked collector_parked;

static struct {
	struct writer *w;
	struct source_start start;
	struct settings settings; /* at the start: later sessions may request more */
	uint64_t setup_ns; /* time that starting cost the program's thread */
	atomic_uint phase; /* also the futex that the start and collector_stop wait on */
	atomic_uint wake; /* futex */
	atomic_uint ending; /* why it ends: enum vendor_reason */
	atomic_uint progress;
	atomic_uint_fast64_t drain_end_ns; /* see is_given_up(); 0: it is not ending */
	ring_handler *handlers[RING_KINDS];
	unsigned flush_round; /* round of the vendor thread that a seal waits for; 0: none */
	uint64_t flush_since_ns;
	/* number of flushes requested, and of those that are on disk; the latter is a futex */
	atomic_uint flushes_requested, flushes_done;
	unsigned flush_covers; /* flushes_requested when the flush began */
	atomic_int flush_result;
	const char *hanging_call; /* the call that the recording reports as hanging */
	uint64_t hanging_since_ns;
	bool has_events; /* rings had events since the last seal */
	int failure; /* with which a sink has ended by itself; 0: none has */
	uint64_t last_seal_ns, sealed_rows, last_names_ns, last_exit_check_ns;
	uint64_t cpu_reported_ns, cost_since_ns;
	struct writer_stats reported; /* already reported in table `cost` */
	bool clock_replaced; /* and a capability row reports it */
} self;

void collector_wake(void)
{
	int saved = errno;

	atomic_store(&collector_idle, false);
	atomic_fetch_add(&self.wake, 1);
	futex_wake(&self.wake);
	errno = saved;
}

void collector_count_progress(void)
{
	atomic_fetch_add(&self.progress, 1);
}

bool collector_running(void)
{
	unsigned phase = atomic_load(&self.phase);

	return phase == PHASE_RUNNING || phase == PHASE_STOPPING;
}

bool collector_ending(void)
{
	return atomic_load(&self.phase) == PHASE_STOPPING;
}

/* --- rings --- */

static void write_ring_loss(struct ring *r, uint64_t now)
{
	rows_loss_more(self.w, loss_reason_ring_full,
		       atomic_load_explicit(&r->lost, memory_order_relaxed), &r->lost_reported,
		       self.last_seal_ns, now, "events of a thread");
}

static void write_refused(uint64_t now)
{
	uint64_t threads, events = rings_refused(&threads);

	rows_loss(self.w, loss_reason_thread_limit, threads, self.last_seal_ns, now,
		  "beyond 1,024 at the same time");
	rows_loss(self.w, loss_reason_events_beyond_limit, events, self.last_seal_ns, now,
		  "of threads beyond 1,024 at the same time");
}

/*
 * Whether the end has taken so long that the rest of the rings has to be given up, so that what has
 * been read is completed within the time that the end may take.
 */
static bool is_given_up(void)
{
	uint64_t end = atomic_load(&self.drain_end_ns);

	return end && clock_machine_ns() >= end;
}

/* Drops what was given up, and counts it: a slot as an event, although a few have several. */
static void write_given_up(uint64_t now)
{
	uint64_t events = 0;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		uint64_t available = ring_available(r);

		ring_consume(r, available);
		events += available;
	}
	rows_loss(self.w, loss_reason_end_limit, events, self.last_seal_ns, now,
		  "that the rings of threads had when the recording ended");
}

static void name_thread(struct ring *r, bool dead)
{
	if (!r->named)
		source_name_thread(self.w, r->tid, dead ? r->name : "");
	r->named = true;
}

static uint64_t drain_ring(struct ring *r, uint64_t now)
{
	bool dead = atomic_load_explicit(&r->state, memory_order_acquire) == RING_DEAD;
	uint64_t available = ring_available(r), done = 0;
	struct journal *journal = available ? shared_area_marks() : NULL;
	uint64_t source = AREA_SOURCE_RING + (uint64_t)(r - ring_at(0));

	collector_count_progress();
	if (journal)
		journal_mark(journal, source, atomic_load(&r->tail));
	for (uint64_t counted = 0; done < available;) {
		uint64_t position = atomic_load_explicit(&r->tail, memory_order_relaxed);
		unsigned kind = ring_slot(r, position)->kind;
		ring_handler *handle = kind < RING_KINDS ? self.handlers[kind] : NULL;
		uint64_t slots;

		/* Readings are not events of the program: they do not give our own thread a row. */
		if (kind != RING_COUNTER && kind != RING_SAMPLE && kind != RING_HIP_WORK &&
		    kind != RING_HIP_VALUE)
			name_thread(r, dead);
		slots = handle ? handle(self.w, r, position) : 1;
		if (journal)
			journal_mark(journal, source, position + slots);
		ring_consume(r, slots);
		done += slots;
		if (done - counted >= PROGRESS_SLOTS) {
			collector_count_progress();
			counted = done;
			if (is_given_up())
				break;
		}
	}
	if (journal)
		journal_mark(journal, JOURNAL_NO_SOURCE, 0);
	if (atomic_load_explicit(&r->added_words, memory_order_acquire))
		name_thread(r, dead);
	if (dead && ring_available(r) == 0 && !atomic_load(&r->added_words)) {
		write_ring_loss(r, now);
		ring_recycle(r);
	}
	return done;
}

static uint64_t drain_rings(uint64_t now)
{
	struct ring *r;
	uint64_t events = 0;

	for (unsigned i = 0; (r = ring_at(i)) && !is_given_up(); i++)
		if (atomic_load_explicit(&r->state, memory_order_relaxed) != RING_FREE)
			events += drain_ring(r, now);
	return events;
}

/* --- what recording cost, and what was lost --- */

/* Times by the program's clock are no measure of cost if it is not the machine's clock. */
static void check_clock(void)
{
	if (self.clock_replaced || !clock_is_replaced())
		return;
	self.clock_replaced = true;
	capability_note(
		feature_cost, capability_state_degraded, "all", "CPU time of Pitot's own threads",
		"the program's clock is not the machine's: a tape is played, or the program "
		"defines clock_gettime");
}

/* Writes the callbacks' cost over all rings, from every 64th, and our own threads' CPU time. */
static void write_costs(uint64_t now)
{
	uint64_t calls = 0, sampled_calls = 0, sampled_ns = 0;
	uint64_t cpu = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) + vendor_thread_cpu_ns();
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		uint64_t c = atomic_load_explicit(&r->calls, memory_order_relaxed);
		uint64_t s = atomic_load_explicit(&r->sampled_calls, memory_order_relaxed);
		uint64_t ns = atomic_load_explicit(&r->sampled_ns, memory_order_relaxed);

		calls += c - r->calls_reported;
		sampled_calls += s - r->sampled_calls_reported;
		sampled_ns += ns - r->sampled_ns_reported;
		r->calls_reported = c;
		r->sampled_calls_reported = s;
		r->sampled_ns_reported = ns;
	}
	if (sampled_calls)
		rows_cost(self.w, cost_kind_callback, self.cost_since_ns, now, calls,
			  (uint64_t)((double)sampled_ns / (double)sampled_calls * (double)calls));
	rows_cost(self.w, cost_kind_collector, self.cost_since_ns, now, 1,
		  cpu - self.cpu_reported_ns);
	rows_writing(self.w, self.cost_since_ns, now, &self.reported);
	self.cpu_reported_ns = cpu;
	self.cost_since_ns = now;
}

/* Reports a hanging GPU while it hangs, because the process may be killed for it. */
static void watch_vendor(void)
{
	uint64_t since, now = clock_machine_ns();
	const char *call = vendor_thread_current_call(&since);

	if (self.hanging_call && (call != self.hanging_call || since != self.hanging_since_ns)) {
		capability_note(feature_gpu, capability_state_on, "flush", "flush",
				"%s returned after a hang", self.hanging_call);
		self.hanging_call = NULL;
	}
	if (!call || self.hanging_call || now < since + vendor_thread_patience_ns())
		return;
	self.hanging_call = call;
	self.hanging_since_ns = since;
	capability_note(
		feature_gpu, capability_state_degraded, "flush", "full buffers only",
		"%s has not returned for %u s: the GPU or its driver hangs; finished work that "
		"CUPTI has not handed over is missing",
		call, (unsigned)((now - since) / NS_PER_S));
	rows_loss(self.w, loss_reason_gpu_hang, 1, clock_monotonic_ns() - (now - since),
		  clock_monotonic_ns(), call);
}

/* --- sealing --- */

static bool is_unfinished(uint64_t now)
{
	FOR_EACH_SOURCE (s)
		if ((*s)->unfinished && (*s)->unfinished(now))
			return true;
	return false;
}

static uint64_t count_rows(void)
{
	struct writer_stats stats;

	writer_stats(self.w, &stats);
	return stats.rows;
}

static void reread_thread_names(uint64_t now)
{
	struct ring *r;

	self.last_names_ns = now;
	for (unsigned i = 0; (r = ring_at(i)); i++)
		r->named = false; /* the next event writes it: threads rename themselves late */
}

/* A recording beside gpufl's logs says that they are incomplete. */
static void note_failure(uint64_t now)
{
	int failure = writer_failure(self.w);

	if (failure && !self.failure)
		rows_loss(self.w, loss_of_error(failure), 1, self.last_seal_ns, now,
			  "gpufl's logs: nothing more was written into them");
	self.failure = failure;
}

/* Returns what writer_flush returns. */
static int seal(uint64_t now)
{
	struct ring *r;
	int result;

	check_clock();
	for (unsigned i = 0; (r = ring_at(i)); i++)
		write_ring_loss(r, now);
	write_refused(now);
	FOR_EACH_SOURCE (s)
		if ((*s)->periodic)
			(*s)->periodic(self.w, self.last_seal_ns, now);
	own_work_write(self.w, self.last_seal_ns, now);
	capability_notes_write(self.w);
	if (now - self.last_names_ns >= REREAD_NAMES_NS)
		reread_thread_names(now);
	if (now - self.cost_since_ns >= NS_PER_S)
		write_costs(now);
	result = writer_flush(self.w);
	note_failure(now);
	self.last_seal_ns = now;
	self.sealed_rows = count_rows();
	self.has_events = false;
	return result;
}

/*
 * While only the GPU works, its kernels are long. A SIGKILL also loses what is in CUPTI's open
 * buffer, and seals are small, so the collector seals more often.
 */
static uint64_t seal_due_ns(void)
{
	return self.last_seal_ns + (self.has_events ? COLLECTOR_SEAL_NS : GPU_ONLY_SEAL_NS);
}

static uint64_t collect(uint64_t now)
{
	uint64_t work = 0;

	FOR_EACH_SOURCE (s) {
		park_here(&collector_parked);
		if ((*s)->collect)
			work += (*s)->collect(self.w, now);
	}
	return work;
}

/*
 * The second step of a seal. Completes flushes that were requested before the first step, unless
 * their rows are still being written to the disk.
 */
static void finish_flush(uint64_t now)
{
	int result;

	self.flush_round = 0;
	collect(now); /* what was handed over meanwhile is sealed too */
	result = seal(now);
	if (result == 1)
		return;
	atomic_store(&self.flush_result, result ? result : self.failure);
	atomic_store(&self.flushes_done, self.flush_covers);
	futex_wake(&self.flushes_done);
}

/* Takes either step of a seal when it is due. */
static void seal_when_due(uint64_t now)
{
	unsigned requested = atomic_load(&self.flushes_requested);
	bool is_requested = requested != atomic_load(&self.flushes_done);

	if (self.flush_round) {
		if (vendor_thread_done(self.flush_round) ||
		    now - self.flush_since_ns >= VENDOR_WAIT_NS)
			finish_flush(now);
		return;
	}
	if (now < seal_due_ns() && !is_requested)
		return;
	if (is_requested || is_unfinished(now)) {
		self.flush_round = vendor_thread_request(VENDOR_FLUSH);
		self.flush_since_ns = now;
		self.flush_covers = requested;
	} else if (now - self.last_seal_ns >= COLLECTOR_SEAL_NS &&
		   count_rows() != self.sealed_rows) {
		seal(now);
	}
}

/* --- the loop --- */

static uint64_t tick(uint64_t now)
{
	uint64_t work;

	collector_count_progress();
	quick_clock_calibrate();
	if (sessions_update(now, self.w)) {
		write_costs(now);
		seal(now);
		sessions_end(self.w);
	}
	park_here(&collector_parked);
	work = drain_rings(now);
	self.has_events |= work != 0;
	work += collect(now);
	watch_vendor();
	return work;
}

static uint64_t sources_wait_ns(uint64_t now, uint64_t limit_ns)
{
	FOR_EACH_SOURCE (s)
		if ((*s)->wait_ns) {
			uint64_t wait = (*s)->wait_ns(now);

			limit_ns = MIN(limit_ns, wait);
		}
	return limit_ns;
}

static uint64_t busy_wait_ns(uint64_t now)
{
	uint64_t wait = sources_wait_ns(now, MIN(TICK_NS, sessions_wait_ns(now))),
		 due = seal_due_ns();

	if (self.flush_round)
		return MIN(wait, VENDOR_WAIT_NS / 4);
	return due > now ? MIN(wait, due - now) : wait;
}

/* How long the collector may sleep if it is not woken. */
static uint64_t idle_wait_ns(uint64_t now)
{
	uint64_t wait = sources_wait_ns(now, sessions_wait_ns(now));

	if (self.flush_round || is_unfinished(now) || count_rows() != self.sealed_rows) {
		uint64_t due = seal_due_ns();

		wait = MIN(wait, self.flush_round || due <= now ? VENDOR_WAIT_NS / 4 : due - now);
	}
	return MIN(wait, NS_PER_S);
}

/*
 * Sleeps until something happens. A thread may have pushed an event and still have seen
 * collector_idle false, before its push became visible; the barrier makes that push visible.
 * Without membarrier(2) such an event is found up to a second later.
 */
static bool sleep_idle(uint64_t now, unsigned wake)
{
	uint64_t found;

	atomic_store(&collector_idle, true);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	found = drain_rings(now);
	if (!found)
		park_wait(&collector_parked, &self.wake, wake, idle_wait_ns(now));
	return !atomic_exchange(&collector_idle, false) || found;
}

/*
 * A process whose main() has ended by pthread_exit() ends with its last thread. Our threads must
 * not be the last: they end as well, and the C library then ends the process as it would have.
 */
static bool is_last_thread(uint64_t now)
{
	if (now - self.last_exit_check_ns < COLLECTOR_SEAL_NS)
		return false;
	self.last_exit_check_ns = now;
	return helper_threads_are_last();
}

/* Waits for what the vendor thread still has to hand over; returns true if it did. */
static bool wait_for_vendor(void)
{
	enum vendor_reason ending = atomic_load(&self.ending);
	uint64_t progress_ns = clock_machine_ns(),
		 limit = ending == VENDOR_CLOSE ? VENDOR_CLOSE_WAIT_NS : VENDOR_END_WAIT_NS;
	unsigned round = vendor_thread_request(ending), seen = atomic_load(&self.progress);

	while (!vendor_thread_done(round)) {
		uint64_t now = clock_machine_ns();
		unsigned wake = atomic_load(&self.wake), progress = atomic_load(&self.progress);

		if (progress != seen)
			progress_ns = now;
		seen = progress;
		if (now - progress_ns >= limit)
			return false;
		collect(clock_monotonic_ns());
		if (!vendor_thread_done(round))
			futex_wait(&self.wake, wake, PROGRESS_POLL_NS);
	}
	return true;
}

static bool closes(void)
{
	return atomic_load(&self.ending) == VENDOR_CLOSE;
}

/*
 * Waits until everything is on disk, unless the process continues: then not for a disk that hangs.
 * Each write counts as progress.
 */
static void wait_for_disk(void)
{
	uint64_t begun = clock_machine_ns(), writes = 0;
	struct writer_stats stats;

	while (writer_flush(self.w) == 1) {
		if (closes() && clock_machine_ns() - begun >= DISK_CLOSE_WAIT_NS)
			break;
		writer_stats(self.w, &stats);
		if (stats.writes != writes)
			collector_count_progress();
		writes = stats.writes;
	}
	collector_count_progress();
}

/* Waits for sources that need the vendor thread for a moment before they can write their rows. */
static void drain_rest(void)
{
	uint64_t work = 1;

	for (unsigned i = 0; work && i < FINAL_ROUNDS; i++) {
		work = drain_rings(clock_monotonic_ns());
		work += collect(clock_monotonic_ns());
		if (work)
			futex_wait(&self.wake, atomic_load(&self.wake), NS_PER_MS);
	}
}

static void finish(void)
{
	uint64_t begun = clock_monotonic_ns(), now, since;

	FOR_EACH_SOURCE (s)
		if ((*s)->stop)
			(*s)->stop(self.w);
	drain_rings(begun);
	seal(begun); /* before anything else, because the GPU may hang from here on */
	if (!wait_for_vendor()) {
		now = clock_monotonic_ns();
		rows_loss(self.w, loss_reason_gpu_hang, 1, begun, now,
			  vendor_thread_current_call(&since));
	}
	drain_rest();
	if (is_given_up()) {
		write_given_up(clock_monotonic_ns());
		drain_rest();
	}
	FOR_EACH_SOURCE (s)
		if ((*s)->stopped)
			(*s)->stopped(self.w);
	now = clock_monotonic_ns();
	vendor_thread_stop();
	seal(now);
	now = clock_monotonic_ns();
	write_costs(now);
	rows_cost(self.w, cost_kind_exit, begun, now, 1, now - begun);
	wait_for_disk();
}

static void begin(void)
{
	const struct source_start *start = &self.start;

	FOR_EACH_SOURCE (s)
		if ((*s)->begin)
			(*s)->begin(self.w, start);
	rows_cost(self.w, cost_kind_setup, start->start_ns, start->start_ns + self.setup_ns, 1,
		  self.setup_ns);
	rows_clock(self.w, 0);
	capability_notes_write(self.w);
	seal(clock_monotonic_ns());
}

static void *collector_main(void *unused)
{
	void (*at_exit)(void);
	unsigned idle_ticks = 0;
	int number;

	(void)unused;
	pthread_setname_np(pthread_self(), "pitot");
	park_begin(&collector_parked);
	while (atomic_load(&self.phase) == PHASE_HELD)
		park_wait(&collector_parked, &self.phase, PHASE_HELD, NS_PER_S);
	begin();
	do {
		unsigned wake = atomic_load(&self.wake);
		uint64_t now = clock_monotonic_ns();

		/* The first tick opens windows: what the process has done by then counts. */
		idle_ticks = tick(now) ? 0 : idle_ticks + 1;
		if (atomic_load(&self.phase) != PHASE_RUNNING || is_last_thread(now))
			break;
		seal_when_due(now);
		if (idle_ticks <= IDLE_AFTER_TICKS)
			park_wait(&collector_parked, &self.wake, wake, busy_wait_ns(now));
		else if (sleep_idle(now, wake))
			idle_ticks = 0;
	} while (atomic_load(&self.phase) == PHASE_RUNNING);
	finish();
	if (closes())
		rings_give_back();
	sessions_close_all(closes());
	at_exit = closes() ? NULL : atomic_load(&collector_at_exit);
	if (at_exit)
		at_exit();
	log_line("collector: ended in order");
	park_end(&collector_parked);
	atomic_store(&self.phase, PHASE_STOPPED);
	futex_wake(&self.phase);
	number = atomic_load(&collector_signal);
	if (number)
		kill(getpid(), number);
	return NULL;
}

int collector_start(void)
{
	int err = vendor_thread_start();

	if (err < 0)
		return err;
	atomic_store(&self.phase, PHASE_HELD);
	err = helper_thread_start(collector_main, NULL, STACK_BYTES);
	if (err < 0) {
		atomic_store(&self.phase, PHASE_NONE);
		vendor_thread_stop();
	}
	return err;
}

void collector_begin(struct writer *w, const struct source_start *start)
{
	uint64_t now = clock_monotonic_ns();

	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	self.w = w;
	self.start = *start;
	self.settings = *start->wanted;
	self.start.wanted = &self.settings;
	self.setup_ns = now - start->start_ns;
	atomic_store(&self.ending, VENDOR_EXIT);
	atomic_store(&self.drain_end_ns, 0);
	for (unsigned i = 0; i < RING_KINDS; i++)
		self.handlers[i] = source_handler(i);
	self.flush_round = 0;
	atomic_store(&self.flushes_done, atomic_load(&self.flushes_requested));
	self.hanging_call = NULL;
	self.failure = 0;
	self.last_seal_ns = self.cost_since_ns = self.last_names_ns = now;
	self.sealed_rows = self.last_exit_check_ns = self.cpu_reported_ns = 0;
	self.reported = (struct writer_stats){ 0 };
	atomic_store(&self.phase, PHASE_RUNNING);
	futex_wake(&self.phase);
	vendor_thread_begin();
}

/* Waits for sessions that are being closed, at most until end_ns. Async-signal-safe. */
static bool wait_for_closers(uint64_t end_ns)
{
	unsigned closers;
	uint64_t now;

	while ((closers = atomic_load(&session_sinks_closing)) != 0) {
		now = clock_machine_ns();
		if (now >= end_ns)
			return false;
		futex_wait(&session_sinks_closing, closers, end_ns - now);
	}
	return true;
}

bool collector_stop(uint64_t limit_ns, enum vendor_reason reason)
{
	unsigned expected = PHASE_RUNNING, seen = atomic_load(&self.progress);
	uint64_t now = clock_machine_ns(), end = now + limit_ns, progress_ns = now, none = 0;

	atomic_store(&self.ending, reason);
	atomic_compare_exchange_strong(&self.drain_end_ns, &none,
				       now + MAX(limit_ns / 2, DRAIN_MIN_NS));
	atomic_compare_exchange_strong(&self.phase, &expected, PHASE_STOPPING);
	collector_wake();
	while (atomic_load(&self.phase) == PHASE_STOPPING) {
		unsigned progress = atomic_load(&self.progress);

		now = clock_machine_ns();
		if (progress != seen)
			progress_ns = now;
		seen = progress;
		if (now >= end || now - progress_ns >= STALL_LIMIT_NS)
			return false;
		futex_wait(&self.phase, PHASE_STOPPING, MIN(end - now, PROGRESS_POLL_NS));
	}
	return reason != VENDOR_EXIT || wait_for_closers(end);
}

int collector_flush(uint64_t limit_ns)
{
	unsigned number = atomic_fetch_add(&self.flushes_requested, 1) + 1, done;
	uint64_t begun = clock_machine_ns();

	collector_wake();
	while ((int)(number - (done = atomic_load(&self.flushes_done))) > 0) {
		if (!collector_running())
			return 0;
		if (clock_machine_ns() - begun >= limit_ns)
			return -ETIMEDOUT;
		futex_wait(&self.flushes_done, done, PROGRESS_POLL_NS);
	}
	return atomic_load(&self.flush_result);
}

void collector_after_fork(void)
{
	atomic_store(&self.phase, PHASE_NONE);
	atomic_store(&collector_idle, false);
	atomic_store(&collector_parked.state, PARK_NONE);
	self.clock_replaced = false;
	self.w = NULL;
}
