/*
 * cpu_slot.h: a sampled thread's timer, walker, and ring from its signal handler to the collector.
 *
 * The collector prepares slots before it arms their timers, so that the handler allocates nothing.
 * A slot's memory is never freed: a late signal always finds a slot, and the generation tells it
 * whether the slot is still its own.
 *
 * Time is counted in periods of the thread's CPU clock since the timer was armed: `due` is the
 * number that has passed at a reading, `counted` the number that samples account for. Whoever
 * raises `counted` (the handler with a stack, or the collector for time that no handler will see)
 * owns the periods in between, so that weights add up and nothing is counted twice.
 *
 * The period changes only while no handler is running on the slot. The collector first advances the
 * timer's generation and then reads `busy`; the handler first sets `busy` and then reads the
 * generation: at least one of the two sees the other's store.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_SLOT_H
#define PITOT_CAPTURE_CPU_CPU_SLOT_H

#include <stdatomic.h>

#include "capture/stack/stack_capture.h"

#define CPU_SLOTS_MAX 1024u
#define CPU_SLOT_WORDS (1u << 17) /* of a slot's ring; a power of two */
#define CPU_RECORD_WORDS 5u /* of a record, excluding the frames that follow */

/* Why a sample has no stack. */
enum cpu_no_stack {
	CPU_NO_STACK_SMALL, /* no room on the stack that the handler runs on */
	CPU_NO_STACK_FULL, /* the ring was full */
	CPU_NO_STACK_NONE, /* no walker, or no map of the modules yet */
	CPU_NO_STACK_KINDS
};

/* A sample in the ring: the periods that get the stack, and earlier ones that passed unseen. */
struct cpu_record {
	uint64_t time_ns;
	uint64_t period_ns;
	uint32_t with_stack, without_stack;
	uint32_t cpu, tid;
	uint32_t count; /* frames */
	uint32_t end; /* enum stack_end */
};
_Static_assert(sizeof(struct cpu_record) == 8 * CPU_RECORD_WORDS, "whole words");

struct cpu_slot {
	/* written by the collector, and constant while a timer is armed */
	uint32_t index;
	uint32_t tid; /* 0: free */
	uint64_t period_ns, first_ns; /* the thread's CPU clock at the end of the first period */
	atomic_uint generation; /* of the timer; 0: none */
	atomic_bool busy; /* a handler is running */
	int timer; /* the operating system's id */
	/* used by the collector only */
	bool armed, blocked, named;
	bool refused; /* the operating system refused a timer */
	bool seen; /* in the current scan */
	uint64_t clock_ns; /* the thread's CPU clock at its last reading */
	uint64_t mask_next_ns; /* when the thread's signal mask is read again */
	uint64_t mask_wait_ns; /* between the last two readings of the mask */
	atomic_uint_fast64_t tail;
	/* written by both */
	_Alignas(64) atomic_uint_fast64_t counted;
	/* written by the handler */
	atomic_uint_fast64_t head;
	atomic_uint_fast64_t samples, no_stack[CPU_NO_STACK_KINDS], handler_ns;
	struct stack_sampler stacks;
	uint64_t frames[STACK_FRAMES_MAX];
	/*
	 * Position of words[0]: where the ring was last empty, so that only the pages that records
	 * needed at the same time are ever touched.
	 */
	uint64_t first_word;
	uint64_t words[CPU_SLOT_WORDS];
};

static inline uint64_t *cpu_slot_word(struct cpu_slot *s, uint64_t position)
{
	return &s->words[(position - s->first_word) % CPU_SLOT_WORDS];
}

/* Returns how many periods are over when the thread's CPU clock shows now_ns. */
static inline uint64_t cpu_slot_due(const struct cpu_slot *s, uint64_t now_ns)
{
	return now_ns < s->first_ns ? 0 : (now_ns - s->first_ns) / s->period_ns + 1;
}

/* Reserves the periods up to `due` that nobody has reserved; returns their number. */
static inline uint64_t cpu_slot_reserve(struct cpu_slot *s, uint64_t due)
{
	uint64_t counted = atomic_load_explicit(&s->counted, memory_order_relaxed);

	while (counted < due)
		if (atomic_compare_exchange_weak(&s->counted, &counted, due))
			return due - counted;
	return 0;
}

#endif
