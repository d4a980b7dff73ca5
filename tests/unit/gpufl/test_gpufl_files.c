/* link: -Wl,--wrap=io_write_all,--wrap=folder_rename_new */
#include "gpufl/gpufl_files.h"

#include <stdatomic.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/bytes.h"
#include "gpufl/gpufl_folder.h"
#include "gpufl/gpufl_life.h"
#include "gpufl_fixture.h"

#define OTHER "11111111-2222-4333-8444-555555555555"

#define assert_begins(text, beginning)                                                             \
	assert_int_equal(strncmp((text), beginning, strlen(beginning)), 0)

static bool disk_is_full; /* then there is room for three bytes */

int __real_io_write_all(int fd, const void *bytes, size_t length);
int __wrap_io_write_all(int fd, const void *bytes, size_t length);
int __wrap_io_write_all(int fd, const void *bytes, size_t length)
{
	if (!disk_is_full)
		return __real_io_write_all(fd, bytes, length);
	__real_io_write_all(fd, bytes, MIN(length, 3));
	return -ENOSPC;
}

static const char *_Atomic replaced_after_rename; /* folder whose session goes after a rename */
static void replace_session(const char *folder);

int __real_folder_rename_new(int folder, const char *name, int to_folder, const char *to_name);
int __wrap_folder_rename_new(int folder, const char *name, int to_folder, const char *to_name);
int __wrap_folder_rename_new(int folder, const char *name, int to_folder, const char *to_name)
{
	int r = __real_folder_rename_new(folder, name, to_folder, to_name);
	const char *replaced = atomic_exchange(&replaced_after_rename, NULL);

	if (replaced)
		replace_session(replaced);
	return r;
}

static char told[512];

static void tell(const char *text)
{
	assert_string_equal(told, ""); /* once */
	snprintf(told, sizeof(told), "%s", text);
}

static struct gpufl_files *files_open(const char *folder, struct gpufl_files_options o)
{
	struct gpufl_files *f = NULL;
	struct error e = { 0 };

	told[0] = '\0';
	o.log_path = folder;
	o.session = SESSION;
	o.on_error = tell;
	if (!o.min_free_bytes)
		o.min_free_bytes = 1;
	if (gpufl_files_open(&o, &f, &e) < 0)
		fail_msg("%s", e.text);
	return f;
}

static int put(struct gpufl_files *f, enum gpufl_channel channel, const char *text)
{
	return gpufl_files_write(f, channel, text, strlen(text));
}

static char *file_text(const char *folder, const char *name)
{
	struct strbuf text = STRBUF_INIT;

	assert_int_equal(io_read_file(session_file(folder, name), 1 << 20, &text), 0);
	return text.data;
}

static bool is_there(const char *folder, const char *name)
{
	return access(session_file(folder, name), F_OK) == 0;
}

static void check_text(const char *folder, const char *name, const char *expected)
{
	char *text = window_text(folder, name);

	assert_string_equal(text, expected);
	free(text);
}

/* The number behind a key. */
static unsigned long long number(const char *json, const char *key)
{
	const char *at = strstr(json, key);

	assert_non_null(at);
	return strtoull(at + strlen(key) + 2, NULL, 10);
}

static void check_sidecar(const char *folder, unsigned window, unsigned size,
			  const char *expected_end)
{
	char name[64];
	struct strbuf payload = STRBUF_INIT;
	char *sidecar;

	snprintf(name, sizeof(name), "device.%u.log.gz", window);
	assert_int_equal(io_read_file(session_file(folder, name), 1 << 20, &payload), 0);
	snprintf(name, sizeof(name), ".gpufl-window.device.%u.json", window);
	sidecar = file_text(folder, name);
	assert_begins(sidecar, "{\"schema_version\":1,\"type\":\"transport_window\",");
	assert_non_null(strstr(sidecar, "\"session_id\":\"" SESSION "\",\"channel\":\"device\""));
	assert_non_null(strstr(sidecar, expected_end));
	assert_int_equal(number(sidecar, "window_sequence"), window);
	assert_int_equal(number(sidecar, "payload_bytes"), payload.length);
	assert_int_equal(number(sidecar, "payload_crc32"),
			 crc32(0, (const Bytef *)payload.data, (uInt)payload.length));
	assert_true(number(sidecar, "closed_mono_ms") >= number(sidecar, "opened_mono_ms"));
	assert_true(number(sidecar, "opened_mono_ms") > 0);
	assert_true(number(sidecar, "created_wall_ms") > 1700000000000ull);
	/* One member: its last four bytes are the size of the text. */
	assert_int_equal(load_u32(payload.data + payload.length - 4), size);
	strbuf_release(&payload);
	free(sidecar);
}

