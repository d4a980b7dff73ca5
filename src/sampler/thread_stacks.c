#include "sampler/thread_stacks.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "elf/core_file.h"
#include "sampler/perf/stack_snapshot.h"
#include "sampler/process_memory.h"
#include "sampler/python/remote_memory.h"
#include "sampler/python/sampled_python.h"
#include "sampler/sampled_processes.h"

#define STACK_BYTES_MAX ((size_t)8 << 20)
#define SLEEPING_TRIES 3
#define STOP_LIMIT_NS (PITOT_SLOWNESS * 50 * NS_PER_MS) /* a thread in the kernel may take long */
#define STOP_POLL_NS (20 * NS_PER_US)
#define THREADS_MAX 65536u

/* System calls in which threads sleep, and whether they continue by themselves after a stop. */
static const struct {
	long number;
	const char *name;
	bool continues;
} calls[] = {
	{ SYS_futex, "futex", true },
	{ SYS_ppoll, "ppoll", true },
	{ SYS_nanosleep, "nanosleep", true },
	{ SYS_clock_nanosleep, "clock_nanosleep", true },
	{ SYS_pselect6, "pselect6", true },
	{ SYS_restart_syscall, "restart_syscall", true },
	{ SYS_wait4, "wait4", true },
	{ SYS_waitid, "waitid", true },
#ifdef SYS_poll
	{ SYS_poll, "poll", true },
	{ SYS_select, "select", true },
	{ SYS_pause, "pause", true },
	{ SYS_epoll_wait, "epoll_wait", false },
#endif
	{ SYS_epoll_pwait, "epoll_pwait", false },
	{ SYS_read, "read", false },
	{ SYS_write, "write", false },
	{ SYS_accept, "accept", false },
	{ SYS_accept4, "accept4", false },
	{ SYS_recvfrom, "recvfrom", false },
	{ SYS_recvmsg, "recvmsg", false },
	{ SYS_ioctl, "ioctl", false },
	{ SYS_rt_sigtimedwait, "rt_sigtimedwait", false },
	{ SYS_io_uring_enter, "io_uring_enter", false },
	{ SYS_fsync, "fsync", false },
};

struct reader {
	struct targets *targets;
	struct target *target; /* of the current process */
	struct sampled_python *python; /* its interpreter, or NULL */
	struct remote_memory memory;
	uint8_t *bytes; /* STACK_BYTES_MAX */
	struct stack_snapshot stack;
	unsigned python_count;
	bool python_complete;
	struct python_frame python_frames[STACK_PYTHON_MAX];
	uint64_t words[2 * STACK_PYTHON_MAX], native[STACK_NATIVE_MAX], merged[STACK_FRAMES_MAX];
};

/* --- one state of a thread, which must not run meanwhile --- */

static void copy_python(struct reader *r, pid_t tid, uint64_t thread_base)
{
	const struct python_memory memory = { remote_memory_read, &r->memory };
	struct python_location location;

	r->python_count = 0;
	if (!r->python)
		return;
	remote_memory_begin(&r->memory, target_pid(r->target));
	sampled_python_location(r->python, &location);
	if (!sampled_thread_is_at(&memory, thread_base, tid))
		thread_base = stack_snapshot_thread_base(&r->stack, &memory,
							 &location.runtime.offsets, tid);
	if (!thread_base)
		return;
	if (!location.state_at && sampled_python_locate(r->python, thread_base))
		sampled_python_location(r->python, &location);
	if (location.state_at)
		r->python_count =
			sampled_python_read(&location, &memory, thread_base, r->python_frames,
					    r->words, STACK_PYTHON_MAX, &r->python_complete);
}

/* Copies the stack from the stack pointer to the end of its mapping, and the Python frames. */
static int copy_stack(struct reader *r, pid_t tid, uint64_t thread_base)
{
	uint64_t sp = r->stack.registers.at[REG_SP_];
	struct iovec local = { r->bytes, STACK_BYTES_MAX },
		     remote = { (void *)(uintptr_t)sp, STACK_BYTES_MAX };
	ssize_t n = process_memory_read(target_pid(r->target), &local, 1, &remote, 1);

	if (n < 0)
		return -errno;
	r->stack.bytes = r->bytes;
	r->stack.size = (size_t)n;
	r->stack.cut = (size_t)n == STACK_BYTES_MAX;
	copy_python(r, tid, thread_base);
	return 0;
}

/* --- a thread that sleeps --- */

static int read_call(pid_t pid, pid_t tid, struct strbuf *out)
{
	char name[64];

	strbuf_clear(out);
	snprintf(name, sizeof(name), "task/%d/syscall", (int)tid);
	return io_process_text(pid, name, 512, out);
}

/* Returns the index in `calls`, -1 for another call or none; *sleeps: the thread does not run. */
static int parse_call(const char *text, struct stack_registers *registers, bool *sleeps)
{
	const char *last = strrchr(text, ' '), *before = last;
	long number = strtol(text, NULL, 10);

	while (before && before > text && *--before != ' ')
		;
	*sleeps = before && before > text && strncmp(text, "running", 7) != 0;
	if (!*sleeps)
		return -1;
	*registers =
		(struct stack_registers){ .known = REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_RA_),
					  .interrupted = true };
	registers->at[REG_SP_] = strtoull(before, NULL, 16);
	registers->at[REG_RA_] = strtoull(last, NULL, 16);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return (int)i;
	return -1;
}

