/* link: -rdynamic */
/*
 * The walker against glibc's and libunwind's, frame by frame, through code of all kinds; and, one
 * instruction at a time, against what the stack must be.
 */
#include "stack/unwind/unwind_self.h"

#include <stdatomic.h>
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "all_parts.h"
#include "walk_bytes.h"
#include "walk_reference.h"

#define FRAMES_MAX 512u
#define TIMER_STEPS 3000u

void bare_frame(void (*call)(void));
void bare_none(void (*call)(void));
void by_saved(void (*call)(void));
void by_memory(void (*call)(void));
void by_unknown(void (*call)(void));

static struct stack_modules modules;
static __thread struct stack_walker *walker;
static atomic_uint checks; /* stacks compared */

static struct stack_walker *walker_of_thread(void)
{
	if (!walker) {
		walker = malloc(sizeof(*walker));
		assert_true(stack_walker_init(walker, &modules));
	}
	return walker;
}

static void forget_walker(void)
{
	stack_walker_release(walker);
	free(walker);
	walker = NULL;
}

/*
 * Two walks that began in the same function; under a sanitizer theirs has a frame of its own before
 * that.
 */
static void assert_same(const uint64_t *ours, unsigned our_count, const uint64_t *theirs,
			unsigned their_count)
{
	if (our_count > 1 && their_count > 2 && theirs[2] == ours[1]) {
		theirs++;
		their_count--;
	}
	for (unsigned i = 1; i < our_count && i < their_count; i++)
		if (frame_address(ours[i]) != theirs[i])
			fail_msg("frame %u of %u: %#lx, but must be %#lx", i, our_count,
				 frame_address(ours[i]), theirs[i]);
	assert_int_equal(our_count, their_count);
	checks++;
}

/* Here: our stack is that of glibc and that of libunwind, and complete. */
__attribute__((noinline)) static void check_here(void)
{
	uint64_t ours[FRAMES_MAX], theirs[REFERENCE_MAX];
	struct stack_registers registers;
	ucontext_t context;
	enum stack_end end;
	unsigned n, m;

	STACK_CAPTURE(&registers);
	n = stack_walk(walker_of_thread(), &registers, ours, FRAMES_MAX, &end);
	m = (unsigned)backtrace((void **)theirs, REFERENCE_MAX);
	assert_same(ours, n, theirs, m);
	assert_int_equal(end, stack_end_complete);
	if (libunwind()) {
		libunwind()->getcontext(&context);
		m = libunwind_walk(&context, false, theirs, REFERENCE_MAX);
		assert_same(ours, n, theirs, m);
	}
}

static void *target(const char *name)
{
	static void *module;

	if (!module) {
		module = dlopen(STACK_MODULES "/walk_targets.so", RTLD_NOW);
		if (!module)
			fail_msg("%s", dlerror());
		compile_all_parts(&modules);
	}
	return dlsym(module, name);
}

static void plain_calls(void **state)
{
	(void)state;
	check_here();
}

__attribute__((noinline)) static void recurse(int depth, void (*call)(void))
{
	volatile char *room = alloca((size_t)(depth * 40 + 1));

	room[0] = 1;
	if (depth)
		recurse(depth - 1, call);
	else
		call();
	room[0] = 2;
}

static void deep_and_wide_frames(void **state)
{
	(void)state;
	recurse(200, check_here);
}

/*
 * From every depth, so that a stack shares its callers with the one before, or looks like it
 * elsewhere.
 */
__attribute__((noinline)) static void recurse_checking(int depth, void (*call)(void))
{
	volatile char room[48];

	room[depth % 48] = 1;
	call();
	if (depth) {
		recurse_checking(depth - 1, call);
		if (depth % 3 == 0)
			recurse(depth, call);
	}
	call();
	room[depth % 48]++;
}

static void stacks_like_the_last_one(void **state)
{
	(void)state;
	recurse_checking(60, check_here);
	recurse(3, check_here);
	recurse_checking(12, check_here);
}

