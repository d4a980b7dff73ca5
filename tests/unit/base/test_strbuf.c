#include "base/strbuf.h"

#include <errno.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/vec.h"
#include "failing_alloc.h"

static void an_empty_buffer_has_a_text(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	assert_string_equal(strbuf_text(&s), "");
	strbuf_add(&s, NULL, 0);
	assert_non_null(s.data);
	assert_string_equal(s.data, "");
	strbuf_release(&s);
	assert_null(s.data);
}

static void appends_grow_and_stay_terminated(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		strbuf_addf(&s, "%u,", i);
		assert_int_equal(s.data[s.length], 0);
		assert_true(s.length < s.capacity);
	}
	assert_int_equal(s.length, 10 * 2 + 90 * 3 + 900 * 4);
	assert_string_equal(s.data + s.length - 8, "998,999,");
	strbuf_clear(&s);
	strbuf_addc(&s, 'a');
	strbuf_add(&s, "b\0c", 3);
	strbuf_adds(&s, "d");
	strbuf_addu(&s, 0);
	strbuf_addu(&s, UINT64_MAX);
	assert_memory_equal(s.data, "ab\0cd018446744073709551615", 27);
	strbuf_release(&s);
}

static void sizes_that_overflow_fail_and_stick(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	strbuf_adds(&s, "kept");
	assert_false(strbuf_reserve(&s, SIZE_MAX));
	assert_true(s.failed);
	strbuf_adds(&s, "not added");
	strbuf_addf(&s, "%d", 1);
	strbuf_addc(&s, 'x');
	assert_string_equal(s.data, "kept");
	strbuf_clear(&s);
	assert_true(s.failed);
	strbuf_release(&s);
	assert_false(s.failed);
}

static void failed_allocations_leave_a_beginning(void **state)
{
	static const char whole[] =
		"0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 1";

	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct strbuf s = STRBUF_INIT;

		for (unsigned i = 0; i < 7; i++)
			strbuf_addf(&s, "%s ", "0123456789");
		strbuf_addc(&s, '1');
		assert_memory_equal(strbuf_text(&s), whole, s.length);
		assert_int_equal(strlen(strbuf_text(&s)), s.length);
		assert_int_equal(s.failed, failing_alloc_failed);
		strbuf_release(&s);
	}
}

/* The vectors of RFC 4648. */
static void bytes_become_base64(void **state)
{
	static const char *const texts[] = { "",         "Zg==",     "Zm8=",    "Zm9v",
					     "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };
	struct strbuf s = STRBUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		strbuf_clear(&s);
		strbuf_add_base64(&s, "foobar", i);
		assert_string_equal(strbuf_text(&s), texts[i]);
	}
	strbuf_clear(&s);
	strbuf_add_base64(&s, "\xff\xef\xbe", 3);
	assert_string_equal(strbuf_text(&s), "/+++");
	strbuf_release(&s);
}

static void vectors_grow(void **state)
{
	VEC(uint16_t) v = VEC_INIT;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(vec_push(&v, (uint16_t)i), 0);
	assert_int_equal(v.count, 10000);
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(v.data[i], i);
	vec_release(&v);
	assert_null(v.data);
}

static void vectors_refuse_what_cannot_be(void **state)
{
	VEC(uint64_t) v = VEC_INIT;

	(void)state;
	assert_int_equal(vec_push(&v, 7), 0);
	assert_int_equal(vec_reserve(&v, SIZE_MAX / 8), -ENOMEM);
	assert_int_equal(v.count, 1);
	assert_int_equal(v.data[0], 7);
	FOR_EACH_FAILURE(n)
	{
		int err = vec_reserve(&v, 100 + (size_t)n);

		assert_int_equal(err, failing_alloc_failed ? -ENOMEM : 0);
		assert_int_equal(v.data[0], 7);
	}
	vec_release(&v);
}

static void arenas_give_aligned_memory_of_their_own(void **state)
{
	struct arena a = ARENA_INIT;
	unsigned char *pieces[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		size_t size = i % 50 == 49 ? 100000 : i;

		pieces[i] = arena_alloc(&a, size);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % 16, 0);
		memset(pieces[i], (int)(i & 0xff), size);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		size_t size = i % 50 == 49 ? 100000 : i;

		for (size_t k = 0; k < size; k++)
			assert_int_equal(pieces[i][k], i & 0xff);
	}
	assert_true(a.bytes >= 600000);
	assert_true(a.bytes < 1500000);
	assert_string_equal(arena_strndup(&a, "kernel<int>", 6), "kernel");
	assert_string_equal(arena_strndup(&a, NULL, 0), "");
	assert_null(arena_alloc(&a, SIZE_MAX));
	assert_null(arena_strndup(&a, "x", SIZE_MAX));
	arena_release(&a);
	assert_int_equal(a.bytes, 0);
}

static void arenas_survive_failed_allocations(void **state)
{
	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct arena a = ARENA_INIT;
		unsigned missing = 0;

		for (unsigned i = 0; i < 100; i++)
			missing += !arena_strndup(&a, "0123456789012345678901234567890123456789",
						  1 + i % 40) +
				   !arena_alloc(&a, 3000);
		assert_int_equal(missing, failing_alloc_failed);
		arena_release(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_buffer_has_a_text),
		cmocka_unit_test(appends_grow_and_stay_terminated),
		cmocka_unit_test(sizes_that_overflow_fail_and_stick),
		cmocka_unit_test(failed_allocations_leave_a_beginning),
		cmocka_unit_test(bytes_become_base64),
		cmocka_unit_test(vectors_grow),
		cmocka_unit_test(vectors_refuse_what_cannot_be),
		cmocka_unit_test(arenas_give_aligned_memory_of_their_own),
		cmocka_unit_test(arenas_survive_failed_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
