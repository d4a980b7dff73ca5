#include "stack/unwind/modules.h"

#include <elf.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/reserve.h"
#include "base/search.h"
#include "stack/unwind/module_build.h"
#include "stack/unwind/rule_lookup.h"

#define MAPS_KEPT_MAX 1000u /* without membarrier maps are never freed: later changes are ignored */
#define IDENTITY_BYTES 256u /* bytes of .eh_frame_hdr that are hashed: its first entries */

#define PART_BYTES (UINT64_C(1) << UNWIND_PART_SHIFT)
#define RULE_BYTES_MAX (UNWIND_STORE_RULES_MAX * sizeof(struct unwind_rule))

struct unwind_part unwind_part_wanted;

void stack_modules_init(struct stack_modules *m, size_t bytes_max)
{
	rule_lookup_init();
	m->bytes_max = bytes_max;
	m->membarrier =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* --- records and maps --- */

static size_t cell_bytes(const struct stack_module *module)
{
	return module->part_count * sizeof(*module->parts);
}

static void drop_build(struct stack_modules *m)
{
	module_build_free(m->build);
	m->build = NULL;
}

static void module_put(struct stack_modules *m, struct stack_module *module)
{
	if (--module->references)
		return;
	if (m->build && module_build_of(m->build) == module)
		drop_build(m);
	for (uint32_t i = 0; i < module->part_count; i++) {
		struct unwind_part *part =
			atomic_load_explicit(&module->parts[i], memory_order_relaxed);

		if (part != &unwind_part_wanted)
			unwind_part_free(&m->store, part);
	}
	m->store.bytes -= cell_bytes(module);
	free(module->parts);
	free(module);
}

static void map_free(struct stack_modules *m, struct stack_map *map)
{
	if (!map)
		return;
	for (size_t i = 0; i < map->count; i++)
		module_put(m, map->ranges[i].module);
	free(map);
}

const struct stack_range *stack_map_find(const struct stack_map *map, uint64_t pc)
{
	size_t after = sorted_prefix(map->count, i, map->ranges[i].start <= pc);

	return after && pc < map->ranges[after - 1].end ? &map->ranges[after - 1] : NULL;
}

const struct unwind_rule *stack_module_rule(const struct stack_modules *m,
					    struct stack_module *module, uint64_t address)
{
	uint64_t offset = address - module->code_start;
	struct unwind_part *part = NULL;
	_Atomic(struct unwind_part *) *cell;

	if (offset >> UNWIND_PART_SHIFT >= module->part_count)
		return NULL;
	cell = &module->parts[offset >> UNWIND_PART_SHIFT];
	if (!atomic_load_explicit(cell, memory_order_relaxed) &&
	    atomic_compare_exchange_strong(cell, &part, &unwind_part_wanted))
		atomic_store_explicit(&module->wanted, true, memory_order_release);
	part = atomic_load_explicit(cell, memory_order_acquire);
	return part == &unwind_part_wanted ? NULL : &m->rules[unwind_part_rule(part, offset)];
}

/* --- modules of the dynamic linker --- */

struct found {
	uint64_t start, end;
	struct stack_module module;
};

struct scan {
	struct found *found;
	size_t count, capacity; /* count may exceed capacity */
	struct loaded_library_counts counts;
};

static const ElfW(Phdr) * segment_of(const struct dl_phdr_info *info, uint64_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && address >= p->p_vaddr &&
		    address - p->p_vaddr < p->p_filesz)
			return p;
	}
	return NULL;
}

/* Describes a module, without cells. It cannot be unloaded while libraries are visited. */
static struct stack_module describe(const struct dl_phdr_info *info)
{
	struct stack_module module = { .bias = info->dlpi_addr, .code_start = UINT64_MAX };
	const char *name = info->dlpi_name ? info->dlpi_name : "";
	uint64_t hash = hash_bytes(name, strlen(name)) ^ hash_u64(info->dlpi_addr);

