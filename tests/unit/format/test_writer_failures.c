/* link: -Wl,--wrap=pwrite */
/*
 * Disks that fill up or fail, memory that runs out, descriptors that are taken away: counted, and
 * nothing else.
 */
#include "recording_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "failing_alloc.h"

/* ---- pwrite(2) that fails ---- */

static long writes_left = -1; /* that still succeed; below 0: all */
static int write_error;
static size_t write_short; /* bytes that the failing write still writes */

/* ---- and that stalls ---- */

static pthread_mutex_t stall_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stall_changed = PTHREAD_COND_INITIALIZER;
static bool stalled; /* writes wait */
static unsigned stalled_writes; /* that wait now */

static void stall(bool on)
{
	pthread_mutex_lock(&stall_lock);
	stalled = on;
	pthread_cond_broadcast(&stall_changed);
	pthread_mutex_unlock(&stall_lock);
}

static void wait_while_stalled(void)
{
	pthread_mutex_lock(&stall_lock);
	stalled_writes++;
	pthread_cond_broadcast(&stall_changed);
	while (stalled)
		pthread_cond_wait(&stall_changed, &stall_lock);
	stalled_writes--;
	pthread_mutex_unlock(&stall_lock);
}

static void wait_for_a_stalled_write(void)
{
	pthread_mutex_lock(&stall_lock);
	while (stalled_writes == 0)
		pthread_cond_wait(&stall_changed, &stall_lock);
	pthread_mutex_unlock(&stall_lock);
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	/* A full disk takes what lies within a file. */
	struct stat st;

	wait_while_stalled();
	if (writes_left < 0 || writes_left-- > 0)
		return __real_pwrite(fd, bytes, length, offset);
	writes_left = 0;
	if (fstat(fd, &st) == 0 && (uint64_t)offset + length <= (uint64_t)st.st_size &&
	    write_error != EIO)
		return __real_pwrite(fd, bytes, length, offset);
	if (write_short) {
		size_t n = MIN(write_short, length);

		write_short = 0;
		return __real_pwrite(fd, bytes, n, offset);
	}
	errno = write_error;
	return -1;
}

static void fail_write(long n, int error, size_t bytes_before)
{
	writes_left = n;
	write_error = error;
	write_short = bytes_before;
}

/* ---- what is on disk afterwards ---- */

struct outcome {
	uint64_t rows; /* of the table external_correlation */
	uint64_t kernels, calls, samples;
	uint64_t lost[32]; /* by reason */
	unsigned segments;
	uint64_t bytes;
	bool closed; /* the last segment */
};

static void take_loss(void *user, const struct decoded *t)
{
	struct outcome *o = user;

	for (size_t i = 0; i < t->rows; i++) {
		assert_true(t->values[COLUMN_loss_start_ns][i] <= t->values[COLUMN_loss_end_ns][i]);
		o->lost[t->values[COLUMN_loss_reason][i]] += t->values[COLUMN_loss_count][i];
	}
}

static void look(struct fixture *f, struct outcome *o)
{
	*o = (struct outcome){ 0 };
	while (access(fixture_segment(f, o->segments), F_OK) == 0) {
		struct segment s;

		fixture_map(f, o->segments++, &s);
		assert_int_equal(s.skipped_bytes, 0);
		assert_false(s.truncated);
		o->rows += for_each_block(&s, TABLE_external_correlation, NULL, NULL);
		o->kernels += for_each_block(&s, TABLE_kernel, NULL, NULL);
		o->calls += for_each_block(&s, TABLE_api_call, NULL, NULL);
		o->samples += for_each_block(&s, TABLE_counter_sample, NULL, NULL);
		for_each_block(&s, TABLE_loss, take_loss, o);
		o->bytes += s.size;
		o->closed = s.closed;
		segment_release(&s);
	}
}

/* Ten flushes of a hundred rows that do not compress; returns writer_close's result. */
static int write_rows(struct fixture *f, struct writer_options options, struct writer_stats *stats)
{
	struct row_external_correlation row = { 0 };
	struct random r = { 3 };
	struct writer *w = fixture_writer(f, options);
	bool failed = false;

	for (unsigned i = 0; i < 1000; i++) {
		row.id = random_u64(&r);
		row.correlation = random_u64(&r);
		writer_append(w, TABLE_external_correlation, &row);
		if (i % 100 == 99)
			failed |= writer_flush(w) < 0;
	}
	writer_stats(w, stats);
	assert_int_equal(failed, stats->error != 0);
	return writer_close(&w);
}