static void check_windows(void **state, bool background)
{
	struct gpufl_files *f =
		files_open(*state, (struct gpufl_files_options){ .window_bytes = 10,
								 .background = background });

	assert_int_equal(put(f, GPUFL_DEVICE, "one\n"), 0);
	assert_int_equal(put(f, GPUFL_DEVICE, "two\n"), 0);
	assert_int_equal(put(f, GPUFL_SCOPE, "scope\n"), 0);
	assert_int_equal(put(f, GPUFL_DEVICE, "three\n"), 0); /* does not fit */
	assert_int_equal(put(f, GPUFL_DEVICE, "a window of its own\n"), 0);
	assert_int_equal(put(f, GPUFL_DEVICE, "4444444\n"), 0);
	assert_int_equal(put(f, GPUFL_DEVICE, "5\n"), 0); /* just fits */
	assert_true(is_there(*state, ".tmp/device.log"));
	assert_int_equal(gpufl_files_bytes(f), 50);
	assert_int_equal(gpufl_files_close(f), 0);
	check_text(*state, "device.1.log.gz", "one\ntwo\n");
	check_text(*state, "device.2.log.gz", "three\n");
	check_text(*state, "device.3.log.gz", "a window of its own\n");
	check_text(*state, "device.4.log.gz", "4444444\n5\n");
	check_text(*state, "scope.1.log.gz", "scope\n");
	check_sidecar(*state, 1, 8, "\"payload_file\":\"device.1.log.gz\"");
	check_sidecar(*state, 4, 10, "\"payload_file\":\"device.4.log.gz\"");
	assert_false(is_there(*state, "system.1.log.gz"));
	assert_false(is_there(*state, ".tmp"));
	assert_string_equal(told, "");
	assert_int_equal(gpufl_folder_remove_session(*state, SESSION), 0);
	assert_false(is_there(*state, "."));
}

static void test_windows(void **state)
{
	check_windows(state, false);
}

static void test_windows_in_the_background(void **state)
{
	check_windows(state, true);
}

static void test_a_session_is_not_opened_twice(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 }), *g = NULL;
	struct gpufl_files_options o = { .log_path = *state, .session = SESSION };
	struct error e = { 0 };

	assert_int_equal(gpufl_files_open(&o, &g, &e), -EEXIST);
	assert_non_null(strstr(e.text, "cannot create '"));
	o.log_path = "/dev/null/x";
	assert_int_equal(gpufl_files_open(&o, &g, &e), -ENOTDIR);
	assert_null(g);
	assert_int_equal(gpufl_files_close(f), 0);
}

/* In another process: whether the session is locked, as gpufl's client sees it. */
static bool is_locked(const char *folder)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int status = 0, fd;
	pid_t child = fork();

	if (child == 0) {
		fd = open(session_file(folder, GPUFL_LOCK), O_RDWR);
		fcntl(fd, F_GETLK, &lock);
		_exit(lock.l_type == F_WRLCK);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

/*
 * Others see that the session is alive, also after the program has read its logs, and after it has
 * closed all descriptors.
 */
static void test_the_lock(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });

	assert_true(is_locked(*state));
	free(file_text(*state, GPUFL_LOCK)); /* as a backup does */
	assert_true(is_locked(*state));
	for (int i = 3; i < 64; i++)
		close(i);
	/* The program's own files get the numbers. */
	for (int i = 3; i < 20; i++)
		assert_int_equal(open(temp_file(*state, "mine"), O_RDWR | O_CREAT, 0600), i);
	assert_int_equal(gpufl_files_salvage(*state), 0); /* our process is named in the file */
	assert_int_equal(put(f, GPUFL_DEVICE, "x\n"), 0);
	assert_false(is_locked(*state));
	assert_int_equal(gpufl_files_check(f), 0);
	assert_true(is_locked(*state));
	assert_int_equal(gpufl_files_close(f), 0);
	for (int i = 3; i < 20; i++)
		assert_int_equal(close(i), 0);
}

