/*
 * big_recording.c: recordings of any size.
 *
 * A host thread launches with gaps of 6 to 12 us. A kernel starts about 3 us after its launch has
 * returned, but not before the previous kernel in its stream has ended. Durations are log-normal,
 * 1.5 to 40 us.
 */
#include "support/big_recording.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "support/big_stacks.h"
#include "support/kernel_names.h"
#include "support/make_recording.h"

#define STEP_KERNELS 1656 /* kernels of one training step of a small transformer encoder */
#define GRAPH_NODES 300
#define THREADS 4
#define FIRST_STREAM 7
#define LOST_BURST 1000

struct generator {
	struct maker *m;
	uint64_t random;
	uint64_t start_ns;
	uint64_t correlation;
	uint64_t kernels_left;
	uint64_t host_ns[THREADS]; /* current time of each thread */
	uint64_t ready_ns[THREADS]; /* when each stream becomes free */
	uint64_t next_second_ns;
	uint64_t launches;
	uint32_t thread; /* the next caller, with a thread for each launch; else 0 */
	uint64_t made; /* kernel launches, including lost ones */
	uint32_t lost_percent;
	uint32_t pid;
	uint32_t configs[KERNEL_NAMES];
	struct big_stacks stacks;
};

/* splitmix64 */
static uint64_t random_u64(struct generator *g)
{
	uint64_t z = g->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t random_between(struct generator *g, uint64_t least, uint64_t greatest)
{
	return least + random_u64(g) % (greatest - least + 1);
}

static uint64_t random_duration(struct generator *g)
{
	double a = (double)(random_u64(g) >> 11) * 0x1p-53 + 0x1p-54,
	       b = (double)(random_u64(g) >> 11) * 0x1p-53;
	double normal = sqrt(-2 * log(a)) * cos(6.283185307179586 * b);

	return (uint64_t)fmin(fmax(4500 * exp(0.8 * normal), 1500), 40000);
}

static uint32_t thread_id(const struct generator *g, unsigned thread)
{
	return g->thread ? g->thread : g->pid + thread;
}

static uint32_t stream_id(unsigned stream)
{
	return stream == 0 ? FIRST_STREAM : 12 + stream;
}

/* The next call's correlation id. Ids are skipped, as if other calls were not recorded. */
static uint64_t next_correlation(struct generator *g)
{
	return g->correlation += random_between(g, 1, 3);
}

/* Returns when work requested at `asked_ns` that takes duration_ns begins in a stream. */
static uint64_t enqueue(struct generator *g, unsigned stream, uint64_t asked_ns,
			uint64_t duration_ns)
{
	uint64_t start = MAX(asked_ns + random_between(g, 2600, 3400),
			     g->ready_ns[stream] + random_between(g, 700, 1300));

	g->ready_ns[stream] = start + duration_ns;
	return start;
}

/* Makes one call of a thread and advances host_ns to its end. Returns its correlation id. */
static uint64_t call(struct generator *g, unsigned thread, enum maker_function function,
		     uint64_t duration_ns)
{
	uint64_t start = g->host_ns[thread], correlation = next_correlation(g);

	g->host_ns[thread] = start + duration_ns;
	if (function == MAKER_LAUNCH && g->made++ / LOST_BURST % 100 < g->lost_percent)
		return correlation;
	if (g->stacks.count)
		g->m->stack = big_stacks_next(&g->stacks, random_u64(g));
	maker_call(g->m, function, thread_id(g, thread), start, g->host_ns[thread], correlation);
	g->launches++;
	return correlation;
}

static void launch(struct generator *g, unsigned thread, unsigned stream, uint32_t config)
{
	uint64_t gap = random_between(g, 6000, 12000), took = random_between(g, 2000, 3200);
	uint64_t correlation = call(g, thread, MAKER_LAUNCH, took), duration = random_duration(g);
	uint64_t start = enqueue(g, stream, g->host_ns[thread], duration);

	maker_kernel(g->m, config, stream_id(stream), start, start + duration, correlation);
	g->host_ns[thread] += gap - took;
	g->kernels_left--;
}

static void copy(struct generator *g, unsigned stream, enum copy_kind kind, uint64_t bytes)
{
	uint64_t correlation = call(g, 0, MAKER_MEMCPY, random_between(g, 3000, 6000));
	uint64_t duration = 900 + (kind == copy_kind_DtoD ? bytes / 1500 : bytes / 50);
	uint64_t start = enqueue(g, stream, g->host_ns[0], duration);

	maker_memcpy(g->m, kind, bytes, stream_id(stream), start, start + duration, correlation);
}

static void set_memory(struct generator *g, unsigned stream, uint64_t bytes)
{
	uint64_t correlation = call(g, 0, MAKER_MEMSET, random_between(g, 2500, 4000));
	uint64_t duration = 800 + bytes / 2500, start = enqueue(g, stream, g->host_ns[0], duration);

	maker_memset(g->m, bytes, stream_id(stream), start, start + duration, correlation);
}

static void synchronize_stream(struct generator *g, unsigned thread, unsigned stream)
{
	uint64_t begin = g->host_ns[thread], end = MAX(begin + 1500, g->ready_ns[stream] + 2000);
	uint64_t correlation = call(g, thread, MAKER_STREAM_SYNCHRONIZE, end - begin);

	maker_synchronization(g->m, synchronization_kind_stream, stream_id(stream), begin + 600,
			      end - 400, correlation);
}

static void synchronize_device(struct generator *g)
{
	uint64_t begin = g->host_ns[0], end = begin + 1500, correlation;

	for (unsigned i = 0; i < THREADS; i++)
		end = MAX(end, g->ready_ns[i] + 2000);
	correlation = call(g, 0, MAKER_DEVICE_SYNCHRONIZE, end - begin);
	maker_synchronization(g->m, synchronization_kind_context, 0, begin + 600, end - 400,
			      correlation);
}

static void range(struct generator *g, const char *name)
{
	maker_nvtx(g->m, name ? nvtx_kind_push : nvtx_kind_pop, thread_id(g, 0), name,
		   g->host_ns[0]);
}

/* Writes rows that a recorder writes periodically. */
static void every_second(struct generator *g)
{
	while (g->host_ns[0] >= g->next_second_ns) {
		uint64_t begin = g->next_second_ns - NS_PER_S;

		maker_clock(g->m, g->next_second_ns);
		maker_cost(g->m, cost_kind_callback, begin, g->next_second_ns, g->launches,
			   g->launches * 95);
		maker_cost(g->m, cost_kind_collector, begin, g->next_second_ns, 4,
			   g->launches * 180);
		g->launches = 0;
		g->next_second_ns += NS_PER_S;
	}
}

/* Kernels repeat from step to step; each pass of the network has a different mixture. */
static void launch_some(struct generator *g, unsigned count, unsigned from, unsigned kinds)
{
	for (unsigned i = 0; i < count && g->kernels_left; i++)
		launch(g, 0, 0, g->configs[(from + (i * 7 + i / 11) % kinds) % KERNEL_NAMES]);
}

static void train(struct generator *g, uint64_t step)
{
	char name[32];

	snprintf(name, sizeof(name), "step %llu", (unsigned long long)step);
	range(g, name);
	copy(g, 0, copy_kind_HtoD, 4 << 20);
	range(g, "forward");
	launch_some(g, STEP_KERNELS / 6, 0, 14);
	range(g, NULL);
	range(g, "backward");
	set_memory(g, 0, 1 << 20);
	launch_some(g, STEP_KERNELS / 3, 8, 22);
	range(g, NULL);
	range(g, "optimizer");
	launch_some(g, STEP_KERNELS / 2, 28, 12);
	range(g, NULL);
	copy(g, 0, copy_kind_DtoH, 4);
	synchronize_stream(g, 0, 0);
	range(g, NULL);
	g->host_ns[0] += random_between(g, 100000, 300000);
}

static void graph(struct generator *g, uint64_t step)
{
	uint64_t correlation = call(g, 0, MAKER_GRAPH_LAUNCH, random_between(g, 9000, 14000));
	uint64_t start = enqueue(g, 0, g->host_ns[0], 0);

	for (uint32_t i = 0; i < GRAPH_NODES && g->kernels_left; i++, g->kernels_left--) {
		uint64_t duration = random_duration(g) / 2;

		maker_graph_kernel(g->m, g->configs[i % KERNEL_NAMES], FIRST_STREAM, start,
				   start + duration, correlation, 2, UINT64_C(8589934592) + i);
		start += duration + random_between(g, 500, 900);
	}
	g->ready_ns[0] = start;
	g->host_ns[0] += random_between(g, 20000, 40000);
	if (step % 10 == 9)
		synchronize_stream(g, 0, 0);
}

/*
 * Four threads with one stream each, whose rows arrive thread by thread, as when rings and activity
 * buffers are drained.
 */
static void streams(struct generator *g, uint64_t step)
{
	uint64_t latest = 0;

	for (unsigned thread = 0; thread < THREADS; thread++) {
		for (unsigned i = 0; i < 250 && g->kernels_left; i++)
			launch(g, thread, thread, g->configs[random_u64(g) % KERNEL_NAMES]);
		if (step % 20 == 19)
			synchronize_stream(g, thread, thread);
		latest = MAX(latest, g->host_ns[thread]);
	}
	for (unsigned thread = 0; thread < THREADS && step % 20 == 19; thread++)
		g->host_ns[thread] = latest;
}

static void copies(struct generator *g, uint64_t step)
{
	set_memory(g, 0, 16 << 20);
	copy(g, 1, copy_kind_HtoD, random_between(g, 1 << 20, 64 << 20));
	for (unsigned i = 0; i < 20 && g->kernels_left; i++)
		launch(g, 0, 0, g->configs[i]);
	copy(g, 0, copy_kind_DtoD, 8 << 20);
	copy(g, 2, copy_kind_DtoH, random_between(g, 1 << 20, 16 << 20));
	if (step % 8 == 7)
		synchronize_device(g);
}

/* Threads come and go; each launches once. */
static void threads(struct generator *g, uint64_t step)
{
	char name[32];

	snprintf(name, sizeof(name), "request-%llu", (unsigned long long)step % 1000);
	g->thread = g->pid + 10 + (uint32_t)step;
	maker_thread(g->m, g->thread, name, g->host_ns[0]);
	launch(g, 0, 0, g->configs[step % KERNEL_NAMES]);
	if (step % 50 == 49)
		synchronize_stream(g, 0, 0);
	g->thread = 0;
}

static void begin_process(struct generator *g, const char *directory, uint32_t index)
{
	char name[32];

	g->m = maker_begin(directory, g->pid, g->start_ns, "make-recording (synthetic)");
	maker_capability(g->m, feature_engine, capability_state_on, NULL);
	maker_capability(g->m, feature_latency_timestamps, capability_state_off, "not asked for");
	maker_device(g->m, index, g->start_ns);
	for (unsigned i = 1; i < THREADS; i++)
		maker_stream(g->m, stream_id(i), g->start_ns);
	for (unsigned i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), i ? "worker-%u" : "main", i);
		maker_thread(g->m, thread_id(g, i), name, g->start_ns);
		g->host_ns[i] = g->start_ns + NS_PER_MS;
	}
	for (unsigned i = 0; i < KERNEL_NAMES; i++)
		g->configs[i] = kernel_names_config(g->m, i);
	g->next_second_ns = g->start_ns + NS_PER_S;
	maker_cost(g->m, cost_kind_setup, g->start_ns, g->start_ns + NS_PER_MS, 1, NS_PER_MS);
}

