/*
 * memory_recording.c: a training loop of ten steps that allocates with known sizes. Parameters
 * before the loop, activations in each step from a pool, a list that is never emptied, pinned
 * memory, a block that is older than the recording, and a framework's allocator in a segment.
 * Nothing in it was measured.
 */
#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"
#include "system/metrics.h"

#define START NS_PER_S
#define MS NS_PER_MS
#define US NS_PER_US
#define MAIN 100
#define STEPS 10u
#define MIB (UINT64_C(1) << 20)

struct program {
	struct maker *m;
	uint64_t correlation;
	uint64_t pool_bytes, pool_used_bytes; /* pool_bytes 0: not from a pool */
	uint8_t kind;
};

static void at_line(struct program *p, const char *function, uint32_t line)
{
	p->m->stack = maker_stack(p->m, maker_python(p->m, 0, function, "train.py", line), 1,
				  stack_end_complete);
}

static void event(struct program *p, enum memory_operation operation, uint64_t at, uint64_t address,
		  uint64_t bytes)
{
	struct row_allocation row = { .time_ns = at,
				      .operation = (uint8_t)operation,
				      .kind = p->kind,
				      .address = address,
				      .bytes = bytes,
				      .correlation = ++p->correlation,
				      .context = 1,
				      .async = p->pool_bytes != 0,
				      .pool_address = 0x7700,
				      .pool_bytes = p->pool_bytes,
				      .pool_used_bytes = p->pool_used_bytes };

	ROW_MISSING(&row, allocation, stream);
	ROW_MISSING(&row, allocation, name);
	if (!p->pool_bytes) {
		ROW_MISSING(&row, allocation, pool_address);
		ROW_MISSING(&row, allocation, pool_bytes);
		ROW_MISSING(&row, allocation, pool_used_bytes);
	}
	maker_call(p->m, operation == memory_operation_allocation ? MAKER_MALLOC : MAKER_FREE, MAIN,
		   at, at + 20 * US, p->correlation);
	writer_append(p->m->writer, TABLE_allocation, &row);
}

static void allocate(struct program *p, uint64_t at, uint64_t address, uint64_t bytes)
{
	event(p, memory_operation_allocation, at, address, bytes);
}

static void release(struct program *p, uint64_t at, uint64_t address, uint64_t bytes)
{
	event(p, memory_operation_release, at, address, bytes);
}

static void step(struct program *p, uint32_t kernel, uint64_t at, uint64_t number)
{
	maker_scope(p->m, nvtx_kind_push, MAIN, "step", 0, at);
	maker_scope(p->m, nvtx_kind_push, MAIN, "forward", 0, at + MS);
	p->pool_bytes = 512 * MIB;
	p->pool_used_bytes = (200 + 10 * number) * MIB;
	at_line(p, "forward", 20);
	allocate(p, at + 2 * MS, 0x40000000, 200 * MIB);
	maker_call(p->m, MAKER_LAUNCH, MAIN, at + 3 * MS, at + 3 * MS + 5 * US, ++p->correlation);
	maker_kernel(p->m, kernel, 7, at + 4 * MS, at + 9 * MS, p->correlation);
	maker_scope(p->m, nvtx_kind_pop, MAIN, NULL, 0, at + 10 * MS);
	at_line(p, "step", 31);
	release(p, at + 11 * MS, 0x40000000, 0);
	p->pool_bytes = 0;
	at_line(p, "log_loss", 40);
	allocate(p, at + 12 * MS, 0x50000000 + number * 0x1000000, 4 * MIB);
	maker_scope(p->m, nvtx_kind_pop, MAIN, NULL, 0, at + 18 * MS);
}

static void reading(struct program *p, uint64_t at, int64_t bytes)
{
	struct row_counter_sample row = { .time_ns = at,
					  .counter = METRIC_gpu_memory_used,
					  .value = bytes };

	ROW_MISSING(&row, counter_sample, thread);
	writer_append(p->m->writer, TABLE_counter_sample, &row);
}

void recording_memory(const char *folder)
{
	struct program p = { .m = maker_begin(folder, MAIN, START, "python train.py"),
			     .kind = memory_kind_device };
	uint32_t kernel = maker_config(p.m, "gemm", 132, 128);
	struct row_counter counter = { .id = METRIC_gpu_memory_used,
				       .name = maker_string(p.m, "gpu_memory_used"),
				       .unit = maker_string(p.m, "bytes"),
				       .description = maker_string(p.m, "made up") };

	maker_device(p.m, 0, START);
	maker_thread(p.m, MAIN, "python", START);
	writer_append(p.m->writer, TABLE_counter, &counter);
	at_line(&p, "load_model", 7);
	allocate(&p, START + 2 * MS, 0x10000000, 768 * MIB);
	p.kind = memory_kind_pinned;
	allocate(&p, START + 3 * MS, 0x20000000, 64 * MIB);
	p.kind = memory_kind_allocator_segment;
	allocate(&p, START + 4 * MS, 0x10000000, 768 * MIB);
	p.kind = memory_kind_allocator_block;
	allocate(&p, START + 5 * MS, 0x10000000, 500 * MIB);
	p.kind = memory_kind_device;
	for (uint64_t i = 0; i < STEPS; i++) {
		uint64_t at = START + (10 + 20 * i) * MS;

		step(&p, kernel, at, i);
		reading(&p, at + 5 * MS, (int64_t)((1500 + i) * MIB));
	}
	p.m->stack = 0;
	release(&p, START + 215 * MS, 0x8000000, 100 * MIB);
	maker_close(p.m, START + 220 * MS);
}
