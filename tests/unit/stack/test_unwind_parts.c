/*
 * Tables that are compiled part by part: the rules of whole tables, whatever is asked first, from
 * what was read of the file.
 */
#include "stack/unwind/unwind_parts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/error.h"
#include "cfi_random.h"
#include "failing_alloc.h"
#include "whole_table.h"

#define TEXT UINT64_C(0x1000)
#define FUNCTIONS 5u
#define END (TEXT + 2 * FUNCTIONS * UINT64_C(1000000))
#define HEADER UINT64_C(0x300) /* what the search table is relative to */

/* A file: call frame information, and where functions begin. */
static struct cfi written;
static uint8_t pairs[FUNCTIONS * 8];
static unsigned pair_count;

/* What is in memory of it: the rest is 0. */
static struct {
	struct cfi cfi;
	uint8_t pairs[sizeof(pairs)];
	size_t asked; /* bytes */
	bool unreadable;
} sparse;

static bool bring(void *context, const uint8_t *bytes, size_t size)
{
	const uint8_t *start = (const uint8_t *)&sparse.cfi, *table = sparse.pairs;

	assert_ptr_equal(context, &sparse);
	sparse.asked += size;
	if (sparse.unreadable)
		return false;
	if (bytes >= table && bytes + size <= table + sizeof(pairs)) {
		memcpy(sparse.pairs + (bytes - table), pairs + (bytes - table), size);
		return true;
	}
	assert_true(bytes >= start && bytes + size <= start + written.size);
	memcpy((uint8_t *)&sparse.cfi + (bytes - start), (uint8_t *)&written + (bytes - start),
	       size);
	return true;
}

static void write_file(void)
{
	size_t cie;

	written.size = 0;
	written.address = pick(1u << 30);
	expected_count = pair_count = 0;
	cie = cfi_cie(&written, "zR");
	for (unsigned f = 0; f < FUNCTIONS; f++) {
		uint64_t start = TEXT + f * 1000000 + pick(1000);
		uint64_t at = written.address + written.size;

		/* Some have a CIE of their own. */
		if (pick(2))
			cie = cfi_cie(&written, "zR");
		at = written.address + written.size;
		write_function(&written, cie, start);
		store_u32(pairs + 8 * f, (uint32_t)(start - HEADER));
		store_u32(pairs + 8 * f + 4, (uint32_t)(at - HEADER));
		pair_count++;
	}
}

enum way { WITHOUT_SEARCH, WITH_SEARCH, SPARSE, WAYS };

static struct unwind_parts *open_file(struct unwind_store *store, enum way way)
{
	struct unwind_input input = {
		.section = { .bytes = written.bytes,
			     .size = written.size,
			     .address = written.address },
		.header_address = HEADER,
		.search = way == WITHOUT_SEARCH ? NULL : pairs,
		.search_count = way == WITHOUT_SEARCH ? 0 : pair_count,
	};
	struct unwind_parts *p = NULL;

	memset(&sparse, 0, sizeof(sparse));
	if (way == SPARSE) {
		input.section.bytes = sparse.cfi.bytes;
		input.search = sparse.pairs;
	}
	assert_int_equal(
		unwind_parts_new(&input, END, way == SPARSE ? bring : NULL, &sparse, store, &p), 0);
	return p;
}

static void check_rule(struct unwind_parts *p, uint64_t address, const struct unwind_rule *wanted)
{
	const struct unwind_rule *rule = unwind_parts_find(p, address);

	assert_non_null(rule);
	if (memcmp(rule, wanted, sizeof(*rule)) != 0)
		fail_msg("%#lx: cfa %u %u%+d, but must be %u %u%+d", address, rule->cfa, rule->base,
			 rule->offset, wanted->cfa, wanted->base, wanted->offset);
}

