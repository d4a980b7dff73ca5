#include "record/inject_remote/remote_thread.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "arch/processor.h"
#include "base/clock.h"

#define PAGE 4096u
#define TEXT_AT PAGE /* in t->memory: the code has the first page, the text the second */
#define MEMORY_BYTES ((uint64_t)REMOTE_STACK_BYTES + 2 * PAGE)
#define STOP_NS (PITOT_SLOWNESS * NS_PER_S)
#define POLL_NS (20 * NS_PER_US)
#define POLL_MOST_NS NS_PER_MS
#define SYSTEM_CALL_STOP (SIGTRAP | 0x80)
#define EVENT_STOP(status) ((status) >> 16 == PTRACE_EVENT_STOP)
#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))
/* Signals of the code itself. Blocked, they would lose their handlers. */
#define OWN_SIGNALS                                                                                \
	(SIGNAL_BIT(SIGSEGV) | SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGILL) | SIGNAL_BIT(SIGBUS) |     \
	 SIGNAL_BIT(SIGFPE) | SIGNAL_BIT(SIGSYS))
/* What a system call that was interrupted returns inside of the kernel, which then restarts it. */
enum { RESTART_SYSTEM = -512, RESTART_NO_HANDLER = -514, RESTART_BLOCK = -516 };

/* --- memory --- */

bool remote_read(pid_t pid, uint64_t address, void *out, size_t size)
{
	struct iovec local = { out, size }, remote = { (void *)(uintptr_t)address, size };

	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool remote_write(pid_t pid, uint64_t address, const void *bytes, size_t size)
{
	struct iovec local = { (void *)(uintptr_t)bytes, size },
		     remote = { (void *)(uintptr_t)address, size };

	return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* --- stops --- */

/*
 * Waits until the thread stops. Returns its status, -ETIMEDOUT at end_ns, or another negative errno
 * if it has ended. Never blocks in waitpid(): Linux does not wake the tracer of a main thread in
 * whose place another one executes a program.
 */
static int await_stop(const struct remote_thread *t, uint64_t end_ns)
{
	struct timespec pause = { .tv_nsec = (long)POLL_NS };
	int status;
	pid_t rc;

	for (;;) {
		rc = waitpid(t->tid, &status, __WALL | WNOHANG);
		if (rc == t->tid)
			return WIFSTOPPED(status) ? status : -ESRCH;
		if (rc < 0 && errno != EINTR)
			return -ESRCH;
		if (clock_machine_ns() >= end_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
		pause.tv_nsec = MIN(2 * pause.tv_nsec, (long)POLL_MOST_NS);
	}
}

static int proceed(const struct remote_thread *t, int request, int number)
{
	return ptrace((enum __ptrace_request)request, t->tid, NULL, (void *)(uintptr_t)number) < 0
		       ? -errno
		       : 0;
}

/*
 * Interrupts the thread, which runs or (resume) is stopped, and delivers the signals that come
 * first. Returns 0 when it has stopped, -EBUSY if that is because the program was told to stop.
 */
static int interrupt(const struct remote_thread *t, bool resume, uint64_t end_ns)
{
	int status, rc = proceed(t, PTRACE_INTERRUPT, 0);

	if (rc == 0 && resume)
		rc = proceed(t, PTRACE_CONT, 0);
	while (rc == 0) {
		status = await_stop(t, end_ns);
		if (status < 0)
			return status;
		if (EVENT_STOP(status))
			return WSTOPSIG(status) == SIGTRAP ? 0 : -EBUSY;
		rc = proceed(t, PTRACE_CONT, WSTOPSIG(status));
	}
	return rc;
}

static int get_registers(const struct remote_thread *t, struct user_regs_struct *out)
{
	struct iovec part = { out, sizeof(*out) };

	return ptrace(PTRACE_GETREGSET, t->tid, (void *)(uintptr_t)NT_PRSTATUS, &part) < 0 ? -errno
											   : 0;
}

static int set_registers(const struct remote_thread *t, const struct user_regs_struct *registers)
{
	struct user_regs_struct copy = *registers;
	struct iovec part = { &copy, sizeof(copy) };

	return ptrace(PTRACE_SETREGSET, t->tid, (void *)(uintptr_t)NT_PRSTATUS, &part) < 0 ? -errno
											   : 0;
}

/*
 * Whether the thread is in the expected call, and the kernel continues it by itself. Some calls,
 * such as epoll_wait(), would return EINTR: these shall begin again, unless a signal comes first
 * that the program handles.
 */
static bool continues(struct remote_thread *t)
{
	static const uint8_t instruction[] = ARCH_SYSTEM_CALL;
	uint64_t registers[REG_COUNT_], base;
	uint8_t code[sizeof(instruction)];
	long result, call = arch_stopped_call(&t->registers, &result);

	if (call < 0)
		return false;
	if (result == -EINTR)
		arch_set_result(&t->registers, result = RESTART_NO_HANDLER);
	arch_stopped_registers(&t->registers, registers, &base);
	return call == t->call && result <= RESTART_SYSTEM && result >= RESTART_BLOCK &&
	       remote_read(t->pid, registers[REG_RA_] - sizeof(code), code, sizeof(code)) &&
	       memcmp(code, instruction, sizeof(code)) == 0;
}

int remote_thread_stop(struct remote_thread *t, pid_t pid, pid_t tid, long call)
{
	int rc;

	*t = (struct remote_thread){ .pid = pid, .tid = tid, .call = call };
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)(uintptr_t)PTRACE_O_TRACESYSGOOD) < 0)
		return -errno;
	rc = interrupt(t, false, clock_machine_ns() + STOP_NS);
	if (rc == 0)
		rc = get_registers(t, &t->registers);
	if (rc == 0 && continues(t))
		return 0;
	if (rc == 0)
		rc = remote_thread_leave(t);
	if (rc == 0)
		return -EAGAIN;
	/* A thread that has not stopped yet does when it can, and goes on when we have ended. */
	proceed(t, PTRACE_DETACH, 0);
	return rc;
}

