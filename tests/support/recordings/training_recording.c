/*
 * training_recording.c: a training loop of eight steps for plots: kernels on two streams,
 * concurrent copies, memory that grows and shrinks, scopes, and readings of the GPU and the machine
 * every 10 ms. Nothing in it was measured.
 */
#include <stdio.h>

#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START NS_PER_S
#define MS NS_PER_MS
#define US NS_PER_US
#define MAIN 100
#define STEPS 8u
#define STEP (100 * MS)
#define LAYERS 6u
#define MIB (UINT64_C(1) << 20)
#define CORES 4u

struct program {
	struct maker *m;
	uint32_t gemm, softmax, norm, adam, reduce;
	uint64_t correlation;
};

/* Adds a kernel that begins when the GPU is free, at the earliest 20 us after the call. */
static uint64_t launch(struct program *p, uint32_t kernel, uint32_t stream, uint64_t call,
		       uint64_t free_ns, uint64_t us)
{
	uint64_t start = free_ns > call + 20 * US ? free_ns + 2 * US : call + 20 * US;

	p->correlation++;
	maker_call(p->m, MAKER_LAUNCH, MAIN, call, call + 6 * US, p->correlation);
	maker_kernel(p->m, kernel, stream, start, start + us * US, p->correlation);
	return start + us * US;
}

static void allocate(struct program *p, uint64_t at, uint64_t address, uint64_t bytes,
		     enum memory_operation operation)
{
	struct row_allocation row = {
		.time_ns = at,
		.operation = (uint8_t)operation,
		.kind = memory_kind_device,
		.address = address,
		.bytes = operation == memory_operation_release ? 0 : bytes,
		.correlation = ++p->correlation,
		.context = 1,
	};

	ROW_MISSING(&row, allocation, stream);
	ROW_MISSING(&row, allocation, pool_address);
	ROW_MISSING(&row, allocation, pool_bytes);
	ROW_MISSING(&row, allocation, pool_used_bytes);
	ROW_MISSING(&row, allocation, name);
	writer_append(p->m->writer, TABLE_allocation, &row);
}

static void scope(struct program *p, const char *name, uint64_t at)
{
	maker_scope(p->m, name ? nvtx_kind_push : nvtx_kind_pop, MAIN, name, 0, at);
}

static uint64_t layers(struct program *p, bool backward, uint64_t at, uint64_t free_ns)
{
	for (uint64_t i = 0; i < LAYERS; i++, at += 3 * MS) {
		if (!backward)
			allocate(p, at, 0x1000 * (2 + i), (180 + 40 * i) * MIB,
				 memory_operation_allocation);
		free_ns = launch(p, p->norm, 7, at + 10 * US, free_ns, 180);
		free_ns = launch(p, p->gemm, 7, at + 20 * US, free_ns, backward ? 2600 : 1500);
		free_ns = launch(p, p->softmax, 7, at + 30 * US, free_ns, 350);
		if (backward) {
			launch(p, p->reduce, 13, at + 40 * US, free_ns, 900);
			allocate(p, at + 2 * MS, 0x1000 * (2 + LAYERS - 1 - i), 0,
				 memory_operation_release);
		}
	}
	return free_ns;
}

static void step(struct program *p, uint64_t at, uint64_t number)
{
	char name[16];
	uint64_t done;

	snprintf(name, sizeof(name), "step %llu", (unsigned long long)number);
	scope(p, name, at);
	p->correlation++;
	maker_call(p->m, MAKER_MEMCPY, MAIN, at + MS, at + MS + 9 * US, p->correlation);
	maker_memcpy(p->m, copy_kind_HtoD, 96 * MIB, 13, at + MS + 30 * US,
		     at + (5 + number % 3) * MS, p->correlation);
	scope(p, "forward", at + 2 * MS);
	done = layers(p, false, at + 3 * MS, at);
	scope(p, NULL, at + 22 * MS);
	scope(p, "backward", at + 22 * MS + 10 * US);
	done = layers(p, true, at + 23 * MS, done);
	scope(p, NULL, at + 42 * MS);
	scope(p, "optimizer", at + 42 * MS + 10 * US);
	done = launch(p, p->adam, 7, at + 43 * MS, done, 4200);
	p->correlation++;
	maker_call(p->m, MAKER_STREAM_SYNCHRONIZE, MAIN, at + 44 * MS, done + 30 * US,
		   p->correlation);
	maker_memcpy(p->m, copy_kind_DtoH, 64, 7, done + 40 * US, done + 43 * US, p->correlation);
	scope(p, NULL, done + 50 * US);
	scope(p, NULL, at + STEP - 2 * MS);
}

