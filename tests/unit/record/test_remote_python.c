/* link: -Wl,--export-dynamic-symbol=_PyRuntime */
/*
 * What is read and written of a CPython: this program looks like one, and a thread of it does what
 * CPython would. And the script, where not every folder will do.
 */
#include "record/inject_remote/remote_python.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "record/inject_remote/remote_script.h"
#include "support/cmocka_tests.h"

#define LIBRARY "/opt/\"pitot\"/libpitot.so"
#define LIBRARY_AS_NUMBERS "2f6f70742f227069746f74222f6c69627069746f742e736f"
#define PLEASE_STOP 0x20u
#define HEAD 200 /* the word of _PyRuntime with the first interpreter */
#define DEBUGGER 89 /* the word with the first of six offsets, in 3.14 */

struct thread {
	uint64_t next;
	_Atomic uint64_t id, breaker;
	struct {
		uint64_t unused;
		_Atomic int32_t pending;
		char script[128];
		uint64_t behind[2];
	} debugger;
};

static struct interpreter {
	uint64_t unused, next, first_thread, main_thread;
	int32_t enabled;
} interpreters[2];
static struct thread threads[2];

extern EXPORT uint64_t _PyRuntime[256];
uint64_t _PyRuntime[256];

#define IN_DEBUGGER(member) (offsetof(struct thread, member) - offsetof(struct thread, debugger))

/* Of two interpreters, the newer one is the first. */
static void begin(void)
{
	const uint64_t debugger[] = {
		offsetof(struct thread, breaker),      offsetof(struct thread, debugger),
		offsetof(struct interpreter, enabled), IN_DEBUGGER(debugger.pending),
		IN_DEBUGGER(debugger.script),          sizeof(threads[0].debugger.script),
	};

	memset(threads, 0, sizeof(threads));
	memset(_PyRuntime, 0, sizeof(_PyRuntime));
	memcpy(_PyRuntime, "xdebugpy", 8);
	_PyRuntime[1] = 0x030e00f0;
	_PyRuntime[5] = HEAD * sizeof(uint64_t);
	_PyRuntime[6] = sizeof(struct interpreter);
	_PyRuntime[8] = offsetof(struct interpreter, next);
	_PyRuntime[9] = offsetof(struct interpreter, first_thread);
	_PyRuntime[10] = offsetof(struct interpreter, main_thread);
	_PyRuntime[22] = sizeof(struct thread);
	_PyRuntime[24] = offsetof(struct thread, next);
	_PyRuntime[28] = offsetof(struct thread, id);
	memcpy(&_PyRuntime[DEBUGGER], debugger, sizeof(debugger));
	_PyRuntime[HEAD] = (uintptr_t)&interpreters[1];
	interpreters[1] = (struct interpreter){ .next = (uintptr_t)&interpreters[0] };
	interpreters[0] = (struct interpreter){ .first_thread = (uintptr_t)&threads[1],
						.main_thread = (uintptr_t)&threads[0],
						.enabled = 1 };
	threads[1].next = (uintptr_t)&threads[0];
}

static void test_found(void **state)
{
	struct remote_python python;
	struct error e = { 0 };

	(void)state;
	begin();
	assert_int_equal(remote_python_find(getpid(), &python, &e), 1);
	assert_int_equal(python.minor, 14);
	assert_true(python.interpreter == (uintptr_t)&interpreters[0]);
	interpreters[0].enabled = 0;
	assert_int_equal(remote_python_find(getpid(), &python, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "has remote debugging switched off"));
	_PyRuntime[1] = 0x030e00a1;
	assert_int_equal(remote_python_find(getpid(), &python, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "is not a version that is known"));
	_PyRuntime[1] = 0x030d00f0;
	assert_int_equal(remote_python_find(getpid(), &python, &e), 0);
}