/*
 * Returns 0, -EAGAIN if the thread runs, or another negative errno. The thread may have run between
 * two equal texts only if it came back to the same place: then its frames are the same as well.
 */
static int read_sleeping(struct reader *r, struct thread_stack *s, int *call)
{
	_cleanup_strbuf_ struct strbuf before = STRBUF_INIT, after = STRBUF_INIT;
	int err = -EAGAIN;
	bool sleeps;

	*call = -1;
	for (int i = 0; i < SLEEPING_TRIES && err == -EAGAIN; i++) {
		err = read_call(s->pid, s->tid, &before);
		if (err < 0)
			return err;
		*call = parse_call(strbuf_text(&before), &r->stack.registers, &sleeps);
		if (!sleeps)
			return -EAGAIN;
		err = copy_stack(r, s->tid, 0);
		if (err == 0)
			err = read_call(s->pid, s->tid, &after);
		if (err == 0 && strcmp(strbuf_text(&before), strbuf_text(&after)) != 0)
			err = -EAGAIN;
	}
	return err;
}

/* --- a thread that is stopped --- */

/* Waits until the thread has stopped. Returns its status, or a negative errno. */
static int await_stop(pid_t tid)
{
	const struct timespec pause = { .tv_nsec = (long)STOP_POLL_NS };
	uint64_t end_ns = clock_monotonic_ns() + STOP_LIMIT_NS;
	int status;
	pid_t rc;

	while ((rc = waitpid(tid, &status, __WALL | WNOHANG)) == 0 || (rc < 0 && errno == EINTR)) {
		if (clock_monotonic_ns() >= end_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return rc < 0 ? -errno : WIFSTOPPED(status) ? status : -ESRCH;
}

/* A signal that arrived first is delivered when the thread continues. */
static int signal_of(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
}

static int read_stopped(struct reader *r, struct thread_stack *s)
{
	uint64_t begun = clock_monotonic_ns(), thread_base;
	struct user_regs_struct registers;
	struct iovec part = { &registers, sizeof(registers) };
	int status, err = 0;

	if (ptrace(PTRACE_SEIZE, s->tid, NULL, NULL) < 0)
		return -errno;
	if (ptrace(PTRACE_INTERRUPT, s->tid, NULL, NULL) < 0)
		return -errno;
	status = await_stop(s->tid);
	if (status < 0) /* if it stops after all, it continues when we have ended */
		return status;
	if (ptrace(PTRACE_GETREGSET, s->tid, (void *)(uintptr_t)NT_PRSTATUS, &part) < 0) {
		err = -errno;
	} else {
		r->stack.registers =
			(struct stack_registers){ .known = REGISTERS_ALL, .interrupted = true };
		arch_stopped_registers(&registers, r->stack.registers.at, &thread_base);
		err = copy_stack(r, s->tid, thread_base);
	}
	ptrace(PTRACE_DETACH, s->tid, NULL, (void *)(uintptr_t)signal_of(status));
	s->stopped_ns = MAX(clock_monotonic_ns() - begun, 1);
	return err;
}

/* --- threads --- */

static bool is_whole(enum stack_end end)
{
	return end == stack_end_complete || end == stack_end_guessed;
}

static unsigned unwind(struct reader *r, enum stack_end *end)
{
	return stack_snapshot_walk(r->targets, r->target, &r->stack, r->native,
				   ARRAY_SIZE(r->native), end);
}

static void add_row(struct reader *r, const struct thread_stack *s, uint64_t time_ns,
		    unsigned count, enum stack_end end)
{
	const struct sampled_python_stack parts = { .native = r->native,
						    .words = r->words,
						    .native_count = count,
						    .python_count = r->python_count,
						    .python_complete = r->python_complete };
	const struct target_thread_state state = { .time_ns = time_ns,
						   .tid = s->tid,
						   .state = s->state,
						   .system_call = s->call,
						   .reason = s->error ? error_code_text(s->error)
								      : NULL };
	struct target_stack stack = { .user = r->native, .user_count = count, .end = end };

	if (count && r->python_count) {
		stack.user = r->merged;
		stack.user_count =
			sampled_python_merge(r->python, r->target, &parts, r->merged, &stack.end);
	}
	targets_thread_state(r->targets, r->target, &state, &stack);
}

/* Returns the number of native frames; s->error says why there are none. */
static unsigned read_thread(struct reader *r, struct thread_stack *s, enum stack_end *end)
{
	unsigned count = 0;
	int call, err = read_sleeping(r, s, &call);
	bool is_asleep = err == 0;

	if (call >= 0)
		s->call = calls[call].name;
	if (is_asleep)
		count = unwind(r, end);
	if (err == -EAGAIN ||
	    (is_asleep && !is_whole(*end) && call >= 0 && calls[call].continues)) {
		err = read_stopped(r, s);
		if (err == 0)
			count = unwind(r, end);
		else if (is_asleep && read_sleeping(r, s, &call) == 0)
			count = unwind(r, end), err = 0;
	}
	s->error = err;
	return err ? 0 : count;
}

static enum thread_state state_of(char letter)
{
	static const struct {
		char letter;
		enum thread_state state;
	} states[] = {
		{ 'R', thread_state_running },         { 'S', thread_state_sleeping },
		{ 'D', thread_state_uninterruptible }, { 'T', thread_state_stopped },
		{ 't', thread_state_traced },          { 'Z', thread_state_ended },
		{ 'X', thread_state_ended },           { 'I', thread_state_idle },
	};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (states[i].letter == letter)
			return states[i].state;
	return thread_state_unknown;
}

static bool read_state(struct thread_stack *s)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *name, *end;
	char file[64];

	snprintf(file, sizeof(file), "task/%d/stat", (int)s->tid);
	if (io_process_text(s->pid, file, 4096, &text) < 0)
		return false;
	name = strchr(strbuf_text(&text), '(');
	end = strrchr(strbuf_text(&text), ')');
	if (!name || !end || end < name || !end[1])
		return false;
	snprintf(s->name, sizeof(s->name), "%.*s", (int)(end - name - 1), name + 1);
	s->state = state_of(end[2]);
	return true;
}

static int read_process(struct reader *r, pid_t pid, uint64_t time_ns, uint64_t end_ns,
			struct thread_stacks *out)
{
	_cleanup_list_ DIR *list = folder_list_process(pid, "task");
	struct error why = { 0 };
	const char *name;

	r->target = list ? targets_running(r->targets, pid, time_ns) : NULL;
	if (!r->target)
		return 0;
	if (sampled_python_find(r->targets, r->target, &r->python, &why) < 0 && !out->python.code)
		out->python = why;
	while ((name = folder_next(list)) && out->all.count < THREADS_MAX) {
		struct thread_stack s = { .pid = pid, .tid = (pid_t)strtol(name, NULL, 10) };
		enum stack_end end = stack_end_truncated;
		unsigned frames = 0;

		if (!read_state(&s))
			continue;
		if (s.state == thread_state_ended)
			s.error = -ESRCH;
		else if (clock_monotonic_ns() >= end_ns)
			s.error = -ETIMEDOUT;
		else
			frames = read_thread(r, &s, &end);
		add_row(r, &s, time_ns, frames, end);
		if (vec_push(&out->all, s) < 0)
			return -ENOMEM;
	}
	return 0;
}

static struct reader *new_reader(struct targets *t)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (r)
		r->bytes = malloc(STACK_BYTES_MAX);
	if (r && r->bytes) {
		r->targets = t;
		return r;
	}
	free(r);
	return NULL;
}