/* --- calls --- */

/*
 * The signal with which the thread has to continue. While it is away that is SIGSTOP, which cannot
 * be blocked: it stops when we have left.
 */
static int signal_of(int status)
{
	return EVENT_STOP(status) || WSTOPSIG(status) == SYSTEM_CALL_STOP ? 0 : WSTOPSIG(status);
}

static int system_call(struct remote_thread *t, long number, const uint64_t *arguments,
		       uint64_t *result)
{
	struct user_regs_struct registers = t->registers;
	int rc, stops = 0, pending = 0;

	arch_begin_system_call(&registers, number, arguments);
	rc = set_registers(t, &registers);
	while (rc == 0 && stops < 2) { /* at its beginning, and at its end */
		int status = proceed(t, PTRACE_SYSCALL, pending);

		if (status == 0)
			status = await_stop(t, UINT64_MAX);
		if (status < 0)
			return status;
		stops += WSTOPSIG(status) == SYSTEM_CALL_STOP;
		pending = signal_of(status);
	}
	if (rc == 0)
		rc = get_registers(t, &registers);
	*result = arch_call_result(&registers);
	return rc < 0 ? rc : *result > -UINT64_C(4096) ? (int)*result : 0;
}

/* Registers that calls change and that the program may use across its system call. */
static int save(struct remote_thread *t)
{
	struct iovec vectors = { t->vectors, sizeof(t->vectors) };
	uint64_t blocked = ~OWN_SIGNALS;

	if (ptrace(PTRACE_GETREGSET, t->tid, (void *)(uintptr_t)ARCH_VECTOR_REGISTERS, &vectors) <
		    0 ||
	    ptrace(PTRACE_GETSIGMASK, t->tid, (void *)sizeof(t->signals), &t->signals) < 0)
		return -errno;
	if (vectors.iov_len == sizeof(t->vectors))
		return -E2BIG;
	t->vectors_size = vectors.iov_len;
	t->is_away = true;
	return ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(blocked), &blocked) < 0 ? -errno
											: 0;
}

