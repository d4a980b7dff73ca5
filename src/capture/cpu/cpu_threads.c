#include "capture/cpu/cpu_threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/io.h"
#include "base/reserve.h"
#include "capture/cpu/cpu_handler.h"

#define TASKS "/proc/self/task"
#define SCAN_MIN_NS (5 * NS_PER_MS) /* between scans of all threads, while new ones appear */
#define SCAN_MAX_NS (100 * NS_PER_MS) /* and while none do */
#define SCAN_COST 100u /* the pause after a scan is at least this many times its CPU time */
#define INDEX_SIZE (2 * CPU_SLOTS_MAX) /* a power of two */
#define MASK_MIN_NS (5 * NS_PER_MS)
#define MASK_MAX_NS NS_PER_S /* between readings of the mask of a thread that blocks the signal */
#define OVERDUE_PERIODS 8u /* without a sample, after which a thread's mask is read */
#define STATUS_BYTES 8192u

static struct {
	uint64_t period_ns, scanned_ns, random;
	uint64_t mask_next_ns; /* the earliest of the slots' */
	uint64_t scan_cost_ns, wait_ns;
	uint16_t index[INDEX_SIZE]; /* slots by thread: 1 + number; 0: free */
	uint32_t self; /* the collector's thread id */
	unsigned used; /* slots */
	uint32_t refused; /* in this scan */
	uint64_t before_ns; /* the main thread's uncounted CPU time; UINT64_MAX: all threads' */
	struct cpu_threads_counts counts;
} self;

struct cpu_slot *cpu_threads_slot(unsigned i)
{
	return i < self.used ? cpu_handler_slot(i) : NULL;
}

/* Returns the operating system's id of the CPU clock of a thread of this process. */
static clockid_t thread_clock(uint32_t tid)
{
	return (clockid_t)(~tid << 3 | 4 | 2);
}