static void check_marker(const char *folder, const char *name, const char *expected)
{
	char *text = file_text(folder, name);

	assert_string_equal(text, expected);
	free(text);
}

static void test_the_spool_has_a_limit(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ .max_bytes = 9 });
	char *marker;

	assert_int_equal(put(f, GPUFL_DEVICE, "four\n"), 0);
	assert_int_equal(put(f, GPUFL_SCOPE, "444\n"), 0); /* all of it */
	assert_int_equal(put(f, GPUFL_DEVICE, "\n"), -EDQUOT);
	assert_int_equal(put(f, GPUFL_DEVICE, "\n"), -EDQUOT); /* for good */
	assert_non_null(strstr(told, "spool_budget_exceeded"));
	marker = file_text(*state, ".gpufl-transport-loss.spool.0.json");
	assert_begins(marker,
		      "{\"schema_version\":1,\"type\":\"transport_window_loss\",\"channel\":"
		      "\"spool\",\"window_index\":0,\"reason\":\"spool_budget_exceeded:"
		      "spool_bytes=10,max_spool_bytes=9,available_bytes=");
	free(marker);
	assert_int_equal(gpufl_files_close(f), -EDQUOT);
	check_text(*state, "device.1.log.gz", "four\n");
}

static void test_the_disk_keeps_a_reserve(void **state)
{
	struct gpufl_files *f =
		files_open(*state, (struct gpufl_files_options){ .min_free_bytes = UINT64_MAX });

	assert_int_equal(put(f, GPUFL_DEVICE, "x\n"), -ENOSPC);
	assert_non_null(strstr(told, "filesystem_reserve_reached"));
	assert_true(is_there(*state, ".gpufl-transport-loss.spool.0.json"));
	assert_int_equal(gpufl_files_close(f), -ENOSPC);
}

/* A limit of the process is no signal, and no half of a line. */
static void test_a_write_that_fails(void **state)
{
	struct rlimit before, limit;
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 200;
	assert_int_equal(put(f, GPUFL_SCOPE, "first\n"), 0);
	assert_int_equal(put(f, GPUFL_SCOPE, "second\n"), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	char line[199];

	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(put(f, GPUFL_SCOPE, line), -EFBIG);
	assert_int_equal(put(f, GPUFL_DEVICE, "x\n"), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	check_marker(*state, ".gpufl-transport-loss.scope.1.json",
		     "{\"schema_version\":1,\"type\":\"transport_window_loss\",\"channel\":\"scope"
		     "\",\"window_index\":1,\"reason\":\"write_failed:errno=27 (File too large)\"}"
		     "\n");
	assert_non_null(strstr(told, "File too large"));
	assert_int_equal(gpufl_files_close(f), -EFBIG);
	check_text(*state, "scope.1.log.gz", "first\nsecond\n");
}

static void test_a_disk_that_gets_full(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });

	assert_int_equal(put(f, GPUFL_SCOPE, "first\n"), 0);
	disk_is_full = true;
	assert_int_equal(put(f, GPUFL_SCOPE, "second\n"), -ENOSPC);
	assert_int_equal(put(f, GPUFL_SCOPE, "third\n"), -ENOSPC);
	disk_is_full = false;
	assert_int_equal(put(f, GPUFL_SCOPE, "fourth\n"), -ENOSPC); /* for good */
	assert_int_equal(gpufl_files_close(f), -ENOSPC);
	check_text(*state, "scope.1.log.gz", "first\n");
}

