/*
 * cpu_timer.c: CPU samples by timers inside the process, for use where sampling from outside is
 * forbidden: by seccomp (perf_event_open in Docker's default) or by perf_event_paranoid.
 *
 * They also sample Python programs beside perf events, which have no Python frames. In that case
 * they begin when there is a Python in the process, and sample the whole process from that instant
 * on: a row of cpu_span says since when, and readers then ignore the samples of perf events. A
 * thread that cannot have a timer, because it blocks the signal, gets samples without stacks, by
 * its CPU clock.
 *
 * Each thread has a timer on its own CPU clock (cpu_threads.h), which sends it a signal; the
 * handler walks the stack (cpu_handler.h) and puts a record into the thread's slot; this file turns
 * the records into rows of cpu_sample. Weights are whole periods, so that they add up to CPU time
 * even if a signal is late: the operating system checks these timers only at its ticks, 100 to 1000
 * times a second.
 */
#include "capture/core/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/plural.h"
#include "capture/cpu/cpu_handler.h"
#include "capture/cpu/cpu_threads.h"
#include "capture/stack/stack_capture.h"
#include "capture/core/log.h"
#include "capture/stack/stack_rows.h"
#include "format/rows.h"

#define BUSY_WAIT_NS (100 * NS_PER_MS) /* between drains of the slots while there are samples */
#define QUIET_WAIT_NS (250 * NS_PER_MS) /* and while there are none: finds new threads */
#define REREAD_NAMES_NS (2 * NS_PER_S) /* between two readings of the threads' names */
#define DELIVERY_NS 1500 /* estimated cost of a signal, excluding the handler */

static struct {
	struct settings settings;
	bool on;
	bool waiting; /* for a Python: until there is one, perf events sample the process */
	uint32_t hz;
	uint64_t period_ns;
	char requested[32], actual[96];
	uint64_t samples, sampled_periods; /* samples, and the periods that they stand for */
	uint64_t sampled_ns, unseen_ns; /* CPU time in rows, and the part of it without a stack */
	uint64_t last_drained; /* samples in the last drain */
	uint64_t process_cpu_ns; /* the process's CPU time when counting began */
	uint64_t own_cpu_ns; /* the recorder's threads' CPU time at that moment */
	uint64_t opened_ns; /* when counting began, CLOCK_MONOTONIC */
	uint64_t no_stack_reported[CPU_NO_STACK_KINDS], refused_reported;
	uint64_t cost_reported, cost_ns_reported, cost_since_ns;
	uint64_t forgot_names_ns; /* when the threads' names were forgotten */
} self;

static uint64_t loaded_cpu_ns; /* the process's CPU time when it exec'ed this program */

/* --- rows --- */

static void name_thread(struct writer *w, struct cpu_slot *s, uint32_t tid)
{
	/* An ended thread has no name any more, but perhaps an earlier row. */
	if (s->named || syscall(SYS_tgkill, getpid(), tid, 0) != 0)
		return;
	s->named = true;
	source_name_thread(w, tid, "");
}

static void append(struct writer *w, const struct cpu_record *record, uint64_t periods,
		   uint32_t stack)
{
	struct row_cpu_sample row = {
		.time_ns = record->time_ns,
		.thread = record->tid,
		.weight_ns = periods * record->period_ns,
		.cpu = record->cpu,
		.stack = stack,
	};

	ROW_MISSING_IF(&row, cpu_sample, cpu, record->cpu == UINT32_MAX);
	ROW_MISSING_IF(&row, cpu_sample, stack, !stack);
	writer_append(w, TABLE_cpu_sample, &row);
	self.sampled_ns += row.weight_ns;
	if (!stack)
		self.unseen_ns += row.weight_ns;
}

/* Appends CPU time whose stacks are unknown. */
static void append_unseen(void *context, struct cpu_slot *s, uint64_t periods)
{
	struct cpu_record record = { .time_ns = clock_monotonic_ns(),
				     .period_ns = s->period_ns,
				     .tid = s->tid,
				     .cpu = UINT32_MAX };

	name_thread(context, s, s->tid);
	append(context, &record, periods, 0);
}