/* Rows and their ends, from a random one on. */
static void check_rows(struct unwind_parts *p)
{
	unsigned first = pick(expected_count);

	for (unsigned n = 0; n < expected_count; n++) {
		unsigned i = (first + n) % expected_count;

		check_rule(p, expected[i].address, &expected[i].rule);
		if (i)
			check_rule(p, expected[i].address - 1, &expected[i - 1].rule);
	}
}

static void open_store(struct unwind_store *store)
{
	assert_int_equal(unwind_store_init(store, SIZE_MAX), 0);
}

/* Random addresses, and both sides of the borders of parts, by a whole table. */
static void check_against_table(struct unwind_parts *p)
{
	const struct unwind_input input = { .section = { .bytes = written.bytes,
							 .size = written.size,
							 .address = written.address } };
	struct whole_table t = whole_table_make(&input);

	for (unsigned i = 0; i < 200; i++) {
		uint64_t border = (uint64_t)pick((uint32_t)(END >> UNWIND_PART_SHIFT))
				  << UNWIND_PART_SHIFT;
		uint64_t address = pick((uint32_t)END);

		check_rule(p, address, whole_table_find(&t, address));
		check_rule(p, border, whole_table_find(&t, border));
		check_rule(p, border - 1, whole_table_find(&t, border - 1));
	}
	whole_table_release(&t);
}

static void random_programs(void **state)
{
	struct unwind_store store;

	(void)state;
	open_store(&store);
	for (unsigned round = 0; round < 300; round++) {
		write_file();
		for (enum way way = 0; way < WAYS; way++) {
			struct unwind_parts *p = open_file(&store, way);

			check_rows(p);
			check_against_table(p);
			assert_int_equal(p->damaged, 0);
			unwind_parts_free(p);
		}
	}
	unwind_store_release(&store);
}

static void only_what_is_asked_for(void **state)
{
	struct unwind_store store;
	struct unwind_parts *p;

	(void)state;
	open_store(&store);
	write_file();
	p = open_file(&store, SPARSE);
	assert_int_equal(sparse.asked, 0);
	check_rule(p, expected[1].address, &expected[1].rule);
	assert_int_equal(p->compiled.count, 1);
	assert_int_equal(p->compiled.data[0], expected[1].address >> UNWIND_PART_SHIFT);
	assert_true(sparse.asked < written.size);
	sparse.asked = 0;
	check_rule(p, expected[1].address, &expected[1].rule);
	assert_int_equal(sparse.asked, 0);
	/* Behind the code there is nothing to compile. */
	assert_int_equal(unwind_parts_find(p, END)->cfa, CFA_NONE);
	assert_int_equal(unwind_parts_find(p, UINT64_MAX)->cfa, CFA_NONE);
	assert_int_equal(p->compiled.count, 1);
	unwind_parts_free(p);
	unwind_store_release(&store);
}

static void what_cannot_be_read_is_unknown(void **state)
{
	struct unwind_store store;
	struct unwind_parts *p;

	(void)state;
	open_store(&store);
	write_file();
	p = open_file(&store, SPARSE);
	sparse.unreadable = true;
	assert_int_equal(unwind_parts_find(p, expected[1].address)->cfa, CFA_UNKNOWN);
	assert_int_equal(p->damaged, 1);
	unwind_parts_free(p);
	unwind_store_release(&store);
}

/*
 * The first FDE of an address wins, as in a whole table; what leads out of the section is left out.
 */
static void wrong_search_tables(void **state)
{
	struct unwind_store store;

	(void)state;
	open_store(&store);
	for (unsigned round = 0; round < 2000; round++) {
		struct unwind_parts *p;

		write_file();
		for (unsigned n = 1 + pick(4); n--;)
			pairs[pick(sizeof(pairs))] = (uint8_t)pick(256);
		p = open_file(&store, round & 1 ? WITH_SEARCH : SPARSE);
		for (unsigned i = 0; i < expected_count; i++)
			assert_true(unwind_parts_find(p, expected[i].address)->cfa <= CFA_SIGNAL);
		unwind_parts_free(p);
	}
	unwind_store_release(&store);
}

