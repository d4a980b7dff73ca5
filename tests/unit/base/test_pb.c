#include "base/pb.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "failing_alloc.h"

#define ASSERT_BYTES(s, text)                                                                      \
	do {                                                                                       \
		assert_false((s).failed);                                                          \
		assert_int_equal((s).length, sizeof(text) - 1);                                    \
		assert_memory_equal((s).data, text, sizeof(text));                                 \
		strbuf_clear(&(s));                                                                \
	} while (0)

/* The bytes are those of the encoding's specification and of protoc --encode. */
static void scalars(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	pb_varint(&s, 1, 150);
	ASSERT_BYTES(s, "\x08\x96\x01");
	pb_varint(&s, 536870911, 0);
	ASSERT_BYTES(s, "\xf8\xff\xff\xff\x0f\x00");
	pb_varint(&s, 16, UINT64_MAX);
	ASSERT_BYTES(s, "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	pb_int(&s, 1, -1);
	ASSERT_BYTES(s, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	pb_int(&s, 1, 5);
	ASSERT_BYTES(s, "\x08\x05");
	pb_bytes(&s, 2, "testing", 7);
	ASSERT_BYTES(s, "\x12\x07testing");
	pb_bytes(&s, 2, NULL, 0);
	ASSERT_BYTES(s, "\x12\x00");
	pb_bytes(&s, 2, "\0\xff", 2);
	ASSERT_BYTES(s, "\x12\x02\0\xff");
	strbuf_release(&s);
}

static void nested_messages_have_padded_lengths(void **state)
{
	struct strbuf s = STRBUF_INIT;
	size_t outer, inner;

	(void)state;
	outer = pb_open(&s, 3);
	pb_varint(&s, 1, 150);
	inner = pb_open(&s, 1);
	pb_close(&s, inner);
	pb_close(&s, outer);
	pb_varint(&s, 2, 1);
	ASSERT_BYTES(s, "\x1a\x88\x80\x80\x00\x08\x96\x01\x0a\x80\x80\x80\x00\x10\x01");
	strbuf_release(&s);
}

static void long_messages(void **state)
{
	struct strbuf s = STRBUF_INIT;
	static const char block[1 << 20];
	size_t outer = pb_open(&s, 1);

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		pb_bytes(&s, 15, block, sizeof(block));
	pb_close(&s, outer);
	assert_int_equal(s.length, 5 + 3 * (4 + sizeof(block)));
	/* 3145740 = 0x30000c is 0c, 00, 40, 01 in groups of seven bits. */
	assert_memory_equal(s.data, "\x0a\x8c\x80\xc0\x01\x7a\x80\x80\x40", 9);
	strbuf_release(&s);
}

static void messages_beyond_the_limit_fail(void **state)
{
	struct strbuf s = STRBUF_INIT;
	size_t token = pb_open(&s, 1);

	(void)state;
	assert_true(strbuf_reserve(&s, (size_t)1 << 28));
	s.length += (size_t)1 << 28; /* not touched: the pages stay unmapped */
	pb_close(&s, token);
	assert_true(s.failed);
	strbuf_release(&s);
	pb_bytes(&s, 1, "", SIZE_MAX);
	assert_true(s.failed);
	strbuf_release(&s);
}

static void failed_allocations_stick(void **state)
{
	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct strbuf s = STRBUF_INIT;
		size_t outer = pb_open(&s, 1);

		for (unsigned i = 0; i < 20; i++) {
			size_t inner = pb_open(&s, 2);

			pb_varint(&s, 1, i);
			pb_int(&s, 2, -1);
			pb_bytes(&s, 3, "name", 4);
			pb_close(&s, inner);
		}
		pb_close(&s, outer);
		assert_int_equal(s.failed, failing_alloc_failed);
		strbuf_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scalars),
		cmocka_unit_test(nested_messages_have_padded_lengths),
		cmocka_unit_test(long_messages),
		cmocka_unit_test(messages_beyond_the_limit_fail),
		cmocka_unit_test(failed_allocations_stick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
