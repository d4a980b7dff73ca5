#include "capture/collector.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "capture/cpu/cpu_timer.h"
#include "capture/host/process_rows.h"
#include "capture/stack_capture.h"
#include "capture/log.h"
#include "capture/nvml/nvml_source.h"
#include "capture/nvtx/nvtx_source.h"
#include "capture/helper_thread.h"
#include "capture/ring.h"
#include "capture/stack_rows.h"
#include "format/rows.h"
#ifndef PITOT_WITHOUT_CUDA
#include "capture/cuda/graph_nodes.h"
#include "capture/cuda/source.h"
#endif

#define TICK_NS (20 * NS_PER_MS) /* between looks at rings and buffers while there is work */
#define SEAL_NS (250 * NS_PER_MS) /* what a SIGKILL can cost at most */
#define IDLE_AFTER_TICKS 25 /* ticks without work until it waits to be woken */
#define HOST_NS (2 * NS_PER_S) /* between looks at modules and thread names */
#define RULES_NS (10 * NS_PER_MS) /* of a tick for unwind rules */
#define STACK_BYTES (512u << 10)
#define MOVED_SLOTS 1024 /* so many of a ring are progress */
#define LOOK_NS (10 * NS_PER_MS) /* between looks at the progress of an end */

enum phase { PHASE_NONE, PHASE_RUNNING, PHASE_STOPPING, PHASE_STOPPED };

atomic_bool collector_idle;

static struct {
	struct collector_start start;
	atomic_uint phase; /* also the futex that collector_stop waits on */
	atomic_uint wake; /* futex */
	atomic_uint progress; /* counts what the thread has done, for those who wait for its end */
	atomic_bool in_vendor; /* in a call that can hang */
	atomic_bool cuda;
	bool window_open;
	bool window_over;
	bool building; /* unwind rules: the next tick comes soon */
	bool sampled; /* CPU samples since the last seal */
	uint64_t last_seal_ns, last_alone_ns, last_host_ns, last_counters_ns, cpu_reported_ns,
		cost_since_ns;
	struct writer_stats written; /* what `cost` has of it */
} self;