/* What is in place is never replaced, and the text stays for whoever repairs it. */
static void test_a_window_that_is_there(void **state)
{
	struct gpufl_files *f =
		files_open(*state, (struct gpufl_files_options){ .background = true });
	char *text;
	FILE *file;

	assert_int_equal(put(f, GPUFL_SASS, "ours\n"), 0);
	file = fopen(session_file(*state, ".gpufl-window.sass.1.json"), "w");
	fputs("theirs", file);
	fclose(file);
	assert_int_equal(gpufl_files_close(f), -EEXIST);
	check_marker(*state, ".gpufl-window.sass.1.json", "theirs");
	assert_false(is_there(*state, "sass.1.log.gz"));
	text = file_text(*state, ".tmp/sass.1.log");
	assert_string_equal(text, "ours\n");
	free(text);
	assert_non_null(strstr(told, "publish_failed:errno=17"));
}

/* The id of a window, of which `part` is what a writer that was killed has left. */
static void window_id(const char *folder, enum gpufl_channel channel, const char *text,
		      const char *part, char id[GPUFL_ID_BYTES])
{
	struct gpufl_files *f = files_open(folder, (struct gpufl_files_options){ 0 });
	char *sidecar, name[64];
	FILE *file;

	assert_int_equal(put(f, channel, text), 0);
	if (part) {
		snprintf(name, sizeof(name), ".tmp/%s.part", part);
		file = fopen(session_file(folder, name), "w");
		assert_non_null(file);
		fputs("half", file);
		fclose(file);
	}
	assert_int_equal(gpufl_files_close(f), 0);
	sidecar = file_text(folder, channel == GPUFL_SASS ? ".gpufl-window.sass.1.json"
							  : ".gpufl-window.scope.1.json");
	snprintf(id, GPUFL_ID_BYTES, "%s", strstr(sidecar, "\"window_id\":\"") + 13);
	free(sidecar);
	assert_int_equal(gpufl_folder_remove_session(folder, SESSION), 0);
}

static void test_window_ids(void **state)
{
	char first[GPUFL_ID_BYTES], id[GPUFL_ID_BYTES];

	window_id(*state, GPUFL_SASS, "text\n", NULL, first);
	assert_int_equal(strlen(first), GPUFL_ID_BYTES - 1);
	window_id(*state, GPUFL_SASS, "text\n", first, id);
	assert_string_equal(id, first);
	window_id(*state, GPUFL_SASS, "other\n", NULL, id);
	assert_string_not_equal(id, first);
	window_id(*state, GPUFL_SCOPE, "text\n", NULL, id);
	assert_string_not_equal(id, first);
}

