#include "stack/unwind/module_build.h"

#include <sys/mman.h>

#include "base/reserve.h"
#include "base/safe_memory.h"

#define PAGE UINT64_C(4096)
#define COPY_BYTES_MAX (UINT64_C(4) << 30)

/* A copy of the addresses [start, end) of the process, made page by page on demand. */
struct memory_pages {
	uint64_t start, end;
	uint8_t *bytes;
	uint64_t *copied; /* one bit per page */
	bool failed; /* a page could not be copied */
};

struct module_build {
	struct stack_module *module;
	struct memory_pages pages; /* .eh_frame_hdr and .eh_frame */
	struct unwind_parts *parts;
};

/* --- copies --- */

static bool pages_init(struct memory_pages *p, uint64_t start, uint64_t end)
{
	*p = (struct memory_pages){ .start = start & ~(PAGE - 1), .end = end };
	if (end - p->start > COPY_BYTES_MAX)
		return false;
	p->bytes = reserve_memory(end - p->start);
	p->copied = calloc((end - p->start) / PAGE / 64 + 1, sizeof(*p->copied));
	return p->bytes && p->copied;
}

static void pages_release(struct memory_pages *p)
{
	if (p->bytes)
		munmap(p->bytes, p->end - p->start);
	free(p->copied);
}

static bool copy_page(struct memory_pages *p, uint64_t page)
{
	uint64_t offset = page * PAGE, size = MIN(PAGE, p->end - p->start - offset);

	if (p->copied[page / 64] >> page % 64 & 1)
		return true;
	if (!memory_copy(p->bytes + offset, p->start + offset, size)) {
		p->failed = true;
		return false;
	}
	p->copied[page / 64] |= UINT64_C(1) << page % 64;
	return true;
}

static bool load(void *context, const uint8_t *bytes, size_t size)
{
	struct memory_pages *p = context;
	uint64_t offset = (uint64_t)((uintptr_t)bytes - (uintptr_t)p->bytes);
	uint64_t length = p->end - p->start;

	if (offset > length || size > length - offset)
		return false;
	for (uint64_t page = offset / PAGE; page * PAGE < offset + size; page++)
		if (!copy_page(p, page))
			return false;
	return true;
}

static const uint8_t *copy_of(const struct memory_pages *p, uint64_t address)
{
	return p->bytes + (address - p->start);
}

/* --- the module --- */

/* Leaves *input empty when the header is invalid. Returns false when it is unreadable. */
static bool find_input(struct module_build *b, struct unwind_input *input)
{
	const struct stack_module *module = b->module;
	uint64_t virtual = module->header - module->bias, frames;
	uint8_t bytes[EH_HEADER_BYTES];
	struct eh_header header;

	if (!memory_copy(bytes, module->header, MIN(module->header_size, sizeof(bytes))))
		return false;
	if (!eh_header_read(bytes, module->header_size, virtual, &header))
		return true;
	frames = header.frames + module->bias;
	if (frames < module->segment_start || frames >= module->segment_end)
		return true;
	if (!pages_init(&b->pages, MIN(frames, module->header), module->segment_end))
		return false;
	input->section = (struct eh_section){ .bytes = copy_of(&b->pages, frames),
					      .size = module->segment_end - frames,
					      .address = header.frames,
					      .data_base = virtual };
	input->header_address = virtual;
	input->search_count = header.pair_count;
	if (header.pairs)
		input->search = copy_of(&b->pages, module->header) + (header.pairs - bytes);
	return true;
}

struct module_build *module_build_new(struct stack_module *module, struct unwind_store *store)
{
	struct unwind_input input = { .base = module->code_start };
	struct module_build *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->module = module;
	if (find_input(b, &input) && (input.search || input.section.size <= store->bytes_max) &&
	    unwind_parts_new(&input, module->code_end, load, &b->pages, store, &b->parts) == 0 &&
	    !b->pages.failed)
		return b;
	module_build_free(b);
	return NULL;
}

void module_build_free(struct module_build *b)
{
	if (!b)
		return;
	unwind_parts_free(b->parts);
	pages_release(&b->pages);
	free(b);
}

struct stack_module *module_build_of(const struct module_build *b)
{
	return b->module;
}

bool module_build_reads_all(const struct module_build *b)
{
	return !b->parts->input.search;
}

struct unwind_part *module_build_part(struct module_build *b, uint32_t number)
{
	struct unwind_part *part = unwind_part_compile(b->parts, number);

	if (!b->pages.failed)
		return part;
	unwind_part_free(b->parts->store, part);
	return NULL;
}
