#include "export/exporter.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "failing_alloc.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define START UINT64_C(1000000000)

/* Stacks of calls and of samples; whole, cut off, and one that is not there. */
static void add_stacks(struct maker *m)
{
	uint32_t node, stacks[4];

	maker_module(m, "/usr/bin/app", "00ff", 0x1000, 0x2000, 0);
	maker_symbol(m, 0x1010, 0, "main", "/usr/bin/app", "/src/main.c", 5, 0x1000);
	maker_symbol(m, 0x1010, 1, "inlined(int)", "/usr/bin/app", "/src/main.h", 6, 0);
	node = maker_native(m, 0, 0x1010);
	stacks[0] = maker_stack(m, node, 1, stack_end_complete);
	stacks[1] = maker_stack(m, maker_python(m, node, "f", "x.py", 3), 2, stack_end_partial);
	stacks[2] = 0;
	stacks[3] = 99;
	for (uint64_t i = 0; i < 4; i++) {
		maker_cpu_sample(m, 10, START + 1000 * i, 500, stacks[i]);
		maker_off_cpu(m, 11, START + 1000 * i, START + 1000 * i + 10,
			      off_cpu_state_sleeping, stacks[i]);
	}
	m->stack = stacks[1];
}

static void make(const char *path, unsigned kernels, bool stacks)
{
	struct maker *m = maker_begin(path, 10, START, "./app");
	uint32_t config = maker_config(m, "_Z3addPfS_", 4, 128);
	uint64_t at = START;

	maker_device(m, 0, START);
	maker_thread(m, 10, "main", START);
	maker_nvtx(m, nvtx_kind_push, 10, "step", START);
	if (stacks)
		add_stacks(m);
	for (unsigned i = 1; i <= kernels; i++, at += 1000) {
		maker_call(m, MAKER_LAUNCH, 10, at, at + 500, i);
		maker_kernel(m, config, 7, at + 600, at + 900, i);
	}
	maker_nvtx(m, nvtx_kind_pop, 10, NULL, at);
	maker_synchronization(m, synchronization_kind_stream, 7, at, at + 100, kernels + 1);
	maker_loss(m, loss_reason_ring_full, 3, START, at, "test");
	maker_close(m, at + 1000);
}

static unsigned files_in(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned count = 0;

	assert_non_null(d);
	for (struct dirent *entry; (entry = readdir(d));)
		count += entry->d_name[0] != '.';
	closedir(d);
	return count;
}

static void test_formats_by_path(void **state)
{
	(void)state;
	assert_string_equal(exporter_by_path("x.perfetto-trace")->file.name, "perfetto");
	assert_string_equal(exporter_by_path("a/b.c.pftrace")->file.name, "perfetto");
	assert_string_equal(exporter_by_path("x.json.gz")->file.name, "json");
	assert_string_equal(exporter_by_path("x.html")->file.name, "html");
	assert_string_equal(exporter_by_path("x.gpufl")->file.name, "gpufl");
	assert_null(exporter_by_path(".json"));
	assert_null(exporter_by_path("json"));
	assert_null(exporter_by_path("x.txt"));
}

/* What a format makes of the recording of make(). */
struct expected {
	const char *format;
	unsigned files;
	uint64_t calls, nvtx, arrows, events, unlinked;
	int of_nothing;
	bool only_causes; /* no rows of synchronization and loss */
};

/*
 * Logs and SBT have no place for calls and arrows; formats of tables have every row, the two of an
 * NVTX range too, and the process.
 */
static const struct expected all_expected[] = {
	{ "perfetto", 1, 20, 1, 20, 43, 3, -ENODATA, false },
	{ "json", 1, 20, 1, 20, 43, 3, -ENODATA, false },
	{ "html", 1, 20, 1, 20, 43, 3, -ENODATA, false },
	{ "gpufl", 4, 0, 1, 0, 23, 0, -ENODATA, false },
	{ "parquet", 13, 20, 2, 0, 53, 0, 0, false },
	{ "arrow", 13, 20, 2, 0, 53, 0, 0, false },
	{ "csv", 13, 20, 2, 0, 53, 0, 0, false },
	{ "sqlite", 1, 20, 2, 0, 53, 0, 0, false },
	{ "sbt", 1, 0, 1, 0, 23, 3, -ENODATA, false },
	{ "dot", 1, 20, 0, 58, 40, 0, -ENODATA, true },
};