static void test_offsets(void **state)
{
	const uint64_t script = IN_DEBUGGER(debugger.script), size = 128;
	const struct {
		unsigned word;
		uint64_t value;
		bool is_plausible;
	} offsets[] = {
		{ 5, UINT64_C(1) << 46, false },
		{ 6, UINT64_C(1) << 40, false },
		{ 8, sizeof(struct interpreter), false },
		{ 24, sizeof(struct thread), false },
		{ DEBUGGER, sizeof(struct thread), false },
		{ DEBUGGER + 2, sizeof(struct interpreter), false },
		{ DEBUGGER + 5, sizeof(struct thread) - 8, false },
		/* what is pending, before, in and behind the script */
		{ DEBUGGER + 3, script - 4, true },
		{ DEBUGGER + 3, script - 3, false },
		{ DEBUGGER + 3, script, false },
		{ DEBUGGER + 3, script + size - 1, false },
		{ DEBUGGER + 3, script + size, true },
		{ DEBUGGER + 3, script + size + 8, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		struct remote_python python;
		struct error e = { 0 };
		int rc;

		begin();
		_PyRuntime[offsets[i].word] = offsets[i].value;
		rc = remote_python_find(getpid(), &python, &e);
		if (rc != (offsets[i].is_plausible ? 1 : E_UNSUPPORTED) ||
		    (rc < 0 && !strstr(e.text, "publishes no offsets")))
			fail_msg("offset %zu: %d, %s", i, rc, e.text);
	}
}

static void wait_ms(unsigned ms)
{
	const struct timespec t = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&t, NULL);
}

/* Runs a script when it is asked to, which needs a while. *wrong: what is not as it should be. */
static void *execute(void *wrong)
{
	const char **why = wrong;
	struct thread *t = &threads[1];
	char text[2048], result[160];
	ssize_t n;
	int fd;

	atomic_store(&t->id, (uint64_t)gettid());
	while (!(atomic_load(&t->breaker) & PLEASE_STOP))
		wait_ms(1);
	if (atomic_exchange(&t->debugger.pending, 0) != 1)
		*why = "nothing is pending";
	fd = open(t->debugger.script, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[MAX(n, 0)] = '\0';
	if (!strstr(text, LIBRARY_AS_NUMBERS))
		*why = "another library";
	wait_ms(50);
	snprintf(result, sizeof(result), "%s/result", dirname(t->debugger.script));
	fd = open(result, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	n = write(fd, "7\n", 2);
	close(fd);
	if (n != 2)
		*why = "no result";
	return NULL;
}

/* In the place of a main thread that has ended, another one does it. */
static void test_a_thread_runs_the_script(void **state)
{
	struct remote_python python;
	struct error e = { 0 };
	int idle = 0, rc;
	pid_t tid = 0;
	const char *wrong = NULL;
	pthread_t thread;

	(void)state;
	begin();
	threads[0].id = 1;
	assert_int_equal(pthread_create(&thread, NULL, execute, &wrong), 0);
	while (!atomic_load(&threads[1].id))
		wait_ms(1);
	assert_int_equal(remote_python_find(getpid(), &python, &e), 1);
	rc = remote_python_load(&python, LIBRARY, &idle, &tid, &e);
	if (rc < 0)
		fail_msg("%s", e.text);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (wrong)
		fail_msg("%s", wrong);
	assert_int_equal(idle, 7);
	assert_int_equal(tid, threads[1].id);
	assert_int_equal(access(threads[1].debugger.script, F_OK), -1); /* its folder */
}

static void make_folder(const char *root, const char *name, mode_t mode)
{
	assert_int_equal(mkdir(temp_file(root, name), 0700), 0);
	assert_int_equal(chmod(temp_file(root, name), mode), 0);
}

/* A process that sees nothing but a folder. */
static pid_t start_in(const char *root)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!write(ready[1], "r", chroot(root) == 0);
		close(ready[1]);
		pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

/* Not in a folder in which anybody may rename it, and no descriptor is left. */
static void test_places_of_the_script(void **root)
{
	struct remote_script script;
	struct error e = { 0 };
	int rc, unused = dup(0);
	pid_t pid;

	make_folder(*root, "tmp", 0777);
	make_folder(*root, "dev", 0755);
	make_folder(*root, "dev/shm", 01777);
	pid = start_in(*root);
	if (pid < 0)
		skip(); /* only root may */
	close(unused);
	rc = remote_script_write(pid, LIBRARY, &script, &e);
	if (rc < 0)
		fail_msg("%s", e.text);
	assert_int_equal(strncmp(script.path, "/dev/shm/.pitot-", 16), 0);
	assert_int_equal(access(temp_file(*root, script.path + 1), R_OK), 0);
	remote_script_remove(&script);
	assert_int_equal(rmdir(temp_file(*root, "dev/shm")), 0);
	assert_int_equal(remote_script_write(pid, LIBRARY, &script, &e), -ENOENT);
	remote_script_remove(&script);
	assert_int_equal(dup(0), unused);
	close(unused);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_a_thread_runs_the_script),
		folder_test(test_places_of_the_script),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