/* Appends the rows of one record; returns its number of words. */
static uint64_t append_record(struct writer *w, struct cpu_slot *s, uint64_t at)
{
	static uint64_t frames[STACK_FRAMES_MAX]; /* too large for the collector's stack */
	uint64_t words[CPU_RECORD_WORDS];
	struct cpu_record record;
	uint32_t stack = 0;

	for (unsigned i = 0; i < CPU_RECORD_WORDS; i++)
		words[i] = *cpu_slot_word(s, at++);
	memcpy(&record, words, sizeof(record));
	record.count = MIN(record.count, STACK_FRAMES_MAX);
	for (unsigned i = 0; i < record.count; i++)
		frames[i] = *cpu_slot_word(s, at++);
	name_thread(w, s, record.tid);
	if (record.count)
		stack = stack_rows_sample(w, frames, record.count, (enum stack_end)record.end);
	if (record.with_stack)
		append(w, &record, record.with_stack, stack);
	self.sampled_periods += record.with_stack;
	if (record.without_stack)
		append(w, &record, record.without_stack, 0);
	self.samples++;
	return CPU_RECORD_WORDS + record.count;
}

static uint64_t drain(struct writer *w)
{
	struct cpu_slot *s;
	uint64_t before = self.samples;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++) {
		uint64_t head = atomic_load_explicit(&s->head, memory_order_acquire);
		uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);

		while (tail != head)
			tail += append_record(w, s, tail);
		atomic_store_explicit(&s->tail, tail, memory_order_release);
	}
	return self.samples - before;
}

/* --- capability rows --- */

/* If perf events sample as well, the row "cpu" belongs to them. */
static enum feature row_name(void)
{
	return self.settings.perf ? feature_cpu_timer : feature_cpu;
}

static void write_off(struct writer *w, enum capability_state state, const char *reason)
{
	log_line("no CPU samples: %s", reason);
	rows_capability(w, row_name(), state, self.requested, NULL, reason);
}

/* Writes that timers sample the process, or did so until now. Sealed before the first sample is. */
static void write_span(struct writer *w, bool is_over)
{
	struct row_cpu_span row = {
		.start_ns = self.opened_ns,
		.end_ns = clock_monotonic_ns(),
		.pid = (uint32_t)getpid(),
		.method = sampling_method_timer,
	};

	ROW_MISSING_IF(&row, cpu_span, end_ns, !is_over);
	ROW_MISSING(&row, cpu_span, cpu_ns);
	writer_append(w, TABLE_cpu_span, &row);
	if (!is_over)
		writer_flush(w);
}

struct sums {
	uint64_t samples, handler_ns, no_stack[CPU_NO_STACK_KINDS], unsure;
};

static struct sums sum_slots(void)
{
	struct sums sum = { 0 };
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++) {
		sum.samples += atomic_load_explicit(&s->samples, memory_order_relaxed);
		sum.handler_ns += atomic_load_explicit(&s->handler_ns, memory_order_relaxed);
		for (unsigned k = 0; k < CPU_NO_STACK_KINDS; k++)
			sum.no_stack[k] +=
				atomic_load_explicit(&s->no_stack[k], memory_order_relaxed);
		sum.unsure +=
			atomic_load_explicit(&s->stacks.python_unmatched, memory_order_relaxed);
	}
	return sum;
}

static void set_rate(uint32_t hz)
{
	self.hz = hz;
	snprintf(self.actual, sizeof(self.actual),
		 "timer inside the process, %u Hz, native%s frames", hz,
		 self.settings.stacks != SETTING_STACKS_NATIVE && !*stack_capture_python_reason()
			 ? " and Python"
			 : "");
}

/* Writes what was sampled and what was not. */
static void write_result(struct writer *w, const char *left)
{
	struct sums sum = sum_slots();
	struct cpu_threads_counts threads;
	uint64_t cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - self.process_cpu_ns -
			  (helper_threads_cpu_ns() - self.own_cpu_ns);
	uint64_t sampled_ns = self.sampled_ns;
	uint32_t rate = self.sampled_periods
				? (uint32_t)(self.hz * self.samples / self.sampled_periods)
				: self.hz;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	set_rate(self.hz);
	cpu_threads_counts(&threads);
	strbuf_addf(
		&text,
		"%ssamples cover %.3f of %.3f s of CPU time in %u thread%s; %.3f s without a stack",
		left, (double)sampled_ns / 1e9, (double)cpu_ns / 1e9, threads.threads,
		plural(threads.threads), (double)self.unseen_ns / 1e9);
	if (sum.unsure)
		strbuf_addf(&text, "; Python frames guessed in %llu stack%s",
			    (unsigned long long)sum.unsure, plural(sum.unsure));
	if (threads.blocked)
		strbuf_addf(&text, "; %u thread%s blocked SIGURG", threads.blocked,
			    plural(threads.blocked));
	if (threads.refused)
		strbuf_addf(&text, "; %u thread%s had no timer", threads.refused,
			    plural(threads.refused));
	if (sampled_ns - self.unseen_ns >= NS_PER_S && rate < self.hz - self.hz / 10) {
		strbuf_addf(
			&text,
			"; actual rate %u Hz, requested %u: CPU timers expire at scheduler ticks",
			rate, self.hz);
		set_rate(rate);
	}
	write_span(w, true);
	if (self.settings.perf)
		strbuf_adds(&text, "; perf events cover the time before and after");
	else if (cpu_ns > sampled_ns + MAX(cpu_ns / 50, 10 * self.period_ns))
		rows_loss(w, loss_reason_samples_dropped, (cpu_ns - sampled_ns) / self.period_ns,
			  self.opened_ns, clock_monotonic_ns(),
			  "CPU samples of threads that ended before they were found");
	rows_capability(w, row_name(), *left ? capability_state_degraded : capability_state_on,
			self.requested, self.actual, strbuf_text(&text));
}

