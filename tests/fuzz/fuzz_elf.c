/* layer: symbol */
/*
 * Any bytes as an ELF file with its symbols, frame descriptions, MiniDebugInfo and DWARF. The
 * corpus is made by tests/fuzz/seeds_elf.
 */
#include "fuzz.h"

#include "elf/usdt_notes.h"
#include "symbol/image.h"

#define QUESTIONS_MAX 512

static void ask(struct image *image, uint64_t address)
{
	struct image_answer answer;

	for (int kind = ADDRESS_INSTRUCTION; kind <= ADDRESS_RETURN; kind++) {
		if (image_find(image, address, (enum address_kind)kind, &answer) < 0)
			return;
		if (answer.count == 0 || answer.count > SOURCE_FRAMES_MAX)
			abort();
		for (unsigned i = 0; i < answer.count; i++) {
			const struct source_frame *f = &answer.frames[i];

			if ((f->function && strlen(f->function) > SIZE_MAX / 2) ||
			    (f->file && strlen(f->file) > SIZE_MAX / 2))
				abort();
		}
	}
}

static void ask_all(struct image *image)
{
	for (size_t i = 0; i < image->symbols.symbols.count && i < QUESTIONS_MAX; i++)
		ask(image, image->symbols.symbols.data[i].start);
	for (size_t i = 0; i < image->bounds.items.count && i < QUESTIONS_MAX; i++)
		ask(image, image->bounds.items.data[i].end);
	for (size_t i = 0; i < image->code.segment_count && i < QUESTIONS_MAX; i++)
		for (uint64_t k = 0; k < 64; k++)
			ask(image, image->code.segments[i].address + 7 * k);
}

/* A probe that is returned can be set: it is in the file, as is its semaphore. */
static int check_probe(void *user, const struct usdt_probe *probe)
{
	const struct elf_file *file = user;

	if (probe->offset >= file->size || probe->semaphore > file->size - 2 ||
	    strlen(probe->name) + strlen(probe->arguments) > file->size)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct debug_folders none = { .root = "" };
	static const uint64_t addresses[] = { 0, 1, 0x1000, 0x1010, 0x1100, 0x401000, UINT64_MAX };
	const struct wanted_addresses wanted = { addresses, ARRAY_SIZE(addresses) };
	struct image_request request = {
		.path = "/nonexistent/file", .build_id = "", .folders = &none, .lines = true
	};
	struct elf_file file;
	struct image image;

	for (int near = 0; near < 2; near++) {
		request.wanted = near ? &wanted : NULL;
		if (elf_file_open_bytes(bytes, size, &file, NULL) < 0)
			return 0;
		if (!near)
			(void)!usdt_probes(&file, "pytorch", check_probe, &file, NULL);
		if (image_open(&image, &file, &request, NULL) < 0)
			return 0;
		ask_all(&image);
		image_release(&image);
	}
	return 0;
}
