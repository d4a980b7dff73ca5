#include "stack/unwind/unwind_self.h"

#include <string.h>
#include <sys/auxv.h>

#include "base/safe_memory.h"
#include "stack/unwind/rule_lookup.h"
#include "stack/unwind/unwind_self_state.h"

#define PAGE 4096u
#define OWN_BYTES_MAX (UINT64_C(64) << 20) /* bytes of stack probed in one walk */
#define OWN_FAILURES_MAX 64u

bool stack_walker_init(struct stack_walker *w, struct stack_modules *modules)
{
	memset(w, 0, sizeof(*w));
	w->modules = modules;
	w->lookups_left = STACK_LOOKUPS_MAX;
	w->slot = stack_slot_reserve(modules);
	return w->slot >= 0;
}

void stack_walker_release(struct stack_walker *w)
{
	if (w->modules)
		stack_slot_release(w->modules, w->slot);
	w->modules = NULL;
}

void stack_walker_skip(struct stack_walker *w, const struct code_range *ranges, unsigned count)
{
	w->skip_count = MIN(count, STACK_SKIP_MAX);
	if (w->skip_count)
		memcpy(w->skip, ranges, w->skip_count * sizeof(*ranges));
}

bool walk_store(const struct stack_walker *w, struct walk_output *out, uint64_t frame)
{
	if (out->count == 0 && out->skipped < STACK_SKIPPED_MAX &&
	    frame_in_ranges(frame, w->skip, w->skip_count)) {
		out->skipped++;
		return true;
	}
	if (out->count == out->max)
		return false;
	out->frames[out->count++] = frame;
	return true;
}

/* --- the thread's own stack --- */

/*
 * Returns the end of the stack that contains sp, if it was made by pthread_create or is the main
 * thread's; else 0.
 */
static uint64_t own_stack_end(uint64_t sp)
{
	uint64_t thread = arch_thread_pointer(), executable = getauxval(AT_EXECFN);

	/* The main thread's stack ends with the name of the executable. */
	if (sp < executable && executable - sp <= OWN_BYTES_MAX)
		return executable;
	/* The thread control block is at the end of another thread's stack. */
	return sp < thread && thread - sp <= OWN_BYTES_MAX ? thread : 0;
}

/* Whether [low, high) is readable. */
static bool all_readable(uint64_t low, uint64_t high)
{
	for (uint64_t page = low & ~(uint64_t)(PAGE - 1); page < high; page += PAGE)
		if (!memory_readable(page))
			return false;
	return true;
}

/*
 * Extends the known part of the thread's stack to sp, if everything in between is readable.
 * Otherwise sp is on another stack, which is probed in each walk. Gives up after some failures.
 */
static void extend_own(struct stack_walker *w, uint64_t sp)
{
	uint64_t high = w->own_high ? w->own_low : own_stack_end(sp);

	if (w->own_failures >= OWN_FAILURES_MAX)
		return;
	if (sp < high && high - sp <= OWN_BYTES_MAX && all_readable(sp, high)) {
		w->own_low = sp & ~(uint64_t)(PAGE - 1);
		w->own_high = w->own_high ? w->own_high : high & ~(uint64_t)7;
	} else {
		w->own_failures++;
	}
}

bool walk_probe(struct stack_walker *w, uint64_t address)
{
	uint64_t page = address & ~(uint64_t)(PAGE - 1);

	if (address & 7)
		return false;
	if (address - w->own_low < w->own_high - w->own_low) {
		w->low = w->own_low;
		w->high = w->own_high;
		return true;
	}
	if (!memory_readable(page))
		return false;
	if (page == w->high && w->high != w->own_high) {
		w->high += PAGE;
	} else {
		w->low = page;
		w->high = page + PAGE;
	}
	return true;
}

/* --- rules --- */

/* Allows more reads after parts have been compiled, so that the total is limited. */
static bool may_read_more(struct stack_walker *w)
{
	unsigned parts = atomic_load_explicit(&w->modules->parts, memory_order_relaxed);

	if (parts == w->parts_seen)
		return false;
	w->parts_seen = parts;
	w->lookups_left = STACK_LOOKUPS_MORE;
	return true;
}

