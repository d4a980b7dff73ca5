#include "stack/module_build.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "stack/safe_memory.h"

#define CHUNK_BYTES (1u << 20) /* copied between looks at the clock: about 0.2 ms */
#define CHUNK_FDES 256u /* compiled between them */
#define HEADER_BYTES_MAX (32u << 20)

enum stage { STAGE_HEADER, STAGE_COPY, STAGE_START, STAGE_COMPILE };

struct module_build {
	struct stack_module *module;
	size_t bytes_max;
	enum stage stage;
	uint8_t *header; /* copy of .eh_frame_hdr */
	uint8_t *frames; /* copy of .eh_frame */
	uint64_t address; /* of .eh_frame in memory */
	size_t size, copied;
	struct unwind_input input;
	struct unwind_builder *builder;
};

struct module_build *module_build_new(struct stack_module *module, size_t bytes_max)
{
	struct module_build *b = calloc(1, sizeof(*b));

	if (b) {
		b->module = module;
		b->bytes_max = bytes_max;
	}
	return b;
}

void module_build_free(struct module_build *b)
{
	if (!b)
		return;
	unwind_builder_cancel(b->builder);
	free(b->header);
	free(b->frames);
	free(b);
}

struct stack_module *module_build_of(const struct module_build *b)
{
	return b->module;
}

/* Finds .eh_frame, and the search table if there is one. false: the header makes no sense. */
static bool read_header(struct module_build *b, size_t size)
{
	uint64_t virtual = b->module->header - b->module->bias;
	struct eh_header header;

	if (!eh_header_read(b->header, size, virtual, &header))
		return false;
	b->input.header_address = virtual;
	b->input.base = b->module->base;
	b->input.section.address = header.frames;
	b->input.section.data_base = virtual;
	b->input.search = header.pairs;
	b->input.search_count = header.pair_count;
	b->address = header.frames + b->module->bias;
	return b->address < b->module->segment_end;
}

/* Where .eh_frame ends: after the last entry of the search table, else with its segment at the latest. */
static uint64_t frames_end(const struct module_build *b)
{
	const struct unwind_input *in = &b->input;
	uint64_t last = 0, at;
	uint8_t length[12];

	for (size_t i = 0; in->search && i < in->search_count; i++) {
		int32_t relative = (int32_t)load_u32(in->search + 8 * i + 4);

		at = b->module->header + (uint64_t)(int64_t)relative;
		if (at < b->module->segment_end)
			last = MAX(last, at);
	}
	if (last < b->address || !memory_copy(length, last, sizeof(length)))
		return b->module->segment_end;
	at = load_u32(length);
	at = at == UINT32_MAX ? load_u64(length + 4) + 12 : at + 4;
	return at < b->module->segment_end - last ? last + at : b->module->segment_end;
}

static int take_header(struct module_build *b)
{
	size_t size = MIN(b->module->header_size, HEADER_BYTES_MAX);

	if (size > b->bytes_max)
		return E_LIMIT;
	b->header = malloc(size ? size : 1);
	if (!b->header)
		return -ENOMEM;
	if (!memory_copy(b->header, b->module->header, size))
		return -EFAULT;
	b->stage = STAGE_START;
	if (!read_header(b, size))
		return 1;
	b->size = frames_end(b) - b->address;
	if (b->size > b->bytes_max - size)
		return E_LIMIT;
	b->frames = malloc(b->size ? b->size : 1);
	if (!b->frames)
		return -ENOMEM;
	b->stage = STAGE_COPY;
	return 1;
}

static int copy_some(struct module_build *b)
{
	size_t chunk = MIN(b->size - b->copied, CHUNK_BYTES);

	if (chunk && !memory_copy(b->frames + b->copied, b->address + b->copied, chunk))
		return -EFAULT;
	b->copied += chunk;
	if (b->copied == b->size) {
		b->input.section.bytes = b->frames;
		b->input.section.size = b->size;
		b->stage = STAGE_START;
	}
	return 1;
}

static int start(struct module_build *b)
{
	int r;

	b->input.bytes_max = b->bytes_max - b->size;
	r = unwind_builder_start(&b->input, &b->builder);
	b->stage = STAGE_COMPILE;
	return r < 0 ? r : 1;
}

static int compile(struct module_build *b, struct unwind_table **table)
{
	int r = unwind_builder_step(b->builder, CHUNK_FDES, table);

	if (r != 1)
		b->builder = NULL;
	return r;
}

int module_build_step(struct module_build *b, uint64_t deadline_ns, struct unwind_table **table)
{
	int r;

	do {
		switch (b->stage) {
		case STAGE_HEADER:
			r = b->module->header ? take_header(b) : 1;
			if (!b->module->header)
				b->stage = STAGE_START;
			break;
		case STAGE_COPY:
			r = copy_some(b);
			break;
		case STAGE_START:
			r = start(b);
			break;
		default:
			r = compile(b, table);
		}
	} while (r == 1 && clock_monotonic_ns() < deadline_ns);
	return r;
}