static void damaged_entries(void **state)
{
	static struct cfi whole;
	struct unwind_store store;

	(void)state;
	open_store(&store);
	write_file();
	whole = written;
	for (size_t i = 0; i < whole.size * 8; i += 1 + pick(4)) {
		struct unwind_parts *p;

		written = whole;
		written.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		if (pick(8) == 0)
			written.size = pick((uint32_t)whole.size);
		p = open_file(&store, i % WAYS);
		for (unsigned k = 0; k < expected_count; k++)
			assert_true(unwind_parts_find(p, expected[k].address)->cfa <= CFA_SIGNAL);
		unwind_parts_free(p);
	}
	unwind_store_release(&store);
}

static void a_full_store(void **state)
{
	struct unwind_store store;
	struct unwind_parts *p, *other = NULL;
	const struct unwind_rule *rule;

	(void)state;
	open_store(&store);
	write_file();
	p = open_file(&store, WITH_SEARCH);
	check_rule(p, expected[1].address, &expected[1].rule);
	store.bytes_max = store.bytes;
	assert_int_equal(unwind_parts_new(&p->input, END, NULL, NULL, &store, &other), E_LIMIT);
	/* There is room in an array still, until there is none. */
	for (uint64_t at = TEXT; (rule = unwind_parts_find(p, at)) && at < END; at += 1000)
		;
	assert_null(rule);
	/* What was compiled stays; of the rest nothing is to be had any more. */
	check_rule(p, expected[1].address, &expected[1].rule);
	store.bytes_max = SIZE_MAX;
	assert_null(unwind_parts_find(p, END - 1));
	unwind_parts_free(p);
	unwind_store_release(&store);
}

/* The second time the rules are known: all that a file takes is given back with it. */
static void bytes_are_given_back(void **state)
{
	struct unwind_store store;
	size_t left[2];

	(void)state;
	open_store(&store);
	write_file();
	for (unsigned round = 0; round < 2; round++) {
		struct unwind_parts *p = open_file(&store, WITH_SEARCH);
		size_t before = store.bytes;

		check_rows(p);
		assert_true(store.bytes >= before + p->compiled.count * unwind_part_bytes(1));
		unwind_parts_free(p);
		left[round] = store.bytes;
	}
	assert_int_equal(left[0], left[1]);
	unwind_store_release(&store);
}

static void lack_of_memory(void **state)
{
	unsigned failures = 0;

	(void)state;
	write_file();
	FOR_EACH_FAILURE(n)
	{
		const struct unwind_input input = { .section = { .bytes = written.bytes,
								 .size = written.size,
								 .address = written.address } };
		struct unwind_store store;
		struct unwind_parts *p;
		int r = unwind_store_init(&store, SIZE_MAX);

		if (r == 0)
			r = unwind_parts_new(&input, END, NULL, NULL, &store, &p);
		failures += r < 0;
		assert_true(r == 0 || r == -ENOMEM);
		for (unsigned i = 0; r == 0 && i < expected_count; i++) {
			const struct unwind_rule *rule = unwind_parts_find(p, expected[i].address);

			/* A rule for which there was no room is unknown. */
			failures += !rule || rule->cfa == CFA_UNKNOWN;
			assert_true(!rule || rule->cfa == CFA_UNKNOWN ||
				    memcmp(rule, &expected[i].rule, sizeof(*rule)) == 0);
		}
		if (r == 0)
			unwind_parts_free(p);
		unwind_store_release(&store);
	}
	assert_true(failures * FAILURE_STEP > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_programs),
		cmocka_unit_test(only_what_is_asked_for),
		cmocka_unit_test(what_cannot_be_read_is_unknown),
		cmocka_unit_test(wrong_search_tables),
		cmocka_unit_test(damaged_entries),
		cmocka_unit_test(a_full_store),
		cmocka_unit_test(bytes_are_given_back),
		cmocka_unit_test(lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