static void futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout_ns)
{
	struct timespec t = { (time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S) };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &t, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void collector_wake(void)
{
	int saved = errno;

	atomic_store(&collector_idle, false);
	atomic_fetch_add(&self.wake, 1);
	futex_wake(&self.wake);
	errno = saved;
}

void collector_moved(void)
{
	atomic_fetch_add(&self.progress, 1);
}

void collector_in_vendor(bool in)
{
	atomic_store(&self.in_vendor, in);
	collector_moved();
}

bool collector_running(void)
{
	unsigned phase = atomic_load(&self.phase);

	return phase == PHASE_RUNNING || phase == PHASE_STOPPING;
}

/* One event of a ring; returns its slots. */
static uint64_t take_event(struct ring *r, uint64_t position, uint64_t available)
{
	const struct ring_event *event = ring_slot(r, position);
	uint64_t slots = 1;

	(void)available;
	switch (event->kind) {
#ifndef PITOT_WITHOUT_CUDA
	case RING_API_CALL: {
		bool has_result = event->flags != 0;

		slots = has_result ? 2 : 1;
		if (slots <= available)
			cuda_source_api_call(self.start.writer, r->tid, event,
					     has_result ? (int32_t)ring_slot(r, position + 1)->a
							: 0,
					     has_result);
		break;
	}
	case RING_GRAPH_NODE:
		slots = graph_nodes_event(self.start.writer, r, position);
		break;
#endif
	case RING_STACK:
		slots = stack_rows_event(self.start.writer, r, position);
		break;
	case RING_NVTX:
	case RING_NVTX_NAME:
		slots = nvtx_source_event(self.start.writer, r, position);
		break;
	default:
		break;
	}
	return slots;
}

static void report_ring(struct ring *r, uint64_t now)
{
	rows_loss_more(self.start.writer, loss_reason_ring_full,
		       atomic_load_explicit(&r->lost, memory_order_relaxed), &r->lost_reported,
		       self.last_seal_ns, now, "events of a thread");
}

static uint64_t drain_ring(struct ring *r, uint64_t now)
{
	bool dead = atomic_load_explicit(&r->state, memory_order_acquire) == RING_DEAD;
	uint64_t available = ring_available(r), done = 0;

	collector_moved();
	if (available && !r->named) {
		if (!nvtx_source_thread_row(self.start.writer, r->tid))
			host_thread_row(self.start.writer, r->tid, dead ? r->name : "");
		r->named = true;
	}
	for (uint64_t moved = 0; done < available;) {
		uint64_t slots = take_event(r, atomic_load_explicit(&r->tail, memory_order_relaxed),
					    available - done);

		ring_consume(r, slots);
		if (done - moved >= MOVED_SLOTS) {
			collector_moved();
			moved = done;
		}
		done += slots;
	}
	if (dead && ring_available(r) == 0) {
		report_ring(r, now);
		ring_recycle(r);
	}
	return done;
}

static uint64_t drain_rings(uint64_t now)
{
	struct ring *r;
	uint64_t events = 0;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		if (atomic_load_explicit(&r->state, memory_order_relaxed) != RING_FREE)
			events += drain_ring(r, now);
	return events;
}

/* Cost of the callbacks, from every 64th, over all rings; and CPU of this thread. */
static void write_costs(uint64_t now)
{
	uint64_t calls = 0, sampled_calls = 0, sampled_ns = 0,
		 cpu = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
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
		rows_cost(self.start.writer, cost_kind_callback, self.cost_since_ns, now, calls,
			  (uint64_t)((double)sampled_ns / (double)sampled_calls * (double)calls));
	rows_cost(self.start.writer, cost_kind_collector, self.cost_since_ns, now, 1,
		  cpu - self.cpu_reported_ns);
	rows_writing(self.start.writer, self.cost_since_ns, now, &self.written);
	self.cpu_reported_ns = cpu;
	self.cost_since_ns = now;
}

static void refresh_host(uint64_t now)
{
	struct ring *r;

	collector_moved();
	self.last_host_ns = now;
	cpu_timer_forget_names();
	host_module_rows(self.start.writer);
	for (unsigned i = 0; (r = ring_at(i)); i++)
		r->named =
			false; /* read names again with the next event: threads rename themselves late */
}

static void write_refused(uint64_t now)
{
	rows_loss(self.start.writer, loss_reason_thread_limit, rings_refused(), self.last_seal_ns,
		  now, "events of threads beyond the limit");
}

/* Readings of the GPUs that the process uses. */
static void sample_counters(uint64_t now)
{
#ifndef PITOT_WITHOUT_CUDA
	const char *const *gpus;
	unsigned count;

	if (!self.start.settings.counters_ns || !self.window_open ||
	    now - self.last_counters_ns < self.start.settings.counters_ns)
		return;
	gpus = cuda_source_gpus(&count);
	if (count == 0)
		return;
	collector_in_vendor(true);
	nvml_source_sample(self.start.writer, gpus, count, now);
	collector_in_vendor(false);
	self.last_counters_ns = now;
#else
	(void)now;
#endif
}

static void seal(uint64_t now)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		report_ring(r, now);
	write_refused(now);
	stack_rows_losses(self.start.writer, self.last_seal_ns, now);
	cpu_timer_periodic(self.start.writer, self.last_seal_ns, now);
#ifndef PITOT_WITHOUT_CUDA
	if (atomic_load(&self.cuda))
		cuda_source_periodic(self.start.writer, now);
#endif
	if (now - self.last_host_ns >= HOST_NS)
		refresh_host(now);
	if (now - self.cost_since_ns >= NS_PER_S)
		write_costs(now);
	if (writer_flush(self.start.writer) >= 0)
		cpu_timer_stored();
	self.sampled = false;
	self.last_seal_ns = now;
}

static void watch_window(uint64_t now)
{
	bool over, open = settings_window(&self.start.settings, now, &over);

	if (open == self.window_open || self.window_over)
		return;
	self.window_open = open;
	self.window_over = over;
	nvtx_source_window(open);
	cpu_timer_window(open, self.start.writer);
#ifndef PITOT_WITHOUT_CUDA
	if (atomic_load(&self.cuda))
		cuda_source_window(open, self.start.writer);
#endif
}

static uint64_t tick(uint64_t now)
{
	uint64_t work;

	collector_moved();
	watch_window(now);
	self.building = stack_capture_update(RULES_NS);
	work = self.building;
	work += drain_rings(now);
	/* No work: samples come all the time, and need not be fetched as soon. */
	self.sampled |= cpu_timer_collect(self.start.writer, now) != 0;
#ifndef PITOT_WITHOUT_CUDA
	if (atomic_load(&self.cuda))
		work += cuda_source_collect(self.start.writer);
#endif
	sample_counters(now);
	return work;
}

/* How long nothing can happen that is not announced by a wake-up. */
static uint64_t idle_wait_ns(uint64_t now)
{
	const struct settings *s = &self.start.settings;
	uint64_t next = s->start_ns + s->delay_ns, most = MIN(cpu_timer_wait_ns(), NS_PER_S);

	if (self.window_over)
		return NS_PER_S;
	if (self.window_open)
		next = s->duration_ns ? next + s->duration_ns : now + NS_PER_S;
	return next > now ? MIN(next - now, most) : TICK_NS;
}

