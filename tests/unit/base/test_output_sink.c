#include "base/output_sink.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/io.h"

#define TOTAL ((size_t)40 << 20)

static char path[] = "/var/tmp/pitot-sink-XXXXXX";
static int fd = -1;
static unsigned char *bytes;

static int set_up(void **state)
{
	uint32_t random = 1;

	(void)state;
	fd = mkstemp(path);
	bytes = malloc(TOTAL);
	if (fd < 0 || !bytes)
		return -1;
	for (size_t i = 0; i < TOTAL; i++) {
		random = random * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(random >> 24);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(bytes);
	close(fd);
	return unlink(path);
}

/* Lengths from a few bytes to a few blocks. */
static size_t next_length(uint32_t *random)
{
	*random = *random * 1664525 + 1013904223;
	return 1 + (*random >> 8) % ((*random & 3) ? 5000 : 3000000);
}

static void assert_written(size_t length)
{
	struct strbuf s = STRBUF_INIT;

	assert_int_equal(io_read_file(path, 2 * TOTAL, &s), 0);
	assert_int_equal(s.length, length);
	assert_memory_equal(s.data, bytes, length);
	strbuf_release(&s);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
}

static void write_pieces(struct output_sink *s, size_t total, uint32_t seed)
{
	for (size_t at = 0; at < total;) {
		size_t n = next_length(&seed);

		n = n < total - at ? n : total - at;
		assert_int_equal(output_sink_write(s, bytes + at, n), 0);
		at += n;
	}
	assert_int_equal(output_sink_end(s), 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
	output_sink_release(s);
	assert_written(total);
}

/* The ways of writing change every few megabytes, at offsets that are not aligned. */
static void every_byte_arrives_whatever_the_way(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 4; seed++) {
		struct output_sink s;

		output_sink_init(&s, fd, true);
		s.trial_bytes = s.limit = 3000001;
		s.run_bytes = 5000000;
		write_pieces(&s, TOTAL - 12345 * seed, seed);
		/* Both ways were measured, unless this file system knows only one. */
		assert_true(s.cost[0] && (s.cost[1] || !s.may_be_direct));
	}
}

static void small_files_are_written_in_the_ordinary_way(void **state)
{
	struct output_sink s;

	(void)state;
	output_sink_init(&s, fd, true);
	assert_int_equal(output_sink_write(&s, bytes, 1000000), 0);
	assert_false(s.direct);
	assert_int_equal(output_sink_end(&s), 0);
	output_sink_release(&s);
	assert_written(1000000);
}

static void what_is_no_file_of_ours_is_never_direct(void **state)
{
	struct output_sink s;

	(void)state;
	output_sink_init(&s, fd, false);
	s.trial_bytes = s.limit = 1;
	write_pieces(&s, TOTAL, 9);
	assert_int_equal(s.cost[1], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_arrives_whatever_the_way),
		cmocka_unit_test(small_files_are_written_in_the_ordinary_way),
		cmocka_unit_test(what_is_no_file_of_ours_is_never_direct),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
