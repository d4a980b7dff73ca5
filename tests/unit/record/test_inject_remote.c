/*
 * Loading a library into running programs: those that it must not disturb
 * (tests/support/inject/victim.c), and those that are refused.
 *
 * Each is tried PITOT_INJECT_REPETITIONS times, by default thrice; by `make stress` a hundred
 * times.
 */
#include "record/inject_remote/inject_remote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "arch/processor.h"
#include "base/compiler.h"
#include "record/inject_remote/remote_image.h"
#include "support/cmocka_tests.h"

struct victim {
	pid_t pid;
	int injected; /* gets a byte for each library that has started its thread */
};

/* libraries that were loaded in time, and later; programs that went on afterwards */
static unsigned loads, late, programs;

/* Of a file beside the test, wherever both are. Static storage, until the third call from now. */
static const char *beside(const char *name)
{
	static char paths[3][4096];
	static unsigned at;
	char *path = paths[at++ % ARRAY_SIZE(paths)], *slash;
	ssize_t length = readlink("/proc/self/exe", path, sizeof(paths[0]) - 64);

	assert_true(length > 0);
	path[length] = '\0';
	slash = strrchr(path, '/');
	assert_non_null(slash);
	snprintf(slash, 64, "/support/inject/%s", name);
	return path;
}

static unsigned repetitions(void)
{
	const char *text = getenv("PITOT_INJECT_REPETITIONS");

	return text ? (unsigned)atoi(text) : 3;
}

/* `prepare` is called before the program is executed; NULL: nothing. */
static struct victim start_with(void (*prepare)(void), const char *sleep, const char *work,
				const char *threads)
{
	int ready[2], injected[2];
	struct victim v;
	char byte, number[16];

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(injected), 0);
	fcntl(injected[0], F_SETFD, FD_CLOEXEC);
	v.pid = fork();
	if (v.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(number, sizeof(number), "%d", injected[1]);
		setenv("INJECTED_FD", number, 1);
		setenv("SLEEPS_LIBRARY", beside("sleeps.so"), 1);
		setenv("LOADED_LIBRARY", beside("injectee.so"), 1);
		unsetenv("LD_PRELOAD");
		dup2(ready[1], STDOUT_FILENO);
		if (prepare)
			prepare();
		execl(beside("victim"), "victim", sleep, work, threads, NULL);
		_exit(6);
	}
	close(ready[1]);
	close(injected[1]);
	v.injected = injected[0];
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return v;
}

static struct victim start(const char *sleep, const char *work, const char *threads)
{
	return start_with(NULL, sleep, work, threads);
}

/* Ends the program; its exit status is its own. */
static void end(struct victim v)
{
	int status;

	kill(v.pid, SIGTERM);
	assert_int_equal(waitpid(v.pid, &status, 0), v.pid);
	assert_int_equal(status, 0);
	close(v.injected);
	programs++;
}

static int load(struct victim v, struct inject_thread *thread, struct error *e)
{
	int rc = inject_remote(v.pid, beside("injectee.so"), false, thread, e);

	loads += rc == 0;
	return rc;
}

static unsigned mappings(pid_t pid)
{
	char path[64], line[1024];
	unsigned count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count++;
	fclose(file);
	return count;
}

static const struct {
	const char *sleep, *work, *threads, *call;
} loaded[] = {
	{ "poll", "all", "1", "poll" },           { "poll", "malloc", "64", "poll" },
	{ "nanosleep", "spin", "1", "" },         { "select", "dlopen", "3", "pselect6" },
	{ "epoll", "malloc", "2", "epoll_wait" }, { "read", "mmap", "2", "read" },
	{ "condition", "malloc", "2", "futex" },  { "nanosleep", "dlopen", "2", "" },
};

static void test_programs_that_are_not_disturbed(void **state)
{
	(void)state;
	for (unsigned n = 0; n < repetitions(); n++)
		for (size_t i = 0; i < ARRAY_SIZE(loaded); i++) {
			struct victim v = start(loaded[i].sleep, loaded[i].work, loaded[i].threads);
			struct inject_thread thread = { 0 };
			struct error e = { 0 };
			char byte;
			int rc;

			rc = load(v, &thread, &e);
			if (rc != 0 && rc != -ETIMEDOUT)
				fail_msg("%s, %s: %s", loaded[i].sleep, loaded[i].work, e.text);
			assert_int_equal(read(v.injected, &byte, 1), 1);
			if (rc == -ETIMEDOUT) { /* the machine is busy: it goes on by itself */
				assert_true(waitpid(-1, NULL, 0) > 0);
				late++;
				end(v);
				continue;
			}
			assert_int_equal(thread.tid, v.pid);
			assert_string_equal(thread.name, "victim");
			if (*loaded[i].call && strcmp(thread.call, "restart_syscall") != 0)
				assert_string_equal(thread.call, loaded[i].call);
			/* It may be done again, and the program goes on in any case. */
			assert_int_equal(
				inject_remote(v.pid, beside("injectee.so"), true, &thread, &e), 0);
			end(v);
		}
}

