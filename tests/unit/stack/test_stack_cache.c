/*
 * Stacks that are found again by their words are those that a walk finds; in random calls,
 * repeated.
 */
#include "stack/stack_cache.h"

#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/map.h"
#include "support/cmocka_tests.h"
#include "stack/intern.h"
#include "all_parts.h"

#define FRAMES 128u

static struct stack_modules modules;

/* What a thread has, and what it saw. */
struct thread {
	struct stack_walker walker;
	struct stack_cache cache;
	struct interner stacks; /* frames -> number */
	uint64_t found, walked, wrong, incomplete;
	uint64_t path; /* digits to the base of the number of functions below: which call which */
	volatile uint64_t sink;
};

static __thread struct thread *self;

static struct thread *thread_new(void)
{
	struct thread *t = calloc(1, sizeof(*t));

	interner_init(&t->stacks);
	assert_true(stack_walker_init(&t->walker, &modules));
	return t;
}

static void thread_free(struct thread *t)
{
	stack_walker_release(&t->walker);
	interner_release(&t->stacks);
	free(t);
}

/* As the recorder does, but a stack that was found is walked all the same. */
static void take(void)
{
	const struct cache_python none = { .runtime = NULL };
	struct thread *t = self;
	struct stack_registers registers;
	uint64_t frames[FRAMES];
	enum stack_end end;
	uint32_t found, number;
	unsigned n;
	int64_t id;

	STACK_CAPTURE(&registers);
	found = stack_cache_find(&t->cache, &t->walker, &registers, &none);
	n = stack_walk(&t->walker, &registers, frames, FRAMES, &end);
	id = interner_add(&t->stacks, frames, n * sizeof(*frames), NULL);
	assert_true(id >= 0);
	number = (uint32_t)id + 1;
	t->incomplete += end != stack_end_complete;
	t->wrong += found && (found != number || end != stack_end_complete);
	if (found)
		t->found++;
	else
		t->walked++;
	if (!found && end == stack_end_complete)
		stack_cache_add(&t->cache, &t->walker, &registers, &none, number);
}

static void next(void);

#define FUNCTION(name, ...)                                                                        \
	static __attribute__((noinline)) void name(void)                                           \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
		next();                                                                            \
		__asm__ volatile("");                                                              \
	}

FUNCTION(small, volatile int x = 1; self->sink += (uint64_t)x)
FUNCTION(wide, volatile char x[500]; x[0] = 1; x[499] = x[0])
FUNCTION(dynamic, volatile char *x = alloca(16 + self->path % 7 * 48); x[0] = 1)
FUNCTION(aligned, _Alignas(64) volatile char x[64]; x[3] = 1; self->sink += (uint64_t)x[3])
/* Has a value of its own in rbp, if the compiler likes, that differs from call to call. */
static __attribute__((noinline)) void busy_registers(void)
{
	uint64_t a = self->sink, b = a * 3, c = a ^ 5, d = b + c, e = d * 7, f = e - a;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	next();
	self->sink += a + b + c + d + e + f;
}

static int by_qsort(const void *a, const void *b)
{
	(void)a;
	(void)b;
	next();
	return 0;
}

FUNCTION(through_libc, int numbers[2] = { 2, 1 }; qsort(numbers, 2, sizeof(int), by_qsort); return )

static void (*const functions[])(void) = { take,    small,          wide,        dynamic,
					   aligned, busy_registers, through_libc };

static void next(void)
{
	uint64_t digit = self->path % ARRAY_SIZE(functions);

	self->path /= ARRAY_SIZE(functions);
	functions[digit]();
}

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 16;
}

static void run(uint64_t seed, unsigned kinds, unsigned rounds)
{
	uint64_t *paths = calloc(kinds, sizeof(*paths)), order = seed * 77;

	for (unsigned i = 0; i < kinds; i++)
		paths[i] = random_next(&seed);
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < kinds; i++) {
			bool odd = random_next(&order) % 16 == 0;

			self->path = paths[odd ? random_next(&order) % kinds : i];
			next();
		}
	}
	free(paths);
}

static void loops_are_remembered(void **state)
{
	(void)state;
	self = thread_new();
	run(1, 20, 300);
	assert_int_equal(self->wrong, 0);
	assert_int_equal(self->incomplete, 0);
	assert_true(self->walked > 0);
	assert_true(self->found > 20 * self->walked);
	thread_free(self);
}

