#include "stack/stack_cache.h"

#include <string.h>

#include "stack/unwind/unwind_all_registers.h"

#define FOLLOWERS 3u
#define CHAIN_MAX 24u /* records with the same hash of rsp that are looked at */
#define LUCK_MAX 256
#define PAUSE 4096u

/* In the room, followed by its words and then its halves. */
struct memo_record {
	uint64_t sp, fp;
	uintptr_t state;
	uint32_t id, freed;
	uint16_t native_count, word_count, half_count;
	bool needs_fp; /* what rbp was matters */
	bool python; /* words after the native ones depend on `state` and `freed` */
	uint32_t words_room, halves_room; /* items that fit */
	uint32_t next[FOLLOWERS]; /* what followed, latest first; 0: nothing */
	uint32_t chained; /* next with the same hash of rsp; 0: none */
};
_Static_assert(sizeof(struct memo_record) % 8 == 0, "words come after it");

void stack_cache_reset(struct stack_cache *m)
{
	m->used = m->last = 0;
	m->luck = 0;
	m->pause = 0;
	memset(m->index, 0, sizeof(m->index));
}

static struct memo_record *record_at(struct stack_cache *m, uint32_t at)
{
	return (struct memo_record *)(void *)&m->room[at];
}

static struct memory_word *words_of(struct memo_record *r)
{
	return (struct memory_word *)(void *)(r + 1);
}

static struct memory_half *halves_of(struct memo_record *r)
{
	return (struct memory_half *)(void *)(words_of(r) + r->words_room);
}

/* Each word is read only after the ones before it were found the same. */
static inline bool same_words(const struct memory_word *words, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t value;

		/* In assembly, because sanitizers have their own ideas of other functions' frames. */
		__asm__("mov %1, %0" : "=r"(value) : "m"(*(const uint64_t *)words[i].address));
		if (value != words[i].value)
			return false;
	}
	return true;
}

static inline bool same_halves(const struct memory_half *halves, unsigned count)
{
	uint32_t different = 0;

	for (unsigned i = 0; i < count; i++)
		different |=
			(*(const uint32_t *)halves[i].address & halves[i].mask) ^ halves[i].value;
	return different == 0;
}

static bool is_same(struct memo_record *r, const struct stack_registers *start,
		    const struct memo_python *python)
{
	const struct memory_word *words = words_of(r);

	if (r->sp != start->at[REG_RSP_] || (r->needs_fp && r->fp != start->at[REG_RBP_]) ||
	    r->state != python->state || (r->python && r->freed != python->freed))
		return false;
	return same_words(words, r->word_count) && same_halves(halves_of(r), r->half_count);
}

/* What came after the last stack; false when the walker is in use or modules have come or gone. */
static bool is_usable(struct stack_cache *m, struct stack_walker *w)
{
	const struct stack_map *map;
	uint64_t generation;

	if (unlikely(w->busy))
		return false;
	map = stack_map_enter(w->modules, w->slot);
	generation = map ? map->generation : 0;
	stack_map_leave(w->modules, w->slot);
	if (likely(generation == m->generation))
		return true;
	stack_cache_reset(m);
	m->generation = generation;
	return true;
}

/* It came after the last one. */
static void follow(struct stack_cache *m, uint32_t at)
{
	struct memo_record *last;
	unsigned i = 0;

	if (m->last) {
		last = record_at(m, m->last);
		while (i < FOLLOWERS - 1 && last->next[i] && last->next[i] != at)
			i++;
		for (; i > 0; i--)
			last->next[i] = last->next[i - 1];
		last->next[0] = at;
	}
	m->last = at;
}

