/* layer: stack */
/*
 * bench_python_frames: the cost of a stack's Python frames: reading them, and reading them and
 * assigning ids, for stacks of distinct functions. Prints the 5th percentile of many short batches,
 * in nanoseconds per stack.
 *
 *	bench_python_frames [libpython…]	default: the newest that the loader finds
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "stack/python/python_code.h"
#include "python_library.h"

#define BATCH 200
#define BATCHES 400
#define FRAMES_MAX 128

static struct python_runtime runtime;
static struct python_codes *codes;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the picoseconds of one pass. */
static uint64_t measure(bool ids, unsigned *depth)
{
	static uint64_t times[BATCHES];
	struct python_frame frames[FRAMES_MAX];
	bool complete;

	for (unsigned i = 0; i < BATCHES; i++) {
		uint64_t start = clock_monotonic_ns();

		for (unsigned j = 0; j < BATCH; j++) {
			*depth = python_walk(&runtime, frames, FRAMES_MAX, &complete);
			if (ids)
				python_code_ids(codes, frames, *depth);
			__asm__ volatile("" : : "r"(frames) : "memory");
		}
		times[i] = (clock_monotonic_ns() - start) * 1000 / BATCH;
	}
	qsort(times, BATCHES, sizeof(times[0]), by_value);
	return times[BATCHES / 20];
}

static void *measure_method(void *self, void *unused)
{
	unsigned depth;
	uint64_t walk = measure(false, &depth), both = measure(true, &depth);

	(void)self;
	(void)unused;
	printf("%4u frames: walk %4llu.%01llu ns, with ids %4llu.%01llu ns\n", depth,
	       (unsigned long long)walk / 1000, (unsigned long long)walk / 100 % 10,
	       (unsigned long long)both / 1000, (unsigned long long)both / 100 % 10);
	return CALL(void *(*)(long), "PyLong_FromLong", 0);
}

static const char script[] = "for depth in 7, 18, 20, 50:\n"
			     "    space = {'call_0': measure}\n"
			     "    for i in range(1, depth):\n"
			     "        exec(f'def call_{i}(): return call_{i - 1}()', space)\n"
			     "    space[f'call_{depth - 1}']()\n";

int main(int argc, char **argv)
{
	static struct python_method method = { "measure", measure_method, METH_NOARGS_, NULL };
	struct error e = { 0 };

	if (!open_library(argc > 1 ? argv[1] : NULL)) {
		puts("skipped: no libpython here; give its path as argument");
		return argc > 1;
	}
	if (python_runtime_find(&runtime, &e) < 0) {
		printf("skipped: %s\n", e.text);
		return 0;
	}
	codes = python_codes_new(PYTHON_CODES_SLOTS, PYTHON_CODES_BYTES);
	if (!codes)
		return 1;
	python_codes_attach(codes, &runtime);
	return run_script(script, &method, 1);
}