static const struct {
	const char *sleep, *work, *threads, *why;
} refused[] = {
	{ "not", "malloc", "1", "'victim' runs" },
	{ "lock", "malloc", "2", "waits, perhaps for a lock" },
	{ "semaphore", "spin", "0", "waits, perhaps for a lock" },
	{ "handler", "spin", "0", "signal handler" },
	{ "altstack", "spin", "0", "cannot be read to its end" },
	{ "callback", "spin", "0", "a function that the C library has called" },
	{ "constructor", "spin", "0", "inside the loader" },
	{ "code", "spin", "0", "cannot be read to its end" },
};

/* The reason is there, and the thread once, however often it has been looked at. */
static pid_t refuse_in_child(const struct victim *v, const char *why)
{
	struct inject_thread thread;
	struct error e = { 0 };
	pid_t child = fork();
	char name[32];
	const char *at;

	if (child != 0)
		return child;
	snprintf(name, sizeof(name), "thread %d ", (int)v->pid);
	if (inject_remote(v->pid, beside("injectee.so"), true, &thread, &e) == E_UNSUPPORTED &&
	    strstr(e.text, why) && (at = strstr(e.text, name)) && !strstr(at + 1, name))
		_exit(0);
	fprintf(stderr, "'%s': %s\n", why, e.text);
	_exit(1);
}

/* At once, because each search takes four seconds. */
static void test_threads_that_are_refused(void **state)
{
	struct victim victims[ARRAY_SIZE(refused)];
	pid_t children[ARRAY_SIZE(refused)];
	int status;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		victims[i] = start(refused[i].sleep, refused[i].work, refused[i].threads);
		children[i] = refuse_in_child(&victims[i], refused[i].why);
	}
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
		end(victims[i]);
	}
}

/* --- processes that are refused as a whole --- */

static void ignore_traps(void)
{
	signal(SIGTRAP, SIG_IGN);
}

/* As container runtimes do it: other processors' calls end the program, one call has a result. */
static void filter_call(unsigned call, unsigned result)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_AUDIT, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, result),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(7);
}

static void forbid_modules(void)
{
	filter_call(SYS_init_module, SECCOMP_RET_ERRNO | EPERM);
}

/* Two filters, of which the second one refuses. */
static void forbid_listening(void)
{
	forbid_modules();
	filter_call(SYS_listen, SECCOMP_RET_ERRNO | EPERM);
}

static void end_at_modules(void)
{
	filter_call(SYS_init_module, SECCOMP_RET_KILL_PROCESS);
}

static void switch_off(void)
{
	setenv("INJECTEE_IS_OFF", "1", 1);
}

static void crash(void)
{
	setenv("INJECTEE_CRASHES", "1", 1);
}

static void stop(void)
{
	setenv("INJECTEE_STOPS", "1", 1);
}

static void limit_files(void)
{
	const struct rlimit limit = { 12, 12 };

	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Enough for the library, and not for the stack of a thread. */
static void limit_memory(void)
{
	const struct rlimit limit = { 8 << 20, 8 << 20 };

	setrlimit(RLIMIT_AS, &limit);
}

static const struct {
	void (*prepare)(void);
	const char *library, *why;
} unusable[] = {
	{ ignore_traps, "injectee.so", "has SIGTRAP ignored" },
	{ forbid_listening, "injectee.so", "a seccomp filter, which does not allow listen" },
	{ end_at_modules, "injectee.so", "a seccomp filter, which would end it if" },
	{ limit_files, "injectee.so", "has no room for more open files" },
	{ limit_memory, "injectee.so", "cannot wait for recordings" },
	{ switch_off, "injectee.so", "has recording switched off (PITOT_DISABLED)" },
	{ crash, "injectee.so", "the recorder does not start: Bad address" },
	{ NULL, "nothing.so", "support/inject/nothing.so'" },
	{ NULL, "victim", "its loader refuses it" }, /* a program, not a library */
};

static void test_processes_that_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(unusable); i++) {
		struct victim v = start_with(unusable[i].prepare, "poll", "spin", "0");
		struct inject_thread thread;
		struct error e = { 0 };

		assert_true(inject_remote(v.pid, beside(unusable[i].library), false, &thread, &e) <
			    0);
		if (!strstr(e.text, unusable[i].why) &&
		    (geteuid() == 0 || !strstr(e.text, "cannot be read")))
			fail_msg("'%s': %s", unusable[i].why, e.text);
		end(v);
	}
}

