#include "record/inject_remote/remote_sleep.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "arch/processor.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/starts_with.h"
#include "sampler/perf/stack_snapshot.h"
#include "sampler/sampled_processes.h"

#define STACK_BYTES ((size_t)1 << 20)
#define FRAMES_MAX 512u
#define THREADS_SEEN_MAX 8u /* that are named */

/* What a call must look like to continue, or to begin again, unnoticed. */
enum sleep_condition {
	SLEEP_ALWAYS,
	SLEEP_ON_PIPE, /* sockets may have a time limit, after which they would return EINTR */
	SLEEP_WITHOUT_LIMIT, /* of argument 3 */
	SLEEP_FOR_THREAD, /* by remote_image_waits() */
};

static const struct {
	long number;
	const char *name;
	enum sleep_condition condition;
} calls[] = {
	{ SYS_ppoll, "ppoll", SLEEP_ALWAYS },
	{ SYS_nanosleep, "nanosleep", SLEEP_ALWAYS },
	{ SYS_clock_nanosleep, "clock_nanosleep", SLEEP_ALWAYS },
	{ SYS_pselect6, "pselect6", SLEEP_ALWAYS },
	{ SYS_restart_syscall, "restart_syscall", SLEEP_ALWAYS },
	{ SYS_wait4, "wait4", SLEEP_ALWAYS },
	{ SYS_waitid, "waitid", SLEEP_ALWAYS },
	{ SYS_read, "read", SLEEP_ON_PIPE },
	{ SYS_epoll_pwait, "epoll_pwait", SLEEP_WITHOUT_LIMIT },
	{ SYS_futex, "futex", SLEEP_FOR_THREAD },
#ifdef SYS_poll
	{ SYS_poll, "poll", SLEEP_ALWAYS },
	{ SYS_select, "select", SLEEP_ALWAYS },
	{ SYS_pause, "pause", SLEEP_ALWAYS },
	{ SYS_epoll_wait, "epoll_wait", SLEEP_WITHOUT_LIMIT },
#endif
};

struct remote_sleep {
	pid_t pid;
	bool is_filtered; /* the main thread has a seccomp filter */
	struct targets *targets;
	struct target *target;
	uint8_t *bytes; /* STACK_BYTES */
	uint64_t frames[FRAMES_MAX];
};

static bool has_filter(pid_t pid, pid_t tid)
{
	_cleanup_strbuf_ struct strbuf status = STRBUF_INIT;
	static const char name[] = "\nSeccomp:";
	const char *line;
	char file[64];

	snprintf(file, sizeof(file), "task/%d/status", (int)tid);
	if (io_process_text(pid, file, 65536, &status) < 0)
		return true;
	line = strstr(strbuf_text(&status), name);
	return line && strtol(line + sizeof(name) - 1, NULL, 10) != 0;
}

int remote_sleep_new(pid_t pid, struct remote_sleep **out, struct error *e)
{
	const struct targets_options options = { .directory = "", .period_ns = 1 };
	struct remote_sleep *s = calloc(1, sizeof(*s));
	int rc = s ? targets_new(&options, &s->targets, e) : -ENOMEM;

	if (rc == 0) {
		s->pid = pid;
		s->is_filtered = has_filter(pid, pid);
		s->bytes = malloc(STACK_BYTES);
		s->target = targets_running(s->targets, pid, clock_monotonic_ns());
		rc = s->bytes && s->target ? 0 : -ENOMEM;
	}
	if (rc < 0) {
		remote_sleep_free(s);
		return error_set(e, rc, "out of memory");
	}
	*out = s;
	return 0;
}

void remote_sleep_free(struct remote_sleep *s)
{
	if (s && s->targets)
		targets_free(s->targets, NULL);
	if (s)
		free(s->bytes);
	free(s);
}

/* --- the system call --- */

static bool is_pipe(pid_t pid, uint64_t fd)
{
	char path[64], target[16] = "";

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)fd);
	return readlink(path, target, sizeof(target) - 1) > 0 && starts_with(target, "pipe:");
}

static bool is_met(pid_t pid, enum sleep_condition condition, const uint64_t *arguments)
{
	switch (condition) {
	case SLEEP_ON_PIPE:
		return is_pipe(pid, arguments[0]);
	case SLEEP_WITHOUT_LIMIT:
		return (int)arguments[3] == -1;
	case SLEEP_ALWAYS:
	case SLEEP_FOR_THREAD:
		return true;
	}
	return false;
}

/*
 * Returns the index in `calls` of what a thread sleeps in; -EAGAIN, and what it does instead; or
 * why it cannot be read.
 */
static int read_call(pid_t pid, pid_t tid, const char **instead)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t arguments[ARCH_SYSTEM_CALL_ARGUMENTS];
	char name[64], *at;
	long number;
	int rc;

	snprintf(name, sizeof(name), "task/%d/syscall", (int)tid);
	rc = io_process_text(pid, name, 512, &text);
	if (rc < 0)
		return rc;
	*instead = "runs";
	number = strtol(strbuf_text(&text), &at, 10);
	if (at == strbuf_text(&text))
		return -EAGAIN;
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		arguments[i] = strtoull(at, &at, 16);
	*instead = "waits for others, or in a call that would be disturbed";
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number && is_met(pid, calls[i].condition, arguments))
			return (int)i;
	return -EAGAIN;
}

