/*
 * hostile_recording.c: recordings of a few KB, valid in every byte, that no recorder would write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "format/block_build.h"
#include "format/segment.h"
#include "support/recordings/recordings.h"

#define BLOCKS 2u
#define ROWS BLOCK_ROWS_MAX

static struct block_builder builder;
static struct strbuf out;
static uint64_t blocks;

static void put(enum table_id table, void *rows, size_t count)
{
	struct block_rows in = { .table = schema_table(table), .rows = rows, .count = count };
	struct block_header header;

	if (block_build(&builder, &in, blocks++, &out, &header) < 0)
		abort();
}

#define NEW_ROWS(table) struct row_##table *table = calloc(ROWS, sizeof(*table))

static void chain(void)
{
	NEW_ROWS(stack_node);
	NEW_ROWS(stack);
	NEW_ROWS(cpu_sample);

	for (uint32_t b = 0; b < BLOCKS; b++) {
		for (uint32_t i = 0; i < ROWS; i++) {
			uint32_t id = 1 + b * ROWS + i;

			stack_node[i] = (struct row_stack_node){ .id = id,
								 .parent = id - 1,
								 .address = 0x1000 + id };
			stack[i] = (struct row_stack){ .id = id, .node = id, .depth = id };
			cpu_sample[i] = (struct row_cpu_sample){ .time_ns = 1000 + id,
								 .weight_ns = 1000,
								 .stack = id };
		}
		put(TABLE_stack_node, stack_node, ROWS);
		put(TABLE_stack, stack, ROWS);
		put(TABLE_cpu_sample, cpu_sample, ROWS);
	}
	free(stack_node);
	free(stack);
	free(cpu_sample);
}

static void pushes(void)
{
	NEW_ROWS(nvtx);
	NEW_ROWS(api_call);
	NEW_ROWS(kernel);

	for (uint32_t b = 0; b < BLOCKS; b++) {
		for (uint32_t i = 0; i < ROWS; i++) {
			uint64_t at = 1000 + 10 * (b * ROWS + i);

			nvtx[i] = (struct row_nvtx){ .time_ns = at,
						     .kind = nvtx_kind_push,
						     .level = UINT8_MAX };
			ROW_MISSING(&nvtx[i], nvtx, range);
			api_call[i] = (struct row_api_call){ .start_ns = at + 1,
							     .end_ns = at + 2,
							     .correlation = at };
			kernel[i] = (struct row_kernel){ .start_ns = at + 3,
							 .end_ns = at + 4,
							 .correlation = at };
		}
		put(TABLE_nvtx, nvtx, ROWS);
		put(TABLE_api_call, api_call, ROWS);
		put(TABLE_kernel, kernel, ROWS);
	}
	free(nvtx);
	free(api_call);
	free(kernel);
}

static void clocks(void)
{
	struct row_clock clock = { .monotonic_ns = 1, .realtime_ns = INT64_MAX };
	struct row_kernel kernel = { .start_ns = INT64_MAX, .end_ns = UINT64_MAX };
	struct row_context context = { .missing = UINT64_MAX };

	put(TABLE_clock, &clock, 1);
	put(TABLE_kernel, &kernel, 1);
	put(TABLE_context, &context, 1);
}

static void begin(void)
{
	struct segment_header h = { .magic = SEGMENT_MAGIC,
				    .version = SEGMENT_VERSION,
				    .header_bytes = sizeof(h),
				    .session = 1,
				    .pid = 1 };
	struct row_process process = { .missing = schema_missing(TABLE_process),
				       .pid = 1,
				       .start_ns = 1,
				       .end_ns = 1000000000 };

	ROW_PRESENT(&process, process, end_ns);
	h.crc = crc32c(0, &h, offsetof(struct segment_header, crc));
	strbuf_add(&out, &h, sizeof(h));
	put(TABLE_process, &process, 1);
}

static void write_out(const char *folder, void (*make)(void))
{
	char path[4096];
	FILE *f;

	if (block_builder_init(&builder, ROWS, 19) < 0)
		abort();
	begin();
	make();
	snprintf(path, sizeof(path), "%s/1.0.pit", folder);
	f = mkdir(folder, 0777) == 0 ? fopen(path, "w") : NULL;
	if (!f || fwrite(out.data, 1, out.length, f) != out.length || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
	block_builder_release(&builder);
	strbuf_release(&out);
}

void recording_hostile_chain(const char *folder)
{
	write_out(folder, chain);
}

void recording_hostile_pushes(const char *folder)
{
	write_out(folder, pushes);
}

void recording_hostile_clock(const char *folder)
{
	write_out(folder, clocks);
}