/* A filter that only refuses what the recorder does not need. */
static void test_a_harmless_filter(void **state)
{
	struct victim v = start_with(forbid_modules, "poll", "malloc", "2");
	struct inject_thread thread;
	struct error e = { 0 };
	char byte;

	(void)state;
	if (load(v, &thread, &e) != 0) {
		if (geteuid() == 0 || !strstr(e.text, "cannot be read"))
			fail_msg("%s", e.text);
		end(v);
		skip(); /* only root may */
	}
	assert_int_equal(read(v.injected, &byte, 1), 1);
	end(v);
}

/* Whoever may not read filters is told so. */
static void test_filters_that_cannot_be_read(void **state)
{
	struct victim v = start_with(forbid_modules, "poll", "spin", "0");
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		struct inject_thread thread;
		struct error e = { 0 };

		forbid_modules(); /* one that has a filter itself may not either */
		if (inject_remote(v.pid, beside("injectee.so"), false, &thread, &e) !=
		    E_UNSUPPORTED)
			_exit(1);
		_exit(strstr(e.text, "cannot be read (Permission denied): run pitot with sudo")
			      ? 0
			      : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	end(v);
}

static void test_a_process_that_is_traced(void **state)
{
	struct victim v = start("poll", "spin", "0");
	struct inject_thread thread;
	struct error e = { 0 };
	char why[64];

	(void)state;
	assert_int_equal(ptrace(PTRACE_SEIZE, v.pid, NULL, NULL), 0);
	assert_int_equal(inject_remote(v.pid, beside("injectee.so"), false, &thread, &e), -EBUSY);
	snprintf(why, sizeof(why), "is traced by process %d", (int)getpid());
	assert_non_null(strstr(e.text, why));
	kill(v.pid, SIGKILL);
	waitpid(v.pid, NULL, 0);
	close(v.injected);
}

/* Nothing is left in the process but the library. */
static void test_memory_is_given_back(void **state)
{
	struct victim v = start("poll", "spin", "0");
	unsigned before = 0;

	(void)state;
	for (unsigned i = 0; i < 5 * repetitions(); i++) {
		struct inject_thread thread;
		struct error e = { 0 };
		char byte;

		if (load(v, &thread, &e) != 0)
			fail_msg("%s", e.text);
		assert_int_equal(read(v.injected, &byte, 1), 1);
		if (i == 1) /* the C library caches a thread's stack */
			before = mappings(v.pid);
	}
	assert_in_range(mappings(v.pid), 1, before + 4);
	end(v);
}

/* Code is its file's from its first byte to its last one. */
static void test_owners_of_code(void **state)
{
	struct remote_image image;
	struct error e = { 0 };

	(void)state;
	if (remote_image_read(getpid(), &image, &e) != 0)
		fail_msg("%s", e.text);
	for (size_t i = 0; i < image.code.count; i++) {
		const struct remote_code *code = &image.code.data[i];

		assert_int_equal(remote_image_owner(&image, code->start), code->owner);
		assert_int_equal(remote_image_owner(&image, code->end - 1), code->owner);
		if (i + 1 == image.code.count || code[1].start != code->end)
			assert_int_equal(remote_image_owner(&image, code->end), CODE_ANONYMOUS);
	}
	remote_image_release(&image);
}

static pid_t send_for_ever(pid_t pid, int even, int odd)
{
	pid_t sender = fork();

	if (sender)
		return sender;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned n = 0;; n++)
		kill(pid, n % 2 ? odd : even);
}

/* Signals without an effect: each stops a thread that is traced all the same. */
static void test_signals_that_are_ignored(void **state)
{
	struct victim v = start("poll", "malloc", "2");
	pid_t sender = send_for_ever(v.pid, SIGWINCH, SIGURG);

	(void)state;
	for (unsigned n = 0; n < 3 * repetitions(); n++) {
		struct inject_thread thread;
		struct error e = { 0 };

		if (load(v, &thread, &e) != 0)
			fail_msg("%s", e.text);
	}
	kill(sender, SIGKILL);
	waitpid(sender, NULL, 0);
	end(v);
}

