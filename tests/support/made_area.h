/*
 * made_area.h: the memory that a recorder leaves, made by hand: it has something of everything. In
 * its first buffer is the record of call 3, in the second one a record of an unknown kind with
 * another of that call behind it.
 */
#ifndef PITOT_TEST_MADE_AREA_H
#define PITOT_TEST_MADE_AREA_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/core/ring.h"
#include "capture/core/shared_area.h"
#include "capture/cuda/buffers.h"
#include "capture/cuda/records.h"

#define AREA_ROWS 3 /* of kernels, in the journal */

static inline void area_put(int memory, enum area_part part, uint64_t offset, const void *bytes,
			    size_t length)
{
	if (offset <= area_part_bytes(part) && length <= area_part_bytes(part) - offset &&
	    pwrite(memory, bytes, length, (off_t)(area_offset(part) + offset)) != (ssize_t)length)
		abort();
}

static inline void area_put_journal(int memory)
{
	_Alignas(8) uint8_t bytes[sizeof(struct journal) + 4096];
	struct journal *j = (void *)bytes;
	struct row_string text = { .id = 2, .text = { "kernel", 6 } };
	struct row_kernel kernel = { .start_ns = 5, .end_ns = 7 };

	memset(bytes, 0, sizeof(bytes));
	journal_begin(j, 4096, 77);
	journal_append(j, schema_table(TABLE_string), &text);
	for (unsigned i = 0; i < AREA_ROWS; i++)
		journal_append(j, schema_table(TABLE_kernel), &kernel);
	area_put(memory, AREA_JOURNAL, 0, bytes, sizeof(bytes));
}

static inline void area_put_ring(int memory)
{
	static struct ring ring; /* is all zeros otherwise */
	struct ring_launched launched = { .correlation = 3, .kernel = 1 };
	struct ring_event events[] = {
		{ .kind = RING_STACK, .c = 1, .d = 2 },
		{ .a = 0x1000, .b = 0x2000 },
		{ .kind = RING_API_CALL, .a = 10, .b = 20, .c = 3, .d = 1u << 16 | 307, .e = 1 },
		{ .kind = RING_NVTX, .a = 30, .c = 1u << 24, .length = 4 },
		{ .a = 0x74786574 },
		{ .kind = RING_COLLECTIVE, .a = 40, .b = 17, .c = 1, .e = 3, .flags = 1 },
		{ .a = 1000, .c = 1 },
		{ .a = 0 },
	};

	ring.head = ARRAY_SIZE(events);
	ring.tid = 9;
	ring.state = RING_LIVE;
	ring.nccl.pending = 1;
	ring.launched_count = 1;
	ring.nccl_pending[0][0] = events[5];
	area_put(memory, AREA_RINGS, 0, &ring, sizeof(ring));
	area_put(memory, AREA_RING_MEMORY, 0, events, sizeof(events));
	area_put(memory, AREA_RING_MEMORY,
		 RING_SLOTS * sizeof(struct ring_event) +
			 RING_COUNTERS * sizeof(struct ring_addition),
		 &launched, sizeof(launched));
}

static inline void area_put_nccl(int memory)
{
	struct area_nccl_text text = { .is_complete = 1, .text = "AllReduce" };
	struct area_communicator communicator = { .hash = 7, .ranks = 2, .is_complete = 1 };

	area_put(memory, AREA_NCCL, sizeof(text), &text, sizeof(text));
	area_put(memory, AREA_NCCL, offsetof(struct area_nccl, communicators), &communicator,
		 sizeof(communicator));
}

static inline void area_put_buffer(int memory)
{
	struct buffer_slot slot = { .is_out = 1, .size = 4096 };
	struct record_kernel kernel = {
		.kind = RECORD_CONCURRENT_KERNEL, .start = 1, .end = 2, .correlation = 3
	};
	struct area_kernel_name name = { .address = 0, .length = 6 };
	struct area_launch_name launch = { .length = 6 };
	uint64_t unknown = 63;

	area_put(memory, AREA_SLOTS, sizeof(slot), &slot, sizeof(slot));
	area_put(memory, AREA_BUFFERS, 0, &kernel, sizeof(kernel));
	area_put(memory, AREA_KERNEL_NAMES, 0, &name, sizeof(name));
	area_put(memory, AREA_KERNEL_NAMES, offsetof(struct area_kernel_names, text), "kernel", 6);
	/* The second buffer has a record of an unknown kind, and the launch's id behind it. */
	area_put(memory, AREA_SLOTS, 2 * sizeof(slot), &slot, sizeof(slot));
	area_put(memory, AREA_BUFFERS, BUFFER_BYTES, &unknown, sizeof(unknown));
	area_put(memory, AREA_BUFFERS, BUFFER_BYTES + sizeof(unknown), &kernel, sizeof(kernel));
	area_put(memory, AREA_LAUNCH_NAMES, sizeof(launch), &launch, sizeof(launch));
	area_put(memory, AREA_LAUNCH_NAMES, offsetof(struct area_launch_names, text), "kernel", 6);
}

/* Returns the memory. */
static inline int area_make(void)
{
	struct area_head head = { .layout = AREA_LAYOUT,
				  .pid = 7,
				  .ring_bytes = sizeof(struct ring),
				  .slot_bytes = sizeof(struct buffer_slot),
				  .cupti_version = CUPTI_13_0,
				  .has_clock = 1,
				  .kernel_names = 1,
				  .correlation_half = 0 };
	int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (memory < 0 || ftruncate(memory, (off_t)area_offset(AREA_PART_COUNT)) < 0 ||
	    fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		abort();
	memcpy(head.magic, AREA_MAGIC, sizeof(head.magic));
	head.record_bytes[RECORD_CONCURRENT_KERNEL] = sizeof(struct record_kernel);
	area_put(memory, AREA_HEAD, 0, &head, sizeof(head));
	area_put_journal(memory);
	area_put_ring(memory);
	area_put_nccl(memory);
	area_put_buffer(memory);
	return memory;
}

#endif