static int compare_and_check(const void *a, const void *b)
{
	static int calls;

	if (++calls % 10 == 0)
		check_here();
	return *(const int *)a - *(const int *)b;
}

static void callbacks_of_libc(void **state)
{
	int numbers[64], key = 5;

	(void)state;
	for (int i = 0; i < 64; i++)
		numbers[i] = i * 31 % 61;
	qsort(numbers, 64, sizeof(numbers[0]), compare_and_check);
	(void)!bsearch(&key, numbers, 64, sizeof(numbers[0]), compare_and_check);
}

static void optimised_cplusplus(void **state)
{
	unsigned before = checks;

	(void)state;
	((int (*)(void (*)(void)))target("target_exceptions"))(check_here);
	((int (*)(void (*)(void)))target("target_sort"))(check_here);
	((double (*)(void (*)(void)))target("target_virtual"))(check_here);
	((int (*)(void (*)(void), int))target("target_recurse"))(check_here, 100);
	assert_true(checks > before + 10);
}

/* The rules that only assembly has. glibc knows them all. */
static void odd_rules(void **state)
{
	(void)state;
	by_saved(check_here);
	by_memory(check_here);
	by_signature(check_here);
}

static void *check_in_thread(void *argument)
{
	check_here();
	recurse(20, check_here);
	((int (*)(void (*)(void)))target("target_exceptions"))(check_here);
	forget_walker();
	return argument;
}

static void threads_end_at_their_start(void **state)
{
	pthread_t thread[8];

	(void)state;
	target("target_sort");
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, check_in_thread, NULL), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

/* --- signals --- */

static void handle_and_check(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	check_here();
}

static void with_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags,
			 void (*what)(void))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags }, old;

	sigaction(number, &action, &old);
	what();
	sigaction(number, &old, NULL);
}

static void raise_it(void)
{
	raise(SIGUSR1);
}

static void raise_deep(void)
{
	recurse(10, raise_it);
}

static void signal_handlers(void **state)
{
	(void)state;
	with_handler(SIGUSR1, handle_and_check, 0, raise_deep);
}

static void signal_handlers_on_their_own_stack(void **state)
{
	stack_t stack = { .ss_sp = malloc(1 << 20), .ss_size = 1 << 20 },
		none = { .ss_flags = SS_DISABLE };

	(void)state;
	sigaltstack(&stack, NULL);
	with_handler(SIGUSR1, handle_and_check, SA_ONSTACK, raise_deep);
	sigaltstack(&none, NULL);
	free(stack.ss_sp);
}

/* --- at every instruction --- */

static uint64_t
	outer[FRAMES_MAX]; /* the stack of stepped(), whose caller's are at the end of all */
static unsigned outer_count;
static unsigned steps, incomplete, different;
static uint64_t first_wrong;

static void compare_tail(const uint64_t *frames, unsigned n, enum stack_end end, uint64_t pc)
{
	steps++;
	/* All but stepped()'s own frame, where the pc moves on. */
	if (end != stack_end_complete)
		incomplete++;
	else if (n < outer_count || memcmp(frames + n - (outer_count - 1), outer + 1,
					   (outer_count - 1) * sizeof(*frames)) != 0)
		different++;
	else
		return;
	if (!first_wrong)
		first_wrong = pc;
}

static void single_step(int signal, siginfo_t *info, void *context)
{
	uint64_t frames[FRAMES_MAX];
	struct stack_registers registers;
	enum stack_end end;
	unsigned n;

	(void)signal;
	(void)info;
	stack_registers_interrupted(context, &registers);
	n = stack_walk(walker, &registers, frames, FRAMES_MAX, &end);
	compare_tail(frames, n, end, registers.at[REG_RA_]);
}

/* --- stacks that cannot be walked to their end --- */

