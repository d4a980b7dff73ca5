/* layer: stack */
/*
 * bench_stack: the cost of a call stack, compared with glibc's backtrace() and libunwind's
 * unw_backtrace() in the same run, and of compiling the unwind tables of a large module.
 *
 *	bench_stack [LIBRARY…]
 */
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>

#include "base/clock.h"
#include "elf/elf_file.h"
#include "stack/intern.h"
#include "stack/unwind/unwind_parts.h"
#include "stack/unwind/unwind_self.h"

#define BATCHES 201
#define STACKS_A_BATCH 200
#define FRAMES_MAX 256u

static struct stack_modules modules, bare_modules;
static struct stack_walker walker, bare_walker;
static struct stack_interner interner;
static int (*libunwind_backtrace)(void **, int);
static uint64_t frames[FRAMES_MAX];
static unsigned frame_count;

static bool on_new_stack(void *context, uint32_t id, const uint64_t *stack, unsigned count,
			 enum stack_end end)
{
	(void)context;
	(void)stack;
	return id + count + end > 0;
}

static void by_tables(void)
{
	struct stack_registers registers;
	enum stack_end end;

	STACK_CAPTURE(&registers);
	frame_count = stack_walk(&walker, &registers, frames, FRAMES_MAX, &end);
}

static void by_tables_interned(void)
{
	struct stack_registers registers;
	enum stack_end end;

	STACK_CAPTURE(&registers);
	frame_count = stack_walk(&walker, &registers, frames, FRAMES_MAX, &end);
	stack_intern(&interner, frames, frame_count, end, on_new_stack, NULL);
}

/* Forgets the last walk: each frame is unwound by its cached rule. */
static void by_tables_alone(void)
{
	walker.seen_count = 0;
	by_tables();
}

/* Walks from a different depth each time, so that the innermost frames move. */
__attribute__((noinline)) static void by_tables_moving(void)
{
	static unsigned calls;
	volatile char *room = alloca(16 + 48 * (++calls % 7));

	room[0] = 1;
	by_tables();
	room[0]++;
}

static void by_cold_tables(void)
{
	walker.generation = 0; /* empties the cache */
	by_tables();
}

/* Reads each rule from .eh_frame: the cost of a thread's first stack while nothing is compiled. */
static void by_no_tables(void)
{
	struct stack_registers registers;
	enum stack_end end;

	bare_walker.generation = 0;
	STACK_CAPTURE(&registers);
	frame_count = stack_walk(&bare_walker, &registers, frames, FRAMES_MAX, &end);
}

static void by_glibc(void)
{
	frame_count = (unsigned)backtrace((void **)frames, FRAMES_MAX);
}

static void by_libunwind(void)
{
	frame_count = (unsigned)libunwind_backtrace((void **)frames, FRAMES_MAX);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct method {
	const char *name;
	void (*walk)(void);
	double ns[BATCHES];
	double median[3];
	unsigned frames[3];
};

static struct method methods[] = {
	{ .name = "tables", .walk = by_tables },
	{ .name = "tables, interned", .walk = by_tables_interned },
	{ .name = "tables, from another depth", .walk = by_tables_moving },
	{ .name = "tables, last stack forgotten", .walk = by_tables_alone },
	{ .name = "tables, nothing cached", .walk = by_cold_tables },
	{ .name = "no tables, nothing cached", .walk = by_no_tables },
	{ .name = "glibc backtrace()", .walk = by_glibc },
	{ .name = "libunwind unw_backtrace()", .walk = by_libunwind },
};

static void measure_batch(struct method *m, int batch)
{
	int stacks = m->walk == by_no_tables ? 1 : STACKS_A_BATCH;
	uint64_t start;

	m->walk(); /* warms up the caches after the previous method */
	start = clock_monotonic_ns();
	for (int i = 0; i < stacks; i++)
		m->walk();
	m->ns[batch] = (double)(clock_monotonic_ns() - start) / stacks;
}

/* Measures all methods in turn, so that a temporarily slow machine affects all of them. */
static void measure(int which)
{
	by_cold_tables();
	while (stack_modules_update(&modules, NS_PER_S) > 0)
		;
	for (int batch = 0; batch < BATCHES; batch++)
		for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
			if (methods[i].walk != by_libunwind || libunwind_backtrace)
				measure_batch(&methods[i], batch);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (methods[i].walk == by_libunwind && !libunwind_backtrace)
			continue;
		methods[i].walk();
		methods[i].frames[which] = frame_count;
		qsort(methods[i].ns, BATCHES, sizeof(double), compare);
		methods[i].median[which] = methods[i].ns[BATCHES / 2];
	}
}