/* Returns 0 if the thread has ended. */
static uint64_t thread_cpu_ns(uint32_t tid)
{
	struct timespec t;

	if (clock_gettime(thread_clock(tid), &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(void)
{
	uint64_t z = self.random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* --- a thread's signal mask --- */

static bool blocks_signal(uint32_t tid)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[64];
	const char *line;

	snprintf(path, sizeof(path), TASKS "/%u/status", tid);
	if (io_read_file(path, STATUS_BYTES, &text) < 0)
		return false;
	line = strstr(strbuf_text(&text), "\nSigBlk:");
	return line && (strtoull(line + 8, NULL, 16) >> (CPU_SIGNAL - 1) & 1);
}

/* --- timers --- */

static int create_timer(struct cpu_slot *s)
{
	unsigned generation = (atomic_load(&s->generation) + 1) & 0x3fffff;
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = CPU_SIGNAL };

	event.sigev_value = cpu_handler_value(s, generation);
	event._sigev_un._tid = (pid_t)s->tid;
	if (syscall(SYS_timer_create, thread_clock(s->tid), &event, &s->timer) < 0)
		return -errno;
	atomic_store(&s->generation, generation);
	s->armed = true;
	return 0;
}

static void disarm(struct cpu_slot *s)
{
	if (s->armed)
		syscall(SYS_timer_delete, s->timer);
	s->armed = false;
	atomic_fetch_add(&s->generation, 1); /* makes late signals those of an old generation */
}

static int start_timer(struct cpu_slot *s, uint64_t offset_ns)
{
	struct itimerspec times = {
		.it_interval = { (time_t)(s->period_ns / NS_PER_S),
				 (long)(s->period_ns % NS_PER_S) },
		.it_value = { (time_t)(offset_ns / NS_PER_S), (long)(offset_ns % NS_PER_S) },
	};
	int err = 0;

	/*
	 * Relative, so never in the past: a timer that expires immediately would wake a sleeping
	 * thread.
	 */
	if (syscall(SYS_timer_settime, s->timer, 0, &times, NULL) < 0) {
		err = -errno;
		disarm(s);
	}
	return err;
}

static void schedule_mask_read(struct cpu_slot *s)
{
	s->mask_wait_ns = MIN(MAX(2 * s->mask_wait_ns, MASK_MIN_NS), MASK_MAX_NS);
	s->mask_next_ns = clock_monotonic_ns() + s->mask_wait_ns;
}

/*
 * Starts counting the thread's periods. Returns when the first one ends: after a random part of a
 * period.
 */
static uint64_t start_counting(struct cpu_slot *s)
{
	uint64_t offset = 1 + next_random() % s->period_ns;

	s->clock_ns = thread_cpu_ns(s->tid);
	s->first_ns = s->clock_ns + offset;
	atomic_store(&s->counted, 0);
	return offset;
}

static int arm(struct cpu_slot *s, uint64_t offset)
{
	int err = create_timer(s);

	if (err >= 0)
		err = start_timer(s, offset);
	s->refused = err < 0;
	return err;
}

/*
 * A thread that is refused a timer (by RLIMIT_SIGPENDING, for example) keeps its slot, so that its
 * CPU time is counted.
 */
static void begin(struct cpu_slot *s)
{
	uint64_t offset = start_counting(s);

	/* New threads block all signals until they start to run. */
	s->mask_wait_ns = 0;
	if (blocks_signal(s->tid) || arm(s, offset) < 0)
		schedule_mask_read(s);
}

/*
 * Sets the timer to the end of the current period. The timer is reused, because the operating
 * system may refuse a new one by now.
 */
static void rearm(struct cpu_slot *s)
{
	uint64_t clock = thread_cpu_ns(s->tid), left = s->first_ns - clock;

	if (clock >= s->first_ns)
		left = s->period_ns - (clock - s->first_ns) % s->period_ns;
	if (s->armed)
		s->refused = start_timer(s, left) < 0;
	else
		arm(s, left);
}

/* Changes the thread's period: now, or at the next scan if its handler is running. */
static void change_period(struct cpu_slot *s, cpu_unseen *unseen, void *context)
{
	uint64_t periods;

	if (s->armed)
		disarm(s);
	if (atomic_load(&s->busy))
		return;
	periods = cpu_slot_reserve(s, cpu_slot_due(s, thread_cpu_ns(s->tid)));
	if (periods)
		unseen(context, s, periods);
	s->period_ns = self.period_ns;
	begin(s);
}

/* Handles a thread without recent samples: it blocks the signal, or its timer has stopped. */
static void check_mask(struct cpu_slot *s, uint64_t now_ns)
{
	if (now_ns < s->mask_next_ns)
		return;
	if (!blocks_signal(s->tid)) {
		/*
		 * Rarely, because a timer that has expired, and waits for a tick to hit the thread,
		 * starts over.
		 */
		rearm(s);
		s->mask_next_ns = now_ns + MASK_MAX_NS;
		return;
	}
	if (s->armed)
		disarm(s);
	schedule_mask_read(s);
}

/* --- threads --- */

static struct cpu_slot *new_slot(unsigned index)
{
	struct cpu_slot *s = reserve_memory(sizeof(*s));

	if (!s)
		return NULL;
	s->index = index;
	cpu_handler_add(s);
	return s;
}

static struct cpu_slot *free_slot(void)
{
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		if (!s->tid && atomic_load(&s->head) == atomic_load(&s->tail))
			return s;
	if (self.used == CPU_SLOTS_MAX)
		return NULL;
	s = cpu_handler_slot(self.used);
	if (!s)
		s = new_slot(self.used);
	self.used += s != NULL;
	return s;
}

/* Returns the thread's place in the index, or the free place where it belongs. */
static uint16_t *index_of(uint32_t tid)
{
	uint32_t i = tid * 0x9e3779b1u;

	for (;; i++) {
		uint16_t *place = &self.index[i % INDEX_SIZE];

		if (*place == 0 || cpu_handler_slot(*place - 1u)->tid == tid)
			return place;
	}
}

static void make_index(void)
{
	struct cpu_slot *s;

	memset(self.index, 0, sizeof(self.index));
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		if (s->tid)
			*index_of(s->tid) = (uint16_t)(i + 1);
}

/* The list of threads may omit some while others end. */
static bool is_alive(const struct cpu_slot *s)
{
	uint64_t clock = thread_cpu_ns(s->tid);

	return clock && clock >= s->clock_ns;
}

/*
 * Frees a slot. Its handler must not be running: the thread has ended or blocks all signals, or the
 * slot is not busy.
 */
static void drop(struct cpu_slot *s)
{
	disarm(s);
	stack_sampler_reset(&s->stacks);
	s->tid = 0;
}

/*
 * Drops an ended thread. On a busy machine it may have used ten periods since its last signal: the
 * periods up to its last reading are counted.
 */
static void drop_ended(struct cpu_slot *s, cpu_unseen *unseen, void *context)
{
	uint64_t periods = cpu_slot_reserve(s, cpu_slot_due(s, s->clock_ns));

	if (periods)
		unseen(context, s, periods);
	drop(s);
}

/* Returns a new thread's past periods; rounded at random, so that short threads count correctly. */
static uint64_t past_periods(const struct cpu_slot *s)
{
	uint64_t before = s->tid == (uint32_t)getpid() ? self.before_ns : 0, passed = 0;

	if (self.before_ns != UINT64_MAX && s->clock_ns > before)
		passed = s->clock_ns - before;
	return (passed + next_random() % s->period_ns) / s->period_ns;
}

static void add(uint32_t tid, cpu_unseen *unseen, void *context)
{
	struct cpu_slot *s = free_slot();
	uint64_t before;

	if (!s) {
		self.refused++;
		return;
	}
	s->tid = tid;
	s->period_ns = self.period_ns;
	s->named = s->blocked = s->refused = false;
	s->seen = true;
	s->mask_next_ns = 0;
	begin(s);
	self.counts.threads++;
	before = past_periods(s);
	if (before)
		unseen(context, s, before);
}

/* Handles a live thread that a scan has found. */
static void on_live_thread(uint32_t tid, cpu_unseen *unseen, void *context)
{
	uint16_t place = *index_of(tid);
	uint64_t clock;

	if (place) {
		struct cpu_slot *s = cpu_handler_slot(place - 1u);

		clock = thread_cpu_ns(tid);
		if (clock >= s->clock_ns) {
			s->clock_ns = clock;
			s->seen = true;
			return;
		}
		drop_ended(s, unseen, context); /* the id was reused for a new thread */
	}
	add(tid, unseen, context);
}

/* Allocates nothing, and opens the descriptor only briefly. */
static void scan_threads(cpu_unseen *unseen, void *context)
{
	_Alignas(struct dirent64) char buffer[4096];
	int fd = io_above_standard(open(TASKS, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	long n;

	if (fd < 0) {
		on_live_thread((uint32_t)getpid(), unseen, context);
		return;
	}
	while ((n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
			uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);

			if (tid && tid != self.self && !helper_thread_is(tid))
				on_live_thread(tid, unseen, context);
			at += entry->d_reclen;
		}
	}
	close(fd);
}

/* Handles a thread without a timer, or one that should have had samples but has none. */
static void update_thread(struct cpu_slot *s, uint64_t now_ns, cpu_unseen *unseen, void *context)
{
	uint64_t due, counted, periods;

	if (s->period_ns != self.period_ns) {
		change_period(s, unseen, context);
		return;
	}
	due = cpu_slot_due(s, s->clock_ns);
	counted = atomic_load(&s->counted);
	periods = s->armed ? 0 : cpu_slot_reserve(s, due);
	if (periods) {
		unseen(context, s, periods);
		self.counts.blocked += !s->refused && !s->blocked;
		s->blocked |= !s->refused;
	}
	self.refused += s->refused;
	if (!s->armed || (due > counted && due - counted >= OVERDUE_PERIODS))
		check_mask(s, now_ns);
	if (!s->armed)
		self.mask_next_ns = MIN(self.mask_next_ns, s->mask_next_ns);
}

void cpu_threads_scan(uint64_t now_ns, cpu_unseen *unseen, void *context)
{
	uint64_t wait_ns = MAX(self.wait_ns, SCAN_COST * self.scan_cost_ns);
	uint32_t threads = self.counts.threads;
	uint64_t begun_ns;
	struct cpu_slot *s;

	if (now_ns < MIN(self.scanned_ns + wait_ns, self.mask_next_ns))
		return;
	/*
	 * Measured by our own CPU time: on a busy machine a scan may last a thousand times as long
	 * as its CPU time.
	 */
	begun_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	self.scanned_ns = now_ns;
	self.mask_next_ns = UINT64_MAX;
	self.refused = 0;
	make_index();
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		s->seen = false;
	scan_threads(unseen, context);
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++) {
		if (!s->tid)
			continue;
		/* A thread of ours may have been found before it registered as a helper. */
		if (helper_thread_is(s->tid))
			drop(s);
		else if (s->seen || is_alive(s))
			update_thread(s, now_ns, unseen, context);
		else
			drop_ended(s, unseen, context);
	}
	self.counts.refused = MAX(self.counts.refused, self.refused);
	self.scan_cost_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns;
	/* Where new threads have appeared, more will appear soon. */
	self.wait_ns =
		self.counts.threads != threads ? SCAN_MIN_NS : MIN(2 * self.wait_ns, SCAN_MAX_NS);
}

uint64_t cpu_threads_wait_ns(void)
{
	return self.wait_ns;
}

int cpu_threads_check(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_NONE };
	int timer;

	if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer) < 0)
		return -errno;
	syscall(SYS_timer_delete, timer);
	return 0;
}