/* In the child of a fork the parent's windows stay the parent's. */
static void test_forks(void **state)
{
	struct gpufl_files *f = files_open(
		*state, (struct gpufl_files_options){ .window_bytes = 4, .background = true });
	int status = 0;
	pid_t child;

	assert_int_equal(put(f, GPUFL_DEVICE, "one\n"), 0);
	assert_int_equal(put(f, GPUFL_DEVICE, "two\n"), 0);
	child = fork();
	if (child == 0)
		_exit(gpufl_files_abandon(f) ? 1 : 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(gpufl_files_close(f), 0);
	check_text(*state, "device.2.log.gz", "two\n");
	f = files_open(temp_file(*state, "more"), (struct gpufl_files_options){ 0 });
	assert_int_equal(put(f, GPUFL_DEVICE, "one\n"), 0);
	assert_true(gpufl_files_abandon(f));
	check_marker(temp_file(*state, "more"), ".tmp/device.log", "one\n");
}

static void append_text(const char *folder, const char *name, const char *text)
{
	FILE *file = fopen(session_file(folder, name), "a");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

#define JOB "{\"x\":1,\"pid\":42,\"app\":\"x\",\"session_id\":\"s\",\"log_path\":1}\n"

/* In a process that dies: published windows, closed ones, and half a line in the active one. */
static void die_while_writing(const char *folder)
{
	struct gpufl_files *f =
		files_open(folder, (struct gpufl_files_options){ .window_bytes = 80 });

	put(f, GPUFL_SYSTEM, "active\n");
	put(f, GPUFL_DEVICE, JOB);
	put(f, GPUFL_DEVICE, "a line that has no room in the first window\n");
	append_text(folder, ".tmp/device.log", "half a li");
	append_text(folder, ".tmp/system.1.log", JOB);
	append_text(folder, ".gpufl-window.system.1.json", "stale");
	append_text(folder, ".tmp/system.1.log.gz", "stale");
	_exit(0);
}

static void test_dead_sessions(void **state)
{
	static const char *const windows[] = { "device.2.log.gz", "system.2.log.gz" };
	int status = 0, fds[2];
	pid_t child = fork();
	char *text;

	if (child == 0)
		die_while_writing(*state);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(gpufl_files_salvage(*state), 1);
	check_text(*state, "system.1.log.gz", JOB);
	for (size_t i = 0; i < ARRAY_SIZE(windows); i++) {
		text = window_text(*state, windows[i]);
		assert_non_null(strstr(text, "\n{\"type\":\"shutdown\",\"pid\":42,\"app\":\"x\","
					     "\"session_id\":\"s\",\"ts_ns\":1"));
		assert_non_null(strstr(text, ",\"synthetic\":true}\n"));
		assert_null(strstr(text, "half"));
		free(text);
	}
	assert_false(is_there(*state, "scope.1.log.gz"));
	assert_false(is_there(*state, ".tmp"));
	assert_int_equal(gpufl_files_salvage(*state), 0);
	assert_int_equal(gpufl_files_salvage("/nowhere"), 0);
	gpufl_folder_remove_session(*state, SESSION);
	/* One that lives is left alone. */
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		put(files_open(*state, (struct gpufl_files_options){ 0 }), GPUFL_DEVICE, "x\n");
		(void)!write(fds[1], "", 1);
		pause();
	}
	assert_int_equal(read(fds[0], &status, 1), 1);
	assert_int_equal(gpufl_files_salvage(*state), 0);
	check_marker(*state, ".tmp/device.log", "x\n");
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(gpufl_files_salvage(*state), 1);
}

/* A session with a line in its active window, of a process that cannot be found. */
static void leave_session(const char *folder, const char *life)
{
	FILE *file;

	assert_int_equal(mkdir(session_file(folder, ""), 0700), 0);
	assert_int_equal(mkdir(session_file(folder, ".tmp"), 0700), 0);
	append_text(folder, ".tmp/device.log", JOB);
	if (!life)
		return;
	file = fopen(session_file(folder, GPUFL_LOCK), "w");
	fputs(life, file);
	fclose(file);
}

static void age(const char *folder, const char *name)
{
	const struct timespec times[] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	assert_int_equal(utimensat(AT_FDCWD, session_file(folder, name), times, 0), 0);
}

/* Where nothing proves that the process is dead, only long silence does. */
static void test_silence(void **state)
{
	static const char *const lives[] = {
		NULL, /* no lock */
		"", /* gpufl's own client */
		"{\"boot\":\"another host\",\"pid_namespace\":1,\"pid\":1,\"start\":1}",
		"[[[",
		"{\"boot\":1,\"pid\":-1}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lives); i++) {
		leave_session(*state, lives[i]);
		assert_int_equal(gpufl_files_salvage(*state), 0);
		check_marker(*state, ".tmp/device.log", JOB);
		if (lives[i])
			age(*state, GPUFL_LOCK);
		age(*state, ".tmp");
		age(*state, "");
		assert_int_equal(gpufl_files_salvage(*state), 0); /* a file is young */
		age(*state, ".tmp/device.log");
		assert_int_equal(gpufl_files_salvage(*state), 1);
		assert_false(is_there(*state, ".tmp"));
		assert_int_equal(gpufl_folder_remove_session(*state, SESSION), 0);
	}
}

static time_t modified_s(const char *folder, const char *name)
{
	struct stat st;

	assert_int_equal(stat(session_file(folder, name), &st), 0);
	return st.st_mtim.tv_sec;
}

/* A writer that has nothing to write shows that it lives. */
static void test_a_session_without_rows(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });

	age(*state, GPUFL_LOCK);
	assert_int_equal(gpufl_files_check(f), 0);
	assert_true(modified_s(*state, GPUFL_LOCK) > time(NULL) - 60);
	assert_int_equal(gpufl_files_close(f), 0);
}