static void test_write_errors(void **state UNUSED)
{
	static const struct {
		int error;
		enum loss_reason reason;
	} cases[] = { { ENOSPC, loss_reason_disk_full },
		      { EDQUOT, loss_reason_disk_full },
		      { EFBIG, loss_reason_write_error } };

	for (size_t c = 0; c < ARRAY_SIZE(cases); c++) {
		for (long n = 1; n <= 10; n++) {
			struct writer_stats stats;
			struct outcome o;
			struct fixture f;

			fixture_open(&f);
			fail_write(n, cases[c].error, (size_t)(n * 100));
			assert_int_equal(write_rows(&f, (struct writer_options){ 0 }, &stats),
					 -cases[c].error);
			fail_write(-1, 0, 0);
			look(&f, &o);
			assert_int_equal(o.rows, (n - 1) * 100);
			assert_int_equal(o.lost[cases[c].reason], 1000 - o.rows);
			assert_int_equal(stats.lost_rows, 1000 - o.rows);
			assert_int_equal(stats.error, cases[c].error);
			assert_false(o.closed);
			fixture_close(&f);
		}
	}
}

/* A disk that takes nothing at all any more: what was written stays readable. */
static void test_io_error(void **state UNUSED)
{
	struct writer_stats stats;
	struct outcome o;
	struct fixture f;

	fixture_open(&f);
	fail_write(4, EIO, 0);
	assert_int_equal(write_rows(&f, (struct writer_options){ 0 }, &stats), -EIO);
	fail_write(-1, 0, 0);
	look(&f, &o);
	assert_int_equal(o.rows, 300);
	assert_int_equal(stats.lost_rows, 700);
	fixture_close(&f);
}

/* The new segment cannot be created: the loss is written to the one before. */
static void test_no_next_segment(void **state UNUSED)
{
	struct writer_stats stats;
	struct outcome o;
	struct fixture f;

	fixture_open(&f);
	fail_write(3, ENOSPC, 0); /* header, two flushes, then the header of the second segment */
	assert_int_equal(write_rows(&f, (struct writer_options){ .segment_bytes = 4000 }, &stats),
			 -ENOSPC);
	fail_write(-1, 0, 0);
	look(&f, &o);
	assert_int_equal(o.segments, 1);
	assert_int_equal(o.rows, 200);
	assert_int_equal(o.lost[loss_reason_disk_full], 800);
	fixture_close(&f);
}