/* --- life --- */

/* Called by the library's constructor: CPU time up to now was used before the exec. */
static void loaded(void)
{
	loaded_cpu_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Samples nothing before a window opens. */
static void begin(struct writer *w, const struct source_start *how)
{
	(void)w;
	memset(&self, 0, sizeof(self));
	self.settings = *how->wanted;
}

static void limit_rate(void)
{
	snprintf(self.requested, sizeof(self.requested), "%u Hz", (unsigned)self.settings.cpu);
	self.period_ns = MAX(NS_PER_S / self.settings.cpu, MAX(clock_tick_ns(), NS_PER_MS));
	set_rate((uint32_t)((NS_PER_S + self.period_ns / 2) / self.period_ns));
}

/* Perf events and timers must mean the same process ids, so both must use one pid namespace. */
static bool shares_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == self.settings.perf;
}

static void write_rate(struct writer *w)
{
	char reason[160];

	snprintf(reason, sizeof(reason), "the operating system checks CPU timers %u times a second",
		 self.hz);
	rows_capability(w, row_name(), capability_state_on, self.requested, self.actual,
			self.hz + 1 < self.settings.cpu ? reason : NULL);
	log_line("CPU samples: %u Hz", self.hz);
}

static void write_unavailable(struct writer *w, const char *what, int err)
{
	char reason[160];

	snprintf(reason, sizeof(reason), "%s: %s%s", what, strerror(-err),
		 err == -EPERM || err == -EACCES || err == -ENOSYS ? ": a seccomp filter forbids it"
								   : "");
	write_off(w, capability_state_unavailable, reason);
}

/* Whether timers can sample this process at all. */
static bool is_possible(struct writer *w)
{
	int err;

	if (self.settings.perf && !shares_namespace()) {
		write_off(w, capability_state_unavailable,
			  "the process is in another pid namespace; perf events sample it");
		return false;
	}
	err = cpu_threads_check();
	if (err < 0) {
		write_unavailable(w, "timer_create", err);
		return false;
	}
	if (cpu_handler_install() == CPU_HANDLER_FOREIGN) {
		write_off(w, capability_state_unavailable, "the program handles SIGURG itself");
		return false;
	}
	return true;
}

static void open_window(struct writer *w)
{
	bool whole = self.settings.preload && self.settings.delay_ns == 0;
	uint64_t before_ns = UINT64_MAX;
	int err;

	stack_capture_update(0); /* searches for a Python, which may be unsupported */
	limit_rate();
	self.samples = self.sampled_periods = self.sampled_ns = self.unseen_ns = 0;
	if (!is_possible(w))
		return;
	/* If perf events sample too, the time before belongs to them. */
	if (!self.settings.perf && whole)
		before_ns = loaded_cpu_ns;
	self.process_cpu_ns =
		before_ns == UINT64_MAX ? clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) : before_ns;
	self.own_cpu_ns = before_ns == UINT64_MAX ? helper_threads_cpu_ns() : 0;
	self.opened_ns = self.cost_since_ns = clock_monotonic_ns();
	write_span(w, false);
	cpu_handler_enable(true);
	err = cpu_threads_start(self.period_ns, before_ns, append_unseen, w);
	if (err < 0) {
		cpu_handler_enable(false);
		write_span(w, true);
		write_unavailable(w, "no thread can be sampled", err);
		return;
	}
	self.on = true;
	write_rate(w);
}

static void end(struct writer *w, const char *left)
{
	bool waited = self.waiting;

	self.waiting = false;
	if (waited && *stack_capture_python_reason())
		write_off(w, capability_state_unavailable, stack_capture_python_reason());
	if (!self.on)
		return;
	self.on = false;
	cpu_handler_enable(false);
	drain(w);
	cpu_threads_stop(append_unseen, w);
	drain(w);
	write_result(w, left);
}

