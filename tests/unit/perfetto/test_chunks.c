#include "perfetto/chunks.h"

#include <stdlib.h>

#include "support/cmocka_tests.h"

#define LARGEST (CHUNK_BYTES - CHUNK_HEADER - 3) /* packet that a chunk holds in one piece */

/* Reads chunks as the service does. */
struct service {
	uint32_t next_chunk;
	size_t chunks, packets, length;
	bool continues;
	uint8_t packet[4 << 20];
	size_t sizes[4096];
	bool intact; /* all packets so far had the bytes that make() gives them */
};

static uint8_t byte_of(size_t packet, size_t at)
{
	return (uint8_t)(packet * 31 + at * 7 + at / 251);
}

static void end_packet(struct service *s)
{
	for (size_t i = 0; i < s->length; i++)
		s->intact &= s->packet[i] == byte_of(s->packets, i);
	s->sizes[s->packets++] = s->length;
	s->length = 0;
}

static void receive(struct service *s, struct chunk *c)
{
	struct cursor in;
	unsigned word, count;

	chunk_end(c);
	assert_true(c->length <= CHUNK_BYTES);
	in = cursor_of(c->bytes, c->length);
	assert_int_equal(cursor_u32(&in), s->next_chunk++);
	assert_int_equal(cursor_u16(&in), 7);
	word = cursor_u16(&in);
	count = word & 1023;
	assert_int_equal(!!(word & CHUNK_CONTINUED), s->continues);
	s->continues = word & CHUNK_CONTINUES;
	for (unsigned i = 0; i < count; i++) {
		size_t length = cursor_varint(&in);
		const uint8_t *bytes = cursor_bytes(&in, length);

		assert_non_null(bytes);
		memcpy(s->packet + s->length, bytes, length);
		s->length += length;
		if (i + 1 < count || !s->continues)
			end_packet(s);
	}
	assert_int_equal(cursor_left(&in), 0);
	s->chunks++;
	c->length = 0;
}

/* Writes a packet as the producer does, sending chunks that are full. */
static void put(struct service *s, struct chunk *c, size_t number, size_t length)
{
	bool begun = false;

	for (size_t left = length; left;) {
		size_t n = c->length ? chunk_room_for(c, left, begun) : 0, at = length - left;
		uint8_t *p;

		if (!n) {
			if (c->length)
				receive(s, c);
			chunk_begin(c, 7, s->next_chunk);
			continue;
		}
		p = chunk_add(c, n, left, begun);
		for (size_t i = 0; i < n; i++)
			p[i] = byte_of(number, at + i);
		left -= n;
		begun = true;
		if (left)
			receive(s, c);
	}
}

static struct service *service_of(const size_t *lengths, size_t count)
{
	struct service *s = calloc(1, sizeof(*s));
	struct chunk *c = calloc(1, sizeof(*c));

	assert_true(s && c);
	s->intact = true;
	for (size_t i = 0; i < count; i++)
		put(s, c, i, lengths[i]);
	if (c->length)
		receive(s, c);
	assert_int_equal(s->packets, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(s->sizes[i], lengths[i]);
	assert_true(s->intact);
	assert_false(s->continues);
	free(c);
	return s;
}

static size_t chunks_of(size_t a, size_t b)
{
	struct service *s = service_of((size_t[]){ a, b }, b ? 2 : 1);
	size_t chunks = s->chunks;

	free(s);
	return chunks;
}

static void test_most_packets(void **state)
{
	size_t lengths[2 * CHUNK_PACKETS + 1];
	struct service *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		lengths[i] = 1 + i % 40;
	for (size_t count = CHUNK_PACKETS - 1; count <= ARRAY_SIZE(lengths); count++) {
		s = service_of(lengths, count);
		assert_int_equal(s->chunks, (count + CHUNK_PACKETS - 1) / CHUNK_PACKETS);
		free(s);
		if (count == CHUNK_PACKETS + 1)
			count = ARRAY_SIZE(lengths) - 2;
	}
}

static void test_largest_packet(void **state)
{
	(void)state;
	assert_int_equal(chunks_of(LARGEST, 0), 1);
	assert_int_equal(chunks_of(LARGEST + 1, 0), 2);
	assert_int_equal(chunks_of(1, LARGEST), 2); /* whole, in the next one */
	assert_int_equal(chunks_of(LARGEST, 1), 2);
	/* A packet that must be split fills the chunk before. */
	assert_int_equal(chunks_of(1000, 2 * LARGEST - 1000 - 3), 2);
	assert_int_equal(chunks_of(1000, 2 * LARGEST - 1000), 3);
	assert_int_equal(chunks_of(LARGEST - 10, LARGEST + 1), 3); /* but not with a few bytes */
	assert_int_equal(chunks_of(10 * LARGEST, 10 * LARGEST), 20);
	assert_int_equal(chunks_of(4 << 20, 5), 66);
}

static void test_all_sizes(void **state)
{
	size_t lengths[200];

	(void)state;
	srand(1);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		lengths[i] = 1 + (size_t)rand() % (i % 3 ? 2000 : 2 * LARGEST);
	free(service_of(lengths, ARRAY_SIZE(lengths)));
	/* Around the places where one byte more does not fit. */
	for (size_t n = LARGEST - 80; n < LARGEST; n++)
		free(service_of((size_t[]){ n, 1, LARGEST - n, LARGEST + 2, 60, 70 }, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_most_packets),
		cmocka_unit_test(test_largest_packet),
		cmocka_unit_test(test_all_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
