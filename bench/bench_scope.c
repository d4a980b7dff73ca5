/* layer: capture */
/*
 * bench_scope: the cost of scopes and counters on the calling thread, in nanoseconds: the median of
 * BATCHES batches, each of which fits into half of a thread's ring. The collector drains the ring
 * between batches.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pitot/pitot.h"

#define BATCHES 41u
#define CALLS 7000u

static uint32_t name, counter;
static uint64_t sum;

static void one_clock(void)
{
	sum += clock_monotonic_ns();
}

static void one_tsc(void)
{
	sum += __builtin_ia32_rdtsc();
}

/* What calls into a library cost here. */
static void two_calls(void)
{
	pitot_version();
	pitot_version();
}

static void one_scope(void)
{
	pitot_scope_begin("forward pass");
	pitot_scope_end();
}

static void one_scope_by_name(void)
{
	pitot_scope_begin_name(name);
	pitot_scope_end();
}

static void one_addition(void)
{
	pitot_counter_add(counter, 1);
}

static void one_addition_in_a_scope(void)
{
	pitot_scope_begin_name(name);
	pitot_counter_add(counter, 1);
	pitot_scope_end();
}

static void one_gauge(void)
{
	pitot_gauge(counter, 0.5);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(const char *what, void (*one)(void))
{
	struct timespec pause = { .tv_nsec = (long)(5 * NS_PER_MS) };
	double ns[BATCHES];

	for (unsigned batch = 0; batch < BATCHES; batch++) {
		uint64_t begun = clock_monotonic_ns();

		for (unsigned i = 0; i < CALLS; i++)
			one();
		ns[batch] = (double)(clock_monotonic_ns() - begun) / CALLS;
		nanosleep(&pause, NULL);
	}
	qsort(ns, BATCHES, sizeof(*ns), compare);
	printf("%-44s %6.1f ns (lowest %.1f)\n", what, ns[BATCHES / 2], ns[0]);
}

int main(void)
{
	char folder[] = "/tmp/bench-scope-XXXXXX", command[64];

	name = pitot_name("forward pass");
	counter = pitot_counter("tokens", "tokens", "");
	measure("clock_gettime", one_clock);
	measure("rdtsc", one_tsc);
	measure("two calls that do nothing", two_calls);
	measure("not recording: begin and end", one_scope);
	measure("not recording: begin and end, by name id", one_scope_by_name);
	measure("not recording: addition", one_addition);
	if (!mkdtemp(folder))
		return 1;
	setenv("PITOT_RECORDING", folder, 1);
	setenv("PITOT_OPTIONS", "cuda=0", 1);
	if (pitot_init(NULL) < 1)
		return 1;
	measure("recording: begin and end", one_scope);
	measure("recording: begin and end, by name id", one_scope_by_name);
	measure("recording: addition", one_addition);
	measure("recording: begin by name id, addition, end", one_addition_in_a_scope);
	measure("recording: gauge", one_gauge);
	pitot_shutdown();
	snprintf(command, sizeof(command), "rm -r %s", folder);
	return system(command) != 0 || sum == 0;
}
