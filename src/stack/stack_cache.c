#include "stack/stack_cache.h"

#include <string.h>

#include "base/map.h"
#include "stack/unwind/unwind_self_state.h"

#define FOLLOWERS 3u
#define CHAIN_MAX 24u /* records of a chain that are compared */
#define CHUNK_FRAMES 8u
#define HIT_SCORE_MAX 1024
#define BACKOFF 16384u

/* The words of some frames, with a link to those further out. Followed by words, then halves. */
struct cache_chunk {
	uint32_t outer; /* 0: none */
	uint32_t chained; /* next with the same hash; 0: none */
	uint16_t word_count, half_count;
	uint32_t unused;
};
_Static_assert(sizeof(struct cache_chunk) % 8 == 0, "words come after it");

struct cache_record {
	uint64_t sp, fp;
	uintptr_t state;
	uint32_t id, freed;
	uint32_t native, python; /* innermost chunks; 0: none. `state` and `freed` guard python. */
	uint32_t next[FOLLOWERS]; /* records that followed, latest first; 0: none */
	uint32_t chained; /* next with the same hash of the key; 0: none */
	bool needs_fp; /* the walk depends on the frame pointer */
};

void stack_cache_reset(struct stack_cache *c)
{
	c->used = c->last = 0;
	c->hit_score = 0;
	c->backoff = 0;
	memset(c->records, 0, sizeof(c->records));
	memset(c->chunks, 0, sizeof(c->chunks));
}

static struct cache_record *record_at(struct stack_cache *c, uint32_t at)
{
	return (struct cache_record *)(void *)&c->room[at];
}

static struct cache_chunk *chunk_at(struct stack_cache *c, uint32_t at)
{
	return (struct cache_chunk *)(void *)&c->room[at];
}

static struct memory_word *words_of(struct cache_chunk *chunk)
{
	return (struct memory_word *)(void *)(chunk + 1);
}

static struct memory_half *halves_of(struct cache_chunk *chunk)
{
	return (struct memory_half *)(void *)(words_of(chunk) + chunk->word_count);
}

/* --- looking up --- */

