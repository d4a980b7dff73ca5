/* layer: stack */
/*
 * bench_stack: what a call stack costs, against glibc's backtrace() and libunwind's unw_backtrace() in the same
 * run, and what building the table of a large module costs.
 *
 *	bench_stack [LIBRARY…]
 */
#include <alloca.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "stack/elf_sections.h"
#include "stack/intern.h"
#include "stack/walk.h"

#define BATCHES 201
#define STACKS_A_BATCH 200
#define FRAMES_MAX 256u

static struct stack_modules modules;
static struct stack_walker walker;
static struct stack_interner interner;
static int (*libunwind_backtrace)(void **, int);
static uint64_t frames[FRAMES_MAX];
static unsigned frame_count;

static bool take(void *context, uint32_t id, const uint64_t *stack, unsigned count,
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
	stack_intern(&interner, frames, frame_count, end, take, NULL);
}

/* Without what the last walk left behind: each frame by its cached rule. */
static void by_tables_alone(void)
{
	walker.seen_count = 0;
	by_tables();
}

/* From another depth each time, so that the innermost frames lie elsewhere. */
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

static double measured;

static void measure(void (*walk)(void))
{
	static double ns[BATCHES];

	walk();
	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t start = clock_monotonic_ns();

		for (int i = 0; i < STACKS_A_BATCH; i++)
			walk();
		ns[batch] = (double)(clock_monotonic_ns() - start) / STACKS_A_BATCH;
	}
	qsort(ns, BATCHES, sizeof(ns[0]), compare);
	measured = ns[BATCHES / 2];
}

/* Distinct functions, with and without saved registers, so that neither cache nor branches have it too easy. */
#define LEVEL(name, next, room)                                                                    \
	__attribute__((noinline)) static void name(int depth, void (*walk)(void))                  \
	{                                                                                          \
		volatile char bytes[room];                                                         \
		bytes[0] = 1;                                                                      \
		next(depth - 1, walk);                                                             \
		bytes[0] = (char)(bytes[0] + depth);                                               \
	}

static void descend(int depth, void (*walk)(void));
LEVEL(level_7, descend, 40)
LEVEL(level_6, level_7, 100)
LEVEL(level_5, level_6, 8)
LEVEL(level_4, level_5, 300)
LEVEL(level_3, level_4, 24)
LEVEL(level_2, level_3, 1000)
LEVEL(level_1, level_2, 16)

__attribute__((noinline)) static void descend(int depth, void (*walk)(void))
{
	volatile char *bytes = alloca((size_t)MAX(depth, 1)); /* its CFA is found through rbp */

	bytes[0] = 1;
	if (depth >= 8)
		level_1(depth - 1, walk);
	else if (depth > 0)
		descend(depth - 1, walk);
	else
		measure(walk);
	bytes[0] = (char)(bytes[0] + depth);
}

static void report(const char *what, void (*walk)(void))
{
	static const int depths[] = { 7, 20, 50 };

	printf("%-36s", what);
	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		descend(MAX(0, depths[i] - 6), walk);
		printf("%9.0f (%2u)", measured, frame_count);
	}
	printf("\n");
}

static void report_table(const char *path)
{
	struct unwind_input input = { 0 };
	struct unwind_table *table;
	uint64_t start;
	struct stat st;
	uint8_t *bytes;
	volatile uint8_t sum = 0;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	if (bytes == MAP_FAILED || elf_unwind_input(bytes, (size_t)st.st_size, &input) < 0)
		return;
	input.bytes_max = SIZE_MAX;
	for (size_t i = 0; i < input.section.size; i += 4096)
		sum = (uint8_t)(sum + input.section.bytes[i]);
	start = clock_monotonic_ns();
	if (unwind_table_build(&input, &table) == 0) {
		printf("%s: %u rows of %.2f bytes, %u rules, built in %.1f ms\n", path,
		       table->row_count, (double)table->bytes / table->row_count, table->rule_count,
		       (double)(clock_monotonic_ns() - start) / 1e6);
		unwind_table_free(table);
	}
	munmap(bytes, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW), *unwind = dlopen("libunwind.so.8", RTLD_NOW);
	int more;

	stack_modules_init(&modules, STACK_TABLE_BYTES);
	do
		more = stack_modules_update(&modules, NS_PER_S);
	while (more > 0);
	if (!libc || !stack_walker_init(&walker, &modules) ||
	    stack_interner_init(&interner, 1u << 16) < 0)
		return 1;
	*(void **)&libunwind_backtrace = unwind ? dlsym(unwind, "unw_backtrace") : NULL;
	printf("ns a stack, median (frames)%34s%14s%14s\n", "7", "20", "50");
	report("tables", by_tables);
	report("tables, interned", by_tables_interned);
	report("tables, from another depth", by_tables_moving);
	report("tables, no stack remembered", by_tables_alone);
	report("tables, nothing cached", by_cold_tables);
	report("glibc backtrace()", by_glibc);
	if (libunwind_backtrace)
		report("libunwind unw_backtrace()", by_libunwind);
	for (int i = 1; i < argc; i++)
		report_table(argv[i]);
	return 0;
}