	hash = hash_u64(hash ^
			hash_bytes(info->dlpi_phdr, info->dlpi_phnum * sizeof(*info->dlpi_phdr)));
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i], *segment;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
			module.code_start = MIN(module.code_start, p->p_vaddr);
			module.code_end = MAX(module.code_end, p->p_vaddr + p->p_memsz);
		}
		if (p->p_type != PT_GNU_EH_FRAME || !(segment = segment_of(info, p->p_vaddr)))
			continue;
		module.header = info->dlpi_addr + p->p_vaddr;
		module.segment_start = info->dlpi_addr + segment->p_vaddr;
		module.segment_end = info->dlpi_addr + segment->p_vaddr + segment->p_filesz;
		module.header_size = MIN(p->p_filesz, module.segment_end - module.header);
		hash ^= hash_bytes((const void *)module.header,
				   MIN(module.header_size, IDENTITY_BYTES));
	}
	module.identity = hash_u64(hash);
	return module;
}

static struct stack_module *known_module(struct stack_modules *m, uint64_t identity)
{
	struct stack_map *map = atomic_load_explicit(&m->map, memory_order_relaxed);

	for (size_t i = 0; map && i < map->count; i++)
		if (map->ranges[i].module->identity == identity)
			return map->ranges[i].module;
	return NULL;
}

/* Modules without .eh_frame_hdr have no cells; nor have modules for which there is no room. */
static struct stack_module *module_new(struct stack_modules *m,
				       const struct stack_module *described)
{
	uint64_t length = MIN(described->code_end - described->code_start, (uint64_t)UINT32_MAX);
	struct stack_module *module = malloc(sizeof(*module));

	if (!module)
		return NULL;
	*module = *described;
	if (!module->header)
		return module;
	module->part_count = (uint32_t)((length + PART_BYTES - 1) >> UNWIND_PART_SHIFT);
	module->parts = calloc(module->part_count, sizeof(*module->parts));
	if (!module->parts || !unwind_store_reserve(&m->store, cell_bytes(module)))
		module->part_count = 0;
	return module;
}

/* Returns the record of a module, new or existing, with one more reference; NULL without memory. */
static struct stack_module *module_get(struct stack_modules *m,
				       const struct stack_module *described,
				       const struct stack_map *so_far)
{
	struct stack_module *module = known_module(m, described->identity);

	if (so_far->count &&
	    so_far->ranges[so_far->count - 1].module->identity == described->identity)
		module = so_far->ranges[so_far->count - 1].module;
	if (!module) {
		module = module_new(m, described);
		if (!module)
			return NULL;
	}
	module->references++;
	return module;
}

/* Must not allocate, because the dynamic linker's lock is held. */
static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct scan *scan = context;
	struct stack_module module = describe(info);

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		if (scan->count < scan->capacity)
			scan->found[scan->count] =
				(struct found){ start, start + p->p_memsz, module };
		scan->count++;
	}
	return 0;
}

static bool counts_changed(const struct stack_modules *m)
{
	struct loaded_library_counts now = loaded_library_counts();

	return !m->scanned || now.adds != m->counts.adds || now.subs != m->counts.subs;
}

ORDER(compare_found, struct found, UP(start))

/* Lists all executable segments in ascending order. The caller frees them. */
static int scan_modules(struct scan *scan)
{
	*scan = (struct scan){ .capacity = 256 };
	for (;;) {
		scan->found = malloc(scan->capacity * sizeof(*scan->found));
		if (!scan->found)
			return -ENOMEM;
		scan->count = 0;
		scan->counts = loaded_library_counts();
		loaded_libraries_visit(add_module, scan);
		if (scan->count <= scan->capacity)
			break;
		scan->capacity = scan->count + 64;
		free(scan->found);
	}
	qsort(scan->found, scan->count, sizeof(*scan->found), compare_found);
	return 0;
}

