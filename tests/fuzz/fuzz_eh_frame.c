/* layer: stack */
/*
 * Any bytes as call frame information. The first byte chooses how they are read: as .eh_frame, as
 * .debug_frame, through a search table at their beginning, or as an ELF file that has one of these.
 */
#include "fuzz.h"

#include "base/bytes.h"
#include "elf/elf_file.h"
#include "stack/unwind/unwind_parts.h"

#define BYTES_MAX (8u << 20)

/* Every part, and addresses in it. */
static void ask_parts(const struct unwind_input *input)
{
	struct unwind_store store;
	struct unwind_parts *parts;

	if (unwind_store_init(&store, BYTES_MAX) < 0)
		return;
	if (unwind_parts_new(input, input->base + (1 << 20), NULL, NULL, &store, &parts) == 0) {
		for (uint64_t at = input->base; at < input->base + (1 << 20); at += 1777) {
			const struct unwind_rule *rule = unwind_parts_find(parts, at);

			if (rule && (rule->cfa > CFA_SIGNAL || rule->base >= REG_RA_))
				__builtin_trap();
		}
		unwind_parts_free(parts);
	}
	unwind_store_release(&store);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct unwind_input input = { 0 };
	struct elf_file file = { 0 };
	uint8_t how = size ? bytes[0] & 3 : 0;

	if (size < 2)
		return 0;
	bytes++;
	size--;
	input.section = (struct eh_section){
		.bytes = bytes, .size = size, .address = 0x1000, .debug = how == 1
	};
	if (how == 2) {
		input.search_count = MIN(bytes[0], (size - 1) / 8);
		input.search = bytes + 1;
		input.header_address = 0x1000;
	}
	if (how == 3 && elf_file_open_bytes(bytes, size, &file, NULL) < 0)
		return 0;
	if (how != 3 || elf_unwind_input(&file, &input) == 0)
		ask_parts(&input);
	if (how == 3 && input.search) {
		input.search = NULL;
		ask_parts(&input);
	}
	elf_file_release(&file);
	return 0;
}