/* --- the stack --- */

/* Returns the number of frames; 0: they are not all known. */
static unsigned unwind(struct remote_sleep *s, const struct remote_thread *t)
{
	struct stack_snapshot stack = {
		.registers = { .known = REGISTERS_ALL, .interrupted = true }, .bytes = s->bytes
	};
	enum stack_end end;
	struct iovec local = { s->bytes, STACK_BYTES }, remote = { NULL, STACK_BYTES };
	uint64_t base;
	unsigned count;
	ssize_t n;

	arch_stopped_registers(&t->registers, stack.registers.at, &base);
	remote.iov_base = (void *)(uintptr_t)stack.registers.at[REG_SP_];
	n = process_vm_readv(s->pid, &local, 1, &remote, 1, 0);
	if (n <= 0)
		return 0;
	stack.size = (size_t)n;
	stack.cut = (size_t)n == STACK_BYTES;
	count = stack_snapshot_walk(s->targets, s->target, &stack, s->frames, FRAMES_MAX, &end);
	return end == stack_end_complete ? count : 0;
}

/* Whether it is the frame of _start, to which the C library's first function would return. */
static bool is_entry(struct remote_sleep *s, uint64_t frame)
{
	uint64_t address = frame_lookup_address(frame);
	const struct target_range *range = target_range_at(s->targets, s->target, address);

	return range && target_range_is_entry(s->targets, range, address);
}

/* Returns NULL, or why no call may be made in this thread's place. */
static const char *find_danger(struct remote_sleep *s, const struct remote_image *image,
			       const struct remote_thread *t, enum sleep_condition condition)
{
	unsigned count = unwind(s, t), inner = 0, outer = count;

	if (!count)
		return "sleeps, with a stack that cannot be read to its end";
	for (unsigned i = 0; i < count; i++) {
		uint64_t address = frame_lookup_address(s->frames[i]);
		enum code_owner owner = remote_image_owner(image, address);

		if (owner == CODE_LOADER)
			return "sleeps inside the loader";
		if (owner == CODE_ALLOCATOR)
			return "sleeps inside an allocator";
		if (owner == CODE_ANONYMOUS)
			return "sleeps below code of no file";
		if (i && (s->frames[i] & FRAME_INTERRUPTED))
			return "sleeps in a signal handler";
	}
#define IS_LIBC(i) (remote_image_owner(image, frame_lookup_address(s->frames[i])) == CODE_LIBC)
	if (outer && is_entry(s, s->frames[outer - 1]))
		count = --outer;
	while (inner < count && IS_LIBC(inner))
		inner++;
	while (outer > inner && IS_LIBC(outer - 1))
		outer--;
	if (!inner || inner == count)
		return "sleeps in a call that is not the C library's";
	for (unsigned i = inner; i < outer; i++)
		if (IS_LIBC(i))
			return "sleeps in a function that the C library has called";
#undef IS_LIBC
	if (condition == SLEEP_FOR_THREAD &&
	    !remote_image_waits(image, frame_lookup_address(s->frames[inner - 1])))
		return "waits, perhaps for a lock";
	return NULL;
}

/* --- threads --- */

static void add_seen(struct strbuf *seen, pid_t pid, pid_t tid, const char *what, unsigned count)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	char file[64];

	if (count > THREADS_SEEN_MAX)
		return;
	snprintf(file, sizeof(file), "task/%d/comm", (int)tid);
	if (count == THREADS_SEEN_MAX)
		strbuf_adds(seen, "; and others");
	else if (io_process_text(pid, file, 64, &name) == 0)
		strbuf_addf(seen, "%sthread %d '%s' %s", seen->length ? "; " : "", (int)tid,
			    strbuf_text(&name), what);
}

static int try_thread(struct remote_sleep *s, const struct remote_image *image, pid_t tid,
		      struct remote_thread *thread, const char **call, const char **instead)
{
	int index = read_call(s->pid, tid, instead), rc;

	if (index < 0)
		return index;
	*instead = "has a seccomp filter of its own";
	if (!s->is_filtered && has_filter(s->pid, tid))
		return -EAGAIN;
	rc = remote_thread_stop(thread, s->pid, tid, calls[index].number);
	*instead = "slept a moment ago";
	if (rc < 0)
		return rc;
	*call = calls[index].name;
	*instead = find_danger(s, image, thread, calls[index].condition);
	if (!*instead)
		return 0;
	(void)!remote_thread_leave(thread);
	return -EAGAIN;
}

int remote_sleep_stop(struct remote_sleep *s, const struct remote_image *image,
		      struct remote_thread *thread, const char **call, struct strbuf *seen)
{
	_cleanup_list_ DIR *list = folder_list_process(s->pid, "task");
	const char *name, *instead = "has ended";
	unsigned count = 0;
	int rc = -EAGAIN;

	while (list && rc < 0 && rc != -EPERM && (name = folder_next(list))) {
		pid_t tid = (pid_t)strtol(name, NULL, 10);

		rc = try_thread(s, image, tid, thread, call, &instead);
		if (rc < 0)
			add_seen(seen, s->pid, tid, instead, count++);
	}
	return rc == 0 || rc == -EPERM ? rc : list ? -EAGAIN : -ESRCH;
}
