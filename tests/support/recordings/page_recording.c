/*
 * page_recording.c: what a picture can hide: long slices that follow tiny ones at once, work after
 * a long pause, counters in the order of their names; and a recording of CPU samples with a loss.
 */
#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START NS_PER_S
#define US UINT64_C(1000)
#define MS (1000 * US)
#define WORK (START + 950 * MS)
#define END (START + 1000 * MS)
#define READINGS 6
#define POWER_LIMIT 4

static const struct {
	const char *name, *unit;
	enum counter_kind kind;
	uint32_t decimals;
	bool machine; /* not of a GPU */
	int64_t values[READINGS];
} counters[] = {
	{ "dram__bytes_read.sum.per_second",
	  "byte/second",
	  counter_kind_level,
	  0,
	  false,
	  { 0, 1910000000000, 0, 500000000000, 0, 0 } },
	{ "gpu_energy", "J", counter_kind_sum, 3, false, { 0, 12000, 24000, 24000, 30000, 36000 } },
	{ "gpu_pcie_sent",
	  "bytes",
	  counter_kind_sum,
	  0,
	  false,
	  { 0, 200000000, 400000000, 100, 200000100, 300000100 } },
	{ "gpu_power",
	  "W",
	  counter_kind_level,
	  3,
	  false,
	  { 119800, 120800, 120000, 120000, 119000, 118000 } },
	{ "gpu_temperature", "C", counter_kind_level, 0, false, { 36, 37, 37, 37, 36, 36 } },
	{ "gpu_throttle_reasons",
	  "",
	  counter_kind_bits,
	  0,
	  false,
	  { 1, POWER_LIMIT, POWER_LIMIT, 0, 0, 1 } },
	{ "gpu_utilization", "%", counter_kind_level, 0, false, { 0, 0, 10, 47, 3, 0 } },
	{ "toString", "constructor", counter_kind_level, 0, false, { 1, 2, 3, 4, 5, 7 } },
	{ "gpu_xid", "", counter_kind_event, 0, false, { 31, 43, 43, 43, 43, 43 } },
	{ "host_cpu_busy", "s", counter_kind_sum, 2, true, { 0, 15, 30, 45, 60, 75 } },
	{ "host_disk_read", "bytes", counter_kind_sum, 0, true, { 7, 7, 7, 7, 7, 7 } },
};

static void add_counters(struct maker *m)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(counters); i++)
		writer_append(m->writer, TABLE_counter,
			      &(struct row_counter){
				      .id = i + 1,
				      .name = maker_string(m, counters[i].name),
				      .unit = maker_string(m, counters[i].unit),
				      .description = maker_string(m, "meaning"),
				      .kind = (uint8_t)counters[i].kind,
				      .decimals = counters[i].decimals,
			      });
	for (uint64_t k = 0; k < READINGS; k++)
		for (uint32_t i = 0; i < ARRAY_SIZE(counters); i++) {
			struct row_counter_sample sample = {
				.time_ns = START + 100 * MS * k,
				.counter = i + 1,
				.value = counters[i].values[k],
			};

			if (counters[i].machine)
				ROW_MISSING(&sample, counter_sample, device);
			ROW_MISSING(&sample, counter_sample, thread);
			writer_append(m->writer, TABLE_counter_sample, &sample);
		}
}

/* Samples of three functions, and a pause of 20 ms between the first two and the rest. */
static void add_samples(struct maker *m, uint32_t thread)
{
	uint32_t run = maker_python(m, 0, "run", "/home/user/job.py", 3);
	uint32_t parse = maker_python(m, run, "parse", "/home/user/job.py", 10);
	uint32_t solve = maker_python(m, run, "solve", "/home/user/job.py", 20);
	uint32_t stacks[] = { maker_stack(m, parse, 2, stack_end_complete),
			      maker_stack(m, solve, 2, stack_end_complete) };

	for (uint64_t i = 0; i < 6; i++)
		maker_cpu_sample(m, thread, START + (10 + 10 * i + (i > 1 ? 20 : 0)) * MS, 10 * MS,
				 stacks[i > 2]);
	maker_cpu_sample(m, thread, START + 90 * MS, 10 * MS, 0);
	maker_off_cpu(m, thread, START + 20 * MS, START + 40 * MS, off_cpu_state_sleeping,
		      stacks[0]);
	maker_off_cpu(m, thread, START + 80 * MS, START + 81 * MS, off_cpu_state_runnable,
		      stacks[1]);
}

void recording_page(const char *folder)
{
	struct maker *m = maker_begin(folder, 100, START, "./job");
	uint64_t at = WORK, id = 1;
	uint32_t config;

	maker_device(m, 0, START);
	add_counters(m);
	maker_thread(m, 100, "job", START);
	add_samples(m, 100);
	config = maker_config(m, "tile", 132, 256);
	maker_memset(m, 4096, 7, START + 10 * MS, START + 10 * MS + 3 * US, 0);
	for (uint64_t i = 0; i < 8; i++, at += 6 * MS) {
		/* a launch and at once the wait for its kernel, and tiny kernels beside it */
		uint64_t wait = at + 3 * US, end = at + (1 + i % 5) * MS;

		maker_nvtx(m, nvtx_kind_push, 100, "step", at - US);
		maker_call(m, MAKER_LAUNCH, 100, at, wait, id);
		maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 100, wait, end, 1000 + id);
		maker_nvtx(m, nvtx_kind_push, 100, "tail", end);
		for (uint64_t k = 0; k < 40; k++)
			maker_call(m, MAKER_LAUNCH, 100, end + k * 4 * US, end + k * 4 * US + US,
				   2000 + 100 * i + k);
		maker_nvtx(m, nvtx_kind_pop, 100, NULL, end + 300 * US);
		maker_nvtx(m, nvtx_kind_pop, 100, NULL, end + 301 * US);
		maker_kernel(m, config, 7, wait, wait + 2 * US, 0);
		maker_kernel(m, config, 7, wait + 2 * US, end, id++);
		for (uint64_t k = 0; k < 30; k++)
			maker_kernel(m, config, 7, end + k * 20 * US, end + k * 20 * US + 4 * US,
				     0);
	}
	maker_close(m, END);
}

void recording_page_cpu(const char *folder)
{
	struct maker *m = maker_begin(folder, 100, START, "./job");

	maker_thread(m, 100, "job", START);
	add_samples(m, 100);
	maker_loss(m, loss_reason_ring_full, 6, START + 50 * MS, START + 60 * MS, "six frames");
	maker_close(m, END);
}