static void test_no_first_segment(void **state UNUSED)
{
	struct writer_options options = { .directory = "/nonexistent/folder" };
	struct error e = { 0 };
	struct writer *w = NULL;
	struct fixture f;

	assert_int_equal(writer_open(&options, &w, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nonexistent/folder"));
	fixture_open(&f);
	options.directory = f.directory;
	options.prefix = "test";
	fail_write(0, ENOSPC, 10);
	assert_int_equal(writer_open(&options, &w, &e), -ENOSPC);
	fail_write(-1, 0, 0);
	assert_null(w);
	assert_int_not_equal(access(fixture_segment(&f, 0), F_OK), 0);
	fixture_close(&f);
}

static void test_max_bytes(void **state UNUSED)
{
	for (uint64_t max = 2000; max < 18000; max += 777) {
		struct writer_options options = { .max_bytes = max,
						  .segment_bytes = max % 2 ? 5000 : 0 };
		struct writer_stats stats;
		struct outcome o;
		struct fixture f;
		int r;

		fixture_open(&f);
		r = write_rows(&f, options, &stats);
		assert_int_equal(r, stats.error ? -EFBIG : 0);
		look(&f, &o);
		assert_true(o.bytes <= max);
		assert_true(o.closed);
		assert_int_equal(o.rows + o.lost[loss_reason_size_limit], 1000);
		assert_int_equal(stats.lost_rows, o.lost[loss_reason_size_limit]);
		fixture_close(&f);
	}
}

/* The kernel would end the process with SIGXFSZ, whose default action is in force here. */
static void test_file_size_limit(void **state UNUSED)
{
	struct rlimit old, limit;
	struct writer_stats stats;
	struct outcome o;
	struct fixture f;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (rlim_t bytes = 1500; bytes < 12000; bytes += 1111) {
		fixture_open(&f);
		limit = (struct rlimit){ bytes, old.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_int_equal(write_rows(&f, (struct writer_options){ 0 }, &stats), -EFBIG);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		look(&f, &o);
		assert_true(o.bytes <= bytes);
		assert_int_equal(o.rows + o.lost[loss_reason_write_error], 1000);
		fixture_close(&f);
	}
}

/* Losses that others have counted are not forgotten when the disk is full. */
static void test_losses_of_others(void **state UNUSED)
{
	struct row_loss row = {
		.reason = loss_reason_ring_full, .count = 5, .start_ns = 10, .end_ns = 20
	};
	struct outcome o;
	struct fixture f;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	row.detail = writer_string(w, "detail", 6);
	writer_append(w, TABLE_loss, &row);
	fail_write(0, ENOSPC, 0);
	assert_int_equal(writer_flush(w), -ENOSPC);
	writer_append(w, TABLE_loss, &row);
	assert_int_equal(writer_close(&w), -ENOSPC);
	fail_write(-1, 0, 0);
	look(&f, &o);
	assert_int_equal(o.lost[loss_reason_ring_full], 10);
	assert_int_equal(o.lost[loss_reason_disk_full], 0);
	fixture_close(&f);
}

/* Someone who follows the segment sees the loss block appear in the reserve. */
static void test_follow_a_full_disk(void **state UNUSED)
{
	struct row_external_correlation row = { 0 };
	struct outcome o = { 0 };
	struct fixture f;
	struct segment s;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	fixture_map(&f, 0, &s);
	fail_write(0, ENOSPC, 0);
	writer_append(w, TABLE_external_correlation, &row);
	assert_int_equal(writer_flush(w), -ENOSPC);
	assert_int_equal(segment_refresh(&s, NULL), 1);
	writer_append(w, TABLE_external_correlation, &row);
	assert_int_equal(writer_flush(w), -ENOSPC);
	assert_int_equal(segment_refresh(&s, NULL), 0);
	for_each_block(&s, TABLE_loss, take_loss, &o);
	assert_int_equal(o.lost[loss_reason_disk_full], 2);
	segment_release(&s);
	fail_write(-1, 0, 0);
	assert_int_equal(writer_close(&w), -ENOSPC);
	fixture_close(&f);
}

/* Writes kernels with names, until one of the writer's sinks has some on disk again. */
static uint64_t write_until_recovered(struct writer *w)
{
	struct row_kernel_config config = { 0 };
	struct row_kernel kernel = { 0 };
	uint64_t kernels = 0;
	int r;

	do {
		usleep(20000);
		config.name = writer_string(w, "kernel", 6);
		kernel.config = writer_kernel_config(w, &config);
		writer_append(w, TABLE_kernel, &kernel);
		kernels++;
		r = writer_flush(w);
	} while (r < 0);
	return kernels;
}

static void take_configs(void *user, const struct decoded *t)
{
	for (size_t i = 0; i < t->rows; i++)
		assert_int_equal(map_put(user, t->values[COLUMN_kernel_config_id][i], 1), 0);
}

static void check_configs(void *user, const struct decoded *t)
{
	uint64_t one;

	for (size_t i = 0; i < t->rows; i++)
		assert_true(map_get(user, t->values[COLUMN_kernel_config][i], &one));
}

/*
 * A disk that is full for a moment: what came then is lost and counted, what comes later is there,
 * with its names.
 */
static void test_disk_is_full_for_a_moment(void **state UNUSED)
{
	static const int errors[] = { ENOSPC, ENOSPC, EIO };

	for (unsigned c = 0; c < ARRAY_SIZE(errors); c++) {
		int error = errors[c];
		enum loss_reason reason =
			error == EIO ? loss_reason_write_error : loss_reason_disk_full;
		struct writer_options options = { .background = c > 0 };
		struct row_external_correlation row = { 0 };
		struct map configs = MAP_INIT;
		struct writer_stats stats;
		struct outcome o;
		struct fixture f;
		struct segment s;
		struct writer *w;
		uint64_t kernels;

		fixture_open(&f);
		w = fixture_writer(&f, options);
		writer_append(w, TABLE_external_correlation, &row);
		while (writer_flush(w) == 1)
			;
		fail_write(0, error, 30);
		for (unsigned i = 0; i < 100; i++)
			writer_append(w, TABLE_external_correlation, &row);
		while (writer_flush(w) == 1)
			;
		assert_int_equal(writer_flush(w), -error);
		for (unsigned i = 0; i < 100; i++)
			writer_append(w, TABLE_external_correlation, &row);
		assert_int_equal(writer_flush(w), -error);
		writer_stats(w, &stats);
		assert_int_equal(stats.error, error);
		fail_write(-1, 0, 0);
		kernels = write_until_recovered(w);
		writer_stats(w, &stats);
		assert_int_equal(stats.error, 0);
		assert_int_equal(writer_close(&w), 0);
		look(&f, &o);
		assert_int_equal(o.segments, 1);
		assert_true(o.closed);
		assert_int_equal(o.rows, 1);
		assert_true(o.kernels >= 1);
		assert_int_equal(o.lost[reason], 200 + kernels - o.kernels);
		assert_int_equal(stats.lost_rows, o.lost[reason]);
		fixture_map(&f, 0, &s);
		for_each_block(&s, TABLE_kernel_config, take_configs, &configs);
		for_each_block(&s, TABLE_kernel, check_configs, &configs);
		map_release(&configs);
		segment_release(&s);
		fixture_close(&f);
	}
}

/* It is full again a second later, and again: every time is told. */
static void test_disk_is_full_twice(void **state UNUSED)
{
	struct row_external_correlation row = { 0 };
	uint64_t kernels = 0;
	struct outcome o;
	struct fixture f;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	for (unsigned i = 1; i <= 2; i++) {
		fail_write(0, ENOSPC, 0);
		for (unsigned n = 0; n < 100 * i; n++)
			writer_append(w, TABLE_external_correlation, &row);
		assert_int_equal(writer_flush(w), -ENOSPC);
		fail_write(-1, 0, 0);
		kernels += write_until_recovered(w);
	}
	assert_int_equal(writer_close(&w), 0);
	look(&f, &o);
	assert_int_equal(o.rows, 0);
	assert_in_range(o.kernels, 2, kernels);
	assert_int_equal(o.lost[loss_reason_disk_full], 300 + kernels - o.kernels);
	fixture_close(&f);
}

/* ---- a disk that stalls ---- */

static void append_random(struct writer *w, struct random *r, uint64_t rows)
{
	for (uint64_t i = 0; i < rows; i++) {
		struct row_external_correlation row = { .id = random_u64(r),
							.correlation = random_u64(r) };
		struct row_counter_sample sample = { .value = (int64_t)random_u64(r) };

		writer_append(w, TABLE_external_correlation, &row);
		if (i % 8 == 0)
			writer_append(w, TABLE_counter_sample, &sample);
	}
}

/*
 * Nobody waits but the thread that writes; what there is room for is kept, and what is lost is
 * counted, of all tables.
 */
static void test_disk_stalls(void **state UNUSED)
{
	const uint64_t rows = 100000;
	struct random random = { 5 };
	uint64_t appended = 0, samples = 0;
	struct writer_stats stats;
	struct outcome o;
	struct fixture f;
	struct writer *w;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ .background = true });
	append_random(w, &random, 8);
	stall(true);
	appended += 8;
	assert_int_equal(writer_flush(w), 1);
	wait_for_a_stalled_write();
	do {
		append_random(w, &random, rows);
		appended += rows;
		writer_flush(w);
		writer_stats(w, &stats);
		assert_true(appended * 16 < 200u << 20);
	} while (stats.lost_rows == 0);
	assert_true(appended * 16 > 30u << 20);
	append_random(w, &random, 800);
	appended += 800;
	assert_true(writer_flush(w) != 0);
	stall(false);
	do {
		append_random(w, &random, 80);
		appended += 80;
	} while (writer_flush(w) != 0);
	assert_int_equal(writer_close(&w), 0);
	look(&f, &o);
	samples = (appended + 7) / 8;
	assert_true(o.closed);
	assert_true(o.rows >= 28u << 16 && o.rows < appended);
	assert_int_equal(o.rows + o.samples + o.lost[loss_reason_disk_slow], appended + samples);
	assert_true(o.samples < samples);
	fixture_close(&f);
}

/* A child that is forked meanwhile lets go of it without waiting. */
static void test_fork_while_the_disk_stalls(void **state UNUSED)
{
	struct row_external_correlation row = { 0 };
	struct outcome o;
	struct fixture f;
	struct writer *w;
	pid_t child;
	int status;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ .background = true });
	stall(true);
	writer_append(w, TABLE_external_correlation, &row);
	assert_int_equal(writer_flush(w), 1);
	wait_for_a_stalled_write();
	child = fork();
	if (child == 0) {
		writer_abandon(&w);
		_exit(w != NULL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	stall(false);
	assert_int_equal(writer_close(&w), 0);
	look(&f, &o);
	assert_int_equal(o.rows, 1);
	assert_true(o.closed);
	fixture_close(&f);
}

/* ---- a descriptor that the target closes and uses for something else ---- */

#define DESCRIPTORS 200

static int descriptor_of(const char *path)
{
	struct stat file, st;

	assert_int_equal(stat(path, &file), 0);
	for (int fd = 3; fd < DESCRIPTORS; fd++)
		if (fstat(fd, &st) == 0 && st.st_ino == file.st_ino && st.st_dev == file.st_dev)
			return fd;
	fail_msg("%s is not open", path);
	return -1;
}

static void test_descriptor_taken_away(void **state UNUSED)
{
	struct row_external_correlation row = { 0 };
	char other[128];
	struct outcome o;
	struct fixture f;
	struct writer *w;
	struct stat st;
	int fd, taken;

	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ 0 });
	fd = descriptor_of(fixture_segment(&f, 0));
	assert_true(fd > 2);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	snprintf(other, sizeof(other), "%s/other", f.directory);
	taken = open(other, O_RDWR | O_CREAT, 0600);
	assert_int_equal(dup2(taken, fd), fd);
	writer_append(w, TABLE_external_correlation, &row);
	assert_int_equal(writer_flush(w), 0);
	assert_int_equal(writer_close(&w), 0);
	assert_int_equal(fstat(fd, &st), 0); /* not closed by us, and nothing in it */
	assert_int_equal(st.st_size, 0);
	close(fd);
	if (taken != fd)
		close(taken);
	look(&f, &o);
	assert_int_equal(o.rows, 1);
	assert_true(o.closed);
	fixture_close(&f);
}

