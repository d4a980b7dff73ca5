/*
 * modules.h: the executable modules of this process and their unwind rules, read by walkers on any
 * number of threads and updated by one thread.
 *
 * The collector calls stack_modules_update() now and then. It compares the dynamic linker's counts
 * of loaded and unloaded modules (dl_iterate_phdr) and, if they have changed, publishes a new map:
 * an immutable array of address ranges behind an atomic pointer. A range refers to a record of its
 * module, which has a cell for each part (unwind_parts.h) of its code. A walker that meets an empty
 * cell marks it as wanted and reads the rule itself (rule_lookup.h). The next update compiles the
 * part and stores it in the cell, where it stays unchanged as long as the module. Of a large
 * library only the few parts that stacks pass through are ever compiled. Call frame information is
 * copied before it is read, in a way that fails instead of faulting, because a module may be
 * unloaded at any time.
 *
 * Reclaiming: a walker owns a slot. It stores the map that it uses there, checks that the map is
 * still current, and clears the slot at the end. These are plain stores: after publishing, the
 * collector calls membarrier(2), which orders them on all running threads, and then frees old maps
 * that are in no slot. Without membarrier old maps are kept, up to a thousand. Parts are limited by
 * `bytes_max`; beyond it no parts are compiled.
 *
 * Limits without the dynamic linker's lock: when a module was replaced by another at the same
 * address, the old rules are used until the next update; and with glibc before 2.35, a module just
 * loaded is code without rules. Such a walk may read stale values, never unmapped memory; nearly
 * always it meets no return address and ends as truncated.
 */
#ifndef PITOT_STACK_UNWIND_MODULES_H
#define PITOT_STACK_UNWIND_MODULES_H

#include <stdatomic.h>

#include "elf/loaded_libraries.h"
#include "stack/unwind/stack_module.h"
#include "stack/unwind/unwind_parts.h"

#define STACK_WALKERS_MAX                                                                          \
	2112u /* slightly more than threads with rings plus sampled threads */
#define STACK_RULE_BYTES (64u << 20) /* recommended limit */

/* Content of a cell whose part is wanted and has not been compiled yet. */
extern struct unwind_part unwind_part_wanted;

struct stack_range {
	uint64_t start, end; /* executable */
	struct stack_module *module;
};

struct stack_map {
	uint64_t generation;
	struct stack_map *older; /* next retired map */
	size_t count;
	struct stack_range ranges[]; /* ascending */
};

struct module_build;

struct stack_modules {
	_Atomic(struct stack_map *) map;
	/* Used by the collector: */
	struct stack_map *retired;
	uint64_t generation;
	struct loaded_library_counts counts;
	size_t bytes_max;
	struct unwind_store store; /* also counts the bytes of parts */
	bool membarrier, scanned;
	struct module_build *build; /* in progress, or NULL */
	uint32_t next_part; /* next part of `build` */
	uint32_t rule_count;
	atomic_uint parts; /* number compiled */
	uint32_t failures; /* number of modules given up */
	uint64_t build_ns;
	/* Used by walkers: */
	struct unwind_rule *rules; /* by number; a published rule never changes */
	atomic_int slots_used; /* slots from this one on were never reserved */
	struct {
		_Alignas(64) _Atomic(struct stack_map *) map;
		atomic_bool used;
	} slots[STACK_WALKERS_MAX];
};

void stack_modules_init(struct stack_modules *m, size_t bytes_max); /* *m must be zeroed */
void stack_modules_release(struct stack_modules *m); /* no walker may exist */

/*
 * For the child of a fork: resets everything without freeing, because the collector may have been
 * in the middle of an update. Walkers lose their slots and must be initialised anew.
 */
void stack_modules_after_fork(struct stack_modules *m);

/*
 * Collector thread only. Follows dlopen and dlclose, and compiles parts for about budget_ns.
 * Returns 1 when there is more to compile, else 0; -ENOMEM: the old map stays valid.
 */
int stack_modules_update(struct stack_modules *m, uint64_t budget_ns);

/* --- for walkers --- */

/* Returns the number of a free slot, or -1. */
int stack_slot_reserve(struct stack_modules *m);
void stack_slot_release(struct stack_modules *m, int slot);

/* Returns the current map, valid until stack_map_leave(); NULL before the first update. */
static inline struct stack_map *stack_map_enter(struct stack_modules *m, int slot)
{
	struct stack_map *map = atomic_load_explicit(&m->map, memory_order_relaxed), *seen;

	for (;;) {
		atomic_store_explicit(&m->slots[slot].map, map, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst); /* pairs with membarrier */
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
 * Returns the rule for an ELF virtual address of the module's code while the map is entered. NULL:
 * not compiled yet; the part is marked as wanted.
 */
const struct unwind_rule *stack_module_rule(const struct stack_modules *m,
					    struct stack_module *module, uint64_t address);

#endif
