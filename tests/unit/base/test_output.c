/* link: -Wl,--wrap=stat */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/io.h"

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

static const char *replaced_by; /* the file that a link leads to after the next stat(), or NULL */

int __wrap_stat(const char *path, struct stat *st)
{
	int rc = __real_stat(path, st);

	if (replaced_by) {
		unlink(path);
		(void)!symlink(replaced_by, path);
		replaced_by = NULL;
	}
	return rc;
}

static char folder[] = "/tmp/pitot-output-XXXXXX";

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return chdir("/") == 0 ? rmdir(folder) : -1;
}

static bool exists(const char *name)
{
	return access(name, F_OK) == 0;
}

static void assert_content(const char *name, const char *expected)
{
	struct strbuf s = STRBUF_INIT;

	assert_int_equal(io_read_file(name, 1 << 20, &s), 0);
	assert_string_equal(strbuf_text(&s), expected);
	strbuf_release(&s);
}

static void write_file(const char *name, const char *text)
{
	struct output *o = output_open(name, true, NULL);

	assert_non_null(o);
	output_write(o, text, strlen(text));
	assert_int_equal(output_commit(&o, NULL, NULL), 0);
	assert_null(o);
}

static void files_appear_when_complete(void **state)
{
	struct output *o = output_open("a.json", false, NULL);
	struct stat st;

	(void)state;
	assert_non_null(o);
	output_write(o, "one ", 4);
	assert_false(exists("a.json"));
	output_write(o, "two", 3);
	assert_int_equal(output_bytes(o), 7);
	assert_false(output_failed(o));
	assert_int_equal(output_commit(&o, NULL, NULL), 0);
	assert_content("a.json", "one two");
	assert_int_equal(stat("a.json", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(unlink("a.json"), 0);
	output_set_mode(0646);
	write_file("a.json", "three");
	output_set_mode(0600);
	assert_int_equal(stat("a.json", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0646);
	assert_int_equal(unlink("a.json"), 0);
}

static void abort_leaves_nothing(void **state)
{
	struct output *o = output_open("a.json", false, NULL);

	(void)state;
	output_write(o, "one", 3);
	output_abort(&o);
	assert_null(o);
	assert_false(exists("a.json"));
	output_abort(&o); /* and the folder is empty: tear_down removes it */
}

static void existing_files_are_replaced_only_on_request(void **state)
{
	struct error e = { 0 };
	struct output *o;

	(void)state;
	write_file("a.json", "old");
	assert_null(output_open("a.json", false, &e));
	assert_int_equal(e.code, -EEXIST);
	assert_string_equal(e.text, "'a.json' exists; choose another name or use --force");
	o = output_open("a.json", true, NULL);
	output_write(o, "new", 3);
	assert_content("a.json", "old");
	assert_int_equal(output_commit(&o, NULL, NULL), 0);
	assert_content("a.json", "new");
	unlink("a.json");
}

static void a_file_that_appeared_meanwhile_is_kept(void **state)
{
	struct output *o = output_open("a.json", false, NULL);
	struct error e = { 0 };

	(void)state;
	output_write(o, "late", 4);
	write_file("a.json", "early");
	assert_int_equal(output_commit(&o, NULL, &e), -EEXIST);
	assert_string_equal(e.text, "cannot write 'a.json': File exists");
	assert_content("a.json", "early");
	unlink("a.json");
}

static void two_outputs_at_once_do_not_meet(void **state)
{
	struct output *first = output_open("a.json", true, NULL),
		      *second = output_open("a.json", true, NULL);

	(void)state;
	output_write(first, "first", 5);
	output_write(second, "second", 6);
	assert_int_equal(output_commit(&second, NULL, NULL), 0);
	assert_content("a.json", "second");
	assert_int_equal(output_commit(&first, NULL, NULL), 0);
	assert_content("a.json", "first");
	unlink("a.json");
}

static void places_that_cannot_be_written(void **state)
{
	struct error e = { 0 };

	(void)state;
	assert_null(output_open("missing/a.json", false, &e));
	assert_string_equal(e.text, "cannot write 'missing/a.json': No such file or directory");
	assert_null(output_open("/tmp", true, &e));
	assert_string_equal(e.text, "cannot write '/tmp': Is a directory");
	assert_null(output_open("", true, &e));
	assert_true(e.code < 0);
}

static void a_full_disk_is_told_at_commit(void **state)
{
	struct output *o = output_open("/dev/full", false, NULL);
	static const char block[10000];
	struct error e = { 0 };

	(void)state;
	assert_non_null(o);
	for (unsigned i = 0; i < 5000; i++)
		output_write(o, block, sizeof(block)); /* more than can wait to be written */
	assert_true(output_failed(o));
	assert_int_equal(output_bytes(o), 50000000);
	assert_int_equal(output_commit(&o, NULL, &e), -ENOSPC);
	assert_string_equal(e.text, "cannot write '/dev/full': No space left on device");
	assert_true(exists("/dev/full"));
}

/* Text that shows where it stands, for pieces of odd lengths. */
static void fill(struct strbuf *s, size_t length, size_t at)
{
	while (length) {
		char line[300];
		size_t n = (size_t)snprintf(line, sizeof(line), "%*zu,", (int)(at % 250), at);

		n = MIN(n, length);
		strbuf_add(s, line, n);
		length -= n;
		at += n;
	}
}

/* Pieces that are handed over and ones that are copied stay in order, and none waits for ever. */
static void pieces_stay_in_order(void **state, const char *path)
{
	struct output *o = output_open(path, true, NULL);
	struct strbuf all = STRBUF_INIT, piece = STRBUF_INIT;
	char *back;
	size_t got = 0;
	gzFile in;

	(void)state;
	assert_non_null(o);
	for (size_t i = 0; i < 40; i++) {
		size_t from = all.length;

		fill(&all, i % 10 ? i * 31415 : 9000000, from);
		assert_false(all.failed);
		if (i % 3) {
			strbuf_clear(&piece);
			strbuf_add(&piece, all.data + from, all.length - from);
			output_move(o, &piece);
			assert_int_equal(piece.length, 0);
		} else {
			output_write(o, all.data + from, all.length - from);
		}
		assert_int_equal(output_bytes(o), all.length);
	}
	assert_int_equal(output_commit(&o, NULL, NULL), 0);
	back = malloc(all.length + 1);
	assert_non_null(back);
	in = gzopen(path, "rb"); /* reads what is not compressed, too */
	assert_non_null(in);
	for (int n; (n = gzread(in, back + got, (unsigned)(all.length + 1 - got))) > 0;)
		got += (size_t)n;
	assert_int_equal(gzclose(in), Z_OK);
	assert_int_equal(got, all.length);
	assert_memory_equal(back, all.data, got);
	free(back);
	strbuf_release(&all);
	strbuf_release(&piece);
	unlink(path);
}

static void plain_pieces_stay_in_order(void **state)
{
	pieces_stay_in_order(state, "a.json");
}

static void compressed_pieces_stay_in_order(void **state)
{
	pieces_stay_in_order(state, "a.json.gz");
}

static void abort_with_pieces_on_their_way(void **state)
{
	struct output *o = output_open("a.json.gz", false, NULL);
	struct strbuf piece = STRBUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		strbuf_clear(&piece);
		fill(&piece, OUTPUT_PIECE_BYTES, i);
		output_move(o, &piece);
	}
	output_abort(&o);
	strbuf_release(&piece);
}

static void gzip_comes_back(void **state)
{
	struct output *o = output_open("a.json.gz", false, NULL);
	size_t length = 3000000, got = 0;
	char *text = malloc(length), *back = malloc(length + 1);
	uint32_t random = 1;
	struct stat st;
	gzFile in;

	(void)state;
	assert_non_null(text);
	assert_non_null(back);
	for (size_t i = 0; i < length; i++) {
		random = random * 1664525 + 1013904223;
		text[i] = (char)(i < length / 2 ? "0123456789abcdef"[random >> 28]
						: (int)(random >> 24));
	}
	for (size_t i = 0; i < length; i += 1000)
		output_write(o, text + i, 1000);
	assert_int_equal(output_bytes(o), length);
	assert_int_equal(output_commit(&o, NULL, NULL), 0);
	assert_int_equal(stat("a.json.gz", &st), 0);
	assert_true((size_t)st.st_size < length * 4 / 5);
	in = gzopen("a.json.gz", "rb");
	assert_non_null(in);
	for (int n; (n = gzread(in, back + got, (unsigned)(length + 1 - got))) > 0;)
		got += (size_t)n;
	assert_int_equal(gzclose(in), Z_OK);
	assert_int_equal(got, length);
	assert_memory_equal(back, text, length);
	free(text);
	free(back);
	unlink("a.json.gz");
}

static void gzip_of_nothing_is_a_gzip_file(void **state)
{
	struct output *o = output_open("empty.gz", false, NULL);
	char byte;
	gzFile in;

	(void)state;
	assert_int_equal(output_commit(&o, NULL, NULL), 0);
	in = gzopen("empty.gz", "rb");
	assert_int_equal(gzread(in, &byte, 1), 0);
	assert_int_equal(gzdirect(in), 0);
	assert_int_equal(gzclose(in), Z_OK);
	unlink("empty.gz");
}

static void dash_is_standard_output(void **state)
{
	int kept = fcntl(1, F_DUPFD_CLOEXEC, 10),
	    fd = open("stdout", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct output *o;
	int code;

	(void)state;
	fflush(stdout);
	dup2(fd, 1);
	o = output_open("-", false, NULL);
	output_write(o, "text\n", 5);
	code = output_commit(&o, NULL, NULL);
	write_file("/dev/stdout", "more\n");
	dup2(kept, 1);
	close(kept);
	close(fd);
	assert_int_equal(code, 0);
	assert_true(exists("stdout"));
	unlink("stdout");
}

/* What is written in place is the device or pipe that was found, not a file that a link names. */
static void a_pipe_that_becomes_a_link_is_refused(void **state)
{
	struct error e = { 0 };

	(void)state;
	write_file("theirs", "secret");
	assert_int_equal(mkfifo("pipe", 0600), 0);
	replaced_by = "theirs";
	assert_null(output_open("pipe", true, &e));
	assert_int_equal(e.code, -EEXIST);
	assert_content("theirs", "secret");
	unlink("pipe");
	unlink("theirs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_appear_when_complete),
		cmocka_unit_test(abort_leaves_nothing),
		cmocka_unit_test(existing_files_are_replaced_only_on_request),
		cmocka_unit_test(a_file_that_appeared_meanwhile_is_kept),
		cmocka_unit_test(two_outputs_at_once_do_not_meet),
		cmocka_unit_test(places_that_cannot_be_written),
		cmocka_unit_test(a_full_disk_is_told_at_commit),
		cmocka_unit_test(plain_pieces_stay_in_order),
		cmocka_unit_test(compressed_pieces_stay_in_order),
		cmocka_unit_test(abort_with_pieces_on_their_way),
		cmocka_unit_test(gzip_comes_back),
		cmocka_unit_test(gzip_of_nothing_is_a_gzip_file),
		cmocka_unit_test(dash_is_standard_output),
		cmocka_unit_test(a_pipe_that_becomes_a_link_is_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