/* A signal that arrives meanwhile has the effect that it would have had. */
static void test_signals(void **state)
{
	(void)state;
	for (unsigned i = 0; i < repetitions(); i++) {
		struct victim v = start("poll", "malloc", "2");
		struct inject_thread thread;
		struct error e = { 0 };
		pid_t sender = send_for_ever(v.pid, SIGSTOP, SIGCONT);
		int status;

		for (unsigned n = 0; n < 5; n++)
			(void)!inject_remote(v.pid, beside("injectee.so"), n % 2, &thread, &e);
		kill(sender, SIGKILL);
		waitpid(sender, NULL, 0);
		kill(v.pid, SIGCONT);
		assert_int_equal(waitpid(v.pid, &status, WNOHANG), 0);
		end(v);
	}
}

/* One that cannot be blocked: the library is loaded all the same, and the program stops then. */
static void test_a_stop(void **state)
{
	struct victim v = start_with(stop, "poll", "malloc", "2");
	struct inject_thread thread;
	struct error e = { 0 };
	char byte;
	int status;

	(void)state;
	if (load(v, &thread, &e) != 0)
		fail_msg("%s", e.text);
	assert_int_equal(waitpid(v.pid, &status, WUNTRACED), v.pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	kill(v.pid, SIGCONT);
	assert_int_equal(read(v.injected, &byte, 1), 1);
	end(v);
}

/* After n milliseconds, in a process of its own. */
static pid_t send_later(pid_t pid, int signal, unsigned n)
{
	const struct timespec t = { .tv_nsec = (long)n * 1000000 };
	pid_t sender = fork();

	if (sender)
		return sender;
	nanosleep(&t, NULL);
	kill(pid, signal);
	_exit(0);
}

/* At any moment: nothing hangs, and no process of ours is left. */
static void test_programs_that_end_or_begin_again_meanwhile(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 12 * repetitions(); n++) {
		const int number = n % 2 ? SIGKILL : SIGHUP;
		struct victim v = start("poll", "malloc", "2");
		struct inject_thread thread;
		struct error e = { 0 };
		pid_t sender = send_later(v.pid, number, n / 2);
		int status, rc;

		rc = load(v, &thread, &e);
		assert_true(rc == 0 || *e.text);
		assert_int_equal(waitpid(sender, &status, 0), sender);
		if (number == SIGHUP)
			assert_int_equal(waitpid(v.pid, &status, WNOHANG), 0);
		kill(v.pid, SIGKILL);
		assert_int_equal(waitpid(v.pid, &status, 0), v.pid);
		assert_int_equal(waitpid(-1, &status, WNOHANG), -1);
		close(v.injected);
	}
}

static void test_several_at_once(void **state)
{
	struct victim v = start("poll", "all", "1");
	pid_t pids[3];
	int status;
	unsigned done = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		struct inject_thread thread;
		struct error e = { 0 };

		pids[i] = fork();
		if (pids[i])
			continue;
		switch (inject_remote(v.pid, beside("injectee.so"), false, &thread, &e)) {
		case 0:
			_exit(0);
		case -EBUSY:
			_exit(strstr(e.text, "is traced by process") ? 1 : 2);
		default:
			fprintf(stderr, "%s\n", e.text);
			_exit(2);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
		done += WEXITSTATUS(status) == 0;
	}
	assert_in_range(done, 1, ARRAY_SIZE(pids));
	end(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs_that_are_not_disturbed),
		cmocka_unit_test(test_threads_that_are_refused),
		cmocka_unit_test(test_processes_that_are_refused),
		cmocka_unit_test(test_a_harmless_filter),
		cmocka_unit_test(test_filters_that_cannot_be_read),
		cmocka_unit_test(test_a_process_that_is_traced),
		cmocka_unit_test(test_memory_is_given_back),
		cmocka_unit_test(test_owners_of_code),
		cmocka_unit_test(test_signals_that_are_ignored),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_a_stop),
		cmocka_unit_test(test_programs_that_end_or_begin_again_meanwhile),
		cmocka_unit_test(test_several_at_once),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	printf("%u libraries loaded, %u more after the time limit, %u programs went on\n", loads,
	       late, programs);
	return failed;
}
