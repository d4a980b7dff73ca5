/*
 * walk_agreement.c: LD_PRELOADed into any program, compares the walker's stacks with libunwind's,
 * frame by frame: of running threads that are interrupted each AGREEMENT_US microseconds, wherever
 * they are, and of each AGREEMENT_CALLS-th call of malloc. Where the two differ, glibc's unwinder
 * is asked too. At the end of each process a file AGREEMENT_OUT-PID tells the result, a line for
 * each figure:
 *
 *	KIND stacks N complete N partial N truncated N depth N frames N same N with_us N
 *		with_them N neither N
 *	module PATH frames N innermost N
 *	differ KIND END INDEX ours MODULE+OFFSET… theirs MODULE+OFFSET…
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "stack/unwind/unwind_self.h"
#include "walk_reference.h"

#define WALKERS 160u
#define FRAMES_MAX 512u
#define PATHS 1024u
#define KEPT 24u
#define SHOWN 4u /* frames on both sides of the first difference */

enum kind { interrupted, called, kinds };

struct tally {
	atomic_ullong stacks, ends[4], frames, same, with_us, with_them, neither;
};

struct path {
	_Atomic(struct stack_module *) module;
	atomic_ullong pc, frames, innermost;
	char name[256];
};

struct difference {
	enum kind kind;
	enum stack_end end;
	unsigned at, ours, theirs;
	uint64_t our_frames[FRAMES_MAX], their_frames[FRAMES_MAX];
};

void *__libc_malloc(size_t size);

static const char *const kind_names[kinds] = { "interrupted", "called" };
static const char *const end_names[4] = { "complete", "partial", "truncated", "depth" };
static struct stack_modules modules;
static struct stack_walker *walkers;
static atomic_uint walkers_taken, kept_count, walking;
static atomic_bool ready, paused, stopped;
static struct tally tallies[kinds];
static struct path paths[PATHS];
static struct difference kept[KEPT];
static unsigned period_us, each_call;
static pid_t control;
static pthread_t control_thread;

static __thread struct stack_walker *walker __attribute__((tls_model("initial-exec")));
static __thread sigjmp_buf rescue __attribute__((tls_model("initial-exec")));
static __thread volatile bool rescuing __attribute__((tls_model("initial-exec")));
static __thread bool inside __attribute__((tls_model("initial-exec")));
static __thread unsigned calls __attribute__((tls_model("initial-exec")));

/* --- comparing --- */

static struct stack_walker *walker_of_thread(void)
{
	unsigned n;

	if (!walker && atomic_load(&walkers_taken) < WALKERS) {
		n = atomic_fetch_add(&walkers_taken, 1);
		if (n < WALKERS && stack_walker_init(&walkers[n], &modules))
			walker = &walkers[n];
	}
	return walker;
}

static void count_path(struct stack_module *module, uint64_t pc, bool innermost)
{
	size_t hash = (uintptr_t)module / 16 % PATHS;

	for (unsigned i = 0; i < 32; i++) {
		struct path *p = &paths[(hash + i) % PATHS];
		struct stack_module *none = NULL;

		if (atomic_load(&p->module) == module ||
		    atomic_compare_exchange_strong(&p->module, &none, module) || none == module) {
			atomic_store(&p->pc, pc);
			atomic_fetch_add(&p->frames, 1);
			atomic_fetch_add(&p->innermost, innermost);
			return;
		}
	}
}

static void count_paths(const uint64_t *frames, unsigned count)
{
	const struct stack_map *map = stack_map_enter(&modules, walker->slot);

	for (unsigned i = 0; i < count; i++) {
		uint64_t pc = frame_lookup_address(frames[i]);
		const struct stack_range *range = stack_map_find(map, pc);

		if (range)
			count_path(range->module, pc, i == 0);
	}
	stack_map_leave(&modules, walker->slot);
}

/* How many frames from `first` on are the same in both. */
static unsigned same_frames(const uint64_t *a, unsigned na, const uint64_t *b, unsigned nb,
			    unsigned first)
{
	unsigned i = first;

	while (i < na && i < nb && frame_address(a[i]) == frame_address(b[i]))
		i++;
	return i - first;
}

/* glibc's unwinder follows rules where they are wrong as well, and may fall over. */
static unsigned glibc_walk(uint64_t *frames)
{
	unsigned n = 0;

	if (!sigsetjmp(rescue, 1)) {
		rescuing = true;
		n = (unsigned)backtrace((void **)frames, FRAMES_MAX);
	}
	rescuing = false;
	return n;
}

static void on_fault(int number)
{
	if (rescuing)
		siglongjmp(rescue, 1);
	signal(number, SIG_DFL);
}

/*
 * What glibc's stack of here, which begins in this handler, says from the frame before the
 * difference on.
 */