/* Follows a change of the rate that the sessions request together. */
static void change_rate(uint64_t cpu, struct writer *w)
{
	if (self.settings.cpu == cpu)
		return;
	self.settings.cpu = cpu;
	limit_rate();
	if (!self.on)
		return;
	cpu_threads_set_period(self.period_ns);
	write_rate(w);
}

/*
 * The session that starts the sampling decides whether perf events sample the process too, and from
 * when on CPU time counts.
 */
static void window(const struct settings *settings, struct writer *w)
{
	if (!settings || !settings->cpu) {
		end(w, "");
	} else if (self.on || self.waiting) {
		change_rate(settings->cpu, w);
	} else {
		self.settings = *settings;
		limit_rate();
		self.waiting = settings->perf != 0;
		if (!self.waiting)
			open_window(w);
	}
}

/* Returns 0, because the constant flow of samples must not raise the collector's pace. */
static uint64_t collect(struct writer *w, uint64_t now_ns)
{
	if (self.waiting && stack_capture_python_version()) {
		self.waiting = false;
		open_window(w);
	}
	if (!self.on)
		return 0;
	self.last_drained = drain(w);
	switch (cpu_handler_install()) {
	case CPU_HANDLER_FOREIGN:
		end(w, "since then the program handles SIGURG itself; ");
		return 0;
	case CPU_HANDLER_NEW:
		cpu_threads_rearm();
		break;
	case CPU_HANDLER_OURS:
		break;
	}
	cpu_threads_scan(now_ns, append_unseen, w);
	return 0;
}

static void write_cost(struct writer *w, const struct sums *sum, uint64_t now_ns)
{
	uint64_t ns = sum->handler_ns + sum->samples * DELIVERY_NS;

	rows_cost(w, cost_kind_timer_sample, self.cost_since_ns, now_ns,
		  sum->samples - self.cost_reported, ns - self.cost_ns_reported);
	self.cost_reported = sum->samples;
	self.cost_ns_reported = ns;
	self.cost_since_ns = now_ns;
}

static const char *const no_stack_texts[CPU_NO_STACK_KINDS] = {
	[CPU_NO_STACK_SMALL] = "stacks of CPU samples: no room on the signal handler's stack",
	[CPU_NO_STACK_FULL] = "stacks of CPU samples of a thread whose ring was full",
	[CPU_NO_STACK_NONE] = "stacks of CPU samples before unwinding was possible",
};

static void forget_names(void)
{
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		s->named = false;
}

static void periodic(struct writer *w, uint64_t since_ns, uint64_t now_ns)
{
	struct sums sum;
	struct cpu_threads_counts threads;

	if (!self.settings.cpu)
		return;
	if (now_ns - self.forgot_names_ns >= REREAD_NAMES_NS) {
		self.forgot_names_ns = now_ns;
		forget_names();
	}
	sum = sum_slots();
	cpu_threads_counts(&threads);
	for (unsigned k = 0; k < CPU_NO_STACK_KINDS; k++)
		rows_loss_more(w, loss_reason_samples_dropped, sum.no_stack[k],
			       &self.no_stack_reported[k], since_ns, now_ns, no_stack_texts[k]);
	if (!self.settings.perf)
		rows_loss_more(w, loss_reason_thread_limit, threads.refused, &self.refused_reported,
			       since_ns, now_ns,
			       "threads without CPU samples: no timer, or beyond the limit");
	if (!self.on || now_ns - self.cost_since_ns >= NS_PER_S)
		write_cost(w, &sum, now_ns);
}

static uint64_t wait_ns(uint64_t now_ns)
{
	(void)now_ns;
	if (!self.on)
		return UINT64_MAX;
	return MIN(self.last_drained ? BUSY_WAIT_NS : QUIET_WAIT_NS, cpu_threads_wait_ns());
}

static void stop(struct writer *w)
{
	end(w, "");
}

static void after_fork(void)
{
	cpu_handler_enable(false);
	cpu_threads_after_fork();
	loaded_cpu_ns = 0;
	memset(&self, 0, sizeof(self));
}

static bool should_record_child(const struct settings *settings)
{
	/* Beside perf events the timers are needed only if there is a Python. */
	return settings->cpu && (!settings->perf || stack_capture_python_version());
}

const struct source cpu_timer_source = {
	.name = "cpu",
	.loaded = loaded,
	.begin = begin,
	.window = window,
	.collect = collect,
	.periodic = periodic,
	.wait_ns = wait_ns,
	.stop = stop,
	.after_fork = after_fork,
	.should_record_child = should_record_child,
};
