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
		.a = atomic_load_explicit(&r->range_ns, memory_order_relaxed),
		.b = atomic_load_explicit(&a->sum, memory_order_relaxed),
		.c = counter,
		.d = (uint32_t)count,
		.e = (uint32_t)(count >> 32),
		.flags = mixed,
	};
	bool pushed = ring_push(r, &event, 1);

	if (unlikely(mixed == pushed))
		atomic_store_explicit(&a->mixed, !pushed, memory_order_release);
	if (unlikely(!pushed))
		additions_mark(r, counter);
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
	uint64_t sum, count;
	bool mixed;
};

/* A count is read before its sum, and added after it: then the sum has all that was counted. */
static struct sums read_sums(const struct ring_addition *a)
{
	struct sums s = { .count = atomic_load_explicit(&a->count, memory_order_acquire) };

	s.sum = atomic_load_explicit(&a->sum, memory_order_acquire);
	s.mixed = atomic_load_explicit(&a->mixed, memory_order_acquire);
	return s;
}

struct reader {
	struct writer *w;
	additions_write *write;
	uint64_t now_ns;
};

static void pass_on(const struct reader *to, struct ring_addition *a, uint32_t counter,
		    uint32_t tid, uint64_t time_ns, const struct sums *s)
{
	if (s->count == a->seen_count)
		return;
	to->write(to->w, counter, s->mixed ? 0 : tid, time_ns, (int64_t)(s->sum - a->seen_sum),
		  s->count - a->seen_count);
	a->seen_sum = s->sum;
	a->seen_count = s->count;
}

void additions_event(struct writer *w, const struct ring *r, uint64_t position,
		     additions_write *write)
{
	const struct ring_event *event = ring_slot(r, position);
	struct reader to = { .w = w, .write = write };
	struct sums s = { .sum = event->b,
			  .count = event->d | (uint64_t)event->e << 32,
			  .mixed = event->flags };

	pass_on(&to, &r->additions[event->c], event->c, r->tid, MAX(event->a, r->added_ns), &s);
}

/*
 * Whether the thread has put no sums into its ring since the last ones that have become rows: the
 * range has not changed since what was read before this call.
 */
static bool is_same_range(const struct ring *r)
{
	return atomic_load_explicit(&r->added_head, memory_order_acquire) <=
	       atomic_load_explicit(&r->tail, memory_order_relaxed);
}

static bool read_counter(const struct reader *to, struct ring *r, uint32_t counter)
{
	struct ring_addition *a = &r->additions[counter];
	struct sums s = read_sums(a);
	uint64_t range_ns = atomic_load_explicit(&r->range_ns, memory_order_acquire);

	if (!is_same_range(r))
		return false;
	pass_on(to, a, counter, r->tid, MAX(range_ns, r->added_ns), &s);
	return true;
}

/* Returns false if the thread has put sums into the ring that must become rows first. */
static bool read_ring(const struct reader *to, struct ring *r)
{
	bool dead = atomic_load_explicit(&r->state, memory_order_acquire) == RING_DEAD;
	uint64_t words = atomic_load_explicit(&r->added_words, memory_order_acquire);

	if (!is_same_range(r))
		return false;
	r->added_ns = to->now_ns;
	for (; words; words &= words - 1) {
		uint32_t word = (uint32_t)__builtin_ctzll(words);
		uint64_t bits = atomic_load_explicit(&r->added[word], memory_order_acquire);

		for (uint64_t left = bits; left; left &= left - 1)
			if (!read_counter(to, r, word * 64 + (uint32_t)__builtin_ctzll(left)))
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
	struct reader to = { w, write, now_ns - MIN(now_ns, MARGIN_NS) };
	uint64_t again = 0;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		if (atomic_load_explicit(&r->state, memory_order_acquire) != RING_FREE)
			again += !read_ring(&to, r);
	for (uint32_t i = 0; i < counters; i++) {
		struct sums s = read_sums(&shared[i]);

		pass_on(&to, &shared[i], i, 0, now_ns, &s);
	}
	return again;
}

void additions_forget(uint32_t counters, additions_write *write)
{
	struct reader to = { .write = write };
	uint64_t now_ns = clock_monotonic_ns();
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		/* A thread may be claiming the ring. */
		struct ring_addition *a = __atomic_load_n(&r->additions, __ATOMIC_ACQUIRE);

		r->added_ns = now_ns;
		for (uint32_t c = 0; a && c < counters; c++) {
			struct sums s = read_sums(&a[c]);

			pass_on(&to, &a[c], c, 0, 0, &s);
		}
	}
}
