/*
 * interrupt_in_python.c: for test_walk_python.py: interrupts the thread that loads it, thousands of
 * times a second, and walks its Python frames then.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "all_parts.h"
#include "stack/python/python_code.h"
#include "stack/python/python_splice.h"
#include "stack/unwind/unwind_self.h"

#define FRAMES_MAX 256u
#define SAMPLES_MAX 40000u
#define KEPT 24u /* innermost Python frames of a sample that are kept */

struct counts {
	uint64_t samples, complete, exact, partial, unsure, no_python, python_cut;
};

int interrupt_start(unsigned period_us);
void interrupt_stop(struct counts *out);
int interrupt_frame(unsigned sample, unsigned frame, char *name, unsigned room);

static struct stack_modules modules;
static struct stack_walker walker;
static struct python_runtime runtime;
static struct python_eval eval;
static struct python_codes *codes;
static struct counts counts;
static uint32_t kept[SAMPLES_MAX][KEPT]; /* ids of code */
static timer_t timer;

static void keep(const uint64_t *frames, unsigned count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < count && n < KEPT; i++)
		if (frames[i] & FRAME_PYTHON)
			kept[counts.samples][n++] = python_frame_code(frames[i]);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	static uint64_t native[FRAMES_MAX], spliced[2 * FRAMES_MAX];
	static struct python_frame python[FRAMES_MAX + 1];
	struct python_stacks in = { .native = native, .python = python };
	struct stack_registers registers;
	enum python_match match;
	enum stack_end end;
	int saved = errno;
	unsigned n;

	(void)number;
	if (info->si_code != SI_TIMER || counts.samples == SAMPLES_MAX)
		return;
	stack_registers_interrupted(context, &registers);
	in.native_count = stack_walk(&walker, &registers, native, FRAMES_MAX, &end);
	in.native_complete = end == stack_end_complete;
	in.python_count =
		python_walk_interrupted(&runtime, python, FRAMES_MAX, &in.python_complete);
	counts.complete += in.native_complete;
	counts.python_cut += !in.python_complete;
	if (in.native_complete && in.python_complete)
		in.python_count = python_align_interrupted(&eval, native, in.native_count, python,
							   in.python_count);
	python_code_ids(codes, python, in.python_count);
	n = python_splice(&eval, &in, spliced, 2 * FRAMES_MAX, &match);
	keep(spliced, MIN(n, 2 * FRAMES_MAX));
	counts.samples++;
	counts.exact += match == PYTHON_MATCH_EXACT;
	counts.partial += match == PYTHON_MATCH_PARTIAL;
	counts.unsure += match == PYTHON_MATCH_UNSURE;
	counts.no_python += match == PYTHON_MATCH_NONE;
	errno = saved;
}

/* 0; 1: this Python is none that is walked; 2: no timer. */
int interrupt_start(unsigned period_us)
{
	struct sigaction act = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG };
	struct itimerspec times = { .it_interval.tv_nsec = period_us * 1000,
				    .it_value.tv_nsec = period_us * 1000 };
	struct error e = { 0 };

	if (python_runtime_find(&runtime, &e) < 0 || python_eval_find(&runtime, &eval, &e) < 0)
		return 1;
	codes = python_codes_new(PYTHON_CODES_SLOTS, PYTHON_CODES_BYTES);
	stack_modules_init(&modules, STACK_RULE_BYTES);
	compile_all_parts(&modules); /* before the first signal */
	if (!codes || !stack_walker_init(&walker, &modules))
		return 2;
	python_codes_attach(codes, &runtime);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (sigaction(SIGURG, &act, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &times, NULL))
		return 2;
	return 0;
}

void interrupt_stop(struct counts *out)
{
	timer_delete(timer);
	signal(SIGURG, SIG_IGN);
	*out = counts;
}

/*
 * Name of a Python frame of a sample, innermost first. 0: there is no such frame; -1: it has no
 * name.
 */
int interrupt_frame(unsigned sample, unsigned frame, char *name, unsigned room)
{
	struct python_code code;
	unsigned n;

	if (sample >= counts.samples || frame >= KEPT || !kept[sample][frame])
		return 0;
	if (!python_code_get(codes, kept[sample][frame], &code))
		return -1;
	n = MIN(code.name_length, room - 1);
	memcpy(name, code.name, n);
	name[n] = '\0';
	return 1;
}