/* Reads the rule of code that has not been compiled. Returns NULL when it is unreadable. */
static const struct unwind_rule *read_rule(struct stack_walker *w, uint64_t header, uint64_t frame)
{
	struct looked_up_rule *known = &w->looked_up[(frame * UINT64_C(0x9e3779b97f4a7c15)) >> 58];

	if (known->frame == frame)
		return &known->rule;
	known->frame = 0;
	if (w->lookups_left == 0 && !may_read_more(w))
		return NULL;
	w->lookups_left--;
	if (!rule_lookup(&w->lookup_room, header, frame_lookup_address(frame), &known->rule))
		return NULL;
	known->frame = frame;
	return &known->rule;
}
_Static_assert(STACK_LOOKED_UP == 1u << (64 - 58), "the hash has that many bits");

const struct unwind_rule *walk_rule(struct stack_walker *w, const struct stack_map *map,
				    uint64_t frame, bool *known_module)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	uint64_t pc = frame_lookup_address(frame);
	const struct stack_range *range = stack_map_find(map, pc);
	const struct unwind_rule *rule = NULL;
	uint64_t header;

	*known_module = range != NULL;
	if (range && !range->module->header)
		return &none;
	if (range)
		rule = stack_module_rule(w->modules, range->module, pc - range->module->bias);
	if (rule)
		return rule;
	header = rule_lookup_header(pc);
	if (!header && range)
		header = range->module->header;
	if (!header)
		return &none;
	*known_module = true;
	return read_rule(w, header, frame);
}

static struct walk_step step_of(uint64_t frame, const struct unwind_rule *rule)
{
	const struct save_rule *fp = &rule->saved[0];
	struct walk_step full = { .key = frame, .kind = STEP_FULL };
	struct walk_step step = { .key = frame, .cfa_offset = rule->offset };
	int32_t slot;

	if (rule->cfa == CFA_END)
		return (struct walk_step){ .key = frame, .kind = STEP_END };
	if (rule->interrupts || rule->ra.kind != SAVE_CFA ||
	    !arch_step_slot(fp->kind != SAVE_SAME, fp->offset, rule->ra.offset, &slot) ||
	    slot != (int16_t)slot)
		return full;
	step.slot_offset = (int16_t)slot;
	if (rule->cfa == CFA_DEREF) {
		step.kind = STEP_ALIGNED;
		return rule->base == REG_FP_ && rule->index == REG_NONE_ && rule->extra == 0 &&
				       fp->kind == SAVE_MEMORY && fp->base == REG_FP_
			       ? step
			       : full;
	}
	if (rule->cfa != CFA_REGISTER || (rule->base != REG_SP_ && rule->base != REG_FP_) ||
	    (fp->kind != SAVE_SAME && fp->kind != SAVE_CFA))
		return full;
	step.kind = (rule->base == REG_FP_ ? STEP_FP : STEP_SP) |
		    (fp->kind == SAVE_CFA ? STEP_SP_SAVED : 0);
	return step;
}

/* --- walking --- */

