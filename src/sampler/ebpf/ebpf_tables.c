#include "sampler/ebpf/ebpf_tables.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "base/clock.h"

#define HALF (BPF_RANGES / 2)
#define SWITCH_NS UINT64_C(1000000000) /* minimum time between two switches of the halves */

_Static_assert(BPF_PART_SHIFT == UNWIND_PART_SHIFT, "both divide code into parts of one size");
_Static_assert(BPF_RULES > UNWIND_RULE_UNKNOWN,
	       "UNWIND_RULE_UNKNOWN is the rule of rows whose rule was not uploaded");

/* --- blocks --- */

/* Adds a block of at least `count` cells to the programs. Returns -1 if there is no room. */
static int add_block(struct ebpf_tables *t, uint32_t count)
{
	struct ebpf_block block = { .count = MAX(count, 1u << BPF_BLOCK_SHIFT) };
	size_t bytes = block.count * sizeof(*block.cells);
	uint32_t number = (uint32_t)t->blocks.count;
	int fd, r = -1;

	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	if (number == BPF_BLOCKS || t->bytes + bytes > EBPF_TABLE_BYTES_MAX ||
	    vec_reserve(&t->blocks, 1) < 0)
		return -1;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pitot_cells", sizeof(uint32_t),
			    sizeof(struct bpf_cell), block.count, &options);
	if (fd < 0)
		return -1;
	block.cells = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (block.cells != MAP_FAILED) {
		r = bpf_map_update_elem(t->programs->blocks, &number, &fd, BPF_ANY);
		if (r < 0)
			munmap(block.cells, bytes);
	}
	close(fd);
	if (r < 0)
		return -1;
	t->bytes += bytes;
	t->blocks.data[t->blocks.count++] = block;
	return 0;
}

/* Allocates `count` adjacent cells. NULL: there is no room. */
static struct bpf_cell *claim_cells(struct ebpf_tables *t, uint32_t count, uint32_t *place)
{
	struct ebpf_block *block;
	size_t i = t->blocks.count;

	while (i > 0 && t->blocks.data[i - 1].count - t->blocks.data[i - 1].used < count)
		i--;
	if (i == 0) {
		if (add_block(t, count) < 0)
			return NULL;
		i = t->blocks.count;
	}
	block = &t->blocks.data[i - 1];
	*place = (uint32_t)(i - 1) << BPF_BLOCK_SHIFT | block->used;
	block->used += count;
	return &block->cells[block->used - count];
}

int ebpf_tables_init(struct ebpf_tables *t, struct sampler_programs *programs)
{
	memset(t, 0, sizeof(*t));
	t->programs = programs;
	/*
	 * Adding a block takes several milliseconds, during which the sampler's thread sleeps: add
	 * the first one before sampling starts.
	 */
	return add_block(t, 0) < 0 ? -ENOMEM : 0;
}

void ebpf_tables_release(struct ebpf_tables *t)
{
	for (size_t i = 0; i < t->blocks.count; i++)
		munmap(t->blocks.data[i].cells, t->blocks.data[i].count * sizeof(struct bpf_cell));
	vec_release(&t->blocks);
	vec_release(&t->tables);
	map_release(&t->numbers);
	map_release(&t->images);
}

/* --- tables --- */

static void upload_rules(struct ebpf_tables *t, const struct unwind_store *store)
{
	uint32_t count = (uint32_t)MIN(store->rules.count, BPF_RULES);

	for (; t->rule_count < count; t->rule_count++)
		memcpy(&sampler_rules(t->programs)[t->rule_count],
		       unwind_store_rule(store, t->rule_count), sizeof(struct unwind_rule));
}

/* Returns false if there is no room. */
static bool upload_part(struct ebpf_tables *t, struct ebpf_table *table,
			const struct unwind_parts *parts, uint32_t number)
{
	const struct unwind_part *part = parts->parts[number];
	uint32_t first = number << UNWIND_PART_SHIFT, place;
	struct bpf_cell *cells = claim_cells(t, part->count, &place);

	if (!cells)
		return false;
	for (uint32_t i = 0; i < part->count; i++) {
		uint32_t rule = unwind_row_rule(part->rows[i]);

		cells[i] = (struct bpf_cell){ first + unwind_row_offset(part->rows[i]),
					      rule < BPF_RULES ? rule : UNWIND_RULE_UNKNOWN };
	}
	/* A reader that sees the part also sees its rows. */
	__atomic_store_n((uint64_t *)(void *)&table->directory[number],
			 (uint64_t)part->count << 32 | place, __ATOMIC_RELEASE);
	return true;
}