int cpu_threads_start(uint64_t period_ns, uint64_t before_ns, cpu_unseen *unseen, void *context)
{
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		if (s->tid && !atomic_load(&s->busy)) /* left over from the last start */
			drop(s);
	self.period_ns = period_ns;
	self.self = (uint32_t)syscall(SYS_gettid);
	self.random = clock_monotonic_ns() ^ (uint64_t)self.self << 32;
	self.scanned_ns = self.wait_ns = self.scan_cost_ns = 0;
	self.counts = (struct cpu_threads_counts){ 0 };
	self.before_ns = before_ns;
	cpu_threads_scan(clock_monotonic_ns(), unseen, context);
	self.before_ns = 0;
	return self.counts.threads ? 0 : -ENOMEM;
}

void cpu_threads_set_period(uint64_t period_ns)
{
	self.period_ns = period_ns;
	self.mask_next_ns = 0; /* makes the next scan due */
}

void cpu_threads_rearm(void)
{
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		if (s->tid && s->armed)
			rearm(s);
}

void cpu_threads_stop(cpu_unseen *unseen, void *context)
{
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		if (s->tid)
			disarm(s);
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++) {
		uint64_t clock = s->tid ? MAX(thread_cpu_ns(s->tid), s->clock_ns) : 0;
		uint64_t periods = clock ? cpu_slot_reserve(s, cpu_slot_due(s, clock)) : 0;

		if (periods)
			unseen(context, s, periods);
	}
}

void cpu_threads_counts(struct cpu_threads_counts *counts)
{
	*counts = self.counts;
}

void cpu_threads_after_fork(void)
{
	struct cpu_slot *s;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++) {
		s->tid = 0;
		s->armed = false;
		atomic_fetch_add(&s->generation, 1);
		atomic_store(&s->busy, false);
		s->stacks.ready = false;
		atomic_store(&s->tail, atomic_load(&s->head));
		atomic_store(&s->samples, 0);
		atomic_store(&s->handler_ns, 0);
		for (unsigned k = 0; k < CPU_NO_STACK_KINDS; k++)
			atomic_store(&s->no_stack[k], 0);
	}
	self.used = 0;
}
