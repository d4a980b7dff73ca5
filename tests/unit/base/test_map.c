#include "base/map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "failing_alloc.h"

#define N 20000

static uint64_t key_of(uint64_t i)
{
	/* Small, large, and multiples of a power of two, as addresses and correlation ids are. */
	return i % 3 == 0 ? i : i % 3 == 1 ? i << 40 : UINT64_MAX - i;
}

static void puts_are_found_again(void **state)
{
	struct map m = MAP_INIT;
	uint64_t v = 42;

	(void)state;
	assert_false(map_get(&m, 0, &v));
	for (uint64_t i = 0; i < N; i++) {
		assert_false(map_get(&m, key_of(i), &v));
		assert_int_equal(map_put(&m, key_of(i), i * 3), 0);
	}
	assert_int_equal(m.count, N);
	for (uint64_t i = 0; i < N; i++) {
		assert_true(map_get(&m, key_of(i), &v));
		assert_int_equal(v, i * 3);
	}
	v = 42;
	assert_false(map_get(&m, UINT64_C(0x123456789abcdef0), &v));
	assert_int_equal(v, 42);
	map_release(&m);
	assert_int_equal(m.count, 0);
}

static void any_number_is_a_key_and_a_value(void **state)
{
	static const uint64_t odd[] = { 0, 1, UINT64_MAX, UINT64_C(1) << 63 };
	struct map m = MAP_INIT;
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		assert_int_equal(map_put(&m, odd[i], odd[ARRAY_SIZE(odd) - 1 - i]), 0);
	for (uint64_t i = 2; i < 1000; i++)
		assert_int_equal(map_put(&m, i, i), 0);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		assert_true(map_get(&m, odd[i], &v));
		assert_true(v == odd[ARRAY_SIZE(odd) - 1 - i]);
	}
	assert_int_equal(m.count, 4 + 998);
	map_clear(&m);
	assert_int_equal(m.count, 0);
	assert_false(map_get(&m, 0, &v));
	assert_int_equal(map_put(&m, 0, 7), 0);
	assert_int_equal(map_put(&m, 0, 8), 0);
	assert_int_equal(m.count, 1);
	assert_true(map_get(&m, 0, &v));
	assert_int_equal(v, 8);
	map_release(&m);
}

static void at_inserts_once_and_stays_valid_without_insertions(void **state)
{
	struct map m = MAP_INIT;

	(void)state;
	for (uint64_t count = 1; count <= 200; count++) {
		uint64_t *newest, *oldest;

		newest = map_at(&m, count, 100);
		assert_non_null(newest);
		oldest = map_at(&m, 1, 5);
		*newest += 1;
		*oldest += 1;
		assert_ptr_equal(newest, map_at(&m, count, 0));
		assert_int_equal(*map_at(&m, 1, 0), 101 + count);
	}
	assert_int_equal(m.count, 200);
	map_release(&m);
}

/* In any order, in a map that is never empty and never grows: what is taken leaves no trace. */
static void what_is_taken_is_gone_and_nothing_else(void **state)
{
	struct map m = MAP_INIT;
	uint64_t v, taken = 0;
	size_t capacity = 0;

	(void)state;
	for (uint64_t i = 0; i < N; i++) {
		assert_int_equal(map_put(&m, key_of(i), i * 3), 0);
		if (i == 700)
			capacity = m.capacity;
		for (uint64_t late = i / 2; i > 700 && m.count > 700; late++) {
			if (!map_get(&m, key_of(late), &v))
				continue;
			assert_true(map_remove(&m, key_of(late), &v) && v == late * 3);
			assert_false(map_remove(&m, key_of(late), &v));
			taken++;
		}
		assert_int_equal(m.count, i + 1 - taken);
	}
	assert_int_equal(m.capacity, capacity);
	for (uint64_t i = 0; i < N; i++)
		taken += map_get(&m, key_of(i), &v) && v == i * 3;
	assert_int_equal(taken, N);
	for (uint64_t i = 0; i < N; i++)
		taken -= map_remove(&m, key_of(i), &v);
	assert_int_equal(m.count, 0);
	assert_int_equal(taken, N - 700);
	map_release(&m);
	assert_false(map_remove(&m, 0, &v));
}