/*
 * Distinct functions, with and without saved registers, so that caches and branch prediction are
 * not unrealistically good.
 */
#define LEVEL(name, next, room)                                                                    \
	__attribute__((noinline)) static void name(int depth, int which)                           \
	{                                                                                          \
		volatile char bytes[room];                                                         \
		bytes[0] = 1;                                                                      \
		next(depth - 1, which);                                                            \
		bytes[0] = (char)(bytes[0] + depth);                                               \
	}

static void descend(int depth, int which);
LEVEL(level_7, descend, 40)
LEVEL(level_6, level_7, 100)
LEVEL(level_5, level_6, 8)
LEVEL(level_4, level_5, 300)
LEVEL(level_3, level_4, 24)
LEVEL(level_2, level_3, 1000)
LEVEL(level_1, level_2, 16)

__attribute__((noinline)) static void descend(int depth, int which)
{
	volatile char *bytes = alloca((size_t)MAX(depth, 1)); /* makes its CFA depend on rbp */

	bytes[0] = 1;
	if (depth >= 8)
		level_1(depth - 1, which);
	else if (depth > 0)
		descend(depth - 1, which);
	else
		measure(which);
	bytes[0] = (char)(bytes[0] + depth);
}

static void report(void)
{
	static const int depths[] = { 7, 20, 50 };

	for (int which = 0; which < 3; which++)
		descend(MAX(0, depths[which] - 6), which);
	printf("ns per stack, median (frames)%16s%14s%14s\n", "7", "20", "50");
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		printf("%-36s", methods[i].name);
		for (int which = 0; which < 3; which++)
			printf("%9.0f (%2u)", methods[i].median[which], methods[i].frames[which]);
		printf("\n");
	}
}

static void report_parts(const char *path)
{
	struct unwind_input input = { 0 };
	struct unwind_parts *parts;
	struct unwind_store store;
	struct elf_file file;
	uint64_t start;
	volatile uint8_t sum = 0;

	if (elf_file_open(path, &file, NULL) < 0 || elf_unwind_input(&file, &input) < 0 ||
	    unwind_store_init(&store, SIZE_MAX) < 0)
		return;
	for (size_t i = 0; i < input.section.size; i += 4096)
		sum = (uint8_t)(sum + input.section.bytes[i]);
	start = clock_monotonic_ns();
	if (unwind_parts_new(&input, elf_code_end(&file), NULL, NULL, &store, &parts) == 0) {
		size_t rows = 0;

		for (uint32_t i = 0; i < parts->part_count; i++) {
			unwind_parts_find(parts, parts->base + ((uint64_t)i << UNWIND_PART_SHIFT));
			rows += parts->parts[i] ? parts->parts[i]->count : 0;
		}
		printf("%s: all %u parts: %zu rows, %zu rules, compiled in %.1f ms\n", path,
		       parts->part_count, rows, store.rules.count,
		       (double)(clock_monotonic_ns() - start) / 1e6);
		unwind_parts_free(parts);
	}
	unwind_store_release(&store);
	elf_file_release(&file);
}

int main(int argc, char **argv)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW), *unwind = dlopen("libunwind.so.8", RTLD_NOW);

	stack_modules_init(&modules, STACK_RULE_BYTES);
	stack_modules_update(&modules, NS_PER_S);
	stack_modules_init(&bare_modules, 1); /* no rules fit */
	stack_modules_update(&bare_modules, NS_PER_S);
	if (!libc || !stack_walker_init(&walker, &modules) ||
	    !stack_walker_init(&bare_walker, &bare_modules) ||
	    stack_interner_init(&interner, 1u << 16, 0) < 0)
		return 1;
	*(void **)&libunwind_backtrace = unwind ? dlsym(unwind, "unw_backtrace") : NULL;
	report();
	for (int i = 1; i < argc; i++)
		report_parts(argv[i]);
	return 0;
}
