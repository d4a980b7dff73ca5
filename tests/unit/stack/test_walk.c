/* link: -rdynamic */
/*
 * The walker against glibc's and libunwind's, frame by frame, through code of all kinds; and, one
 * instruction at a time, against what the stack must be.
 */
#include "stack/walk.h"

#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "walk_reference.h"

#define FRAMES_MAX 512u

void bare_frame(void (*call)(void));
void bare_none(void (*call)(void));
void by_rbx(void (*call)(void));
void by_memory(void (*call)(void));
void by_unknown(void (*call)(void));
void trap_on(void);
void trap_off(void);

static struct stack_modules modules;
static __thread struct stack_walker *walker;
static unsigned checks;		/* stacks compared */

static void update_modules(void)
{
	while (stack_modules_update(&modules, 1000000000) != 0)
		;
}

/* Builds the tables of all modules, not only of those that launches usually go through. */
static void build_all(void)
{
	struct stack_map *map;

	update_modules();
	map = atomic_load(&modules.map);
	for (size_t i = 0; i < map->count; i++)
		atomic_store(&map->ranges[i].module->wanted, true);
	update_modules();
}

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

/* frames[from…] of two walks that began in the same function. */
static void assert_same(const uint64_t *ours, unsigned our_count, const uint64_t *theirs,
			unsigned their_count)
{
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
		build_all();
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
	by_rbx(check_here);
	by_memory(check_here);
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

static void registers_of(const ucontext_t *context, struct stack_registers *r)
{
	static const int order[REG_COUNT_] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					       REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					       REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP };

	r->known = (1u << REG_COUNT_) - 1;
	r->interrupted = true;
	for (int i = 0; i < REG_COUNT_; i++)
		r->at[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
}

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
	stack_t stack = { .ss_sp = malloc(1 << 20), .ss_size = 1 << 20 }, none = { .ss_flags = SS_DISABLE };

	(void)state;
	sigaltstack(&stack, NULL);
	with_handler(SIGUSR1, handle_and_check, SA_ONSTACK, raise_deep);
	sigaltstack(&none, NULL);
	free(stack.ss_sp);
}

/* --- at every instruction --- */

static uint64_t outer[FRAMES_MAX];	/* the stack of stepped(), whose caller's are at the end of all */
static unsigned outer_count;
static unsigned steps, incomplete, different;
static uint64_t first_wrong;

static void compare_tail(const uint64_t *frames, unsigned n, enum stack_end end, uint64_t pc)
{
	steps++;
	/* All but stepped()'s own frame, where the pc moves on. */
	if (end != stack_end_complete)
		incomplete++;
	else if (n < outer_count ||
		 memcmp(frames + n - (outer_count - 1), outer + 1,
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
	registers_of(context, &registers);
	n = stack_walk(walker, &registers, frames, FRAMES_MAX, &end);
	compare_tail(frames, n, end, registers.at[REG_RA_]);
}

static void do_nothing(void)
{
	__asm__ volatile("");
}

/* Through PLTs, the dynamic linker's trampoline, assembly, prologues and epilogues. */
static void work_to_step(void)
{
	char text[64];

	by_rbx(do_nothing);
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
	work_to_step();
	trap_off();
}

static void every_instruction(void **state)
{
	(void)state;
	target("target_virtual");
	with_handler(SIGTRAP, single_step, 0, stepped);
	if (first_wrong)
		print_message("first wrong stack at %#lx\n", first_wrong);
	print_message("%u instructions, %u stacks incomplete, %u different\n", steps, incomplete,
		      different);
	assert_true(steps > 3000);
	assert_int_equal(different, 0);
	assert_int_equal(incomplete, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_calls),
		cmocka_unit_test(deep_and_wide_frames),
		cmocka_unit_test(callbacks_of_libc),
		cmocka_unit_test(optimised_cplusplus),
		cmocka_unit_test(odd_rules),
		cmocka_unit_test(threads_end_at_their_start),
		cmocka_unit_test(signal_handlers),
		cmocka_unit_test(signal_handlers_on_their_own_stack),
		cmocka_unit_test(every_instruction),
	};

	stack_modules_init(&modules, STACK_TABLE_BYTES);
	libunwind();
	build_all();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