/* Reads each word only after all words before it were found unchanged. */
static inline bool same_words(const struct memory_word *words, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (arch_load(words[i].address) != words[i].value)
			return false;
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

/* Compares the chunk and all chunks further out. */
static inline bool same_chunks(struct stack_cache *c, uint32_t at)
{
	while (at) {
		struct cache_chunk *chunk = chunk_at(c, at);

		at = chunk->outer;
		__builtin_prefetch(&c->room[at]);
		if (!same_words(words_of(chunk), chunk->word_count) ||
		    !same_halves(halves_of(chunk), chunk->half_count))
			return false;
	}
	return true;
}

static bool is_same(struct stack_cache *c, const struct cache_record *r,
		    const struct stack_registers *start, const struct cache_python *python)
{
	if (r->sp != start->at[REG_SP_] || (r->needs_fp && r->fp != start->at[REG_FP_]) ||
	    r->state != python->state || (r->python && r->freed != python->freed))
		return false;
	return same_chunks(c, r->python) && same_chunks(c, r->native);
}

/*
 * Returns false while the walker is in use. Empties the cache when modules or numbers have changed.
 */
static bool is_usable(struct stack_cache *c, struct stack_walker *w,
		      const struct cache_python *python)
{
	const struct stack_map *map;
	uint64_t generation;

	if (unlikely(w->busy))
		return false;
	map = stack_map_enter(w->modules, w->slot);
	generation = map ? map->generation : 0;
	stack_map_leave(w->modules, w->slot);
	if (likely(generation == c->generation && python->ids == c->ids))
		return true;
	stack_cache_reset(c);
	c->generation = generation;
	c->ids = python->ids;
	return true;
}

/* Notes that the record followed the last one. */
static void follow(struct stack_cache *c, uint32_t at)
{
	struct cache_record *last;
	unsigned i = 0;

	if (c->last) {
		last = record_at(c, c->last);
		while (i < FOLLOWERS - 1 && last->next[i] && last->next[i] != at)
			i++;
		for (; i > 0; i--)
			last->next[i] = last->next[i - 1];
		last->next[0] = at;
	}
	c->last = at;
}

static uint32_t *chain_of(struct stack_cache *c, uint64_t key)
{
	return &c->records[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 53];
}
_Static_assert(CACHE_INDEX == 1u << (64 - 53), "the hash has that many bits");

static uint64_t key_of(const struct stack_registers *start, const struct cache_python *python)
{
	uint64_t key = start->at[REG_SP_];

	return python->state ? key ^ python_words_key(python->runtime, python->state) : key;
}

/* Searches the stacks that followed the last one, then all stacks with this key. */
static uint32_t find(struct stack_cache *c, const struct stack_registers *start,
		     const struct cache_python *python)
{
	uint32_t at = c->last;
	struct cache_record *r;

	for (unsigned i = 0; at && i < FOLLOWERS && record_at(c, at)->next[i]; i++) {
		r = record_at(c, record_at(c, at)->next[i]);
		if (is_same(c, r, start, python)) {
			c->last = record_at(c, at)->next[i];
			return r->id;
		}
	}
	c->key = key_of(start, python);
	at = *chain_of(c, c->key);
	for (unsigned i = 0; at && i < CHAIN_MAX; i++, at = r->chained) {
		r = record_at(c, at);
		if (is_same(c, r, start, python)) {
			follow(c, at);
			return r->id;
		}
	}
	return 0;
}

uint32_t stack_cache_find(struct stack_cache *c, struct stack_walker *w,
			  const struct stack_registers *start, const struct cache_python *python)
{
	uint32_t id;

	if (!is_usable(c, w, python))
		return 0;
	w->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	id = find(c, start, python);
	if (id && c->hit_score < HIT_SCORE_MAX)
		c->hit_score++;
	atomic_signal_fence(memory_order_seq_cst);
	w->busy = false;
	return id;
}

/* --- adding --- */

static bool draft_word(struct python_words *d, const struct stack_walker *w, uint64_t address,
		       uint64_t value)
{
	return address - w->own_low < w->own_high - w->own_low && !(address & 7) &&
	       python_words_add(d, address, value);
}

/* Whether a frame with this kind of step depends on fp; `needed`: whether its caller does. */
static bool needs_fp(unsigned kind, bool needed)
{
	return kind == STEP_ALIGNED || (kind & STEP_FP) || (!(kind & STEP_SP_SAVED) && needed);
}

/* Adds the words that were loaded to get from a frame to its caller. */
static bool draft_frame(struct python_words *d, struct stack_walker *w, const struct walk_seen *at,
			const struct walk_seen *caller, bool needed)
{
	unsigned kind = at->slot & STEP_KIND;
	uint64_t slot = at->slot & ~(uint64_t)STEP_KIND;
	const struct walk_step *step;
	uint64_t word;

	if (!python_words_begin(d))
		return false;
	if (kind == STEP_ALIGNED) {
		step = walk_cached_step(w, at->pc);
		if (!step ||
		    !draft_word(d, w, at->fp + (uint64_t)(int64_t)step->cfa_offset, caller->sp))
			return false;
		slot = at->fp + (uint64_t)(int64_t)step->slot_offset;
	}
	/* The word as it is: it may be signed. */
	if (!walk_load(w, walk_return_slot(at, caller), &word) ||
	    arch_code_address(word) != caller->pc ||
	    !draft_word(d, w, walk_return_slot(at, caller), word))
		return false;
	return !needed || !(kind == STEP_ALIGNED || (kind & STEP_SP_SAVED)) ||
	       draft_word(d, w, slot, caller->fp);
}

/* Adds the words that the walker's last walk depended on, from the innermost frame outwards. */
static bool draft_native(struct python_words *d, struct stack_walker *w, bool *fp_matters)
{
	bool needed[STACK_SEEN]; /* by frame: whether it depends on the frame pointer */
	unsigned n = w->seen_count;

	needed[0] = false;
	for (unsigned k = 1; k < n; k++)
		needed[k] = needs_fp(w->seen[k].slot & STEP_KIND, needed[k - 1]);
	for (unsigned k = n - 1; k > 0; k--)
		if (!draft_frame(d, w, &w->seen[k], &w->seen[k - 1], needed[k - 1]))
			return false;
	*fp_matters = needed[n - 1];
	return true;
}

/* Reserves that many bytes. Returns 0 when the cache is full. */
static uint32_t reserve(struct stack_cache *c, size_t size)
{
	uint32_t at = MAX(c->used, 64u);

	size = (size + 15) & ~(size_t)15;
	if (size > CACHE_BYTES - at)
		return 0;
	c->used = at + (uint32_t)size;
	return at;
}

/* Returns the chunk of the drafted frames [from, to), new or existing; 0 when the cache is full. */
static uint32_t chunk_of_frames(struct stack_cache *c, unsigned from, unsigned to, uint32_t outer)
{
	const struct python_words *d = &c->draft;
	bool is_last = to == d->frame_count;
	unsigned word = d->frames[from].word, half = d->frames[from].half;
	unsigned words = (is_last ? d->word_count : d->frames[to].word) - word;
	unsigned halves = (is_last ? d->half_count : d->frames[to].half) - half;
	size_t word_bytes = words * sizeof(*d->words), half_bytes = halves * sizeof(*d->halves);
	uint64_t hash = hash_bytes(&d->words[word], word_bytes) ^ hash_u64(outer);
	uint32_t *first = &c->chunks[hash % CACHE_INDEX], at;
	struct cache_chunk *chunk;

	for (at = *first; at; at = chunk->chained) {
		chunk = chunk_at(c, at);
		if (chunk->outer == outer && chunk->word_count == words &&
		    chunk->half_count == halves &&
		    memcmp(words_of(chunk), &d->words[word], word_bytes) == 0 &&
		    memcmp(halves_of(chunk), &d->halves[half], half_bytes) == 0)
			return at;
	}
	at = reserve(c, sizeof(*chunk) + word_bytes + half_bytes);
	if (!at)
		return 0;
	chunk = chunk_at(c, at);
	*chunk = (struct cache_chunk){ .outer = outer,
				       .chained = *first,
				       .word_count = (uint16_t)words,
				       .half_count = (uint16_t)halves };
	memcpy(words_of(chunk), &d->words[word], word_bytes);
	memcpy(halves_of(chunk), &d->halves[half], half_bytes);
	*first = at;
	return at;
}

/* Adds chunks of the drafted frames [from, to). Returns false when the cache is full. */
static bool add_chunks(struct stack_cache *c, unsigned from, unsigned to, uint32_t *innermost)
{
	*innermost = 0;
	while (to > from) {
		unsigned begin = to - MIN(to - from, CHUNK_FRAMES);

		*innermost = chunk_of_frames(c, begin, to, *innermost);
		if (!*innermost)
			return false;
		to = begin;
	}
	return true;
}

/* Adds the drafted stack, whose first `native_count` frames are native. Returns false when full. */
static bool add_record(struct stack_cache *c, struct cache_record *r, unsigned native_count)
{
	uint32_t at;

	if (!add_chunks(c, 0, native_count, &r->native) ||
	    !add_chunks(c, native_count, c->draft.frame_count, &r->python) ||
	    !(at = reserve(c, sizeof(*r))))
		return false;
	r->chained = *chain_of(c, c->key);
	*chain_of(c, c->key) = at;
	*record_at(c, at) = *r;
	follow(c, at);
	return true;
}

/* When few stacks occur twice, adding them does not pay; it is tried again after BACKOFF stacks. */
static bool backs_off(struct stack_cache *c)
{
	if (c->backoff) {
		c->backoff--;
		return true;
	}
	if (--c->hit_score > -HIT_SCORE_MAX)
		return false;
	c->hit_score = 0;
	c->backoff = BACKOFF;
	return true;
}

/* Drafts everything that the stack depends on, native and Python. */
static bool draft(struct stack_cache *c, struct stack_walker *w, const struct cache_python *python,
		  struct cache_record *r, unsigned *native_count)
{
	struct python_words *d = &c->draft;

	*d = (struct python_words){ .words = c->words,
				    .halves = c->halves,
				    .frames = c->frames,
				    .words_max = CACHE_WORDS,
				    .halves_max = CACHE_HALVES,
				    .frames_max = ARRAY_SIZE(c->frames) };
	if (!draft_native(d, w, &r->needs_fp))
		return false;
	*native_count = d->frame_count;
	return !python->state || python_words_walk(python->runtime, python->state, d);
}

static void add(struct stack_cache *c, struct stack_walker *w, const struct cache_python *python,
		struct cache_record *r)
{
	unsigned native_count;
	int32_t hit_score = c->hit_score;

	if (!draft(c, w, python, r, &native_count)) {
		c->last = 0;
		return;
	}
	if (add_record(c, r, native_count))
		return;
	/* Full: start over. A stack too large for an empty cache is not stored. */
	stack_cache_reset(c);
	c->hit_score = hit_score;
	add_record(c, r, native_count);
}

void stack_cache_add(struct stack_cache *c, struct stack_walker *w,
		     const struct stack_registers *start, const struct cache_python *python,
		     uint32_t id)
{
	struct cache_record r = { .sp = start->at[REG_SP_],
				  .fp = start->at[REG_FP_],
				  .state = python->state,
				  .id = id,
				  .freed = python->freed };

	if (w->busy || !w->remembered || w->generation != c->generation || backs_off(c))
		return;
	w->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	add(c, w, python, &r);
	atomic_signal_fence(memory_order_seq_cst);
	w->busy = false;
}
