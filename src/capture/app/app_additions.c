#include "capture/app/app_additions.h"

#include "capture/nvtx/nvtx_event.h"

/*
 * How much older than the clock a row can be that the collector makes of sums in a thread's memory:
 * much longer than the thread's next event takes from reading its clock to being visible.
 */
#define MARGIN_NS NS_PER_MS

/* of threads without a ring */
static struct ring_addition shared[RING_COUNTERS];

/* --- the program's threads --- */

void additions_begin(struct ring *r, uint32_t counter)
{
	struct ring_addition *a = &r->additions[counter];
	bool busy = nvtx_thread.busy; /* then a signal handler has interrupted a use of the clock */

	nvtx_thread.busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&a->since_ns, busy ? clock_monotonic_ns() : quick_clock_ns(&r->clock),
			      memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	nvtx_thread.busy = busy;
	counter_set_bits_here(&r->added[counter / 64], UINT64_C(1) << counter % 64);
	counter_set_bits_here(&r->added_words, UINT64_C(1) << counter / 64);
}

void additions_without_ring(uint32_t counter, int64_t by)
{
	atomic_fetch_add_explicit(&shared[counter].sum, (uint64_t)by, memory_order_relaxed);
	atomic_fetch_add_explicit(&shared[counter].count, 1, memory_order_release);
}

static void push_sum(struct ring *r, uint32_t counter)
{
	struct ring_addition *a = &r->additions[counter];
	uint64_t count = atomic_load_explicit(&a->count, memory_order_relaxed);
	bool mixed = atomic_load_explicit(&a->mixed, memory_order_relaxed);
	struct ring_event event = {
		.kind = RING_ADDITIONS,
		.a = atomic_load_explicit(&a->since_ns, memory_order_relaxed),
		.b = atomic_load_explicit(&a->sum, memory_order_relaxed),
		.c = counter,
		.d = (uint32_t)count,
		.e = (uint32_t)(count >> 32),
		.flags = mixed,
	};
	bool pushed = ring_push(r, &event, 1);

	if (unlikely(mixed == pushed))
		atomic_store_explicit(&a->mixed, !pushed, memory_order_release);
	if (unlikely(!pushed)) {
		counter_set_bits_here(&r->added[counter / 64], UINT64_C(1) << counter % 64);
		counter_set_bits_here(&r->added_words, UINT64_C(1) << counter / 64);
	}
}

/* Clears bits before it reads sums: what a signal handler adds meanwhile sets them again. */
void additions_push(struct ring *r)
{
	uint64_t words = atomic_load_explicit(&r->added_words, memory_order_relaxed);

	counter_keep_bits_here(&r->added_words, ~words);
	for (; words; words &= words - 1) {
		uint32_t word = (uint32_t)__builtin_ctzll(words);
		uint64_t bits = atomic_load_explicit(&r->added[word], memory_order_relaxed);

		counter_keep_bits_here(&r->added[word], ~bits);
		for (; bits; bits &= bits - 1)
			push_sum(r, word * 64 + (uint32_t)__builtin_ctzll(bits));
	}
	atomic_store_explicit(&r->added_head, atomic_load_explicit(&r->head, memory_order_relaxed),
			      memory_order_release);
}

/* --- the collector's thread --- */

struct sums {
	uint64_t sum, count, time_ns;
	bool mixed;
};

/* A count is read before its sum, and added after it: then the sum has all that was counted. */
static struct sums read_sums(const struct ring_addition *a)
{
	struct sums s = { .count = atomic_load_explicit(&a->count, memory_order_acquire) };

	s.sum = atomic_load_explicit(&a->sum, memory_order_acquire);
	s.time_ns = atomic_load_explicit(&a->since_ns, memory_order_relaxed);
	s.mixed = atomic_load_explicit(&a->mixed, memory_order_acquire);
	return s;
}

static void pass_on(struct writer *w, struct ring_addition *a, uint32_t counter, uint32_t tid,
		    const struct sums *s, additions_write *write)
{
	if (s->count == a->seen_count)
		return;
	a->seen_ns = MAX(a->seen_ns, s->time_ns);
	write(w, counter, s->mixed ? 0 : tid, a->seen_ns, (int64_t)(s->sum - a->seen_sum),
	      s->count - a->seen_count);
	a->seen_sum = s->sum;
	a->seen_count = s->count;
}

void additions_event(struct writer *w, const struct ring *r, uint64_t position,
		     additions_write *write)
{
	const struct ring_event *event = ring_slot(r, position);
	struct sums s = { .sum = event->b,
			  .count = event->d | (uint64_t)event->e << 32,
			  .time_ns = event->a,
			  .mixed = event->flags };

	pass_on(w, &r->additions[event->c], event->c, r->tid, &s, write);
}

/* Returns false if the thread has put sums into the ring that must become rows first. */
static bool read_counter(struct writer *w, struct ring *r, uint32_t counter, uint64_t now_ns,
			 additions_write *write)
{
	struct ring_addition *a = &r->additions[counter];
	struct sums s = read_sums(a);

	if (atomic_load_explicit(&r->added_head, memory_order_acquire) >
	    atomic_load_explicit(&r->tail, memory_order_relaxed))
		return false;
	s.time_ns = MAX(s.time_ns, now_ns > MARGIN_NS ? now_ns - MARGIN_NS : 0);
	pass_on(w, a, counter, r->tid, &s, write);
	return true;
}

static bool read_ring(struct writer *w, struct ring *r, uint64_t now_ns, additions_write *write)
{
	bool dead = atomic_load_explicit(&r->state, memory_order_acquire) == RING_DEAD;
	uint64_t words = atomic_load_explicit(&r->added_words, memory_order_acquire);

	for (; words; words &= words - 1) {
		uint32_t word = (uint32_t)__builtin_ctzll(words);
		uint64_t bits = atomic_load_explicit(&r->added[word], memory_order_acquire);

		for (uint64_t left = bits; left; left &= left - 1)
			if (!read_counter(w, r, word * 64 + (uint32_t)__builtin_ctzll(left), now_ns,
					  write))
				return false;
		if (dead)
			atomic_store(&r->added[word], 0);
	}
	if (dead)
		atomic_store(&r->added_words, 0);
	return true;
}

uint64_t additions_collect(struct writer *w, uint64_t now_ns, uint32_t counters,
			   additions_write *write)
{
	uint64_t again = 0;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		if (atomic_load_explicit(&r->state, memory_order_acquire) != RING_FREE)
			again += !read_ring(w, r, now_ns, write);
	for (uint32_t i = 0; i < counters; i++) {
		struct sums s = read_sums(&shared[i]);

		s.time_ns = now_ns;
		pass_on(w, &shared[i], i, 0, &s, write);
	}
	return again;
}

void additions_forget(uint32_t counters, additions_write *write)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		for (uint32_t c = 0; r->additions && c < counters; c++) {
			struct sums s = read_sums(&r->additions[c]);

			pass_on(NULL, &r->additions[c], c, 0, &s, write);
		}
}