static int write_memory(struct remote_thread *t, const char *text)
{
	static const uint8_t code[] = ARCH_CALL_CODE;
	const uint64_t protect[ARCH_SYSTEM_CALL_ARGUMENTS] = { t->memory, PAGE,
							       PROT_READ | PROT_EXEC };
	uint64_t result;

	if (!remote_write(t->pid, t->memory, code, sizeof(code)) ||
	    !remote_write(t->pid, t->memory + TEXT_AT, text, strlen(text) + 1))
		return -EFAULT;
	return system_call(t, SYS_mprotect, protect, &result);
}

int remote_thread_prepare(struct remote_thread *t, const char *text, uint64_t *text_at)
{
	const uint64_t map[ARCH_SYSTEM_CALL_ARGUMENTS] = { 0, MEMORY_BYTES, PROT_READ | PROT_WRITE,
							   MAP_PRIVATE | MAP_ANONYMOUS,
							   UINT64_MAX };
	uint64_t memory;
	int rc = strlen(text) < PAGE ? save(t) : -ENAMETOOLONG;

	if (rc == 0)
		rc = system_call(t, SYS_mmap, map, &memory);
	if (rc < 0)
		return rc;
	t->memory = memory;
	*text_at = memory + TEXT_AT;
	return write_memory(t, text);
}

/* Whether the thread has stopped at the end of the call. */
static bool has_returned(const struct remote_thread *t, int status, uint64_t *result)
{
	struct user_regs_struct now;
	uint64_t registers[REG_COUNT_], base;

	if (EVENT_STOP(status) || WSTOPSIG(status) != SIGTRAP || get_registers(t, &now) < 0)
		return false;
	arch_stopped_registers(&now, registers, &base);
	*result = arch_call_result(&now);
	return registers[REG_RA_] == t->memory + ARCH_CALL_END;
}

int remote_thread_call(struct remote_thread *t, uint64_t function, uint64_t first, uint64_t second,
		       uint64_t *result)
{
	struct user_regs_struct registers = t->registers;
	int rc, pending = 0;

	arch_begin_call(&registers, t->memory, t->memory + MEMORY_BYTES, function, first, second);
	rc = set_registers(t, &registers);
	while (rc == 0) {
		rc = proceed(t, PTRACE_CONT, pending);
		if (rc == 0)
			rc = await_stop(t, UINT64_MAX);
		if (rc < 0)
			return rc;
		if (has_returned(t, rc, result))
			return 0;
		pending = signal_of(rc);
		if (pending && (OWN_SIGNALS & SIGNAL_BIT(pending)))
			return -EFAULT;
		rc = 0;
	}
	return rc;
}

/* --- the end --- */

static int restore(struct remote_thread *t)
{
	const uint64_t unmap[ARCH_SYSTEM_CALL_ARGUMENTS] = { t->memory, MEMORY_BYTES };
	struct iovec vectors = { t->vectors, t->vectors_size };
	uint64_t result;
	int rc = t->memory ? system_call(t, SYS_munmap, unmap, &result) : 0;

	/* Only after this stop the kernel looks whether there is a system call to be restarted. */
	if (rc == 0)
		rc = interrupt(t, true, UINT64_MAX);
	if (rc == -EBUSY) /* it stops when it is detached */
		rc = 0;
	if (rc == 0 &&
	    (ptrace(PTRACE_SETREGSET, t->tid, (void *)(uintptr_t)ARCH_VECTOR_REGISTERS, &vectors) <
		     0 ||
	     ptrace(PTRACE_SETSIGMASK, t->tid, (void *)sizeof(t->signals), &t->signals) < 0))
		rc = -errno;
	return rc;
}

int remote_thread_leave(struct remote_thread *t)
{
	int rc = t->is_away ? restore(t) : 0;

	if (rc == 0)
		rc = set_registers(t, &t->registers);
	return rc < 0 ? rc : proceed(t, PTRACE_DETACH, 0);
}
