#include "stack/intern.h"

#include <errno.h>

#include "base/reserve.h"

#define ID_BITS 24
#define ID_MASK ((UINT64_C(1) << ID_BITS) - 1)
#define LANES 4
#define CAPACITY_MIN 64u
#define LIMIT_MAX (STACK_TABLE_IDS / 4 * 3)
#define IDS_SPARE 1024u /* for threads that assign a number at the same time */

static size_t word_bytes(const struct stack_interner *in)
{
	return in->capacity * sizeof(*in->words);
}

int stack_interner_init(struct stack_interner *in, uint32_t limit, uint32_t first)
{
	*in = (struct stack_interner){ .capacity = CAPACITY_MIN,
				       .limit = MIN(limit, LIMIT_MAX),
				       .first = first };
	while (in->capacity / 4 * 3 < in->limit)
		in->capacity *= 2;
	in->words = reserve_memory(word_bytes(in));
	return in->words ? 0 : -ENOMEM;
}

void stack_interner_release(struct stack_interner *in)
{
	if (in->words)
		munmap((void *)in->words, word_bytes(in));
	in->words = NULL;
	in->capacity = 0;
}

void stack_interner_forget(struct stack_interner *in)
{
	atomic_store(&in->count, in->limit);
	madvise((void *)in->words, word_bytes(in), MADV_DONTNEED);
}

bool stack_interner_nearly_full(const struct stack_interner *in)
{
	uint64_t count = atomic_load_explicit(&in->count, memory_order_relaxed);

	return 4 * count >= 3 * (uint64_t)in->limit ||
	       atomic_load_explicit(&in->next, memory_order_relaxed) >= STACK_TABLE_IDS / 4 * 3;
}

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

static uint64_t stack_hash(const uint64_t *frames, unsigned count, enum stack_end end)
{
	/* Independent lanes: the latency of one multiplication exceeds what a frame may cost. */
	uint64_t lanes[LANES] = { count, end, 2, 3 };
	unsigned i = 0;

	for (; i + LANES <= count; i += LANES)
		for (unsigned j = 0; j < LANES; j++)
			lanes[j] = mix(lanes[j], frames[i + j]);
	for (; i < count; i++)
		lanes[0] = mix(lanes[0], frames[i]);
	return mix(mix(mix(lanes[0], lanes[1]), lanes[2]), lanes[3]);
}

/* Hands a new stack to the collector. Returns its number, or 0 when it is refused. */
static uint32_t hand_over(struct stack_interner *in, const uint64_t *frames, unsigned count,
			  enum stack_end end, stack_take *take, void *context)
{
	uint32_t id;

	if (atomic_load_explicit(&in->count, memory_order_relaxed) >= in->limit ||
	    atomic_load_explicit(&in->next, memory_order_relaxed) >= STACK_TABLE_IDS - IDS_SPARE) {
		atomic_fetch_add_explicit(&in->refused, 1, memory_order_relaxed);
		return 0;
	}
	id = atomic_fetch_add_explicit(&in->next, 1, memory_order_relaxed) + 1;
	return take(context, in->first + id, frames, count, end) ? id : 0;
}

uint32_t stack_intern(struct stack_interner *in, const uint64_t *frames, unsigned count,
		      enum stack_end end, stack_take *take, void *context)
{
	uint64_t hash = stack_hash(frames, count, end), tag = hash & ~ID_MASK, word;
	uint32_t mask = in->capacity - 1, id = 0;

	/*
	 * Ends because the table is never full. The low bits of the hash are not part of the tag.
	 */
	for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
		word = atomic_load_explicit(&in->words[i], memory_order_relaxed);
		if (word == 0) {
			if (!id && !(id = hand_over(in, frames, count, end, take, context)))
				return 0;
			if (atomic_compare_exchange_strong_explicit(&in->words[i], &word, tag | id,
								    memory_order_relaxed,
								    memory_order_relaxed)) {
				atomic_fetch_add_explicit(&in->count, 1, memory_order_relaxed);
				return in->first + id;
			}
		}
		if ((word & ~ID_MASK) == tag)
			return in->first + (uint32_t)(word & ID_MASK);
	}
}
