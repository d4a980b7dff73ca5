/*
 * replay_recording.c: all that a replay does: streams that wait for each other, a graph with a copy
 * and a memory set, copies of each direction and kind of memory, a host function, synchronizations.
 */
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define US UINT64_C(1000)
#define ROUNDS 20u

static struct maker *m;
static uint32_t kernel;
static uint64_t now, id;

static void call(enum maker_function function, uint64_t us, uint32_t stream, uint64_t event)
{
	maker_stream_call(m, function, 1, now, now + us * US, stream, event);
	now += (us + 2) * US;
}

static void launch(uint32_t stream, uint64_t us)
{
	maker_call(m, MAKER_LAUNCH, 1, now, now + 3 * US, ++id);
	maker_kernel(m, kernel, stream, now + 6 * US, now + (6 + us) * US, id);
	now += 5 * US;
}

static void copy(enum copy_kind kind, enum memory_kind from, enum memory_kind to, uint64_t bytes)
{
	struct row_memcpy row = { .start_ns = now + 5 * US,
				  .end_ns = now + 9 * US,
				  .bytes = bytes,
				  .kind = (uint8_t)kind,
				  .source_kind = (uint8_t)from,
				  .destination_kind = (uint8_t)to,
				  .correlation = ++id,
				  .context = 1,
				  .stream = 21 };

	maker_call(m, MAKER_MEMCPY, 1, now, now + 12 * US, id);
	writer_append(m->writer, TABLE_memcpy, &row);
	now += 14 * US;
}

static void graph(void)
{
	struct row_memcpy c = { .bytes = 4096,
				.kind = copy_kind_DtoD,
				.context = 1,
				.stream = 20,
				.graph = 5,
				.graph_node = 2 };
	struct row_memset s = {
		.bytes = 512, .value = 7, .context = 1, .stream = 20, .graph = 5, .graph_node = 3
	};

	maker_call(m, MAKER_GRAPH_LAUNCH, 1, now, now + 4 * US, ++id);
	maker_graph_kernel(m, kernel, 20, now + 6 * US, now + 9 * US, id, 5, 1);
	c.start_ns = s.start_ns = now + 10 * US;
	c.end_ns = s.end_ns = now + 12 * US;
	c.correlation = s.correlation = id;
	writer_append(m->writer, TABLE_memcpy, &c);
	writer_append(m->writer, TABLE_memset, &s);
	maker_graph_kernel(m, kernel, 20, now + 13 * US, now + 16 * US, id, 5, 4);
	now += 20 * US;
}

void recording_replay(const char *folder)
{
	struct row_stream apart = { .context = 1, .non_blocking = 1, .priority = -2 };

	m = maker_begin(folder, 100, 0, "./app");
	now = 100 * US;
	maker_device(m, 0, 0);
	for (apart.id = 20; apart.id <= 21; apart.id++)
		writer_append(m->writer, TABLE_stream, &apart);
	kernel = maker_config(m, "k", 6, 128);
	maker_graph_edge(m, 1, 2, now);
	maker_graph_edge(m, 1, 3, now);
	maker_graph_edge(m, 2, 4, now);
	maker_graph_edge(m, 3, 4, now);
	for (unsigned i = 0; i < ROUNDS; i++) {
		launch(7, 20);
		launch(20, 30);
		call(MAKER_EVENT_RECORD, 1, 20, 0xe);
		call(MAKER_STREAM_WAIT, 1, 21, 0xe);
		launch(21, 10);
		copy(copy_kind_HtoD, memory_kind_pageable, memory_kind_device, 3000);
		copy(copy_kind_DtoH, memory_kind_device, memory_kind_pinned, 2000);
		copy(copy_kind_HtoH, memory_kind_pinned, memory_kind_pageable, 1000);
		copy(copy_kind_PtoP, memory_kind_device, memory_kind_device, 5000);
		graph();
		call(MAKER_HOST_FUNCTION, 1, 21, 0);
		launch(21, 5);
		call(MAKER_STREAM_SYNCHRONIZE, 20, 21, 0);
	}
	maker_close(m, now);
}