static const struct expected *expected_of(const struct exporter *x)
{
	for (size_t i = 0; i < sizeof(all_expected) / sizeof(*all_expected); i++)
		if (strcmp(all_expected[i].format, x->file.name) == 0)
			return &all_expected[i];
	fail_msg("%s: a new format needs its line in all_expected", x->file.name);
	return NULL;
}

static void check_counts(const struct exporter *x, const struct export_result *result)
{
	const struct expected *expected = expected_of(x);

	assert_int_equal(result->files, expected->files);
	assert_int_equal(result->written[TABLE_kernel], 20);
	assert_int_equal(result->written[TABLE_api_call], expected->calls);
	assert_int_equal(result->written[TABLE_nvtx], expected->nvtx);
	assert_int_equal(result->written[TABLE_synchronization], !expected->only_causes);
	assert_int_equal(result->written[TABLE_loss], !expected->only_causes);
	assert_int_equal(result->arrows, expected->arrows);
	assert_int_equal(result->unlinked, 0);
	assert_int_equal(export_result_events(result), expected->events);
}

static void test_every_format_counts_the_same(void **state)
{
	const char *folder = *state, *path = temp_file(folder, "r.pitot");
	struct export_options options = EXPORT_ALL;
	struct trace *t;

	make(path, 20, false);
	assert_int_equal(trace_open(path, &(struct trace_options){ .threads = 1 }, &t, NULL), 0);
	for (const struct exporter *x = exporters; x->file.name; x++) {
		struct export_result result;
		struct stat st;

		assert_int_equal(
			x->write(t, &options, temp_file(folder, x->file.name), &result, NULL), 0);
		assert_int_equal(stat(temp_file(folder, x->file.name), &st), 0);
		assert_int_equal(S_ISDIR(st.st_mode), x->is_folder);
		assert_true(x->is_folder || (uint64_t)st.st_size == result.bytes);
		check_counts(x, &result);
		memset(result.untimed, 1, sizeof(result.untimed));
		result.bytes = result.files = 1000;
		assert_int_equal(export_result_events(&result),
				 expected_of(x)->events); /* what was written only */
	}
	trace_free(t);
}

/* What a kernel's device is was lost: it is written with what is known. */
static void test_kernels_of_an_unknown_device(void **state)
{
	const char *folder = *state, *path = temp_file(folder, "r.pitot");
	struct maker *m = maker_begin(path, 10, START, "./app");
	struct export_options options = EXPORT_ALL;
	uint32_t config = maker_config(m, "add", 4, 128);
	struct trace *t;

	for (uint64_t i = 0; i < 3; i++)
		maker_kernel(m, config, 7, START + 100 * i, START + 100 * i + 50, i + 1);
	maker_close(m, START + 1000);
	assert_int_equal(trace_open(path, &(struct trace_options){ .threads = 1 }, &t, NULL), 0);
	for (const struct exporter *x = exporters; x->file.name; x++) {
		struct export_result result;

		assert_int_equal(
			x->write(t, &options, temp_file(folder, x->file.name), &result, NULL), 0);
		assert_int_equal(result.written[TABLE_kernel], 3);
		assert_int_equal(result.unlinked, expected_of(x)->unlinked);
	}
	trace_free(t);
}

/* A process that never used a GPU. */
static void test_a_recording_of_nothing(void **state)
{
	const char *folder = *state, *path = temp_file(folder, "r.pitot");
	struct export_options options = EXPORT_ALL;
	struct trace *t;

	maker_close(maker_begin(path, 10, START, "./app"), START + 10);
	assert_int_equal(trace_open(path, &(struct trace_options){ .threads = 1 }, &t, NULL), 0);
	for (const struct exporter *x = exporters; x->file.name; x++) {
		const char *file = temp_file(folder, x->file.name);
		struct export_result result;

		int rc = expected_of(x)->of_nothing;

		assert_int_equal(x->write(t, &options, file, &result, NULL), rc);
		assert_int_equal(export_result_events(&result) == 0, rc < 0);
		assert_int_equal(access(file, F_OK), rc < 0 ? -1 : 0);
	}
	trace_free(t);
}

