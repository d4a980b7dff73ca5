/*
 * remote_filter.c: filters are executed for one number of a call at a time, along all ways that
 * unknown values can take. BPF jumps only forward, so one pass over the instructions is enough.
 */
#include "record/inject_remote/remote_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "arch/processor.h"

#define FILTERS_MAX 64u
#define CALLS_MAX 512u /* numbers of system calls; Linux 6.18 has 470 */

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

/* Without these nothing is loaded, or nobody can attach. Each of a pair does. */
static const struct {
	const char *name;
	unsigned call, other;
} needed[] = {
	{ "mmap", SYS_mmap, SYS_mmap },
	{ "mprotect", SYS_mprotect, SYS_mprotect },
	{ "munmap", SYS_munmap, SYS_munmap },
	{ "openat", SYS_openat, SYS_openat },
	{ "read", SYS_read, SYS_read },
	{ "close", SYS_close, SYS_close },
	{ "fstat", SYS_fstat, SYS_newfstatat },
	{ "futex", SYS_futex, SYS_futex },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, SYS_rt_sigprocmask },
	{ "clone", SYS_clone, SYS_clone3 },
	{ "socket", SYS_socket, SYS_socket },
	{ "bind", SYS_bind, SYS_bind },
	{ "listen", SYS_listen, SYS_listen },
	{ "accept4", SYS_accept4, SYS_accept4 },
	{ "recvmsg", SYS_recvmsg, SYS_recvmsg },
	{ "sendmsg", SYS_sendmsg, SYS_sendmsg },
};

/* The accumulator before an instruction. */
struct state {
	bool is_reached, is_known;
	uint32_t value;
};

static void reach(struct state *states, size_t count, size_t at, bool is_known, uint32_t value)
{
	struct state *s;

	if (at >= count)
		return;
	s = &states[at];
	if (!s->is_reached)
		*s = (struct state){ true, is_known, value };
	else
		s->is_known &= is_known && s->value == value;
}

static enum filter_action action_of(uint32_t returned)
{
	switch (returned & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return FILTER_ALLOWS;
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE: /* nobody traces it but us: the call returns ENOSYS */
		return FILTER_REFUSES;
	case SECCOMP_RET_USER_NOTIF:
		return FILTER_ASKS;
	default:
		return FILTER_ENDS;
	}
}

static bool holds(uint16_t operation, uint32_t value, uint32_t with)
{
	switch (operation) {
	case BPF_JEQ:
		return value == with;
	case BPF_JGT:
		return value > with;
	case BPF_JGE:
		return value >= with;
	default:
		return value & with;
	}
}

static void jump(const struct sock_filter *i, size_t at, struct state s, struct state *states,
		 size_t count)
{
	bool is_decided = s.is_known && BPF_SRC(i->code) == BPF_K, is_true;

	if (BPF_OP(i->code) == BPF_JA) {
		reach(states, count, at + 1 + (size_t)i->k, s.is_known, s.value);
		return;
	}
	is_true = is_decided && holds(BPF_OP(i->code), s.value, i->k);
	if (!is_decided || is_true)
		reach(states, count, at + 1 + i->jt, s.is_known, s.value);
	if (!is_decided || !is_true)
		reach(states, count, at + 1 + i->jf, s.is_known, s.value);
}

/* The accumulator after an instruction that is no jump. */
static struct state load(const struct sock_filter *i, struct state s, uint32_t call)
{
	switch (i->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		s.is_known = i->k == offsetof(struct seccomp_data, nr) ||
			     i->k == offsetof(struct seccomp_data, arch);
		s.value = i->k == offsetof(struct seccomp_data, nr) ? call : ARCH_AUDIT;
		return s;
	case BPF_LD | BPF_IMM:
		s.is_known = true;
		s.value = i->k;
		return s;
	}
	if (BPF_CLASS(i->code) == BPF_LD || BPF_CLASS(i->code) == BPF_ALU ||
	    i->code == (BPF_MISC | BPF_TXA))
		s.is_known = false;
	return s;
}

struct filter_verdict filter_judge(const struct sock_filter *filter, size_t count, uint32_t call)
{
	struct filter_verdict verdict = { FILTER_ENDS, FILTER_ALLOWS };
	struct state states[BPF_MAXINSNS] = { { .is_reached = true } };
	bool has_ended = false;

	count = MIN(count, BPF_MAXINSNS);
	for (size_t at = 0; at < count; at++) {
		const struct sock_filter *i = &filter[at];
		struct state s = states[at];
		enum filter_action action = FILTER_ENDS;

		if (!s.is_reached)
			continue;
		if (BPF_CLASS(i->code) == BPF_JMP) {
			jump(i, at, s, states, count);
		} else if (BPF_CLASS(i->code) != BPF_RET) {
			s = load(i, s, call);
			reach(states, count, at + 1, s.is_known, s.value);
		} else {
			if (BPF_RVAL(i->code) == BPF_K)
				action = action_of(i->k);
			else if (s.is_known)
				action = action_of(s.value);
			verdict.best = MIN(verdict.best, action);
			verdict.worst = MAX(verdict.worst, action);
			has_ended = true;
		}
	}
	return has_ended ? verdict : (struct filter_verdict){ FILTER_ENDS, FILTER_ENDS };
}

/* --- of a thread --- */

static int judge_all(pid_t pid, const struct sock_filter *filter, size_t count, struct error *e)
{
	for (unsigned call = 0; call < CALLS_MAX; call++)
		if (filter_judge(filter, count, call).worst == FILTER_ENDS)
			return error_set(e, E_UNSUPPORTED,
					 "process %d has a seccomp filter, which would end it if "
					 "the recorder or CUPTI made system call %u: prepare the "
					 "program with PITOT_IDLE=1",
					 (int)pid, call);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (filter_judge(filter, count, needed[i].call).best != FILTER_ALLOWS &&
		    filter_judge(filter, count, needed[i].other).best != FILTER_ALLOWS)
			return error_set(
				e, E_UNSUPPORTED,
				"process %d has a seccomp filter, which does not allow %s: "
				"the recorder cannot be loaded into it",
				(int)pid, needed[i].name);
	return 0;
}

int remote_filter_check(pid_t pid, pid_t tid, struct error *e)
{
	for (uintptr_t n = 0; n < FILTERS_MAX; n++) {
		struct sock_filter filter[BPF_MAXINSNS];
		long count = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, n, NULL);
		int rc;

		if (count < 0 && errno == ENOENT)
			return 0;
		if (count > 0 && count <= BPF_MAXINSNS)
			count = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, n,
				       filter);
		if (count <= 0 || count > BPF_MAXINSNS)
			return error_set(
				e, E_UNSUPPORTED,
				"process %d has a seccomp filter, which may end it for the system "
				"calls of the recorder, and which cannot be read (%s): run pitot "
				"with sudo outside of its container, or prepare the program with "
				"PITOT_IDLE=1",
				(int)pid, count < 0 ? strerror(errno) : "its length");
		rc = judge_all(pid, filter, (size_t)count, e);
		if (rc < 0)
			return rc;
	}
	return error_set(e, E_UNSUPPORTED, "process %d has more than %u seccomp filters", (int)pid,
			 FILTERS_MAX);
}