static void ask_glibc(struct tally *t, const struct difference *d)
{
	uint64_t frames[FRAMES_MAX], before = frame_address(d->our_frames[d->at ? d->at - 1 : 0]);
	unsigned n = glibc_walk(frames), i = 0;

	while (i < n && frames[i] != before)
		i++;
	i++;
	if (d->at && i <= n) {
		bool us = i == n ? d->at == d->ours
				 : d->at < d->ours &&
					   frames[i] == frame_address(d->our_frames[d->at]);
		bool them = i == n ? d->at == d->theirs
				   : d->at < d->theirs && frames[i] == d->their_frames[d->at];

		atomic_fetch_add(us ? &t->with_us : them ? &t->with_them : &t->neither, 1);
		return;
	}
	atomic_fetch_add(&t->neither, 1);
}

static void keep_difference(struct tally *t, const struct difference *d)
{
	unsigned n = atomic_fetch_add(&kept_count, 1);

	ask_glibc(t, d);
	if (n < KEPT)
		kept[n] = *d;
}

static void compare(enum kind kind, const struct stack_registers *registers, ucontext_t *context)
{
	static __thread struct difference d __attribute__((tls_model("initial-exec")));
	struct tally *t = &tallies[kind];
	unsigned first = kind == called; /* two places in one function */
	unsigned same;

	d.kind = kind;
	d.ours = stack_walk(walker, registers, d.our_frames, FRAMES_MAX, &d.end);
	d.theirs = libunwind_walk(context, kind == interrupted, d.their_frames, FRAMES_MAX);
	if (d.ours <= first || d.theirs <= first)
		return;
	count_paths(d.our_frames + first, d.ours - first);
	same = same_frames(d.our_frames, d.ours, d.their_frames, d.theirs, first);
	atomic_fetch_add(&t->stacks, 1);
	atomic_fetch_add(&t->ends[d.end], 1);
	atomic_fetch_add(&t->same, same);
	d.at = first + same;
	/*
	 * Where rules end, frame pointers may lead on, and the stack is marked: nobody can compare
	 * that.
	 */
	if (d.at == d.theirs && d.end == stack_end_truncated)
		d.ours = d.theirs;
	atomic_fetch_add(&t->frames, MAX(d.ours, d.theirs) - first);
	if (d.at < d.ours || d.at < d.theirs)
		keep_difference(t, &d);
}

/* --- when --- */

static bool begin(void)
{
	if (inside || !atomic_load(&ready))
		return false;
	atomic_fetch_add(&walking, 1);
	if (atomic_load(&paused) || !walker_of_thread()) {
		atomic_fetch_sub(&walking, 1);
		return false;
	}
	inside = true;
	return true;
}

static void end(void)
{
	inside = false;
	atomic_fetch_sub(&walking, 1);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	static const uint8_t order[REG_COUNT_] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
						   REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
						   REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
						   REG_R15, REG_RIP };
	const ucontext_t *at = context;
	struct stack_registers registers = { .known = (1u << REG_COUNT_) - 1, .interrupted = true };
	int saved = errno;

	(void)number;
	(void)info;
	for (unsigned i = 0; i < REG_COUNT_; i++)
		registers.at[i] = (uint64_t)at->uc_mcontext.gregs[order[i]];
	if (begin()) {
		compare(interrupted, &registers, context);
		end();
	}
	errno = saved;
}

__attribute__((noinline)) static void compare_call(void)
{
	struct stack_registers registers;
	ucontext_t context;
	int saved = errno;

	if (begin()) {
		STACK_CAPTURE(&registers);
		libunwind()->getcontext(&context);
		compare(called, &registers, &context);
		end();
	}
	errno = saved;
}

EXPORT void *malloc(size_t size);
EXPORT void *malloc(size_t size)
{
	if (each_call && ++calls % each_call == 0)
		compare_call();
	return __libc_malloc(size);
}

/* --- the thread that interrupts the others --- */

static bool is_running(const char *tid)
{
	char path[64], text[256], *end_of_name;
	ssize_t n = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	file = fopen(path, "re");
	if (file) {
		n = (ssize_t)fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	end_of_name = strrchr(text, ')');
	return end_of_name && end_of_name[1] == ' ' && end_of_name[2] == 'R';
}

static void interrupt_all(const char *const *tids, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (is_running(tids[i]))
			syscall(SYS_tgkill, getpid(), atoi(tids[i]), SIGURG);
}

static unsigned list_threads(char names[][16], const char **tids, unsigned max)
{
	char bytes[8192];
	unsigned count = 0;
	int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0)
		for (long at = 0; at < n; at += *(uint16_t *)(bytes + at + 16)) {
			const char *name = bytes + at + 19;

			if (!isdigit(*name) || atoi(name) == control || count == max)
				continue;
			snprintf(names[count], sizeof(names[0]), "%s", name);
			tids[count] = names[count];
			count++;
		}
	if (fd >= 0)
		close(fd);
	return count;
}