static uint32_t *chain_of(struct stack_cache *m, uint64_t sp)
{
	return &m->index[(sp * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}
_Static_assert(MEMO_INDEX == 1u << (64 - 54), "the hash has that many bits");

/* Among what followed the last stack, else among all that were met with this rsp. */
static uint32_t find(struct stack_cache *m, const struct stack_registers *start,
		     const struct memo_python *python)
{
	uint32_t at = m->last;
	struct memo_record *r;

	for (unsigned i = 0; at && i < FOLLOWERS && record_at(m, at)->next[i]; i++) {
		r = record_at(m, record_at(m, at)->next[i]);
		if (is_same(r, start, python)) {
			m->last = record_at(m, at)->next[i];
			return r->id;
		}
	}
	at = *chain_of(m, start->at[REG_RSP_]);
	for (unsigned i = 0; at && i < CHAIN_MAX; i++, at = r->chained) {
		r = record_at(m, at);
		if (is_same(r, start, python)) {
			follow(m, at);
			return r->id;
		}
	}
	return 0;
}

uint32_t stack_cache_find(struct stack_cache *m, struct stack_walker *w,
			 const struct stack_registers *start, const struct memo_python *python)
{
	uint32_t id;

	if (!is_usable(m, w))
		return 0;
	w->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	id = find(m, start, python);
	if (id && m->luck < LUCK_MAX)
		m->luck++;
	atomic_signal_fence(memory_order_seq_cst);
	w->busy = false;
	return id;
}

/* --- remembering --- */

struct draft {
	struct memory_word *words; /* MEMO_WORDS */
	struct memory_half *halves; /* MEMO_HALVES */
	unsigned native_count, word_count, half_count;
	bool needs_fp;
};

static bool draft_word(struct draft *d, const struct stack_walker *w, uint64_t address,
		       uint64_t value)
{
	if (address - w->own_low >= w->own_high - w->own_low || (address & 7) ||
	    d->word_count == MEMO_WORDS)
		return false;
	d->words[d->word_count++] = (struct memory_word){ address, value };
	return true;
}

/* Whether rbp matters in a frame that is left so, if it does (`needed`) or not in its caller's. */
static bool needs_fp(unsigned kind, bool needed)
{
	return kind == STEP_ALIGNED || (kind & STEP_RBP) || (!(kind & STEP_RSP_SAVED) && needed);
}

/* What was loaded to get from a frame to its caller. */
static bool draft_frame(struct draft *d, struct stack_walker *w, const struct walk_seen *at,
			const struct walk_seen *caller, bool needed)
{
	unsigned kind = at->fp_slot & STEP_KIND;
	uint64_t slot = at->fp_slot & ~(uint64_t)STEP_KIND;
	const struct walk_step *step;

	if (kind == STEP_ALIGNED) {
		step = walk_cached_step(w, at->pc);
		if (!step ||
		    !draft_word(d, w, at->fp + (uint64_t)(int64_t)step->cfa_offset, caller->sp))
			return false;
		slot = at->fp + (uint64_t)(int64_t)step->fp_offset;
	}
	if (!draft_word(d, w, caller->sp - 8, caller->pc))
		return false;
	return !needed || !(kind == STEP_ALIGNED || (kind & STEP_RSP_SAVED)) ||
	       draft_word(d, w, slot, caller->fp);
}

/* The words that the walker's last walk depended on, from the innermost frame outwards. */
static bool draft_native(struct draft *d, struct stack_walker *w)
{
	bool needed[STACK_SEEN]; /* by frame: whether its rbp matters */
	unsigned n = w->seen_count;

	needed[0] = false;
	for (unsigned k = 1; k < n; k++)
		needed[k] = needs_fp(w->seen[k].fp_slot & STEP_KIND, needed[k - 1]);
	for (unsigned k = n - 1; k > 0; k--)
		if (!draft_frame(d, w, &w->seen[k], &w->seen[k - 1], needed[k - 1]))
			return false;
	d->native_count = d->word_count;
	d->needs_fp = needed[n - 1];
	return true;
}

static bool draft_python(struct draft *d, const struct memo_python *python)
{
	struct python_words words = {
		.words = d->words,
		.halves = d->halves,
		.word_count = d->word_count,
		.words_max = MEMO_WORDS,
		.halves_max = MEMO_HALVES,
	};

	if (!python->state)
		return true;
	if (!python_words_add(python->runtime, python->state, &words))
		return false;
	d->word_count = words.word_count;
	d->half_count = words.half_count;
	return true;
}

/* Room for a record of that size; when there is none left, all are forgotten. 0: it is too large. */
static uint32_t new_record(struct stack_cache *m, const struct draft *d)
{
	size_t size = sizeof(struct memo_record) + d->word_count * sizeof(d->words[0]) +
		      d->half_count * sizeof(d->halves[0]);
	uint32_t at;

	size = (size + 63) & ~(size_t)63;
	if (m->used == 0)
		m->used = 64;
	if (size > MEMO_BYTES - m->used) {
		uint32_t pause = m->pause;
		int32_t luck = m->luck;

		stack_cache_reset(m);
		m->used = 64;
		m->pause = pause;
		m->luck = luck;
		if (size > MEMO_BYTES - m->used)
			return 0;
	}
	at = m->used;
	m->used += (uint32_t)size;
	*record_at(m, at) =
		(struct memo_record){ .words_room = d->word_count, .halves_room = d->half_count };
	return at;
}

static void fill(struct memo_record *r, const struct draft *d, const struct stack_registers *start,
		 const struct memo_python *python, uint32_t id)
{
	r->sp = start->at[REG_RSP_];
	r->fp = start->at[REG_RBP_];
	r->state = python->state;
	r->id = id;
	r->freed = python->freed;
	r->native_count = (uint16_t)d->native_count;
	r->word_count = (uint16_t)d->word_count;
	r->half_count = (uint16_t)d->half_count;
	r->needs_fp = d->needs_fp;
	r->python = python->state != 0;
	memcpy(words_of(r), d->words, d->word_count * sizeof(d->words[0]));
	memcpy(halves_of(r), d->halves, d->half_count * sizeof(d->halves[0]));
}

/* The record of this stack that there is already, with the addresses of an earlier time. */
static uint32_t find_old(struct stack_cache *m, const struct draft *d, uint64_t sp, uint32_t id)
{
	uint32_t at = *chain_of(m, sp);
	struct memo_record *r;

	for (unsigned i = 0; at && i < CHAIN_MAX; i++, at = r->chained) {
		r = record_at(m, at);
		if (r->id == id && r->sp == sp && r->words_room >= d->word_count &&
		    r->halves_room >= d->half_count)
			return at;
	}
	return 0;
}

static void add(struct stack_cache *m, const struct draft *d, const struct stack_registers *start,
		const struct memo_python *python, uint32_t id)
{
	uint64_t sp = start->at[REG_RSP_];
	uint32_t at = find_old(m, d, sp, id);

	if (!at) {
		at = new_record(m, d);
		if (!at)
			return;
		record_at(m, at)->chained = *chain_of(m, sp);
		*chain_of(m, sp) = at;
	}
	fill(record_at(m, at), d, start, python, id);
	follow(m, at);
}

/* Where few stacks are met again, remembering them is in vain; it is tried again later. */
static bool in_vain(struct stack_cache *m)
{
	if (m->pause) {
		m->pause--;
		return true;
	}
	if (--m->luck > -LUCK_MAX)
		return false;
	m->luck = 0;
	m->pause = PAUSE;
	return true;
}

void stack_cache_add(struct stack_cache *m, struct stack_walker *w,
		    const struct stack_registers *start, const struct memo_python *python,
		    uint32_t id)
{
	struct draft d = { .words = m->words, .halves = m->halves };

	if (w->busy || !w->remembered || w->generation != m->generation || in_vain(m))
		return;
	w->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	if (draft_native(&d, w) && draft_python(&d, python))
		add(m, &d, start, python, id);
	else
		m->last = 0;
	atomic_signal_fence(memory_order_seq_cst);
	w->busy = false;
}
