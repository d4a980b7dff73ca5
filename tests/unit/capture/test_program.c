/*
 * Recordings that a program starts by itself: what its options mean, what is refused and why, many
 * of them, and what a flush has brought to the disk. Runs under TSan, too.
 */
#include "unit/capture/nvtx_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/stat.h>

#include "base/helper_thread.h"
#include "base/io.h"
#include "capture/core/collector.h"
#include "capture/program.h"
#include "capture/core/process_exit.h"
#include "capture/core/session.h"
#include "support/temp_folder.h"

static char *folder, *before;
static struct error e;

/* In a folder of its own, which is the current one. */
static int setup(void **state)
{
	(void)state;
	unsetenv("PITOT_DISABLED");
	unsetenv("GPUFL_DISABLED");
	before = realpath(".", NULL);
	folder = temp_folder_make();
	client_reset();
	e = (struct error){ 0 };
	return chdir(folder);
}

static int teardown(void **state)
{
	(void)state;
	assert_false(collector_running());
	assert_int_equal(chdir(before), 0);
	temp_folder_remove(folder);
	free(before);
	return 0;
}

static unsigned files_in(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void assert_error(int code, const char *text)
{
	assert_int_equal(e.code, code);
	if (!strstr(e.text, text))
		fail_msg("'%s' does not have '%s'", e.text, text);
	e = (struct error){ 0 };
}

static struct pitot_options options_for(const char *directory)
{
	return (struct pitot_options){ .size = sizeof(struct pitot_options),
				       .directory = directory };
}

static struct pitot_session *start(const char *directory)
{
	struct pitot_options o = options_for(directory);
	struct pitot_session *s = program_start(&o, &e);

	if (!s)
		fail_msg("%s", e.text);
	return s;
}

/* --- options --- */

#define VALUE_FLAG 1
#define VALUE_ENUM 1
#define VALUE_U64 27
#define VALUE_SIZE 77
#define VALUE_DURATION (77 * NS_PER_MS)
#define VALUE_TEXT "toy:a,b"
#define HAS_FLAG(value) ((value) == 0)
#define HAS_ENUM(value) ((value) == 0)
#define HAS_U64(value) ((value) == VALUE_U64)
#define HAS_SIZE(value) ((value) == VALUE_SIZE)
#define HAS_DURATION(value) ((value) == VALUE_DURATION)
#define HAS_TEXT(value) (strcmp((value), VALUE_TEXT) == 0)

/*
 * Each setting has a field, and what the field says is what the setting has: of choices one less.
 */
static void test_every_setting_has_a_field(void **state)
{
	struct pitot_options o = options_for("x");
	struct settings s = SETTINGS_INIT, d = SETTINGS_INIT;

	(void)state;
#define S(key, type, ...) o.key = VALUE_##type;
	SETTINGS_REQUESTED(S)
	SETTINGS_OF_PROGRAMS(S)
#undef S
	assert_int_equal(program_settings(&o, true, &s, &e), 0);
#define S(key, type, ...)                                                                          \
	assert_true(HAS_##type(s.key));                                                            \
	assert_int_equal(s.source[SETTING_ID_##key], SETTING_BY_CODE);
	SETTINGS_REQUESTED(S)
	SETTINGS_OF_PROGRAMS(S)
#undef S
	o.cpu = SETTING_CPU_HZ_MAX + 1;
	assert_int_equal(program_settings(&o, true, &s, &e), -EINVAL);
	assert_non_null(strstr(e.text, "pitot_options.cpu is 10001; the maximum is 10000"));
	e = (struct error){ 0 };

	o.cpu = 0;
	o.kernels = "a;b";
	assert_int_equal(program_settings(&o, true, &s, &e), E_USAGE);
	assert_string_equal(e.text, "kernels takes no ';', as in 'a;b'");
	e = (struct error){ 0 };

	o = options_for("x");
	o.counters_ns = PITOT_NONE;
	o.stacks = PITOT_STACKS_PYTHON;
	o.own_profiler = PITOT_OWN_PROFILER_SHARE;
	o.api = PITOT_API_ALL;
	o.graphs = PITOT_GRAPHS_LAUNCH;
	o.memory = PITOT_ON;
	o.engine = PITOT_ENGINE_DEEP;
	assert_int_equal(program_settings(&o, true, &d, &e), 0);
	assert_int_equal(d.counters_ns, 0);
	assert_int_equal(d.stacks, SETTING_STACKS_PYTHON);
	assert_int_equal(d.own_profiler, SETTING_OWN_PROFILER_SHARE);
	assert_int_equal(d.api, SETTING_API_ALL);
	assert_int_equal(d.graphs, SETTING_GRAPHS_LAUNCH);
	assert_true(d.memory && !d.sync);
	assert_int_equal(d.engine, SETTING_ENGINE_DEEP);
}

static void test_defaults_of_the_program(void **state)
{
	struct pitot_options weak = { .size = sizeof(weak),
				      .engine = PITOT_ENGINE_MONITOR,
				      .sync = PITOT_ON },
			     o;
	struct settings s = SETTINGS_INIT;

	(void)state;
	o = options_for("x");
	o.defaults = &weak;
	setenv("PITOT_ENGINE", "trace", 1);
	assert_int_equal(program_settings(&o, true, &s, &e), 0);
	unsetenv("PITOT_ENGINE");
	assert_int_equal(s.engine, SETTING_ENGINE_TRACE);
	assert_true(s.sync);
	assert_int_equal(s.source[SETTING_ID_sync], SETTING_BY_PROGRAM);
	weak.size = 1;
	assert_true(program_settings(&o, true, &s, &e) < 0);
	assert_error(-EINVAL, "set it to sizeof(struct pitot_options)");
}

static void test_sizes_of_the_struct(void **state)
{
	struct {
		struct pitot_options o;
		uint64_t future;
	} newer = { .o = { .size = sizeof(newer), .directory = "newer" } };
	struct pitot_options o = options_for("older");
	static const size_t wrong[] = { 0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX };
	struct pitot_session *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		o.size = wrong[i];
		assert_null(program_start(&o, &e));
		assert_error(-EINVAL, "pitot_options.size");
	}
	/* What an older program does not pass is not looked at. */
	o.size = offsetof(struct pitot_options, graphs);
	o.graphs = (enum pitot_graphs)99;
	s = program_start(&o, &e);
	assert_non_null(s);
	assert_int_equal(program_stop(s, &e), 0);
	s = program_start(&newer.o, &e);
	assert_non_null(s);
	assert_int_equal(program_stop(s, &e), 0);
	newer.future = 1;
	assert_null(program_start(&newer.o, &e));
	assert_error(-E2BIG, "install a newer one");
}

static void test_what_is_refused(void **state)
{
	struct pitot_options o = options_for("r");

	(void)state;
	o.graphs = (enum pitot_graphs)4;
	assert_null(program_start(&o, &e));
	assert_error(-EINVAL, "pitot_options.graphs has no value 4; see enum pitot_graphs");
	o = options_for("r");
	o.sync = (enum pitot_switch)3;
	assert_null(program_start(&o, &e));
	assert_error(-EINVAL, "see enum pitot_switch");
	o = options_for("r");
	o.config_file = "nothing.json";
	assert_null(program_start(&o, &e));
	assert_error(-ENOENT, "cannot read the configuration file 'nothing.json'");
	o = options_for("no/parent");
	assert_null(program_start(&o, &e));
	assert_error(-ENOENT, "its parent folder does not exist");
	assert_int_equal(mkdir("full", 0700), 0);
	assert_int_equal(mkdir("full/of", 0700), 0);
	o = options_for("full");
	assert_null(program_start(&o, &e));
	assert_error(-ENOTEMPTY, "'full' is not empty; name a new folder");
	o = options_for("/proc");
	assert_null(program_start(&o, &e));
	assert_error(e.code, "/proc");
	setenv("PITOT_GRAPHS", "lunch", 1);
	assert_null(program_start(NULL, &e));
	assert_error(-EINVAL, "PITOT_GRAPHS takes launch or node, not 'lunch'");
	unsetenv("PITOT_GRAPHS");
	assert_int_equal(files_in("."), 1);
	assert_int_equal(program_init(&o, &e), -ENOTEMPTY);
	assert_int_equal(program_stop(NULL, &e), 0);
}

static void test_switched_off(void **state)
{
	struct pitot_options o = options_for("off");

	(void)state;
	o.enabled = PITOT_OFF;
	o.config_file = "nothing.json"; /* not even that is read */
	assert_null(program_start(&o, &e));
	assert_error(-ECANCELED, "switched off");
	assert_int_equal(program_init(&o, &e), 0);
	setenv("PITOT_DISABLED", "yes", 1);
	o = options_for("off");
	o.enabled = PITOT_ON;
	assert_int_equal(program_init(&o, &e), 0);
	program_shutdown(&e);
	assert_int_equal(files_in("."), 0);
	assert_int_equal(helper_threads(), 0);
}

/* --- recordings --- */

static void test_a_recording(void **state)
{
	_cleanup_strbuf_ struct strbuf json = STRBUF_INIT, end = STRBUF_INIT;
	struct pitot_session *s;
	struct stat st;

	(void)state;
	assert_int_equal(mkdir("empty", 0750), 0);
	s = start("empty");
	assert_int_equal(io_read_file("empty/recording.json", 1 << 20, &json), 0);
	assert_non_null(strstr(strbuf_text(&json), "\"recorded_by\": \"program\""));
	assert_non_null(strstr(strbuf_text(&json), "\"name\": \"test_program\""));
	assert_non_null(strstr(strbuf_text(&json), "\"state\": \"recording\""));
	assert_int_equal(files_in("empty"), 2);
	assert_int_equal(program_stop(s, &e), 0);
	assert_int_equal(io_read_file("empty/recording.json", 1 << 20, &end), 0);
	assert_non_null(strstr(strbuf_text(&end), "\"state\": \"ended\""));
	assert_int_equal(files_in("empty"), 2);
	assert_int_equal(stat("empty", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
}

/* Rows of NVTX that are in the segment now. */
static size_t marks_in(const char *directory)
{
	size_t count;

	captured = calloc(1, sizeof(*captured));
	snprintf(captured->directory, sizeof(captured->directory), "none");
	snprintf(captured->path, sizeof(captured->path), "%s/%d.0.pit", directory, (int)getpid());
	captured_read(captured);
	free(captured_rows(captured, TABLE_nvtx, &count));
	captured->path[0] = '\0'; /* it goes on */
	captured_free(captured);
	return count;
}

static void test_flush(void **state)
{
	struct pitot_session *a, *b;

	(void)state;
	assert_int_equal(program_flush(&e), 0); /* nothing is recorded */
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	a = start("a");
	for (unsigned i = 1; i <= 3; i++) {
		nvtx.mark_a("before");
		assert_int_equal(program_flush(&e), 0);
		assert_int_equal(marks_in("a"), i);
	}
	b = start("b");
	nvtx.mark_a("in both");
	assert_int_equal(program_flush(&e), 0);
	assert_int_equal(marks_in("a"), 4);
	assert_int_equal(marks_in("b"), 1);
	assert_int_equal(program_stop(a, &e), 0);
	nvtx.mark_a("in one");
	assert_int_equal(program_stop(b, &e), 0);
	assert_int_equal(marks_in("a"), 4);
	assert_int_equal(marks_in("b"), 2);
}

static unsigned told[3];

static void count_told(void *context, int level, const char *text)
{
	assert_ptr_equal(context, told);
	assert_true(text[0] && !strchr(text, '\n'));
	told[level]++;
}

static void test_the_log(void **state)
{
	struct pitot_options o = options_for("logged");
	struct pitot_session *s;

	(void)state;
	memset(told, 0, sizeof(told));
	o.log = count_told;
	o.log_context = told;
	s = program_start(&o, &e);
	assert_non_null(s);
	assert_int_equal(told[PITOT_LOG_WARNING], 0);
	assert_int_equal(told[PITOT_LOG_INFO], 1);
	assert_null(program_start(&o, &e));
	assert_error(-ENOTEMPTY, "logged");
	assert_int_equal(told[PITOT_LOG_ERROR], 1);
	assert_int_equal(program_stop(s, &e), 0);
}

static sigjmp_buf thrown;

static void throw(void *context, int level, const char *text)
{
	(void)context, (void)level, (void)text;
	siglongjmp(thrown, 1);
}

static void *start_and_stop(void *unused)
{
	assert_int_equal(program_stop(start("after"), &e), 0);
	return unused;
}

/* As an exception does, it never returns: no lock may be held, on this thread or on others. */
static void test_a_log_function_that_throws(void **state)
{
	struct pitot_options o = options_for("thrown");
	pthread_t other;

	(void)state;
	o.log = throw;
	if (!sigsetjmp(thrown, 0))
		fail_msg("it returned %p", (void *)program_start(&o, &e));
	if (!sigsetjmp(thrown, 0)) {
		o.directory = "thrown by init";
		fail_msg("it returned %d", program_init(&o, &e));
	}
	assert_int_equal(pthread_create(&other, NULL, start_and_stop, NULL), 0);
	pthread_join(other, NULL);
	o.log = NULL;
	assert_int_equal(program_init(&o, &e), 1); /* it goes on */
	program_shutdown(&e);
	session_exit();
}

static void test_the_one_recording(void **state)
{
	struct pitot_options o = options_for("one");

	(void)state;
	program_shutdown(&e); /* of nothing */
	assert_int_equal(program_init(&o, &e), 1);
	assert_int_equal(program_init(NULL, &e), 1);
	assert_int_equal(files_in("."), 1);
	assert_true(collector_running());
	program_shutdown(&e);
	program_shutdown(&e);
	/* Without a folder: one with a date. A number keeps those of one second apart. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(program_init(NULL, &e), 1);
		program_shutdown(&e);
	}
	assert_int_equal(files_in("."), 3);
}

/* Nothing stays behind: no descriptor, no thread; sanitizers look for memory. */
static void test_one_after_the_other(void **state)
{
	unsigned open_files = files_in("/proc/self/fd");
	char name[32];

	(void)state;
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		assert_int_equal(program_stop(start(name), &e), 0);
		assert_int_equal(files_in(name), 2);
	}
	assert_int_equal(files_in("/proc/self/fd"), open_files);
}

static void *own_and_shared(void *name)
{
	struct pitot_options o = options_for(name);
	struct error own = { 0 };
	struct pitot_session *s = program_start(&o, &own);

	assert_non_null(s);
	assert_int_equal(program_init(NULL, &own), 1);
	assert_int_equal(program_flush(&own), 0);
	assert_int_equal(program_stop(s, &e), 0);
	return NULL;
}

static void test_of_several_threads(void **state)
{
	static char names[][2] = { "a", "b" };
	pthread_t threads[ARRAY_SIZE(names)];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, own_and_shared, names[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		pthread_join(threads[i], NULL);
	program_shutdown(&e);
	assert_int_equal(files_in("."), ARRAY_SIZE(names) + 1);
}

/* A program `pitot` that writes down how it was called, and then does this. */
static void make_program(const char *script)
{
	char here[4096], path[sizeof(here) + 32];
	FILE *f = fopen("pitot", "we");

	assert_non_null(f);
	fprintf(f,
		"#!/bin/sh\n{ echo \"$*\"; echo \"$PITOT_API_KEY\"; tr '\\0' ' ' "
		"</proc/$$/cmdline | sed 's|[^ ]*/pitot|./pitot|'; } "
		">called\n%s\n",
		script);
	fclose(f);
	assert_int_equal(chmod("pitot", 0755), 0);
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", getcwd(here, sizeof(here)));
	setenv("PATH", path, 1);
}

static void test_no_report(void **state)
{
	(void)state;
	setenv("PATH", "/nonexistent", 1);
	assert_true(program_report("x.pitot", "out.txt", &e) < 0);
	assert_error(-ENOENT, "install it beside libpitot.so or in a folder of PATH, or type: "
			      "pitot report x.pitot");
	make_program("exit 0"); /* in the folder that the program is in */
	setenv("PATH", ":.:./:/nonexistent", 1);
	assert_true(program_report("x.pitot", NULL, &e) < 0);
	assert_error(-ENOENT, "cannot find the program pitot");
	assert_true(program_report("x.pitot", "no/folder", &e) < 0);
	assert_error(-ENOENT, "cannot write 'no/folder'");
	assert_true(program_upload("x.gpufl", &(struct pitot_upload_options){ 0 }, &e) < 0);
	assert_error(-ENOENT, "or type: pitot upload x.gpufl");
}

static void assert_called(const char *expected)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	assert_int_equal(io_read_file("called", 65536, &text), 0);
	if (strncmp(strbuf_text(&text), expected, strlen(expected)))
		fail_msg("called by '%s', not '%s'", strbuf_text(&text), expected);
}

static void test_upload(void **state)
{
	const struct pitot_upload_options o = { .size = sizeof(o),
						.path = "a folder",
						.url = "https://host",
						.api_key = "the key",
						.api_path = "/v2",
						.session = "newest",
						.cursor = "c",
						.ca_file = "ca",
						.timeout_ns = 1,
						.retries = 4,
						.force = PITOT_ON };
	const struct pitot_upload_options no_retry = { .size = sizeof(o),
						       .path = "-x",
						       .retries = PITOT_NONE };

	(void)state;
	setenv("PITOT_API_KEY", "another", 1);
	make_program("echo '{ \"complete\": true, \"records\": 5000000000 }'; exec true");
	assert_true(program_upload_last(&o, &e) == 5000000000);
	assert_called(
		"upload --json -q --url=https://host --api-path=/v2 --session=newest --cursor=c "
		"--ca-file=ca --timeout=1ns --retries=4 --force -- a folder\nthe key\n/bin/sh "
		"./pitot "
		"upload ");
	assert_true(program_upload_last(&no_retry, &e) == 5000000000);
	assert_called("upload --json -q --retries=0 -- -x\nanother\n");
}

static void test_upload_that_fails(void **state)
{
	struct pitot_upload_options o = { .size = sizeof(o), .path = "x" };

	(void)state;
	make_program("echo first >&2; echo 'pitot upload: error: no' >&2; exit 1");
	assert_true(program_upload_last(&o, &e) == -EIO);
	assert_error(-EIO, "`pitot upload x` failed: pitot upload: error: no");
	make_program("echo '{ \"complete\": false, \"records\": 7 }'; echo why >&2");
	assert_true(program_upload_last(&o, &e) == -EIO);
	assert_error(-EIO, "`pitot upload x` failed: why");
	make_program("echo nonsense");
	assert_true(program_upload_last(&o, &e) == -EIO);
	o.size = 3;
	assert_true(program_upload_last(&o, &e) < 0);
	assert_error(-EINVAL, "set it to sizeof(struct pitot_upload_options)");
}

/*
 * Without a path it is the recording, once it is there and has ended; the kill switch is above all.
 */
static void test_upload_of_the_last(void **state)
{
	struct pitot_options recording = options_for("r");

	(void)state;
	make_program("echo '{ \"complete\": true, \"records\": 7 }'");
	assert_int_equal(program_init(&recording, &e), 1);
	assert_true(program_upload_last(NULL, &e) == -EBUSY);
	assert_error(-EBUSY, "end it with pitot_shutdown");
	program_shutdown(&e);
	assert_int_equal(program_upload_last(NULL, &e), 7);
	assert_called("upload --json -q -- /");
	unlink("called");
	setenv("GPUFL_DISABLED", "1", 1);
	assert_int_equal(program_upload_last(NULL, &e), 0);
	assert_int_equal(access("called", F_OK), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_every_setting_has_a_field),
		TEST(test_defaults_of_the_program),
		TEST(test_sizes_of_the_struct),
		TEST(test_what_is_refused),
		TEST(test_switched_off),
		TEST(test_a_recording),
		TEST(test_flush),
		TEST(test_the_log),
		TEST(test_a_log_function_that_throws),
		TEST(test_the_one_recording),
		TEST(test_one_after_the_other),
		TEST(test_of_several_threads),
		TEST(test_no_report),
		TEST(test_upload),
		TEST(test_upload_that_fails),
		TEST(test_upload_of_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