static void name_paths(void)
{
	Dl_info info;

	for (unsigned i = 0; i < PATHS; i++)
		if (atomic_load(&paths[i].pc) && !paths[i].name[0] &&
		    dladdr((void *)atomic_load(&paths[i].pc), &info))
			snprintf(paths[i].name, sizeof(paths[i].name), "%s", info.dli_fname);
}

static void *run_control(void *unused)
{
	static char names[512][16];
	static const char *tids[512];
	const struct timespec period = { 0, (long)period_us * 1000 };
	unsigned count = 0;

	control = gettid();
	inside = true;
	for (unsigned round = 0; !atomic_load(&stopped); round++) {
		if (round % 32 == 0)
			count = list_threads(names, tids, 512);
		stack_modules_update(&modules, NS_PER_S);
		if (round % 128 == 0)
			name_paths();
		atomic_store(&ready, true);
		interrupt_all(tids, count);
		nanosleep(&period, NULL);
	}
	return unused;
}

static void start(void)
{
	sigset_t all, old;

	walkers = calloc(WALKERS, sizeof(*walkers));
	if (!walkers)
		abort();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&control_thread, NULL, run_control, NULL))
		abort();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* --- forks --- */

static void before_fork(void)
{
	atomic_store(&paused, true);
	while (!inside && atomic_load(&walking))
		sched_yield();
}

static void after_fork(void)
{
	atomic_store(&paused, false);
}

static void after_fork_in_child(void)
{
	stack_modules_after_fork(&modules);
	memset(tallies, 0, sizeof(tallies));
	memset(paths, 0, sizeof(paths));
	atomic_store(&kept_count, 0);
	atomic_store(&walkers_taken, 0);
	atomic_store(&walking, 0);
	atomic_store(&ready, false);
	atomic_store(&paused, false);
	walker = NULL;
	start();
}

/* --- the beginning and the end --- */

static void print_frame(FILE *out, uint64_t frame)
{
	uint64_t pc = frame_address(frame);
	Dl_info info;

	if (pc && dladdr((void *)(pc - 1), &info))
		fprintf(out, " %s+%#lx", info.dli_fname, pc - (uint64_t)info.dli_fbase);
	else
		fprintf(out, " %#lx", pc);
}

static void print_difference(FILE *out, const struct difference *d)
{
	unsigned from = d->at > SHOWN ? d->at - SHOWN : 0, to = d->at + SHOWN;

	fprintf(out, "differ %s %s %u of %u and %u: ours", kind_names[d->kind], end_names[d->end],
		d->at, d->ours, d->theirs);
	for (unsigned i = from; i < d->ours && i < to; i++)
		print_frame(out, d->our_frames[i]);
	fprintf(out, " theirs");
	for (unsigned i = from; i < d->theirs && i < to; i++)
		print_frame(out, d->their_frames[i]);
	fputc('\n', out);
}

static void print_tally(FILE *out, const char *name, const struct tally *t)
{
	fprintf(out, "%s stacks %llu", name, t->stacks);
	for (unsigned i = 0; i < 4; i++)
		fprintf(out, " %s %llu", end_names[i], t->ends[i]);
	fprintf(out, " frames %llu same %llu with_us %llu with_them %llu neither %llu\n", t->frames,
		t->same, t->with_us, t->with_them, t->neither);
}

static void report(void)
{
	const char *name = getenv("AGREEMENT_OUT");
	char path[512];
	FILE *out;

	if (!name || atomic_exchange(&stopped, true))
		return;
	inside = true;
	before_fork();
	snprintf(path, sizeof(path), "%s-%d", name, getpid());
	out = fopen(path, "we");
	if (!out)
		return;
	for (unsigned i = 0; i < kinds; i++)
		print_tally(out, kind_names[i], &tallies[i]);
	name_paths();
	for (unsigned i = 0; i < PATHS; i++)
		if (paths[i].frames)
			fprintf(out, "module %s frames %llu innermost %llu\n", paths[i].name,
				paths[i].frames, paths[i].innermost);
	for (unsigned i = 0; i < kept_count && i < KEPT; i++)
		print_difference(out, &kept[i]);
	fclose(out);
}

/* Workers of Python's multiprocessing end so, without destructors. */
EXPORT void _exit(int status)
{
	report();
	for (;;)
		syscall(SYS_exit_group, status);
}

__attribute__((destructor)) static void finish(void)
{
	report();
}

__attribute__((constructor)) static void load(void)
{
	const char *us = getenv("AGREEMENT_US"), *each = getenv("AGREEMENT_CALLS");
	struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
	uint64_t warm[8];

	if (!getenv("AGREEMENT_OUT") || !us || !each)
		return;
	if (!libunwind()) {
		fprintf(stderr, "no libunwind\n");
		exit(77);
	}
	(void)!backtrace((void **)warm, 8);
	period_us = (unsigned)atoi(us);
	each_call = (unsigned)atoi(each);
	stack_modules_init(&modules, 8 * STACK_RULE_BYTES);
	sigaction(SIGURG, &act, NULL);
	signal(SIGSEGV, on_fault);
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
	start();
}
