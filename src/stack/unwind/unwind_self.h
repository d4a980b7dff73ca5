/*
 * unwind_self.h: the calling thread's own call stack, from its unwind tables. No lock, no
 * allocation, and no system call once a thread's stack is known; may run in a signal handler.
 *
 * A walker belongs to one thread. It is large (82 KiB): allocate it with the thread's ring. It
 * caches the rules of return addresses (4096, by address), so that a frame costs a cache look-up
 * and two loads, and the last stack, whose unchanged frames it reuses (unwind_self.c). Stack memory
 * is only read where it is known to be mapped: the thread's own stack, found in the first walk, is
 * read directly; other memory (signal stacks, coroutines, pointers from wrong rules) is probed page
 * by page.
 *
 * For code that has not been compiled yet (modules.h), or was loaded a moment ago, the rule is read
 * from its call frame information (rule_lookup.h). That takes ten or twenty microseconds for each
 * return address new to the walker, so the number of such reads is limited.
 *
 * Most frames need only stack pointer and frame pointer. A rule that needs more, a signal frame, or
 * code without rules restarts the walk with all registers, which is a few times slower.
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_SELF_H
#define PITOT_STACK_UNWIND_UNWIND_SELF_H

#include "schema/schema.h"
#include "stack/frame.h"
#include "stack/unwind/modules.h"
#include "stack/unwind/rule_lookup.h"

#define STACK_CACHE 4096u
#define STACK_SEEN 128u
#define STACK_LOOKED_UP 64u
#define STACK_LOOKUPS_MAX 16384u /* rules that a walker may read this way */
/* additional ones after modules have come or gone, or parts were compiled */
#define STACK_LOOKUPS_MORE 1024u
#define STACK_SKIP_MAX 8u
#define STACK_SKIPPED_MAX 64u /* most frames that are skipped */

/* By DWARF number (arch/processor.h). Bit i of known: at[i] is known. */
struct stack_registers {
	uint64_t at[REG_COUNT_];
	uint64_t known;
	bool interrupted; /* pc is exact, as in a signal's context, instead of a return address */
};

/* Captures the registers of the function that uses the macro, at that place. */
#define STACK_CAPTURE(registers)                                                                   \
	do {                                                                                       \
		struct stack_registers *r_ = (registers);                                          \
		r_->known = CAPTURED_REGISTERS;                                                    \
		r_->interrupted = false;                                                           \
		CAPTURE_REGISTERS(r_->at);                                                         \
	} while (0)

/* The registers of the code that a signal handler interrupted. */
static inline void stack_registers_interrupted(const ucontext_t *context, struct stack_registers *r)
{
	arch_context_registers(context, r->at);
	r->known = REGISTERS_ALL;
	r->interrupted = true;
}

/* A rule read by the walker itself. */
struct looked_up_rule {
	uint64_t frame; /* 0: free */
	struct unwind_rule rule;
};

/* The step from a frame to its caller: how to compute CFA and frame pointer from both pointers. */
struct walk_step {
	uint64_t key; /* the frame (frame.h); 0: free */
	int32_t cfa_offset;
	int16_t slot_offset; /* from the CFA: see arch_step_slot() */
	uint8_t kind;
	uint8_t unused;
};
_Static_assert(sizeof(struct walk_step) == 16, "four to a cache line");

/* A frame of the last walk, which a later walk can reuse: see unwind_self.c. */
struct walk_seen {
	uint64_t pc, sp, fp;
	uint64_t slot; /* address at slot_offset; three low bits: kind of step */
};

struct stack_walker {
	struct stack_modules *modules;
	int slot;
	bool busy; /* a walk is in progress: a signal handler must not walk */
	uint64_t generation; /* generation of the map that the cache was filled from */
	uint64_t own_low, own_high; /* known part of the thread's own stack; 0: not known yet */
	unsigned own_failures;
	uint64_t low, high; /* memory that may be read in this walk */
	struct code_range skip[STACK_SKIP_MAX];
	unsigned skip_count;
	bool remembered; /* `seen` is the last walk's stack, which was complete */
	unsigned seen_count;
	struct walk_seen seen[STACK_SEEN]; /* outermost first */
	struct walk_seen fresh[STACK_SEEN]; /* of the current walk, innermost first */
	unsigned lookups_left, parts_seen;
	struct looked_up_rule looked_up[STACK_LOOKED_UP];
	struct rule_lookup_room lookup_room;
	struct walk_step cache[STACK_CACHE];
};

/* Thread-safe. Returns false when no slots are left. `modules` must outlive the walker. */
bool stack_walker_init(struct stack_walker *w, struct stack_modules *modules);
void stack_walker_release(struct stack_walker *w);

/* Innermost frames in these ranges are not stored. At most STACK_SKIP_MAX ranges. */
void stack_walker_skip(struct stack_walker *w, const struct code_range *ranges, unsigned count);

/*
 * Walks the calling thread's stack from `start` outwards. Stores at most `max` frames (frame.h),
 * first the innermost, at start->at[REG_RA_], and returns their number. *end: complete (reached the
 * thread's start), partial (code whose call frame information has not been compiled and is
 * unreadable), truncated (code without rules; frames after it, if any, are guessed), depth (more
 * than max). Returns no frames and partial in a signal handler that interrupted a walk, and before
 * the first map.
 */
unsigned stack_walk(struct stack_walker *w, const struct stack_registers *start, uint64_t *frames,
		    unsigned max, enum stack_end *end);

#endif
