/*
 * unwind_self.h: the call stack of the thread itself, from its unwind tables. No lock, no
 * allocation, no system call once a thread's stack is known; may run in a signal handler.
 *
 * A walker belongs to one thread. It is large (82 KiB): allocate it with the thread's ring. It
 * keeps the rules of return addresses that it has met (4096, by address), so that a frame costs a
 * look at that cache and two loads, and the last stack, of which it takes over what is still there
 * (unwind_self.c). Stack memory is only read where it is known to be mapped: the thread's own
 * stack, found at the first walk, is read directly; any other (signal stacks, coroutines, a pointer
 * led astray by wrong rules) is probed page by page.
 *
 * Where code has not been compiled yet (modules.h), or was loaded a moment ago, the rule is read
 * from its call frame information (rule_lookup.h): ten or twenty microseconds for each return
 * address that is new to the walker, and not without end.
 *
 * The usual frame needs rsp and rbp alone. A rule that needs more, a signal frame, or code without
 * rules starts the walk again with all registers (a few times slower).
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
#define STACK_LOOKUPS_MAX 16384u /* rules that a walker may read so */
/* and these when modules have come or gone, or parts been compiled */
#define STACK_LOOKUPS_MORE 1024u
#define STACK_SKIP_MAX 8u
#define STACK_SKIPPED_MAX 64u /* frames that may be skipped */

/* By DWARF number: rax rdx rcx rbx rsi rdi rbp rsp r8-r15, rip. Bit i of known: [i] is. */
struct stack_registers {
	uint64_t at[REG_COUNT_];
	uint32_t known;
	bool interrupted; /* rip is exact, as in a signal's context: not that of a call */
};

/* The registers of the function that it is used in, as at its own place. */
#define STACK_CAPTURE(registers)                                                                   \
	do {                                                                                       \
		struct stack_registers *r_ = (registers);                                          \
		r_->known = STACK_CAPTURED;                                                        \
		r_->interrupted = false;                                                           \
		__asm__ volatile("lea 0(%%rip), %%rax\n\t"                                         \
				 "mov %%rax, 128(%0)\n\t"                                          \
				 "mov %%rbx, 24(%0)\n\t"                                           \
				 "mov %%rbp, 48(%0)\n\t"                                           \
				 "mov %%rsp, 56(%0)\n\t"                                           \
				 "mov %%r12, 96(%0)\n\t"                                           \
				 "mov %%r13, 104(%0)\n\t"                                          \
				 "mov %%r14, 112(%0)\n\t"                                          \
				 "mov %%r15, 120(%0)"                                              \
				 :                                                                 \
				 : "D"(r_->at)                                                     \
				 : "rax", "memory");                                               \
	} while (0)
#define STACK_CAPTURED 0x1f0c8u /* rip, r12-r15, rsp, rbp, rbx */

/* A rule that the walker read by itself. */
struct looked_up_rule {
	uint64_t frame; /* 0: free */
	struct unwind_rule rule;
};

/* What is done with a frame whose rule is cached: how to find the CFA and rbp from rsp and rbp. */
struct walk_step {
	uint64_t key; /* the frame (frame.h); 0: free */
	int32_t cfa_offset;
	int16_t fp_offset;
	uint8_t kind;
	uint8_t unused;
};
_Static_assert(sizeof(struct walk_step) == 16, "four to a cache line");

/* A frame of an earlier walk, from which a later one can take over: see unwind_self.c. */
struct walk_seen {
	uint64_t pc, sp, fp;
	uint64_t fp_slot; /* where rbp is restored from; its three low bits: kind of step */
};

struct stack_walker {
	struct stack_modules *modules;
	int slot;
	bool busy; /* a signal handler interrupted a walk: no walk in there */
	uint64_t generation; /* of the map that the cache was filled from */
	uint64_t own_low, own_high; /* the thread's own stack as far as it is known; 0: not yet */
	unsigned own_failures;
	uint64_t low, high; /* memory that may be read in this walk */
	struct code_range skip[STACK_SKIP_MAX];
	unsigned skip_count;
	bool remembered; /* seen is the last walk's stack, which was complete */
	unsigned seen_count;
	struct walk_seen seen[STACK_SEEN]; /* outermost first */
	struct walk_seen fresh[STACK_SEEN]; /* of the walk under way, innermost first */
	unsigned lookups_left, parts_seen;
	struct looked_up_rule looked_up[STACK_LOOKED_UP];
	struct rule_lookup_room lookup_room;
	struct walk_step cache[STACK_CACHE];
};

/* Thread-safe; false when there are no slots left. `modules` must outlive the walker. */
bool stack_walker_init(struct stack_walker *w, struct stack_modules *modules);
void stack_walker_release(struct stack_walker *w);

/* Innermost frames in these ranges are walked, but not stored. At most STACK_SKIP_MAX. */
void stack_walker_skip(struct stack_walker *w, const struct code_range *ranges, unsigned count);

/*
 * The stack of the calling thread from `start` outwards: at most `max` frames (frame.h), the
 * innermost, of start->at[rip], first. Returns their number; *end says how it ended: complete (at
 * the thread's start), partial (at code whose call frame information has not been compiled and
 * cannot be read), truncated (at code without rules; what comes after it, if anything, was
 * guessed), depth (more than max). No frames and partial when called by a signal handler that
 * interrupted a walk, or before the first map.
 */
unsigned stack_walk(struct stack_walker *w, const struct stack_registers *start, uint64_t *frames,
		    unsigned max, enum stack_end *end);

#endif
