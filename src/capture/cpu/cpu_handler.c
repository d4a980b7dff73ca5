#include "capture/cpu/cpu_handler.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <ucontext.h>

#include "base/clock.h"
#include "base/safe_memory.h"

#define MAGIC UINT64_C(0x50740000) /* high half of a value, unlikely in other timers' values */
/* Stack that a walk may need where the handler runs; the same with Python frames. */
#define ROOM_BYTES 4096u
#define ROOM_PYTHON_BYTES 6144u
/* More periods at once do not describe what runs now: the signal was blocked for a while. */
#define PERIODS_MAX 4u
#define PERIODS_MAX_NS (100 * NS_PER_MS)

static _Atomic(struct cpu_slot *) slots[CPU_SLOTS_MAX];
_Static_assert(STACK_WALKERS_MAX >= RINGS_MAX + CPU_SLOTS_MAX, "each has its slot");
static atomic_bool enabled;

/* --- the interrupted thread --- */

/* Alternate stacks and coroutines' stacks are small, and other stacks can be nearly used up. */
static bool has_room(const ucontext_t *context)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t alternate = (uintptr_t)context->uc_stack.ss_sp;
	unsigned room = stack_capture_codes() ? ROOM_PYTHON_BYTES : ROOM_BYTES;

	if (!(context->uc_stack.ss_flags & SS_DISABLE) &&
	    here - alternate < context->uc_stack.ss_size)
		return here - alternate >= room;
	return memory_readable((here - room) & ~(uintptr_t)7);
}

/* --- the ring --- */

static uint64_t free_words(const struct cpu_slot *s)
{
	return CPU_SLOT_WORDS - (atomic_load_explicit(&s->head, memory_order_relaxed) -
				 atomic_load_explicit(&s->tail, memory_order_acquire));
}

/* Wakes the collector when the ring becomes half full: its next tick may be too late. */
static void push_record(struct cpu_slot *s, const struct cpu_record *record)
{
	uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	uint64_t words[CPU_RECORD_WORDS];
	bool had_plenty = free_words(s) > CPU_SLOT_WORDS / 2;

	if (free_words(s) == CPU_SLOT_WORDS)
		s->first_word = head;
	memcpy(words, record, sizeof(words));
	for (unsigned i = 0; i < CPU_RECORD_WORDS; i++)
		*cpu_slot_word(s, head++) = words[i];
	for (unsigned i = 0; i < record->count; i++)
		*cpu_slot_word(s, head++) = s->frames[i];
	atomic_store_explicit(&s->head, head, memory_order_release);
	if (had_plenty && free_words(s) <= CPU_SLOT_WORDS / 2)
		collector_wake();
}

/* --- the sample --- */

static unsigned walk_stack(struct cpu_slot *s, const ucontext_t *context, uint32_t *end)
{
	struct stack_registers registers;
	enum stack_end how = stack_end_partial;
	unsigned n;

	if (!has_room(context)) {
		counter_add(&s->no_stack[CPU_NO_STACK_SMALL], 1);
		return 0;
	}
	if (free_words(s) < CPU_RECORD_WORDS + STACK_FRAMES_MAX) {
		counter_add(&s->no_stack[CPU_NO_STACK_FULL], 1);
		return 0;
	}
	stack_registers_interrupted(context, &registers);
	n = stack_capture_sample(&s->stacks, &registers, s->frames, &how);
	if (n == 0)
		counter_add(&s->no_stack[CPU_NO_STACK_NONE], 1);
	*end = (uint32_t)how;
	return n;
}

static void record_sample(struct cpu_slot *s, const ucontext_t *context)
{
	uint64_t clock = clock_read_ns(CLOCK_THREAD_CPUTIME_ID), most, periods;
	struct cpu_record record = { .time_ns = clock_monotonic_ns(),
				     .period_ns = s->period_ns,
				     .tid = s->tid,
				     .cpu = (uint32_t)sched_getcpu() };

	/* Without room the periods are left to the next sample. */
	if (free_words(s) < CPU_RECORD_WORDS) {
		counter_add(&s->no_stack[CPU_NO_STACK_FULL], 1);
		return;
	}
	periods = cpu_slot_reserve(s, cpu_slot_due(s, clock));
	if (periods == 0)
		return;
	record.count = walk_stack(s, context, &record.end);
	most = record.count ? MAX(PERIODS_MAX, PERIODS_MAX_NS / s->period_ns) : 0;
	record.with_stack = (uint32_t)MIN(periods, most);
	record.without_stack = (uint32_t)MIN(periods - record.with_stack, UINT32_MAX);
	push_record(s, &record);
	counter_add(&s->samples, 1);
	counter_add(&s->handler_ns, clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - clock);
}

static void on_timer(int number, siginfo_t *info, void *context)
{
	uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
	struct cpu_slot *slot;
	int saved = errno;

	(void)number;
	if (info->si_code != SI_TIMER || !atomic_load_explicit(&enabled, memory_order_acquire))
		return;
	slot = cpu_handler_slot((unsigned)(value & (CPU_SLOTS_MAX - 1)));
	if (!slot)
		return;
	atomic_store(&slot->busy, true);
	if (value == (uintptr_t)cpu_handler_value(slot, atomic_load(&slot->generation)).sival_ptr)
		record_sample(slot, context);
	atomic_store(&slot->busy, false);
	errno = saved;
}

/* --- the collector's side --- */

enum cpu_handler_state cpu_handler_install(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	struct sigaction act;

	if (sigaction(CPU_SIGNAL, NULL, &act) < 0)
		return CPU_HANDLER_FOREIGN;
	if ((act.sa_flags & SA_SIGINFO) && act.sa_sigaction == on_timer)
		return CPU_HANDLER_OURS;
	if ((act.sa_flags & SA_SIGINFO) || (act.sa_handler != SIG_DFL && act.sa_handler != SIG_IGN))
		return CPU_HANDLER_FOREIGN;
	act = (struct sigaction){ .sa_sigaction = on_timer,
				  .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	/* Nothing may interrupt the handler, so that nothing leaves it by longjmp. */
	sigfillset(&act.sa_mask);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(&act.sa_mask, faults[i]);
	return sigaction(CPU_SIGNAL, &act, NULL) == 0 ? CPU_HANDLER_NEW : CPU_HANDLER_FOREIGN;
}

void cpu_handler_enable(bool on)
{
	atomic_store(&enabled, on);
}

void cpu_handler_add(struct cpu_slot *slot)
{
	atomic_store_explicit(&slots[slot->index], slot, memory_order_release);
}

struct cpu_slot *cpu_handler_slot(unsigned index)
{
	return atomic_load_explicit(&slots[index], memory_order_acquire);
}

union sigval cpu_handler_value(const struct cpu_slot *slot, unsigned generation)
{
	uint64_t value = MAGIC << 32 | (uint64_t)(generation & 0x3fffff) << 10 | slot->index;

	return (union sigval){ .sival_ptr = (void *)(uintptr_t)value };
}
