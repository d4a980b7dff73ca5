#include "cpu/ebpf_tables.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "base/clock.h"

#define HALF (BPF_RANGES / 2)
#define SWITCH_NS UINT64_C(1000000000) /* between two changes of the halves, at least */

static uint32_t rule_number(struct ebpf_tables *t, const struct unwind_rule *rule)
{
	int64_t id;
	bool is_new;

	if (t->rules.count == BPF_RULES) {
		id = interner_find(&t->rules, rule, sizeof(*rule));
		return id < 0 ? UNWIND_RULE_UNKNOWN : (uint32_t)id;
	}
	id = interner_add(&t->rules, rule, sizeof(*rule), &is_new);
	if (id < 0)
		return UNWIND_RULE_UNKNOWN;
	if (is_new)
		memcpy(&sampler_rules(t->programs)[id], rule, sizeof(*rule));
	return (uint32_t)id;
}

void ebpf_tables_init(struct ebpf_tables *t, struct sampler_programs *programs)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	static const struct unwind_rule unknown = { .cfa = CFA_UNKNOWN };

	memset(t, 0, sizeof(*t));
	t->programs = programs;
	interner_init(&t->rules);
	rule_number(t, &none); /* UNWIND_RULE_NONE, as the programs know it */
	rule_number(t, &unknown);
}

void ebpf_tables_release(struct ebpf_tables *t)
{
	interner_release(&t->rules);
	map_release(&t->numbers);
	map_release(&t->images);
}

/* --- tables --- */

static uint32_t page_count(const struct unwind_table *table)
{
	return table->length ? ((table->length - 1) >> UNWIND_PAGE_SHIFT) + 1 : 0;
}

static void fill_cells(struct ebpf_tables *t, const struct unwind_table *table,
		       struct bpf_cell *cells)
{
	uint32_t pages = page_count(table), *numbers;

	for (uint32_t p = 0; p < pages; p++)
		cells[p] = (struct bpf_cell){ table->pages[p], table->pages[p + 1] };
	cells += pages;
	numbers = calloc(table->rule_count, sizeof(*numbers));
	for (uint32_t i = 0; numbers && i < table->rule_count; i++)
		numbers[i] = rule_number(t, &table->rules[i]);
	for (uint32_t i = 0; i < table->row_count; i++)
		cells[i] =
			(struct bpf_cell){ table->starts[i], numbers ? numbers[table->row_rules[i]]
								     : UNWIND_RULE_UNKNOWN };
	free(numbers);
}

/* An array of the kernel's with the table's cells; -1. */
static int make_cells(struct ebpf_tables *t, const struct unwind_table *table)
{
	uint64_t count = (uint64_t)page_count(table) + table->row_count;
	size_t bytes = count * sizeof(struct bpf_cell);
	void *cells;
	int fd;

	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	if (count == 0 || count > UINT32_MAX / 2 || t->bytes + bytes > EBPF_TABLE_BYTES_MAX)
		return -1;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pitot_cells", sizeof(uint32_t),
			    sizeof(struct bpf_cell), (uint32_t)count, &options);
	if (fd < 0)
		return -1;
	cells = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (cells == MAP_FAILED) {
		close(fd);
		return -1;
	}
	fill_cells(t, table, cells);
	munmap(cells, bytes);
	t->bytes += bytes;
	return fd;
}

/* Number of a new table, or BPF_TABLE_WANTED. */
static uint32_t upload(struct ebpf_tables *t, const struct unwind_table *table)
{
	uint32_t number = t->table_count + 1;
	int fd, r;

	fd = number < BPF_TABLES ? make_cells(t, table) : -1;
	if (fd < 0)
		return BPF_TABLE_WANTED;
	sampler_tables(t->programs)[number] = (struct bpf_table){ .base = table->base,
								  .length = table->length,
								  .pages = page_count(table) };
	r = bpf_map_update_elem(t->programs->table_cells, &number, &fd, BPF_ANY);
	close(fd);
	if (r < 0)
		return BPF_TABLE_WANTED;
	t->table_count = number;
	return number;
}

uint32_t ebpf_tables_number(struct ebpf_tables *t, const struct unwind_table *table)
{
	uint64_t number;

	if (map_get(&t->numbers, (uintptr_t)table, &number))
		return (uint32_t)number;
	if (table->row_count == 0)
		return BPF_TABLE_NONE;
	number = upload(t, table);
	if (map_put(&t->numbers, (uintptr_t)table, number) < 0)
		return BPF_TABLE_WANTED;
	return (uint32_t)number;
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

/* Deletes all images of the kernel's; afterwards nothing refers to the other half. */
static void forget_all(struct ebpf_tables *t)
{
	uint64_t image;

	while (bpf_map_get_next_key(t->programs->images, NULL, &image) == 0)
		if (bpf_map_delete_elem(t->programs->images, &image) < 0 && errno != ENOENT)
			break;
	map_clear(&t->images);
}

/* Room for so many ranges: index of the first, or -1. */
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

int ebpf_tables_image(struct ebpf_tables *t, uint64_t image, const struct target_range *ranges,
		      size_t count, const struct bpf_python *python, ebpf_has_none *none,
		      void *context)
{
	int64_t first = claim_ranges(t, count);
	struct bpf_range *out = sampler_ranges(t->programs) + (first < 0 ? 0 : first);
	struct bpf_image value = { .first_range = (uint32_t)first, .range_count = (uint32_t)count };

	if (first < 0)
		return E_LIMIT;
	for (size_t i = 0; i < count; i++) {
		const struct target_range *r = &ranges[i];
		uint32_t number = BPF_TABLE_WANTED;

		if (r->table)
			number = ebpf_tables_number(t, r->table);
		else if (none(context, r))
			number = BPF_TABLE_NONE;
		out[i] = (struct bpf_range){ r->start, r->end, r->bias, number, 0 };
	}
	if (python)
		value.python = *python;
	if (map_put(&t->images, image, 1) < 0)
		return -ENOMEM;
	/* Who sees the image sees its ranges: a system call comes between, and x86-64 keeps stores in order. */
	return bpf_map_update_elem(t->programs->images, &image, &value, BPF_ANY);
}
