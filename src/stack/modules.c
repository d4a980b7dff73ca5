#include "stack/modules.h"

#include <elf.h>
#include <link.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/path.h"
#include "stack/module_build.h"
#include "stack/slow_rule.h"

#define MAPS_KEPT_MAX                                                                              \
	1000u /* without membarrier, that is for ever: then changes are no longer followed */
#define IDENTITY_BYTES 256u /* of .eh_frame_hdr: its first entries */

/* Modules through which launches go; how their file names begin. The executable is one of them too. */
static const char *const eager_names[] = { "libcuda.so", "libcupti.so", "libcudart.so",
					   "libtorch",   "libc10",      "libpython",
					   "libc.so",    "libpitot",    "libpthread" };

/* For modules of which nothing is said. */
static struct unwind_rule no_rules[2] = { { .cfa = CFA_NONE }, { .cfa = CFA_UNKNOWN } };
static struct unwind_table no_table = { .rules = no_rules };

void stack_modules_init(struct stack_modules *m, size_t bytes_max)
{
	slow_rule_init();
	m->bytes_max = bytes_max;
	m->membarrier =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* --- records and maps --- */

static struct unwind_table *table_of(const struct stack_module *module)
{
	return atomic_load_explicit(&module->table, memory_order_acquire);
}

static void drop_build(struct stack_modules *m)
{
	module_build_free(m->build);
	m->build = NULL;
}

static void module_put(struct stack_modules *m, struct stack_module *module)
{
	struct unwind_table *table = table_of(module);

	if (--module->references)
		return;
	if (m->build && module_build_of(m->build) == module)
		drop_build(m);
	if (table && table != &no_table) {
		m->bytes -= table->bytes;
		unwind_table_free(table);
	}
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
	size_t low = 0, high = map->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map->ranges[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low && pc < map->ranges[low - 1].end ? &map->ranges[low - 1] : NULL;
}

/* --- looking at what the dynamic linker has --- */

struct found {
	uint64_t start, end;
	struct stack_module said;
};

struct scan {
	struct found *found;
	size_t count, capacity; /* count may be more than fits */
	uint64_t adds, subs;
};

static bool is_eager(const char *name)
{
	const char *file = base_name(name);

	for (size_t i = 0; i < ARRAY_SIZE(eager_names); i++)
		if (strncmp(file, eager_names[i], strlen(eager_names[i])) == 0)
			return true;
	return !*name;
}

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

/* What is said of a module, with its identity. In dl_iterate_phdr's callback it cannot go away. */
static struct stack_module describe(const struct dl_phdr_info *info)
{
	struct stack_module module = { .bias = info->dlpi_addr, .base = UINT64_MAX };
	const char *name = info->dlpi_name ? info->dlpi_name : "";
	uint64_t hash = hash_bytes(name, strlen(name)) ^ hash_u64(info->dlpi_addr);

	module.eager = is_eager(name);
	hash = hash_u64(hash ^
			hash_bytes(info->dlpi_phdr, info->dlpi_phnum * sizeof(*info->dlpi_phdr)));
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i], *segment;

		if (p->p_type == PT_LOAD)
			module.base = MIN(module.base, p->p_vaddr & ~UINT64_C(4095));
		if (p->p_type != PT_GNU_EH_FRAME || !(segment = segment_of(info, p->p_vaddr)))
			continue;
		module.header = info->dlpi_addr + p->p_vaddr;
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

/* The record of a module, new or not, with one more reference. NULL: no memory. */
static struct stack_module *module_get(struct stack_modules *m, const struct stack_module *said,
				       const struct stack_map *so_far)
{
	struct stack_module *module = known_module(m, said->identity);

	if (so_far->count && so_far->ranges[so_far->count - 1].module->identity == said->identity)
		module = so_far->ranges[so_far->count - 1].module;
	if (!module) {
		module = malloc(sizeof(*module));
		if (!module)
			return NULL;
		*module = *said;
		if (!module->header)
			atomic_store_explicit(&module->table, &no_table, memory_order_relaxed);
	}
	module->references++;
	return module;
}

/* Allocates nothing: the dynamic linker's lock is held. */
static int add_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct scan *scan = context;
	struct stack_module said = describe(info);

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		if (scan->count < scan->capacity)
			scan->found[scan->count] =
				(struct found){ start, start + p->p_memsz, said };
		scan->count++;
	}
	return 0;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *context)
{
	struct scan *scan = context;

	(void)size;
	scan->adds = info->dlpi_adds;
	scan->subs = info->dlpi_subs;
	return 1; /* the first will do */
}