static struct ebpf_table new_table(struct ebpf_tables *t, uint32_t number,
				   const struct unwind_parts *parts)
{
	struct ebpf_table table = { .number = BPF_TABLE_MISSING };
	uint32_t place;

	if (number < BPF_TABLES)
		table.directory = claim_cells(t, MAX(parts->part_count, 1u), &place);
	if (!table.directory)
		return table;
	sampler_tables(t->programs)[number] = (struct bpf_table){ .base = parts->base,
								  .length = parts->length,
								  .directory = place };
	table.number = number;
	return table;
}

/* Finds or adds the table of a file. NULL: no memory. */
static struct ebpf_table *find_table(struct ebpf_tables *t, const struct unwind_parts *parts)
{
	uint64_t *number = map_at(&t->numbers, (uintptr_t)parts, 0);

	if (!number)
		return NULL;
	if (*number == 0) {
		/* Number 0 means that there is none. */
		if (vec_reserve(&t->tables, 2) < 0)
			return NULL;
		t->tables.count = MAX(t->tables.count, 1u);
		t->tables.data[t->tables.count] = new_table(t, (uint32_t)t->tables.count, parts);
		*number = t->tables.count++;
	}
	return &t->tables.data[*number];
}

uint32_t ebpf_tables_upload(struct ebpf_tables *t, const struct unwind_parts *parts)
{
	struct ebpf_table *table = find_table(t, parts);

	if (!table)
		return BPF_TABLE_MISSING;
	if (!table->directory || table->uploaded == parts->compiled.count)
		return table->number;
	upload_rules(t, parts->store);
	while (table->uploaded < parts->compiled.count &&
	       upload_part(t, table, parts, parts->compiled.data[table->uploaded]))
		table->uploaded++;
	return table->number;
}

/* --- images --- */

bool ebpf_tables_has(const struct ebpf_tables *t, uint64_t image)
{
	uint64_t unused;

	return map_get(&t->images, image, &unused);
}

void ebpf_tables_forget(struct ebpf_tables *t, uint64_t image)
{
	if (ebpf_tables_has(t, image))
		bpf_map_delete_elem(t->programs->images, &image);
}

/* Deletes all images from the BPF map, after which nothing refers to the other half. */
static void forget_all(struct ebpf_tables *t)
{
	uint64_t image;

	while (bpf_map_get_next_key(t->programs->images, NULL, &image) == 0)
		if (bpf_map_delete_elem(t->programs->images, &image) < 0 && errno != ENOENT)
			break;
	map_clear(&t->images);
}

/* Allocates `count` ranges. Returns the index of the first, or -1. */
static int64_t claim_ranges(struct ebpf_tables *t, size_t count)
{
	uint64_t now = clock_monotonic_ns();

	if (count > BPF_RANGES_OF_PROCESS)
		return -1;
	if (t->used + count > HALF) {
		if (now - t->switched_ns < SWITCH_NS)
			return -1;
		forget_all(t);
		t->switched_ns = now;
		t->half ^= 1;
		t->used = 0;
	}
	t->used += (uint32_t)count;
	return (int64_t)t->half * HALF + t->used - (int64_t)count;
}

int ebpf_tables_upload_image(struct ebpf_tables *t, uint64_t image,
			     const struct target_range *ranges, size_t count,
			     const struct bpf_python *python)
{
	int64_t first = claim_ranges(t, count);
	struct bpf_range *out = sampler_ranges(t->programs) + (first < 0 ? 0 : first);
	struct bpf_image value = { .first_range = (uint32_t)first,
				   .range_count = (uint32_t)count,
				   .generation = ++t->generation };

	if (first < 0)
		return E_LIMIT;
	for (size_t i = 0; i < count; i++) {
		const struct target_range *r = &ranges[i];
		uint32_t number = BPF_TABLE_MISSING;

		if (r->parts)
			number = ebpf_tables_upload(t, r->parts);
		else if (r->file)
			number = BPF_TABLE_NONE;
		out[i] = (struct bpf_range){ r->start, r->end, r->bias, number, 0 };
	}
	if (python)
		value.python = *python;
	if (map_put(&t->images, image, 1) < 0)
		return -ENOMEM;
	/*
	 * A program that sees the image also sees its ranges: the operating system's kernel
	 * releases the item of the map after all that was stored before.
	 */
	return bpf_map_update_elem(t->programs->images, &image, &value, BPF_ANY);
}