/* Whether a descriptor of the calling thread's table is this file. */
static bool is_open(const char *path)
{
	struct stat file, st;

	assert_int_equal(stat(path, &file), 0);
	for (int fd = 0; fd < DESCRIPTORS; fd++)
		if (fstat(fd, &st) == 0 && st.st_ino == file.st_ino && st.st_dev == file.st_dev)
			return true;
	return false;
}

static void append_and_write(struct writer *w, unsigned rows)
{
	for (struct row_external_correlation row = { 0 }; rows; rows--)
		writer_append(w, TABLE_external_correlation, &row);
	while (writer_flush(w) == 1)
		;
}

static int take_all(const char *path)
{
	int own = open(path, O_RDWR | O_CREAT, 0600);

	for (int fd = 3; fd < DESCRIPTORS; fd++)
		if (fd != own && fcntl(fd, F_GETFD) < 0)
			assert_int_equal(dup2(own, fd), fd);
	return own;
}

/*
 * Where a thread writes, its segments, the second one too, are in no descriptor table that the
 * target has a hand on; nor in that of a child.
 */
static void test_descriptors_out_of_reach(void **state UNUSED)
{
	char other[128];
	struct outcome o;
	struct fixture f;
	struct writer *w;
	struct stat st;
	pid_t child;
	int own, status;

	if (syscall(SYS_close_range, ~0U, ~0U, 0) < 0)
		skip();
	fixture_open(&f);
	w = fixture_writer(&f, (struct writer_options){ .background = true, .segment_bytes = 1 });
	append_and_write(w, 1);
	append_and_write(w, 2);
	assert_false(is_open(fixture_segment(&f, 0)));
	assert_false(is_open(fixture_segment(&f, 1)));
	snprintf(other, sizeof(other), "%s/other", f.directory);
	own = take_all(other);
	append_and_write(w, 3);
	child = fork();
	if (child == 0) {
		writer_abandon(&w);
		_exit(fstat(own, &st) < 0 || st.st_size != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(writer_close(&w), 0);
	for (int fd = own; fd < DESCRIPTORS; fd++)
		assert_true(fstat(fd, &st) < 0 || st.st_size == 0);
	close_range((unsigned)own, DESCRIPTORS, 0);
	look(&f, &o);
	assert_int_equal(o.rows, 6);
	assert_true(o.closed);
	fixture_close(&f);
}

/* ---- memory ---- */

static void append_everything(struct writer *w)
{
	struct row_kernel_config config = { 0 };
	struct row_api_function function = { .kind = api_kind_launch };
	struct row_external_correlation row = { 0 };
	struct row_kernel kernel = { 0 };
	struct row_api_call call = { .function = 7 };

	function.name = writer_string(w, "function", 8);
	writer_api_function(w, 7, &function);
	for (unsigned i = 0; i < 300; i++) {
		char text[32];

		config.name = writer_string(w, text, (size_t)snprintf(text, sizeof(text), "%u", i));
		kernel.config = writer_kernel_config(w, &config);
		kernel.start_ns = kernel.end_ns = 1000 - i;
		writer_append(w, TABLE_kernel, &kernel);
		writer_append(w, TABLE_api_call, &call);
		writer_append(w, TABLE_external_correlation, &row);
	}
	writer_flush(w);
}

/*
 * Whatever there is no memory for is counted; also where the count is all that there is memory for.
 */
static void write_without_memory(void)
{
	FOR_EACH_FAILURE(n)
	{
		struct writer_options options = { .prefix = "test" };
		struct writer_stats stats;
		struct writer *w = NULL;
		struct outcome o;
		struct fixture f;
		long left;
		bool failed;
		int r;

		left = failing_alloc_left;
		failing_alloc_left = -1;
		fixture_open(&f);
		failing_alloc_left = left;
		options.directory = f.directory;
		r = writer_open(&options, &w, NULL);
		if (r == 0) {
			append_everything(w);
			writer_stats(w, &stats);
			writer_close(&w);
		}
		failed = failing_alloc_failed;
		failing_alloc_left = -1;
		if (r == 0) {
			look(&f, &o);
			assert_int_equal(o.rows + o.kernels + o.calls, 900 - stats.lost_rows);
			assert_true(o.lost[loss_reason_no_memory] >= stats.lost_rows);
		} else {
			assert_int_equal(r, -ENOMEM);
		}
		fixture_close(&f);
		failing_alloc_failed = failed;
	}
}

static void test_no_memory_to_write(void **state UNUSED)
{
	write_without_memory();
}

static void test_no_memory_any_more(void **state UNUSED)
{
	failing_alloc_stays = true;
	write_without_memory();
	failing_alloc_stays = false;
}

static void test_no_memory_to_read(void **state UNUSED)
{
	struct writer_stats stats;
	struct fixture f;

	fixture_open(&f);
	write_rows(&f, (struct writer_options){ 0 }, &stats);
	FOR_EACH_FAILURE(n)
	{
		uint64_t ids[BLOCK_ROWS_MAX / 64];
		struct column_target target = { .column = COLUMN_external_correlation_id,
						.values = ids };
		struct segment s;
		struct decoder *d;
		int r = segment_open(fixture_segment(&f, 0), &s, NULL);

		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			continue;
		}
		d = decoder_new();
		if (d) {
			r = block_decode(d, &s, &s.blocks[0], &target, 1);
			assert_true(r == 0 || r == -ENOMEM);
		}
		decoder_free(d);
		segment_release(&s);
	}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_errors),
		cmocka_unit_test(test_io_error),
		cmocka_unit_test(test_no_next_segment),
		cmocka_unit_test(test_no_first_segment),
		cmocka_unit_test(test_max_bytes),
		cmocka_unit_test(test_file_size_limit),
		cmocka_unit_test(test_losses_of_others),
		cmocka_unit_test(test_follow_a_full_disk),
		cmocka_unit_test(test_disk_is_full_for_a_moment),
		cmocka_unit_test(test_disk_is_full_twice),
		cmocka_unit_test(test_disk_stalls),
		cmocka_unit_test(test_fork_while_the_disk_stalls),
		cmocka_unit_test(test_descriptor_taken_away),
		cmocka_unit_test(test_descriptors_out_of_reach),
		cmocka_unit_test(test_no_memory_to_write),
		cmocka_unit_test(test_no_memory_any_more),
		cmocka_unit_test(test_no_memory_to_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