static inline struct walk_step *cache_slot(struct stack_walker *w, uint64_t frame)
{
	return &w->cache[(frame * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}
_Static_assert(STACK_CACHE == 1u << (64 - 52), "the hash has that many bits");

const struct walk_step *walk_cached_step(struct stack_walker *w, uint64_t frame)
{
	const struct walk_step *step = cache_slot(w, frame);

	return step->key == frame ? step : NULL;
}

/* Computes the frame's step and caches it. Returns false when there is no rule yet. */
static bool cache_step(struct stack_walker *w, const struct stack_map *map, uint64_t frame,
		       struct walk_step *step)
{
	bool known_module;
	const struct unwind_rule *rule = walk_rule(w, map, frame, &known_module);

	if (!rule)
		return false;
	*step = step_of(frame, rule);
	return true;
}

enum { WALK_NEEDS_FULL = -1, WALK_NEXT = -2 }; /* in addition to enum stack_end */

/*
 * Launches come from nearly the same stack again and again. When a walk arrives at a frame of the
 * last complete walk, with equal pc, sp and fp, the frames further out depend only on the words
 * that were loaded there: if those are unchanged, so are the frames. Comparing words at known
 * addresses is several times faster than finding each frame through the previous one.
 *
 * Measured gain, for stacks that the thread's cache (stack_cache.h) does not have: of 88 frames
 * with Python in between 1.8 to 2.2 us in place of 2.4 to 2.5 (bench_stack_cache), of 50 native
 * ones 106 ns in place of 302 (bench_stack).
 */
struct walk_state {
	uint64_t pc, sp, fp;
	unsigned fresh; /* frames in w->fresh; more than STACK_SEEN: too many to store */
	unsigned seen; /* frames of w->seen that are not further in than the current one */
};

static inline void remember_fresh(struct stack_walker *w, struct walk_state *s, uint64_t slot)
{
	if (likely(s->fresh < STACK_SEEN))
		w->fresh[s->fresh] = (struct walk_seen){ s->pc, s->sp, s->fp, slot };
	s->fresh++;
}

/* Stores the stack just walked: the first `kept` seen frames and the fresh ones. */
static void remember(struct stack_walker *w, unsigned kept, unsigned fresh)
{
	if (fresh > STACK_SEEN - kept)
		return;
	for (unsigned i = 0; i < fresh; i++)
		w->seen[kept + fresh - 1 - i] = w->fresh[i];
	w->seen_count = kept + fresh;
	w->remembered = true;
}

/*
 * Starting at w->seen[k - 1], returns the k of the outermost frame that the stack's words confirm.
 */
static unsigned confirmed(struct stack_walker *w, unsigned k)
{
	uint64_t value;

	for (; k > 1; k--) {
		const struct walk_seen *at = &w->seen[k - 1], *next = &w->seen[k - 2];
		unsigned kind = at->slot & STEP_KIND;

		if (kind > STEP_FP_SAVED || !walk_load(w, walk_return_slot(at, next), &value) ||
		    arch_code_address(value) != next->pc)
			break;
		if ((kind & STEP_SP_SAVED) &&
		    (!walk_load(w, at->slot & ~UINT64_C(7), &value) || value != next->fp))
			break;
	}
	return k;
}

/* Emits all callers of w->seen[k - 1] up to the start of the thread; all are confirmed. */
static int reuse_all(struct stack_walker *w, unsigned k, struct walk_output *out)
{
	for (; k > 1 && out->count == 0; k--)
		if (!walk_store(w, out, w->seen[k - 2].pc))
			return stack_end_depth;
	for (; k > 1 && out->count < out->max; k--)
		out->frames[out->count++] = w->seen[k - 2].pc;
	return k > 1 ? stack_end_depth : stack_end_complete;
}

/* At w->seen[s->seen - 1]: reuses the confirmed frames. Returns WALK_NEXT, or the walk's end. */
static int reuse_seen(struct stack_walker *w, struct walk_state *s, struct walk_output *out)
{
	unsigned to = confirmed(w, s->seen);

	if (to == 1) {
		remember(w, s->seen, s->fresh);
		return reuse_all(w, s->seen, out);
	}
	for (; s->seen > to; s->seen--) {
		const struct walk_seen *at = &w->seen[s->seen - 1], *next = at - 1;

		if (!walk_store(w, out, next->pc))
			return stack_end_depth;
		remember_fresh(w, s, at->slot);
		s->pc = next->pc;
		s->sp = next->sp;
		s->fp = next->fp;
	}
	return WALK_NEXT;
}

/* Reuses seen frames if the walk has arrived at one. */
static inline int match_seen(struct stack_walker *w, struct walk_state *s, struct walk_output *out)
{
	const struct walk_seen *seen;

	while (s->seen && w->seen[s->seen - 1].sp < s->sp)
		s->seen--;
	if (!s->seen)
		return WALK_NEXT;
	seen = &w->seen[s->seen - 1];
	if (seen->sp != s->sp || seen->pc != s->pc || seen->fp != s->fp)
		return WALK_NEXT;
	return reuse_seen(w, s, out);
}

/* Steps to the caller. Returns WALK_NEXT, WALK_NEEDS_FULL, or the walk's end. */
static inline int walk_step(struct stack_walker *w, const struct stack_map *map,
			    struct walk_state *s)
{
	struct walk_step *step = cache_slot(w, s->pc);
	uint64_t cfa, slot = 0, pc, fp = s->fp;

	if (unlikely(step->key != s->pc) && !cache_step(w, map, s->pc, step))
		return stack_end_partial;
	if (unlikely(step->kind > STEP_FP_SAVED)) {
		if (step->kind == STEP_END) {
			remember_fresh(w, s, STEP_END);
			remember(w, 0, s->fresh);
			return stack_end_complete;
		}
		if (step->kind == STEP_FULL ||
		    !walk_load(w, fp + (uint64_t)(int64_t)step->cfa_offset, &cfa) ||
		    !walk_load(w, fp + (uint64_t)(int64_t)step->slot_offset, &fp))
			return WALK_NEEDS_FULL;
	} else {
		cfa = (step->kind & STEP_FP ? fp : s->sp) + (uint64_t)(int64_t)step->cfa_offset;
		slot = cfa + (uint64_t)(int64_t)step->slot_offset;
		if ((step->kind & STEP_SP_SAVED) && !walk_load(w, slot, &fp))
			return WALK_NEEDS_FULL;
	}
	if (unlikely(cfa <= s->sp) ||
	    !walk_load(w, arch_return_slot(cfa, slot, step->kind & STEP_SP_SAVED), &pc))
		return WALK_NEEDS_FULL;
	pc = arch_code_address(pc);
	if (unlikely(walk_is_not_code(pc)))
		return pc ? WALK_NEEDS_FULL : stack_end_complete;
	remember_fresh(w, s, (slot & ~UINT64_C(7)) | step->kind);
	s->pc = pc;
	s->sp = cfa;
	s->fp = fp;
	return WALK_NEXT;
}

/* Walks with stack pointer and frame pointer only. Returns an enum stack_end or WALK_NEEDS_FULL. */
static int walk_fast(struct stack_walker *w, const struct stack_map *map,
		     const struct stack_registers *start, struct walk_output *out)
{
	struct walk_state s = { .pc = start->at[REG_RA_] |
				      (start->interrupted ? FRAME_INTERRUPTED : 0),
				.sp = start->at[REG_SP_],
				.fp = start->at[REG_FP_],
				.seen = w->seen_count };
	int rc;

	if (!walk_store(w, out, s.pc))
		return stack_end_depth;
	rc = match_seen(w, &s, out);
	while (rc == WALK_NEXT) {
		rc = walk_step(w, map, &s);
		if (rc != WALK_NEXT)
			break;
		if (!walk_store(w, out, s.pc))
			return stack_end_depth;
		rc = match_seen(w, &s, out);
	}
	return rc;
}

static void begin(struct stack_walker *w, const struct stack_map *map, uint64_t sp)
{
	if (unlikely(map->generation != w->generation)) {
		memset(w->cache, 0, sizeof(w->cache));
		memset(w->looked_up, 0, sizeof(w->looked_up));
		w->lookups_left = MAX(w->lookups_left, STACK_LOOKUPS_MORE);
		w->seen_count = 0;
		w->generation = map->generation;
	}
	if (unlikely(sp - w->own_low >= w->own_high - w->own_low))
		extend_own(w, sp);
	w->low = w->own_low;
	w->high = w->own_high;
}

unsigned stack_walk(struct stack_walker *w, const struct stack_registers *start, uint64_t *frames,
		    unsigned max, enum stack_end *end)
{
	struct walk_output out = { frames, 0, max, 0 };
	const struct stack_map *map;
	int rc = stack_end_partial;

	*end = stack_end_partial;
	if (unlikely(w->busy))
		return 0;
	w->busy = true;
	w->remembered = false;
	atomic_signal_fence(memory_order_seq_cst);
	map = stack_map_enter(w->modules, w->slot);
	if (likely(map != NULL)) {
		begin(w, map, start->at[REG_SP_]);
		rc = walk_fast(w, map, start, &out);
		if (unlikely(rc == WALK_NEEDS_FULL)) {
			out = (struct walk_output){ frames, 0, max, 0 };
			rc = (int)unwind_all_registers(w, map, start, &out);
		}
	}
	stack_map_leave(w->modules, w->slot);
	atomic_signal_fence(memory_order_seq_cst);
	w->busy = false;
	*end = (enum stack_end)rc;
	return out.count;
}