static bool counts_changed(const struct stack_modules *m)
{
	struct scan scan = { 0 };

	dl_iterate_phdr(read_counts, &scan);
	return !m->scanned || scan.adds != m->adds || scan.subs != m->subs;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* All executable segments, ascending; to be freed by the caller. */
static int look(struct scan *scan)
{
	*scan = (struct scan){ .capacity = 256 };
	for (;;) {
		scan->found = malloc(scan->capacity * sizeof(*scan->found));
		if (!scan->found)
			return -ENOMEM;
		scan->count = 0;
		dl_iterate_phdr(read_counts, scan);
		dl_iterate_phdr(add_module, scan);
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
	for (unsigned i = 0; i < STACK_WALKERS_MAX; i++)
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
		struct stack_module *module = module_get(m, &found->said, map);

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

	if (look(&scan) < 0)
		return -ENOMEM;
	map = map_new(m, &scan);
	free(scan.found);
	if (!map)
		return -ENOMEM;
	m->adds = scan.adds;
	m->subs = scan.subs;
	m->scanned = true;
	publish(m, map);
	return 0;
}

/* --- building --- */

/*
 * The module that is to get its table next: what stacks want first, and of those the smallest, so that most get theirs
 * before the 30 MB of a libtorch are done.
 */
static struct stack_module *next_module(struct stack_modules *m)
{
	struct stack_map *map = atomic_load_explicit(&m->map, memory_order_relaxed);
	struct stack_module *best[2] = { NULL, NULL }; /* wanted, eager */

	for (size_t i = 0; i < map->count; i++) {
		struct stack_module *module = map->ranges[i].module;
		bool wanted = atomic_load_explicit(&module->wanted, memory_order_relaxed);

		if (table_of(module) || module->given_up || (!wanted && !module->eager))
			continue;
		if (!best[!wanted] || module->header_size < best[!wanted]->header_size)
			best[!wanted] = module;
	}
	return best[0] ? best[0] : best[1];
}

/* The build has ended: r is its result. */
static void built(struct stack_modules *m, int r, struct unwind_table *table)
{
	struct stack_module *module = module_build_of(m->build);

	drop_build(m);
	if (counts_changed(m)) {
		/* What was copied may be half of one module and half of another: again, if it is still there. */
		unwind_table_free(table);
		return;
	}
	if (r < 0) {
		module->given_up = true;
		m->failures++;
		return;
	}
	m->bytes += table->bytes;
	m->tables++;
	atomic_store_explicit(&module->table, table, memory_order_release);
}

static int build_some(struct stack_modules *m, uint64_t deadline_ns)
{
	do {
		struct unwind_table *table = NULL;
		int r;

		if (!m->build) {
			struct stack_module *module = next_module(m);

			if (!module)
				return 0;
			m->build = module_build_new(module,
						    m->bytes_max - MIN(m->bytes, m->bytes_max));
			if (!m->build)
				return -ENOMEM;
		}
		r = module_build_step(m->build, deadline_ns, &table);
		if (r != 1)
			built(m, r, table);
		if (counts_changed(m))
			return 1;
	} while (clock_monotonic_ns() < deadline_ns);
	return 1;
}

int stack_modules_update(struct stack_modules *m, uint64_t budget_ns)
{
	uint64_t start = clock_monotonic_ns();
	int r = 0;

	if (counts_changed(m) && (m->membarrier || m->generation < MAPS_KEPT_MAX)) {
		r = rescan(m);
		if (r < 0 && !m->scanned)
			return r;
	}
	reclaim(m);
	if (r == 0)
		r = build_some(m, start + budget_ns);
	m->build_ns += clock_monotonic_ns() - start;
	return r;
}

/* --- walkers' slots --- */

int stack_slot_claim(struct stack_modules *m)
{
	for (int i = 0; i < (int)STACK_WALKERS_MAX; i++) {
		if (!atomic_load_explicit(&m->slots[i].used, memory_order_relaxed) &&
		    !atomic_exchange_explicit(&m->slots[i].used, true, memory_order_acquire))
			return i;
	}
	return -1;
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
}