struct reading {
	const char *name, *unit;
	uint32_t decimals;
	bool on_gpu;
	int64_t base, swing; /* value in the first and the second half of a step */
	int64_t growth; /* growth per reading */
};

static void readings(struct program *p)
{
	static const struct reading list[] = {
		{ "gpu_utilization", "%", 0, true, 92, 30, 0 },
		{ "gpu_memory_utilization", "%", 0, true, 41, 12, 0 },
		{ "gpu_temperature", "C", 0, true, 52, 51, 0 },
		{ "gpu_power", "W", 3, true, 612000, 240000, 0 },
		{ "gpu_memory_used", "bytes", 0, true, INT64_C(5) << 30, INT64_C(3) << 29, 0 },
		{ "gpu_sm_clock", "MHz", 0, true, 1755, 1980, 0 },
		{ "host_cpu_busy", "s", 2, false, 0, 0, 2 },
		{ "host_core_0_busy", "s", 2, false, 0, 0, 1 },
		{ "host_core_1_busy", "s", 2, false, 0, 0, 1 },
		{ "host_core_2_busy", "s", 2, false, 0, 0, 0 },
		{ "host_core_3_busy", "s", 2, false, 0, 0, 0 },
		{ "host_memory_used", "bytes", 0, false, INT64_C(30) << 30, INT64_C(31) << 30, 0 },
		{ "host_memory_available", "bytes", 0, false, INT64_C(98) << 30, INT64_C(97) << 30,
		  0 },
	};

	for (uint32_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
		struct row_counter counter = { .id = i + 1,
					       .name = maker_string(p->m, list[i].name),
					       .unit = maker_string(p->m, list[i].unit),
					       .decimals = list[i].decimals,
					       .description = maker_string(p->m, "made up") };

		writer_append(p->m->writer, TABLE_counter, &counter);
	}
	for (uint64_t n = 0; n <= STEPS * STEP / (10 * MS); n++)
		for (uint32_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
			struct row_counter_sample row = { .time_ns = START + n * 10 * MS,
							  .counter = i + 1 };

			row.value = (n % 10 < 5 ? list[i].base : list[i].swing) +
				    (int64_t)n * list[i].growth;
			if (!list[i].on_gpu)
				ROW_MISSING(&row, counter_sample, device);
			ROW_MISSING(&row, counter_sample, thread);
			writer_append(p->m->writer, TABLE_counter_sample, &row);
		}
}

void recording_training(const char *folder)
{
	struct program p = { .m = maker_begin(folder, MAIN, START, "python train.py") };

	maker_device(p.m, 0, START);
	maker_stream(p.m, 13, START);
	maker_thread(p.m, MAIN, "python", START);
	p.gemm = maker_config(p.m, "sm90_gemm_bf16", 1056, 384);
	p.softmax = maker_config(p.m, "softmax_forward", 4096, 128);
	p.norm = maker_config(p.m, "layer_norm", 4096, 256);
	p.adam = maker_config(p.m, "multi_tensor_adam", 2112, 512);
	p.reduce = maker_config(p.m, "all_reduce_ring", 24, 512);
	allocate(&p, START + MS, 0x1000, 2100 * MIB, memory_operation_allocation);
	for (uint64_t i = 0; i < STEPS; i++)
		step(&p, START + 5 * MS + i * STEP, i);
	readings(&p);
	maker_close(p.m, START + STEPS * STEP + 10 * MS);
}