/* Samples all threads in turn, spread over the time of the process. */
static void sample(struct generator *g, uint64_t count)
{
	uint64_t span = g->host_ns[0] - g->start_ns;

	for (uint64_t i = 0; i < count; i++)
		maker_cpu_sample(g->m, thread_id(g, i % THREADS),
				 g->start_ns + (uint64_t)((double)span * (double)i / (double)count),
				 NS_PER_S / 99,
				 g->stacks.count ? big_stacks_next(&g->stacks, random_u64(g)) : 0);
}

static void write_process(const char *directory, uint32_t index, const struct big_recording *what)
{
	static void (*const patterns[])(struct generator *, uint64_t) = {
		[BIG_TRAIN] = train,     [BIG_GRAPH] = graph,   [BIG_STREAMS] = streams,
		[BIG_THREADS] = threads, [BIG_COPIES] = copies,
	};
	struct generator g = {
		.random = what->seed + index,
		.start_ns = 1000 * NS_PER_S + index * 3 * NS_PER_MS,
		.kernels_left =
			what->kernels / what->processes + (index < what->kernels % what->processes),
		.pid = 1000 + 100 * index,
		.lost_percent = what->lost_percent,
	};

	begin_process(&g, directory, index);
	if (what->stacks)
		big_stacks_init(&g.stacks, g.m, what->stacks);
	for (uint64_t step = 0; g.kernels_left; step++) {
		patterns[what->pattern](&g, step);
		every_second(&g);
	}
	synchronize_device(&g);
	sample(&g, what->cpu_samples / what->processes);
	maker_cost(g.m, cost_kind_exit, g.host_ns[0], g.host_ns[0] + 4 * NS_PER_MS, 1,
		   4 * NS_PER_MS);
	big_stacks_release(&g.stacks);
	maker_close(g.m, g.host_ns[0] + 5 * NS_PER_MS);
}

int big_recording_write(const char *directory, const struct big_recording *what)
{
	if (mkdir(directory, 0777) < 0)
		return -errno;
	for (uint32_t i = 0; i < what->processes; i++)
		write_process(directory, i, what);
	return 0;
}

int big_recording_make_stacks(const char *directory, uint64_t kernels, uint32_t processes,
			      enum big_pattern pattern, uint64_t seed, uint32_t stacks)
{
	struct big_recording what = { .kernels = kernels,
				      .processes = processes,
				      .pattern = pattern,
				      .seed = seed,
				      .stacks = stacks };

	return big_recording_write(directory, &what);
}

int big_recording_make(const char *directory, uint64_t kernels, uint32_t processes,
		       enum big_pattern pattern, uint64_t seed)
{
	return big_recording_make_stacks(directory, kernels, processes, pattern, seed, 0);
}