/* Under ThreadSanitizer fewer: this is one thread's. */
#ifdef __SANITIZE_THREAD__
#define STACKS 10
#else
#define STACKS 40
#endif

/* More than there is room for: all is forgotten now and then, and nothing is wrong. */
static void many_stacks(void **state)
{
	(void)state;
	self = thread_new();
	for (unsigned i = 0; i < STACKS; i++)
		run(1000 + i, 400, 3);
	assert_int_equal(self->wrong, 0);
	assert_true(self->found > 25 * STACKS);
	assert_true(self->cache.used <= CACHE_BYTES);
	thread_free(self);
}

static void stacks_that_never_come_back(void **state)
{
	(void)state;
	self = thread_new();
	for (unsigned i = 0; i < 8000; i++)
		run(77 + i * 13, 1, 1);
	assert_int_equal(self->wrong, 0);
	thread_free(self);
}

static void *in_thread(void *seed)
{
	struct thread *t = self = thread_new();

	run((uint64_t)(uintptr_t)seed, 30, 200);
	return t;
}

static void threads_have_their_own(void **state)
{
	pthread_t threads[4];
	void *result;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, in_thread, (void *)(uintptr_t)(i + 5)),
			0);
	for (unsigned i = 0; i < ARRAY_SIZE(threads); i++) {
		struct thread *t;

		pthread_join(threads[i], &result);
		t = result;
		assert_int_equal(t->wrong, 0);
		assert_true(t->found > t->walked);
		thread_free(t);
	}
}

/* Modules that come or go may change what an address means. */
static void modules_change(void **state)
{
	uint64_t found, walked;

	(void)state;
	self = thread_new();
	run(3, 10, 20);
	found = self->found;
	self->cache.generation--; /* as if the map were another one than at the last stack */
	walked = self->walked;
	run(3, 10, 1);
	assert_true(self->walked > walked);
	run(3, 10, 20);
	assert_true(self->found > found);
	assert_int_equal(self->wrong, 0);
	thread_free(self);
}

static void in_handler(int number)
{
	const struct cache_python none = { .runtime = NULL };
	struct stack_registers registers;

	(void)number;
	STACK_CAPTURE(&registers);
	self->found += stack_cache_find(&self->cache, &self->walker, &registers, &none);
	stack_cache_add(&self->cache, &self->walker, &registers, &none, 1);
}

/* A signal handler that interrupted a walk leaves the cache alone. */
static void not_in_a_walk(void **state)
{
	(void)state;
	self = thread_new();
	signal(SIGUSR1, in_handler);
	run(4, 10, 20);
	self->found = 0;
	self->walker.busy = true;
	raise(SIGUSR1);
	assert_true(self->walker.busy);
	assert_int_equal(self->found, 0);
	self->walker.busy = false;
	run(4, 10, 20);
	assert_int_equal(self->wrong, 0);
	thread_free(self);
}

/* The same call site, so that only what is called differs. */
static void only_what_was_met(void **state)
{
	static const struct {
		uint64_t seed;
		bool is_known;
	} runs[] = { { 9, false }, { 9, true }, { 10, false }, { 9, true }, { 10, true } };

	(void)state;
	self = thread_new();
	for (unsigned i = 0; i < ARRAY_SIZE(runs); i++) {
		uint64_t walked = self->walked;

		run(runs[i].seed, 1, 1);
		assert_int_equal(self->walked == walked, runs[i].is_known);
	}
	assert_int_equal(self->wrong, 0);
	thread_free(self);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loops_are_remembered),
		cmocka_unit_test(many_stacks),
		cmocka_unit_test(stacks_that_never_come_back),
		cmocka_unit_test(threads_have_their_own),
		cmocka_unit_test(modules_change),
		cmocka_unit_test(not_in_a_walk),
		cmocka_unit_test(only_what_was_met),
	};

	stack_modules_init(&modules, STACK_RULE_BYTES);
	/*
	 * What is not compiled is read on the spot, but not for ever: frames that share a place in
	 * the walker's cache would use that up.
	 */
	compile_all_parts(&modules);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