static void cancel_at_once(void *user, uint64_t done, uint64_t total)
{
	assert_true(done <= total);
	*(sig_atomic_t *)user = 1;
}

static void test_cancelled_exports_leave_nothing(void **state)
{
	const char *folder = *state, *path = temp_file(folder, "r.pitot");
	sig_atomic_t cancel = 0;
	struct export_options options = EXPORT_ALL;
	struct trace *t;

	make(path, 5000, false);
	options.cancel = &cancel;
	options.progress = cancel_at_once;
	options.progress_user = &cancel;
	options.split_bytes = 8192;
	assert_int_equal(trace_open(path, &(struct trace_options){ .threads = 1 }, &t, NULL), 0);
	for (const struct exporter *x = exporters; x->file.name; x++) {
		struct export_result result;
		struct error e = { 0 };

		if (expected_of(x)->only_causes)
			continue; /* so many are refused */
		cancel = 0;
		assert_int_equal(x->write(t, &options, temp_file(folder, "out"), &result, &e),
				 -ECANCELED);
		assert_int_equal(files_in(folder), 1);
	}
	trace_free(t);
}

struct seen {
	uint64_t done, total;
	unsigned calls;
};

static void note_progress(void *user, uint64_t done, uint64_t total)
{
	struct seen *seen = user;

	assert_true(done >= seen->done && done <= total);
	*seen = (struct seen){ done, total, seen->calls + 1 };
}

static void test_progress_reaches_the_end(void **state)
{
	const char *folder = *state, *path = temp_file(folder, "r.pitot");
	struct export_options options = EXPORT_ALL;
	struct trace *t;

	make(path, 20000, false);
	options.progress = note_progress;
	assert_int_equal(trace_open(path, &(struct trace_options){ .threads = 1 }, &t, NULL), 0);
	for (const struct exporter *x = exporters; x->file.name; x++) {
		struct export_result result;
		struct seen seen = { 0 };

		if (expected_of(x)->only_causes)
			continue;
		options.progress_user = &seen;
		assert_int_equal(
			x->write(t, &options, temp_file(folder, x->file.name), &result, NULL), 0);
		assert_true(seen.calls > 5 && seen.total >= 40000 && seen.done > seen.total - 8192);
	}
	trace_free(t);
}

/* Whichever allocation fails: an error and no file, or a complete one. */
static void test_without_memory(void **state)
{
	const char *folder = *state, *path = temp_file(folder, "r.pitot");
	struct export_options options = EXPORT_ALL;

	make(path, 30, true);
	options.kernel = "add";
	options.scope = "step";
	options.overwrite = true;
	options.split_bytes = 4096;
	for (const struct exporter *x = exporters; x->file.name; x++) {
		unsigned failures = 0;

		FOR_EACH_FAILURE(n)
		{
			struct export_result result;
			struct error e = { 0 };
			struct trace *t;
			char out[4096];
			int r = trace_open(path, &(struct trace_options){ .threads = 1 }, &t, &e);

			snprintf(out, sizeof(out), "%s/%s%ld", folder, x->file.name, n);
			if (r >= 0) {
				r = x->write(t, &options, out, &result, &e);
				trace_free(t);
			}
			failing_alloc_left = -1;
			failures += r < 0;
			assert_int_equal(access(out, F_OK), r < 0 ? -1 : 0);
			assert_true(r == 0 || (r == e.code && e.text[0]));
		}
		assert_true(failures * FAILURE_STEP > 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats_by_path),
		folder_test(test_every_format_counts_the_same),
		folder_test(test_kernels_of_an_unknown_device),
		folder_test(test_a_recording_of_nothing),
		folder_test(test_cancelled_exports_leave_nothing),
		folder_test(test_progress_reaches_the_end),
		folder_test(test_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
