
#include "tape/tape_session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"

#define THREAD_NAME_BYTES 16
#define TAPES_OF_A_PROCESS 100

static struct tape_writer *writer;
static uint32_t tapes; /* started so far: tells a thread that its number is of an older tape */

static __thread struct {
	uint32_t tape, index;
	uint64_t events;
} self __attribute__((tls_model("initial-exec")));

struct tape_writer *tape_writer(void)
{
	return writer;
}

bool tape_running(void)
{
	struct tape_writer *w = __atomic_load_n(&writer, __ATOMIC_ACQUIRE);

	return w && tape_writer_running(w);
}

unsigned tape_number(void)
{
	return __atomic_load_n(&tapes, __ATOMIC_RELAXED);
}

struct tape_mark tape_here(void)
{
	struct tape_mark at = { .time = clock_monotonic_ns() };
	uint32_t tape = tape_number();
	char name[THREAD_NAME_BYTES] = "";

	if (!tape_running())
		return at;
	if (self.tape != tape) {
		self.tape = tape;
		self.index = tape_new_thread(writer);
		self.events = 0;
	}
	at.thread = self.index;
	self.events++;
	if ((self.events & (self.events - 1)) ==
	    0) { /* names come late, or change: look again at 2, 4, 8 … */
		prctl(PR_GET_NAME, name);
		tape_put_thread(writer, at, (uint64_t)gettid(), name);
	}
	return at;
}

void tape_note(enum tape_function function, struct tape_mark at, int result, const void *output,
	       size_t length, const uint64_t *arguments, unsigned argument_count)
{
	struct tape_call call = {
		.function = function,
		.result = result,
		.duration_ns = clock_monotonic_ns() - at.time,
		.argument_count = MIN(argument_count, (unsigned)TAPE_ARGUMENTS_MAX),
		.output = result == 0 ? output : NULL,
		.output_length = result == 0 && output ? length : 0,
	};

	if (!tape_running())
		return;
	memcpy(call.arguments, arguments, call.argument_count * sizeof(*arguments));
	tape_put_call(writer, at, &call);
}

/* A tape is never overwritten: the next process that finds FILE there writes FILE.<pid>. */
static int open_tape(const char *path)
{
	char other[4096];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	for (int i = 0; fd < 0 && errno == EEXIST && i < TAPES_OF_A_PROCESS; i++) {
		int n = i ? snprintf(other, sizeof(other), "%s.%d.%d", path, getpid(), i)
			  : snprintf(other, sizeof(other), "%s.%d", path, getpid());

		if (n < 0 || (size_t)n >= sizeof(other))
			return -ENAMETOOLONG;
		fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	}
	return fd < 0 ? -errno : io_above_standard(fd);
}

static void say_hello(void)
{
	char numbers[4][24], kernel[200] = "";
	struct utsname u;

	if (uname(&u) == 0)
		snprintf(kernel, sizeof(kernel), "%.60s %.64s %.60s", u.sysname, u.release,
			 u.machine);
	snprintf(numbers[0], sizeof(numbers[0]), "%d", getpid());
	snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu64, clock_monotonic_ns());
	snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu64, clock_read_ns(CLOCK_REALTIME));
	snprintf(numbers[3], sizeof(numbers[3]), "%" PRIu64, clock_read_ns(CLOCK_BOOTTIME));
	const struct tape_fact facts[] = {
		{ "pointer.bytes", sizeof(void *) == 8 ? "8" : "4" },
		{ "kernel", kernel },
		{ "program", program_invocation_short_name },
		{ "pid", numbers[0] },
		{ "clock.monotonic", numbers[1] },
		{ "clock.realtime", numbers[2] },
		{ "clock.boottime", numbers[3] },
	};

	tape_put_hello(writer, tape_here(), facts, ARRAY_SIZE(facts));
}

static void end_tape(void)
{
	if (tape_running())
		tape_writer_finish(writer, clock_monotonic_ns());
}

static void before_fork(void)
{
	tape_writer_lock(writer);
}

static void after_fork_in_parent(void)
{
	tape_writer_unlock(writer);
}

static void after_fork_in_child(void)
{
	tape_writer_forget(writer);
}

static void prepare(void)
{
	struct tape_writer *w = tape_writer_new();

	if (w && pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child)) {
		tape_writer_free(w);
		return;
	}
	atexit(end_tape);
	at_quick_exit(end_tape);
	__atomic_store_n(&writer, w, __ATOMIC_RELEASE);
}

void tape_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static pid_t owner; /* of the tape, which may have ended */
	const char *path = getenv("PITOT_TAPE");
	pid_t expected = __atomic_load_n(&owner, __ATOMIC_RELAXED);
	int fd;

	if (!path || !*path || expected == getpid() ||
	    !__atomic_compare_exchange_n(&owner, &expected, getpid(), false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	pthread_once(&once, prepare);
	fd = writer ? open_tape(path) : -1;
	if (fd < 0 || tape_writer_start(writer, fd) < 0)
		return;
	__atomic_add_fetch(&tapes, 1, __ATOMIC_RELAXED);
	say_hello();
}
