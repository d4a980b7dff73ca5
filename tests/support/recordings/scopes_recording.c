/*
 * scopes_recording.c: a program with scopes: an epoch of two steps with nested parts, one of which
 * a pool's thread continues, with NVTX ranges of libraries inside, counters, and work outside of
 * all scopes.
 * Nothing in it was measured.
 */
#include <string.h>

#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START (NS_PER_S)
#define US UINT64_C(1000)
#define MAIN 100
#define POOL 101
#define AUTOGRAD 102
#define STEPS 2

struct program {
	struct maker *m;
	uint32_t gemm, reduce;
	uint64_t correlation;
};

/* A launch that takes 4 us, and its kernel 10 us later. */
static void launch(struct program *p, uint32_t thread, uint32_t kernel, uint64_t at, uint64_t us)
{
	p->correlation++;
	maker_call(p->m, MAKER_LAUNCH, thread, at, at + 4 * US, p->correlation);
	maker_kernel(p->m, kernel, thread == POOL ? 13 : 7, at + 10 * US, at + (10 + us) * US,
		     p->correlation);
}

static void push(struct program *p, const char *name, uint64_t at)
{
	maker_scope(p->m, nvtx_kind_push, MAIN, name, 0, at);
}

static void pop(struct program *p, uint64_t at)
{
	maker_scope(p->m, nvtx_kind_pop, MAIN, NULL, 0, at);
}

/* Counters of the program: "tokens", a sum, and "loss", a gauge. */
enum { TOKENS = 1024, LOSS = 1027 };

static void define_counters(struct maker *m)
{
	struct row_counter tokens = { .id = TOKENS,
				      .name = maker_string(m, "tokens"),
				      .unit = maker_string(m, "tokens"),
				      .description = maker_string(m, ""),
				      .kind = counter_kind_sum };
	struct row_counter loss = { .id = LOSS,
				    .name = maker_string(m, "loss"),
				    .unit = maker_string(m, ""),
				    .description = maker_string(m, ""),
				    .reading = counter_reading_real };

	writer_append(m->writer, TABLE_counter, &tokens);
	writer_append(m->writer, TABLE_counter, &loss);
}

static void add(struct maker *m, uint32_t thread, int64_t by, uint64_t count, uint64_t at)
{
	struct row_counter_addition row = {
		.time_ns = at, .counter = TOKENS, .thread = thread, .value = by, .count = count
	};

	ROW_MISSING_IF(&row, counter_addition, thread, !thread);
	writer_append(m->writer, TABLE_counter_addition, &row);
}

static void set(struct maker *m, double value, uint64_t at)
{
	struct row_counter_sample row = { .time_ns = at, .counter = LOSS, .thread = MAIN };

	ROW_MISSING(&row, counter_sample, device);
	memcpy(&row.value, &value, sizeof(value));
	writer_append(m->writer, TABLE_counter_sample, &row);
}

/* 1 ms: loading, forward with a layer of a library, backward on three threads, and a wait. */
static void step(struct program *p, uint64_t at, uint64_t token)
{
	struct maker *m = p->m;

	push(p, "step", at);
	push(p, "load", at + 10 * US);
	maker_cpu_sample(m, MAIN, at + 100 * US, 100 * US, 0);
	maker_cpu_sample(m, MAIN, at + 200 * US, 100 * US, 0);
	add(m, MAIN, 4096, 2, at + 250 * US);
	pop(p, at + 300 * US);
	push(p, "forward", at + 310 * US);
	maker_nvtx(m, nvtx_kind_push, MAIN, "layer", at + 320 * US);
	launch(p, MAIN, p->gemm, at + 330 * US, 100);
	maker_nvtx(m, nvtx_kind_pop, MAIN, NULL, at + 340 * US);
	launch(p, MAIN, p->reduce, at + 345 * US, 20);
	pop(p, at + 400 * US);
	push(p, "backward", at + 410 * US);
	maker_scope(m, nvtx_kind_token, MAIN, NULL, token, at + 411 * US);
	launch(p, MAIN, p->gemm, at + 420 * US, 150);
	maker_scope(m, nvtx_kind_push, POOL, NULL, token, at + 430 * US);
	maker_scope(m, nvtx_kind_push, POOL, "bucket", 0, at + 431 * US);
	launch(p, POOL, p->gemm, at + 435 * US, 150);
	maker_scope(m, nvtx_kind_pop, POOL, NULL, 0, at + 445 * US);
	launch(p, POOL, p->reduce, at + 447 * US, 5);
	maker_cpu_sample(m, POOL, at + 450 * US, 50 * US, 0);
	add(m, POOL, 3, 1, at + 460 * US);
	maker_scope(m, nvtx_kind_pop, POOL, NULL, 0, at + 500 * US);
	maker_nvtx(m, nvtx_kind_push, AUTOGRAD, "MmBackward0", at + 520 * US);
	launch(p, AUTOGRAD, p->gemm, at + 525 * US, 60);
	maker_nvtx(m, nvtx_kind_pop, AUTOGRAD, NULL, at + 530 * US);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, MAIN, at + 600 * US, at + 700 * US,
		   ++p->correlation);
	maker_synchronization(m, synchronization_kind_stream, 7, at + 605 * US, at + 695 * US,
			      p->correlation);
	pop(p, at + 800 * US);
	set(m, 1.0 / (double)token, at + 900 * US);
	pop(p, at + 1000 * US);
}

void recording_scopes(const char *folder)
{
	struct program p = { .m = maker_begin(folder, MAIN, START, "./train --epochs 1") };

	maker_device(p.m, 0, START);
	maker_stream(p.m, 13, START);
	maker_thread(p.m, MAIN, "main", START);
	maker_thread(p.m, POOL, "pool", START);
	maker_thread(p.m, AUTOGRAD, "pt_autograd_0", START);
	p.gemm = maker_config(p.m, "gemm", 64, 256);
	p.reduce = maker_config(p.m, "reduce", 8, 128);
	p.m->runs = UINT64_C(1) << 32 | STEPS;
	define_counters(p.m);
	add(p.m, 0, 7, 1, START + 50 * US);
	push(&p, "epoch", START + 100 * US);
	p.m->runs = 0;
	for (uint64_t i = 0; i < STEPS; i++)
		step(&p, START + 200 * US + i * 1500 * US, 7 + i);
	pop(&p, START + 3500 * US);
	launch(&p, MAIN, p.reduce, START + 3600 * US, 10);
	maker_scope(p.m, nvtx_kind_mark, MAIN, "done", 0, START + 3700 * US);
	maker_close(p.m, START + 4000 * US);
}