static enum stack_end end_here;
static unsigned count_here;
static uint64_t frames_here[FRAMES_MAX];

__attribute__((noinline)) static void walk_here(void)
{
	struct stack_registers registers;

	STACK_CAPTURE(&registers);
	count_here = stack_walk(walker_of_thread(), &registers, frames_here, FRAMES_MAX, &end_here);
}

__attribute__((noinline)) static bool reaches(uint64_t frame)
{
	for (unsigned i = 0; i < count_here; i++)
		if (frames_here[i] == frame)
			return true;
	return false;
}

/* The return address of whoever calls this: the outer part of any stack that goes through it. */
__attribute__((noinline)) static uint64_t call_through(void (*code)(void (*)(void)))
{
	code(walk_here);
	return (uint64_t)__builtin_return_address(0);
}

static void code_without_rules(void **state)
{
	uint64_t caller;

	(void)state;
	caller = call_through(bare_frame);
	assert_int_equal(end_here, stack_end_guessed);
	assert_true(reaches(caller));
	call_through(bare_none);
	assert_int_equal(end_here, stack_end_truncated);
	assert_int_equal(count_here, 2);
	call_through(by_unknown);
	assert_int_equal(end_here, stack_end_truncated);
	assert_int_equal(count_here, 2);
}

static void code_made_at_run_time(void **state)
{
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*call)(void (*)(void));
	uint64_t caller;

	(void)state;
	memcpy(page, made_code, sizeof(made_code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache((char *)page, (char *)page + sizeof(made_code));
	memcpy(&call, &page, sizeof(call));
	caller = call_through(call);
	assert_int_equal(end_here, stack_end_guessed);
	assert_true(reaches((uint64_t)page + MADE_CODE_RETURN));
	assert_true(reaches(caller));
	munmap(page, 4096);
}

/* As if interrupted at `pc` in a PLT, on the way to this function, after so many pushes. */
__attribute__((noinline)) static void walk_from_plt(uint64_t pc, unsigned pushed)
{
	uint64_t cfa = (uint64_t)__builtin_dwarf_cfa(), *fp = __builtin_frame_address(0);
	uint64_t caller = (uint64_t)__builtin_return_address(0);
	struct stack_registers registers = { .interrupted = true };

	registers.at[REG_RA_] = pc;
	registers.at[REG_SP_] = cfa - CALL_PUSHES - 8 * pushed;
	registers.at[REG_FP_] = fp[0];
	registers.known = REGISTER_BIT(REG_RA_) | REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_FP_);
	set_link(&registers, caller);
	count_here = stack_walk(walker_of_thread(), &registers, frames_here, FRAMES_MAX, &end_here);
	assert_int_equal(frames_here[0], pc | FRAME_INTERRUPTED);
	assert_true(count_here > 2 && frames_here[1] == caller);
	assert_int_equal(end_here, stack_end_complete);
}