static void free_reader(struct reader *r)
{
	free(r->bytes);
	free(r);
}

int thread_stacks_read(struct targets *t, const pid_t *pids, size_t count, uint64_t time_ns,
		       uint64_t end_ns, struct thread_stacks *out)
{
	struct reader *r = new_reader(t);
	int err = r ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && err >= 0; i++) {
		err = read_process(r, pids[i], time_ns, end_ns, out);
		sampled_python_free(r->python);
		r->python = NULL;
	}
	if (r)
		free_reader(r);
	return err;
}

static int read_core_thread(struct reader *r, const struct core_thread *thread, pid_t pid,
			    const char *name, uint64_t time_ns, struct thread_stacks *out)
{
	struct thread_stack s = { .pid = pid, .tid = thread->tid };
	enum stack_end end = stack_end_truncated;
	uint64_t thread_base;
	unsigned frames = 0;

	snprintf(s.name, sizeof(s.name), "%.15s", name);
	r->stack.registers =
		(struct stack_registers){ .known = REGISTERS_ALL, .interrupted = true };
	arch_stopped_registers(&thread->registers, r->stack.registers.at, &thread_base);
	s.error = copy_stack(r, s.tid, thread_base);
	if (s.error == 0)
		frames = unwind(r, &end);
	add_row(r, &s, time_ns, frames, end);
	return vec_push(&out->all, s) < 0 ? -ENOMEM : 0;
}

int thread_stacks_read_core(struct targets *t, const struct core_file *core, uint64_t time_ns,
			    struct thread_stacks *out)
{
	struct reader *r = new_reader(t);
	pid_t pid = core->pid ? core->pid : core->threads.data[0].tid;
	int err = r ? 0 : -ENOMEM;

	if (err == 0) {
		r->target = targets_core(t, pid, core->name, core->command, time_ns);
		err = r->target ? 0 : -ENOMEM;
	}
	if (err == 0 && sampled_python_find(t, r->target, &r->python, &out->python) < 0)
		r->python = NULL;
	for (size_t i = 0; i < core->threads.count && err == 0; i++)
		err = read_core_thread(r, &core->threads.data[i], pid, core->name, time_ns, out);
	if (r) {
		sampled_python_free(r->python);
		free_reader(r);
	}
	return err;
}

void thread_stacks_release(struct thread_stacks *stacks)
{
	vec_release(&stacks->all);
}
