#include "stack/unwind/rule_lookup.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "elf/eh_frame.h"
#include "base/safe_memory.h"

#define HEADER_BYTES 12u /* linkers encode both addresses in four bytes */
#define PAIR_BYTES 8u
#define PAIRS_MAX (1u << 27)
#define PAIRS_AT_ONCE 256u /* copying these takes hardly longer than copying one */
#define FDE_OFFSET 512u /* longer CIEs do not occur */
#define FDE_BYTES_MAX (RULE_LOOKUP_BYTES - FDE_OFFSET)
#define USUAL_BYTES 256u /* longer entries are copied in two steps */
#define ENTRY_START 8u /* length and CIE pointer */

_Static_assert(PAIRS_AT_ONCE *PAIR_BYTES <= RULE_LOOKUP_BYTES, "the same room");

/* --- finding the header --- */

/* Result of _dl_find_object(), part of glibc's ABI since 2.35. */
struct found_object {
	unsigned long long flags;
	void *map_start, *map_end;
	void *link_map;
	void *eh_frame; /* PT_GNU_EH_FRAME */
	unsigned long long reserved[7];
};

static int (*find_object)(void *pc, struct found_object *result);

void rule_lookup_init(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "_dl_find_object");

	memcpy(&find_object, &symbol, sizeof(find_object));
}

uint64_t rule_lookup_header(uint64_t pc)
{
	struct found_object found;

	if (!find_object || find_object((void *)(uintptr_t)pc, &found) != 0)
		return 0;
	return (uint64_t)(uintptr_t)found.eh_frame;
}

/* --- the search table --- */

struct search_table {
	pid_t pid; /* this process */
	uint64_t header; /* address to which pairs are relative */
	uint64_t pairs; /* address of the first pair */
	uint32_t count;
};

static bool read_header(uint64_t header, struct search_table *table)
{
	pid_t pid = getpid();
	uint8_t bytes[EH_HEADER_BYTES] = { 0 };
	size_t copied = memory_copy_some(pid, bytes, header, sizeof(bytes));
	struct eh_header found;

	/* Only the header has the table's length; unmapped pairs cannot be copied. */
	if (copied < HEADER_BYTES ||
	    !eh_header_read(bytes, PAIR_BYTES * PAIRS_MAX, header, &found) || !found.pair_count)
		return false;
	*table = (struct search_table){ pid, header, header + (uint64_t)(found.pairs - bytes),
					(uint32_t)found.pair_count };
	return true;
}

static uint64_t absolute(const struct search_table *table, const uint8_t *relative)
{
	return table->header + (uint64_t)(int64_t)(int32_t)load_u32(relative);
}

static bool read_pairs(const struct search_table *table, uint32_t first, uint32_t count,
		       uint8_t *pairs)
{
	size_t size = (size_t)count * PAIR_BYTES;

	return memory_copy_some(table->pid, pairs, table->pairs + (uint64_t)first * PAIR_BYTES,
				size) == size;
}

/*
 * Finds the FDE of the last function that starts at or before pc. Returns 1, 0 when all start after
 * it, or -1 when the table is unreadable.
 */
static int find_fde(const struct search_table *table, uint64_t pc, uint8_t *pairs, uint64_t *fde)
{
	uint32_t low = 0, high = table->count; /* the first pair after pc is in [low, high] */

	while (high - low > PAIRS_AT_ONCE) {
		uint32_t middle = low + (high - low) / 2;

		if (!read_pairs(table, middle, 1, pairs))
			return -1;
		if (absolute(table, pairs) <= pc)
			low = middle;
		else
			high = middle;
	}
	if (!read_pairs(table, low, high - low, pairs))
		return -1;
	for (uint32_t i = high - low; i-- > 0;) {
		if (absolute(table, pairs + i * PAIR_BYTES) > pc)
			continue;
		*fde = absolute(table, pairs + i * PAIR_BYTES + 4);
		return 1;
	}
	return 0;
}

/* --- the entry --- */

/* Copies an entry of at most `max` bytes. Returns its length, or 0. */
static size_t copy_entry(pid_t pid, uint8_t *to, uint64_t address, size_t max)
{
	size_t copied = memory_copy_some(pid, to, address, MIN(max, USUAL_BYTES)), length;

	if (copied < ENTRY_START)
		return 0;
	length = (size_t)load_u32(to) + 4; /* 64-bit entries do not occur, and exceed `max` */
	if (length < ENTRY_START || length > max)
		return 0;
	if (length > copied && memory_copy_some(pid, to + copied, address + copied,
						length - copied) != length - copied)
		return 0;
	return length;
}

/* Builds a section of two entries: the CIE, and at FDE_OFFSET the FDE. Returns its size, or 0. */
static size_t copy_both(pid_t pid, uint64_t address, uint8_t *bytes)
{
	uint8_t *fde = bytes + FDE_OFFSET;
	size_t length = copy_entry(pid, fde, address, FDE_BYTES_MAX);

	if (!length || !copy_entry(pid, bytes, address + 4 - load_u32(fde + 4), FDE_OFFSET))
		return 0;
	store_u32(fde + 4, FDE_OFFSET + 4);
	return FDE_OFFSET + length;
}

struct wanted_row {
	uint64_t pc;
	struct unwind_rule *rule;
};

static void select_row(void *context, uint64_t start, const struct unwind_rule *rule)
{
	struct wanted_row *wanted = context;

	if (start <= wanted->pc)
		*wanted->rule = *rule;
}

bool rule_lookup(struct rule_lookup_room *room, uint64_t header, uint64_t pc,
		 struct unwind_rule *rule)
{
	struct eh_section section = { .bytes = room->bytes, .data_base = header };
	struct wanted_row wanted = { pc, rule };
	struct eh_fde fde = { 0 };
	struct search_table table;
	uint64_t address;
	size_t next;
	int rc;

	if (!read_header(header, &table))
		return false;
	rc = find_fde(&table, pc, room->bytes, &address);
	if (rc < 0)
		return false;
	*rule = (struct unwind_rule){ .cfa = CFA_NONE };
	if (rc == 0)
		return true;
	section.size = copy_both(table.pid, address, room->bytes);
	section.address = address - FDE_OFFSET;
	if (!section.size)
		return false;
	/* An entry that cannot be used leaves its code without rules, as in unwind_parts.c. */
	if (eh_frame_entry(&section, FDE_OFFSET, &fde, &next) == 1 && pc >= fde.start &&
	    pc < fde.end)
		eh_frame_rows(&section, &fde, select_row, &wanted);
	return true;
}