static void finish(void)
{
	uint64_t now = clock_monotonic_ns(), begun = now;

	cpu_timer_stop(self.start.writer);
	drain_rings(now);
	/* First: CUPTI may hang from here on. */
	if (writer_flush(self.start.writer) >= 0)
		cpu_timer_stored();
#ifndef PITOT_WITHOUT_CUDA
	if (atomic_load(&self.cuda))
		cuda_source_stop(self.start.writer);
#endif
	collector_moved();
	now = clock_monotonic_ns();
	drain_rings(now);
	refresh_host(now);
	stack_rows_finish(self.start.writer);
	seal(now);
	collector_moved();
	write_costs(clock_monotonic_ns());
	now = clock_monotonic_ns();
	rows_cost(self.start.writer, cost_kind_exit, begun, now, 1, now - begun);
	host_process_row(self.start.writer, self.start.setup_start_ns, now);
	writer_close(&self.start.writer);
}

/*
 * A process whose main() has ended by pthread_exit() ends with its last thread, which this one must not be: it ends, too,
 * and the C library does what it would have done.
 */
static bool is_alone(uint64_t now)
{
	if (now - self.last_alone_ns < SEAL_NS)
		return false;
	self.last_alone_ns = now;
	return host_is_deserted();
}

static void *collector_main(void *unused)
{
	unsigned quiet = 0;

	(void)unused;
	pthread_setname_np(pthread_self(), "pitot");
	host_process_row(self.start.writer, self.start.setup_start_ns, 0);
	rows_cost(self.start.writer, cost_kind_setup, self.start.setup_start_ns,
		  self.start.setup_start_ns + self.start.setup_ns, 1, self.start.setup_ns);
	rows_clock(self.start.writer, 0);
	host_module_rows(self.start.writer);
	writer_flush(self.start.writer);
	while (atomic_load(&self.phase) == PHASE_RUNNING) {
		unsigned wake = atomic_load(&self.wake);
		uint64_t now = clock_monotonic_ns();

		if (is_alone(now))
			break;
		quiet = tick(now) ? 0 : quiet + 1;
		if (now - self.last_seal_ns >= SEAL_NS &&
		    (quiet <= IDLE_AFTER_TICKS || self.sampled))
			seal(now);
		if (quiet <= IDLE_AFTER_TICKS) {
			futex_wait(&self.wake, wake, self.building ? NS_PER_MS : TICK_NS);
			continue;
		}
		atomic_store(&collector_idle, true);
		if (drain_rings(now) == 0)
			futex_wait(&self.wake, wake, idle_wait_ns(now));
		if (!atomic_exchange(&collector_idle, false))
			quiet = 0;
	}
	finish();
	log_line("collector: ended in order");
	atomic_store(&self.phase, PHASE_STOPPED);
	futex_wake(&self.phase);
	return NULL;
}

int collector_start(const struct collector_start *start)
{
	int err;

	self.start = *start;
	atomic_store(&self.cuda, start->cuda);
	self.window_open = self.window_over = false;
	nvml_source_start();
	cpu_timer_start(&self.start.settings);
	self.last_seal_ns = self.cost_since_ns = clock_monotonic_ns();
	self.last_host_ns = 0; /* much is loaded in the first moments: look again soon */
	self.last_counters_ns = self.last_alone_ns = 0;
	self.cpu_reported_ns = 0;
	self.written = (struct writer_stats){ 0 };
	atomic_store(&self.phase, PHASE_RUNNING);
	err = helper_thread_start(collector_main, STACK_BYTES);
	if (err < 0)
		atomic_store(&self.phase, PHASE_NONE);
	return err;
}

void collector_cuda_started(void)
{
	atomic_store(&self.cuda, true);
	collector_wake();
}

bool collector_stop(uint64_t limit_ns)
{
	unsigned expected = PHASE_RUNNING, seen = atomic_load(&self.progress);
	uint64_t now = clock_machine_ns(), end = now + limit_ns, moved = now;

	atomic_compare_exchange_strong(&self.phase, &expected, PHASE_STOPPING);
	collector_wake();
	while (atomic_load(&self.phase) == PHASE_STOPPING) {
		unsigned progress = atomic_load(&self.progress);

		now = clock_machine_ns();
		if (progress != seen)
			moved = now;
		seen = progress;
		if (now >= end ||
		    now - moved >= (atomic_load(&self.in_vendor) ? COLLECTOR_VENDOR_PATIENCE_NS
								 : COLLECTOR_PATIENCE_NS))
			return false;
		futex_wait(&self.phase, PHASE_STOPPING, MIN(end - now, LOOK_NS));
	}
	return true;
}

void collector_after_fork(void)
{
	atomic_store(&self.phase, PHASE_NONE);
	atomic_store(&self.cuda, false);
	atomic_store(&self.in_vendor, false);
	atomic_store(&collector_idle, false);
	self.start.writer = NULL;
}