/* The lock may be gone while the process lives, and another process may get its id. */
static void test_the_process_of_a_session(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });
	char *name, *start;
	FILE *file;

	assert_int_equal(put(f, GPUFL_DEVICE, JOB), 0);
	gpufl_files_abandon(f);
	assert_int_equal(gpufl_files_salvage(*state), 0);
	name = file_text(*state, GPUFL_LOCK);
	start = strstr(name, "\"start\":") + strlen("\"start\":");
	*start = *start == '9' ? '8' : (char)(*start + 1);
	file = fopen(session_file(*state, GPUFL_LOCK), "w");
	fputs(name, file);
	fclose(file);
	free(name);
	assert_int_equal(gpufl_files_salvage(*state), 1);
	assert_false(is_there(*state, ".tmp"));
}

static void check_victim(const char *folder)
{
	char *text = file_text(folder, "../victim/device.log");

	assert_string_equal(text, JOB);
	free(text);
	assert_false(is_there(folder, "../victim/device.1.log.gz"));
}

/* Nothing that somebody links into a session's folder is written, packed or removed. */
static void test_links_are_not_followed(void **state)
{
	const char *folder = *state;

	leave_session(folder, "");
	assert_int_equal(mkdir(session_file(folder, "../victim"), 0700), 0);
	assert_int_equal(rename(session_file(folder, ".tmp/device.log"),
				temp_file(folder, "victim/device.log")),
			 0);
	/* the active window */
	assert_int_equal(
		symlink("../../victim/device.log", session_file(folder, ".tmp/device.log")), 0);
	age(folder, "");
	age(folder, GPUFL_LOCK);
	age(folder, "../victim/device.log");
	assert_int_equal(utimensat(AT_FDCWD, session_file(folder, ".tmp/device.log"),
				   (struct timespec[]){ { 1, 0 }, { 1, 0 } }, AT_SYMLINK_NOFOLLOW),
			 0);
	age(folder, ".tmp");
	assert_int_equal(gpufl_files_salvage(folder), 0);
	check_victim(folder);
	assert_int_equal(gpufl_folder_remove_session(folder, SESSION), 0);
	/* the folder of active windows */
	assert_int_equal(mkdir(session_file(folder, ""), 0700), 0);
	assert_int_equal(symlink("../victim", session_file(folder, ".tmp")), 0);
	age(folder, "");
	assert_int_equal(gpufl_files_salvage(folder), 0);
	assert_int_equal(gpufl_folder_remove_session(folder, SESSION), -ENOTEMPTY);
	check_victim(folder);
	assert_int_equal(unlink(session_file(folder, ".tmp")), 0);
	assert_int_equal(rmdir(session_file(folder, "")), 0);
	/* the session */
	assert_int_equal(symlink("victim", temp_file(folder, SESSION)), 0);
	assert_int_equal(gpufl_files_salvage(folder), 0);
	assert_int_equal(gpufl_folder_remove_session(folder, SESSION), -ENOTDIR);
	assert_int_equal(unlink(temp_file(folder, SESSION)), 0);
}

static void test_sessions_of_others(void **state)
{
	if (geteuid() != 0)
		skip();
	leave_session(*state, "");
	age(*state, ".tmp/device.log");
	age(*state, ".tmp");
	age(*state, GPUFL_LOCK);
	assert_int_equal(chown(session_file(*state, ""), 65534, 65534), 0);
	age(*state, "");
	assert_int_equal(gpufl_files_salvage(*state), 0);
	check_marker(*state, ".tmp/device.log", JOB);
	assert_int_equal(chown(session_file(*state, ""), 0, 0), 0);
	age(*state, "");
	assert_int_equal(gpufl_files_salvage(*state), 1);
}

static void remove_tmp(const char *folder)
{
	unlink(session_file(folder, ".tmp/device.log"));
	rmdir(session_file(folder, ".tmp"));
}

static void remove_session(const char *folder)
{
	gpufl_folder_remove_session(folder, SESSION);
}

/* Another folder in its place is not ours, whatever is in it. */
static void replace_session(const char *folder)
{
	remove_session(folder);
	leave_session(folder, NULL);
}