/* --- publishing and reclaiming --- */

static bool in_use(const struct stack_modules *m, const struct stack_map *map)
{
	int used = atomic_load(&m->slots_used);

	for (int i = 0; i < used; i++)
		if (atomic_load_explicit(&m->slots[i].map, memory_order_acquire) == map)
			return true;
	return false;
}

static void reclaim(struct stack_modules *m)
{
	struct stack_map **link = &m->retired;

	if (!*link || !m->membarrier ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
		return;
	while (*link) {
		struct stack_map *map = *link;

		if (in_use(m, map)) {
			link = &map->older;
		} else {
			*link = map->older;
			map_free(m, map);
		}
	}
}

static void publish(struct stack_modules *m, struct stack_map *map)
{
	struct stack_map *old = atomic_load_explicit(&m->map, memory_order_relaxed);

	map->generation = ++m->generation;
	atomic_store(&m->map, map);
	if (old) {
		old->older = m->retired;
		m->retired = old;
	}
}

static struct stack_map *map_new(struct stack_modules *m, const struct scan *scan)
{
	struct stack_map *map = malloc(sizeof(*map) + scan->count * sizeof(struct stack_range));

	if (!map)
		return NULL;
	for (map->count = 0; map->count < scan->count; map->count++) {
		const struct found *found = &scan->found[map->count];
		struct stack_module *module = module_get(m, &found->module, map);

		if (!module) {
			map_free(m, map);
			return NULL;
		}
		map->ranges[map->count] = (struct stack_range){ found->start, found->end, module };
	}
	return map;
}

static int rescan(struct stack_modules *m)
{
	struct stack_map *map;
	struct scan scan;

	if (scan_modules(&scan) < 0)
		return -ENOMEM;
	map = map_new(m, &scan);
	free(scan.found);
	if (!map)
		return -ENOMEM;
	m->counts = scan.counts;
	m->scanned = true;
	publish(m, map);
	return 0;
}

/* --- compiling --- */

/* Returns a module with wanted parts. Parts that become wanted later mark it again. */
static struct stack_module *next_module(struct stack_modules *m)
{
	struct stack_map *map = atomic_load_explicit(&m->map, memory_order_relaxed);

	for (size_t i = 0; i < map->count; i++) {
		struct stack_module *module = map->ranges[i].module;

		if (!module->given_up &&
		    atomic_load_explicit(&module->wanted, memory_order_relaxed) &&
		    atomic_exchange_explicit(&module->wanted, false, memory_order_acquire))
			return module;
	}
	return NULL;
}

/* Copies the store's new rules to where walkers read them. */
static void publish_rules(struct stack_modules *m)
{
	size_t count = m->store.rules.count;

	m->store.bytes += (count - m->rule_count) * sizeof(*m->rules);
	for (; m->rule_count < count; m->rule_count++)
		m->rules[m->rule_count] = *unwind_store_rule(&m->store, m->rule_count);
}

/* Without memory for rules the store has no room, so no part is compiled. */
static void prepare_rules(struct stack_modules *m)
{
	struct unwind_rule *rules = reserve_memory(RULE_BYTES_MAX);

	if (!rules)
		return;
	if (unwind_store_init(&m->store, m->bytes_max) < 0) {
		m->store.bytes_max = 0;
		munmap(rules, RULE_BYTES_MAX);
		return;
	}
	m->rules = rules;
}

/* Aborts the build and marks its module again, so that it is repeated. */
static void stop_build(struct stack_modules *m)
{
	if (m->build)
		atomic_store(&module_build_of(m->build)->wanted, true);
	drop_build(m);
}

static void give_up(struct stack_modules *m, struct stack_module *module)
{
	module->given_up = true;
	m->failures++;
	drop_build(m);
}

/*
 * Compiles a part. Returns false when modules have come or gone, because the copies may be mixed
 * from two modules. The part is compiled again if its module still exists.
 */
static bool compile_part(struct stack_modules *m, struct stack_module *module, uint32_t number)
{
	struct unwind_part *part = module_build_part(m->build, number);

	if (counts_changed(m)) {
		unwind_part_free(&m->store, part);
		return false;
	}
	if (!part) {
		give_up(m, module);
		return true;
	}
	publish_rules(m);
	atomic_fetch_add_explicit(&m->parts, 1, memory_order_relaxed);
	atomic_store_explicit(&module->parts[number], part, memory_order_release);
	return true;
}

/* Returns 1 when the time is up, 0 when no part of the current module is wanted any more. */
static int compile_wanted(struct stack_modules *m, uint64_t deadline_ns)
{
	struct stack_module *module = module_build_of(m->build);
	bool all = module_build_reads_all(m->build);

	for (; m->build && m->next_part < module->part_count; m->next_part++) {
		const struct unwind_part *part = atomic_load(&module->parts[m->next_part]);

		if (part != &unwind_part_wanted && (part || !all))
			continue;
		if (clock_monotonic_ns() >= deadline_ns)
			return 1;
		if (!compile_part(m, module, m->next_part)) {
			stop_build(m);
			return 1;
		}
	}
	drop_build(m);
	return 0;
}

static int compile_some(struct stack_modules *m, uint64_t deadline_ns)
{
	struct stack_module *module;

	for (;;) {
		if (!m->build) {
			module = next_module(m);
			if (!module)
				return 0;
			m->build = module_build_new(module, &m->store);
			m->next_part = 0;
			if (!m->build) {
				give_up(m, module);
				continue;
			}
		}
		if (compile_wanted(m, deadline_ns))
			return 1;
	}
}

int stack_modules_update(struct stack_modules *m, uint64_t budget_ns)
{
	uint64_t start = clock_monotonic_ns();
	int rc = 0;

	if (!m->rules)
		prepare_rules(m);
	if (counts_changed(m)) {
		stop_build(m);
		if (!m->membarrier && m->generation >= MAPS_KEPT_MAX)
			return 0;
		rc = rescan(m);
		if (rc < 0 && !m->scanned)
			return rc;
	}
	reclaim(m);
	if (rc == 0)
		rc = compile_some(m, start + budget_ns);
	m->build_ns += clock_monotonic_ns() - start;
	return rc;
}

/* --- walkers' slots --- */

int stack_slot_reserve(struct stack_modules *m)
{
	int used = atomic_load(&m->slots_used), i = 0;

	while (i < (int)STACK_WALKERS_MAX &&
	       (atomic_load_explicit(&m->slots[i].used, memory_order_relaxed) ||
		atomic_exchange_explicit(&m->slots[i].used, true, memory_order_acquire)))
		i++;
	if (i == (int)STACK_WALKERS_MAX)
		return -1;
	while (used <= i && !atomic_compare_exchange_weak(&m->slots_used, &used, i + 1))
		;
	return i;
}

void stack_slot_release(struct stack_modules *m, int slot)
{
	if (slot < 0)
		return;
	stack_map_leave(m, slot);
	atomic_store_explicit(&m->slots[slot].used, false, memory_order_release);
}

void stack_modules_after_fork(struct stack_modules *m)
{
	size_t bytes_max = m->bytes_max;

	memset(m, 0, sizeof(*m));
	stack_modules_init(m, bytes_max);
}

void stack_modules_release(struct stack_modules *m)
{
	drop_build(m);
	while (m->retired) {
		struct stack_map *map = m->retired;

		m->retired = map->older;
		map_free(m, map);
	}
	map_free(m, atomic_exchange(&m->map, NULL));
	m->scanned = false;
	unwind_store_release(&m->store);
	if (m->rules)
		munmap(m->rules, RULE_BYTES_MAX);
	m->rules = NULL;
	m->rule_count = 0;
	m->store = (struct unwind_store){ 0 };
}
