/*
 * modules.h: the executable modules of this process with their unwind rules, for walkers on any
 * number of threads and one thread that keeps them up to date.
 *
 * The collector calls stack_modules_update() now and then. It asks the dynamic linker whether
 * modules came or went (dl_iterate_phdr's counts), and if so publishes a new map: an immutable
 * array of address ranges behind an atomic pointer. A range leads to a record of its module, which
 * has a cell for each part (unwind_parts.h) of its code. A walker that meets an empty one marks it
 * as wanted and reads the rule that it needs by itself (rule_lookup.h); the next update compiles
 * the part and puts it into its cell, where it stays unchanged as long as the module. Of a large
 * library only the few parts that stacks go through are ever compiled. Call frame information is
 * copied before it is read, in a way that fails instead of faulting, for a module may be unloaded
 * at any time.
 *
 * Reclaiming: a walker holds a slot, where it writes the map that it is using, and checks that the
 * map is still the current one; it empties the slot when it has finished. These are plain stores:
 * after publishing, the collector calls membarrier(2), which orders them for every thread that
 * runs, and then frees the older maps that are in no slot. Where the kernel has no membarrier, old
 * maps are kept, up to a thousand. Parts are bounded by `bytes_max`: at the ceiling, there are no
 * further ones.
 *
 * What cannot be known without the dynamic linker's lock: until the next update, where a module was
 * unloaded and another loaded at the same address, the old one's rules are used; and with a glibc
 * before 2.35 a module that was just loaded is code without rules. Such a walk may read stale
 * values, never unmapped memory; nearly always it meets no return address and ends as truncated.
 */
#ifndef PITOT_STACK_UNWIND_MODULES_H
#define PITOT_STACK_UNWIND_MODULES_H

#include <stdatomic.h>

#include "elf/loaded_libraries.h"
#include "stack/unwind/unwind_parts.h"

#define STACK_WALKERS_MAX                                                                          \
	2112u /* a little more than threads with rings and threads that are sampled */
#define STACK_RULE_BYTES (64u << 20) /* recommended ceiling */

/* What the cell of a part has that is wanted and has not been compiled yet. */
extern struct unwind_part unwind_part_wanted;

struct stack_module {
	uint64_t bias; /* address minus ELF virtual address */
	uint64_t identity; /* hash of what tells a module from another at its place */
	uint64_t header, header_size; /* PT_GNU_EH_FRAME, address; 0: there is none */
	uint64_t segment_start, segment_end; /* the segment that it lies in */
	uint64_t code_start, code_end; /* ELF virtual addresses */
	uint32_t references; /* maps that it is in */
	uint32_t part_count;
	bool given_up; /* there was no memory for a part, or it could not be read */
	atomic_bool wanted; /* one of the parts is */
	_Atomic(struct unwind_part *) *parts; /* from code_start on */
};

struct stack_range {
	uint64_t start, end; /* executable */
	struct stack_module *module;
};

struct stack_map {
	uint64_t generation;
	struct stack_map *older; /* of the retired */
	size_t count;
	struct stack_range ranges[]; /* ascending */
};

struct module_build;

struct stack_modules {
	_Atomic(struct stack_map *) map;
	/* The collector's side. */
	struct stack_map *retired;
	uint64_t generation;
	struct loaded_library_counts counts;
	size_t bytes_max;
	struct unwind_store store; /* counts the bytes of parts as well */
	bool membarrier, scanned;
	struct module_build *build; /* under way */
	uint32_t next_part; /* of it */
	uint32_t rule_count;
	atomic_uint parts; /* compiled */
	uint32_t failures; /* modules given up */
	uint64_t build_ns;
	/* The walkers' side. */
	struct unwind_rule *rules; /* by number; those of parts that are there never change */
	atomic_int slots_used; /* slots from this one on were never claimed */
	struct {
		_Alignas(64) _Atomic(struct stack_map *) map;
		atomic_bool used;
	} slots[STACK_WALKERS_MAX];
};

void stack_modules_init(struct stack_modules *m, size_t bytes_max); /* *m must be zeroed */
void stack_modules_release(struct stack_modules *m); /* no walker may be left */

/*
 * In the child of a fork: forgets all, without freeing: the collector may have been in the middle.
 * Walkers have lost their slots: initialise the forking thread's anew.
 */
void stack_modules_after_fork(struct stack_modules *m);

/*
 * Collector thread only. Follows dlopen and dlclose and compiles parts for about budget_ns. Returns
 * 1 when there is more to compile, else 0; -ENOMEM: it could not keep up, the old map stands.
 */
int stack_modules_update(struct stack_modules *m, uint64_t budget_ns);

/* --- for walkers --- */

/* Number of a free slot, or -1. */
int stack_slot_claim(struct stack_modules *m);
void stack_slot_release(struct stack_modules *m, int slot);

/* The current map, which stays until stack_map_leave(); NULL before the first update. */
static inline struct stack_map *stack_map_enter(struct stack_modules *m, int slot)
{
	struct stack_map *map = atomic_load_explicit(&m->map, memory_order_relaxed), *seen;

	for (;;) {
		atomic_store_explicit(&m->slots[slot].map, map, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst); /* membarrier is the other half */
		seen = atomic_load_explicit(&m->map, memory_order_acquire);
		if (likely(seen == map))
			return map;
		map = seen;
	}
}

static inline void stack_map_leave(struct stack_modules *m, int slot)
{
	atomic_store_explicit(&m->slots[slot].map, NULL, memory_order_release);
}

const struct stack_range *stack_map_find(const struct stack_map *map, uint64_t pc);

/*
 * The rule for an ELF virtual address of the module's code, while the map is held. NULL: there is
 * none yet; the part is marked as wanted.
 */
const struct unwind_rule *stack_module_rule(const struct stack_modules *m,
					    struct stack_module *module, uint64_t address);

#endif
