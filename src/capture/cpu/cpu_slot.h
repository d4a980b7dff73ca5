/*
 * cpu_slot.h: what a thread that is sampled has: a timer, a walker, and a ring from its signal
 * handler to the collector.
 *
 * The collector makes slots ready before it arms their timers, so that the handler allocates
 * nothing. A slot's memory stays where it is: a late signal finds a slot, and by the generation
 * whether it still is its own.
 *
 * Time is counted in periods of the thread's CPU clock since the timer was armed: `due` at a
 * reading is what has passed, `counted` what has a sample. Whoever raises `counted` (the handler
 * with a stack, the collector for time that no handler will see) owns the periods in between, so
 * that weights add up and nothing is counted twice.
 *
 * The period changes only while no handler is at work on the slot. The collector makes the timer's
 * generation an old one and then reads `busy`; the handler sets `busy` and then reads the
 * generation: one of the two sees the other.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_SLOT_H
#define PITOT_CAPTURE_CPU_CPU_SLOT_H

#include <stdatomic.h>

#include "capture/stack_capture.h"

#define CPU_SLOTS_MAX 1024u
#define CPU_SLOT_WORDS 16384u /* of a slot's ring; a power of two */
#define CPU_RECORD_WORDS 5u /* of a record; its frames follow */

/* Why a sample has no stack. */
enum cpu_no_stack {
	CPU_NO_STACK_SMALL, /* no room on the stack that the handler runs on */
	CPU_NO_STACK_FULL, /* the ring was full */
	CPU_NO_STACK_NONE, /* no walker, no map of the modules yet */
	CPU_NO_STACK_KINDS
};

/* A sample in the ring: how many periods with the stack, how many that passed unseen before. */
struct cpu_record {
	uint64_t time_ns;
	uint64_t period_ns;
	uint32_t with, without;
	uint32_t cpu, tid;
	uint32_t count; /* frames */
	uint32_t end; /* enum stack_end */
};
_Static_assert(sizeof(struct cpu_record) == 8 * CPU_RECORD_WORDS, "whole words");

struct cpu_slot {
	/* the collector's, and constant while a timer is armed */
	uint32_t index;
	uint32_t tid; /* 0: free */
	uint64_t period_ns, first_ns; /* thread's CPU clock when the first period is over */
	atomic_uint generation; /* of the timer; 0: none */
	atomic_bool busy; /* the handler's */
	int timer; /* the kernel's id */
	/* the collector's alone */
	bool armed, blocked, named;
	bool refused; /* the kernel gave it no timer */
	bool seen; /* in the present scan */
	uint64_t clock_ns; /* the thread's CPU clock when it was last read */
	uint64_t mask_next_ns; /* when its signal mask is read again */
	uint64_t mask_wait_ns; /* from one time to the next */
	atomic_uint_fast64_t tail;
	/* shared */
	_Alignas(64) atomic_uint_fast64_t counted;
	/* the handler's */
	atomic_uint_fast64_t head;
	atomic_uint_fast64_t samples, no_stack[CPU_NO_STACK_KINDS], ends[STACK_ENDS], handler_ns;
	struct stack_sampler stacks;
	uint64_t frames[STACK_FRAMES_MAX];
	uint64_t words[CPU_SLOT_WORDS];
};

/* Periods that are over when the thread's CPU clock says now_ns. */
static inline uint64_t cpu_slot_due(const struct cpu_slot *s, uint64_t now_ns)
{
	return now_ns < s->first_ns ? 0 : (now_ns - s->first_ns) / s->period_ns + 1;
}

/* The periods up to `due` that nobody has had. */
static inline uint64_t cpu_slot_claim(struct cpu_slot *s, uint64_t due)
{
	uint64_t counted = atomic_load_explicit(&s->counted, memory_order_relaxed);

	while (counted < due)
		if (atomic_compare_exchange_weak(&s->counted, &counted, due))
			return due - counted;
	return 0;
}

#endif