/* lld's have no rules. */
static void plts_without_rules(void **state)
{
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	memcpy(page + 64, plt_code, sizeof(plt_code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	for (unsigned i = 0; i < sizeof(plt_places) / sizeof(plt_places[0]); i++)
		walk_from_plt((uint64_t)page + 64 + plt_places[i].at, plt_places[i].pushed);
	munmap(page, 4096);
}

static void depth_is_limited(void **state)
{
	static uint64_t many[20100], few[64];
	struct stack_registers registers;
	enum stack_end end;
	unsigned n;

	(void)state;
	STACK_CAPTURE(&registers);
	n = stack_walk(walker_of_thread(), &registers, few, 2, &end);
	assert_int_equal(n, 2);
	assert_int_equal(end, stack_end_depth);
	n = stack_walk(walker_of_thread(), &registers, many, 0, &end);
	assert_int_equal(n, 0);
	assert_int_equal(end, stack_end_depth);
}

static uint64_t very_many[20100];
static unsigned very_many_count;
static enum stack_end very_many_end;

static void walk_it_all(void)
{
	struct stack_registers registers;

	STACK_CAPTURE(&registers);
	count_here = stack_walk(walker_of_thread(), &registers, frames_here, FRAMES_MAX, &end_here);
	very_many_count =
		stack_walk(walker_of_thread(), &registers, very_many, 20100, &very_many_end);
}

static void *recurse_very_deeply(void *argument)
{
	((int (*)(void (*)(void), int))target("target_recurse"))(walk_it_all, 20000);
	forget_walker();
	return argument;
}

static void twenty_thousand_frames(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;

	(void)state;
	target("target_recurse");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 32u << 20);
	pthread_create(&thread, &attributes, recurse_very_deeply, NULL);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	assert_int_equal(count_here, FRAMES_MAX);
	assert_int_equal(end_here, stack_end_depth);
	assert_in_range(very_many_count, 20002, 20010);
	assert_int_equal(very_many_end, stack_end_complete);
}

/* --- other stacks --- */

static ucontext_t outside, inside;

static void coroutine(void)
{
	uint64_t theirs[REFERENCE_MAX];
	struct stack_registers registers;
	unsigned n, m;

	STACK_CAPTURE(&registers);
	n = stack_walk(walker_of_thread(), &registers, frames_here, FRAMES_MAX, &end_here);
	m = (unsigned)backtrace((void **)theirs, REFERENCE_MAX);
	assert_same(frames_here, n, theirs, m);
}

static void coroutines(void **state)
{
	enum { BYTES = 1 << 18 };
	uint8_t *stack = mmap(NULL, BYTES + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	/* With unmapped pages on both sides: reading past its end would fault. */
	mprotect(stack + 4096, BYTES, PROT_READ | PROT_WRITE);
	for (int i = 0; i < 200; i++) {
		getcontext(&inside);
		inside.uc_stack.ss_sp = stack + 4096;
		inside.uc_stack.ss_size = BYTES;
		inside.uc_link = &outside;
		makecontext(&inside, coroutine, 0);
		swapcontext(&outside, &inside);
	}
	munmap(stack, BYTES + 8192);
	check_here();
}

static uint64_t random_word(uint64_t *seed, const uint64_t *words, unsigned count)
{
	uint64_t r = *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;

	switch (r >> 33 & 7) {
	case 0:
		return r;
	case 1:
		return r >> 17; /* some user address */
	case 2:
	case 3:
		return (uint64_t)&words[(r >> 40) % count];
	case 4:
		return (uint64_t)qsort + (r >> 50);
	case 5:
		return (uint64_t)check_here + (r >> 55);
	case 6:
		return very_many[(r >> 40) % 20000];
	default:
		return r >> 60;
	}
}

/* Damaged stacks and registers lead nowhere, but do no harm, and end. */
static void damaged_stacks(void **state)
{
	enum { WORDS = 512 };
	uint64_t *words = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		 seed = 7;

	(void)state;
	words += 512;
	mprotect(words, 4096, PROT_READ | PROT_WRITE);
	for (int round = 0; round < 20000; round++) {
		struct stack_registers registers = { .known = seed & REGISTERS_ALL };

		for (unsigned i = 0; i < WORDS; i++)
			words[i] = random_word(&seed, words, WORDS);
		for (unsigned i = 0; i < REG_COUNT_; i++)
			registers.at[i] = random_word(&seed, words, WORDS);
		registers.known |=
			REGISTER_BIT(REG_RA_) | REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_FP_);
		registers.interrupted = round & 1;
		stack_walk(walker_of_thread(), &registers, frames_here, FRAMES_MAX, &end_here);
	}
	munmap(words - 512, 3 * 4096);
	check_here();
}

/* --- frames that are left out --- */

static void skipped_frames(void **state)
{
	struct code_range skip;
	uint64_t first;

	(void)state;
	walk_here();
	first = frames_here[1];
	skip = (struct code_range){ frame_lookup_address(frames_here[0]), frames_here[0] + 1 };
	stack_walker_skip(walker_of_thread(), &skip, 1);
	walk_here();
	assert_true(count_here > 1 && !reaches(skip.end - 1));
	/* The same function, a few calls later. */
	assert_in_range(frames_here[0], first, first + 400);
	assert_int_equal(end_here, stack_end_complete);
	stack_walker_skip(walker_of_thread(), NULL, 0);
	check_here();
}

static void a_walk_in_a_walk_is_refused(void **state)
{
	(void)state;
	walker_of_thread()->busy = true;
	walk_here();
	assert_int_equal(count_here, 0);
	assert_int_equal(end_here, stack_end_partial);
	walker->busy = false;
}

/* --- at every instruction, continued --- */

static void do_nothing(void)
{
	__asm__ volatile("");
}

/* Through PLTs, the dynamic linker's trampoline, assembly, prologues and epilogues. */
static void work_to_step(void)
{
	char text[64];

	by_saved(do_nothing);
	by_memory(do_nothing);
	snprintf(text, sizeof(text), "%d %s %g", steps, "text", 3.25);
	((double (*)(void (*)(void)))target("target_virtual"))(do_nothing);
	((int (*)(void (*)(void), int))target("target_recurse"))(do_nothing, 5);
}

__attribute__((noinline)) static void stepped(void)
{
	struct stack_registers registers;
	enum stack_end end;

	STACK_CAPTURE(&registers);
	outer_count = stack_walk(walker_of_thread(), &registers, outer, FRAMES_MAX, &end);
	trap_on();
	do
		work_to_step();
	while (!TRAPS_EACH_INSTRUCTION && steps < TIMER_STEPS);
	trap_off();
}

static void every_instruction(void **state)
{
	(void)state;
#ifdef __SANITIZE_THREAD__
	/* a trap after each instruction of ThreadSanitizer's own: newer ones do not bear it */
	skip();
#endif
	target("target_virtual");
	signal(TRAP, SIG_IGN); /* after the handler: a timer's last signal may come late */
	with_handler(TRAP, single_step, SA_RESTART, stepped);
	if (first_wrong)
		print_message("first wrong stack at %#lx\n", first_wrong);
	print_message("%u instructions, %u stacks incomplete, %u different\n", steps, incomplete,
		      different);
	assert_true(steps >= TIMER_STEPS);
	assert_int_equal(different, 0);
	assert_int_equal(incomplete, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_calls),
		cmocka_unit_test(deep_and_wide_frames),
		cmocka_unit_test(stacks_like_the_last_one),
		cmocka_unit_test(callbacks_of_libc),
		cmocka_unit_test(optimised_cplusplus),
		cmocka_unit_test(odd_rules),
		cmocka_unit_test(threads_end_at_their_start),
		cmocka_unit_test(signal_handlers),
		cmocka_unit_test(signal_handlers_on_their_own_stack),
		cmocka_unit_test(code_without_rules),
		cmocka_unit_test(code_made_at_run_time),
		cmocka_unit_test(plts_without_rules),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(twenty_thousand_frames),
		cmocka_unit_test(coroutines),
		cmocka_unit_test(damaged_stacks),
		cmocka_unit_test(skipped_frames),
		cmocka_unit_test(a_walk_in_a_walk_is_refused),
		cmocka_unit_test(every_instruction),
	};

	int failed;

	stack_modules_init(&modules, STACK_RULE_BYTES);
	libunwind();
	compile_all_parts(&modules);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	forget_walker();
	stack_modules_release(&modules);
	memset(&modules, 0, sizeof(modules));
	stack_modules_init(&modules, 1); /* no part fits: each rule is read when it is needed */
	compile_all_parts(&modules);
	failed += cmocka_run_group_tests_name("nothing compiled", tests, NULL, NULL);
	return failed + (modules.parts != 0);
}
