/* link: test_support -Wl,--wrap=poll */
/*
 * test_cpu_sampler.c: the sampler's thread ends when it is told to, not when its next look is due;
 * what it says it lacks.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sampler/cpu_sampler.h"
#include "support/cmocka_tests.h"

#define HUNG_S 600

int __real_poll(struct pollfd *files, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *files, nfds_t count, int timeout_ms);

static atomic_uint waits;

/* No look is ever due. */
int __wrap_poll(struct pollfd *files, nfds_t count, int timeout_ms)
{
	atomic_fetch_add(&waits, 1);
	return __real_poll(files, count, timeout_ms ? -1 : 0);
}

static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static void check_end(const char *folder, enum cpu_method method)
{
	pid_t pid = start_sleeper();
	const struct cpu_options options = { .directory = folder, .hz = 99, .method = method };
	const struct cpu_roots roots = { .pids = &pid, .count = 1, .running = true };
	struct cpu_sampler *sampler = NULL;
	struct error e = { 0 };
	int err;

	atomic_store(&waits, 0);
	alarm(HUNG_S);
	err = cpu_sampler_start(&options, &roots, &sampler, &e);
	if (err == 0) {
		assert_int_equal(cpu_sampler_method(sampler), method);
		while (!atomic_load(&waits))
			usleep(1000);
		assert_int_equal(cpu_sampler_stop(&sampler, NULL, &e), 0);
		assert_null(sampler);
	}
	alarm(0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (err == E_UNSUPPORTED) {
		print_message("%s\n", e.text);
		skip();
	}
	assert_int_equal(err, 0);
}

static void ebpf_ends_at_once(void **state)
{
	check_end(*state, CPU_METHOD_EBPF);
}

static void perf_ends_at_once(void **state)
{
	check_end(*state, CPU_METHOD_PERF);
}

/* Nothing of it is_permanent: LeakSanitizer looks. */
static void a_process_that_has_ended(void **state)
{
	static const enum cpu_method methods[] = { CPU_METHOD_EBPF, CPU_METHOD_PERF };
	pid_t pid = start_sleeper();
	const struct cpu_roots roots = { .pids = &pid, .count = 1, .running = true };

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const struct cpu_options options = { .directory = *state,
						     .hz = 99,
						     .method = methods[i] };
		struct cpu_sampler *sampler = NULL;
		struct error e = { 0 };
		int err = cpu_sampler_start(&options, &roots, &sampler, &e);

		assert_true(err == -ESRCH || err == E_UNSUPPORTED);
		assert_true(e.text[0]);
		assert_null(sampler);
	}
}

static void assert_said(const struct cpu_roots *roots, bool was_chosen, enum cpu_python python,
			const char *expected)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	cpu_explain_no_python(roots, was_chosen, python, &text);
	assert_string_equal(strbuf_text(&text), expected);
}

/* Where another method can have what this one has not, the command is there to be pasted. */
static void the_way_out_is_a_command(void **state)
{
	const pid_t pids[] = { 4711, 12 };
	const struct cpu_roots command = { .pids = pids, .count = 1 };
	const struct cpu_roots both = { .pids = pids, .count = 2, .running = true };
	uid_t self = geteuid();

	(void)state;
	assert_said(&command, true, CPU_PYTHON_NONE, "no Python frames");
	if (self == 0) {
		assert_said(&both, false, CPU_PYTHON_NONE,
			    "no Python frames, which need eBPF here");
		assert_said(&both, true, CPU_PYTHON_NONE,
			    "no Python frames, which need eBPF here: pitot record -p 4711 -p 12");
		assert_int_equal(seteuid(65534), 0);
	}
	assert_said(&both, false, CPU_PYTHON_NONE,
		    "no Python frames, which need eBPF here: sudo pitot record -p 4711 -p 12");
	assert_said(&both, false, CPU_PYTHON_FORBIDDEN,
		    "no Python frames, which need eBPF here, because the process may not be read "
		    "(kernel.yama.ptrace_scope): sudo pitot record -p 4711 -p 12");
	assert_int_equal(seteuid(self), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(ebpf_ends_at_once),
		folder_test(perf_ends_at_once),
		folder_test(a_process_that_has_ended),
		cmocka_unit_test(the_way_out_is_a_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