static void truncate_window(const char *folder)
{
	assert_int_equal(truncate(session_file(folder, ".tmp/device.log"), 0), 0);
}

static void remove_window(const char *folder)
{
	assert_int_equal(unlink(session_file(folder, ".tmp/device.log")), 0);
}

/* Logs that somebody removes while they are written are an error, as soon as anybody asks. */
static void test_logs_that_vanish(void **state)
{
	static const struct {
		void (*harm)(const char *folder);
		int at_check, at_write;
	} cases[] = {
		{ remove_tmp, -ENOENT, -ENOENT },      { remove_session, -ENOENT, -ENOENT },
		{ replace_session, -ENOENT, -ENOENT }, { truncate_window, 0, -ESTALE },
		{ remove_window, 0, -ENOENT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });

		assert_int_equal(put(f, GPUFL_DEVICE, "x\n"), 0);
		assert_int_equal(gpufl_files_check(f), 0);
		cases[i].harm(*state);
		assert_int_equal(gpufl_files_check(f), cases[i].at_check);
		assert_int_equal(put(f, GPUFL_DEVICE, "y\n"), cases[i].at_write);
		assert_non_null(strstr(told, "stopped writing to '"));
		assert_int_equal(gpufl_files_close(f), cases[i].at_write);
		gpufl_folder_remove_session(*state, SESSION);
	}
}

/* A folder that takes the session's place before a window is published is not written to. */
static void test_a_window_whose_session_was_replaced(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });

	assert_int_equal(put(f, GPUFL_DEVICE, "x\n"), 0);
	replaced_after_rename = *state;
	assert_int_equal(gpufl_files_close(f), -ENOENT);
	assert_non_null(strstr(told, "publish_failed:errno=2 "));
	gpufl_folder_remove_session(*state, SESSION);
}

static void test_ids(void **state)
{
	char a[GPUFL_ID_BYTES], b[GPUFL_ID_BYTES];

	(void)state;
	gpufl_id_random(a);
	gpufl_id_random(b);
	assert_string_not_equal(a, b);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(strlen(a), 36);
		assert_int_equal(a[14], '4');
		assert_non_null(strchr("89ab", a[19]));
		gpufl_id_from(a, 5);
	}
	gpufl_id_from(b, 5);
	assert_string_equal(a, b);
	gpufl_id_from(b, 6);
	assert_string_not_equal(a, b);
}

/* Somebody's file in the directory is not removed. */
static void test_what_is_removed(void **state)
{
	struct gpufl_files *f = files_open(*state, (struct gpufl_files_options){ 0 });
	FILE *file;

	assert_int_equal(put(f, GPUFL_DEVICE, "one\n"), 0);
	gpufl_files_abandon(f);
	file = fopen(session_file(*state, "notes.txt"), "w");
	fclose(file);
	assert_int_equal(gpufl_folder_remove_session(*state, SESSION), -ENOTEMPTY);
	assert_true(is_there(*state, "notes.txt"));
	assert_false(is_there(*state, ".tmp"));
	assert_false(is_there(*state, ".gpufl-session.lock"));
	assert_int_equal(gpufl_folder_remove_session(*state, OTHER), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_windows),
		folder_test(test_windows_in_the_background),
		folder_test(test_a_session_is_not_opened_twice),
		folder_test(test_the_lock),
		folder_test(test_the_spool_has_a_limit),
		folder_test(test_the_disk_keeps_a_reserve),
		folder_test(test_a_write_that_fails),
		folder_test(test_a_disk_that_gets_full),
		folder_test(test_a_window_that_is_there),
		folder_test(test_window_ids),
		folder_test(test_forks),
		folder_test(test_dead_sessions),
		folder_test(test_silence),
		folder_test(test_a_session_without_rows),
		folder_test(test_the_process_of_a_session),
		folder_test(test_links_are_not_followed),
		folder_test(test_sessions_of_others),
		folder_test(test_logs_that_vanish),
		folder_test(test_a_window_whose_session_was_replaced),
		cmocka_unit_test(test_ids),
		folder_test(test_what_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
