/* layer: causes */
/*
 * bench_causes: the cost of what waits for what, in nanoseconds of CPU time for each call and piece
 * of work: building the graph, the critical path, slack, turns of threads, and one simulation.
 *
 *	bench_causes [thousands of kernels]
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "causes/cause_path.h"
#include "causes/simulate.h"
#include "support/big_recording.h"
#include "support/temp_folder.h"

static void die(const char *what)
{
	fprintf(stderr, "bench_causes: %s\n", what);
	exit(1);
}

static uint64_t same(void *user, enum cost_of what, uint32_t task, enum edge_kind edge,
		     uint64_t recorded_ns)
{
	(void)user, (void)what, (void)task, (void)edge;
	return recorded_ns;
}

static uint64_t cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void show(const char *what, uint64_t *since_ns, size_t tasks)
{
	uint64_t now_ns = cpu_ns();

	printf("%-10s %6.1f ns a task\n", what, (double)(now_ns - *since_ns) / (double)tasks);
	*since_ns = cpu_ns();
}

static void measure(struct trace *t)
{
	uint8_t beside[1] = { 0 };
	uint64_t since_ns = cpu_ns();
	struct simulation s = { .cost = same };
	struct causes c;
	struct path path;
	uint32_t *turns, *slack;
	size_t tasks;

	if (causes_build(&c, t) < 0)
		die("no memory");
	tasks = causes_task_count(&c);
	printf("%zu tasks, %zu edges, %.1f bytes a task\n", tasks, c.edges.count,
	       (double)(tasks * sizeof(struct task) + c.edges.count * sizeof(struct task_edge)) /
		       (double)tasks);
	show("graph", &since_ns, tasks);
	if (path_find(&path, &c, NULL, 0, UINT64_MAX) < 0)
		die("no memory");
	show("path", &since_ns, tasks);
	slack = causes_slack(&c, UINT64_MAX);
	show("slack", &since_ns, tasks);
	turns = causes_turns(&c, beside);
	show("turns", &since_ns, tasks);
	s.causes = &c;
	s.turns = turns;
	if (!slack || !turns || simulate(s, 0, UINT64_MAX) == UINT64_MAX)
		die("no memory");
	show("simulation", &since_ns, tasks);
	free(slack);
	free(turns);
	path_release(&path);
	causes_release(&c);
}

int main(int argc, char **argv)
{
	uint64_t kernels = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * 1000;
	char *folder = temp_folder_make();
	struct trace_options options = { 0 };
	struct error e = { 0 };
	struct trace *t = NULL;
	char path[4096];

	snprintf(path, sizeof(path), "%s/big.pitot", folder);
	if (big_recording_make(path, kernels, 1, BIG_TRAIN, 1) < 0 ||
	    trace_open(path, &options, &t, &e) < 0 || causes_load(t, &e) < 0)
		die(e.text);
	measure(t);
	trace_free(t);
	temp_folder_remove(folder);
	return 0;
}