static void maps_survive_failed_allocations(void **state)
{
	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct map m = MAP_INIT;
		unsigned missing = 0, found = 0;
		uint64_t v;

		for (uint64_t i = 0; i < 100; i++) {
			int err = map_put(&m, i, i);

			assert_true(err == 0 || err == -ENOMEM);
			missing += err != 0;
		}
		for (uint64_t i = 0; i < 100; i++)
			found += map_get(&m, i, &v) && v == i;
		assert_int_equal(missing, failing_alloc_failed);
		assert_int_equal(found + missing, 100);
		map_release(&m);
	}
}

static void hashes_spread(void **state)
{
	uint64_t low[256] = { 0 }, differing = 0;
	char text[64];

	(void)state;
	for (uint64_t i = 0; i < 25600; i++)
		low[hash_u64(i << 12) & 255]++;
	for (unsigned i = 0; i < 256; i++)
		assert_in_range(low[i], 50, 150); /* 100 expected; five standard deviations */
	memset(low, 0, sizeof(low));
	for (unsigned i = 0; i < 25600; i++) {
		int length = snprintf(text, sizeof(text), "triton_poi_fused_add_%u", i);

		low[hash_bytes(text, (size_t)length) & 255]++;
	}
	for (unsigned i = 0; i < 256; i++)
		assert_in_range(low[i], 50, 150);
	memset(text, 0, sizeof(text));
	for (size_t i = 1; i < sizeof(text); i++)
		differing += hash_bytes(text, i) != hash_bytes(text, i - 1);
	assert_int_equal(differing, sizeof(text) - 1);
	assert_int_equal(hash_bytes("abcdefghi", 9), hash_bytes("abcdefghi", 9));
	assert_int_equal(hash_bytes(NULL, 0), hash_bytes("x", 0));
}

static void equal_strings_get_equal_ids(void **state)
{
	struct interner in;
	bool is_new;
	char text[32];

	(void)state;
	interner_init(&in);
	assert_int_equal(interner_find(&in, "a", 1), -1);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < N; i++) {
			int length = snprintf(text, sizeof(text), "kernel_%d", i);

			assert_int_equal(interner_add(&in, text, (size_t)length, &is_new), i);
			assert_int_equal(is_new, round == 0);
		}
	assert_int_equal(in.count, N);
	assert_string_equal(in.items[777].text, "kernel_777");
	assert_int_equal(in.items[777].length, 10);
	assert_int_equal(interner_find(&in, "kernel_777", 10), 777);
	assert_int_equal(interner_find(&in, "kernel_777", 9), 77);
	assert_int_equal(interner_find(&in, "kernel_", 7), -1);
	interner_release(&in);
	assert_int_equal(in.count, 0);
	assert_int_equal(in.bytes, 0);
	assert_int_equal(interner_find(&in, "kernel_777", 10), -1);
	assert_int_equal(interner_add(&in, "", 0, NULL), 0);
	assert_int_equal(interner_add(&in, "a\0b", 3, NULL), 1);
	assert_int_equal(interner_add(&in, "a\0c", 3, NULL), 2);
	assert_int_equal(interner_add(&in, NULL, 0, NULL), 0);
	assert_int_equal(in.bytes, 6);
	assert_memory_equal(in.items[2].text, "a\0c", 4);
	interner_release(&in);
}

static void interners_survive_failed_allocations(void **state)
{
	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct interner in;
		unsigned missing = 0;
		char text[32];

		interner_init(&in);
		for (unsigned i = 0; i < 40; i++) {
			int length = snprintf(text, sizeof(text), "a name of some length %u", i);
			int64_t id = interner_add(&in, text, (size_t)length, NULL);

			assert_int_equal(id, id < 0 ? -ENOMEM : (int64_t)(i - missing));
			missing += id < 0;
			assert_int_equal(interner_find(&in, text, (size_t)length),
					 id < 0 ? -1 : id);
		}
		assert_int_equal(missing, failing_alloc_failed);
		assert_int_equal(in.count + missing, 40);
		interner_release(&in);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(puts_are_found_again),
		cmocka_unit_test(any_number_is_a_key_and_a_value),
		cmocka_unit_test(at_inserts_once_and_stays_valid_without_insertions),
		cmocka_unit_test(what_is_taken_is_gone_and_nothing_else),
		cmocka_unit_test(maps_survive_failed_allocations),
		cmocka_unit_test(hashes_spread),
		cmocka_unit_test(equal_strings_get_equal_ids),
		cmocka_unit_test(interners_survive_failed_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
